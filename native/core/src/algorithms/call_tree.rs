//! Who called whom on each thread, and what each call brought about.

use std::cmp::Reverse;

use hashbrown::HashMap;

use crate::columns::arrow::NONE;
use crate::columns::grouping::Grouping;
use crate::columns::id_map::IdMap;

/// Calls as columns of equal length, in any order.
#[derive(Clone, Copy)]
pub struct Calls<'a> {
    /// Distinct numbers, those of calls that span the same time in the order in which they nest.
    pub id: &'a [u32],
    pub start: &'a [i64],
    pub end: &'a [i64],
    /// Which calls can enclose each other: numbers of threads, as `threads` gives them.
    pub thread: &'a [u32],
    /// Calls, if not 0, that end at the latest with the innermost other call in which they began.
    pub is_cut: Option<&'a [u8]>,
}

/// The calls of all threads as a forest; every column has a value per row of the calls.
pub struct CallTree {
    /// Row of the caller, or `NONE`.
    pub parent: Vec<u32>,
    /// Time in which none of the calls it made itself ran.
    pub own: Vec<i64>,
    /// When it ended: as given, or where it was cut.
    pub end: Vec<i64>,
    /// All rows, thread by thread, callers before what they called, by start.
    pub order: Vec<u32>,
}

impl Calls<'_> {
    /// Where a call is on its thread; sorts callers before what they called.
    ///
    /// A call that is cut follows the others of its time, since nothing is known of its end before.
    fn place(&self, row: u32) -> (i64, bool, Reverse<i64>, u32) {
        let is_cut = self.is_cut(row);
        let row = row as usize;
        (self.start[row], is_cut, Reverse(self.end[row]), self.id[row])
    }

    /// All rows, thread by thread, callers before what they called.
    fn in_order(&self) -> Vec<u32> {
        let threads = self.thread.iter().max().map_or(0, |&last| last as usize + 1);
        let (mut order, sizes) = Grouping::of_rows(threads, self.thread).into_parts();
        let mut begin = 0;
        for size in sizes {
            // Stable, because it makes use of the runs that are in order already: most threads are one.
            order[begin..begin + size].sort_by_key(|&row| self.place(row));
            begin += size;
        }
        order
    }

    fn is_cut(&self, row: u32) -> bool {
        self.is_cut.is_some_and(|is_cut| is_cut[row as usize] != 0)
    }
}

impl CallTree {
    /// The caller is the innermost call on the same thread that spans all of a call's time.
    ///
    /// Both may begin or end at once. Of calls that span the same time the one with the lower id is the caller, so a
    /// call without duration is called by what begins or ends at its time. Calls that overlap in part are siblings.
    pub fn new(calls: Calls) -> Self {
        let count = calls.id.len();
        let order = calls.in_order();
        let mut tree = Self { parent: vec![NONE; count], own: vec![0; count], end: calls.end.to_vec(), order };
        let mut open: Vec<Open> = Vec::new();
        let mut current = None;
        for &row in &tree.order {
            let (start, is_cut, Reverse(mut end), _) = calls.place(row);
            let thread = calls.thread[row as usize];
            if current != Some(thread) {
                open.clear();
                current = Some(thread);
            }
            if is_cut {
                end = cut(&mut open, start, end);
                tree.end[row as usize] = end;
            }
            // Whatever ends earlier than this call encloses neither it nor, more closely than it, any later one. So
            // the ends of open calls never rise from the outermost to the innermost, and each encloses the next.
            while open.last().is_some_and(|call| call.end < end) {
                open.pop();
            }
            let own = end.saturating_sub(start).max(0);
            if let Some(caller) = open.last_mut() {
                let parent = caller.row as usize;
                tree.parent[row as usize] = caller.row;
                let taken = end.saturating_sub(start.max(caller.reached)).max(0);
                tree.own[parent] = tree.own[parent].saturating_sub(taken);
                caller.reached = caller.reached.max(end);
            }
            tree.own[row as usize] = own;
            open.push(Open { row, end, reached: start, is_cut });
        }
        tree
    }

    /// Callers of each call: 0 for one that nothing encloses.
    pub fn depths(&self) -> Vec<u32> {
        let mut depths = vec![0; self.order.len()];
        for &row in &self.order {
            if let Some(caller) = self.caller(row) {
                depths[row as usize] = depths[caller] + 1;
            }
        }
        depths
    }

    /// Levels of calls below each: 0 for one that made none.
    pub fn heights(&self) -> Vec<u32> {
        let mut heights = vec![0; self.order.len()];
        self.upwards(&mut heights, |height: u32, below| height.max(below + 1));
        heights
    }

    /// What each call and all that it called brought about.
    ///
    /// Each piece belongs to a row, or to none of them; what two bring about together is `joined`, without any `nothing`.
    pub fn brought_about<T: Copy>(
        &self,
        pieces: impl Iterator<Item = (u32, T)>,
        nothing: T,
        joined: impl Fn(T, T) -> T,
    ) -> Vec<T> {
        let mut all = vec![nothing; self.order.len()];
        for (row, piece) in pieces {
            if let Some(so_far) = all.get_mut(row as usize) {
                *so_far = joined(*so_far, piece);
            }
        }
        self.upwards(&mut all, joined);
        all
    }

    /// Add what is below each call to what it has.
    fn upwards<T: Copy>(&self, values: &mut [T], joined: impl Fn(T, T) -> T) {
        for &row in self.order.iter().rev() {
            if let Some(caller) = self.caller(row) {
                values[caller] = joined(values[caller], values[row as usize]);
            }
        }
    }

    fn caller(&self, row: u32) -> Option<usize> {
        Some(self.parent[row as usize]).filter(|&caller| caller != NONE).map(|caller| caller as usize)
    }
}

/// A call that has not ended.
struct Open {
    row: u32,
    end: i64,
    /// Where the calls that it made so far end.
    reached: i64,
    is_cut: bool,
}

/// Where a call ends that does not outlast the innermost one, itself not cut, in which it began.
fn cut(open: &mut Vec<Open>, start: i64, end: i64) -> i64 {
    // What ended before encloses no later call either.
    while open.last().is_some_and(|call| call.end <= start) {
        open.pop();
    }
    let around = open.iter().rev().find(|call| !call.is_cut);
    around.map_or(end, |call| call.end.min(end))
}

/// The row of the call that launched each piece of work, by the calls' ids; `NONE` where it is not there.
pub fn rows_of_launches(id: &[u32], launches: &[u32]) -> Vec<u32> {
    let rows = rows_of(id);
    launches.iter().map(|&launch| rows.get(i64::from(launch))).collect()
}

/// Numbers of the threads, the same for the same process and thread.
pub fn threads(process: &[u32], thread: &[u32]) -> Vec<u32> {
    let mut numbers: HashMap<(u32, u32), u32, foldhash::fast::RandomState> = HashMap::default();
    let number = |both: (&u32, &u32)| {
        let next = numbers.len() as u32;
        *numbers.entry((*both.0, *both.1)).or_insert(next)
    };
    process.iter().zip(thread).map(number).collect()
}

/// For each call the id of the outermost chosen one that is around it or is itself, or `NONE`.
///
/// Callers that are not there, and such as call themselves in a circle, are none.
pub fn outermost(id: &[u32], parent: &[u32], is_chosen: &[bool]) -> Vec<u32> {
    let rows = rows_of(id);
    let mut top = vec![NONE; id.len()];
    let mut is_known = vec![false; id.len()];
    let mut upwards = Vec::new();
    for row in 0..id.len() {
        let mut next = Some(row);
        while let Some(row) = next.filter(|&row| !is_known[row]) {
            is_known[row] = true;
            upwards.push(row);
            next = row_of(&rows, parent[row]);
        }
        let mut found = next.map_or(NONE, |row| top[row]);
        while let Some(row) = upwards.pop() {
            if found == NONE && is_chosen[row] {
                found = id[row];
            }
            top[row] = found;
        }
    }
    top
}

/// The row of each id; of equal ids the last.
fn rows_of(id: &[u32]) -> IdMap {
    IdMap::of_rows(id.iter().map(|&id| i64::from(id)))
}

fn row_of(rows: &IdMap, id: u32) -> Option<usize> {
    Some(rows.get(i64::from(id))).filter(|&row| row != NONE).map(|row| row as usize)
}

/// For each of `count` places the sum of the values that belong there; those of other places are left out.
pub fn sums(place: &[u32], values: &[i64], count: usize) -> Vec<i64> {
    let mut sums = vec![0_i64; count];
    for (&place, &value) in place.iter().zip(values) {
        if let Some(sum) = sums.get_mut(place as usize) {
            *sum = sum.wrapping_add(value);
        }
    }
    sums
}

/// For each of `count` places the time that the spans which belong there cover; the spans are in order of their starts.
pub fn covered(place: &[u32], start: &[i64], end: &[i64], count: usize) -> Vec<i64> {
    let mut sums = vec![0_i64; count];
    let mut reached = vec![i64::MIN; count];
    for ((&place, &start), &end) in place.iter().zip(start).zip(end) {
        if let Some(reached) = reached.get_mut(place as usize) {
            let added = end.saturating_sub(start.max(*reached)).max(0);
            sums[place as usize] = sums[place as usize].saturating_add(added);
            *reached = end.max(*reached);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::{covered, outermost, sums, threads};
    use crate::columns::arrow::NONE;

    #[test]
    fn the_outermost_chosen_call_is_found_from_far_below() {
        // 3 calls 1 calls 0 calls 7; 2 is alone, the caller of 5 is not there.
        let (id, parent) = ([0, 1, 2, 3, 5, 7], [1, 3, NONE, NONE, 9, 0]);
        let chosen = [true, true, true, false, false, true];
        assert_eq!(outermost(&id, &parent, &chosen), [1, 1, 2, NONE, NONE, 1]);
    }

    #[test]
    fn ids_may_be_far_apart() {
        let (id, parent) = ([u32::MAX - 1, 4], [4, NONE]);
        assert_eq!(outermost(&id, &parent, &[true, true]), [4, 4]);
    }

    #[test]
    fn a_circle_of_callers_comes_to_an_end() {
        assert_eq!(outermost(&[0, 1], &[1, 0], &[true, false]), [0, NONE]);
    }

    #[test]
    fn a_deep_tree_takes_no_stack() {
        let id: Vec<u32> = (0..1_000_000).collect();
        let parent: Vec<u32> = id.iter().map(|id| id + 1).collect();
        let top = outermost(&id, &parent, &vec![true; id.len()]);
        assert!(top.iter().all(|&top| top == 999_999));
    }

    #[test]
    fn threads_of_different_processes_are_apart() {
        assert_eq!(threads(&[1, 1, 2, 1], &[1, 2, 1, 1]), [0, 1, 2, 0]);
    }

    #[test]
    fn what_spans_of_one_place_share_is_covered_once() {
        let (place, start, end) = ([0, 1, 0, 0, NONE, 0], [0, 1, 2, 4, 5, 20], [10, 3, 5, 12, 9, 21]);
        assert_eq!(covered(&place, &start, &end, 3), [13, 2, 0]);
    }

    #[test]
    fn sums_are_of_what_belongs_to_each_place() {
        assert_eq!(sums(&[2, 0, 2, NONE, 3], &[5, 1, 6, 9, 9], 3), [1, 0, 11]);
    }
}
