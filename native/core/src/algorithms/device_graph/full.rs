//! Launches wait for room in a full queue.

use super::{Edge, Map, Parts, grouped, median};

/// A queue holds what is this near to the most that was ever under way in it.
const NEAR: f64 = 0.02;

/// A launch in the order in which its queue was given them.
struct Launch {
    call: usize,
    work: usize,
    /// How many of its queue's works were under way when it was called.
    depth: i64,
}

impl Parts<'_> {
    /// How much a queue holds is what is under way in it where launches often waited.
    pub(super) fn waits_for_room(&self, edges: &mut Vec<Edge>, own: &mut Vec<(u32, i64)>) {
        let (works, calls, usual) = (self.works, self.calls, self.usual);
        let took = |call: usize| calls.end[call].saturating_sub(calls.start[call]);
        let launches = || (0..works.start.len()).filter_map(|work| self.launch_of(work));
        let slow_count = launches().filter(|&call| took(call) > usual.waited).count();
        if works.start.len() as i64 <= usual.full || slow_count < usual.full_times {
            return;
        }
        let of_names: Map<f64> = grouped(launches().map(|call| (calls.name[call], took(call))).collect())
            .filter_map(|(name, took)| median(&took).map(|median| (name, median)))
            .collect();
        for queue in self.queues() {
            let launches = self.in_order(queue);
            let is_slow = |launch: &&Launch| launch.depth >= usual.full && took(launch.call) > usual.waited;
            let mut depths: Vec<i64> = launches.iter().filter(is_slow).map(|launch| launch.depth).collect();
            depths.sort_unstable();
            let Some(limit) = median(&depths).filter(|_| depths.len() >= usual.full_times) else { continue };
            for (number, launch) in launches.iter().enumerate().filter(|(_, launch)| is_slow(launch)) {
                // Room comes when the work begins that is next when it is called.
                let room = (number + 1).checked_sub(limit as usize).map(|number| launches[number].work);
                let (since, until) = (calls.start[launch.call], calls.end[launch.call]);
                let is_full = (launch.depth as f64 - limit).abs() <= NEAR * limit;
                let room = room.filter(|&room| is_full && (since..=until).contains(&works.start[room]));
                if let Some(room) = room {
                    let activity = calls.activity[launch.call];
                    let lag = (until - works.start[room]).clamp(0, usual.returned);
                    edges.push(Edge { to: 2 * activity + 1, from: self.start_of(room), lag, is_inferred: true });
                    own.push((activity, of_names[&calls.name[launch.call]] as i64));
                }
            }
        }
    }

    /// The launches of one queue as they were called, and how many were under way then.
    fn in_order(&self, queue: std::ops::Range<usize>) -> Vec<Launch> {
        let (works, calls) = (self.works, self.calls);
        let mut launched: Vec<(i64, u32, usize, usize)> = queue
            .filter_map(|work| self.launch_of(work).map(|call| (work, call)))
            .map(|(work, call)| (calls.start[call], calls.activity[call], work, call))
            .collect();
        launched.sort_unstable();
        let mut begun: Vec<(i64, i64)> = launched.iter().map(|launch| works.start[launch.2]).zip(0..).collect();
        begun.sort_unstable();
        let launches = launched.into_iter().zip(0_i64..).map(|((since, _, work, call), number)| {
            let last = begun[..begun.partition_point(|begun| begun.0 <= since)].last();
            Launch { call, work, depth: number - last.map_or(-1, |&(_, number)| number) }
        });
        launches.collect()
    }
}
