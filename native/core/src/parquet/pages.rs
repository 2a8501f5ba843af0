//! Values of a column as the pages of a Parquet file.

use std::io;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt32Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use zstd::bulk::Compressor;
use zstd::zstd_safe::compress_bound;

use crate::columns::table::NONE;
use crate::error::{Error, Result};
use crate::parquet::thrift::{Struct, varint, zigzag};

/// 3 saves 4%, 9 saves 5%, and they take 10% and 300% longer.
const ZSTD_LEVEL: i32 = 1;
/// Values of a block, and of each of its miniblocks, of numbers written as deltas: what other writers use.
const DELTA_BLOCK: usize = 128;
const DELTA_MINIBLOCK: usize = 32;

/// How the values of a column are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bool,
    /// Without a sign.
    U32,
    I64,
    F64,
    Text,
}

impl Kind {
    pub fn of(kind: &DataType) -> Result<Self> {
        Ok(match kind {
            DataType::Boolean => Self::Bool,
            DataType::UInt32 => Self::U32,
            DataType::Int64 => Self::I64,
            DataType::Float64 => Self::F64,
            DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Dictionary(key, value) if **key == DataType::UInt32 => match Self::of(value)? {
                Self::Text => Self::Text,
                _ => return Err(Error::Unknown(format!("type {kind}"))),
            },
            _ => return Err(Error::Unknown(format!("type {kind}"))),
        })
    }
}

/// As Parquet numbers them.
#[derive(Clone, Copy)]
pub enum Encoding {
    Plain = 0,
    Rle = 3,
    Delta = 5,
    Dictionary = 8,
}

/// The values of some rows of a column.
pub struct Chunk {
    /// Its pages, one after another, with their headers.
    pub bytes: Vec<u8>,
    /// Of the dictionary's page, where there is one.
    pub dictionary_bytes: usize,
    /// What `bytes` would take if they were not compressed.
    pub unpacked_bytes: usize,
    pub rows: usize,
    pub encoding: Encoding,
    pub null_count: usize,
    /// The least and the greatest, as they are stored.
    pub range: Option<[[u8; 8]; 2]>,
}

/// Makes chunks; keeps its memory from one to the next.
pub struct Packer {
    zstd: Compressor<'static>,
    body: Vec<u8>,
    packed: Vec<u8>,
    rows: Vec<u32>,
    numbers: Vec<i64>,
    codes: Vec<u32>,
}

impl Packer {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            zstd: Compressor::new(ZSTD_LEVEL)?,
            body: Vec::new(),
            packed: Vec::new(),
            rows: Vec::new(),
            numbers: Vec::new(),
            codes: Vec::new(),
        })
    }

    /// The chunk of a column that has these rows of it, in their order.
    pub fn chunk(&mut self, column: &ArrayRef, rows: &[u32]) -> Result<Chunk> {
        let mut chunk = Chunk {
            bytes: Vec::new(),
            dictionary_bytes: 0,
            unpacked_bytes: 0,
            rows: rows.len(),
            encoding: Encoding::Plain,
            null_count: 0,
            range: None,
        };
        let mut present = std::mem::take(&mut self.rows);
        present.clear();
        self.body.clear();
        match column.nulls() {
            Some(nulls) if nulls.null_count() == column.len() => {}
            Some(nulls) => present.extend(rows.iter().filter(|row| nulls.is_valid(**row as usize))),
            None => present.extend_from_slice(rows),
        }
        chunk.null_count = rows.len() - present.len();
        self.levels(chunk.null_count, rows, column.nulls());
        self.values(&mut chunk, column, &present)?;
        self.rows = present;
        self.page(&mut chunk, |page, chunk| {
            let body = Struct::default()
                .i32(1, chunk.rows as i32)
                .i32(2, chunk.encoding as i32)
                .i32(3, Encoding::Rle as i32)
                .i32(4, Encoding::Rle as i32);
            page(0).inner(5, body)
        })?;
        Ok(chunk)
    }

    /// Which of the rows have a value.
    fn levels(&mut self, null_count: usize, rows: &[u32], nulls: Option<&NullBuffer>) {
        let body = &mut self.body;
        body.extend([0; 4]);
        match nulls {
            Some(nulls) if null_count > 0 && null_count < rows.len() => {
                varint((rows.len().div_ceil(8) as u64) << 1 | 1, body);
                bits(rows, |row| nulls.is_valid(row as usize), body);
            }
            _ => {
                varint((rows.len() as u64) << 1, body);
                body.push(u8::from(null_count == 0));
            }
        }
        let len = (body.len() - 4) as u32;
        body[..4].copy_from_slice(&len.to_le_bytes());
    }

    fn values(&mut self, chunk: &mut Chunk, column: &ArrayRef, rows: &[u32]) -> Result<()> {
        let body = &mut self.body;
        match Kind::of(column.data_type())? {
            Kind::Bool => {
                let values = column.as_boolean();
                bits(rows, |row| values.value(row as usize), body);
            }
            Kind::F64 => {
                let values = column.as_primitive::<Float64Type>().values();
                let values = || rows.iter().map(|&row| values[row as usize]);
                values().for_each(|value| body.extend_from_slice(&value.to_le_bytes()));
                chunk.range = range_of_floats(values());
            }
            Kind::I64 => {
                let values = column.as_primitive::<Int64Type>().values();
                self.numbers.clear();
                self.numbers.extend(rows.iter().map(|&row| values[row as usize]));
                chunk.range = range(self.numbers.iter().copied()).map(|both| both.map(i64::to_le_bytes));
                deltas(&self.numbers, |delta| delta, body);
                chunk.encoding = Encoding::Delta;
            }
            Kind::U32 => {
                let values = column.as_primitive::<UInt32Type>().values();
                self.numbers.clear();
                self.numbers.extend(rows.iter().map(|&row| i64::from(values[row as usize])));
                chunk.range = range(self.numbers.iter().copied()).map(|both| both.map(i64::to_le_bytes));
                // They wrap around, as numbers of 32 bits.
                deltas(&self.numbers, |delta| i64::from(delta as i32), body);
                chunk.encoding = Encoding::Delta;
            }
            Kind::Text => match column.as_dictionary_opt::<UInt32Type>() {
                Some(labels) => {
                    let (keys, texts) = (labels.keys().values(), Texts::of(labels.values())?);
                    let levels = std::mem::take(&mut self.body);
                    let used = self.labels(rows.iter().map(|&row| keys[row as usize]), labels.values().len());
                    self.dictionary(chunk, &used, &texts)?;
                    self.body = levels;
                    indices(&self.codes, used.len(), &mut self.body);
                    chunk.encoding = Encoding::Dictionary;
                }
                None => {
                    let texts = Texts::of(column)?;
                    rows.iter().for_each(|&row| text(texts.at(row), body));
                }
            },
        }
        Ok(())
    }

    /// Number labels anew, in their order, into `codes`; returns what each was.
    fn labels(&mut self, labels: impl Iterator<Item = u32>, count: usize) -> Vec<u32> {
        let (mut numbers, mut used) = (vec![NONE; count], Vec::new());
        self.codes.clear();
        self.codes.extend(labels.map(|label| {
            let number = &mut numbers[label as usize];
            if *number == NONE {
                *number = used.len() as u32;
                used.push(label);
            }
            *number
        }));
        used
    }

    fn dictionary(&mut self, chunk: &mut Chunk, used: &[u32], texts: &Texts) -> Result<()> {
        self.body.clear();
        used.iter().for_each(|&label| text(texts.at(label), &mut self.body));
        self.page(chunk, |page, _| {
            page(2).inner(7, Struct::default().i32(1, used.len() as i32).i32(2, Encoding::Plain as i32))
        })?;
        chunk.dictionary_bytes = chunk.bytes.len();
        Ok(())
    }

    /// Compress what is in `body`, and put it behind the pages that are there.
    fn page(&mut self, chunk: &mut Chunk, header: impl FnOnce(&dyn Fn(i32) -> Struct, &Chunk) -> Struct) -> Result<()> {
        // Its length has 32 bits.
        let length = i32::try_from(self.body.len()).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let most = compress_bound(self.body.len());
        self.packed.resize(most.max(self.packed.len()), 0);
        let packed = self.zstd.compress_to_buffer(&self.body, &mut self.packed[..])?;
        let packed = &self.packed[..packed];
        let begun = |kind| Struct::default().i32(1, kind).i32(2, length).i32(3, packed.len() as i32);
        let header = header(&begun, chunk).finish();
        chunk.unpacked_bytes += header.len() + self.body.len();
        chunk.bytes.extend(header);
        chunk.bytes.extend_from_slice(packed);
        Ok(())
    }
}

/// The strings of a column, or of its dictionary.
enum Texts<'a> {
    Large(&'a arrow_array::LargeStringArray),
    View(&'a arrow_array::StringViewArray),
}

impl<'a> Texts<'a> {
    fn of(array: &'a ArrayRef) -> Result<Self> {
        let large = array.as_string_opt::<i64>().map(Self::Large);
        large
            .or_else(|| array.as_string_view_opt().map(Self::View))
            .ok_or_else(|| Error::Unknown(format!("text in {}", array.data_type())))
    }

    fn at(&self, row: u32) -> &'a str {
        match self {
            Self::Large(array) => array.value(row as usize),
            Self::View(array) => array.value(row as usize),
        }
    }
}

fn text(text: &str, body: &mut Vec<u8>) {
    body.extend((text.len() as u32).to_le_bytes());
    body.extend(text.as_bytes());
}

/// A bit for each row, the first the lowest.
fn bits(rows: &[u32], of: impl Fn(u32) -> bool, body: &mut Vec<u8>) {
    body.extend(rows.chunks(8).map(|rows| {
        let bits = rows.iter().enumerate().map(|(at, &row)| u8::from(of(row)) << at);
        bits.sum::<u8>()
    }));
}

/// Numbers below `count`: in whole bytes, in which zstd finds more than in bits.
fn indices(codes: &[u32], count: usize, body: &mut Vec<u8>) {
    match count {
        0..=1 => {
            body.push(8);
            varint((codes.len() as u64) << 1, body);
            body.push(0);
        }
        2..=0x100 => lowest_bytes::<1>(codes, body),
        0x101..=0x1_0000 => lowest_bytes::<2>(codes, body),
        _ => lowest_bytes::<4>(codes, body),
    }
}

/// As many of each number, behind what says so; in groups of eight, the last one filled with zeros.
fn lowest_bytes<const N: usize>(codes: &[u32], body: &mut Vec<u8>) {
    let groups = codes.len().div_ceil(8);
    body.push(8 * N as u8);
    varint((groups as u64) << 1 | 1, body);
    let begin = body.len();
    body.resize(begin + groups * 8 * N, 0);
    for (bytes, code) in body[begin..].chunks_exact_mut(N).zip(codes) {
        bytes.copy_from_slice(&code.to_le_bytes()[..N]);
    }
}

/// Numbers as what each is more than the one before it; `wrapped` makes a difference one of the numbers' width.
fn deltas(numbers: &[i64], wrapped: impl Fn(i64) -> i64, body: &mut Vec<u8>) {
    varint(DELTA_BLOCK as u64, body);
    varint((DELTA_BLOCK / DELTA_MINIBLOCK) as u64, body);
    varint(numbers.len() as u64, body);
    varint(zigzag(wrapped(numbers.first().copied().unwrap_or(0))), body);
    let mut block = [0; DELTA_BLOCK];
    for start in (1..numbers.len()).step_by(DELTA_BLOCK) {
        let end = numbers.len().min(start + DELTA_BLOCK);
        let pairs = numbers[start - 1..end - 1].iter().zip(&numbers[start..end]);
        let mut least = i64::MAX;
        for (delta, (before, number)) in block.iter_mut().zip(pairs) {
            *delta = wrapped(number.wrapping_sub(*before));
            least = least.min(*delta);
        }
        // What is missing of the last block costs no bits.
        block[end - start..].fill(least);
        varint(zigzag(least), body);
        let widths = body.len();
        body.extend([0; DELTA_BLOCK / DELTA_MINIBLOCK]);
        for (at, miniblock) in block.chunks_exact(DELTA_MINIBLOCK).enumerate() {
            if at * DELTA_MINIBLOCK >= end - start {
                break;
            }
            let mut all = 0;
            let mut over = [0; DELTA_MINIBLOCK];
            for (over, delta) in over.iter_mut().zip(miniblock) {
                *over = delta.wrapping_sub(least) as u64;
                all |= *over;
            }
            let width = u64::BITS - all.leading_zeros();
            body[widths + at] = width as u8;
            pack(&over, width, body);
        }
    }
}

/// Numbers of some bits, one behind another, the lowest bits first.
fn pack(numbers: &[u64; DELTA_MINIBLOCK], width: u32, body: &mut Vec<u8>) {
    let (mut word, mut filled) = (0, 0);
    let mut bytes = [0; DELTA_MINIBLOCK * 8];
    let mut words = bytes.chunks_exact_mut(8);
    for &number in numbers {
        word |= number << filled;
        filled += width;
        if filled >= u64::BITS {
            words.next().into_iter().for_each(|bytes| bytes.copy_from_slice(&u64::to_le_bytes(word)));
            filled -= u64::BITS;
            word = if filled == 0 { 0 } else { number >> (width - filled) };
        }
    }
    // 32 numbers of any width fill whole words, or half of one more.
    words.next().into_iter().for_each(|bytes| bytes.copy_from_slice(&u64::to_le_bytes(word)));
    body.extend_from_slice(&bytes[..width as usize * DELTA_MINIBLOCK / 8]);
}

fn range<T: Ord + Copy>(mut values: impl Iterator<Item = T>) -> Option<[T; 2]> {
    let first = values.next()?;
    Some(values.fold([first; 2], |[least, greatest], value| [least.min(value), greatest.max(value)]))
}

/// None where there is a NaN, which has no place among them; zero is both zeros.
fn range_of_floats(values: impl Iterator<Item = f64> + Clone) -> Option<[[u8; 8]; 2]> {
    if values.clone().any(f64::is_nan) {
        return None;
    }
    let (least, greatest) = (values.clone().reduce(f64::min)?, values.reduce(f64::max)?);
    let both = [if least == 0.0 { -0.0 } else { least }, if greatest == 0.0 { 0.0 } else { greatest }];
    Some(both.map(f64::to_le_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_take_as_many_bits_as_the_largest_of_a_miniblock() {
        let mut body = Vec::new();
        deltas(&[7, 5, 3, 1, 2, 3, 4, 5], |delta| delta, &mut body);
        // 128 in blocks, four miniblocks, 8 values, the first 7; the least delta -2, widths; 0 0 0 3 3 3 3, then zeros.
        assert_eq!(body, [0x80, 1, 4, 8, 14, 3, 2, 0, 0, 0, 0xc0, 0x3f, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn numbers_of_any_width_are_packed_in_four_bytes_a_bit() {
        for width in 0..=64 {
            let numbers: [u64; DELTA_MINIBLOCK] = std::array::from_fn(|at| {
                let number = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(at as u64 + 1);
                if width == 0 { 0 } else { number >> (64 - width) }
            });
            let mut body = Vec::new();
            pack(&numbers, width, &mut body);
            assert_eq!(body.len(), 4 * width as usize);
            let bit = |at: usize| u64::from(body[at / 8] >> (at % 8) & 1);
            let unpacked =
                std::array::from_fn(|at| (0..width as usize).map(|i| bit(at * width as usize + i) << i).sum());
            assert_eq!(numbers, unpacked, "{width} bits");
        }
    }

    #[test]
    fn a_column_without_a_value_takes_some_bytes() {
        let column: ArrayRef = std::sync::Arc::new(arrow_array::Int64Array::new_null(100_000));
        let rows: Vec<u32> = (0..100_000).collect();
        let chunk = Packer::new().unwrap().chunk(&column, &rows).unwrap();
        assert_eq!((chunk.null_count, chunk.range), (100_000, None));
        assert!(chunk.bytes.len() < 64);
    }

    #[test]
    fn a_type_that_no_table_has_is_an_error() {
        assert!(Kind::of(&DataType::Int8).is_err());
        assert!(Kind::of(&DataType::Dictionary(DataType::UInt32.into(), DataType::Int64.into())).is_err());
    }
}
