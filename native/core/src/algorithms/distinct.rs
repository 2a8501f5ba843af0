//! What is there, once each.

use hashbrown::HashSet;

use crate::columns::arrow::NONE;

/// Numbers spread over so many times the count of rows, or fewer, are looked up in a list.
const DENSE: usize = 4;
/// A list of so many places costs nothing, however few of them are taken.
const SMALL: usize = 4096;

/// The first row of each value, in order.
pub fn first_rows(values: &[u32]) -> Vec<u32> {
    let most = values.iter().copied().filter(|&value| value != NONE).max().map_or(0, |most| most as usize + 1);
    if most > values.len().saturating_mul(DENSE).saturating_add(SMALL) {
        let mut known: HashSet<u32, foldhash::fast::RandomState> = HashSet::default();
        return rows_where(values.iter().copied(), |&value| known.insert(value));
    }
    // The last place is that of none.
    let mut is_known = vec![false; most + 1];
    rows_where(values.iter().copied(), |&value| !std::mem::replace(&mut is_known[(value as usize).min(most)], true))
}

/// The first row of each pair, in order.
pub fn first_pairs(one: &[u32], other: &[u32]) -> Vec<u32> {
    let mut known: HashSet<u64, foldhash::fast::RandomState> = HashSet::default();
    let mut last = None;
    rows_where(one.iter().zip(other), |&(&one, &other)| {
        let pair = u64::from(one) << 32 | u64::from(other);
        last.replace(pair) != Some(pair) && known.insert(pair)
    })
}

fn rows_where<T>(values: impl Iterator<Item = T>, mut is_first: impl FnMut(&T) -> bool) -> Vec<u32> {
    (0..).zip(values).filter_map(|(row, value)| is_first(&value).then_some(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_there_once() {
        for far in [9, 3_000_000_000] {
            assert_eq!(first_rows(&[7, 7, NONE, far, 7, NONE, far]), [0, 2, 3]);
        }
        assert_eq!(first_rows(&[]), []);
    }

    #[test]
    fn each_pair_is_there_once() {
        assert_eq!(first_pairs(&[7, 7, 7, 8, 7], &[1, 1, NONE, 1, 1]), [0, 2, 3]);
    }
}
