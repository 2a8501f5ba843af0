//! When one rank does with a change what it did at a time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::host::HostClock;
use super::{Less, Rank};

/// In ns: so soon a device that has nothing to do begins what its host launches, unless that sends something first.
const SOON: i64 = 1_000_000;
/// In ns: what ends within this of each other ends at once.
const AT_ONCE: i64 = 10_000;

/// Work that a host launched when its device had little or nothing to do: no faster device begins it earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Late {
    pub begun: i64,
    /// Since when the host did something else, however fast its device was.
    pub since: i64,
    /// For how much of that the device had nothing to do.
    pub gap: i64,
    /// When it was launched, if the device still had something to do then.
    pub launched: i64,
}

/// How much is not done before a time.
#[derive(Clone, Debug)]
pub struct Removed {
    times: Vec<i64>,
    sums: Vec<f64>,
}

impl Default for Removed {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Removed {
    /// When something ended that is not done, and how long it took, in any order.
    pub fn new(mut removed: Vec<(i64, f64)>) -> Self {
        removed.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut sum = 0.0;
        let sums = removed.iter().map(|&(_, ns)| {
            sum += ns;
            sum
        });
        let sums = [0.0].into_iter().chain(sums).collect();
        Self { times: removed.iter().map(|&(at, _)| at).collect(), sums }
    }

    pub fn before(&self, time: i64) -> f64 {
        self.sums[self.times.partition_point(|&at| at <= time)]
    }
}

/// How much later than recorded a rank is, but for what it does not do.
pub struct Course<'a> {
    removed: &'a Removed,
    /// Since when, and how much.
    since: Vec<i64>,
    later: Vec<f64>,
}

impl Course<'_> {
    pub fn at(&self, time: i64) -> f64 {
        let later = self.later[self.since.partition_point(|&since| since <= time) - 1];
        time as f64 + later - self.removed.before(time)
    }

    fn resumes(&mut self, time: i64, now: f64) {
        self.since.push(self.since.last().map_or(time, |&since| time.max(since)));
        self.later.push(now - time as f64 + self.removed.before(time));
    }
}

/// Where a rank goes on after others.
#[derive(PartialEq)]
struct GoesOn {
    on: i64,
    /// Since when it stood still.
    stood: i64,
    /// Not before this is what it waited for there.
    there: f64,
    /// How likely that is what it stood still for.
    likely: f64,
}

impl Eq for GoesOn {}

impl PartialOrd for GoesOn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for GoesOn {
    fn cmp(&self, other: &Self) -> Ordering {
        let times = (self.on, self.stood).cmp(&(other.on, other.stood));
        times.then(self.there.total_cmp(&other.there)).then(self.likely.total_cmp(&other.likely))
    }
}

/// One rank that does less.
pub struct Moved<'a> {
    less: &'a Less,
    course: Course<'a>,
    /// It may go on after others in another order than these begin in.
    pending: BinaryHeap<Reverse<GoesOn>>,
    /// When it went on last for something else, and how likely it had stood still for that.
    went: i64,
    likely: f64,
    /// What its host launched late and it has not begun yet.
    late: &'a [Late],
    host: Option<HostClock<'a>>,
    /// Where all was launched long before, nobody knows how soon a device would have begun it.
    soonest: i64,
}

impl<'a> Moved<'a> {
    pub fn new(rank: &'a Rank, less: &'a Less) -> Self {
        let lags = rank.late.iter().map(|late| late.begun - late.launched).filter(|&lag| lag <= SOON);
        Self {
            less,
            course: Course { removed: &less.removed, since: vec![i64::MIN], later: vec![0.0] },
            pending: BinaryHeap::new(),
            went: -i64::MAX,
            likely: 0.0,
            late: &rank.late,
            host: rank.waits.as_deref().map(|waits| HostClock::new(waits, less)),
            soonest: lags.min().unwrap_or(0),
        }
    }

    /// When it does what it did at this time; all it waits for before is known.
    pub fn at(&mut self, time: i64) -> f64 {
        loop {
            let pending = self.pending.peek().map(|next| next.0.on).filter(|&on| on <= time);
            if let Some((late, others)) =
                self.late.split_first().filter(|(late, _)| late.begun <= pending.unwrap_or(time))
            {
                self.late = others;
                let begun = self.course.at(late.begun);
                let now = self.begins(late, begun);
                if now != begun {
                    self.course.resumes(late.begun, now);
                }
            } else if let Some(Reverse(next)) = pending.and_then(|_| self.pending.pop()) {
                if next.on.saturating_sub(self.went) > AT_ONCE || next.likely >= self.likely {
                    // What ended before that, while it stood still, did not hold it back.
                    let now = self.course.at(next.stood).max(next.there);
                    self.course.resumes(next.on, now);
                    (self.went, self.likely) = (next.on, next.likely);
                }
            } else {
                return self.course.at(time);
            }
        }
    }

    /// What it did at `on`, after it had `stood` still since another time, it does not before something is there.
    ///
    /// Of several that end at once it waited for the one that it is most `likely` to wait for.
    pub fn goes_on(&mut self, on: i64, stood: i64, there: f64, likely: f64) {
        self.pending.push(Reverse(GoesOn { on, stood, there, likely }));
    }

    /// When its device begins what its host launched late, if it would be `begun` without that.
    fn begins(&mut self, late: &Late, begun: f64) -> f64 {
        let Some(host) = &mut self.host else {
            let lasted = (late.launched - late.since) as f64;
            return begun.max(self.course.at(late.since) + lasted - self.spared(late, lasted));
        };
        let launched = host.at(late.launched, &self.course);
        let lag = late.begun - late.launched;
        if late.gap == 0 {
            return begun.max(launched + lag.min(self.soonest) as f64);
        }
        (launched + lag as f64).max(self.course.at(late.begun - late.gap))
    }

    /// How much of the time until it launched it its host does not need.
    fn spared(&self, late: &Late, lasted: f64) -> f64 {
        let spared = self.less.of_hosts.before(late.begun) - self.less.of_hosts.before(late.since);
        let spent = self.less.spent.before(late.launched) - self.less.spent.before(late.since);
        if late.gap == 0 && spent != 0.0 {
            // It may have been in the middle of that.
            return spared.max(spent);
        }
        // What does not happen takes no time at all, and not only none of that in which the device had nothing to do.
        spared.max(lasted * (spared / late.gap.max(1) as f64).min(1.0))
    }
}
