//! Meetings of ranks that are held again, for Python.

use std::collections::{HashMap, HashSet};

use arrow_array::types::{Float64Type, Int64Type, UInt32Type};
use holotrace_core::algorithms::meetings::{self, Late, Less, Rank, Removed, Visit, Wait};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow::Batches;
use crate::intervals::detached;

/// When ranks would meet, and the job would end, if some of their time were not spent.
#[pyclass(frozen, module = "holotrace._native")]
pub struct Meetings {
    meetings: meetings::Meetings,
    /// The number of each rank, and what of its clock is `origin`, in the order of its place.
    ranks: Vec<(i64, i64)>,
    /// On the clock of the job: meetings are held from there on, so that fractions of ns do not need larger numbers.
    origin: i64,
}

/// Times of a rank's own clock and how long what ended then took.
type ByRank = HashMap<i64, Vec<(i64, f64)>>;

/// What is different in a job that is replayed: see the class of that name.
#[derive(FromPyObject)]
struct Change {
    removed: ByRank,
    of_hosts: ByRank,
    transfer: HashMap<i64, f64>,
    later: ByRank,
    spent: ByRank,
    launched: ByRank,
    waits: HashMap<i64, HashSet<i64>>,
}

#[pymethods]
impl Meetings {
    #[new]
    fn new(
        py: Python<'_>,
        visits: &Bound<'_, PyAny>,
        ranks: &Bound<'_, PyAny>,
        late: &Bound<'_, PyAny>,
        waits: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let ranks = Batches::of(ranks)?;
        let visits = Batches::of(visits)?;
        let origin = visits.values::<Int64Type>("arrival_ns")?.iter().copied().chain(ends(&ranks)?.flatten()).min();
        let origin = origin.unwrap_or(0);
        let (rank, offset) = (ranks.values::<Int64Type>("rank")?, ranks.values::<Int64Type>("offset_ns")?);
        let begins = offset.iter().map(|offset| offset.saturating_add(origin));
        let numbers: Vec<(i64, i64)> = rank.iter().copied().zip(begins).collect();
        let mut known = known(&ranks, origin)?;
        let places: HashMap<i64, usize> = numbers.iter().enumerate().map(|(at, &(rank, _))| (rank, at)).collect();
        let late = Batches::of(late)?;
        let time = |name: &str| late.values::<Int64Type>(name);
        let (begun, since, gap, launched) =
            (time("begun_ns")?, time("since_ns")?, time("gap_ns")?, time("launched_ns")?);
        for (row, rank) in time("rank")?.iter().enumerate() {
            let Some(&at) = places.get(rank) else { continue };
            let offset = numbers[at].1;
            let [begun, since, launched] = [begun[row], since[row], launched[row]].map(|ns| ns.saturating_sub(offset));
            known[at].late.push(Late { begun, since, gap: gap[row], launched });
        }
        let waits = Batches::of(waits)?;
        let time = |name: &str| waits.values::<Int64Type>(name);
        let (returned, began) = (time("returned_ns")?, time("began_ns")?);
        let (ready, before) = (time("ready_ns")?, time("before_ns")?);
        for (row, rank) in time("rank")?.iter().enumerate() {
            let Some(&at) = places.get(rank) else { continue };
            let offset = numbers[at].1;
            let [returned, began, ready, before] =
                [returned[row], began[row], ready[row], before[row]].map(|ns| ns.saturating_sub(offset));
            known[at].waits.get_or_insert_default().push(Wait { returned, began, ready, before });
        }
        let matches = visits.values::<Int64Type>("match")?;
        let visits = visited(&visits, &places, origin)?;
        detached(py, || {
            Ok(Self { meetings: meetings::Meetings::new(&matches, &visits, known), ranks: numbers, origin })
        })
    }

    /// When each rank that ends does so with the change, on the clock of the job.
    fn ends(&self, py: Python<'_>, change: Change) -> PyResult<HashMap<i64, i64>> {
        detached(py, || {
            let less: Vec<Less> = self.ranks.iter().map(|&rank| less(rank, &change)).collect();
            let ends = self.meetings.ends(&less, &change.transfer);
            let known = self.ranks.iter().zip(ends);
            Ok(known.filter_map(|(&(rank, _), end)| Some((rank, end?.saturating_add(self.origin)))).collect())
        })
    }
}

/// What is known of each rank beside its visits and what came late.
fn known(ranks: &Batches, origin: i64) -> PyResult<Vec<Rank>> {
    let ends = ends(ranks)?.map(|end| end.map(|end| end.saturating_sub(origin)));
    let known = ends.zip(ranks.flags("is_waiting")?);
    let known = known.map(|(end, is_waiting)| Rank { end, late: Vec::new(), waits: is_waiting.then(Vec::new) });
    Ok(known.collect())
}

/// When each rank ends, if that is known, on the clock of the job.
fn ends(ranks: &Batches) -> PyResult<impl Iterator<Item = Option<i64>>> {
    let offset = ranks.values::<Int64Type>("offset_ns")?;
    let ends = ranks.optional::<Int64Type>("end_ns")?.zip(offset.iter());
    Ok(ends.map(|(end, &offset)| end.map(|end| end.saturating_sub(offset))).collect::<Vec<_>>().into_iter())
}

fn visited(visits: &Batches, places: &HashMap<i64, usize>, origin: i64) -> PyResult<Vec<Visit>> {
    let time = |name: &str| visits.values::<Int64Type>(name);
    let (arrival, left, held, ended) = (time("arrival_ns")?, time("left_ns")?, time("held_ns")?, time("ended_ns")?);
    let (queue, kernel) = (visits.values::<UInt32Type>("queue")?, visits.codes("kernel")?);
    let (held_ratio, is_of_one) = (visits.values::<Float64Type>("held_ratio")?, visits.flags("is_of_one")?);
    let (mut needed, mut ready) =
        (visits.optional::<Int64Type>("needed_ns")?, visits.optional::<Int64Type>("ready_ns")?);
    let since = |ns: i64| ns.saturating_sub(origin);
    let visit = |(row, rank): (usize, &i64)| {
        let unknown = || PyValueError::new_err(format!("rank {rank} of a visit is not among the ranks"));
        Ok(Visit {
            rank: *places.get(rank).ok_or_else(unknown)? as u32,
            arrival: since(arrival[row]),
            left: since(left[row]),
            held: held[row],
            needed: needed.next().flatten().map(since),
            ready: ready.next().flatten().map(since),
            queue: queue[row],
            held_ratio: held_ratio[row],
            is_of_one: is_of_one[row],
            kernel: kernel[row],
            ended: since(ended[row]),
        })
    };
    time("rank")?.iter().enumerate().map(visit).collect()
}

/// What one rank does not do, by the time since the origin, which is `begin` on its clock.
fn less((rank, begin): (i64, i64), change: &Change) -> Less {
    let removed = |parts: &[&ByRank]| {
        let parts = parts.iter().filter_map(|part| part.get(&rank)).flatten();
        Removed::new(parts.map(|&(at, ns)| (at.saturating_sub(begin), ns)).collect())
    };
    let of_some = if change.spent.contains_key(&rank) { &change.spent } else { &change.launched };
    Less {
        removed: removed(&[&change.removed, &change.later]),
        of_hosts: removed(&[&change.of_hosts, &change.later]),
        spent: removed(&[&change.spent]),
        spared: removed(&[of_some]),
        without: change.waits.get(&rank).into_iter().flatten().map(|at| at.saturating_sub(begin)).collect(),
    }
}
