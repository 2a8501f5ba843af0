//! What goes on in equal stretches of time, for pictures that have no room for every span.
//!
//! Spans are half-open, may overlap and come in any order; what is outside of the stretches counts for none.

use crate::algorithms::intervals::merged;

/// Equal stretches of time: bin `i` begins at `origin + i * width`.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    pub origin: i64,
    pub width: i64,
    pub count: usize,
}

/// For each bin: how long at least one span is active, a span of the key that is active longest, and how many begin.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Bins {
    pub busy: Vec<i64>,
    /// The same for all bins of one key.
    pub row: Vec<u32>,
    pub begun: Vec<u32>,
}

/// Bins that follow each other without a hole, of one key and about as busy.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Runs {
    pub start: Vec<i64>,
    pub end: Vec<i64>,
    /// A span of the key.
    pub row: Vec<u32>,
    pub busy: Vec<i64>,
    pub begun: Vec<i64>,
}

/// What goes on in runs of bins; those that differ by less than one of so many `levels` are as busy.
pub fn runs(start: &[i64], end: &[i64], key: &[u32], grid: Grid, levels: i64) -> Runs {
    let found = bins(start, end, key, grid);
    let width = grid.width.max(1);
    let level = |busy: i64| (i128::from(busy) * i128::from(levels) / i128::from(width)).min(i128::from(levels - 1));
    let mut runs = Runs::default();
    let mut before = None;
    for (bin, (&busy, (&row, &begun))) in found.busy.iter().zip(found.row.iter().zip(&found.begun)).enumerate() {
        if busy <= 0 {
            continue;
        }
        let until = edge(grid.origin, width, bin + 1);
        match (before, runs.busy.last_mut(), runs.begun.last_mut(), runs.end.last_mut()) {
            (Some(same), Some(sum), Some(count), Some(last)) if same == (bin, row, level(busy)) => {
                *sum = sum.saturating_add(busy);
                *count += i64::from(begun);
                *last = until;
            }
            _ => {
                runs.start.push(edge(grid.origin, width, bin));
                runs.end.push(until);
                runs.row.push(row);
                runs.busy.push(busy);
                runs.begun.push(i64::from(begun));
            }
        }
        before = Some((bin + 1, row, level(busy)));
    }
    runs
}

/// What goes on in each bin of `grid`; of keys that are active equally long the one whose first span comes first in the
/// table counts.
fn bins(start: &[i64], end: &[i64], key: &[u32], grid: Grid) -> Bins {
    let Grid { origin, width, count } = grid;
    let (width, last) = (width.max(1), last(grid));
    let mut found = Bins { busy: vec![0; count], row: vec![0; count], begun: vec![0; count] };
    let mut order: Vec<usize> = (0..start.len()).filter(|&row| start[row] < last && end[row] > origin).collect();
    for &row in &order {
        if start[row] >= origin {
            found.begun[place(start[row], origin, width)] += 1;
        }
    }
    order.sort_unstable_by_key(|&row| start[row]);
    let span = |row: &usize| (start[*row].max(origin), end[*row].min(last));
    merged(order.iter().map(span), |from, until| {
        each(from, until, origin, width, |bin, covered| found.busy[bin] += covered);
    });
    // What was sorted by start stays so among spans of one key.
    order.sort_by_key(|&row| key[row]);
    let (mut longest, mut of_key, mut touched) = (vec![0_i64; count], vec![0_i64; count], Vec::new());
    for rows in order.chunk_by(|&a, &b| key[a] == key[b]) {
        merged(rows.iter().map(span), |from, until| {
            each(from, until, origin, width, |bin, covered| {
                if of_key[bin] == 0 {
                    touched.push(bin);
                }
                of_key[bin] += covered;
            });
        });
        for bin in touched.drain(..) {
            let row = u32::try_from(rows[0]).unwrap_or(u32::MAX);
            // Keys are numbers of names, which are not the same in each process; rows are.
            if of_key[bin] > longest[bin] || of_key[bin] == longest[bin] && row < found.row[bin] {
                longest[bin] = of_key[bin];
                found.row[bin] = row;
            }
            of_key[bin] = 0;
        }
    }
    found
}

/// Where the last bin ends, or the last nanosecond that there is.
fn last(grid: Grid) -> i64 {
    edge(grid.origin, grid.width.max(1), grid.count)
}

/// Where a bin begins.
fn edge(origin: i64, width: i64, bin: usize) -> i64 {
    let time = i128::from(origin) + i128::from(width) * bin as i128;
    i64::try_from(time).unwrap_or(i64::MAX)
}

fn place(time: i64, origin: i64, width: i64) -> usize {
    usize::try_from(time.abs_diff(origin) / width.unsigned_abs()).unwrap_or(usize::MAX)
}

/// Calls `add` with each bin that a span touches and how much of it that covers.
fn each(from: i64, until: i64, origin: i64, width: i64, mut add: impl FnMut(usize, i64)) {
    let mut from = from;
    while from < until {
        let bin = place(from, origin, width);
        let edge = edge(origin, width, bin + 1).min(until);
        add(bin, edge.saturating_sub(from));
        from = edge;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: Grid = Grid { origin: 100, width: 10, count: 3 };

    #[test]
    fn a_span_over_an_edge_counts_in_both_bins_and_begins_in_one() {
        let found = bins(&[105], &[113], &[7], GRID);
        assert_eq!(found, Bins { busy: vec![5, 3, 0], row: vec![0, 0, 0], begun: vec![1, 0, 0] });
    }

    #[test]
    fn spans_of_one_time_count_once_and_the_longest_key_names_the_bin() {
        let found = bins(&[100, 100, 106, 120], &[104, 104, 110, 130], &[1, 1, 2, 3], GRID);
        assert_eq!(found.busy, [8, 0, 10]);
        assert_eq!(found.row, [0, 0, 3]);
        let found = bins(&[100, 103, 105], &[103, 105, 110], &[2, 1, 1], GRID);
        assert_eq!(found.row[0], 1);
    }

    #[test]
    fn of_keys_that_are_active_equally_long_the_first_in_the_table_names_the_bin_whatever_its_number() {
        for keys in [[1, 2], [2, 1]] {
            assert_eq!(bins(&[104, 100], &[108, 104], &keys, GRID).row[0], 0);
        }
    }

    #[test]
    fn bins_without_a_hole_of_one_key_and_about_as_busy_are_one_run() {
        let grid = Grid { origin: 0, width: 10, count: 8 };
        // Two full bins of one key, one that is half as busy, one of another key, and after a hole the first again.
        let found = runs(&[0, 5, 20, 30, 50], &[5, 20, 25, 40, 60], &[7, 7, 7, 3, 7], grid, 16);
        assert_eq!(found.start, [0, 20, 30, 50]);
        assert_eq!(found.end, [20, 30, 40, 60]);
        assert_eq!(found.row, [0, 0, 3, 0]);
        assert_eq!(found.busy, [20, 5, 10, 10]);
        assert_eq!(found.begun, [2, 1, 1, 1]);
        assert_eq!(runs(&[], &[], &[], grid, 16), Runs::default());
    }

    #[test]
    fn what_is_outside_counts_for_none() {
        let found = bins(&[0, 130, 50], &[100, 140, 200], &[1, 2, 3], GRID);
        assert_eq!(found, Bins { busy: vec![10; 3], row: vec![2; 3], begun: vec![0; 3] });
    }

    #[test]
    fn times_at_the_ends_of_their_range_do_no_harm() {
        let grid = Grid { origin: i64::MIN, width: i64::MAX, count: 3 };
        let found = bins(&[i64::MIN, 5], &[i64::MAX, 4], &[1, 2], grid);
        assert_eq!(found.busy, [i64::MAX, i64::MAX, 1]);
        let none = bins(&[1], &[2], &[3], Grid { origin: 0, width: 0, count: 0 });
        assert_eq!(none, Bins::default());
    }
}
