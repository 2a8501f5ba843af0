//! The spans of each thread, in order of time.

use std::cmp::Reverse;

use super::{CALL, QUERY, RANGE, Spans};

/// All threads, numbered from 0.
pub struct Lanes<'a> {
    spans: Spans<'a>,
    /// Of each span, where queries that are in no other span are calls.
    role: Vec<u8>,
    /// Rows by thread, start and end, of equal ones the first given first.
    order: Vec<u32>,
    firsts: Vec<usize>,
}

/// One thread.
#[derive(Clone, Copy)]
pub struct Lane<'a> {
    pub thread: u32,
    spans: Spans<'a>,
    role: &'a [u8],
    /// Outer spans before inner ones.
    pub rows: &'a [u32],
}

impl<'a> Lanes<'a> {
    pub fn new(spans: Spans<'a>, least: u32) -> Self {
        let count = spans.thread.iter().copied().max().unwrap_or(0).max(least) as usize + 1;
        let mut firsts = vec![0_usize; count + 1];
        let is_told = |row: usize| spans.role[row] <= QUERY;
        (0..spans.role.len()).filter(|&row| is_told(row)).for_each(|row| firsts[spans.thread[row] as usize + 1] += 1);
        (0..count).for_each(|thread| firsts[thread + 1] += firsts[thread]);
        let mut next = firsts.clone();
        let mut order = vec![0_u32; firsts[count]];
        for row in (0..spans.role.len()).filter(|&row| is_told(row)) {
            let at = &mut next[spans.thread[row] as usize];
            order[*at] = row as u32;
            *at += 1;
        }
        let place = |row: &u32| (spans.start[*row as usize], Reverse(spans.end[*row as usize]), *row);
        // Stable, because it makes use of the runs that are in order already, of which a trace is made.
        firsts.windows(2).for_each(|ends| order[ends[0]..ends[1]].sort_by_key(place));
        let mut role = spans.role.to_vec();
        firsts.windows(2).for_each(|ends| count_lone_queries(spans, &order[ends[0]..ends[1]], &mut role));
        Self { spans, role, order, firsts }
    }

    pub fn count(&self) -> u32 {
        self.firsts.len() as u32 - 1
    }

    pub fn of(&self, thread: u32) -> Lane<'_> {
        let rows = &self.order[self.firsts[thread as usize]..self.firsts[thread as usize + 1]];
        Lane { thread, spans: self.spans, role: &self.role, rows }
    }
}

/// Make calls of queries that no operator or range spans: nothing else names their time.
fn count_lone_queries(spans: Spans, rows: &[u32], role: &mut [u8]) {
    let mut reached = i64::MIN;
    for &row in rows {
        let at = row as usize;
        match role[at] {
            QUERY if spans.end[at] > reached => role[at] = CALL,
            QUERY | CALL => {}
            _ => reached = reached.max(spans.end[at]),
        }
    }
}

impl Lane<'_> {
    pub fn is_call(&self, row: u32) -> bool {
        self.role[row as usize] == CALL
    }

    pub fn is_named(&self, row: u32) -> bool {
        self.role[row as usize] <= RANGE
    }

    pub fn is_busy(&self, row: u32) -> bool {
        self.role[row as usize] != RANGE
    }

    pub fn start(&self, row: u32) -> i64 {
        self.spans.start[row as usize]
    }

    pub fn end(&self, row: u32) -> i64 {
        self.spans.end[row as usize]
    }

    /// Rows of some spans that no earlier one of them reaches into, by time.
    pub fn outermost(&self, counts: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut reached = i64::MIN;
        let mut found = Vec::new();
        for &row in self.rows.iter().filter(|row| counts(**row)) {
            if self.start(row) >= reached {
                found.push(row);
            }
            reached = reached.max(self.end(row));
        }
        found
    }
}
