//! Call trees for Python.

use std::path::Path;

use arrow_array::types::{Int64Type, UInt8Type, UInt32Type};
use holotrace_core::algorithms::call_tree::{CallTree, Calls, Work, covered, outermost, sums, threads, work_of};
use holotrace_core::columns::{NONE, all_ids, batch, ids, times, times_or_null};
use holotrace_core::{Error, Result};
use pyo3::prelude::*;

use crate::arrow::{ArrowTable, Batches};
use crate::error::{raise, without_panic};

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
    let (process, thread) = (calls.values::<UInt32Type>("pid")?, calls.values::<UInt32Type>("tid")?);
    let is_cut = calls.has("is_cut").then(|| calls.values::<UInt8Type>("is_cut")).transpose()?;
    let work = Batches::of(work)?;
    let launch = work.values::<UInt32Type>("launch_id")?;
    let (began, ended) = (work.values::<Int64Type>("start_ns")?, work.values::<Int64Type>("end_ns")?);
    let table = py.detach(|| {
        without_panic(|| {
            let thread = threads(&process, &thread);
            let calls = Calls { id: &id, start: &start, end: &end, thread: &thread, is_cut: is_cut.as_deref() };
            let pieces = launch.iter().zip(began.iter().zip(&ended));
            tree_table(calls, pieces.map(|(&launch, (&start, &end))| (launch, Work::new(start, end))), columns)
        })
    });
    table.map(ArrowTable).map_err(|error| raise(py, error, Path::new("call tree")))
}

#[pyfunction]
pub fn outermost_calls(py: Python<'_>, calls: &Bound<'_, PyAny>) -> PyResult<ArrowTable> {
    let calls = Batches::of(calls)?;
    let (id, parent) = (calls.values::<UInt32Type>("event_id")?, calls.values::<UInt32Type>("parent_id")?);
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

fn tree_table(
    calls: Calls,
    pieces: impl Iterator<Item = (u32, Work)>,
    columns: Vec<String>,
) -> Result<arrow_array::RecordBatch> {
    let tree = CallTree::new(calls);
    // Of a large trace that takes as much memory as the tree.
    let work = if columns.iter().any(|name| name.contains("work")) {
        tree.summed(work_of(calls.id, pieces))
    } else {
        Vec::new()
    };
    let some = |work: &Work, value: i64| (work.count > 0).then_some(value);
    let column = |name: &str| {
        Ok(match name {
            "parent_id" => ids(tree.parent.iter().map(|&row| if row == NONE { NONE } else { calls.id[row as usize] })),
            "depth" => all_ids(tree.depth.iter().copied()),
            "height" => all_ids(tree.height.iter().copied()),
            "end_ns" => times(tree.end.iter().copied()),
            "self_ns" => times(tree.own.iter().copied()),
            "work_count" => all_ids(work.iter().map(|work| work.count)),
            "work_ns" => times(work.iter().map(|work| work.sum)),
            "first_work_ns" => times_or_null(work.iter().map(|work| some(work, work.first_start))),
            "last_work_ns" => times_or_null(work.iter().map(|work| some(work, work.last_end))),
            _ => return Err(Error::unknown_column("call tree", name)),
        })
    };
    let made = columns.iter().map(|name| column(name)).collect::<Result<Vec<_>>>()?;
    batch(columns.into_iter().zip(made).collect())
}
