//! Distinct strings, each kept once and known by its number.

use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};

use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, LargeStringArray, UInt32Array};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::columns::arrow::{NONE, nulls};

/// Distinct strings, numbered in order of first appearance.
#[derive(Default)]
pub struct Interner {
    table: HashTable<u32>,
    hasher: RandomState,
    text: Vec<u8>,
    ends: Vec<usize>,
    values: OnceLock<ArrayRef>,
}

impl Interner {
    #[inline]
    pub fn code(&mut self, bytes: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(bytes);
        let (text, ends) = (&self.text, &self.ends);
        if let Some(&code) = self.table.find(hash, |&code| slice(text, ends, code) == bytes) {
            return code;
        }
        self.insert(hash, bytes)
    }

    #[cold]
    fn insert(&mut self, hash: u64, bytes: &[u8]) -> u32 {
        let code = self.ends.len() as u32;
        self.text.extend_from_slice(bytes);
        self.ends.push(self.text.len());
        self.values.take();
        let (text, ends, hasher) = (&self.text, &self.ends, &self.hasher);
        self.table.insert_unique(hash, code, |&code| hasher.hash_one(slice(text, ends, code)));
        code
    }

    pub fn get(&self, code: u32) -> &[u8] {
        slice(&self.text, &self.ends, code)
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len() as u32).map(|code| self.get(code))
    }

    /// Take the strings out of another; returns the code each has here, by its code there.
    pub fn adopt(&mut self, other: &mut Interner) -> Vec<u32> {
        let codes = other.iter().map(|text| self.code(text)).collect();
        other.clear();
        codes
    }

    pub fn clear(&mut self) {
        self.table.clear();
        self.text.clear();
        self.ends.clear();
        self.values.take();
    }

    /// The strings as an Arrow array, made once; what is no UTF-8 is replaced.
    fn values(&self) -> ArrayRef {
        let make = || {
            let offsets = std::iter::once(0).chain(self.ends.iter().map(|&end| end as i64));
            let offsets = OffsetBuffer::new(ScalarBuffer::from_iter(offsets));
            let array = LargeStringArray::try_new(offsets, Buffer::from_slice_ref(&self.text), None)
                .unwrap_or_else(|_| LargeStringArray::from_iter_values(self.iter().map(String::from_utf8_lossy)));
            Arc::new(array) as ArrayRef
        };
        self.values.get_or_init(make).clone()
    }

    /// Codes (`NONE` for null) with their strings as the dictionary.
    pub fn dictionary(&self, codes: impl Iterator<Item = u32>) -> ArrayRef {
        let mut codes: Vec<u32> = codes.collect();
        // A short column does not carry the strings of all others.
        let values = if codes.len() < self.len() { self.used_values(&mut codes) } else { self.values() };
        let nulls = nulls(&codes);
        if nulls.is_some() {
            // The slots of nulls must hold valid codes too.
            codes.iter_mut().filter(|code| **code == NONE).for_each(|code| *code = 0);
        }
        let values = if values.is_empty() { no_label() } else { values };
        Arc::new(DictionaryArray::<UInt32Type>::new(UInt32Array::new(codes.into(), nulls), values))
    }

    /// The strings that `codes` name, numbered anew in their order.
    fn used_values(&self, codes: &mut [u32]) -> ArrayRef {
        let mut anew = vec![NONE; self.len()];
        let mut used = Vec::new();
        for code in codes.iter_mut().filter(|code| **code != NONE) {
            let number = &mut anew[*code as usize];
            if *number == NONE {
                *number = used.len() as u32;
                used.push(*code);
            }
            *code = *number;
        }
        let texts = used.into_iter().map(|code| String::from_utf8_lossy(self.get(code)));
        Arc::new(LargeStringArray::from_iter_values(texts))
    }
}

/// A column of labels that are all null.
pub fn no_labels(count: usize) -> ArrayRef {
    Arc::new(DictionaryArray::<UInt32Type>::new(UInt32Array::new_null(count), no_label()))
}

/// What the slots of nulls refer to where there are no strings.
fn no_label() -> ArrayRef {
    Arc::new(LargeStringArray::from_iter_values([""]))
}

fn slice<'a>(text: &'a [u8], ends: &[usize], code: u32) -> &'a [u8] {
    let code = code as usize;
    let start = if code == 0 { 0 } else { ends[code - 1] };
    &text[start..ends[code]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_keeps_its_code() {
        let mut strings = Interner::default();
        let codes: Vec<u32> = ["a", "bb", "a", "", "bb"].iter().map(|s| strings.code(s.as_bytes())).collect();
        assert_eq!(codes, [0, 1, 0, 2, 1]);
        assert_eq!(strings.get(1), b"bb");
        for i in 0..10_000 {
            strings.code(format!("name {i}").as_bytes());
        }
        assert_eq!(strings.code(b"bb"), 1);
        assert_eq!(strings.len(), 10_003);
    }
}
