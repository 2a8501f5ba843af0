//! The host's part of a graph, for Python.

use arrow_array::BooleanArray;
use arrow_array::types::{Int64Type, UInt8Type, UInt32Type};
use holotrace_core::algorithms::host_graph::{HostGraph, Spans, Steps};
use holotrace_core::columns::{all_ids, batch, ids};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;

use crate::arrow::{ArrowTable, Batches};
use crate::intervals::{column, detached};

/// Activities, edges, in which activity each span began, and the points of steps.
type Parts = (ArrowTable, ArrowTable, ArrowTable, ArrowTable);

#[pyfunction]
pub fn host_graph(
    py: Python<'_>,
    spans: &Bound<'_, PyAny>,
    steps: &Bound<'_, PyAny>,
    threads: u32,
    main: u32,
) -> PyResult<Parts> {
    let (spans, steps) = (Batches::of(spans)?, Batches::of(steps)?);
    let (thread, of_steps) = (spans.values::<UInt32Type>("thread")?, steps.values::<UInt32Type>("thread")?);
    let (start, end) = (spans.values::<Int64Type>("start_ns")?, spans.values::<Int64Type>("end_ns")?);
    let role = spans.values::<UInt8Type>("role")?;
    let (begins, ends) = (steps.values::<Int64Type>("start_ns")?, steps.values::<Int64Type>("end_ns")?);
    let mut all = thread.iter().chain(&of_steps).chain([&main]);
    if let Some(unknown) = all.find(|thread| **thread >= threads.max(1)) {
        return Err(PyValueError::new_err(format!("there is no thread {unknown}")));
    }
    let made = detached(py, || {
        let spans = Spans { thread: &thread, start: &start, end: &end, role: &role };
        let graph = HostGraph::new(spans, Steps { thread: &of_steps, start: &begins, end: &ends }, main);
        let inferred: BooleanArray = graph.edges.iter().map(|edge| Some(edge.is_inferred)).collect();
        let named = |columns: Vec<(&str, _)>| batch(columns.into_iter().map(|(name, of)| (name.into(), of)).collect());
        Ok((
            named(vec![
                ("thread", all_ids(graph.thread.into_iter())),
                ("start_ns", column(graph.start)),
                ("end_ns", column(graph.end)),
                ("own_ns", column(graph.own)),
                ("around", ids(graph.around.into_iter())),
                ("call", ids(graph.call.into_iter())),
            ])?,
            named(vec![
                ("from_point", all_ids(graph.edges.iter().map(|edge| edge.from))),
                ("to_point", all_ids(graph.edges.iter().map(|edge| edge.to))),
                ("is_inferred", Arc::new(inferred)),
            ])?,
            named(vec![("activity", ids(graph.begun_in.into_iter()))])?,
            named(vec![("begin", ids(graph.step_start.into_iter())), ("end", ids(graph.step_end.into_iter()))])?,
        ))
    });
    made.map(|(activities, edges, begun, steps)| {
        (ArrowTable(activities), ArrowTable(edges), ArrowTable(begun), ArrowTable(steps))
    })
}
