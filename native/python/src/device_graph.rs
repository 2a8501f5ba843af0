//! The device's part of a graph, for Python.

use std::sync::Arc;

use arrow_array::types::{Int64Type, UInt8Type, UInt32Type};
use arrow_array::{ArrayRef, BooleanArray};
use arrow_buffer::ScalarBuffer;
use holotrace_core::algorithms::device_graph::{Calls, DeviceGraph, HostEdges, Pairs, Usual, Works};
use holotrace_core::columns::{all_ids, batch, times};
use pyo3::prelude::*;

use crate::arrow::{ArrowTable, Batches};
use crate::intervals::detached;

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Times {
    turn_ns: i64,
    launch_ns: i64,
    handed_ns: i64,
    returned_ns: i64,
    waited_ns: i64,
    full_count: i64,
    full_times: usize,
}

#[pyfunction]
#[pyo3(signature = (works, calls, held, times, returned, edges, *, first, usual))]
#[allow(clippy::too_many_arguments, reason = "Python's keywords")]
pub fn device_graph(
    py: Python<'_>,
    works: &Bound<'_, PyAny>,
    calls: &Bound<'_, PyAny>,
    held: &Bound<'_, PyAny>,
    times: &Bound<'_, PyAny>,
    returned: &Bound<'_, PyAny>,
    edges: &Bound<'_, PyAny>,
    first: u32,
    usual: Times,
) -> PyResult<(ArrowTable, ArrowTable)> {
    let ids = |of: &Batches, name: &str| of.values::<UInt32Type>(name);
    let times_of = |of: &Batches, name: &str| of.values::<Int64Type>(name);
    let (works, calls) = (Batches::of(works)?, Batches::of(calls)?);
    let (id, queue, launch_id) = (ids(&works, "event_id")?, ids(&works, "queue")?, ids(&works, "launch_id")?);
    let (start, end) = (times_of(&works, "start_ns")?, times_of(&works, "end_ns")?);
    let (device, launch) = (times_of(&works, "device")?, times_of(&works, "launch_ns")?);
    let (call, name, thread) = (ids(&calls, "event_id")?, ids(&calls, "name")?, ids(&calls, "thread")?);
    let (began, ended, activity) =
        (times_of(&calls, "start_ns")?, times_of(&calls, "end_ns")?, ids(&calls, "activity")?);
    let traits = calls.values::<UInt8Type>("traits")?;
    let (held, times, returned) = (pairs(held)?, pairs(times)?, pairs(returned)?);
    let edges = Batches::of(edges)?;
    let (from, to, is_inferred) = (ids(&edges, "from_point")?, ids(&edges, "to_point")?, edges.flags("is_inferred")?);
    let made = detached(py, || {
        let works = Works {
            id: &id,
            device: &device,
            queue: &queue,
            start: &start,
            end: &end,
            launch_id: &launch_id,
            launch: &launch,
        };
        let calls = Calls {
            id: &call,
            name: &name,
            thread: &thread,
            start: &began,
            end: &ended,
            activity: &activity,
            traits: &traits,
        };
        let [held, times, returned] = [&held, &times, &returned].map(|(after, waits)| Pairs { after, waits });
        let of_host = HostEdges { to: &to, from: &from, is_inferred: &is_inferred };
        tables(&DeviceGraph::new(works, calls, held, times, returned, (first, of_host), usual.into()))
    })?;
    Ok((ArrowTable(made.0), ArrowTable(made.1)))
}

type Tables = holotrace_core::Result<(arrow_array::RecordBatch, arrow_array::RecordBatch)>;

fn tables(graph: &DeviceGraph) -> Tables {
    let inferred: BooleanArray = graph.edges.iter().map(|edge| Some(edge.is_inferred)).collect();
    let edges = batch(vec![
        ("from_point".to_string(), all_ids(graph.edges.iter().map(|edge| edge.from))),
        ("to_point".to_string(), all_ids(graph.edges.iter().map(|edge| edge.to))),
        ("lag_ns".to_string(), times(graph.edges.iter().map(|edge| edge.lag))),
        ("is_inferred".to_string(), Arc::new(inferred) as ArrayRef),
    ])?;
    let own = batch(vec![
        ("activity".to_string(), all_ids(graph.own.iter().map(|own| own.0))),
        ("own_ns".to_string(), times(graph.own.iter().map(|own| own.1))),
    ])?;
    Ok((edges, own))
}

fn pairs(pairs: &Bound<'_, PyAny>) -> PyResult<(ScalarBuffer<u32>, ScalarBuffer<u32>)> {
    let pairs = Batches::of(pairs)?;
    Ok((pairs.values::<UInt32Type>("after_id")?, pairs.values::<UInt32Type>("waits_id")?))
}

impl From<Times> for Usual {
    fn from(times: Times) -> Self {
        Self {
            turn: times.turn_ns,
            launch: times.launch_ns,
            handed: times.handed_ns,
            returned: times.returned_ns,
            waited: times.waited_ns,
            full: times.full_count,
            full_times: times.full_times,
        }
    }
}
