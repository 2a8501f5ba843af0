//! How much of the time line spans cover.
//!
//! Spans are half-open, may overlap and come in any order; those that end at or before their start cover nothing.

/// So many spans are looked at one by one before all are searched.
const NEAR: usize = 8;

/// Starts and ends of spans that are in order and do not touch.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Spans {
    pub start: Vec<i64>,
    pub end: Vec<i64>,
}

impl Spans {
    /// What spans, in order of their starts, cover.
    fn covering(spans: impl Iterator<Item = (i64, i64)>) -> Self {
        let mut covered = Self::default();
        merged(spans, |start, end| covered.push(start, end));
        covered
    }

    fn push(&mut self, start: i64, end: i64) {
        self.start.push(start);
        self.end.push(end);
    }

    fn iter(&self) -> impl Iterator<Item = (i64, i64)> {
        self.start.iter().copied().zip(self.end.iter().copied())
    }

    /// The time that these or the others cover.
    fn with(&self, others: &Self) -> Self {
        let (mut these, mut others) = (self.iter().peekable(), others.iter().peekable());
        let next = || match (these.peek(), others.peek()) {
            (Some(one), Some(other)) if other < one => others.next(),
            (Some(_), _) => these.next(),
            _ => others.next(),
        };
        Self::covering(std::iter::from_fn(next))
    }

    /// The time that these cover and the others do not.
    fn without(&self, others: &Self) -> Self {
        let mut left = Self::default();
        let mut taken = others.iter().peekable();
        for (mut start, end) in self.iter() {
            while let Some(&(from, until)) = taken.peek().filter(|(from, _)| *from < end) {
                if start < from {
                    left.push(start, from);
                }
                start = start.max(until);
                if until > end {
                    // The rest of it may be taken from what comes next.
                    break;
                }
                taken.next();
            }
            if start < end {
                left.push(start, end);
            }
        }
        left
    }

    /// The time that these and the others cover.
    fn within(&self, others: &Self) -> Self {
        let mut both = Self::default();
        let mut others = others.iter().peekable();
        for (start, end) in self.iter() {
            while let Some(&(from, until)) = others.peek().filter(|(from, _)| *from < end) {
                if start.max(from) < end.min(until) {
                    both.push(start.max(from), end.min(until));
                }
                if until > end {
                    break;
                }
                others.next();
            }
        }
        both
    }

    /// For each of `times`, how long one of these is active before it.
    fn covered_before(&self, times: &[i64]) -> Vec<i64> {
        let mut sum = 0_i64;
        let before = self.iter().map(|(start, end)| {
            let before = sum;
            sum = sum.saturating_add(end.saturating_sub(start));
            before
        });
        let before: Vec<i64> = before.collect();
        let mut begun = 0;
        let covered = |&time: &i64| {
            begun = begun_before(&self.start, time, begun);
            begun.checked_sub(1).map_or(0, |last| {
                before[last].saturating_add(time.min(self.end[last]).saturating_sub(self.start[last]))
            })
        };
        times.iter().map(covered).collect()
    }
}

/// For each of `times`, how long at least one span is active before it.
pub fn covered_before(start: &[i64], end: &[i64], times: &[i64]) -> Vec<i64> {
    union(start, end).covered_before(times)
}

/// How long, of each of `spans`, starts and ends, none of `others` is active.
pub fn uncovered(spans: (&[i64], &[i64]), others: (&[i64], &[i64])) -> Vec<i64> {
    let others = union(others.0, others.1);
    let mut uncovered = others.covered_before(spans.1);
    for (left, (start, end)) in uncovered.iter_mut().zip(spans.0.iter().zip(spans.1)) {
        *left = end.wrapping_sub(*start).wrapping_sub(*left);
    }
    for (left, before) in uncovered.iter_mut().zip(others.covered_before(spans.0)) {
        *left = left.wrapping_add(before);
    }
    uncovered
}

/// How long, in each of `windows`, starts and ends, each of `layers` goes on where none of those before it does.
pub fn first_covered(windows: (&[i64], &[i64]), layers: &[(&[i64], &[i64])]) -> Vec<Vec<i64>> {
    let mut reached = Spans::default();
    let mut known = vec![0; windows.0.len()];
    let added = |(start, end): &(&[i64], &[i64])| {
        let layer = union(start, end);
        if layer.start.is_empty() {
            return vec![0; known.len()];
        }
        reached = reached.with(&layer);
        let (before, until) = (reached.covered_before(windows.0), reached.covered_before(windows.1));
        let covered: Vec<i64> = until.iter().zip(before).map(|(until, before)| until.saturating_sub(before)).collect();
        let added = covered.iter().zip(&known).map(|(covered, known)| covered.saturating_sub(*known)).collect();
        known = covered;
        added
    };
    layers.iter().map(added).collect()
}

/// How many of the sorted `starts` are not after `time`, looked for near `hint`: times are mostly in order.
fn begun_before(starts: &[i64], time: i64, hint: usize) -> usize {
    let is_begun = |&start: &i64| start <= time;
    if hint.checked_sub(1).is_some_and(|last| starts[last] > time) {
        return starts[..hint].partition_point(is_begun);
    }
    let near = (hint + NEAR).min(starts.len());
    let begun = hint + starts[hint..near].iter().take_while(|start| is_begun(start)).count();
    if begun < near { begun } else { begun + starts[begun..].partition_point(is_begun) }
}

/// The time that at least one span covers.
pub fn union(start: &[i64], end: &[i64]) -> Spans {
    let mut union = Spans::default();
    each_covered(start, end, |start, end| union.push(start, end));
    union
}

/// How long at least one span is active.
pub fn total(start: &[i64], end: &[i64]) -> i64 {
    let mut sum = 0_i64;
    each_covered(start, end, |start, end| sum = sum.saturating_add(end.saturating_sub(start)));
    sum
}

/// The time that at least one span covers whose kind is among `kinds`, for each of these sets.
pub fn unions(start: &[i64], end: &[i64], kind: &[u32], sets: &[Vec<u32>]) -> Vec<Spans> {
    let order = in_order(start);
    let of = |kinds: &Vec<u32>| {
        let rows = order.iter().map(|&row| row as usize).filter(|&row| kinds.contains(&kind[row]));
        Spans::covering(rows.map(|row| (start[row], end[row])))
    };
    sets.iter().map(of).collect()
}

/// The time that at least one of the spans `a`, starts and ends, and none of `b` covers.
pub fn subtract(a: (&[i64], &[i64]), b: (&[i64], &[i64])) -> Spans {
    union(a.0, a.1).without(&union(b.0, b.1))
}

/// The time that at least one of the spans `a`, starts and ends, and at least one of `b` covers.
pub fn intersect(a: (&[i64], &[i64]), b: (&[i64], &[i64])) -> Spans {
    union(a.0, a.1).within(&union(b.0, b.1))
}

/// Visit what spans, in any order, cover as a whole.
fn each_covered(start: &[i64], end: &[i64], visit: impl FnMut(i64, i64)) {
    if start.is_sorted() {
        merged(start.iter().copied().zip(end.iter().copied()), visit);
    } else {
        merged(in_order(start).iter().map(|&row| (start[row as usize], end[row as usize])), visit);
    }
}

/// The rows in order of their times; of those at the same time the upper comes first.
pub(crate) fn in_order(times: &[i64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..times.len() as u32).collect();
    if !times.is_sorted() {
        // Stable, because it makes use of the order in which they mostly are.
        order.sort_by_key(|&row| times[row as usize]);
    }
    order
}

/// Visit what spans, in order of their starts, cover as a whole.
pub(crate) fn merged(spans: impl Iterator<Item = (i64, i64)>, mut visit: impl FnMut(i64, i64)) {
    let mut open: Option<(i64, i64)> = None;
    for (start, end) in spans.filter(|(start, end)| start < end) {
        match &mut open {
            Some((_, reached)) if start <= *reached => *reached = end.max(*reached),
            _ => {
                if let Some((start, end)) = open.replace((start, end)) {
                    visit(start, end);
                }
            }
        }
    }
    if let Some((start, end)) = open {
        visit(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::{Spans, covered_before, first_covered, intersect, subtract, total, uncovered, union, unions};

    fn spans<const N: usize>(both: [(i64, i64); N]) -> Spans {
        let (start, end) = both.into_iter().unzip();
        Spans { start, end }
    }

    #[test]
    fn overlapping_spans_count_once_and_in_any_order() {
        assert_eq!(covered_before(&[8, 0, 5], &[9, 6, 7], &[0, 1, 6, 7, 8, 9, 20]), [0, 1, 6, 7, 7, 8, 8]);
    }

    #[test]
    fn what_others_leave_of_each_span_is_counted_once() {
        assert_eq!(uncovered((&[0, 4, 9], &[6, 5, 9]), (&[3, 2], &[5, 4])), [3, 0, 0]);
        assert_eq!(uncovered((&[], &[]), (&[3], &[5])), []);
    }

    #[test]
    fn spans_that_do_not_last_cover_nothing() {
        assert_eq!(covered_before(&[3, 5], &[3, 4], &[10]), [0]);
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        assert_eq!(covered_before(&[i64::MIN], &[i64::MAX], &[i64::MIN, i64::MAX]), [0, i64::MAX]);
    }

    #[test]
    fn what_touches_is_one_span_of_the_union() {
        assert_eq!(union(&[8, 0, 5, 20], &[9, 5, 7, 20]), spans([(0, 7), (8, 9)]));
    }

    #[test]
    fn one_span_can_be_taken_from_several_and_several_from_one() {
        let left = subtract((&[0, 10, 20], &[9, 19, 29]), (&[5, 22, 24], &[12, 23, 40]));
        assert_eq!(left, spans([(0, 5), (12, 19), (20, 22), (23, 24)]));
    }

    #[test]
    fn what_both_cover_is_found_of_one_that_meets_several_and_of_several_that_meet_one() {
        let both = intersect((&[0, 10, 20], &[9, 19, 29]), (&[5, 22, 24], &[12, 23, 40]));
        assert_eq!(both, spans([(5, 9), (10, 12), (22, 23), (24, 29)]));
    }

    #[test]
    fn what_spans_cover_is_counted_once_whatever_their_order() {
        assert_eq!((total(&[0, 3, 8], &[5, 6, 9]), total(&[8, 3, 0], &[9, 6, 5]), total(&[], &[])), (7, 7, 0));
    }

    #[test]
    fn each_moment_of_a_window_is_of_the_first_layer_that_goes_on() {
        let layers: [(&[i64], &[i64]); 4] =
            [(&[6, 0], &[8, 2]), (&[1, 20], &[7, 21]), (&[], &[]), (&[0, 30], &[40, 35])];
        let found = first_covered((&[0, 5, 30], &[10, 25, 50]), &layers);
        assert_eq!(found, [[4, 2, 0], [4, 2, 0], [0, 0, 0], [2, 16, 10]]);
    }

    #[test]
    fn unions_are_of_the_kinds_that_are_asked_for() {
        let found = unions(&[4, 0, 2], &[6, 3, 5], &[7, 8, 9], &[vec![7, 8], vec![9, 8], vec![]]);
        assert_eq!(found, [spans([(0, 3), (4, 6)]), spans([(0, 5)]), spans([])]);
    }

    #[test]
    fn times_may_come_in_any_order() {
        assert_eq!(covered_before(&[0, 5], &[2, 6], &[9, 1, 5, 2]), [3, 1, 2, 2]);
    }
}
