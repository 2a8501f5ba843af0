//! What a point came after: the chain of what it waited for last.

use hashbrown::HashMap;

use super::{Changes, Graph, REMOVED};
use crate::columns::arrow::NONE;

type Map = HashMap<u32, i64, foldhash::fast::RandomState>;

/// Own times by position and lags by place that are other in a counterfactual.
#[derive(Default)]
struct Others {
    own: Map,
    lag: Map,
}

impl Others {
    fn of(graph: &Graph, changes: Changes) -> Self {
        let by_place =
            |others: Vec<(u32, u8, i64)>| others.into_iter().map(|(place, _, value)| (place, value)).collect();
        Self { own: by_place(graph.owns_of(changes, 0..1)), lag: by_place(graph.lags_of(changes, 0..1)) }
    }
}

/// How a point was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Via {
    /// The activity's own time.
    Own,
    /// An edge.
    Edge,
    /// The last of a crossing came.
    Crossing,
    /// It waited for nothing.
    Nothing,
}

/// Where a chain ends, and how far back it is followed.
#[derive(Debug, Clone, Copy)]
pub struct End {
    pub point: u32,
    pub since: i64,
}

/// What a chain consists of.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Sum of the sizes of delays.
    pub delay: i64,
    pub edges: u32,
    pub marked: u32,
}

/// One link of a chain: a point and how it was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub via: Via,
    /// The point from which it was reached, or `NONE`; crossings have the numbers after those of activities' points.
    pub from: u32,
    pub to: u32,
    /// The edge, or `NONE`.
    pub edge: u32,
    pub from_time: i64,
    pub to_time: i64,
    /// What the own time or the edge does not explain of the distance.
    pub delay: i64,
}

impl Graph {
    /// The chains that end in points, one after the other, each from its beginning or from the link that leads over
    /// the time it is followed back to; with the times of the counterfactual 0. Also how many links each has.
    pub fn paths_to(&self, ends: &[End], changes: Changes, has_delays: bool) -> (Vec<Segment>, Vec<u32>) {
        let times = self.times_with(changes, has_delays);
        let others = Others::of(self, changes);
        let (mut segments, mut counts) = (Vec::new(), Vec::with_capacity(ends.len()));
        for end in ends {
            let first = segments.len();
            self.each_link(*end, &times, &others, |segment| segments.push(segment));
            segments[first..].reverse();
            counts.push((segments.len() - first) as u32);
        }
        (segments, counts)
    }

    /// What the chains that end in points, as they were recorded, owe to delays, and how many of their edges are marked.
    pub fn shares(&self, ends: &[End], is_marked: &[bool]) -> Vec<Share> {
        let (times, others) = (self.recorded(), Others::default());
        let share_of = |end: &End| {
            let mut share = Share::default();
            self.each_link(*end, &times, &others, |segment| {
                share.delay = share.delay.saturating_add(segment.delay.saturating_abs());
                share.edges += u32::from(segment.via == Via::Edge);
                share.marked += u32::from(segment.via == Via::Edge && is_marked[segment.edge as usize]);
            });
            share
        };
        ends.iter().map(share_of).collect()
    }

    /// Go back from a point, link by link.
    fn each_link(&self, end: End, times: &[i64], others: &Others, mut found: impl FnMut(Segment)) {
        let mut at = self.position[end.point as usize];
        while at != NONE {
            let segment = self.before(at as usize, times, others);
            let is_over = segment.from_time <= end.since;
            at = if segment.from == NONE || is_over { NONE } else { self.position[segment.from as usize] };
            found(segment);
        }
    }

    /// What the point at a position waited for last; of several the first edge, before the own time.
    fn before(&self, at: usize, times: &[i64], others: &Others) -> Segment {
        let step = self.steps[at];
        let mut best = (i64::MIN, NONE, NONE, Via::Nothing);
        for (place, source) in (step.first..).zip(self.sources_of(at)) {
            let lag = others.lag.get(&place).copied().unwrap_or(source.lag);
            if lag == REMOVED {
                continue;
            }
            let reached = times[source.position as usize].saturating_add(lag);
            if best.1 == NONE || reached > best.0 {
                let via = if source.edge == NONE { Via::Crossing } else { Via::Edge };
                best = (reached, source.position, source.edge, via);
            }
        }
        if step.own_from != NONE {
            let own = others.own.get(&(at as u32)).copied().unwrap_or(step.own);
            let reached = times[step.own_from as usize].saturating_add(own);
            if best.1 == NONE || reached >= best.0 {
                best = (reached, step.own_from, NONE, Via::Own);
            }
        }
        let (reached, position, edge, via) = best;
        let to_time = times[at];
        let (from, from_time, delay) = if position == NONE {
            (NONE, to_time, 0)
        } else {
            let from = self.steps[position as usize].point;
            (from, times[position as usize], to_time.saturating_sub(reached))
        };
        let since = |time: i64| time.saturating_add(self.base);
        Segment { via, from, to: step.point, edge, from_time: since(from_time), to_time: since(to_time), delay }
    }

    /// The last link of the chain that ends in a point, with the times of positions.
    pub(crate) fn link_to(&self, point: u32, times: &[i64]) -> Segment {
        self.before(self.position[point as usize] as usize, times, &Others::default())
    }

    /// When each position was recorded, since the base.
    pub(crate) fn recorded(&self) -> Vec<i64> {
        self.steps.iter().map(|step| step.recorded).collect()
    }

    /// Position of a point in the order.
    pub(crate) fn position_of(&self, point: u32) -> u32 {
        self.position[point as usize]
    }
}
