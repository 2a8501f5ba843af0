//! Graphs of what waited for what, for Python.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{Int64Type, UInt8Type, UInt32Type};
use arrow_array::{ArrayRef, BooleanArray, StringArray};
use holotrace_core::Error;
use holotrace_core::algorithms::critical_path::{Device, Graph, Host, KINDS, Rules};
use holotrace_core::columns::{all_ids, batch, ids, times};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow::{ArrowTable, Batches};
use crate::error::{raise, without_panic};

/// What an error is said to be about, where there is no file.
const SUBJECT: &str = "critical path";

/// Starts and ends of events, and which of them came after which.
#[pyclass(frozen, module = "holotrace._native")]
pub struct StepGraph {
    graph: Graph,
    connected: ArrayRef,
}

#[pyfunction]
#[pyo3(signature = (host, device, *, longest_kernel_delay_ns, has_all_launches))]
pub fn step_graph(
    py: Python<'_>,
    host: &Bound<'_, PyAny>,
    device: &Bound<'_, PyAny>,
    longest_kernel_delay_ns: i64,
    has_all_launches: bool,
) -> PyResult<StepGraph> {
    let (host, device) = (Batches::of(host)?, Batches::of(device)?);
    let numbers = |batches: &Batches, name: &str| batches.values::<UInt32Type>(name);
    let times = |batches: &Batches, name: &str| batches.values::<Int64Type>(name);
    let roles = |batches: &Batches| batches.values::<UInt8Type>("role");
    let (id, start, end) = (numbers(&host, "event_id")?, times(&host, "start_ns")?, times(&host, "end_ns")?);
    let (thread, role) = (numbers(&host, "thread")?, roles(&host)?);
    let host = Host { id: &id, start: &start, end: &end, thread: &thread, role: &role };
    let (id, start, end) = (numbers(&device, "event_id")?, times(&device, "start_ns")?, times(&device, "end_ns")?);
    let (on, queue, role) = (numbers(&device, "device")?, numbers(&device, "queue")?, roles(&device)?);
    let (call, after, holds) =
        (numbers(&device, "call_id")?, numbers(&device, "after_id")?, numbers(&device, "holds_id")?);
    let device = Device {
        id: &id,
        start: &start,
        end: &end,
        device: &on,
        queue: &queue,
        call: &call,
        role: &role,
        after: &after,
        holds: &holds,
    };
    let rules = Rules { longest_kernel_delay: longest_kernel_delay_ns, has_all_launches };
    let graph = py.detach(|| without_panic(|| Ok(Graph::new(host, device, rules))));
    let graph = graph.map_err(|error| raise(py, error, Path::new(SUBJECT)))?;
    let connected = all_ids(graph.connected.iter().copied());
    Ok(StepGraph { graph, connected })
}

#[pymethods]
impl StepGraph {
    fn nodes(&self, py: Python<'_>) -> PyResult<ArrowTable> {
        let nodes = &self.graph.nodes;
        let is_start: ArrayRef = Arc::new(BooleanArray::from_iter(nodes.iter().map(|node| Some(node.is_start))));
        table(
            py,
            [
                ("event_id", all_ids(nodes.iter().map(|node| node.event))),
                ("time_ns", times(nodes.iter().map(|node| node.time))),
                ("is_start", is_start),
            ],
        )
    }

    fn connected(&self, py: Python<'_>) -> PyResult<ArrowTable> {
        table(py, [("node", self.connected.clone())])
    }

    #[pyo3(signature = (rows = None))]
    fn edges(&self, py: Python<'_>, rows: Option<&Bound<'_, PyAny>>) -> PyResult<ArrowTable> {
        let edges = &self.graph.edges;
        let rows = match rows {
            Some(rows) => Batches::of(rows)?.values::<UInt32Type>("edge")?,
            None => (0..edges.len() as u32).collect(),
        };
        if rows.iter().any(|&row| row as usize >= edges.len()) {
            return Err(PyValueError::new_err("each row must be that of an edge"));
        }
        let asked = || rows.iter().map(|&row| &edges[row as usize]);
        let kind: ArrayRef = Arc::new(StringArray::from_iter_values(asked().map(|edge| KINDS[edge.kind as usize])));
        table(
            py,
            [
                ("from_node", all_ids(asked().map(|edge| edge.from))),
                ("to_node", all_ids(asked().map(|edge| edge.to))),
                ("kind", kind),
                ("weight_ns", times(asked().map(|edge| edge.weight))),
                ("event_id", ids(asked().map(|edge| edge.event))),
            ],
        )
    }

    #[pyo3(signature = (weights = None))]
    fn longest_path(&self, py: Python<'_>, weights: Option<&Bound<'_, PyAny>>) -> PyResult<ArrowTable> {
        let edges = &self.graph.edges;
        let weights = match weights {
            Some(weights) => Batches::of(weights)?.values::<Int64Type>("weight_ns")?,
            None => edges.iter().map(|edge| edge.weight.max(0)).collect(),
        };
        if weights.len() != edges.len() || weights.iter().any(|&weight| weight < 0) {
            return Err(PyValueError::new_err("there must be a weight for each edge, none negative"));
        }
        let path = py.detach(|| without_panic(|| Ok(self.graph.longest_path(&weights))));
        let path = path.map_err(|error| raise(py, error, Path::new(SUBJECT)))?;
        table(py, [("edge", all_ids(path.edges.iter().copied()))])
    }
}

fn table<const N: usize>(py: Python<'_>, columns: [(&str, ArrayRef); N]) -> PyResult<ArrowTable> {
    let made = batch(columns.map(|(name, column)| (name.to_string(), column)).into());
    made.map(ArrowTable).map_err(|error: Error| raise(py, error, Path::new(SUBJECT)))
}
