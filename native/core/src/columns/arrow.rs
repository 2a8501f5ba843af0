//! Numbers of rows and times as Arrow columns.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{Field, Schema};

use crate::error::Result;

/// Stands for "no value" among codes, rows and ids.
pub const NONE: u32 = u32::MAX;

/// Where there is `NONE`, if anywhere.
pub fn nulls(codes: &[u32]) -> Option<NullBuffer> {
    let has_nulls = codes.contains(&NONE);
    has_nulls.then(|| NullBuffer::from(BooleanBuffer::collect_bool(codes.len(), |at| codes[at] != NONE)))
}

/// The values of some ascending rows.
pub fn at_rows<T: Copy>(values: &[T], rows: &[u32]) -> Vec<T> {
    match stretch(rows) {
        Some(all) => values[all.start as usize..all.end as usize].to_vec(),
        None => rows.iter().map(|&row| values[row as usize]).collect(),
    }
}

/// The rows, where they are all of a stretch.
pub fn stretch(rows: &[u32]) -> Option<Range<u32>> {
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
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}
