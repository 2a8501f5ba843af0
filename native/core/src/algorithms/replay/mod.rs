//! When everything happens, if it begins as soon as what it waits for is over.
//!
//! Activities have two points each, their start and their end; a crossing, where several activities meet, is one more
//! point. Between points lead edges with lags, so that a replay is one pass in topological order: a point comes at the
//! latest of what it waits for (max-plus).

mod forward;
mod order;
mod path;

use crate::columns::arrow::NONE;

pub use forward::{Changes, Mix};
pub use path::{End, Segment, Share, Via};

/// The lag of an edge that is taken away.
pub const REMOVED: i64 = i64::MIN;

/// Intervals of lanes as columns of equal length.
#[derive(Clone, Copy)]
pub struct Activities<'a> {
    /// What it takes from its start, or from the crossing's moment, to its end.
    pub own: &'a [i64],
    /// As recorded.
    pub start: &'a [i64],
    pub end: &'a [i64],
    /// Which crossing it takes part in, or `NONE`: all of one go on at the latest start of any.
    pub crossing: &'a [u32],
}

/// What waits for what, as columns of equal length. Points are twice the number of the activity, one more for its end.
#[derive(Clone, Copy)]
pub struct Edges<'a> {
    pub from: &'a [u32],
    pub to: &'a [u32],
    pub lag: &'a [i64],
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

/// A graph, laid out for passes over it.
pub struct Graph {
    activities: usize,
    /// Time of the earliest point; all times below are since then.
    base: i64,
    /// By position in topological order.
    steps: Vec<Step>,
    /// In-edges of all positions, `Step::first` says where those of each begin.
    sources: Vec<Source>,
    /// Position of each point.
    position: Vec<u32>,
    /// Place of each edge in `sources`, or `NONE` where it was left out.
    place: Vec<u32>,
    pub oddities: Oddities,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    point: u32,
    /// Where its in-edges begin.
    first: u32,
    /// Position from which the activity's own time is counted, or `NONE`.
    own_from: u32,
    own: i64,
    /// What no edge explains of when it was recorded; negative where it came too early.
    delay: i64,
    /// When it comes if it waits for nothing; `i64::MIN` if it waits for something.
    release: i64,
    recorded: i64,
}

#[derive(Debug, Clone, Copy)]
struct Source {
    position: u32,
    edge: u32,
    lag: i64,
}

impl Graph {
    /// Lay out a graph; edges to or from nowhere count as circular.
    pub fn new(activities: Activities, edges: Edges) -> Self {
        let count = activities.own.len();
        let (recorded, base) = order::recorded(activities);
        let position = order::topological(activities, edges, &recorded);
        let mut oddities = Oddities::default();
        let mut place = vec![NONE; edges.from.len()];
        let mut graph = {
            let (steps, sources) = laid_out(activities, edges, &recorded, &position, &mut place, &mut oddities);
            Self { activities: count, base, steps, sources, position, place, oddities }
        };
        graph.find_delays();
        graph
    }

    /// What no edge explains of each activity's start and end.
    pub fn delays(&self) -> (Vec<i64>, Vec<i64>) {
        let delay = |point: usize| self.steps[self.position[point] as usize].delay;
        let of = |is_end: usize| (0..self.activities).map(|activity| delay(2 * activity + is_end)).collect();
        (of(0), of(1))
    }

    fn find_delays(&mut self) {
        let mut contradicted = 0;
        for at in 0..self.steps.len() {
            let step = self.steps[at];
            let mut reached = step.release;
            for source in self.sources_of(at) {
                let earliest = self.steps[source.position as usize].recorded.saturating_add(source.lag);
                contradicted += u32::from(earliest > step.recorded);
                reached = reached.max(earliest);
            }
            if step.own_from != NONE {
                reached = reached.max(self.steps[step.own_from as usize].recorded.saturating_add(step.own));
            }
            self.steps[at].delay = step.recorded.saturating_sub(reached);
        }
        self.oddities.contradicted = contradicted;
    }

    fn sources_of(&self, at: usize) -> &[Source] {
        let end = self.steps.get(at + 1).map_or(self.sources.len(), |next| next.first as usize);
        &self.sources[self.steps[at].first as usize..end]
    }
}

/// The steps in order, and what they wait for; edges against the order are left out.
fn laid_out(
    activities: Activities,
    edges: Edges,
    recorded: &[i64],
    position: &[u32],
    place: &mut [u32],
    oddities: &mut Oddities,
) -> (Vec<Step>, Vec<Source>) {
    let points = 2 * activities.own.len();
    let mut at_position = vec![0_u32; recorded.len()];
    for (point, &at) in position.iter().enumerate() {
        at_position[at as usize] = point as u32;
    }
    let known = |point: u32| (point as usize) < points;
    let entering = order::Grouped::new(recorded.len(), || {
        let of_edges = (0..edges.from.len()).filter_map(|edge| {
            let (from, to) = (edges.from[edge], edges.to[edge]);
            let forward = known(from) && known(to) && position[from as usize] < position[to as usize];
            forward.then_some((to, edge as u32))
        });
        let of_crossings = activities.crossing.iter().enumerate().filter(|(_, crossing)| **crossing != NONE);
        // Arrivals have the numbers after those of edges.
        let arrivals = of_crossings.filter_map(|(activity, crossing)| {
            let point = points as u32 + crossing;
            let forward = position[2 * activity] < position[point as usize];
            forward.then_some((point, (edges.from.len() + activity) as u32))
        });
        of_edges.chain(arrivals)
    });
    let mut steps = Vec::with_capacity(recorded.len());
    let mut sources = Vec::with_capacity(edges.from.len());
    for &point in &at_position {
        let first = sources.len() as u32;
        for &number in entering.of(point) {
            let edge = number as usize;
            if let Some(&lag) = edges.lag.get(edge) {
                oddities.negative += u32::from(lag < 0);
                place[edge] = sources.len() as u32;
                sources.push(Source { position: position[edges.from[edge] as usize], edge: number, lag });
            } else {
                let activity = edge - edges.lag.len();
                sources.push(Source { position: position[2 * activity], edge: NONE, lag: 0 });
            }
        }
        let (own_from, own) = own_of(activities, position, point);
        let is_free = first as usize == sources.len() && own_from == NONE;
        let recorded = recorded[point as usize];
        let release = if is_free { recorded } else { i64::MIN };
        steps.push(Step { point, first, own_from, own, delay: 0, release, recorded });
    }
    oddities.circular = place.iter().filter(|place| **place == NONE).count() as u32;
    (steps, sources)
}

/// Where a point's own time is counted from, and how long that is.
fn own_of(activities: Activities, position: &[u32], point: u32) -> (u32, i64) {
    let activity = point as usize / 2;
    if point.is_multiple_of(2) || activity >= activities.own.len() {
        return (NONE, 0);
    }
    let before = |other: usize| (position[other] < position[point as usize]).then(|| position[other]);
    let crossing = activities.crossing[activity];
    let met = (crossing != NONE).then(|| 2 * activities.own.len() + crossing as usize);
    let from = met.and_then(before).or_else(|| before(2 * activity));
    from.map_or((NONE, 0), |from| (from, activities.own[activity]))
}
