//! Call trees for Python.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{Int64Type, UInt8Type, UInt32Type};
use arrow_array::{ArrayRef, UInt32Array};
use holotrace_core::algorithms::call_tree::{CallTree, Calls, covered, outermost, rows_of_launches, sums, threads};
use holotrace_core::columns::{NONE, batch, ids, times, times_or_null};
use holotrace_core::{Error, Result};
use pyo3::prelude::*;

use crate::arrow::{ArrowTable, Batches};
use crate::error::{raise, without_panic};
use crate::intervals::column;

#[pyfunction]
pub fn call_tree(
    py: Python<'_>,
    calls: &Bound<'_, PyAny>,
    work: &Bound<'_, PyAny>,
    columns: Vec<String>,
) -> PyResult<ArrowTable> {
    let calls = Batches::of(calls)?;
    let id = calls.values::<UInt32Type>("event_id")?;
    let (start, end) = (calls.values::<Int64Type>("start_ns")?, calls.values::<Int64Type>("end_ns")?);
    let thread = {
        let (process, thread) = (calls.codes("pid")?, calls.codes("tid")?);
        threads(&process, &thread)
    };
    let is_cut = calls.has("is_cut").then(|| calls.values::<UInt8Type>("is_cut")).transpose()?;
    let work = Batches::of(work)?;
    let launch = work.values::<UInt32Type>("launch_id")?;
    let (began, ended) = (work.values::<Int64Type>("start_ns")?, work.values::<Int64Type>("end_ns")?);
    let table = py.detach(|| {
        without_panic(|| {
            let calls = Calls { id: &id, start: &start, end: &end, thread: &thread, is_cut: is_cut.as_deref() };
            tree_table(calls, Work { launch: &launch, start: &began, end: &ended }, columns)
        })
    });
    table.map(ArrowTable).map_err(|error| raise(py, error, Path::new("call tree")))
}

#[pyfunction]
pub fn outermost_calls(py: Python<'_>, calls: &Bound<'_, PyAny>) -> PyResult<ArrowTable> {
    let calls = Batches::of(calls)?;
    let (id, parent) = (calls.values::<UInt32Type>("event_id")?, calls.codes("parent_id")?);
    let is_chosen = calls.values::<UInt8Type>("is_chosen")?;
    let table = py.detach(|| {
        without_panic(|| {
            let is_chosen: Vec<bool> = is_chosen.iter().map(|&chosen| chosen != 0).collect();
            batch(vec![("event_id".into(), ids(outermost(&id, &parent, &is_chosen).into_iter()))])
        })
    });
    table.map(ArrowTable).map_err(|error| raise(py, error, Path::new("call tree")))
}

#[pyfunction]
pub fn sums_at(py: Python<'_>, values: &Bound<'_, PyAny>, columns: Vec<String>, count: usize) -> PyResult<ArrowTable> {
    let values = Batches::of(values)?;
    let place = values.values::<UInt32Type>("place")?;
    let summands = columns.iter().map(|name| values.values::<Int64Type>(name)).collect::<PyResult<Vec<_>>>()?;
    let table = py.detach(|| {
        without_panic(|| {
            let summed = summands.iter().map(|values| times(sums(&place, values, count).into_iter()));
            batch(columns.into_iter().zip(summed).collect())
        })
    });
    table.map(ArrowTable).map_err(|error| raise(py, error, Path::new("call tree")))
}

#[pyfunction]
pub fn covered_at(py: Python<'_>, spans: &Bound<'_, PyAny>, count: usize) -> PyResult<ArrowTable> {
    let spans = Batches::of(spans)?;
    let place = spans.values::<UInt32Type>("place")?;
    let (start, end) = (spans.values::<Int64Type>("start_ns")?, spans.values::<Int64Type>("end_ns")?);
    let table = py.detach(|| {
        without_panic(|| batch(vec![("covered_ns".into(), times(covered(&place, &start, &end, count).into_iter()))]))
    });
    table.map(ArrowTable).map_err(|error| raise(py, error, Path::new("call tree")))
}

/// Pieces of work on devices, as columns of equal length.
#[derive(Clone, Copy)]
struct Work<'a> {
    launch: &'a [u32],
    start: &'a [i64],
    end: &'a [i64],
}

fn tree_table(calls: Calls, work: Work, columns: Vec<String>) -> Result<arrow_array::RecordBatch> {
    let mut tree = CallTree::new(calls);
    let asks_work = columns.iter().any(|name| name.contains("work"));
    let rows = if asks_work { rows_of_launches(calls.id, work.launch) } else { Vec::new() };
    let starts = || rows.iter().copied().zip(work.start.iter().copied());
    let ends = || rows.iter().copied().zip(work.end.iter().copied());
    // Of a large trace each column is much of the memory: it is made by itself, and handed over as it is.
    let mut made = |name: &str| -> Result<ArrayRef> {
        Ok(match name {
            "parent_id" => ids(tree.parent.iter().map(|&row| if row == NONE { NONE } else { calls.id[row as usize] })),
            "depth" => counts(tree.depths()),
            "height" => counts(tree.heights()),
            "end_ns" => column(std::mem::take(&mut tree.end)),
            "self_ns" => column(std::mem::take(&mut tree.own)),
            "work_count" => counts(tree.brought_about(rows.iter().map(|&row| (row, 1)), 0, u32::saturating_add)),
            "work_ns" => {
                let lasts = starts().zip(work.end).map(|((row, start), end)| (row, end.saturating_sub(start)));
                column(tree.brought_about(lasts, 0, i64::saturating_add))
            }
            "first_work_ns" => {
                let first = tree.brought_about(starts(), i64::MAX, i64::min);
                times_or_null(first.into_iter().map(|start| (start != i64::MAX).then_some(start)))
            }
            "last_work_ns" => {
                let last = tree.brought_about(ends(), i64::MIN, i64::max);
                times_or_null(last.into_iter().map(|end| (end != i64::MIN).then_some(end)))
            }
            _ => return Err(Error::unknown_column("call tree", name)),
        })
    };
    let made = columns.iter().map(|name| made(name)).collect::<Result<Vec<_>>>()?;
    batch(columns.into_iter().zip(made).collect())
}

fn counts(values: Vec<u32>) -> ArrayRef {
    Arc::new(UInt32Array::from(values))
}
