//! What happens in several groups, for Python.

use std::sync::Arc;

use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{ArrayRef, Float64Array, UInt8Array, UInt32Array};
use holotrace_core::algorithms;
use holotrace_core::algorithms::bins::{self, Grid};
use holotrace_core::algorithms::distinct;
use holotrace_core::algorithms::groups::{self, Gaps};
use holotrace_core::algorithms::held_up::{Limits, Works};
use holotrace_core::algorithms::places;
use holotrace_core::columns::{NONE, batch, ids};
use pyo3::exceptions::PyValueError;
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
pub fn gaps(py: Python<'_>, spans: &Bound<'_, PyAny>, pause_ns: i64) -> PyResult<ArrowTable> {
    let spans = Batches::of(spans)?;
    let (group, id) = (spans.values::<Int64Type>("group")?, spans.values::<UInt32Type>("event_id")?);
    let (start, end) = (spans.values::<Int64Type>("start_ns")?, spans.values::<Int64Type>("end_ns")?);
    let launch = spans.values::<Int64Type>("launch_ns")?;
    let table = detached(py, || {
        let Gaps { cause, length, whole } = groups::gaps(&group, (&start, &end), &id, &launch, pause_ns);
        let [p25, p50, p75] = length.quartiles.map(|quartile| Arc::new(Float64Array::from(quartile)) as ArrayRef);
        batch(
            [
                ("row", Arc::new(UInt32Array::from(length.row)) as ArrayRef),
                ("cause", Arc::new(UInt8Array::from_iter_values(cause.iter().map(|&cause| cause as u8)))),
                ("whole_ns", column(whole)),
                ("count", Arc::new(UInt32Array::from(length.count))),
                ("idle_ns", column(length.sum)),
                ("mean_ns", Arc::new(Float64Array::from(length.mean))),
                ("std_ns", Arc::new(Float64Array::from(length.std))),
                ("min_ns", column(length.min)),
                ("p25_ns", p25),
                ("p50_ns", p50),
                ("p75_ns", p75),
                ("max_ns", column(length.max)),
            ]
            .map(|(name, values)| (name.to_string(), values))
            .into(),
        )
    });
    table.map(ArrowTable)
}

#[pyfunction]
pub fn runs(
    py: Python<'_>,
    spans: &Bound<'_, PyAny>,
    origin_ns: i64,
    width_ns: i64,
    count: usize,
    levels: i64,
) -> PyResult<ArrowTable> {
    let spans = Batches::of(spans)?;
    let (start, end) = (spans.values::<Int64Type>("start_ns")?, spans.values::<Int64Type>("end_ns")?);
    let key: Vec<u32> = spans.optional::<UInt32Type>("key")?.map(|key| key.unwrap_or(NONE)).collect();
    let grid = Grid { origin: origin_ns, width: width_ns, count };
    let table = detached(py, || {
        let found = bins::runs(&start, &end, &key, grid, levels);
        batch(vec![
            ("start_ns".to_string(), column(found.start)),
            ("end_ns".to_string(), column(found.end)),
            ("row".to_string(), Arc::new(UInt32Array::from(found.row)) as ArrayRef),
            ("busy_ns".to_string(), column(found.busy)),
            ("count".to_string(), column(found.begun)),
        ])
    });
    table.map(ArrowTable)
}

#[pyfunction]
pub fn rows_of(py: Python<'_>, known: &Bound<'_, PyAny>, wanted: &Bound<'_, PyAny>) -> PyResult<ArrowTable> {
    let (known, wanted) = (Batches::of(known)?, Batches::of(wanted)?);
    let known = known.values::<UInt32Type>("event_id")?;
    let wanted: Vec<_> = wanted.optional::<UInt32Type>("event_id")?.collect();
    let table = detached(py, || {
        let found = places::rows_of(&known, wanted.into_iter().map(|id| id.unwrap_or(NONE)));
        batch(vec![("row".to_string(), ids(found.into_iter()))])
    });
    table.map(ArrowTable)
}

#[pyfunction]
pub fn spans_at(py: Python<'_>, spans: &Bound<'_, PyAny>, times: &Bound<'_, PyAny>) -> PyResult<ArrowTable> {
    let (spans, times) = (Batches::of(spans)?, Batches::of(times)?);
    let (start, end) = (spans.values::<Int64Type>("start_ns")?, spans.values::<Int64Type>("end_ns")?);
    let times: Vec<_> = times.optional::<Int64Type>("time_ns")?.collect();
    let table = detached(py, || {
        let found = places::spans_at(&start, &end, times.into_iter());
        batch(vec![("row".to_string(), ids(found.into_iter()))])
    });
    table.map(ArrowTable)
}

#[pyfunction]
pub fn first_rows(py: Python<'_>, values: &Bound<'_, PyAny>, columns: Vec<String>) -> PyResult<ArrowTable> {
    let values = Batches::of(values)?;
    let numbers = columns.iter().map(|name| values.codes(name)).collect::<PyResult<Vec<_>>>()?;
    let rows = match numbers.as_slice() {
        [one] => detached(py, || Ok(distinct::first_rows(one)))?,
        [one, other] => detached(py, || Ok(distinct::first_pairs(one, other)))?,
        _ => return Err(PyValueError::new_err("there must be one or two columns")),
    };
    let made = batch(vec![("row".to_string(), Arc::new(UInt32Array::from(rows)) as ArrayRef)]);
    made.map(ArrowTable).map_err(|error| PyValueError::new_err(error.to_string()))
}

#[pyfunction]
pub fn held_up(py: Python<'_>, work: &Bound<'_, PyAny>, waited_ns: i64, just_ended_ns: i64) -> PyResult<ArrowTable> {
    let work = Batches::of(work)?;
    let id = work.values::<UInt32Type>("event_id")?;
    let of = |name: &str| work.values::<Int64Type>(name);
    let (device, stream, launch) = (of("device")?, of("stream")?, of("launch_ns")?);
    let (start, end) = (of("start_ns")?, of("end_ns")?);
    let table = detached(py, || {
        let works = Works { id: &id, device: &device, stream: &stream, start: &start, end: &end, launch: &launch };
        let found = algorithms::held_up::held_up(works, Limits { waited: waited_ns, just_ended: just_ended_ns });
        batch(vec![
            ("held_id".to_string(), ids(found.iter().map(|&(held, _)| id[held as usize]))),
            ("after_id".to_string(), ids(found.iter().map(|&(_, after)| id[after as usize]))),
            ("ended_ns".to_string(), column(found.iter().map(|&(_, after)| end[after as usize]).collect())),
        ])
    });
    table.map(ArrowTable)
}

#[pyfunction]
pub fn order(
    py: Python<'_>,
    keys: &Bound<'_, PyAny>,
    names: Vec<String>,
    count: usize,
) -> PyResult<Option<ArrowTable>> {
    let keys = Batches::of(keys)?;
    let keys = names.iter().map(|name| keys.values::<Int64Type>(name)).collect::<PyResult<Vec<_>>>()?;
    let table = detached(py, || {
        let keys: Vec<&[i64]> = keys.iter().map(|key| &key[..]).collect();
        let rows = algorithms::order::order(&keys, count);
        rows.map(|rows| batch(vec![("row".to_string(), Arc::new(UInt32Array::from(rows)) as ArrayRef)])).transpose()
    });
    Ok(table?.map(ArrowTable))
}
