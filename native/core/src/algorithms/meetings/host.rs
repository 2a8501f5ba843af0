//! When the host of an XLA profile does with a change what it did at a time: it waits for its devices, and launches.

use super::Less;
use super::course::Course;

/// A host waited for its devices; with a change it may wait for what they did before that only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wait {
    pub returned: i64,
    pub began: i64,
    /// When the last program before that was over: what it waited for, if it had to.
    pub ready: i64,
    /// When the one before that was over, which it waits for if it does not for this; the least of all times if none.
    pub before: i64,
}

/// The host of one rank, as time goes by.
pub struct HostClock<'a> {
    /// Those that are still to come.
    waits: &'a [Wait],
    less: &'a Less,
    went: i64,
    later: f64,
}

impl<'a> HostClock<'a> {
    pub fn new(waits: &'a [Wait], less: &'a Less) -> Self {
        Self { waits, less, went: i64::MIN, later: 0.0 }
    }

    /// When it does what it did at this time; of its device all times before are known.
    pub fn at(&mut self, time: i64, device: &Course) -> f64 {
        while let Some((wait, others)) = self.waits.split_first().filter(|(wait, _)| wait.returned <= time) {
            self.waits = others;
            let began = wait.began.max(self.went);
            let mut now = self.own(began);
            now = if self.less.without.contains(&wait.returned) {
                now.max(device.at(wait.before))
            } else {
                now.max(device.at(wait.ready)) + wait.returned as f64 - began.max(wait.ready) as f64
            };
            self.went = wait.returned;
            self.later = now - wait.returned as f64 + self.less.spared.before(wait.returned);
        }
        self.own(time)
    }

    fn own(&self, time: i64) -> f64 {
        time as f64 + self.later - self.less.spared.before(time)
    }
}
