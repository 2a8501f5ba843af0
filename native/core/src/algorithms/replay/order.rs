//! An order in which everything comes after what it waits for.

use std::cell::LazyCell;

use super::{Activities, Edges};
use crate::columns::arrow::NONE;

/// When each point was, since the earliest; and when that was. A crossing is at the latest start of its members.
pub fn recorded(activities: Activities) -> (Vec<i64>, i64) {
    let count = activities.own.len();
    let base = activities.start.iter().chain(activities.end).copied().min().unwrap_or(0);
    let mut recorded = Vec::with_capacity(2 * count + 1);
    for (&start, &end) in activities.start.iter().zip(activities.end) {
        recorded.extend([start.saturating_sub(base), end.max(start).saturating_sub(base)]);
    }
    let crossings = activities.crossing.iter().filter(|crossing| **crossing != NONE).max().map_or(0, |most| most + 1);
    recorded.resize(2 * count + crossings as usize, 0);
    for (activity, &crossing) in activities.crossing.iter().enumerate().filter(|(_, crossing)| **crossing != NONE) {
        let start = recorded[2 * activity];
        let met = &mut recorded[2 * count + crossing as usize];
        *met = start.max(*met);
    }
    (recorded, base)
}

/// The position of each point in an order against which only edges that close a circle lead.
///
/// A chain is followed as far as it leads, so that what belongs together lies together. Where nothing is left that
/// waits for nothing, the point that was recorded first no longer waits.
pub fn topological(activities: Activities, edges: Edges, recorded: &[i64]) -> Vec<u32> {
    let points = 2 * activities.own.len() as u32;
    let known = |point: u32| point < points;
    let leaving = Grouped::new(recorded.len(), || {
        let of_edges = edges.from.iter().zip(edges.to).filter(move |&(&from, &to)| known(from) && known(to));
        of_edges.map(|(&from, &to)| (from, to)).chain(own_edges(activities))
    });
    let mut awaited = vec![0_u32; recorded.len()];
    leaving.members.iter().for_each(|&to| awaited[to as usize] += 1);
    let sorted = |mut points: Vec<u32>| {
        points.sort_by_key(|&point| recorded[point as usize]);
        points
    };
    let every = 0..recorded.len() as u32;
    let mut ready = sorted(every.clone().filter(|&point| awaited[point as usize] == 0).collect());
    ready.reverse();
    // Only circles need it.
    let by_time = LazyCell::new(|| sorted(every.collect()));
    let mut position = vec![NONE; recorded.len()];
    let (mut placed, mut earliest) = (0_u32, 0);
    while (placed as usize) < recorded.len() {
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
fn own_edges(activities: Activities<'_>) -> impl Iterator<Item = (u32, u32)> {
    let points = 2 * activities.own.len() as u32;
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
        let mut starts = vec![0_u32; groups + 1];
        pairs().for_each(|(group, _)| starts[group as usize + 1] += 1);
        for group in 0..groups {
            starts[group + 1] += starts[group];
        }
        let mut next = starts.clone();
        let mut members = vec![0; starts[groups] as usize];
        for (group, member) in pairs() {
            let at = &mut next[group as usize];
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
