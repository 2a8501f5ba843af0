//! The order of rows by several columns.

use std::cmp::Ordering;

/// Rows in order of the first of `keys`, of equal ones in order of the next, and at last as they are; none if all are
/// in order as they are.
pub fn order(keys: &[&[i64]], count: usize) -> Option<Vec<u32>> {
    let compared = |one: u32, other: u32| {
        let mut each = keys.iter().map(|key| key[one as usize].cmp(&key[other as usize]));
        each.find(|found| found.is_ne()).unwrap_or(Ordering::Equal)
    };
    let mut rows: Vec<u32> = (0..count as u32).collect();
    if rows.is_sorted_by(|&one, &other| compared(one, other).is_le()) {
        return None;
    }
    // Stable, because it makes use of the runs that are in order already, of which a trace is made.
    rows.sort_by(|&one, &other| compared(one, other));
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn later_columns_decide_among_equals_and_rows_of_equals_stay_as_they_are() {
        assert_eq!(order(&[&[2, 1, 2, 1], &[5, 7, 4, 7]], 4), Some(vec![1, 3, 2, 0]));
    }

    #[test]
    fn rows_in_order_need_no_other() {
        assert_eq!(order(&[&[1, 1, 2], &[3, 3, 0]], 3), None);
        assert_eq!(order(&[], 2), None);
    }
}
