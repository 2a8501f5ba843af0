//! What happens in several groups side by side: each group by itself, in order of time.

use crate::algorithms::intervals::in_order;
use crate::columns::grouping::Grouping;

/// What changes have made of some levels, group by group.
#[derive(Debug, PartialEq, Eq)]
pub struct Levels {
    /// The change.
    pub row: Vec<u32>,
    /// When it comes.
    pub since: Vec<i64>,
    /// When the next change of its group comes; of the last one, when it comes itself.
    pub until: Vec<i64>,
    /// Each level after the change.
    pub levels: Vec<Vec<i64>>,
}

/// What `changes` of several levels make of each, in order of groups, and in each of time.
///
/// Of changes at the same time the one in the upper row comes first.
pub fn levels(group: &[i64], time: &[i64], changes: &[&[i64]]) -> Levels {
    let (row, sizes) = grouped(group, in_order(time));
    let since: Vec<i64> = row.iter().map(|&row| time[row as usize]).collect();
    let mut until = Vec::with_capacity(row.len());
    let mut levels = vec![Vec::with_capacity(row.len()); changes.len()];
    let mut before = 0;
    for size in sizes {
        let all = before..before + size;
        until.extend_from_slice(&since[all.start + 1..all.end]);
        until.push(since[all.end - 1]);
        for (levels, changes) in levels.iter_mut().zip(changes) {
            levels.extend(row[all.clone()].iter().scan(0_i64, |level, &row| {
                *level = level.wrapping_add(changes[row as usize]);
                Some(*level)
            }));
        }
        before = all.end;
    }
    Levels { row, since, until, levels }
}

/// Why nothing ran before a span, in the order of results.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Cause {
    /// It was launched only after the earlier ones had ended.
    Host,
    /// It was launched in time and followed soon.
    Pause,
    Other,
}

/// The time between the spans of each group, by its cause; in order of groups, then of causes.
#[derive(Debug, Default, PartialEq)]
pub struct Gaps {
    pub cause: Vec<Cause>,
    /// What describes the gaps of one cause; its rows are those of spans.
    pub length: Described,
    /// How long it is from the start of the group's first span to the latest end.
    pub whole: Vec<i64>,
}

/// The time between the spans of each group: from where those before end, to the start; 0 where it lies before.
///
/// Of spans that begin at the same time the one with the lower id comes first. `launch` is when each was launched, and
/// `i64::MIN` where that is not known. Gaps shorter than `pause` are pauses.
pub fn gaps(group: &[i64], span: (&[i64], &[i64]), id: &[u32], launch: &[i64], pause: i64) -> Gaps {
    let (start, end) = span;
    let (rank, count) = ranks(group);
    let mut order: Vec<u32> = (0..start.len() as u32).collect();
    let place = |row: u32| (start[row as usize], id[row as usize]);
    if !order.is_sorted_by_key(|&row| place(row)) {
        order.sort_by_key(|&row| place(row));
    }
    // Where the first span of each group starts, and those so far end.
    let mut reached: Vec<Option<(i64, i64)>> = vec![None; count];
    let (mut row, mut number, mut length) = (Vec::new(), Vec::new(), Vec::new());
    for at in order.into_iter().map(|row| row as usize) {
        let reached = &mut reached[rank[at] as usize];
        let Some((_, latest)) = reached else {
            *reached = Some((start[at], end[at]));
            continue;
        };
        let gap = start[at].wrapping_sub(*latest).max(0);
        let cause = if launch[at] > *latest {
            Cause::Host
        } else if gap < pause {
            Cause::Pause
        } else {
            Cause::Other
        };
        row.push(at as u32);
        number.push(i64::from(rank[at]) * CAUSES.len() as i64 + cause as i64);
        length.push(gap);
        *latest = end[at].max(*latest);
    }
    let mut length = describe(&number, &length);
    let first = |described: &u32| number[*described as usize] as usize;
    let cause = length.row.iter().map(|row| CAUSES[first(row) % CAUSES.len()]).collect();
    let whole = length.row.iter().filter_map(|row| reached[first(row) / CAUSES.len()]);
    let whole = whole.map(|(first, latest)| latest.wrapping_sub(first)).collect();
    length.row.iter_mut().for_each(|described| *described = row[*described as usize]);
    Gaps { cause, length, whole }
}

const CAUSES: [Cause; 3] = [Cause::Host, Cause::Pause, Cause::Other];

/// What describes a value of each group, in order of groups.
#[derive(Debug, Default, PartialEq)]
pub struct Described {
    /// The group's first row.
    pub row: Vec<u32>,
    pub count: Vec<u32>,
    pub sum: Vec<i64>,
    pub mean: Vec<f64>,
    /// The standard deviation (n - 1); none for a single value.
    pub std: Vec<Option<f64>>,
    pub min: Vec<i64>,
    /// A quarter, half and three quarters of the values are not greater; between two values interpolated.
    pub quartiles: [Vec<f64>; 3],
    pub max: Vec<i64>,
}

/// What describes the values of each group.
fn describe(group: &[i64], value: &[i64]) -> Described {
    let (row, sizes) = grouped(group, (0..value.len() as u32).collect());
    let mut values: Vec<i64> = row.iter().map(|&row| value[row as usize]).collect();
    let mut described = Described::default();
    let mut before = 0;
    for size in sizes {
        let values = &mut values[before..before + size];
        let sum: i128 = values.iter().map(|&value| i128::from(value)).sum();
        let mean = sum as f64 / size as f64;
        let squares: f64 = values.iter().map(|&value| (value as f64 - mean).powi(2)).sum();
        described.row.push(row[before]);
        described.count.push(size as u32);
        described.sum.push(sum as i64);
        described.mean.push(mean);
        described.std.push((size > 1).then(|| (squares / (size - 1) as f64).sqrt()));
        let (_, max, _) = values.select_nth_unstable(size - 1);
        described.max.push(*max);
        let mut unordered = size;
        for (quarter, quartile) in [1, 2, 3].into_iter().zip(&mut described.quartiles).rev() {
            let (below, quarters) = ((size - 1) * quarter / 4, (size - 1) * quarter % 4);
            let above = if quarters > 0 { below + 1 } else { below };
            for place in [above, below] {
                if place < unordered {
                    values[..unordered].select_nth_unstable(place);
                    unordered = place;
                }
            }
            let step = values[above] as f64 - values[below] as f64;
            quartile.push(values[below] as f64 + step * (quarters as f64 / 4.0));
        }
        let (_, min, _) = values[..=unordered].select_nth_unstable(0);
        described.min.push(*min);
        before += size;
    }
    described
}

/// The rows in order of their groups, where those of each stay as they are, and how many each has.
fn grouped(group: &[i64], rows: Vec<u32>) -> (Vec<u32>, impl Iterator<Item = usize>) {
    let (rank, count) = ranks(group);
    let members: Vec<(u32, u32)> = rows.into_iter().map(|row| (rank[row as usize], row)).collect();
    Grouping::new(count, members.iter().copied()).into_parts()
}

/// How many distinct numbers are lower than each, and how many there are.
fn ranks(numbers: &[i64]) -> (Vec<u32>, usize) {
    let mut distinct: Vec<i64> = numbers.chunk_by(|a, b| a == b).map(|run| run[0]).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let mut ranks = Vec::with_capacity(numbers.len());
    for run in numbers.chunk_by(|a, b| a == b) {
        let rank = distinct.partition_point(|&other| other < run[0]) as u32;
        ranks.extend(std::iter::repeat_n(rank, run.len()));
    }
    (ranks, distinct.len())
}

#[cfg(test)]
mod tests {
    use super::{Cause, Described, Gaps, Levels, describe, gaps, levels};

    #[test]
    fn each_group_has_levels_of_its_own() {
        let found = levels(&[8, 7, 8, 7], &[1, 2, 5, 9], &[&[1, 1, -1, -1], &[10, 20, 30, 40]]);
        let levels = vec![vec![1, 0, 1, 0], vec![20, 60, 10, 40]];
        let (row, since, until) = (vec![1, 3, 0, 2], vec![2, 9, 1, 5], vec![9, 9, 5, 5]);
        assert_eq!(found, Levels { row, since, until, levels });
    }

    #[test]
    fn of_changes_at_the_same_time_the_upper_comes_first() {
        let found = levels(&[0; 4], &[9, 5, 5, 0], &[&[-1, -1, 1, 1]]);
        assert_eq!((found.row, found.levels), (vec![3, 1, 2, 0], vec![vec![1, 0, 1, 0]]));
    }

    #[test]
    fn without_changes_there_is_no_level() {
        let found = levels(&[], &[], &[&[]]);
        assert_eq!(found, Levels { row: vec![], since: vec![], until: vec![], levels: vec![vec![]] });
    }

    #[test]
    fn the_ends_of_numbers_do_not_overflow() {
        assert_eq!(levels(&[0, 0], &[0, 1], &[&[i64::MAX, 1]]).levels, [[i64::MAX, i64::MIN]]);
    }

    /// Cause, first row, number and sum of gaps, and the time of the group; launches are not known.
    fn found(group: &[i64], start: &[i64], end: &[i64], id: &[u32]) -> Vec<(Cause, u32, u32, i64, i64)> {
        let Gaps { cause, length, whole } = gaps(group, (start, end), id, &vec![i64::MIN; start.len()], 7);
        let row = |at: usize| (cause[at], length.row[at], length.count[at], length.sum[at], whole[at]);
        (0..cause.len()).map(row).collect()
    }

    #[test]
    fn what_began_earlier_may_end_later() {
        let found = found(&[0; 3], &[0, 2, 15], &[10, 4, 16], &[0, 1, 2]);
        assert_eq!(found, [(Cause::Pause, 1, 2, 5, 16)]);
    }

    #[test]
    fn each_group_has_gaps_of_its_own_and_rows_may_come_in_any_order() {
        let found = found(&[8, 7, 7, 8], &[40, 12, 0, 20], &[41, 13, 10, 30], &[3, 2, 0, 1]);
        assert_eq!(found, [(Cause::Pause, 1, 1, 2, 13), (Cause::Other, 0, 1, 10, 21)]);
    }

    #[test]
    fn of_spans_that_begin_at_once_the_lower_id_comes_before() {
        assert_eq!(found(&[0, 0], &[3, 3], &[9, 6], &[5, 4]), [(Cause::Pause, 0, 1, 0, 6)]);
    }

    #[test]
    fn a_launch_after_all_had_ended_is_the_hosts_fault() {
        let launch = [i64::MIN, 10, 30, i64::MIN];
        let found = gaps(&[0; 4], (&[0, 20, 40, 60], &[10, 30, 50, 70]), &[0, 1, 2, 3], &launch, 10);
        assert_eq!((found.cause, found.length.count), (vec![Cause::Other], vec![3]));
        let launch = [i64::MIN, 11, 30, 50];
        let found = gaps(&[0; 4], (&[0, 20, 40, 60], &[10, 30, 50, 70]), &[0, 1, 2, 3], &launch, 11);
        assert_eq!((found.cause, found.length.row), (vec![Cause::Host, Cause::Pause], vec![1, 2]));
    }

    #[test]
    fn a_single_span_leaves_no_gap() {
        assert_eq!(gaps(&[0], (&[1], &[2]), &[0], &[0], 1), Gaps::default());
    }

    #[test]
    fn each_group_is_described_by_itself() {
        let found = describe(&[2, 1, 2, 2, 2, 2], &[10, 7, 0, 4, 2, 9]);
        assert_eq!((found.row, found.count), (vec![1, 0], vec![1, 5]));
        assert_eq!((found.sum, found.mean), (vec![7, 25], vec![7.0, 5.0]));
        assert_eq!(found.std, [None, Some(19.0_f64.sqrt())]);
        assert_eq!((found.min, found.max), (vec![7, 0], vec![7, 10]));
        assert_eq!(found.quartiles, [[7.0, 2.0], [7.0, 4.0], [7.0, 9.0]]);
    }

    #[test]
    fn quartiles_lie_between_values() {
        assert_eq!(describe(&[0; 4], &[0, 10, 20, 40]).quartiles, [[7.5], [15.0], [25.0]]);
    }

    #[test]
    fn without_values_there_is_nothing_to_describe() {
        assert_eq!(describe(&[], &[]), Described::default());
    }

    #[test]
    fn values_at_both_ends_do_not_overflow() {
        let found = describe(&[0; 3], &[i64::MAX, i64::MAX, i64::MIN]);
        assert_eq!((found.min, found.max), (vec![i64::MIN], vec![i64::MAX]));
        assert_eq!(found.quartiles[2], [i64::MAX as f64]);
    }
}
