//! Interval algebra for Python.

use std::path::Path;

use arrow_array::types::Int64Type;
use holotrace_core::intervals;
use holotrace_core::table::{batch, times as times_column};
use pyo3::prelude::*;

use crate::arrow::{ArrowTable, Batches};
use crate::error::{raise, without_panic};

#[pyfunction]
pub fn covered_before(py: Python<'_>, spans: &Bound<'_, PyAny>, times: &Bound<'_, PyAny>) -> PyResult<ArrowTable> {
    let spans = Batches::of(spans)?;
    let (start, end) = (spans.values::<Int64Type>("start_ns")?, spans.values::<Int64Type>("end_ns")?);
    let times = Batches::of(times)?.values::<Int64Type>("time_ns")?;
    let table = py.detach(|| {
        without_panic(|| {
            let covered = intervals::covered_before(&start, &end, &times);
            batch(vec![("covered_ns".to_string(), times_column(covered.into_iter()))])
        })
    });
    table.map(ArrowTable).map_err(|error| raise(py, error, Path::new("spans")))
}
