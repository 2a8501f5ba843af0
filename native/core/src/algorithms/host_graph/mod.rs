//! What the threads of a host did, cut where something else may depend on it.
//!
//! A thread is cut where an outermost call of the device's runtime or an outermost named span starts or ends, where
//! steps do, and where it handed over to another thread or went on after it. What lies between two cuts is an activity.

mod activities;
mod handed;
mod lanes;

use crate::columns::arrow::NONE;
use lanes::{Lane, Lanes};

/// What a span is.
pub const OPERATOR: u8 = 0;
/// A named range that does not say that its thread works.
pub const RANGE: u8 = 1;
/// A call of the device's runtime.
pub const CALL: u8 = 2;
/// A call that only asks and returns at once: its time is that of the span around it.
pub const QUERY: u8 = 3;

/// Spans of threads as columns of equal length, of equal ones the outer first; those of other roles are left out.
#[derive(Clone, Copy)]
pub struct Spans<'a> {
    pub thread: &'a [u32],
    pub start: &'a [i64],
    pub end: &'a [i64],
    pub role: &'a [u8],
}

/// Steps, of which each starts and ends on a thread.
#[derive(Clone, Copy)]
pub struct Steps<'a> {
    pub thread: &'a [u32],
    pub start: &'a [i64],
    pub end: &'a [i64],
}

/// Activities by thread and time, and what among them waits for what. Points are twice the number of the activity, one
/// more for its end; nobody is `NONE`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HostGraph {
    pub thread: Vec<u32>,
    pub start: Vec<i64>,
    pub end: Vec<i64>,
    /// 0 where the thread only waited for another.
    pub own: Vec<i64>,
    /// Row of the innermost operator or range that spans all of it.
    pub around: Vec<u32>,
    /// Row of the call that it is.
    pub call: Vec<u32>,
    /// By row of the spans: of calls, the activity in which it began.
    pub begun_in: Vec<u32>,
    /// By the point that is reached, then by that which it waits for.
    pub edges: Vec<Edge>,
    /// Of each step, the point at which it starts, and ends.
    pub step_start: Vec<u32>,
    pub step_end: Vec<u32>,
}

/// One point waits for another; it is inferred where only times tell that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    pub to: u32,
    pub from: u32,
    pub is_inferred: bool,
}

impl HostGraph {
    /// Cut the threads of a host; `main` is the one that hands over to others.
    pub fn new(spans: Spans, steps: Steps, main: u32) -> Self {
        let lanes = Lanes::new(spans, steps.thread.iter().copied().max().unwrap_or(0).max(main));
        let runs = handed::runs(&lanes, main);
        let mut graph = Self { begun_in: vec![NONE; spans.start.len()], ..Self::default() };
        let mut firsts = Vec::with_capacity(lanes.count() as usize + 1);
        for thread in 0..lanes.count() {
            firsts.push(graph.start.len() as u32);
            graph.add_lane(&lanes.of(thread), activities::cuts(&lanes.of(thread), steps, &runs, main));
        }
        firsts.push(graph.start.len() as u32);
        graph.take_no_time(&firsts, &runs, main);
        graph.find_edges(&firsts, &runs, main);
        let at = |(&thread, &time): (&u32, &i64)| graph.point_at(&firsts, thread, time);
        let (start, end) = (
            steps.thread.iter().zip(steps.start).map(at).collect(),
            steps.thread.iter().zip(steps.end).map(at).collect(),
        );
        Self { step_start: start, step_end: end, ..graph }
    }

    /// What only waited for another thread takes no time itself.
    fn take_no_time(&mut self, firsts: &[u32], runs: &[handed::Run], main: u32) {
        let of = |thread: u32| firsts[thread as usize] as usize..firsts[thread as usize + 1] as usize;
        for at in of(main) {
            let before = runs.partition_point(|run| run.start <= self.start[at]);
            if before > 0 && self.end[at] <= runs[before - 1].end {
                self.own[at] = 0;
            }
        }
        // Before it was handed something, the other thread slept.
        for run in runs {
            let lane = of(run.thread);
            let at = lane.start + self.end[lane.clone()].partition_point(|&end| end < run.start);
            if lane.contains(&at) && self.end[at] == run.start && self.call[at] == NONE {
                self.own[at] = 0;
            }
        }
    }

    fn find_edges(&mut self, firsts: &[u32], runs: &[handed::Run], main: u32) {
        let mut inferred = Vec::with_capacity(2 * runs.len());
        for run in runs {
            let at = |thread: u32, time: i64| self.point_at(firsts, thread, time);
            let fork = (at(main, run.start), self.woken(firsts, run.thread, at(run.thread, run.start)));
            let join = (at(run.thread, run.end), self.woken(firsts, main, at(main, run.end)));
            let known = [fork, join].into_iter().filter(|&(from, to)| from != NONE && to != NONE);
            inferred.extend(known.map(|(from, to)| Edge { to, from, is_inferred: true }));
        }
        let follows =
            (1..self.thread.len() as u32).filter(|&at| self.thread[at as usize] == self.thread[at as usize - 1]);
        self.edges = follows.map(|at| Edge { to: 2 * at, from: 2 * at - 1, is_inferred: false }).collect();
        self.edges.append(&mut inferred);
        self.edges.sort();
    }

    /// The end of the wait for another thread before a point, else the point.
    fn woken(&self, firsts: &[u32], thread: u32, point: u32) -> u32 {
        let waited = (point != NONE && point.is_multiple_of(2) && point / 2 > firsts[thread as usize])
            .then(|| point as usize / 2 - 1)
            .filter(|&before| self.own[before] == 0 && self.end[before] == self.start[before + 1]);
        waited.map_or(point, |before| 2 * before as u32 + 1)
    }

    /// The start of the activity that starts at a time, else the end of the last that started before.
    fn point_at(&self, firsts: &[u32], thread: u32, time: i64) -> u32 {
        let (first, end) = (firsts[thread as usize] as usize, firsts[thread as usize + 1] as usize);
        let after = first + self.start[first..end].partition_point(|&start| start <= time);
        if after == first {
            return NONE;
        }
        let last = after - 1;
        2 * last as u32 + u32::from(self.start[last] != time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of thread, role, start and end.
    fn graph(spans: &[(u32, u8, i64, i64)], steps: &[(u32, i64, i64)]) -> HostGraph {
        let thread: Vec<u32> = spans.iter().map(|span| span.0).collect();
        let role: Vec<u8> = spans.iter().map(|span| span.1).collect();
        let start: Vec<i64> = spans.iter().map(|span| span.2).collect();
        let end: Vec<i64> = spans.iter().map(|span| span.3).collect();
        let of_steps: Vec<u32> = steps.iter().map(|step| step.0).collect();
        let begins: Vec<i64> = steps.iter().map(|step| step.1).collect();
        let ends: Vec<i64> = steps.iter().map(|step| step.2).collect();
        let spans = Spans { thread: &thread, start: &start, end: &end, role: &role };
        HostGraph::new(spans, Steps { thread: &of_steps, start: &begins, end: &ends }, 0)
    }

    /// Start, end, the row around and the row of the call of each activity.
    fn activities(graph: &HostGraph) -> Vec<(i64, i64, u32, u32)> {
        let all = 0..graph.start.len();
        all.map(|at| (graph.start[at], graph.end[at], graph.around[at], graph.call[at])).collect()
    }

    #[test]
    fn a_thread_is_cut_at_outermost_calls_and_named_after_the_innermost_span() {
        let found = graph(&[(0, OPERATOR, 0, 100), (0, OPERATOR, 10, 60), (0, CALL, 20, 30), (0, CALL, 22, 25)], &[]);
        assert_eq!(activities(&found), [(0, 20, 0, NONE), (20, 30, 1, 2), (30, 100, 0, NONE)]);
        assert_eq!(found.begun_in, [NONE, NONE, 1, 1]);
        let follows = |to, from| Edge { to, from, is_inferred: false };
        assert_eq!(found.edges, [follows(2, 1), follows(4, 3)]);
    }

    #[test]
    fn a_query_is_time_of_the_span_around_it_and_a_call_where_there_is_none() {
        let found = graph(&[(0, OPERATOR, 0, 100), (0, QUERY, 20, 30), (0, CALL, 40, 50), (0, QUERY, 110, 120)], &[]);
        let expected =
            [(0, 40, 0, NONE), (40, 50, 0, 2), (50, 100, 0, NONE), (100, 110, NONE, NONE), (110, 120, NONE, 3)];
        assert_eq!(activities(&found), expected);
    }

    #[test]
    fn nothing_cuts_a_call_and_a_step_that_starts_in_one_begins_at_its_end() {
        let found = graph(&[(0, CALL, 0, 50), (0, RANGE, 10, 90)], &[(0, 20, 90)]);
        assert_eq!(activities(&found), [(0, 50, NONE, 0), (50, 90, 1, NONE)]);
        assert_eq!((found.step_start, found.step_end), (vec![1], vec![3]));
    }

    #[test]
    fn a_thread_that_waits_for_another_takes_no_time() {
        let us = 1_000;
        let found = graph(
            &[(0, OPERATOR, 0, 10 * us), (0, OPERATOR, 60 * us, 70 * us), (1, OPERATOR, 20 * us, 50 * us)],
            &[(0, 0, 70 * us)],
        );
        assert_eq!(found.end, [10 * us, 20 * us, 50 * us, 60 * us, 70 * us, 50 * us]);
        assert_eq!(found.own, [10 * us, 10 * us, 0, 10 * us, 10 * us, 30 * us]);
        let inferred: Vec<(u32, u32)> =
            found.edges.iter().filter(|edge| edge.is_inferred).map(|edge| (edge.from, edge.to)).collect();
        assert_eq!(inferred, [(11, 5), (4, 10)]);
    }

    #[test]
    fn spans_of_other_roles_are_left_out() {
        let found = graph(&[(0, QUERY + 1, 0, 100), (0, OPERATOR, 10, 60), (1, QUERY + 1, 5, 7)], &[]);
        assert_eq!(activities(&found), [(10, 60, 1, NONE)]);
    }

    #[test]
    fn without_spans_nothing_is_found() {
        assert_eq!(graph(&[], &[(0, 5, 6)]).start, [5]);
        assert_eq!(graph(&[], &[]), HostGraph::default());
    }
}
