//! What came after what on the threads of the host.

use crate::algorithms::critical_path::builder::Builder;
use crate::algorithms::critical_path::model::{COUNTS, Kind, LOCKS, Node, WAITS};
use crate::columns::grouping::Grouping;

/// A start or an end: its time, whether it is a start, and the row.
type Point = (i64, bool, u32);

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
                let Some(ends) = self.ends_of(self.host.id[row as usize]) else { continue };
                locks[ends.start as usize] = true;
                locks[ends.end as usize] = true;
            }
        }
        locks
    }

    /// What a thread does follows what it did before.
    pub fn follow_threads(&mut self) {
        let locks = self.locks();
        let counting: Vec<u32> =
            self.rows.iter().copied().filter(|&row| self.host.role[row as usize] & COUNTS != 0).collect();
        let threads =
            counting.iter().map(|&row| self.host.thread[row as usize]).max().map_or(0, |last| last as usize + 1);
        let rows = Grouping::new(threads, counting.iter().map(|&row| (self.host.thread[row as usize], row)));
        for thread in 0..threads as u32 {
            let points = self.points(rows.of(thread));
            self.follow_thread(&points, &locks);
        }
    }

    /// Starts and ends of calls in the order in which they were.
    fn points(&self, rows: &[u32]) -> Vec<Point> {
        let (start, end, id) = (self.host.start, self.host.end, self.host.id);
        let starts = rows.iter().map(|&row| (start[row as usize], true, row));
        let ends = rows.iter().rev().map(|&row| (end[row as usize], false, row));
        let mut points: Vec<Point> = starts.chain(ends).collect();
        // Of starts at one time the outer comes first, of ends the inner, and ends come before starts.
        points.sort_unstable_by(|one, other| {
            one.0.cmp(&other.0).then(one.1.cmp(&other.1)).then_with(|| {
                let (one_row, other_row) = (one.2 as usize, other.2 as usize);
                let lasts = |row: usize| end[row].saturating_sub(start[row]);
                let inner_first = lasts(one_row).cmp(&lasts(other_row)).then(id[other_row].cmp(&id[one_row]));
                if one.1 { inner_first.reverse() } else { inner_first }
            })
        });
        points
    }

    fn follow_thread(&mut self, points: &[Point], locks: &[bool]) {
        let mut last: Option<u32> = None;
        let mut open = 0_usize;
        for &(_, is_start, row) in points {
            let Some(ends) = self.ends_of(self.host.id[row as usize]) else { continue };
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
