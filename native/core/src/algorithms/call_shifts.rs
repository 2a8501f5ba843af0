//! How well the ends of calls of two ranks fit, if the one began to record some calls later than the other.

/// Calls in order of their series, those of one series in theirs.
pub struct Calls<'a> {
    pub series: &'a [u32],
    pub end: &'a [i64],
    pub step: &'a [Option<i64>],
}

/// Each of the first calls of `series` is taken for the one of `reference` so many places on.
pub struct Tried {
    pub series: u32,
    pub reference: u32,
    pub shift: i64,
    /// None is received before it is sent, and else none ends before it has begun elsewhere.
    pub is_received: bool,
}

/// What is far, in ns.
pub struct Limits {
    /// So many calls at the start of each series are compared.
    pub most: usize,
    /// Ends that fit differ by less.
    pub slack: i64,
    /// Clocks of one machine differ by less.
    pub one_clock: i64,
    /// So many times the upper quartile.
    pub by_far: f64,
}

/// How far the ends of the pairs are apart.
#[derive(Debug, Default, PartialEq)]
pub struct Fit {
    pub pairs: u32,
    pub median: f64,
    /// Three quarters of the pairs are this near to the median.
    pub spread: f64,
    /// The part of the pairs that is further from it than the slack.
    pub unfit: f64,
    /// So many are further from it than that and than some times the spread.
    pub far: u32,
    /// The part that is in two steps, of the pairs whose steps are known.
    pub other_step: f64,
    /// The part that ends too early.
    pub early: f64,
}

pub fn fits(calls: &Calls<'_>, tried: &[Tried], limits: &Limits) -> Vec<Fit> {
    let place = |series: u32| {
        let begin = calls.series.partition_point(|&known| known < series);
        begin..calls.series.partition_point(|&known| known <= series)
    };
    let (mut apart, mut off) = (Vec::new(), Vec::new());
    let fit = |tried: &Tried| {
        let (own, reference) = (place(tried.series), place(tried.reference));
        let first = own.clone().take(limits.most);
        let pairs = first.filter_map(|at| {
            let other = i64::try_from(at - own.start).ok()?.checked_add(tried.shift)?;
            let other = reference.start.checked_add(usize::try_from(other).ok()?)?;
            reference.contains(&other).then_some((at, other))
        });
        apart.clear();
        let (mut stepped, mut elsewhere) = (0_u32, 0_u32);
        for (at, other) in pairs {
            apart.push(calls.end[at].saturating_sub(calls.end[other]));
            if let (Some(step), Some(other)) = (calls.step[at], calls.step[other]) {
                stepped += 1;
                elsewhere += u32::from(step != other);
            }
        }
        of_pairs(&mut apart, &mut off, tried.is_received, limits, f64::from(elsewhere) / f64::from(stepped.max(1)))
    };
    tried.iter().map(fit).collect()
}

fn of_pairs(apart: &mut [i64], off: &mut Vec<f64>, is_received: bool, limits: &Limits, other_step: f64) -> Fit {
    if apart.is_empty() {
        return Fit::default();
    }
    let is_early = |&&apart: &&i64| if is_received { apart < -limits.one_clock } else { apart > limits.one_clock };
    let early = apart.iter().filter(is_early).count();
    let median = median(apart);
    off.clear();
    off.extend(apart.iter().map(|&apart| (apart as f64 - median).abs()));
    let nearest = ((off.len() - 1) as f64 * 0.75).round() as usize;
    let spread = *off.select_nth_unstable_by(nearest, f64::total_cmp).1;
    let further = |least: f64| off.iter().filter(|&&off| off > least).count();
    let (slack, count) = (limits.slack as f64, apart.len() as f64);
    Fit {
        pairs: apart.len() as u32,
        median,
        spread,
        unfit: further(slack) as f64 / count,
        far: further(slack.max(limits.by_far * spread)) as u32,
        other_step,
        early: early as f64 / count,
    }
}

/// The middle of some values, of which there is one; of an even number the mean of the two in the middle.
fn median(values: &mut [i64]) -> f64 {
    let middle = values.len() / 2;
    let is_even = values.len().is_multiple_of(2);
    let (below, &mut upper, _) = values.select_nth_unstable(middle);
    let lower = if is_even { below.iter().copied().max().unwrap_or(upper) } else { upper };
    (lower as f64 + upper as f64) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { most: 100, slack: 5, one_clock: 200, by_far: 4.0 };

    fn tried(shift: i64) -> Tried {
        Tried { series: 1, reference: 3, shift, is_received: false }
    }

    #[test]
    fn ends_that_are_apart_alike_fit() {
        let calls = Calls {
            series: &[1, 1, 1, 3, 3, 3, 3],
            end: &[120, 150, 190, 0, 20, 50, 90],
            step: &[Some(1), Some(1), None, Some(1), Some(1), Some(2), Some(2)],
        };
        let found = fits(&calls, &[tried(1), tried(0), tried(4)], &LIMITS);
        let even = Fit { pairs: 3, median: 100.0, other_step: 0.5, ..Fit::default() };
        assert_eq!(found[0], even);
        assert_eq!((found[1].pairs, found[1].median, found[1].spread), (3, 130.0, 10.0));
        assert_eq!((found[1].unfit, found[1].far), (2.0 / 3.0, 0));
        assert_eq!(found[2], Fit::default());
    }

    #[test]
    fn what_is_received_before_it_is_sent_is_early() {
        let calls = Calls { series: &[1, 3], end: &[0, 201], step: &[None, None] };
        let received = Tried { is_received: true, ..tried(0) };
        assert_eq!(fits(&calls, &[received, tried(0)], &LIMITS).iter().map(|fit| fit.early).sum::<f64>(), 1.0);
    }

    #[test]
    fn of_an_even_number_the_median_is_in_between() {
        assert_eq!(median(&mut [7, 1, 3, 4]), 3.5);
        assert_eq!(median(&mut [7, 1, 3]), 3.0);
    }
}
