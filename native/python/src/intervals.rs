//! Interval algebra for Python.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_buffer::ScalarBuffer;
use holotrace_core::Result;
use holotrace_core::algorithms::intervals::{self, Spans};
use holotrace_core::columns::batch;
use pyo3::prelude::*;

use crate::arrow::{ArrowTable, Batches};
use crate::error::{raise, without_panic};

#[pyfunction]
pub fn covered_before(py: Python<'_>, spans: &Bound<'_, PyAny>, times: &Bound<'_, PyAny>) -> PyResult<ArrowTable> {
    let (start, end) = ends(&Batches::of(spans)?)?;
    let times = Batches::of(times)?.values::<Int64Type>("time_ns")?;
    let table = detached(py, || {
        let covered = intervals::covered_before(&start, &end, &times);
        batch(vec![("covered_ns".to_string(), column(covered))])
    });
    table.map(ArrowTable)
}

#[pyfunction]
pub fn uncovered(py: Python<'_>, spans: &Bound<'_, PyAny>, others: &Bound<'_, PyAny>) -> PyResult<ArrowTable> {
    let (spans, others) = (ends(&Batches::of(spans)?)?, ends(&Batches::of(others)?)?);
    let table = detached(py, || {
        let uncovered = intervals::uncovered((&spans.0, &spans.1), (&others.0, &others.1));
        batch(vec![("uncovered_ns".to_string(), column(uncovered))])
    });
    table.map(ArrowTable)
}

#[pyfunction]
pub fn union(py: Python<'_>, spans: &Bound<'_, PyAny>) -> PyResult<ArrowTable> {
    let (start, end) = ends(&Batches::of(spans)?)?;
    detached(py, || table(intervals::union(&start, &end))).map(ArrowTable)
}

#[pyfunction]
pub fn unions(py: Python<'_>, spans: &Bound<'_, PyAny>, sets: Vec<Vec<u32>>) -> PyResult<Vec<ArrowTable>> {
    let spans = Batches::of(spans)?;
    let ((start, end), kind) = (ends(&spans)?, spans.values::<UInt32Type>("kind")?);
    let tables = detached(py, || intervals::unions(&start, &end, &kind, &sets).into_iter().map(table).collect());
    tables.map(|tables: Vec<RecordBatch>| tables.into_iter().map(ArrowTable).collect())
}

#[pyfunction]
pub fn subtract(py: Python<'_>, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<ArrowTable> {
    let (a, b) = (ends(&Batches::of(a)?)?, ends(&Batches::of(b)?)?);
    detached(py, || table(intervals::subtract((&a.0, &a.1), (&b.0, &b.1)))).map(ArrowTable)
}

#[pyfunction]
pub fn intersect(py: Python<'_>, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<ArrowTable> {
    let (a, b) = (ends(&Batches::of(a)?)?, ends(&Batches::of(b)?)?);
    detached(py, || table(intervals::intersect((&a.0, &a.1), (&b.0, &b.1)))).map(ArrowTable)
}

#[pyfunction]
pub fn total(py: Python<'_>, spans: &Bound<'_, PyAny>) -> PyResult<i64> {
    let (start, end) = ends(&Batches::of(spans)?)?;
    detached(py, || Ok(intervals::total(&start, &end)))
}

#[pyfunction]
pub fn first_covered(
    py: Python<'_>,
    windows: &Bound<'_, PyAny>,
    layers: Vec<Bound<'_, PyAny>>,
) -> PyResult<ArrowTable> {
    let windows = ends(&Batches::of(windows)?)?;
    let layers = layers.iter().map(|layer| ends(&Batches::of(layer)?)).collect::<PyResult<Vec<_>>>()?;
    let table = detached(py, || {
        let layers: Vec<(&[i64], &[i64])> = layers.iter().map(|(start, end)| (&**start, &**end)).collect();
        let covered = intervals::first_covered((&windows.0, &windows.1), &layers);
        batch(covered.into_iter().enumerate().map(|(layer, own)| (layer.to_string(), column(own))).collect())
    });
    table.map(ArrowTable)
}

fn ends(spans: &Batches) -> PyResult<(ScalarBuffer<i64>, ScalarBuffer<i64>)> {
    Ok((spans.values::<Int64Type>("start_ns")?, spans.values::<Int64Type>("end_ns")?))
}

fn table(spans: Spans) -> Result<RecordBatch> {
    let columns = [("start_ns", spans.start), ("end_ns", spans.end)];
    batch(columns.map(|(name, times)| (name.to_string(), column(times))).into())
}

pub fn column(times: Vec<i64>) -> ArrayRef {
    Arc::new(Int64Array::from(times))
}

pub fn detached<T: Send>(py: Python<'_>, made: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    py.detach(|| without_panic(made)).map_err(|error| raise(py, error, Path::new("spans")))
}
