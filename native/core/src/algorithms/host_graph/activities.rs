//! The activities of one thread.

use super::handed::Run;
use super::{HostGraph, Lane, Steps};
use crate::columns::arrow::NONE;

/// The times at which a thread is cut, in order; none is within a call.
pub fn cuts(lane: &Lane, steps: Steps, runs: &[Run], main: u32) -> Cuts {
    let calls = lane.outermost(|row| lane.is_call(row));
    let named = lane.outermost(|row| lane.is_named(row));
    let of_named = named.iter().flat_map(|&row| [lane.start(row), lane.end(row)]);
    let here = (0..steps.thread.len()).filter(|&step| steps.thread[step] == lane.thread);
    let of_steps = here.flat_map(|step| [steps.start[step], steps.end[step]]);
    let touching = runs.iter().filter(|run| run.thread == lane.thread || lane.thread == main);
    let of_runs = touching.flat_map(|run| [run.start, run.end]);
    let is_free = |time: &i64| {
        let after = calls.partition_point(|&call| lane.start(call) <= *time);
        after == 0 || lane.start(calls[after - 1]) == *time || lane.end(calls[after - 1]) <= *time
    };
    let mut times: Vec<i64> = of_named.chain(of_steps).chain(of_runs).filter(is_free).collect();
    times.extend(calls.iter().flat_map(|&row| [lane.start(row), lane.end(row)]));
    // Stable, because it makes use of the runs that are in order already.
    times.sort();
    times.dedup();
    Cuts { times, calls }
}

pub struct Cuts {
    times: Vec<i64>,
    /// Rows of the outermost calls, by time.
    calls: Vec<u32>,
}

impl HostGraph {
    /// Append what lies between the cuts of a thread.
    pub fn add_lane(&mut self, lane: &Lane, cuts: Cuts) {
        let first = self.start.len();
        let lasting = cuts.calls.iter().copied().filter(|&call| lane.end(call) > lane.start(call));
        let mut calls = lasting.peekable();
        let mut spans = Around { lane, open: Vec::new(), next: 0 };
        for ends in cuts.times.windows(2) {
            let (start, end) = (ends[0], ends[1]);
            while calls.next_if(|&call| lane.start(call) < start).is_some() {}
            let call = calls.next_if(|&call| lane.start(call) == start);
            self.thread.push(lane.thread);
            self.start.push(start);
            self.end.push(end);
            self.own.push(end.saturating_sub(start));
            self.call.push(call.unwrap_or(NONE));
            self.around.push(spans.innermost(start, end));
        }
        self.place_calls(lane, first);
    }

    /// Say of each call, in which activity from `first` on it began.
    fn place_calls(&mut self, lane: &Lane, first: usize) {
        let mut after = first;
        for &row in lane.rows.iter().filter(|row| lane.is_call(**row)) {
            while after < self.start.len() && self.start[after] <= lane.start(row) {
                after += 1;
            }
            if after > first {
                self.begun_in[row as usize] = after as u32 - 1;
            }
        }
    }
}

/// The operators and ranges around times that only grow.
struct Around<'a> {
    lane: &'a Lane<'a>,
    /// Rows, each within the one before.
    open: Vec<u32>,
    /// The next of the lane's rows.
    next: usize,
}

impl Around<'_> {
    /// The row of the innermost that spans all of a time, or `NONE`.
    fn innermost(&mut self, start: i64, end: i64) -> u32 {
        while let Some(&row) = self.lane.rows.get(self.next) {
            let (begins, ends) = (self.lane.start(row), self.lane.end(row));
            if begins > start || begins == start && ends < end {
                break;
            }
            self.next += 1;
            if self.lane.is_named(row) {
                self.leave(ends);
                self.open.push(row);
            }
        }
        self.leave(end);
        self.open.last().copied().unwrap_or(NONE)
    }

    /// What ends earlier spans neither this nor anything later that this does not span.
    fn leave(&mut self, end: i64) {
        while self.open.last().is_some_and(|&row| self.lane.end(row) < end) {
            self.open.pop();
        }
    }
}
