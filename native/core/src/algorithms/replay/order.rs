//! An order in which everything comes after what it waits for.

use std::cell::LazyCell;

use super::{Activities, Edges};
use crate::columns::arrow::NONE;

/// When points were recorded, since the earliest.
pub struct Recorded<'a> {
    activities: &'a Activities,
    pub base: i64,
    /// A crossing is at the latest start of its members.
    pub met: Vec<i64>,
}

impl<'a> Recorded<'a> {
    pub fn of(activities: &'a Activities) -> Self {
        let base = activities.start.iter().chain(activities.end.iter()).copied().min().unwrap_or(0);
        let points = activities.points();
        let count = activities.met().map(|(_, point)| point - points + 1).max().unwrap_or(0);
        let mut met = vec![0; count as usize];
        for (activity, point) in activities.met() {
            let last = &mut met[(point - points) as usize];
            *last = recorded(activities, base, 2 * activity).max(*last);
        }
        Self { activities, base, met }
    }

    /// How many points there are.
    fn count(&self) -> usize {
        2 * self.activities.count() + self.met.len()
    }

    fn at(&self, point: u32) -> i64 {
        let points = self.activities.points();
        if point < points { recorded(self.activities, self.base, point) } else { self.met[(point - points) as usize] }
    }
}

/// When a point of an activity was recorded, since the base.
pub fn recorded(activities: &Activities, base: i64, point: u32) -> i64 {
    let at = point as usize / 2;
    let start = activities.start[at];
    let time = if point.is_multiple_of(2) { start } else { activities.end[at].max(start) };
    time.saturating_sub(base)
}

/// The position of each point in an order against which only edges that close a circle lead.
///
/// A chain is followed as far as it leads, so that what belongs together lies together. Where nothing is left that
/// waits for nothing, the point that was recorded first no longer waits.
pub fn topological(activities: &Activities, edges: &Edges, recorded: &Recorded) -> Vec<u32> {
    let (points, count) = (activities.points(), recorded.count());
    let known = |point: u32| point < points;
    let leaving = Grouped::new(count, || {
        let ends = edges.from.iter().zip(edges.to.iter());
        let of_edges = ends.filter(move |&(&from, &to)| known(from) && known(to));
        of_edges.map(|(&from, &to)| (from, to)).chain(own_edges(activities))
    });
    let mut awaited = vec![0_u32; count];
    leaving.members.iter().for_each(|&to| awaited[to as usize] += 1);
    let sorted = |mut points: Vec<u32>| {
        points.sort_by_key(|&point| recorded.at(point));
        points
    };
    let every = 0..count as u32;
    let mut ready = sorted(every.clone().filter(|&point| awaited[point as usize] == 0).collect());
    ready.reverse();
    // Only circles need it.
    let by_time = LazyCell::new(|| sorted(every.collect()));
    let mut position = vec![NONE; count];
    let (mut placed, mut earliest) = (0_u32, 0);
    while (placed as usize) < count {
        let point = ready.pop().unwrap_or_else(|| {
            // All that is left is in a circle or behind one.
            while position[by_time[earliest] as usize] != NONE {
                earliest += 1;
            }
            by_time[earliest]
        });
        if position[point as usize] != NONE {
            continue;
        }
        position[point as usize] = placed;
        placed += 1;
        for &next in leaving.of(point) {
            let left = &mut awaited[next as usize];
            *left -= 1;
            if *left == 0 && position[next as usize] == NONE {
                ready.push(next);
            }
        }
    }
    position
}

/// From starts to ends, through crossings where there are any.
fn own_edges(activities: &Activities) -> impl Iterator<Item = (u32, u32)> {
    let points = activities.points();
    activities
        .crossing
        .iter()
        .enumerate()
        .flat_map(move |(activity, &crossing)| {
            let (start, end) = (2 * activity as u32, 2 * activity as u32 + 1);
            let met = points.saturating_add(crossing);
            if crossing == NONE { [(start, end), (start, NONE)] } else { [(start, met), (met, end)] }
        })
        .filter(|&(_, to)| to != NONE)
}

/// Numbers in groups, in the order in which they were given.
pub struct Grouped {
    starts: Vec<u32>,
    pub members: Vec<u32>,
}

impl Grouped {
    pub fn new<I: Iterator<Item = (u32, u32)>>(groups: usize, pairs: impl Fn() -> I) -> Self {
        // Each begin is two further on: filling a group moves that one to where the next begins.
        let mut starts = vec![0_u32; groups + 2];
        pairs().for_each(|(group, _)| starts[group as usize + 2] += 1);
        for group in 2..starts.len() {
            starts[group] += starts[group - 1];
        }
        let mut members = vec![0; starts[groups + 1] as usize];
        for (group, member) in pairs() {
            let at = &mut starts[group as usize + 1];
            members[*at as usize] = member;
            *at += 1;
        }
        Self { starts, members }
    }

    pub fn of(&self, group: u32) -> &[u32] {
        let group = group as usize;
        &self.members[self.starts[group] as usize..self.starts[group + 1] as usize]
    }
}
