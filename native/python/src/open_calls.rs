//! What threads did in windows of time, for Python.

use std::sync::Arc;

use arrow_array::types::{Int64Type, UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{ArrayRef, UInt8Array};
use holotrace_core::algorithms::call_kinds::Kinds;
use holotrace_core::algorithms::open_calls::{self as core, Calls, Found, Limits, Windows};
use holotrace_core::columns::{NONE, all_ids, batch, ids, times};
use pyo3::prelude::*;

use crate::arrow::{ArrowTable, Batches};
use crate::intervals::detached;

#[pyfunction]
#[pyo3(signature = (calls, kinds, windows, main, *, limits_ns, together))]
pub fn open_calls(
    py: Python<'_>,
    calls: &Bound<'_, PyAny>,
    kinds: &Bound<'_, PyAny>,
    windows: &Bound<'_, PyAny>,
    main: u32,
    limits_ns: (i64, i64),
    together: bool,
) -> PyResult<(ArrowTable, ArrowTable)> {
    let calls = Batches::of(calls)?;
    let id = calls.values::<UInt32Type>("event_id")?;
    let (start, end) = (calls.values::<Int64Type>("start_ns")?, calls.values::<Int64Type>("end_ns")?);
    let (thread, name, category) = (calls.codes("tid")?, calls.codes("name")?, calls.codes("category")?);
    let launched = calls.optional::<Int64Type>("work_count")?;
    let launches: Vec<u8> = launched.map(|count| u8::from(count.is_some_and(|count| count > 0))).collect();
    let kinds = Batches::of(kinds)?;
    let (of_name, of_category) = (kinds.codes("name")?, kinds.codes("category")?);
    let (traits, told) = (kinds.values::<UInt16Type>("traits")?, kinds.values::<UInt8Type>("told")?);
    let windows = Batches::of(windows)?;
    let (from, until) = (windows.values::<Int64Type>("start_ns")?, windows.values::<Int64Type>("end_ns")?);
    let of: Vec<u32> = windows.optional::<UInt32Type>("tid")?.map(|thread| thread.unwrap_or(main)).collect();
    let (pause, launch) = limits_ns;
    let limits = Limits { pause, launch, together };
    let tables = detached(py, || {
        let kinds = Kinds { name: &of_name, category: &of_category, traits: &traits, told: &told };
        let (traits, told) = kinds.of(&name, &category);
        let calls = Calls {
            start: &start,
            end: &end,
            thread: &thread,
            name: &name,
            traits: &traits,
            told: &told,
            launches: &launches,
        };
        let found = core::open_calls(calls, Windows { start: &from, end: &until, thread: &of }, main, limits);
        let id_of = |row: u32| id.get(row as usize).copied().unwrap_or(NONE);
        Ok((shares(&found, id_of)?, names(&found, id_of)?))
    })?;
    Ok((ArrowTable(tables.0), ArrowTable(tables.1)))
}

type Table = holotrace_core::Result<arrow_array::RecordBatch>;

fn shares(found: &Found, id_of: impl Fn(u32) -> u32) -> Table {
    let all = &found.shares;
    batch(vec![
        ("window".to_string(), all_ids(all.iter().map(|share| share.window))),
        ("kind".to_string(), Arc::new(UInt8Array::from_iter_values(all.iter().map(|share| share.kind))) as ArrayRef),
        ("call_id".to_string(), ids(all.iter().map(|share| id_of(share.call)))),
        ("inner_id".to_string(), ids(all.iter().map(|share| id_of(share.inner)))),
        ("share_ns".to_string(), times(all.iter().map(|share| share.time))),
        ("when_ns".to_string(), times(all.iter().map(|share| share.last))),
    ])
}

fn names(found: &Found, id_of: impl Fn(u32) -> u32) -> Table {
    let of = |sort: usize| ids(found.names.iter().map(|names| id_of(names[sort])));
    let mut columns: Vec<(String, ArrayRef)> =
        core::SORTS.iter().enumerate().map(|(sort, name)| (format!("{name}_id"), of(sort))).collect();
    columns.push(("other_id".to_string(), ids(found.others.iter().map(|other| id_of(other.0)))));
    columns.push(("other_ns".to_string(), times(found.others.iter().map(|other| other.1))));
    batch(columns)
}
