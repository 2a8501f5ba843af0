//! Values that only some rows have.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, new_null_array};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::DataType;

use crate::columns::arrow::{NONE, nulls, stretch};
use crate::columns::interner::{Interner, no_labels};
use crate::error::Result;

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

    /// Reserve what the values of another column need.
    pub fn make_room(&mut self, other: &ArgColumn) -> Result<()> {
        let count = other.rows.len();
        self.rows.try_reserve(count)?;
        match &mut self.values {
            ArgValues::Int(values) => values.try_reserve(count)?,
            ArgValues::Float(values) => values.try_reserve(count)?,
            ArgValues::Text(codes, _) => codes.try_reserve(count)?,
        }
        Ok(())
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

    /// Take the values out of another column of the same arg, whose rows are in any order and stand above those here.
    pub fn overlay(&mut self, other: &mut ArgColumn) {
        if other.rows.is_empty() {
            return;
        }
        self.append(other, 0);
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by_key(|&at| self.rows[at]);
        // Of several values of a row the last counts.
        let is_last = |pair: &[usize]| self.rows[pair[0]] != self.rows[pair[1]];
        let mut kept: Vec<usize> = order.windows(2).filter(|pair| is_last(pair)).map(|pair| pair[0]).collect();
        kept.extend(order.last());
        fn of<T: Copy>(values: &[T], kept: &[usize]) -> Vec<T> {
            kept.iter().map(|&at| values[at]).collect()
        }
        self.rows = of(&self.rows, &kept);
        match &mut self.values {
            ArgValues::Int(values) => *values = of(values, &kept),
            ArgValues::Float(values) => *values = of(values, &kept),
            ArgValues::Text(codes, _) => *codes = of(codes, &kept),
        }
    }

    /// This column for `wanted` rows (ascending), null where there is no value.
    pub fn array(&self, wanted: &[u32]) -> ArrayRef {
        self.view().array(wanted)
    }

    pub fn view(&self) -> ArgView<'_> {
        ArgView { rows: &self.rows, values: &self.values }
    }
}

/// A column that is read; several may have the same rows.
#[derive(Clone, Copy)]
pub struct ArgView<'a> {
    pub rows: &'a [u32],
    pub values: &'a ArgValues,
}

impl<'a> ArgView<'a> {
    /// Positions of the values of a stretch of rows.
    pub fn within(&self, rows: Range<u32>) -> Range<usize> {
        self.rows.partition_point(|&row| row < rows.start)..self.rows.partition_point(|&row| row < rows.end)
    }

    /// The position of each of `wanted` (ascending rows) among this column's values; `NONE` where there is none.
    pub fn positions<'b>(&self, wanted: &'b [u32]) -> impl Iterator<Item = u32> + use<'a, 'b> {
        let rows = self.rows;
        let mut at = wanted.first().map_or(0, |first| rows.partition_point(|row| row < first));
        wanted.iter().map(move |&row| {
            while at < rows.len() && rows[at] < row {
                at += 1;
            }
            if rows.get(at) == Some(&row) { at as u32 } else { NONE }
        })
    }

    /// This column for `wanted` rows (ascending), null where there is no value.
    pub fn array(&self, wanted: &[u32]) -> ArrayRef {
        match (self.values, stretch(wanted)) {
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
        match self.values {
            ArgValues::Int(values) => Arc::new(Int64Array::new(of(values, positions, 0).into(), nulls(positions))),
            ArgValues::Float(values) => {
                Arc::new(Float64Array::new(of(values, positions, 0.0).into(), nulls(positions)))
            }
            ArgValues::Text(codes, strings) => strings.dictionary(of(codes, positions, NONE).into_iter()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn values_that_come_later_stand_above_those_that_are_there() {
        let mut column = ArgColumn::new("bytes".into(), ArgType::Int);
        (column.rows, column.values) = (vec![1, 4], ArgValues::Int(vec![10, 40]));
        let mut late = ArgColumn::new("bytes".into(), ArgType::Int);
        (late.rows, late.values) = (vec![7, 4, 0], ArgValues::Int(vec![70, 41, 0]));
        column.overlay(&mut late);
        let array = column.array(&[0, 1, 4, 7]);
        let array = array.as_any().downcast_ref::<Int64Array>().unwrap();
        assert_eq!(array.iter().collect::<Vec<_>>(), [Some(0), Some(10), Some(41), Some(70)]);
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
