//! Traces written anew, for Python.

use std::path::PathBuf;

use arrow_array::types::UInt32Type;
use holotrace_core::rewrite::{Changes, Edit, rewrite};
use pyo3::prelude::*;

use crate::arrow::Batches;
use crate::interrupt::interruptible;
use crate::source::Source;

/// Keys as they stand between quotes, and values as JSON.
type Members = Vec<(String, String)>;

#[pyfunction]
#[pyo3(signature = (source, target, *, edits, drop, only, append))]
pub fn rewrite_trace_event(
    py: Python<'_>,
    source: Source,
    target: PathBuf,
    edits: Vec<(Bound<'_, PyAny>, Members, Members)>,
    drop: &Bound<'_, PyAny>,
    only: Option<Vec<String>>,
    append: Vec<String>,
) -> PyResult<(u64, u64, u64)> {
    let ids = |table: &Bound<'_, PyAny>| Ok::<_, PyErr>(Batches::of(table)?.values::<UInt32Type>("event_id")?.to_vec());
    let own = |members: Members| members.into_iter().map(|(key, text)| (key, text.into_bytes())).collect();
    let edit = |(table, fields, args): (Bound<'_, PyAny>, Members, Members)| {
        Ok((ids(&table)?, Edit { fields: own(fields), args: own(args) }))
    };
    let (edits, drop) = (edits.into_iter().map(edit).collect::<PyResult<_>>()?, ids(drop)?);
    let done = interruptible(
        py,
        &source.path,
        || source.failure(),
        |interrupt| {
            let changes = Changes::new(edits, drop, append).only(only);
            rewrite(source.blocks()?, &target, &changes, &mut || interrupt.is_raised())
        },
    )?;
    Ok((done.entries, done.edited, done.dropped))
}
