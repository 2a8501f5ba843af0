//! What the time before a point was spent on, after the chain of what it waited for last.

use hashbrown::HashMap;

use super::{Changes, Graph, REMOVED};
use crate::columns::arrow::NONE;

type Map = HashMap<u32, i64, foldhash::fast::RandomState>;

/// Own times by the ends of activities and lags by edge that are other in a counterfactual.
#[derive(Default)]
struct Others {
    own: Map,
    lag: Map,
}

impl Others {
    fn of(changes: Changes) -> Self {
        let of = |cases: &[u32], numbers: &[u32], values: &[i64], point: &dyn Fn(u32) -> u32| {
            let all = cases.iter().zip(numbers).zip(values).filter(|((case, _), _)| **case == 0);
            all.map(|((_, &number), &value)| (point(number), value)).collect()
        };
        Self {
            own: of(changes.own_case, changes.own_activity, changes.own, &|activity| 2 * activity + 1),
            lag: of(changes.lag_case, changes.lag_edge, changes.lag, &|edge| edge),
        }
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

/// One link of a chain: a point and how it was reached; times are since the base.
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

/// What a part of the time is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Spent {
    /// Before the chain begins.
    Before,
    /// An activity's own, or for the last of a crossing to come.
    Own,
    /// An edge's lag.
    Edge,
    /// Nothing explains it.
    Unexplained,
}

/// The time before points, each moment once, in its order: columns of equal length.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Which of the points, from 0.
    pub path: Vec<u32>,
    /// The activity whose time it is, and the one from which its point was reached; `NONE` for crossings.
    pub activity: Vec<u32>,
    pub from: Vec<u32>,
    /// As of `Spent`.
    pub spent: Vec<u8>,
    pub start: Vec<i64>,
    pub end: Vec<i64>,
}

impl Graph {
    /// The time before points since those of `ends`, with the times of the counterfactual 0.
    pub fn parts_to(&self, ends: &[End], changes: Changes, has_delays: bool) -> Parts {
        let others = Others::of(changes);
        if has_delays && changes.is_empty() {
            return self.parts_at(ends, |point| self.recorded(point), &others);
        }
        let times = self.times_with(changes, has_delays);
        self.parts_at(ends, |point| times[point as usize], &others)
    }

    fn parts_at(&self, ends: &[End], times: impl Fn(u32) -> i64, others: &Others) -> Parts {
        let (mut parts, mut chain) = (Parts::default(), Vec::new());
        for (path, end) in (0..).zip(ends) {
            chain.clear();
            self.each_link(*end, &times, others, |segment| chain.push(segment));
            // Going back, each link has the time from when it begins to when what comes after it does, but what later
            // ones had before.
            let since = end.since.saturating_sub(self.base);
            let mut until = times(end.point).max(since);
            let first = parts.path.len();
            for (at, link) in chain.iter().enumerate() {
                let from = until.min(link.from_time.max(since));
                let cut = until.min(link.to_time.saturating_sub(link.delay.max(0))).max(from);
                let explained = if link.via == Via::Edge { Spent::Edge } else { Spent::Own };
                self.add_part(&mut parts, path, link, (Spent::Unexplained, cut, until));
                self.add_part(&mut parts, path, link, (explained, from, cut));
                if at + 1 == chain.len() {
                    self.add_part(&mut parts, path, link, (Spent::Before, since, from));
                }
                until = from;
            }
            parts.reverse(first);
        }
        parts
    }

    fn add_part(&self, parts: &mut Parts, path: u32, link: &Segment, (spent, start, end): (Spent, i64, i64)) {
        if end <= start {
            return;
        }
        let points = self.activities.points();
        // A link to a crossing takes no time but what no edge explains, which is the one's that came last.
        let of = if link.to < points { link.to } else { link.from };
        parts.path.push(path);
        parts.activity.push(of / 2);
        parts.from.push(if link.from < points { link.from / 2 } else { NONE });
        parts.spent.push(spent as u8);
        parts.start.push(start.saturating_add(self.base));
        parts.end.push(end.saturating_add(self.base));
    }

    /// What the chains that end in points, as they were recorded, owe to delays, and how many of their edges are marked.
    pub fn shares(&self, ends: &[End], is_marked: &[bool]) -> Vec<Share> {
        let (times, others) = (|point: u32| self.recorded(point), Others::default());
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
    fn each_link(&self, end: End, times: &impl Fn(u32) -> i64, others: &Others, mut found: impl FnMut(Segment)) {
        let mut point = end.point;
        while point != NONE {
            let segment = self.before(point, times, others);
            let is_over = segment.from_time.saturating_add(self.base) <= end.since;
            point = if is_over { NONE } else { segment.from };
            found(segment);
        }
    }

    /// What a point waited for last; of several the first edge, before the own time.
    fn before(&self, point: u32, times: &impl Fn(u32) -> i64, others: &Others) -> Segment {
        let mut best = (i64::MIN, NONE, NONE, Via::Nothing);
        for &number in self.entering.of(point) {
            let (from, usual) = self.waited_for(number);
            let is_edge = (number as usize) < self.edges.count();
            let lag = others.lag.get(&number).copied().filter(|_| is_edge).unwrap_or(usual);
            if lag == REMOVED {
                continue;
            }
            let reached = times(from).saturating_add(lag);
            if best.1 == NONE || reached > best.0 {
                best = if is_edge { (reached, from, number, Via::Edge) } else { (reached, from, NONE, Via::Crossing) };
            }
        }
        if let Some(from) = self.own_from(point) {
            let own = others.own.get(&point).copied().unwrap_or_else(|| self.activities.own[point as usize / 2]);
            let reached = times(from).saturating_add(own);
            if best.1 == NONE || reached >= best.0 {
                best = (reached, from, NONE, Via::Own);
            }
        }
        let (reached, from, edge, via) = best;
        let to_time = times(point);
        let (from_time, delay) =
            if from == NONE { (to_time, 0) } else { (times(from), to_time.saturating_sub(reached)) };
        Segment { via, from, to: point, edge, from_time, to_time, delay }
    }

    /// The last link of the chain that ends in a point, as it was recorded.
    pub(crate) fn link_to(&self, point: u32) -> Segment {
        self.before(point, &|point| self.recorded(point), &Others::default())
    }
}

impl Parts {
    /// Turn round what was added since the row `first`.
    fn reverse(&mut self, first: usize) {
        for column in [&mut self.path, &mut self.activity, &mut self.from] {
            column[first..].reverse();
        }
        self.spent[first..].reverse();
        self.start[first..].reverse();
        self.end[first..].reverse();
    }
}
