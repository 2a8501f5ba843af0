//! Replays of graphs, for Python.

use std::sync::Arc;

use arrow_array::types::{Int64Type, UInt8Type, UInt32Type};
use arrow_array::{ArrayRef, RecordBatch, UInt8Array, UInt32Array};
use arrow_buffer::ScalarBuffer;
use holotrace_core::Result;
use holotrace_core::algorithms::replay::{Activities, Changes, Edges, End, Graph, Mix, Parts};
use holotrace_core::algorithms::same;
use holotrace_core::algorithms::waits::{self, Cause, Signatures, Term, Visits};
use holotrace_core::columns::{NONE, all_ids, batch, ids, times};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow::{ArrowTable, Batches};
use crate::intervals::{column, detached};

/// When everything happens, if it begins as soon as what it waits for is over.
#[pyclass(frozen, module = "holotrace._native")]
pub struct Replay {
    graph: Graph,
}

#[pyfunction]
pub fn replay(py: Python<'_>, activities: &Bound<'_, PyAny>, edges: &Bound<'_, PyAny>) -> PyResult<Replay> {
    let activities = Batches::of(activities)?;
    let time = |name: &str| activities.values::<Int64Type>(name);
    let (own, start, end) = (time("own_ns")?, time("start_ns")?, time("end_ns")?);
    let crossing = activities.values::<UInt32Type>("crossing")?;
    let edges = Batches::of(edges)?;
    let (from, to) = (edges.values::<UInt32Type>("from_point")?, edges.values::<UInt32Type>("to_point")?);
    let lag = edges.values::<Int64Type>("lag_ns")?;
    below("crossing", &crossing, crossing.len(), true)?;
    detached(py, || Ok(Replay { graph: Graph::new(Activities { own, start, end, crossing }, Edges { from, to, lag }) }))
}

#[pymethods]
impl Replay {
    #[getter]
    fn circular_count(&self) -> u32 {
        self.graph.oddities.circular
    }

    #[getter]
    fn negative_count(&self) -> u32 {
        self.graph.oddities.negative
    }

    #[getter]
    fn contradicted_count(&self) -> u32 {
        self.graph.oddities.contradicted
    }

    fn delays(&self, py: Python<'_>) -> PyResult<ArrowTable> {
        let made = detached(py, || {
            let (start, end) = self.graph.delays();
            named([("start_delay_ns", column(start)), ("end_delay_ns", column(end))])
        });
        made.map(ArrowTable)
    }

    #[pyo3(signature = (own, lags, *, has_delays))]
    fn times(
        &self,
        py: Python<'_>,
        own: &Bound<'_, PyAny>,
        lags: &Bound<'_, PyAny>,
        has_delays: bool,
    ) -> PyResult<ArrowTable> {
        let changed = Changed::of(self, own, lags)?;
        let made = detached(py, || {
            let (start, end) = self.graph.replayed_with(changed.changes(), has_delays);
            named([("start_ns", column(start)), ("end_ns", column(end))])
        });
        made.map(ArrowTable)
    }

    #[pyo3(signature = (count, own, lags, wanted, *, has_delays))]
    fn cases(
        &self,
        py: Python<'_>,
        count: usize,
        own: &Bound<'_, PyAny>,
        lags: &Bound<'_, PyAny>,
        wanted: &Bound<'_, PyAny>,
        has_delays: bool,
    ) -> PyResult<ArrowTable> {
        let changed = Changed::of(self, own, lags)?;
        let wanted = self.wanted(wanted)?;
        let made = detached(py, || {
            let found = self.graph.cases(count, changed.changes(), &wanted, has_delays);
            named([("time_ns", column(found))])
        });
        made.map(ArrowTable)
    }

    fn mixed(
        &self,
        py: Python<'_>,
        activities: &Bound<'_, PyAny>,
        cases: Vec<Vec<u32>>,
        wanted: &Bound<'_, PyAny>,
    ) -> PyResult<ArrowTable> {
        let (mixed, wanted) = (Mixed::of(self, activities)?, self.wanted(wanted)?);
        let made = detached(py, || {
            let mix = Mix { usual: &mixed.usual, other: &mixed.other, labels: [&mixed.one, &mixed.two], cases: &cases };
            named([("time_ns", column(self.graph.mixed(mix, &wanted)))])
        });
        made.map(ArrowTable)
    }

    #[pyo3(signature = (ends, own, lags, *, has_delays))]
    fn parts(
        &self,
        py: Python<'_>,
        ends: &Bound<'_, PyAny>,
        own: &Bound<'_, PyAny>,
        lags: &Bound<'_, PyAny>,
        has_delays: bool,
    ) -> PyResult<ArrowTable> {
        let (ends, changed) = (self.ends(ends)?, Changed::of(self, own, lags)?);
        let made = detached(py, || {
            let Parts { path, activity, from, spent, start, end } =
                self.graph.parts_to(&ends, changed.changes(), has_delays);

            named([
                ("path", Arc::new(UInt32Array::from(path))),
                ("activity", Arc::new(UInt32Array::from(activity))),
                ("from_activity", ids(from.into_iter())),
                ("spent", Arc::new(UInt8Array::from(spent))),
                ("start_ns", column(start)),
                ("end_ns", column(end)),
            ])
        });
        made.map(ArrowTable)
    }

    fn shares(&self, py: Python<'_>, ends: &Bound<'_, PyAny>, marked: &Bound<'_, PyAny>) -> PyResult<ArrowTable> {
        let ends = self.ends(ends)?;
        let mut is_marked = vec![false; self.graph.edges().count()];
        let marked = Batches::of(marked)?.values::<UInt32Type>("edge")?;
        below("edge", &marked, self.graph.edges().count(), false)?;
        marked.iter().for_each(|&edge| is_marked[edge as usize] = true);
        let made = detached(py, || {
            let shares = self.graph.shares(&ends, &is_marked);
            named([
                ("delay_ns", times(shares.iter().map(|share| share.delay))),
                ("edge_count", all_ids(shares.iter().map(|share| share.edges))),
                ("marked_count", all_ids(shares.iter().map(|share| share.marked))),
            ])
        });
        made.map(ArrowTable)
    }

    fn waits(
        &self,
        py: Python<'_>,
        activities: &Bound<'_, PyAny>,
        lag: u32,
        delay: u32,
        beginning: u32,
    ) -> PyResult<(ArrowTable, ArrowTable)> {
        let activities = Batches::of(activities)?;
        let number = |name: &str| activities.values::<UInt32Type>(name);
        let (process, own) = (number("process")?, number("signature")?);
        if process.len() != self.graph.activities().count() {
            return Err(PyValueError::new_err("there must be a row for each activity"));
        }
        let made = detached(py, || {
            let signatures = Signatures { process: &process, own: &own, lag, delay, beginning };
            let (visits, activity) = waits::visits(&self.graph, signatures);
            let causes = waits::causes(&visits);
            let waited = visits.left.iter().zip(&visits.arrived).map(|(left, arrived)| left - arrived);
            let visits = named([
                ("process", all_ids(visits.process.iter().copied())),
                ("meeting", all_ids(visits.meeting.iter().copied())),
                ("activity", ids(activity.iter().copied())),
                ("waited_ns", times(waited)),
            ])?;
            Ok((visits, of_causes(&causes)?))
        });
        made.map(|(visits, causes)| (ArrowTable(visits), ArrowTable(causes)))
    }
}

impl Replay {
    fn points(&self) -> usize {
        self.graph.activities().points() as usize
    }

    fn ends(&self, ends: &Bound<'_, PyAny>) -> PyResult<Vec<End>> {
        let ends = Batches::of(ends)?;
        let (point, since) = (ends.values::<UInt32Type>("point")?, ends.values::<Int64Type>("since_ns")?);
        below("point", &point, self.points(), false)?;
        Ok(point.iter().zip(since.iter()).map(|(&point, &since)| End { point, since }).collect())
    }

    fn wanted(&self, wanted: &Bound<'_, PyAny>) -> PyResult<ScalarBuffer<u32>> {
        let wanted = Batches::of(wanted)?.values::<UInt32Type>("point")?;
        below("point", &wanted, self.points(), false)?;
        Ok(wanted)
    }
}

#[pyfunction]
pub fn wait_causes(py: Python<'_>, visits: &Bound<'_, PyAny>, terms: &Bound<'_, PyAny>) -> PyResult<ArrowTable> {
    let (visits, terms) = (Batches::of(visits)?, Batches::of(terms)?);
    let number = |name: &str| Ok::<_, PyErr>(visits.values::<UInt32Type>(name)?.to_vec());
    let time = |name: &str| Ok::<_, PyErr>(visits.values::<Int64Type>(name)?.to_vec());
    let (process, signature) = (terms.values::<UInt32Type>("process")?, terms.values::<UInt32Type>("signature")?);
    let ns = terms.values::<Int64Type>("ns")?;
    let terms = process.iter().zip(signature.iter()).zip(ns.iter());
    let visits = Visits {
        process: number("process")?,
        meeting: number("meeting")?,
        arrived: time("arrived_ns")?,
        left: time("left_ns")?,
        before: number("before")?,
        first: number("first")?,
        terms: terms.map(|((&process, &signature), &ns)| Term { process, signature, ns }).collect(),
    };
    detached(py, || of_causes(&waits::causes(&visits))).map(ArrowTable)
}

#[pyfunction]
pub fn same_activities(
    py: Python<'_>,
    activities: &Bound<'_, PyAny>,
    names: &Bound<'_, PyAny>,
) -> PyResult<ArrowTable> {
    let activities = Batches::of(activities)?;
    let number = |name: &str| activities.values::<UInt32Type>(name);
    let time = |name: &str| activities.values::<Int64Type>(name);
    let (rank, lane, kind, name) = (number("rank")?, number("lane")?, number("kind")?, number("name")?);
    let (step, start, is_device) = (time("step")?, time("start_ns")?, activities.values::<UInt8Type>("is_device")?);
    let names = Batches::of(names)?.values::<UInt32Type>("name")?;
    let made = detached(py, || {
        let columns = same::Activities {
            rank: &rank,
            lane: &lane,
            is_device: &is_device,
            step: &step,
            kind: &kind,
            name: &name,
            start: &start,
        };
        named([("same", all_ids(same::numbered(columns, &names).into_iter()))])
    });
    made.map(ArrowTable)
}

#[pyfunction]
pub fn usual_times(py: Python<'_>, activities: &Bound<'_, PyAny>) -> PyResult<ArrowTable> {
    let activities = Batches::of(activities)?;
    let (same, own) = (activities.values::<UInt32Type>("same")?, activities.values::<Int64Type>("own_ns")?);
    let is_mean = activities.values::<UInt8Type>("is_mean")?;
    detached(py, || named([("usual_ns", column(same::usual(&same, &own, &is_mean)))])).map(ArrowTable)
}

fn of_causes(causes: &[Cause]) -> Result<RecordBatch> {
    named([
        ("visit", all_ids(causes.iter().map(|cause| cause.visit))),
        ("late", all_ids(causes.iter().map(|cause| cause.late))),
        ("process", all_ids(causes.iter().map(|cause| cause.term.process))),
        ("signature", all_ids(causes.iter().map(|cause| cause.term.signature))),
        ("ns", times(causes.iter().map(|cause| cause.term.ns))),
    ])
}

/// Columns of the two times of activities and what these are of.
struct Mixed {
    usual: ScalarBuffer<i64>,
    other: ScalarBuffer<i64>,
    one: ScalarBuffer<u32>,
    two: ScalarBuffer<u32>,
}

impl Mixed {
    fn of(replay: &Replay, activities: &Bound<'_, PyAny>) -> PyResult<Self> {
        let activities = Batches::of(activities)?;
        let (one, two) = (activities.values::<UInt32Type>("label")?, activities.values::<UInt32Type>("second_label")?);
        let (usual, other) = (activities.values::<Int64Type>("usual_ns")?, activities.values::<Int64Type>("other_ns")?);
        let count = replay.graph.activities().count();
        if usual.len() != count {
            return Err(PyValueError::new_err(format!("{} own times for {count} activities", usual.len())));
        }
        below("label", &one, count, true)?;
        below("label", &two, count, true)?;
        Ok(Self { usual, other, one, two })
    }
}

/// Columns of what is other in counterfactuals.
struct Changed {
    own: (ScalarBuffer<u32>, ScalarBuffer<u32>, ScalarBuffer<i64>),
    lag: (ScalarBuffer<u32>, ScalarBuffer<u32>, ScalarBuffer<i64>),
}

impl Changed {
    fn of(replay: &Replay, own: &Bound<'_, PyAny>, lags: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (own, lags) = (Batches::of(own)?, Batches::of(lags)?);
        let (activity, edge) = (own.values::<UInt32Type>("activity")?, lags.values::<UInt32Type>("edge")?);
        below("activity", &activity, replay.graph.activities().count(), false)?;
        below("edge", &edge, replay.graph.edges().count(), false)?;
        Ok(Self {
            own: (own.values::<UInt32Type>("case")?, activity, own.values::<Int64Type>("own_ns")?),
            lag: (lags.values::<UInt32Type>("case")?, edge, lags.values::<Int64Type>("lag_ns")?),
        })
    }

    fn changes(&self) -> Changes<'_> {
        Changes {
            own_case: &self.own.0,
            own_activity: &self.own.1,
            own: &self.own.2,
            lag_case: &self.lag.0,
            lag_edge: &self.lag.1,
            lag: &self.lag.2,
        }
    }
}

fn below(what: &str, numbers: &[u32], limit: usize, has_none: bool) -> PyResult<()> {
    match numbers.iter().find(|&&number| number as usize >= limit && !(has_none && number == NONE)) {
        Some(number) => Err(PyValueError::new_err(format!("there is no {what} {number}"))),
        None => Ok(()),
    }
}

fn named<const N: usize>(columns: [(&str, ArrayRef); N]) -> Result<RecordBatch> {
    batch(columns.map(|(name, values)| (name.to_string(), values)).into())
}
