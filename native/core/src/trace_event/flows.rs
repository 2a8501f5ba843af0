//! Flow events: the arrows between events, from the ends that a file has of them.

use std::cmp::Reverse;

use crate::columns::arrow::NONE;
use crate::columns::grouping::Grouping;
use crate::trace_event::columns::{FlowPhase, Flows, Spans};

/// Ended siblings that are looked past for the event that encloses an arrow's end; profilers put it on the first.
const MAX_SIBLINGS: usize = 4096;

/// A flow event from a source to a destination: rows of both among the ends, and of the events they touch; `NONE` where
/// there is none.
pub struct FlowEvent {
    pub category: u32,
    pub flow: i64,
    pub source: u32,
    pub destination: u32,
    pub from_span: u32,
    pub to_span: u32,
}

/// Arrows from their ends, joined by category and id; an end without its other end is kept alone.
///
/// They touch the `recorded` first spans.
pub fn flow_events(flows: &Flows, spans: &Spans, recorded: usize) -> Vec<FlowEvent> {
    let touched = touched_spans(flows, spans, &spans.track[..recorded]);
    let key = |end: u32| (flows.category[end as usize], flows.flow[end as usize]);
    let mut order: Vec<u32> = (0..flows.time.len() as u32).collect();
    order.sort_by_key(|&end| (key(end), flows.time[end as usize], flows.phase[end as usize]));
    let mut flow_events = Vec::with_capacity(order.len());
    for group in order.chunk_by(|&a, &b| key(a) == key(b)) {
        let (category, flow) = key(group[0]);
        let mut push = |source: u32, destination: u32| {
            let span = |end: u32| if end == NONE { NONE } else { touched[end as usize] };
            flow_events.push(FlowEvent {
                category,
                flow,
                source,
                destination,
                from_span: span(source),
                to_span: span(destination),
            });
        };
        let phase = |end: u32| flows.phase[end as usize];
        let mut starts = group.iter().copied().filter(|&end| phase(end) == FlowPhase::Start);
        // A single start is every destination's source, even one the device's clock puts before it.
        let only = starts.next().filter(|_| starts.next().is_none());
        let mut source = only.unwrap_or(NONE);
        let mut used = false;
        for &end in group {
            if phase(end) == FlowPhase::Start {
                if only.is_none() {
                    if source != NONE && !used {
                        push(source, NONE);
                    }
                    (source, used) = (end, false);
                }
                continue;
            }
            push(source, end);
            used = true;
            if phase(end) == FlowPhase::Step {
                source = end;
            }
        }
        if source != NONE && !used {
            push(source, NONE);
        }
    }
    flow_events
}

/// For each end of an arrow the row of the innermost event on its track at its time, or `NONE`.
fn touched_spans(flows: &Flows, spans: &Spans, span_tracks: &[u32]) -> Vec<u32> {
    let mut touched = vec![NONE; flows.time.len()];
    let tracks = flows.track.iter().chain(span_tracks).max().map_or(0, |&last| last as usize + 1);
    let (ends, rows) = (Grouping::of_rows(tracks, &flows.track), Grouping::of_rows(tracks, span_tracks));
    for track in 0..tracks as u32 {
        let mut ends = ends.of(track).to_vec();
        if ends.is_empty() {
            continue;
        }
        let mut rows = rows.of(track).to_vec();
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
