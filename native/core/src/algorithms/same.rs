//! Which activities are the same one in other places: those that do the same as often as it was done before.

use hashbrown::HashMap;

use crate::algorithms::intervals::in_order;

type Map<K> = HashMap<K, u32, foldhash::fast::RandomState>;

/// For each activity a number that it shares with those of other places that do the same and are the n-th to do so.
///
/// A place is a step of a rank, say; `what` tells what is done, `start` in which order.
pub fn numbered(place: &[u32], what: &[u64], start: &[i64]) -> Vec<u32> {
    let mut counts: Map<(u32, u64)> = Map::default();
    let mut known: Map<(u64, u32)> = Map::default();
    let mut same = vec![0; start.len()];
    for row in in_order(start) {
        let at = row as usize;
        let count = counts.entry((place[at], what[at])).or_default();
        let next = known.len() as u32;
        same[at] = *known.entry((what[at], *count)).or_insert(next);
        *count += 1;
    }
    same
}

#[cfg(test)]
mod tests {
    use super::numbered;

    #[test]
    fn the_nth_of_a_place_is_the_nth_of_another() {
        assert_eq!(numbered(&[0, 0, 1, 1, 1], &[7, 7, 7, 9, 7], &[5, 1, 2, 3, 4]), [2, 0, 0, 1, 2]);
    }
}
