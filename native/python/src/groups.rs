//! What happens in several groups, for Python.

use std::sync::Arc;

use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{ArrayRef, UInt32Array};
use holotrace_core::groups;
use holotrace_core::table::{batch, times_or_null};
use pyo3::prelude::*;

use crate::arrow::{ArrowTable, Batches};
use crate::intervals::{column, detached};

#[pyfunction]
pub fn levels(py: Python<'_>, changes: &Bound<'_, PyAny>, levels: Vec<String>) -> PyResult<ArrowTable> {
    let changes = Batches::of(changes)?;
    let (group, time) = (changes.values::<Int64Type>("group")?, changes.values::<Int64Type>("time_ns")?);
    let changes = levels.iter().map(|name| changes.values::<Int64Type>(name)).collect::<PyResult<Vec<_>>>()?;
    let table = detached(py, || {
        let changes: Vec<&[i64]> = changes.iter().map(|changes| &changes[..]).collect();
        let found = groups::levels(&group, &time, &changes);
        let lasted = found.since.iter().zip(&found.until).map(|(since, until)| until.wrapping_sub(*since)).collect();
        let mut columns = vec![
            ("row".to_string(), Arc::new(UInt32Array::from(found.row)) as ArrayRef),
            ("start_ns".to_string(), column(found.since)),
            ("end_ns".to_string(), column(found.until)),
            ("lasted_ns".to_string(), column(lasted)),
        ];
        columns.extend(levels.into_iter().zip(found.levels.into_iter().map(column)));
        batch(columns)
    });
    table.map(ArrowTable)
}

#[pyfunction]
pub fn before(py: Python<'_>, spans: &Bound<'_, PyAny>) -> PyResult<ArrowTable> {
    let spans = Batches::of(spans)?;
    let (group, id) = (spans.values::<Int64Type>("group")?, spans.values::<UInt32Type>("event_id")?);
    let (start, end) = (spans.values::<Int64Type>("start_ns")?, spans.values::<Int64Type>("end_ns")?);
    let table = detached(py, || {
        let found = groups::before(&group, &start, &end, &id);
        let gap = |(&start, &reached): (&i64, &Option<i64>)| reached.map(|reached| start.wrapping_sub(reached).max(0));
        let gaps = times_or_null(start.iter().zip(&found.reached).map(gap));
        batch(vec![
            ("group".to_string(), Arc::new(UInt32Array::from(found.rank)) as ArrayRef),
            ("reached_ns".to_string(), times_or_null(found.reached.into_iter())),
            ("gap_ns".to_string(), gaps),
        ])
    });
    table.map(ArrowTable)
}
