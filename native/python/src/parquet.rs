//! Parquet files for Python.

use std::path::PathBuf;

use holotrace_core::parquet::write;
use pyo3::prelude::*;

use crate::arrow::Batches;
use crate::error::{raise, without_panic};

#[pyfunction]
#[pyo3(signature = (path, table, *, by, metadata))]
pub fn write_parquet(
    py: Python<'_>,
    path: PathBuf,
    table: &Bound<'_, PyAny>,
    by: Option<String>,
    metadata: Vec<(String, String)>,
) -> PyResult<()> {
    let batch = Batches::of(table)?.whole()?;
    py.detach(|| without_panic(|| write(&path, &batch, by.as_deref(), &metadata)))
        .map_err(|error| raise(py, error, &path))
}
