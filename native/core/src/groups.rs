//! What happens in several groups side by side: each group by itself, in order of time.

use crate::intervals::in_order;

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

/// What comes before each span in its group, by row.
#[derive(Debug, PartialEq, Eq)]
pub struct Before {
    /// How many groups have a lower number.
    pub rank: Vec<u32>,
    /// Where the spans end that begin before; none for the first.
    pub reached: Vec<Option<i64>>,
}

/// What comes before each span in its group: of spans that begin at the same time the one with the lower id.
pub fn before(group: &[i64], start: &[i64], end: &[i64], id: &[u32]) -> Before {
    let (rank, count) = ranks(group);
    let mut order: Vec<u32> = (0..start.len() as u32).collect();
    let place = |row: u32| (start[row as usize], id[row as usize]);
    if !order.is_sorted_by_key(|&row| place(row)) {
        order.sort_by_key(|&row| place(row));
    }
    let mut latest = vec![None; count];
    let mut reached = vec![None; start.len()];
    for row in order.into_iter().map(|row| row as usize) {
        let latest = &mut latest[rank[row] as usize];
        reached[row] = *latest;
        *latest = (*latest).max(Some(end[row]));
    }
    Before { rank, reached }
}

/// The rows in order of their groups, where those of each stay as they are, and how many each has.
fn grouped(group: &[i64], rows: Vec<u32>) -> (Vec<u32>, Vec<usize>) {
    let (rank, count) = ranks(group);
    let mut sizes = vec![0; count];
    for &rank in &rank {
        sizes[rank as usize] += 1;
    }
    if count < 2 {
        return (rows, sizes);
    }
    let mut next: Vec<usize> = [0].into_iter().chain(sizes.iter().copied()).take(count).collect();
    for group in 1..count {
        next[group] += next[group - 1];
    }
    let mut ordered = vec![0; rows.len()];
    for row in rows {
        let next = &mut next[rank[row as usize] as usize];
        ordered[*next] = row;
        *next += 1;
    }
    (ordered, sizes)
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
    use super::{Levels, before, levels};

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

    #[test]
    fn what_began_earlier_may_end_later() {
        assert_eq!(before(&[0; 3], &[0, 2, 15], &[10, 4, 16], &[0, 1, 2]).reached, [None, Some(10), Some(10)]);
    }

    #[test]
    fn each_group_is_reached_by_itself_and_rows_may_come_in_any_order() {
        let found = before(&[8, 7, 7, 8], &[40, 12, 0, 20], &[41, 13, 10, 30], &[3, 2, 0, 1]);
        assert_eq!(found.reached, [Some(30), Some(10), None, None]);
        assert_eq!(found.rank, [1, 0, 0, 1]);
    }

    #[test]
    fn of_spans_that_begin_at_once_the_lower_id_comes_before() {
        assert_eq!(before(&[0, 0], &[3, 3], &[9, 6], &[5, 4]).reached, [Some(6), None]);
    }
}
