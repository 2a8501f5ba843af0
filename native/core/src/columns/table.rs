//! Column builders, interned strings, and Arrow out.

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::types::UInt32Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int64Array, LargeStringArray, RecordBatch, UInt32Array,
    new_null_array,
};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema};
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::error::{Error, Result};

/// Stands for "no value" among codes, rows and ids.
pub const NONE: u32 = u32::MAX;

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
fn no_labels(count: usize) -> ArrayRef {
    Arc::new(DictionaryArray::<UInt32Type>::new(UInt32Array::new_null(count), no_label()))
}

/// What the slots of nulls refer to where there are no strings.
fn no_label() -> ArrayRef {
    Arc::new(LargeStringArray::from_iter_values([""]))
}

/// Where there is `NONE`, if anywhere.
fn nulls(codes: &[u32]) -> Option<NullBuffer> {
    let has_nulls = codes.contains(&NONE);
    has_nulls.then(|| NullBuffer::from(BooleanBuffer::collect_bool(codes.len(), |at| codes[at] != NONE)))
}

fn slice<'a>(text: &'a [u8], ends: &[usize], code: u32) -> &'a [u8] {
    let code = code as usize;
    let start = if code == 0 { 0 } else { ends[code - 1] };
    &text[start..ends[code]]
}

/// How the values of an arg are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgType {
    Int,
    Float,
    Text,
}

/// Values of one arg, for the rows that have it.
pub struct ArgColumn {
    pub key: String,
    pub rows: Vec<u32>,
    pub values: ArgValues,
}

pub enum ArgValues {
    Int(Vec<i64>),
    Float(Vec<f64>),
    Text(Vec<u32>, Interner),
}

impl ArgColumn {
    pub fn new(key: String, kind: ArgType) -> Self {
        let values = match kind {
            ArgType::Int => ArgValues::Int(Vec::new()),
            ArgType::Float => ArgValues::Float(Vec::new()),
            ArgType::Text => ArgValues::Text(Vec::new(), Interner::default()),
        };
        Self { key, rows: Vec::new(), values }
    }

    /// Forget the last value.
    pub fn pop(&mut self) {
        self.rows.pop();
        match &mut self.values {
            ArgValues::Int(values) => drop(values.pop()),
            ArgValues::Float(values) => drop(values.pop()),
            ArgValues::Text(codes, _) => drop(codes.pop()),
        }
    }

    /// Take the values out of another column of the same arg, whose rows begin at `first_row` here.
    pub fn append(&mut self, other: &mut ArgColumn, first_row: u32) {
        self.rows.extend(other.rows.drain(..).map(|row| row + first_row));
        match (&mut self.values, &mut other.values) {
            (ArgValues::Int(values), ArgValues::Int(others)) => values.append(others),
            (ArgValues::Float(values), ArgValues::Float(others)) => values.append(others),
            (ArgValues::Text(codes, strings), ArgValues::Text(others, other_strings)) => {
                let here = strings.adopt(other_strings);
                codes.extend(others.drain(..).map(|code| here[code as usize]));
            }
            _ => unreachable!("columns of one arg have one type"),
        }
    }

    /// Positions of the values of a stretch of rows.
    pub fn within(&self, rows: Range<u32>) -> Range<usize> {
        self.rows.partition_point(|&row| row < rows.start)..self.rows.partition_point(|&row| row < rows.end)
    }

    /// The position of each of `wanted` (ascending rows) among this column's values; `NONE` where there is none.
    pub fn positions<'a>(&'a self, wanted: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
        let mut at = wanted.first().map_or(0, |first| self.rows.partition_point(|row| row < first));
        wanted.iter().map(move |&row| {
            while at < self.rows.len() && self.rows[at] < row {
                at += 1;
            }
            if self.rows.get(at) == Some(&row) { at as u32 } else { NONE }
        })
    }

    /// This column for `wanted` rows (ascending), null where there is no value.
    pub fn array(&self, wanted: &[u32]) -> ArrayRef {
        match (&self.values, span(wanted)) {
            // Memory that nobody wrote to is no memory yet.
            (ArgValues::Int(_), _) if self.rows.is_empty() => new_null_array(&DataType::Int64, wanted.len()),
            (ArgValues::Float(_), _) if self.rows.is_empty() => new_null_array(&DataType::Float64, wanted.len()),
            (ArgValues::Text(..), _) if self.rows.is_empty() => no_labels(wanted.len()),
            // Where all rows of a stretch are wanted, only those with a value need a look.
            (ArgValues::Int(values), Some(stretch)) => Arc::new(self.stretched(stretch, values)),
            _ => self.gathered(&self.positions(wanted).collect::<Vec<_>>()),
        }
    }

    /// The same, but where a row has no value, that of the column's row in `instead`.
    ///
    /// Such rows stand behind all of `wanted` in this column, from `first` on.
    pub fn array_or(&self, wanted: &[u32], first: u32, instead: impl Iterator<Item = u32>) -> ArrayRef {
        let begin = self.rows.partition_point(|&row| row < first);
        let others = &self.rows[begin..];
        if others.is_empty() {
            return self.array(wanted);
        }
        let mut places = vec![NONE; others.last().map_or(0, |&row| (row - first) as usize + 1)];
        for (at, &row) in others.iter().enumerate() {
            places[(row - first) as usize] = (begin + at) as u32;
        }
        let shared = instead.map(|row| places.get(row as usize).copied().unwrap_or(NONE));
        let own = self.positions(wanted);
        let positions = own.zip(shared).map(|(own, shared)| if own == NONE { shared } else { own });
        self.gathered(&positions.collect::<Vec<_>>())
    }

    fn stretched(&self, stretch: Range<u32>, values: &[i64]) -> Int64Array {
        let mut found = vec![0; stretch.len()];
        let mut has_value = BooleanBufferBuilder::new(stretch.len());
        has_value.append_n(stretch.len(), false);
        let there = self.within(stretch.clone());
        for (row, value) in self.rows[there.clone()].iter().zip(&values[there]) {
            let at = (row - stretch.start) as usize;
            found[at] = *value;
            has_value.set_bit(at, true);
        }
        Int64Array::new(found.into(), Some(NullBuffer::new(has_value.finish())))
    }

    fn gathered(&self, positions: &[u32]) -> ArrayRef {
        fn of<T: Copy>(values: &[T], positions: &[u32], none: T) -> Vec<T> {
            positions.iter().map(|&at| values.get(at as usize).copied().unwrap_or(none)).collect()
        }
        match &self.values {
            ArgValues::Int(values) => Arc::new(Int64Array::new(of(values, positions, 0).into(), nulls(positions))),
            ArgValues::Float(values) => {
                Arc::new(Float64Array::new(of(values, positions, 0.0).into(), nulls(positions)))
            }
            ArgValues::Text(codes, strings) => strings.dictionary(of(codes, positions, NONE).into_iter()),
        }
    }
}

/// The values of some ascending rows.
pub fn at_rows<T: Copy>(values: &[T], rows: &[u32]) -> Vec<T> {
    match span(rows) {
        Some(stretch) => values[stretch.start as usize..stretch.end as usize].to_vec(),
        None => rows.iter().map(|&row| values[row as usize]).collect(),
    }
}

/// The rows, where they are all of a stretch.
fn span(rows: &[u32]) -> Option<Range<u32>> {
    let (&first, &last) = (rows.first()?, rows.last()?);
    ((last - first) as usize + 1 == rows.len()).then(|| first..last + 1)
}

pub fn ids(values: impl Iterator<Item = u32>) -> ArrayRef {
    Arc::new(UInt32Array::from_iter(values.map(|value| (value != NONE).then_some(value))))
}

pub fn all_ids(values: impl Iterator<Item = u32>) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(values))
}

pub fn times(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

pub fn times_or_null(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(Int64Array::from_iter(values))
}

/// Named columns of equal length.
pub fn batch(columns: Vec<(String, ArrayRef)>) -> Result<RecordBatch> {
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|error| Error::Unknown(error.to_string()))
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

    #[test]
    fn a_stretch_of_rows_is_filled_where_there_are_values() {
        let mut column = ArgColumn::new("bytes".into(), ArgType::Int);
        column.rows = vec![1, 4, 7];
        column.values = ArgValues::Int(vec![10, 40, 70]);
        for (wanted, found) in
            [(vec![3, 4, 5], vec![None, Some(40), None]), (vec![7], vec![Some(70)]), (vec![], vec![])]
        {
            let array = column.array(&wanted);
            let array = array.as_any().downcast_ref::<Int64Array>().unwrap();
            assert_eq!(array.iter().collect::<Vec<_>>(), found);
        }
    }

    #[test]
    fn rows_without_the_arg_are_null() {
        let mut column = ArgColumn::new("bytes".into(), ArgType::Int);
        column.rows = vec![1, 4];
        column.values = ArgValues::Int(vec![10, 40]);
        let array = column.array(&[0, 1, 3, 4]);
        let array = array.as_any().downcast_ref::<Int64Array>().unwrap();
        assert_eq!(array.iter().collect::<Vec<_>>(), [None, Some(10), None, Some(40)]);
    }
}
