//! When everything happens, if it begins as soon as what it waits for is over.
//!
//! Activities have two points each, their start and their end; a crossing, where several activities meet, is one more
//! point. Between points lead edges with lags, so that a replay is one pass in topological order: a point comes at the
//! latest of what it waits for (max-plus).

mod forward;
mod order;
mod path;

use arrow_buffer::ScalarBuffer;

use self::order::Grouped;
use crate::columns::arrow::NONE;

pub use forward::{Changes, Mix};
pub use path::{End, Parts, Segment, Share, Via};

/// The lag of an edge that is taken away.
pub const REMOVED: i64 = i64::MIN;

/// Intervals of lanes as columns of equal length.
#[derive(Clone)]
pub struct Activities {
    /// What it takes from its start, or from the crossing's moment, to its end.
    pub own: ScalarBuffer<i64>,
    /// As recorded.
    pub start: ScalarBuffer<i64>,
    pub end: ScalarBuffer<i64>,
    /// Which crossing it takes part in, or `NONE`: all of one go on at the latest start of any.
    pub crossing: ScalarBuffer<u32>,
}

impl Activities {
    pub fn count(&self) -> usize {
        self.own.len()
    }

    /// How many points they have, after which come those of crossings.
    pub fn points(&self) -> u32 {
        2 * self.count() as u32
    }

    /// Members of crossings, and the points at which these meet.
    fn met(&self) -> impl Iterator<Item = (u32, u32)> {
        let points = self.points();
        let met = (0..).zip(self.crossing.iter()).filter(|(_, crossing)| **crossing != NONE);
        met.map(move |(activity, crossing)| (activity, points.saturating_add(*crossing)))
    }
}

/// What waits for what, as columns of equal length. Points are twice the number of the activity, one more for its end.
#[derive(Clone)]
pub struct Edges {
    pub from: ScalarBuffer<u32>,
    pub to: ScalarBuffer<u32>,
    pub lag: ScalarBuffer<i64>,
}

impl Edges {
    pub fn count(&self) -> usize {
        self.lag.len()
    }
}

/// What is odd about a graph.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Oddities {
    /// Edges that would close a circle, left out.
    pub circular: u32,
    /// Edges whose lag is negative.
    pub negative: u32,
    /// Edges by which a point could not have come when it was recorded.
    pub contradicted: u32,
}

/// A graph and the order in which a replay passes over it.
///
/// Of a job of millions of activities each column counts: what others hold already is shared with them.
pub struct Graph {
    activities: Activities,
    edges: Edges,
    /// When the last of each crossing came, and the time of the earliest point, since when times are told.
    met: Vec<i64>,
    base: i64,
    /// All points in topological order, and the position of each in it.
    order: Vec<u32>,
    position: Vec<u32>,
    /// What each point waits for: edges, and after their numbers those of activities that come to a crossing.
    entering: Grouped,
    pub oddities: Oddities,
}

impl Graph {
    /// Lay out a graph; edges to or from nowhere count as circular.
    pub fn new(activities: Activities, edges: Edges) -> Self {
        let recorded = order::Recorded::of(&activities);
        let position = order::topological(&activities, &edges, &recorded);
        let mut order = vec![0_u32; position.len()];
        for (point, &at) in (0..).zip(&position) {
            order[at as usize] = point;
        }
        let is_before = |from: u32, to: u32| position[from as usize] < position[to as usize];
        let points = activities.points();
        let entering = Grouped::new(position.len(), || {
            let ends = (0..).zip(edges.from.iter().zip(edges.to.iter()));
            let forward = move |from: u32, to: u32| from < points && to < points && is_before(from, to);
            let of_edges = ends.filter_map(move |(edge, (&from, &to))| forward(from, to).then_some((to, edge)));
            let first = edges.count() as u32;
            let arrivals = activities.met().filter(move |&(activity, point)| is_before(2 * activity, point));
            of_edges.chain(arrivals.map(move |(activity, point)| (point, first + activity)))
        });
        let order::Recorded { base, met, .. } = recorded;
        let mut graph = Self { activities, edges, met, base, order, position, entering, oddities: Oddities::default() };
        graph.oddities = graph.found_odd();
        graph
    }

    pub fn activities(&self) -> &Activities {
        &self.activities
    }

    pub fn edges(&self) -> &Edges {
        &self.edges
    }

    /// What no edge explains of each activity's start and end.
    pub fn delays(&self) -> (Vec<i64>, Vec<i64>) {
        let of = |is_end: u32| (0..self.activities.points() / 2).map(|at| self.delay(2 * at + is_end)).collect();
        (of(0), of(1))
    }

    fn found_odd(&self) -> Oddities {
        let mut odd = Oddities::default();
        let mut forward = 0;
        for point in 0..self.activities.points() {
            for &edge in self.entering.of(point) {
                let (from, lag) = (self.edges.from[edge as usize], self.edges.lag[edge as usize]);
                forward += 1;
                odd.negative += u32::from(lag < 0);
                odd.contradicted += u32::from(self.recorded(from).saturating_add(lag) > self.recorded(point));
            }
        }
        odd.circular = self.edges.count() as u32 - forward;
        odd
    }

    /// When a point was recorded, since the base.
    pub(crate) fn recorded(&self, point: u32) -> i64 {
        match self.met.get((point as usize).wrapping_sub(2 * self.activities.count())) {
            Some(&met) => met,
            None => order::recorded(&self.activities, self.base, point),
        }
    }

    /// Position of a point in the order.
    pub(crate) fn position_of(&self, point: u32) -> u32 {
        self.position[point as usize]
    }

    /// What no edge explains of when a point was recorded; negative where it came too early.
    fn delay(&self, point: u32) -> i64 {
        let waited = self.entering.of(point).iter().map(|&number| self.waited_for(number));
        let own = self.own_from(point).map(|from| (from, self.activities.own[point as usize / 2]));
        let reached = waited.chain(own).map(|(from, lag)| self.recorded(from).saturating_add(lag)).max();
        reached.map_or(0, |reached| self.recorded(point).saturating_sub(reached))
    }

    /// The point that an entry of ``entering`` comes from, and how much later the other one is at least.
    fn waited_for(&self, number: u32) -> (u32, i64) {
        match self.edges.from.get(number as usize) {
            Some(&from) => (from, self.edges.lag[number as usize]),
            None => (2 * (number - self.edges.count() as u32), 0),
        }
    }

    /// Whether an edge is in no circle.
    fn is_forward(&self, edge: u32) -> bool {
        self.entering.of(self.edges.to[edge as usize]).binary_search(&edge).is_ok()
    }

    /// The point from which the own time of an activity is counted, of its end.
    fn own_from(&self, point: u32) -> Option<u32> {
        let points = self.activities.points();
        if point.is_multiple_of(2) || point >= points {
            return None;
        }
        let before = |other: u32| (self.position[other as usize] < self.position[point as usize]).then_some(other);
        let crossing = self.activities.crossing[point as usize / 2];
        let met = if crossing == NONE { None } else { before(points + crossing) };
        met.or_else(|| before(point - 1))
    }
}
