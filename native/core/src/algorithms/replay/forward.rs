//! Passes over a graph: one, or many with changes side by side.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{available_parallelism, scope};

use super::Graph;
use crate::columns::arrow::NONE;

/// At most so many counterfactuals share a pass: their times of one point fill a line of the cache.
const LANES: usize = 8;
/// Of more points a fourth as many share one, since each thread holds the times of all.
const MANY: usize = 1_000_000;
/// Of more points there is one thread: the times of all take as much as the graph.
const MOST: usize = 3_000_000;

/// What is different in each counterfactual; columns of equal length, three for own times and three for lags.
#[derive(Clone, Copy, Default)]
pub struct Changes<'a> {
    /// Which counterfactual, from 0.
    pub own_case: &'a [u32],
    pub own_activity: &'a [u32],
    pub own: &'a [i64],
    pub lag_case: &'a [u32],
    pub lag_edge: &'a [u32],
    /// `REMOVED` takes the edge away.
    pub lag: &'a [i64],
}

impl Changes<'_> {
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.lag.is_empty()
    }
}

/// Counterfactuals in which activities take one of two times; columns of equal length.
#[derive(Clone, Copy)]
pub struct Mix<'a> {
    pub usual: &'a [i64],
    pub other: &'a [i64],
    /// What an activity is of, in numbers; `NONE` is nothing.
    pub labels: [&'a [u32]; 2],
    /// Of each counterfactual, what takes the other time.
    pub cases: &'a [Vec<u32>],
}

/// Times by point in as many lanes as are needed: few counterfactuals take less room.
enum Times {
    One(Vec<[i64; 1]>),
    Two(Vec<[i64; 2]>),
    Four(Vec<[i64; 4]>),
    All(Vec<[i64; LANES]>),
}

/// Do something with times of any width.
macro_rules! each_width {
    ($of:expr, |$times:ident| $do:expr) => {
        match $of {
            Times::One($times) => $do,
            Times::Two($times) => $do,
            Times::Four($times) => $do,
            Times::All($times) => $do,
        }
    };
}

impl Times {
    fn new(lanes: usize, points: usize) -> Self {
        match lanes {
            0 | 1 => Self::One(vec![[0]; points]),
            2 => Self::Two(vec![[0; 2]; points]),
            3 | 4 => Self::Four(vec![[0; 4]; points]),
            _ => Self::All(vec![[0; LANES]; points]),
        }
    }

    fn at(&self, point: usize, lane: usize) -> i64 {
        each_width!(self, |times| times[point][lane])
    }
}

/// A value that is other in one lane, by the position of the point whose it is and by the edge.
type Other = ((u32, u32), u8, i64);

impl Graph {
    /// Start and end of each activity, unchanged; with delays they are as recorded.
    pub fn replayed(&self, has_delays: bool) -> (Vec<i64>, Vec<i64>) {
        self.replayed_with(Changes::default(), has_delays)
    }

    /// Start and end of each activity in the counterfactual 0 of `changes`.
    pub fn replayed_with(&self, changes: Changes, has_delays: bool) -> (Vec<i64>, Vec<i64>) {
        let times = self.times_with(changes, has_delays);
        let of = |is_end: usize| {
            let at = |activity: usize| times[2 * activity + is_end];
            (0..self.activities.count()).map(|activity| at(activity).saturating_add(self.base)).collect()
        };
        (of(0), of(1))
    }

    /// Time of each point since the base, in the counterfactual 0.
    pub(super) fn times_with(&self, changes: Changes, has_delays: bool) -> Vec<i64> {
        let lags = self.lags_of(changes, 0..1);
        let mut times = vec![[0_i64]; self.order.len()];
        self.pass(&mut times, changed(&self.activities.own, &self.owns_of(changes, 0..1)), &lags, has_delays);
        times.into_iter().map(|[time]| time).collect()
    }

    /// When each of the points `wanted` comes in each of `cases` counterfactuals; those of a counterfactual together.
    pub fn cases(&self, cases: usize, changes: Changes, wanted: &[u32], has_delays: bool) -> Vec<i64> {
        self.side_by_side(cases, wanted, &|lanes, times| {
            let (owns, lags) = (self.owns_of(changes, lanes.clone()), self.lags_of(changes, lanes));
            each_width!(times, |times| self.pass(times, changed(&self.activities.own, &owns), &lags, has_delays));
        })
    }

    /// The same where activities take one of two times.
    pub fn mixed(&self, mix: Mix, wanted: &[u32]) -> Vec<i64> {
        let count = mix.labels.iter().flat_map(|labels| labels.iter()).filter(|label| **label != NONE).max();
        let count = count.map_or(0, |&most| most as usize + 1);
        self.side_by_side(mix.cases.len(), wanted, &|lanes, times| {
            // A bit for each lane in which what is of a label takes the other time; the last is of nothing.
            let mut taking = vec![0_u8; count + 1];
            let cases = &mix.cases[lanes.start as usize..lanes.end as usize];
            for (lane, labels) in cases.iter().enumerate() {
                let known = labels.iter().filter(|label| (**label as usize) < count);
                known.for_each(|&label| taking[label as usize] |= 1 << lane);
            }
            let bits = |activity: usize| {
                let of = |labels: &[u32]| taking[(labels[activity] as usize).min(count)];
                of(mix.labels[0]) | of(mix.labels[1])
            };
            each_width!(times, |times| self.pass(times, mixed(mix, bits), &[], false));
        })
    }

    /// What passes over some counterfactuals find of the points `wanted`; those of a counterfactual together.
    fn side_by_side(&self, cases: usize, wanted: &[u32], pass: &(dyn Fn(Range<u32>, &mut Times) + Sync)) -> Vec<i64> {
        let mut found = vec![0_i64; cases * wanted.len()];
        if found.is_empty() {
            return found;
        }
        let lanes = if self.order.len() > MANY { LANES / 4 } else { LANES };
        let chunks: Vec<Mutex<&mut [i64]>> = found.chunks_mut(lanes * wanted.len()).map(Mutex::new).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut times = Times::new(cases.min(lanes), self.order.len());
            while let Some(chunk) = {
                let number = next.fetch_add(1, Ordering::Relaxed);
                chunks.get(number).map(|chunk| (number, chunk))
            } {
                let (number, chunk) = chunk;
                pass((number * lanes) as u32..((number + 1) * lanes).min(cases) as u32, &mut times);
                // Nobody else takes this chunk, so a poisoned lock holds nothing half done.
                let mut chunk = chunk.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                for (lane, of_case) in chunk.chunks_mut(wanted.len()).enumerate() {
                    for (found, &point) in of_case.iter_mut().zip(wanted) {
                        *found = times.at(point as usize, lane).saturating_add(self.base);
                    }
                }
            }
        };
        let most = if self.order.len() > MOST { 1 } else { available_parallelism().map_or(1, usize::from) };
        let threads = most.min(chunks.len());
        scope(|scope| {
            (1..threads).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        found
    }

    fn owns_of(&self, changes: Changes, lanes: Range<u32>) -> Vec<Other> {
        let all = changes.own_case.iter().zip(changes.own_activity).zip(changes.own);
        let within = all.filter(|((case, _), _)| lanes.contains(case));
        let place = |activity: u32| (self.position[2 * activity as usize + 1], activity);
        in_order(within.map(|((&case, &activity), &own)| (place(activity), (case - lanes.start) as u8, own)).collect())
    }

    fn lags_of(&self, changes: Changes, lanes: Range<u32>) -> Vec<Other> {
        let all = changes.lag_case.iter().zip(changes.lag_edge).zip(changes.lag);
        let within = all.filter(|((case, edge), _)| lanes.contains(case) && self.is_forward(**edge));
        let place = |edge: u32| (self.position[self.edges.to[edge as usize] as usize], edge);
        in_order(within.map(|((&case, &edge), &lag)| (place(edge), (case - lanes.start) as u8, lag)).collect())
    }

    fn pass<const N: usize>(
        &self,
        times: &mut [[i64; N]],
        mut own_of: impl FnMut(u32) -> [i64; N],
        lags: &[Other],
        has_delays: bool,
    ) {
        let mut lags = lags.iter().peekable();
        for &point in &self.order {
            let mut reached = [i64::MIN; N];
            let entering = self.entering.of(point);
            for &number in entering {
                let (from, usual) = self.waited_for(number);
                let from = &times[from as usize];
                if lags.peek().is_some_and(|((_, edge), ..)| *edge == number) {
                    let mut lag = [usual; N];
                    while let Some(&(_, lane, other)) = lags.next_if(|((_, edge), ..)| *edge == number) {
                        lag[usize::from(lane)] = other;
                    }
                    (0..N).for_each(|n| reached[n] = reached[n].max(from[n].saturating_add(lag[n])));
                } else {
                    (0..N).for_each(|n| reached[n] = reached[n].max(from[n].saturating_add(usual)));
                }
            }
            if let Some(from) = self.own_from(point) {
                let own = own_of(point / 2);
                let from = &times[from as usize];
                (0..N).for_each(|n| reached[n] = reached[n].max(from[n].saturating_add(own[n])));
            } else if entering.is_empty() {
                // It waits for nothing.
                reached = [self.recorded(point); N];
            }
            if has_delays {
                let delay = self.delay(point);
                reached.iter_mut().for_each(|time| *time = time.saturating_add(delay));
            }
            // What no longer waits for anything comes at the very beginning.
            times[point as usize] = reached.map(|time| time.max(0));
        }
    }
}

/// Own times as they are in the graph, but for some, in order of positions.
fn changed<'a, const N: usize>(usual: &'a [i64], others: &'a [Other]) -> impl FnMut(u32) -> [i64; N] + 'a {
    let mut others = others.iter().peekable();
    move |activity| {
        let mut own = [usual[activity as usize]; N];
        while let Some(&(_, lane, other)) = others.next_if(|((_, of), ..)| *of == activity) {
            own[usize::from(lane)] = other;
        }
        own
    }
}

/// Own times of which the bits of an activity say which of two it is in each lane.
fn mixed<'a, const N: usize>(mix: Mix<'a>, bits: impl Fn(usize) -> u8 + 'a) -> impl FnMut(u32) -> [i64; N] + 'a {
    move |activity| {
        let activity = activity as usize;
        let (bits, usual, other) = (bits(activity), mix.usual[activity], mix.other[activity]);
        std::array::from_fn(|lane| if bits >> lane & 1 == 1 { other } else { usual })
    }
}

fn in_order(mut others: Vec<Other>) -> Vec<Other> {
    // Of several changes of one value the last counts.
    others.sort_by_key(|&(place, ..)| place);
    others
}
