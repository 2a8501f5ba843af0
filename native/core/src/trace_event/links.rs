//! Launch to device event, and the arrows between events.

use std::cmp::Reverse;

use hashbrown::HashMap;

use crate::columns::table::NONE;
use crate::trace_event::kineto::Class;
use crate::trace_event::store::{FlowPhase, Flows, Spans, integers};

/// Ended siblings that are looked past for the event that encloses an arrow's end; profilers put it on the first.
const MAX_SIBLINGS: usize = 4096;

/// The arg both sides of a launch carry.
pub const CORRELATION: &str = "correlation";

/// For each of the `device` rows (ascending) the row of the host call that started it, or `NONE`.
///
/// One call may start many (a graph). Where calls nest (runtime over driver) and share the id, the outer one counts.
pub fn launches(spans: &Spans, device: &[u32]) -> Vec<u32> {
    let mut found = vec![NONE; device.len()];
    let Some(column) = spans.args.iter().find(|arg| arg.key == CORRELATION) else { return found };
    let Some(correlations) = integers(column) else { return found };
    let mut calls = Calls::new(correlations);
    for (&row, &id) in column.rows.iter().zip(correlations) {
        if id <= 0 || spans.class[row as usize] != Class::Runtime {
            continue;
        }
        let known = calls.slot(id);
        if *known == NONE || spans.start[row as usize] < spans.start[*known as usize] {
            *known = row;
        }
    }
    let mut at = 0;
    for (slot, &row) in found.iter_mut().zip(device) {
        while at < column.rows.len() && column.rows[at] < row {
            at += 1;
        }
        if column.rows.get(at) == Some(&row) {
            *slot = if correlations[at] > 0 { *calls.slot(correlations[at]) } else { NONE };
        }
    }
    found
}

/// The host call of each correlation id.
enum Calls {
    /// By id: profilers count launches, so ids lie close together.
    Dense {
        first: i64,
        rows: Vec<u32>,
    },
    Sparse(HashMap<i64, u32, foldhash::fast::RandomState>),
}

impl Calls {
    fn new(ids: &[i64]) -> Self {
        let positive = || ids.iter().copied().filter(|&id| id > 0);
        let (first, last) = (positive().min().unwrap_or(1), positive().max().unwrap_or(0));
        let span = last.saturating_sub(first).saturating_add(1).max(0) as u64;
        if span <= 4 * ids.len() as u64 {
            Self::Dense { first, rows: vec![NONE; span as usize] }
        } else {
            Self::Sparse(HashMap::default())
        }
    }

    /// Where the call of `id`, one of those this was made for, is kept.
    fn slot(&mut self, id: i64) -> &mut u32 {
        match self {
            Self::Dense { first, rows } => &mut rows[(id - *first) as usize],
            Self::Sparse(rows) => rows.entry(id).or_insert(NONE),
        }
    }
}

/// An arrow: rows of its ends among the flows, and of the events they touch; `NONE` where there is none.
pub struct Arrow {
    pub category: u32,
    pub flow: i64,
    pub tail: u32,
    pub head: u32,
    pub from_span: u32,
    pub to_span: u32,
}

/// Arrows from their ends, joined by category and id; an end without its other end is kept alone.
pub fn arrows(flows: &Flows, spans: &Spans) -> Vec<Arrow> {
    let touched = touched_spans(flows, spans);
    let key = |end: u32| (flows.category[end as usize], flows.flow[end as usize]);
    let mut order: Vec<u32> = (0..flows.time.len() as u32).collect();
    order.sort_by_key(|&end| (key(end), flows.time[end as usize], flows.phase[end as usize]));
    let mut arrows = Vec::with_capacity(order.len());
    for group in order.chunk_by(|&a, &b| key(a) == key(b)) {
        let (category, flow) = key(group[0]);
        let mut push = |tail: u32, head: u32| {
            let span = |end: u32| if end == NONE { NONE } else { touched[end as usize] };
            arrows.push(Arrow { category, flow, tail, head, from_span: span(tail), to_span: span(head) });
        };
        let phase = |end: u32| flows.phase[end as usize];
        let mut starts = group.iter().copied().filter(|&end| phase(end) == FlowPhase::Start);
        // A single start is every head's tail, even one the device's clock puts before it.
        let only = starts.next().filter(|_| starts.next().is_none());
        let mut tail = only.unwrap_or(NONE);
        let mut used = false;
        for &end in group {
            if phase(end) == FlowPhase::Start {
                if only.is_none() {
                    if tail != NONE && !used {
                        push(tail, NONE);
                    }
                    (tail, used) = (end, false);
                }
                continue;
            }
            push(tail, end);
            used = true;
            if phase(end) == FlowPhase::Step {
                tail = end;
            }
        }
        if tail != NONE && !used {
            push(tail, NONE);
        }
    }
    arrows
}

/// For each end of an arrow the row of the innermost event on its track at its time, or `NONE`.
fn touched_spans(flows: &Flows, spans: &Spans) -> Vec<u32> {
    let mut touched = vec![NONE; flows.time.len()];
    for (mut ends, mut rows) in by_track(&flows.track).into_iter().zip(by_track(&spans.track)) {
        if ends.is_empty() {
            continue;
        }
        // Both are nearly in order as they come, which a stable sort makes use of.
        ends.sort_by_key(|&end| flows.time[end as usize]);
        rows.sort_by_key(|&row| (spans.start[row as usize], Reverse(spans.end[row as usize])));
        let mut begun = 0;
        for end in ends {
            let time = flows.time[end as usize];
            begun += rows[begun..].iter().take_while(|&&row| spans.start[row as usize] <= time).count();
            let latest = rows[..begun].iter().rev().take(MAX_SIBLINGS);
            let around = latest.copied().find(|&row| spans.end[row as usize] >= time);
            touched[end as usize] = around.unwrap_or(NONE);
        }
    }
    touched
}

/// The rows of each track.
fn by_track(tracks: &[u32]) -> Vec<Vec<u32>> {
    let mut rows = Vec::new();
    for (row, &track) in (0u32..).zip(tracks) {
        if rows.len() <= track as usize {
            rows.resize_with(track as usize + 1, Vec::new);
        }
        rows[track as usize].push(row);
    }
    rows
}
