//! Calls of the host wait for work.

use super::{Edge, Map, Pairs, Parts, UNKNOWN, traits};
use crate::columns::arrow::NONE;
use crate::columns::id_map::IdMap;

/// A call that waited for a work.
struct Wait {
    call: usize,
    after: usize,
    is_inferred: bool,
}

impl Parts<'_> {
    /// What calls waited for, and what they take when they need not.
    pub(super) fn call_waits(&self, returned: Pairs, by_id: &IdMap, edges: &mut Vec<Edge>, own: &mut Vec<(u32, i64)>) {
        let (works, calls, usual) = (self.works, self.calls, self.usual);
        let mut waits = self.known_waits(returned, by_id);
        self.other_waits(&mut waits);
        waits.retain(|wait| works.end[wait.after] <= calls.end[wait.call] && calls.name[wait.call] != NONE);
        // What a call takes that need not wait, also where all calls of its name did: at most what is left of it then.
        let lasted = |call: usize| calls.end[call].saturating_sub(calls.start[call]);
        let took = |wait: &Wait| calls.end[wait.call].saturating_sub(works.end[wait.after]);
        let mut least: Map<i64> = Map::default();
        let all = (0..calls.id.len()).map(|call| (call, lasted(call)));
        let left = waits.iter().map(|wait| (wait.call, took(wait).min(lasted(wait.call))));
        for (call, time) in all.chain(left) {
            let of_name = least.entry(calls.name[call]).or_insert(time);
            *of_name = time.min(*of_name);
        }
        // A call that returned long after the work did not wait for that.
        for wait in waits.iter().filter(|wait| took(wait) <= usual.returned) {
            let activity = calls.activity[wait.call];
            let (to, from) = (2 * activity + 1, self.end_of(wait.after));
            edges.push(Edge { to, from, lag: took(wait), is_inferred: wait.is_inferred });
            if works.end[wait.after] > calls.start[wait.call] {
                own.push((activity, least[&calls.name[wait.call]].min(lasted(wait.call))));
            }
        }
    }

    /// Calls that returned after the work that they launched, and those of which the profiler recorded it.
    fn known_waits(&self, returned: Pairs, by_id: &IdMap) -> Vec<Wait> {
        let (works, calls) = (self.works, self.calls);
        let launched = (0..works.start.len()).filter_map(|after| Some((self.launch_of(after)?, after)));
        let of_own = launched.filter(|&(call, after)| works.end[after] <= calls.end[call]);
        let recorded = returned.waits.iter().zip(returned.after).filter_map(|(&call, &after)| {
            let call = by_id.get(i64::from(call));
            Some((call as usize, self.row_of(after).filter(|_| call != NONE)?))
        });
        of_own.chain(recorded).map(|(call, after)| Wait { call, after, is_inferred: false }).collect()
    }

    /// Other calls that can wait: whatever it was for was over when the call returned, and launched before it began.
    fn other_waits(&self, waits: &mut Vec<Wait>) {
        let (works, calls) = (self.works, self.calls);
        let mut is_known = vec![false; calls.id.len()];
        waits.iter().for_each(|wait| is_known[wait.call] = true);
        let mut ends: Vec<(i64, usize)> = works.end.iter().copied().zip(0..).collect();
        ends.sort_unstable();
        let can_wait = (0..calls.id.len()).filter(|&call| calls.traits[call] & traits::WAITS != 0 && !is_known[call]);
        waits.extend(can_wait.filter_map(|call| {
            let before = ends.partition_point(|end| end.0 <= calls.end[call]);
            let after = ends[..before].last()?.1;
            let launch = works.launch[after];
            let is_before = launch != UNKNOWN && launch <= calls.start[call];
            is_before.then_some(Wait { call, after, is_inferred: true })
        }));
    }
}
