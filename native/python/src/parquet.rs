//! Parquet files for Python.

use std::path::PathBuf;

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use holotrace_core::parquet::write;
use pyo3::prelude::*;

use crate::arrow::Batches;
use crate::error::{raise, without_panic};

#[pyfunction]
#[pyo3(signature = (path, schema, parts, *, by, metadata))]
pub fn write_parquet(
    py: Python<'_>,
    path: PathBuf,
    schema: &Bound<'_, PyAny>,
    parts: Vec<Bound<'_, PyAny>>,
    by: Option<String>,
    metadata: Vec<(String, String)>,
) -> PyResult<usize> {
    let schema = Batches::of(schema)?.whole()?.schema();
    let parts = parts.iter().map(|part| Batches::of(part)?.whole()).collect::<PyResult<Vec<_>>>()?;
    let rows = parts.first().map_or(0, RecordBatch::num_rows);
    let column = |name: &str, kind| -> ArrayRef {
        let found = parts.iter().find_map(|part| part.column_by_name(name));
        found.cloned().unwrap_or_else(|| new_null_array(kind, rows))
    };
    py.detach(|| {
        without_panic(|| {
            let columns: Vec<_> = schema.fields().iter().map(|field| column(field.name(), field.data_type())).collect();
            write(&path, &schema, &columns, by.as_deref(), &metadata)?;
            Ok(rows)
        })
    })
    .map_err(|error| raise(py, error, &path))
}
