//! Work waits for work of another queue.

use std::collections::BTreeMap;

use super::{Edge, Pairs, Parts, traits};

/// Two works of which one waited for the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    after: usize,
    held: usize,
    is_inferred: bool,
}

/// A mark that a call made: when, in which queue, and behind what.
struct Mark {
    time: i64,
    queue: u32,
    after: usize,
}

impl Parts<'_> {
    /// What waited as the profiler recorded it, as `times` tell, and by the order of calls.
    pub(super) fn handed_over(&self, held: Pairs, times: Pairs, edges: &mut Vec<Edge>) {
        let (works, usual) = (self.works, self.usual);
        let mut pairs = Vec::new();
        for (told, is_inferred) in [(held, false), (times, true)] {
            pairs.extend(told.after.iter().zip(told.waits).filter_map(|(&after, &held)| {
                Some(Pair { after: self.row_of(after)?, held: self.row_of(held)?, is_inferred })
            }));
        }
        self.by_order_of_calls(&mut pairs);
        pairs.sort_unstable();
        pairs.dedup_by_key(|pair| (pair.after, pair.held));
        edges.extend(pairs.into_iter().filter_map(|pair| {
            let gap = works.start[pair.held].saturating_sub(works.end[pair.after]);
            // What began before it was over did not wait for it, whatever the calls say.
            let is_other = gap >= 0 && works.queue[pair.held] != works.queue[pair.after];
            let lag = if gap <= usual.handed { gap } else { usual.turn };
            let (to, from) = (self.start_of(pair.held), self.end_of(pair.after));
            is_other.then_some(Edge { to, from, lag, is_inferred: pair.is_inferred })
        }));
    }

    /// A call that makes a queue wait holds up what its thread launches next; the mark is the last one that was set
    /// behind work of another queue.
    fn by_order_of_calls(&self, pairs: &mut Vec<Pair>) {
        let (works, calls) = (self.works, self.calls);
        let of_trait = |is: u8| (0..calls.id.len()).filter(move |&call| calls.traits[call] & is != 0);
        if of_trait(traits::HOLDS).next().is_none() {
            return;
        }
        let mut launched: BTreeMap<u32, Vec<(i64, u32, usize)>> = BTreeMap::new();
        for at in 0..works.start.len() {
            if let Some(call) = self.launch_of(at) {
                let of_thread = launched.entry(calls.thread[call]).or_default();
                of_thread.push((calls.start[call], works.id[at], at));
            }
        }
        launched.values_mut().for_each(|of_thread| of_thread.sort_unstable());
        let of_thread = |call: usize| launched.get(&calls.thread[call]).map_or(&[][..], Vec::as_slice);
        let mut marks: Vec<Mark> = of_trait(traits::RECORDS)
            .filter_map(|call| {
                let before = of_thread(call).partition_point(|launch| launch.0 <= calls.start[call]);
                let after = of_thread(call)[..before].last()?.2;
                Some(Mark { time: calls.start[call], queue: works.queue[after], after })
            })
            .collect();
        marks.sort_by_key(|mark| mark.time);
        // The last mark before each that is of another queue.
        let mut others: Vec<Option<usize>> = Vec::with_capacity(marks.len());
        for at in 0..marks.len() {
            let is_same = at > 0 && marks[at].queue == marks[at - 1].queue;
            others.push(if is_same { others[at - 1] } else { at.checked_sub(1) });
        }
        pairs.extend(of_trait(traits::HOLDS).filter_map(|call| {
            let next = of_thread(call).partition_point(|launch| launch.0 < calls.start[call]);
            let held = of_thread(call).get(next)?.2;
            let last = marks.partition_point(|mark| mark.time <= calls.start[call]).checked_sub(1)?;
            let of_other = if marks[last].queue == works.queue[held] { others[last]? } else { last };
            Some(Pair { after: marks[of_other].after, held, is_inferred: true })
        }));
    }
}
