//! Work waits for its turn in its queue, for its launch, and for what ran before the recording.

use std::ops::Range;

use super::{Edge, Map, Parts, UNKNOWN, grouped, median};

/// What takes at most so many times as long as usual is the queue's own.
const USUAL: f64 = 2.0;
/// The share of launches that are the quickest.
const QUICKEST: f64 = 0.1;

/// A work with the call that launched it.
struct Launched {
    at: usize,
    call: usize,
    /// From the start of the call to that of the work.
    took: i64,
    /// Whether it waited for nothing but the call.
    is_prompt: bool,
    /// How long after the return of a call that stood still it began; none of other calls.
    after: Option<i64>,
}

impl Parts<'_> {
    /// Work waits for the work before it in its queue.
    pub(super) fn turns(&self) -> Vec<Edge> {
        let (works, usual) = (self.works, self.usual);
        let mut edges = Vec::with_capacity(3 * works.start.len());
        for queue in self.queues() {
            let after = || queue.clone().skip(1);
            let gap = |at: usize| works.start[at].saturating_sub(works.end[at - 1]);
            let is_turn = |at: &usize| {
                let launch = works.launch[*at];
                let has_waited = launch != UNKNOWN && launch.saturating_add(usual.launch) < works.end[at - 1];
                has_waited && (0..=usual.waited).contains(&gap(*at))
            };
            let mut turns: Vec<i64> = after().filter(is_turn).map(gap).collect();
            turns.sort_unstable();
            let of_queue = median(&turns).unwrap_or(usual.turn as f64);
            edges.extend(after().map(|at| {
                let lag = if gap(at) as f64 <= USUAL * of_queue { gap(at) } else { of_queue as i64 };
                Edge { to: self.start_of(at), from: self.end_of(at - 1), lag, is_inferred: false }
            }));
        }
        edges
    }

    /// Work waits for its launch, at least for as long as that takes at its quickest; where the call stood still before
    /// it launched anything, for its return.
    pub(super) fn launches(&self, edges: &mut Vec<Edge>) {
        let (calls, usual) = (self.calls, self.usual);
        // Gone through twice: to hold them would take as much memory as the work itself.
        let launched = || self.queues().flat_map(|queue| self.launched_in(queue));
        let prompt = launched().filter(|launch| launch.is_prompt).map(|launch| (calls.name[launch.call], launch.took));
        let of_names: Map<(f64, f64)> = grouped(prompt.collect())
            .filter_map(|(name, took)| {
                let quickest = ((took.len() - 1) as f64 * QUICKEST).round() as usize;
                median(&took).map(|median| (name, (median, took[quickest] as f64)))
            })
            .collect();
        edges.extend(launched().map(|Launched { at, call, took, is_prompt, after }| {
            let (to, activity) = (self.start_of(at), calls.activity[call]);
            if let Some(lag) = after {
                return Edge { to, from: 2 * activity + 1, lag, is_inferred: false };
            }
            let all = usual.launch as f64;
            let (of_name, least) = of_names.get(&calls.name[call]).copied().unwrap_or((all, all));
            let lag = if is_prompt && took as f64 <= USUAL * of_name { took } else { least.min(took as f64) as i64 };
            Edge { to, from: 2 * activity, lag, is_inferred: false }
        }));
    }

    /// The works of a queue whose calls are known.
    fn launched_in(&self, queue: Range<usize>) -> impl Iterator<Item = Launched> {
        let (works, calls, usual, first) = (self.works, self.calls, self.usual, queue.start);
        queue.filter_map(|at| self.launch_of(at).map(|call| (at, call))).map(move |(at, call)| {
            let was_free = |time: i64| at == first || works.end[at - 1] <= time;
            let took = works.start[at].saturating_sub(calls.start[call]);
            let is_prompt = was_free(calls.start[call]) && (0..=usual.waited).contains(&took);
            let lasted = calls.end[call].saturating_sub(calls.start[call]);
            let after = works.start[at].saturating_sub(calls.end[call]);
            let stood_still = lasted > usual.waited && was_free(calls.end[call]) && (0..=usual.waited).contains(&after);
            Launched { at, call, took, is_prompt, after: stood_still.then_some(after) }
        })
    }

    /// Work launched before the recording began is not in it: the first work of a device waited for that, where it
    /// began long after its launch had returned.
    pub(super) fn begins(&self, edges: &mut Vec<Edge>) {
        let (works, calls) = (self.works, self.calls);
        let begin = |queue: Range<usize>| (works.device[queue.start], works.start[queue.start], queue.start);
        let mut firsts: Vec<_> = self.queues().map(begin).collect();
        firsts.sort_unstable();
        firsts.dedup_by_key(|first| first.0);
        edges.extend(firsts.into_iter().filter_map(|(_, _, at)| {
            let call = self.launch_of(at)?;
            let lag = works.start[at].saturating_sub(calls.end[call]);
            let edge = Edge { to: self.start_of(at), from: 2 * calls.activity[call] + 1, lag, is_inferred: true };
            (lag > self.usual.waited).then_some(edge)
        }));
    }
}
