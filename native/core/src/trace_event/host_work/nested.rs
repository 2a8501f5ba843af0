//! Operators and ranges within each other, and how much of an operator's time is its own.

use std::cmp::Reverse;

use crate::columns::arrow::NONE;
use crate::columns::grouping::Grouping;
use crate::trace_event::columns::Spans;
use crate::trace_event::kineto::Class;

/// An operator computes itself, too, if its own time makes up this part of all its calls.
const OWN_PARTS: i64 = 5;
/// An operator of which a function of Python takes at least this part is carried out in Python, and computes in others.
const PYTHON_PARTS: i64 = 10;
/// Of the functions in an operator no more are looked at: the outermost are the first.
const MOST_FUNCTIONS: usize = 64;

/// Operators and ranges of a thread, by time.
pub(super) struct Nested {
    pub rows: Vec<u32>,
    /// What is around each by its place among them.
    pub around: Vec<u32>,
    /// The operator that is.
    pub caller: Vec<u32>,
    /// How long the operators that each calls itself take.
    pub within: Vec<i64>,
}

impl Nested {
    pub fn of(spans: &Spans, mut rows: Vec<u32>) -> Self {
        let (start, end) = (|row: u32| spans.start[row as usize], |row: u32| spans.end[row as usize]);
        let is_operator = |row: u32| spans.class[row as usize] == Class::CpuOp;
        rows.sort_by_key(|&row| (start(row), Reverse(end(row)), row));
        let (mut around, mut caller) = (vec![NONE; rows.len()], vec![NONE; rows.len()]);
        let mut within = vec![0; rows.len()];
        let mut open: Vec<u32> = Vec::new();
        for (at, &row) in (0u32..).zip(&rows) {
            while open.last().is_some_and(|&last| end(rows[last as usize]) < end(row).max(start(row) + 1)) {
                open.pop();
            }
            if let Some(&outer) = open.last() {
                around[at as usize] = outer;
                caller[at as usize] = if is_operator(rows[outer as usize]) { outer } else { caller[outer as usize] };
            }
            if caller[at as usize] != NONE && is_operator(row) {
                within[caller[at as usize] as usize] += end(row) - start(row);
            }
            open.push(at);
        }
        Self { rows, around, caller, within }
    }
}

/// By row, whether it is an operator that Python carries out, as those on distributed tensors are.
pub(super) fn in_python(spans: &Spans, by_track: &Grouping, tracks: usize) -> Vec<bool> {
    let mut found = vec![false; spans.id.len()];
    let (start, end) = (|row: u32| spans.start[row as usize], |row: u32| spans.end[row as usize]);
    for track in 0..tracks as u32 {
        let of_class =
            |class| by_track.of(track).iter().copied().filter(move |&row| spans.class[row as usize] == class);
        let mut functions: Vec<u32> = of_class(Class::Python).collect();
        functions.sort_by_key(|&row| (start(row), Reverse(end(row))));
        for row in of_class(Class::CpuOp) {
            let first = functions.partition_point(|&function| start(function) <= start(row));
            let within = functions[first..].iter().take(MOST_FUNCTIONS).take_while(|&&other| start(other) < end(row));
            let least = (end(row) - start(row)) / PYTHON_PARTS;
            found[row as usize] =
                within.into_iter().any(|&other| end(other) <= end(row) && end(other) - start(other) > least);
        }
    }
    found
}

/// How much of an operator's time is its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    Mostly,
    /// It calls others that compute, and computes itself, too.
    Partly,
    Hardly,
}

/// The same by name: another process may interrupt any one call, or what it calls.
pub(super) fn own_work_by_name(spans: &Spans, threads: &[Nested], (in_python, names): (&[bool], usize)) -> Vec<Own> {
    let mut sums = vec![(0_i64, 0_i64); names];
    for thread in threads {
        let own = thread.rows.iter().zip(&thread.within).filter(|&(&row, _)| !in_python[row as usize]);
        for (&row, &within) in own {
            let (at, lasted) = (row as usize, spans.end[row as usize] - spans.start[row as usize]);
            if let Some((all, inner)) = sums.get_mut(spans.name[at] as usize) {
                (*all, *inner) = (all.saturating_add(lasted), inner.saturating_add(within));
            }
        }
    }
    let of = |&(all, inner): &(i64, i64)| match all.saturating_sub(inner) {
        own if own >= inner => Own::Mostly,
        own if own >= all / OWN_PARTS => Own::Partly,
        _ => Own::Hardly,
    };
    sums.iter().map(of).collect()
}
