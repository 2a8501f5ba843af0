//! Rows by the ids that a file gives them.

use hashbrown::HashMap;

use crate::columns::arrow::NONE;

/// Ids spread over so many times their number, or fewer, are looked up in a list.
const DENSE: u64 = 8;
/// A list of so many places costs nothing, however few of them are taken.
const SMALL: u64 = 64;

/// A row for each id; `NONE` for those that have none.
pub enum IdMap {
    /// By the id, from the lowest on: profilers count, so that ids lie close together.
    Dense { first: i64, rows: Vec<u32> },
    /// Ids of another origin must not take all memory.
    Sparse(HashMap<i64, u32, foldhash::fast::RandomState>),
}

impl IdMap {
    /// A place for each of `ids`, without a row.
    pub fn for_ids(ids: impl Iterator<Item = i64>) -> Self {
        let (mut count, mut first, mut last) = (0_u64, i64::MAX, i64::MIN);
        for id in ids {
            (count, first, last) = (count + 1, first.min(id), last.max(id));
        }
        if count == 0 {
            return Self::Dense { first: 0, rows: Vec::new() };
        }
        // Half of all ids may lie between the first and the last.
        let span = last.abs_diff(first);
        if span >= count.saturating_mul(DENSE).saturating_add(SMALL) {
            return Self::Sparse(HashMap::default());
        }
        Self::Dense { first, rows: vec![NONE; span as usize + 1] }
    }

    /// The rows of ids in their order; of equal ids the last.
    pub fn of_rows(ids: impl Iterator<Item = i64> + Clone) -> Self {
        Self::of_pairs(ids.zip(0..))
    }

    /// The same of ids, each with its row.
    pub fn of_pairs(pairs: impl Iterator<Item = (i64, u32)> + Clone) -> Self {
        let mut map = Self::for_ids(pairs.clone().map(|(id, _)| id));
        for (id, row) in pairs {
            *map.place(id) = row;
        }
        map
    }

    /// Where the row is kept of an id, one of those that the map was made for.
    pub fn place(&mut self, id: i64) -> &mut u32 {
        match self {
            Self::Dense { first, rows } => &mut rows[id.abs_diff(*first) as usize],
            Self::Sparse(rows) => rows.entry(id).or_insert(NONE),
        }
    }

    /// The row of an id, or `NONE`.
    #[inline(always)]
    pub fn get(&self, id: i64) -> u32 {
        match self {
            // What lies before the first one is far behind the last.
            Self::Dense { first, rows } => {
                let place = usize::try_from(id.wrapping_sub(*first) as u64).ok();
                place.and_then(|place| rows.get(place)).copied().unwrap_or(NONE)
            }
            Self::Sparse(rows) => rows.get(&id).copied().unwrap_or(NONE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_its_last_row_wherever_it_lies() {
        for ids in [vec![7, 9, 7, 8], vec![i64::MIN, i64::MAX, i64::MIN, 0], vec![-3, -1, -3, -2]] {
            let map = IdMap::of_rows(ids.iter().copied());
            assert_eq!([ids[0], ids[1], ids[3]].map(|id| map.get(id)), [2, 1, 3], "{ids:?}");
            for id in [i64::MIN + 1, i64::MAX - 1, -4, 6, 10] {
                assert_eq!(map.get(id), NONE, "{id} of {ids:?}");
            }
        }
    }

    #[test]
    fn ids_far_apart_take_no_memory() {
        assert!(matches!(IdMap::of_rows([1, 1 << 40].into_iter()), IdMap::Sparse(_)));
        assert!(matches!(IdMap::of_rows([1, 60].into_iter()), IdMap::Dense { .. }));
    }

    #[test]
    fn without_ids_there_is_no_row() {
        assert_eq!(IdMap::of_rows([].into_iter()).get(0), NONE);
    }
}
