//! Launch to device event, and the arrows between events.

use hashbrown::HashMap;

use crate::kineto::Class;
use crate::store::{FlowPhase, Flows, Spans, integers};
use crate::table::NONE;

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
    order.sort_unstable_by_key(|&end| (key(end), flows.time[end as usize], flows.phase[end as usize], end));
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
    let place = |row: u32| {
        let r = row as usize;
        (spans.track[r], spans.start[r], std::cmp::Reverse(spans.end[r]))
    };
    let mut order: Vec<u32> = (0..spans.id.len() as u32).collect();
    order.sort_unstable_by_key(|&row| (place(row), row));
    let touch = |track: u32, time: i64| {
        let behind = order.partition_point(|&row| {
            let (t, start, _) = place(row);
            (t, start) <= (track, time)
        });
        order[..behind]
            .iter()
            .rev()
            .take(MAX_SIBLINGS)
            .take_while(|&&row| spans.track[row as usize] == track)
            .find(|&&row| spans.end[row as usize] >= time)
            .copied()
            .unwrap_or(NONE)
    };
    flows.track.iter().zip(&flows.time).map(|(&track, &time)| touch(track, time)).collect()
}
