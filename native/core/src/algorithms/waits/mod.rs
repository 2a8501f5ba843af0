//! Why a process waited: the difference of two paths since they last met, waits inside replaced by their own.
//!
//! After Carnival's waiting-time analysis (Meira, LeBlanc and Poulos, 1996). What a wait consists of sums to it exactly.

mod ways;

use hashbrown::HashMap;

use self::ways::Ways;
use crate::algorithms::replay::{Graph, Via};
use crate::columns::arrow::NONE;

/// A process at a meeting, by rows; the rows of a process lead back through `before` to its beginning.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Visits {
    pub process: Vec<u32>,
    /// Numbered so that on each way back they become smaller.
    pub meeting: Vec<u32>,
    pub arrived: Vec<i64>,
    /// When the last had come.
    pub left: Vec<i64>,
    /// The visit before, or `NONE`.
    pub before: Vec<u32>,
    /// Where the terms of each begin: from when it left the one before, or from 0, to its arrival.
    pub first: Vec<u32>,
    pub terms: Vec<Term>,
}

/// Time of a process by what it was spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    pub process: u32,
    pub signature: u32,
    pub ns: i64,
}

/// What the wait of a visit consists of; the terms of one sum to `left - arrived`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cause {
    pub visit: u32,
    /// The visit of the process that came last.
    pub late: u32,
    pub term: Term,
}

type Map = HashMap<u32, u32, foldhash::fast::RandomState>;
type Sums = HashMap<u64, i64, foldhash::fast::RandomState>;
/// Times by process and signature.
type Terms = Vec<(u64, i64)>;

/// What each wait consists of, by visit, in the order of processes and signatures.
pub fn causes(visits: &Visits) -> Vec<Cause> {
    let mut order: Vec<u32> = (0..visits.meeting.len() as u32).collect();
    order.sort_by_key(|&visit| visits.meeting[visit as usize]);
    let late = latest(visits);
    let mut ways = Ways::new(visits);
    let mut found = Vec::new();
    for &visit in &order {
        let at = visit as usize;
        let late = late[&visits.meeting[at]];
        let mut terms = Terms::new();
        if late != visit && visits.left[at] != visits.arrived[at] {
            let common = ways.last_common(late, visit);
            let mut sums = Sums::default();
            ways.add_path(late, common, 1, &mut sums);
            ways.add_path(visit, common, -1, &mut sums);
            terms = sums.into_iter().filter(|&(_, ns)| ns != 0).collect();
            terms.sort_unstable();
            found.extend(terms.iter().map(|&(key, ns)| {
                let term = Term { process: (key >> 32) as u32, signature: key as u32, ns };
                Cause { visit, late, term }
            }));
        }
        ways.pass(visit, terms);
    }
    found.sort_by_key(|cause| cause.visit);
    found
}

/// The visit that came last to each meeting, of several the one of the greatest process.
fn latest(visits: &Visits) -> Map {
    let mut late: Map = Map::default();
    let key = |visit: u32| (visits.arrived[visit as usize], visits.process[visit as usize]);
    for visit in 0..visits.meeting.len() as u32 {
        let known = late.entry(visits.meeting[visit as usize]).or_insert(visit);
        if key(visit) > key(*known) {
            *known = visit;
        }
    }
    late
}

/// What each activity's time, the lag of edges and delays are counted as.
#[derive(Clone, Copy)]
pub struct Signatures<'a> {
    pub process: &'a [u32],
    pub own: &'a [u32],
    pub lag: u32,
    pub delay: u32,
    /// When something waited for nothing.
    pub beginning: u32,
}

/// The visits of a graph as it was recorded, and the activity of each; `NONE` for points where ways part.
///
/// A process goes back from its coming to a crossing through what it waited for last, to the crossing before.
pub fn visits(graph: &Graph, signatures: Signatures) -> (Visits, Vec<u32>) {
    let crossing = &graph.activities().crossing;
    let mut walk = Walk::new(graph, crossing, signatures);
    let mut members: Vec<u32> = (0..crossing.len() as u32).filter(|&a| crossing[a as usize] != NONE).collect();
    members.sort_by_key(|&activity| graph.position_of(2 * activity));
    members.iter().for_each(|&activity| walk.mark(2 * activity));
    members.iter().for_each(|&activity| walk.visit(activity));
    (walk.visits, walk.activity)
}

struct Walk<'a> {
    graph: &'a Graph,
    crossing: &'a [u32],
    signatures: Signatures<'a>,
    /// Of each point: whether a way back leads through it, and whether several do or it is where one begins.
    passed: Vec<bool>,
    is_stop: Vec<bool>,
    /// The visit made of each point that is a stop, and of each activity at its crossing.
    stops: Map,
    met: Map,
    visits: Visits,
    activity: Vec<u32>,
}

impl<'a> Walk<'a> {
    fn new(graph: &'a Graph, crossing: &'a [u32], signatures: Signatures<'a>) -> Self {
        let points = 2 * crossing.len();
        Self {
            graph,
            crossing,
            signatures,
            passed: vec![false; points],
            is_stop: vec![false; points],
            stops: Map::default(),
            met: Map::default(),
            visits: Visits::default(),
            activity: Vec::new(),
        }
    }

    /// Mark the points on the way back from a stop.
    fn mark(&mut self, stop: u32) {
        self.is_stop[stop as usize] = true;
        let mut point = stop;
        while !std::mem::replace(&mut self.passed[point as usize], true) {
            let link = self.graph.link_to(point);
            match self.on_way(link.from) {
                Some(before) => point = before,
                None => return,
            }
        }
        self.is_stop[point as usize] = true;
    }

    /// The point, unless it is a crossing's or none: there the way ends.
    fn on_way(&self, point: u32) -> Option<u32> {
        ((point as usize) < self.passed.len()).then_some(point)
    }

    /// Make the visit of an activity at its crossing, and the stops on its way back.
    fn visit(&mut self, activity: u32) {
        let stop = self.stop(2 * activity);
        let point = self.crossing_point(activity);
        let left = self.graph.recorded(point);
        let arrived = self.visits.arrived[stop as usize];
        let meeting = self.graph.position_of(point);
        let visit = self.add(activity, meeting, (arrived, left), stop, &[], activity);
        self.met.insert(activity, visit);
    }

    fn crossing_point(&self, activity: u32) -> u32 {
        2 * self.crossing.len() as u32 + self.crossing[activity as usize]
    }

    /// The visit of a stop; those before it are made first.
    fn stop(&mut self, stop: u32) -> u32 {
        let mut missing = vec![stop];
        while let Some(&point) = missing.last() {
            if self.stops.contains_key(&point) {
                missing.pop();
                continue;
            }
            let (terms, end) = self.way_back(point);
            let before = match end {
                End::Stop(other) => match self.stops.get(&other) {
                    Some(&visit) => visit,
                    None => {
                        missing.push(other);
                        continue;
                    }
                },
                // Those that went before are made in topological order.
                End::Crossing(activity) => self.met.get(&activity).copied().unwrap_or(NONE),
                End::Beginning => NONE,
            };
            missing.pop();
            let at = self.graph.position_of(point);
            let time = self.graph.recorded(point);
            let visit = self.add(point / 2, at, (time, time), before, &terms, NONE);
            self.stops.insert(point, visit);
        }
        self.stops[&stop]
    }

    /// What was done since the stop, crossing or beginning before a point.
    fn way_back(&self, from: u32) -> (Vec<Term>, End) {
        let mut terms = Vec::new();
        let mut point = from;
        loop {
            let activity = point / 2;
            let at = activity as usize;
            let link = self.graph.link_to(point);
            let process = self.signatures.process[at];
            let mut add = |signature: u32, ns: i64| {
                if ns != 0 {
                    terms.push(Term { process, signature, ns });
                }
            };
            add(self.signatures.delay, link.delay);
            let passed = link.to_time.saturating_sub(link.from_time).saturating_sub(link.delay);
            match link.via {
                Via::Own => add(self.signatures.own[at], passed),
                Via::Edge => add(self.signatures.lag, passed),
                Via::Crossing => {}
                Via::Nothing => {
                    add(self.signatures.beginning, self.graph.recorded(point));
                    return (terms, End::Beginning);
                }
            }
            let Some(before) = self.on_way(link.from) else {
                return (terms, End::Crossing(activity));
            };
            if self.is_stop[before as usize] {
                return (terms, End::Stop(before));
            }
            point = before;
        }
    }

    fn add(
        &mut self,
        of: u32,
        meeting: u32,
        (arrived, left): (i64, i64),
        before: u32,
        terms: &[Term],
        activity: u32,
    ) -> u32 {
        let visits = &mut self.visits;
        visits.process.push(self.signatures.process[of as usize]);
        visits.meeting.push(meeting);
        visits.arrived.push(arrived);
        visits.left.push(left);
        visits.before.push(before);
        visits.first.push(visits.terms.len() as u32);
        visits.terms.extend_from_slice(terms);
        self.activity.push(activity);
        self.activity.len() as u32 - 1
    }
}

/// Where a way back ends.
enum End {
    Stop(u32),
    /// The activity comes from its crossing.
    Crossing(u32),
    Beginning,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Visits whose ways back come together or do not, on chance.
    fn drawn(mut seed: u64, count: u32) -> Visits {
        let mut below = |most: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u32 % most
        };
        let mut visits = Visits::default();
        for at in 0..count {
            let (arrived, waited) = (below(1_000), below(3));
            visits.process.push(below(4));
            visits.meeting.push(at / 2);
            visits.arrived.push(i64::from(arrived));
            visits.left.push(i64::from(arrived + waited));
            // Most come from just before: long ways back.
            let before = (at / 2 * 2).checked_sub(1 + below(3));
            visits.before.push(before.filter(|_| below(40) > 0).unwrap_or(NONE));
            visits.first.push(visits.terms.len() as u32);
            for _ in 0..below(3) {
                visits.terms.push(Term { process: below(4), signature: below(9), ns: i64::from(below(50)) });
            }
        }
        visits
    }

    /// What a wait consists of by its definition: the difference of both ways, step by step.
    fn defined(
        visits: &Visits,
        known: &HashMap<u32, Terms, foldhash::fast::RandomState>,
        until: u32,
        since: Option<u32>,
    ) -> Sums {
        let (mut at, mut sums) = (until as usize, Sums::default());
        loop {
            let end = visits.first.get(at + 1).map_or(visits.terms.len(), |&end| end as usize);
            for term in &visits.terms[visits.first[at] as usize..end] {
                *sums.entry(u64::from(term.process) << 32 | u64::from(term.signature)).or_default() += term.ns;
            }
            let before = visits.before[at];
            if before == NONE || Some(visits.meeting[before as usize]) == since {
                return sums;
            }
            at = before as usize;
            for &(key, ns) in known.get(&before).map_or(&[][..], Vec::as_slice) {
                *sums.entry(key).or_default() += ns;
            }
        }
    }

    #[test]
    fn long_ways_back_are_told_as_their_definition_tells_them() {
        for seed in 0..60 {
            let visits = drawn(seed, 300);
            let (late, mut known) = (latest(&visits), HashMap::<u32, Terms, foldhash::fast::RandomState>::default());
            for cause in causes(&visits) {
                let key = u64::from(cause.term.process) << 32 | u64::from(cause.term.signature);
                known.entry(cause.visit).or_default().push((key, cause.term.ns));
            }
            for visit in 0..300_u32 {
                let (at, last) = (visit as usize, late[&visits.meeting[visit as usize]]);
                if last == visit || visits.left[at] == visits.arrived[at] {
                    continue;
                }
                let meetings = |from: u32| {
                    std::iter::successors(Some(visits.before[from as usize]), |&visit| {
                        visits.before.get(visit as usize).copied()
                    })
                    .take_while(|&visit| visit != NONE)
                    .map(|visit| visits.meeting[visit as usize])
                    .collect::<Vec<_>>()
                };
                let others = meetings(visit);
                let common = meetings(last).into_iter().find(|meeting| others.contains(meeting));
                let mut sums = defined(&visits, &known, last, common);
                for (key, ns) in defined(&visits, &known, visit, common) {
                    *sums.entry(key).or_default() -= ns;
                }
                let mut expected: Terms = sums.into_iter().filter(|&(_, ns)| ns != 0).collect();
                expected.sort_unstable();
                assert_eq!(known.get(&visit).cloned().unwrap_or_default(), expected, "visit {visit} of seed {seed}");
            }
        }
    }
}
