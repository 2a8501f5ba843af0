//! What the queues of devices did, and what their work and the calls of the host waited for.

mod calls;
mod events;
mod full;
mod queues;

use std::ops::Range;

use hashbrown::HashMap;

use crate::columns::arrow::NONE;
use crate::columns::id_map::IdMap;

/// Stands for a time that nobody recorded.
pub const UNKNOWN: i64 = i64::MIN;

/// What a call can do.
pub mod traits {
    /// It returns when work is over.
    pub const WAITS: u8 = 1;
    /// It marks how far a queue is.
    pub const RECORDS: u8 = 2;
    /// It makes a queue wait for such a mark.
    pub const HOLDS: u8 = 4;
}

/// Kernels and copies by queue, start and id, as columns of equal length.
#[derive(Clone, Copy)]
pub struct Works<'a> {
    pub id: &'a [u32],
    pub device: &'a [i64],
    pub queue: &'a [u32],
    pub start: &'a [i64],
    pub end: &'a [i64],
    /// The call that launched it, or `NONE`, and when that began, or `UNKNOWN`.
    pub launch_id: &'a [u32],
    pub launch: &'a [i64],
}

/// Calls of the device's runtime, and the activity in which each began.
#[derive(Clone, Copy)]
pub struct Calls<'a> {
    pub id: &'a [u32],
    /// A code, or `NONE`.
    pub name: &'a [u32],
    pub thread: &'a [u32],
    pub start: &'a [i64],
    pub end: &'a [i64],
    pub activity: &'a [u32],
    pub traits: &'a [u8],
}

/// Pairs of ids: of the work that was waited for, and of what waited.
#[derive(Clone, Copy)]
pub struct Pairs<'a> {
    pub after: &'a [u32],
    pub waits: &'a [u32],
}

/// What is usual, in ns.
#[derive(Clone, Copy)]
pub struct Usual {
    /// From work to work of a queue that tells nothing, and from a launch to its work.
    pub turn: i64,
    pub launch: i64,
    /// From work to work of another queue, and until a call returns after its work, at most.
    pub handed: i64,
    pub returned: i64,
    /// What takes longer waited.
    pub waited: i64,
    /// So many works under way are a full queue, if launches wait for room so often.
    pub full: i64,
    pub full_times: usize,
}

/// One point waits for another, at least for so long; it is inferred where only times tell that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    pub to: u32,
    pub from: u32,
    pub lag: i64,
    pub is_inferred: bool,
}

/// Edges of the host, by the point that is reached, then by that which it waits for, as columns of equal length.
#[derive(Clone, Copy)]
pub struct HostEdges<'a> {
    pub to: &'a [u32],
    pub from: &'a [u32],
    pub is_inferred: &'a [bool],
}

/// Edges by the point that is reached, then by that which it waits for; and what activities of calls take that waited
/// for a device, had they not.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DeviceGraph {
    pub edges: Vec<Edge>,
    pub own: Vec<(u32, i64)>,
}

/// By the code of a name.
type Map<V> = HashMap<u32, V, foldhash::fast::RandomState>;

/// What all parts of the graph are told from.
struct Parts<'a> {
    works: Works<'a>,
    calls: Calls<'a>,
    usual: Usual,
    /// The number of the first work among all activities.
    first: u32,
    /// Of each work, the row of the call that launched it, or `NONE`.
    launched_by: Vec<u32>,
    rows: IdMap,
}

impl DeviceGraph {
    /// The device's part of a graph, joined to that of the host, of whose activities there are `first`.
    ///
    /// `held` are works that waited, and `returned` calls, as the profiler recorded; `times` are works that waited as
    /// their times tell.
    pub fn new(
        works: Works,
        calls: Calls,
        held: Pairs,
        times: Pairs,
        returned: Pairs,
        (first, of_host): (u32, HostEdges),
        usual: Usual,
    ) -> Self {
        let by_id = IdMap::of_rows(calls.id.iter().map(|&id| i64::from(id)));
        let launched_by = works.launch_id.iter().map(|&id| by_id.get(i64::from(id))).collect();
        let rows = IdMap::of_rows(works.id.iter().map(|&id| i64::from(id)));
        let parts = Parts { works, calls, usual, first, launched_by, rows };
        let mut edges = parts.turns();
        parts.launches(&mut edges);
        parts.begins(&mut edges);
        parts.handed_over(held, times, &mut edges);
        let mut own = Vec::new();
        parts.call_waits(returned, &by_id, &mut edges, &mut own);
        parts.waits_for_room(&mut edges, &mut own);
        edges.sort_unstable();
        merge(&mut edges, of_host);
        own.sort_unstable();
        own.dedup_by_key(|&mut (activity, _)| activity);
        Self { edges, own }
    }
}

impl Parts<'_> {
    fn start_of(&self, work: usize) -> u32 {
        2 * (self.first + work as u32)
    }

    fn end_of(&self, work: usize) -> u32 {
        self.start_of(work) + 1
    }

    fn row_of(&self, id: u32) -> Option<usize> {
        let row = self.rows.get(i64::from(id));
        (row != NONE).then_some(row as usize)
    }

    /// The call that launched a work.
    fn launch_of(&self, work: usize) -> Option<usize> {
        let call = self.launched_by[work];
        (call != NONE).then_some(call as usize)
    }

    /// The rows of each queue.
    fn queues(&self) -> impl Iterator<Item = Range<usize>> {
        let mut start = 0;
        self.works.queue.chunk_by(|before, after| before == after).map(move |queue| {
            start += queue.len();
            start - queue.len()..start
        })
    }
}

/// Put more edges, in order as those are, in their places from behind: a sort would need half as much memory again.
fn merge(edges: &mut Vec<Edge>, more: HostEdges) {
    let mut left = edges.len();
    edges.resize(left + more.to.len(), Edge { to: NONE, from: NONE, lag: 0, is_inferred: false });
    for rest in (0..more.to.len()).rev() {
        let next = Edge { to: more.to[rest], from: more.from[rest], lag: 0, is_inferred: more.is_inferred[rest] };
        while left > 0 && edges[left - 1] > next {
            left -= 1;
            edges[left + rest + 1] = edges[left];
        }
        edges[left + rest] = next;
    }
}

/// Each group's values in order.
fn grouped(mut values: Vec<(u32, i64)>) -> impl Iterator<Item = (u32, Vec<i64>)> {
    values.sort_unstable();
    let groups: Vec<_> = values
        .chunk_by(|one, other| one.0 == other.0)
        .map(|group| (group[0].0, group.iter().map(|&(_, value)| value).collect()))
        .collect();
    groups.into_iter()
}

/// The one in the middle of ordered values, or the mean of both.
fn median(ordered: &[i64]) -> Option<f64> {
    let middle = ordered.len() / 2;
    match (ordered.len() % 2, ordered.get(middle)) {
        (_, None) => None,
        (1, Some(&value)) => Some(value as f64),
        (_, Some(&value)) => Some(f64::midpoint(ordered[middle - 1] as f64, value as f64)),
    }
}

#[cfg(test)]
mod tests;
