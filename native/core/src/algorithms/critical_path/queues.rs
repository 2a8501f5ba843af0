//! What came after what on the queues of devices.

use crate::algorithms::critical_path::builder::{Builder, Done, Ends, Map};
use crate::algorithms::critical_path::model::{DEVICE_SYNC, Kind, PROMPT, QUEUE_SYNC, QUEUE_WAIT, Rules, WORK};

impl Builder<'_> {
    /// What runs on a queue follows its launch, what ran before it, or what it was made to wait for.
    pub fn follow_queues(&mut self, rules: Rules) {
        let mut order: Vec<usize> = (0..self.device.id.len()).collect();
        let is_work = |row: usize| self.device.role[row] & !PROMPT == WORK;
        order.sort_unstable_by_key(|&row| {
            let time = if is_work(row) { self.device.start[row] } else { self.device.end[row] };
            (time, self.device.id[row])
        });
        // Queues in the order in which they were used first, so that the result depends on nothing else.
        let mut queues: Vec<(u32, Done)> = Vec::new();
        let mut place: Map<usize> = Map::default();
        let mut held: Map<Vec<Done>> = Map::default();
        for row in order {
            if is_work(row) {
                let queue = self.device.queue[row];
                let Some(ends) = self.ends_of(self.device.id[row]) else { continue };
                let before = place.get(&queue).map(|&place| queues[place].1);
                let waited_for = held.remove(&self.device.id[row]).unwrap_or_default();
                self.follow_queue(row, ends, before, &waited_for, rules);
                let done = Done { node: ends.end, time: self.time(ends.end) };
                match place.get(&queue) {
                    Some(&place) => queues[place].1 = done,
                    None => {
                        place.insert(queue, queues.len());
                        queues.push((self.device.device[row], done));
                    }
                }
                continue;
            }
            let done = |id: u32| self.ends_of(id).map(|ends| Done { node: ends.end, time: self.time(ends.end) });
            if self.device.role[row] == QUEUE_WAIT {
                if let Some(done) = done(self.device.after[row]) {
                    held.entry(self.device.holds[row]).or_default().push(done);
                }
                continue;
            }
            let Some(call) = self.ends_of(self.device.call[row]) else { continue };
            let waited_for: Vec<Done> = match self.device.role[row] {
                QUEUE_SYNC => place.get(&self.device.queue[row]).map(|&place| queues[place].1).into_iter().collect(),
                DEVICE_SYNC => {
                    let device = self.device.device[row];
                    queues.iter().filter(|queue| queue.0 == device).map(|queue| queue.1).collect()
                }
                _ => done(self.device.after[row]).into_iter().collect(),
            };
            for done in waited_for {
                self.add(done.node, call.end, Kind::Sync, 0);
            }
        }
    }

    fn follow_queue(&mut self, row: usize, ends: Ends, before: Option<Done>, waited_for: &[Done], rules: Rules) {
        let start = self.device.start[row];
        for done in waited_for {
            self.add(done.node, ends.start, Kind::Sync, 0);
        }
        let synced = waited_for.iter().map(|done| done.time).max();
        let launch = self.ends_of(self.device.call[row]).map(|call| call.start);
        let was_free = |launch: u32| {
            let time = self.time(launch);
            before.is_none_or(|before| before.time < time) && synced.is_none_or(|synced| synced < time)
        };
        let prompt = launch.filter(|&launch| self.device.role[row] & PROMPT != 0 && was_free(launch));
        if let Some(launch) = prompt {
            self.add(launch, ends.start, Kind::LaunchDelay, self.between(launch, ends.start));
        } else if let Some(before) = before {
            let delay = start.saturating_sub(before.time);
            if delay < rules.longest_kernel_delay && synced.is_none_or(|synced| synced < before.time) {
                self.add(before.node, ends.start, Kind::KernelDelay, delay);
            }
        }
        if let Some(launch) = launch.filter(|_| rules.has_all_launches && prompt.is_none()) {
            self.add(launch, ends.start, Kind::LaunchDelay, 0);
        }
        self.add(ends.start, ends.end, Kind::Operator, self.between(ends.start, ends.end));
    }
}
