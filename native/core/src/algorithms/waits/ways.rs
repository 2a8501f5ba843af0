//! Ways back from visits, of which long stretches are added up once.

use super::{Sums, Terms, Visits};
use crate::columns::arrow::NONE;

/// The ways back from visits, with what was done on longer stretches of them: else each wait on a long way would walk
/// all of it again.
pub(super) struct Ways<'a> {
    visits: &'a Visits,
    /// What the wait of each visit consists of.
    waited: Vec<Terms>,
    /// How far each is from its beginning, and a visit further back, or `NONE` beyond the beginning; as many visits lie
    /// in between as make the way back to any visit short (Myers, "An applicative random-access stack", 1983).
    depth: Vec<u32>,
    far: Vec<u32>,
    /// What was done from each visit to that one, itself included; of those whose stretch is but themselves, nothing.
    stretch: Vec<Terms>,
}

impl<'a> Ways<'a> {
    pub(super) fn new(visits: &'a Visits) -> Self {
        let count = visits.meeting.len();
        Self {
            visits,
            waited: vec![Terms::new(); count],
            depth: vec![1; count],
            far: vec![NONE; count],
            stretch: vec![Terms::new(); count],
        }
    }

    /// Take a visit in whose wait consists of this; those before it were.
    pub(super) fn pass(&mut self, visit: u32, waited: Terms) {
        let at = visit as usize;
        self.waited[at] = waited;
        let before = self.visits.before[at];
        if before == NONE {
            return;
        }
        self.depth[at] = self.depth_of(before) + 1;
        let (far, further) = (self.far_from(before), self.far_from(self.far_from(before)));
        let is_even = self.depth_of(before) - self.depth_of(far) == self.depth_of(far) - self.depth_of(further);
        if !is_even {
            self.far[at] = before;
            return;
        }
        self.far[at] = further;
        let mut sums = Sums::default();
        self.add_one(visit, 1, &mut sums);
        self.add_stretch(before, 1, &mut sums);
        if far != NONE {
            self.add_stretch(far, 1, &mut sums);
        }
        self.stretch[at] = sums.into_iter().collect();
    }

    fn depth_of(&self, visit: u32) -> u32 {
        self.depth.get(visit as usize).copied().unwrap_or(0)
    }

    fn far_from(&self, visit: u32) -> u32 {
        self.far.get(visit as usize).copied().unwrap_or(NONE)
    }

    /// Add what a process did before a visit since a meeting, and what its waits in between consist of.
    pub(super) fn add_path(&self, until: u32, since: Option<u32>, sign: i64, sums: &mut Sums) {
        self.add_terms(until, sign, sums);
        let is_after = |visit: u32| match visit {
            NONE => since.is_none(),
            _ => since.is_none_or(|since| self.visits.meeting[visit as usize] >= since),
        };
        let mut at = self.visits.before[until as usize];
        while at != NONE && since.is_none_or(|since| self.visits.meeting[at as usize] > since) {
            if is_after(self.far[at as usize]) {
                self.add_stretch(at, sign, sums);
                at = self.far[at as usize];
            } else {
                self.add_one(at, sign, sums);
                at = self.visits.before[at as usize];
            }
        }
    }

    fn add_stretch(&self, visit: u32, sign: i64, sums: &mut Sums) {
        if self.far_from(visit) == self.visits.before[visit as usize] {
            return self.add_one(visit, sign, sums);
        }
        self.stretch[visit as usize].iter().for_each(|&(key, ns)| *sums.entry(key).or_default() += sign * ns);
    }

    /// What was done before a visit since the one before, and what it waited for.
    fn add_one(&self, visit: u32, sign: i64, sums: &mut Sums) {
        self.add_terms(visit, sign, sums);
        self.waited[visit as usize].iter().for_each(|&(key, ns)| *sums.entry(key).or_default() += sign * ns);
    }

    fn add_terms(&self, visit: u32, sign: i64, sums: &mut Sums) {
        let (visits, at) = (self.visits, visit as usize);
        let end = visits.first.get(at + 1).map_or(visits.terms.len(), |&end| end as usize);
        for term in &visits.terms[visits.first[at] as usize..end] {
            *sums.entry(u64::from(term.process) << 32 | u64::from(term.signature)).or_default() += sign * term.ns;
        }
    }

    /// The meeting at which both ways back come together, if they do before their beginnings.
    pub(super) fn last_common(&self, one: u32, other: u32) -> Option<u32> {
        let before = |visit: u32| self.visits.before[visit as usize];
        let meeting = |visit: u32| self.visits.meeting[visit as usize];
        // No further than to where the other one is: both may have been there.
        let back = |visit: u32, to: u32| match self.far[visit as usize] {
            far if far != NONE && meeting(far) >= to => far,
            _ => before(visit),
        };
        let (mut one, mut other) = (before(one), before(other));
        while one != NONE && other != NONE {
            match meeting(one).cmp(&meeting(other)) {
                std::cmp::Ordering::Equal => return Some(meeting(one)),
                std::cmp::Ordering::Greater => one = back(one, meeting(other)),
                std::cmp::Ordering::Less => other = back(other, meeting(one)),
            }
        }
        None
    }
}
