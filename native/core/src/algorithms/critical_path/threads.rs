//! What came after what on the threads of the host.

use crate::algorithms::critical_path::builder::Builder;
use crate::algorithms::critical_path::model::{COUNTS, Kind, LOCKS, Node, WAITS};

/// A start or an end: thread, time, whether it is a start, two that decide between those of one time, and the row.
type Point = (u32, i64, bool, i64, i64, u32);

impl Builder<'_> {
    /// Calls of all threads that hold the runtime's lock at once wait for each other.
    pub fn take_lock(&mut self) {
        let locks = self.locks();
        let mut held: Vec<u32> = Vec::new();
        let mut before: Option<u32> = None;
        let nodes: Vec<u32> = (0..self.nodes.len() as u32).filter(|&node| locks[node as usize]).collect();
        for node in nodes {
            let Node { event, is_start, .. } = self.nodes[node as usize];
            if is_start {
                held.push(node);
            } else {
                while let Some(start) = held.pop() {
                    if self.nodes[start as usize].event == event {
                        self.add(start, node, Kind::Operator, self.between(start, node));
                    } else {
                        self.add(start, node, Kind::Dependency, 0);
                    }
                }
                if let Some(before) = before.filter(|&before| !self.nodes[before as usize].is_start) {
                    self.add(before, node, Kind::Dependency, 0);
                }
            }
            before = Some(node);
        }
    }

    /// For each node whether its event holds the runtime's lock.
    fn locks(&self) -> Vec<bool> {
        let mut locks = vec![false; self.nodes.len()];
        for &row in &self.rows {
            if self.host.role[row as usize] & (COUNTS | LOCKS) == COUNTS | LOCKS {
                let ends = self.ends[&self.host.id[row as usize]];
                locks[ends.start as usize] = true;
                locks[ends.end as usize] = true;
            }
        }
        locks
    }

    /// What a thread does follows what it did before.
    pub fn follow_threads(&mut self) {
        let locks = self.locks();
        let mut points: Vec<Point> = Vec::with_capacity(2 * self.rows.len());
        for &row in &self.rows {
            let at = row as usize;
            if self.host.role[at] & COUNTS != 0 {
                let lasts = self.host.end[at].saturating_sub(self.host.start[at]);
                let id = i64::from(self.host.id[at]);
                // Of starts at one time the outer comes first, of ends the inner, and ends come before starts.
                points.push((self.host.thread[at], self.host.end[at], false, lasts, -id, row));
                points.push((self.host.thread[at], self.host.start[at], true, -lasts, id, row));
            }
        }
        points.sort_unstable();
        for thread in points.chunk_by(|one, other| one.0 == other.0) {
            self.follow_thread(thread, &locks);
        }
    }

    fn follow_thread(&mut self, points: &[Point], locks: &[bool]) {
        let mut last: Option<u32> = None;
        let mut open = 0_usize;
        for &(.., is_start, _, _, row) in points {
            let ends = self.ends[&self.host.id[row as usize]];
            let node = if is_start { ends.start } else { ends.end };
            if let Some(last) = last {
                let both_lock = locks[last as usize] && locks[node as usize];
                let follows = !self.nodes[last as usize].is_start && is_start;
                // Within the lock its own edges say what came after what.
                if !both_lock || follows {
                    let is_apart = is_start && open == 0;
                    let waits = !is_start && self.host.role[row as usize] & WAITS != 0;
                    let kind = if is_apart { Kind::Dependency } else { Kind::Operator };
                    let weight = if is_apart || waits { 0 } else { self.between(last, node) };
                    self.add(last, node, kind, weight);
                }
            }
            open = if is_start { open + 1 } else { open - 1 };
            last = Some(node);
        }
    }
}
