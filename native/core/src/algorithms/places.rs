//! Where something is among rows that are in order.

use crate::columns::NONE;

/// The row of each id, `NONE` where there is none; `known` rises.
pub fn rows_of(known: &[u32], ids: impl Iterator<Item = u32>) -> Vec<u32> {
    let row = |at: usize| u32::try_from(at).unwrap_or(NONE);
    ids.map(|id| known.binary_search(&id).map_or(NONE, row)).collect()
}

/// The span in which each time is: of those that began before it the last, if that has not ended; else `NONE`.
pub fn spans_at(start: &[i64], end: &[i64], times: impl Iterator<Item = Option<i64>>) -> Vec<u32> {
    let mut order: Vec<u32> = (0..).take(start.len()).collect();
    order.sort_by_key(|&row| start[row as usize]);
    let at = |time: i64| {
        let begun = order.partition_point(|&row| start[row as usize] <= time);
        let latest = order[..begun].last().copied();
        latest.filter(|&row| time < end[row as usize]).unwrap_or(NONE)
    };
    times.map(|time| time.map_or(NONE, at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_where_they_are() {
        assert_eq!(rows_of(&[2, 5, 9], [9, 2, 3, NONE].into_iter()), [2, 0, NONE, NONE]);
        assert_eq!(rows_of(&[], [1].into_iter()), [NONE]);
    }

    #[test]
    fn a_time_is_in_the_last_span_that_began_if_that_lasts() {
        let (start, end) = ([20, 0], [30, 10]);
        let times = [Some(-1), Some(0), Some(9), Some(10), Some(20), Some(30), None];
        assert_eq!(spans_at(&start, &end, times.into_iter()), [NONE, 1, 1, NONE, 0, NONE, NONE]);
    }
}
