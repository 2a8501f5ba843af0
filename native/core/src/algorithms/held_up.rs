//! Work of devices that began when work of another queue had just ended, though its own queue had long been free.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use crate::algorithms::intervals::in_order;

/// Device events as columns of equal length, in any order.
#[derive(Clone, Copy)]
pub struct Works<'a> {
    pub id: &'a [u32],
    pub device: &'a [i64],
    pub stream: &'a [i64],
    pub start: &'a [i64],
    pub end: &'a [i64],
    /// When each was launched, and `i64::MIN` where that is not known.
    pub launch: &'a [i64],
}

/// In ns: what takes longer waited, and for what ended no longer ago than this.
#[derive(Clone, Copy)]
pub struct Limits {
    pub waited: i64,
    pub just_ended: i64,
}

/// Rows of what was held up and of what it waited for, by the start of the first.
///
/// What ended last before it began is what it waited for; of those that ended at once the one with the highest id. Work
/// whose device is not known (`i64::MIN`) has a queue of its own, and may wait for what ran on device 0.
pub fn held_up(works: Works, limits: Limits) -> Vec<(u32, u32)> {
    let mut held: BTreeMap<i64, Vec<Held>> = BTreeMap::new();
    for row in found_queue_free(works, limits.waited) {
        let held = held.entry(device(works, row)).or_default();
        held.push(Held { row, began: works.start[row as usize], after: None });
    }
    let place = |row: u32| (works.end[row as usize], works.id[row as usize]);
    for (row, (&start, &end)) in works.start.iter().zip(works.end).enumerate() {
        let row = row as u32;
        let Some(held) = held.get_mut(&device(works, row)).filter(|_| end > start) else { continue };
        let next = held.partition_point(|held| held.began < end);
        if let Some(next) = held.get_mut(next).filter(|next| next.after.is_none_or(|other| place(other) < place(row))) {
            next.after = Some(row);
        }
    }
    // What ended before one began ended before all later ones began.
    for of_device in held.values_mut() {
        let mut latest = None;
        for held in of_device {
            latest = held.after.or(latest);
            let is_near = |&row: &u32| held.began.saturating_sub(works.end[row as usize]) <= limits.just_ended;
            held.after = latest.filter(is_near);
        }
    }
    let mut found: Vec<_> = held.into_values().flatten().filter_map(|held| Some((held.row, held.after?))).collect();
    found.sort_by_key(|&(row, _)| (works.start[row as usize], works.id[row as usize]));
    found
}

struct Held {
    row: u32,
    began: i64,
    after: Option<u32>,
}

fn device(works: Works, row: u32) -> i64 {
    match works.device[row as usize] {
        i64::MIN => 0,
        known => known,
    }
}

/// Work that began long after it was launched and its queue was free, in order of starts.
fn found_queue_free(works: Works, waited: i64) -> Vec<u32> {
    let mut order = in_order(works.start);
    let place = |row: u32| (works.start[row as usize], works.id[row as usize]);
    if !order.is_sorted_by_key(|&row| place(row)) {
        order.sort_by_key(|&row| place(row));
    }
    // Until when what came before keeps each queue busy.
    let mut busy: HashMap<(i64, i64), i64, foldhash::fast::RandomState> = HashMap::default();
    order.retain(|&row| {
        let row = row as usize;
        let until = busy.entry((works.device[row], works.stream[row])).or_insert(i64::MIN);
        let free = works.launch[row].max(*until);
        *until = works.end[row].max(*until);
        works.launch[row] != i64::MIN && works.start[row].saturating_sub(free) > waited
    });
    order
}

#[cfg(test)]
mod tests {
    use super::{Limits, Works, held_up};

    const LIMITS: Limits = Limits { waited: 20, just_ended: 10 };

    #[test]
    fn work_waits_for_what_had_just_ended_on_its_device() {
        // Queue 2 is free, and its work was launched long before; on device 1 nothing ends then.
        let works = Works {
            id: &[4, 3, 9, 7],
            device: &[0, 0, 0, 1],
            stream: &[1, 2, 3, 1],
            start: &[0, 105, 50, 0],
            end: &[100, 120, 100, 103],
            launch: &[0, 5, 40, 0],
        };
        assert_eq!(held_up(works, LIMITS), [(1, 2)]);
    }

    #[test]
    fn several_wait_for_what_ended_last_before_each() {
        // What starts at 108 waits for what ended at 107, and what starts at 115 too, but it is too late for 100.
        let works = Works {
            id: &[1, 2, 3, 4, 5],
            device: &[0; 5],
            stream: &[1, 2, 3, 4, 5],
            start: &[0, 0, 105, 108, 115],
            end: &[100, 107, 200, 200, 200],
            launch: &[0; 5],
        };
        assert_eq!(held_up(works, LIMITS), [(2, 0), (3, 1), (4, 1)]);
    }

    #[test]
    fn work_that_was_launched_late_or_whose_queue_was_busy_waits_for_nothing() {
        let works = Works {
            id: &[1, 2, 3, 4],
            device: &[0, 0, 0, i64::MIN],
            stream: &[1, 2, 1, 1],
            start: &[0, 105, 110, 105],
            end: &[100, 120, 120, 106],
            launch: &[0, 90, 5, i64::MIN],
        };
        assert_eq!(held_up(works, LIMITS), []);
    }
}
