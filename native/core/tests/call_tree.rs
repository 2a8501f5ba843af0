//! Drawings in, trees out: which call is whose, in any order of arrival.

use holotrace_core::algorithms::call_tree::{CallTree, Calls, rows_of_launches};
use holotrace_core::columns::NONE;
use proptest::prelude::*;

/// (id, start, end, thread)
type Call = (u32, i64, i64, u32);

fn tree(calls: &[Call]) -> CallTree {
    let id: Vec<u32> = calls.iter().map(|call| call.0).collect();
    let start: Vec<i64> = calls.iter().map(|call| call.1).collect();
    let end: Vec<i64> = calls.iter().map(|call| call.2).collect();
    let thread: Vec<u32> = calls.iter().map(|call| call.3).collect();
    CallTree::new(Calls { id: &id, start: &start, end: &end, thread: &thread, is_cut: None })
}

/// Id of each call, of its caller, depth and own time; by id.
fn rows(calls: &[Call]) -> Vec<(u32, Option<u32>, u32, i64)> {
    let tree = tree(calls);
    let depths = tree.depths();
    let caller = |row: usize| (tree.parent[row] != NONE).then(|| calls[tree.parent[row] as usize].0);
    let mut rows: Vec<_> =
        (0..calls.len()).map(|row| (calls[row].0, caller(row), depths[row], tree.own[row])).collect();
    rows.sort();
    rows
}

fn callers(spans: &[(i64, i64)]) -> Vec<Option<u32>> {
    let calls: Vec<Call> = spans.iter().enumerate().map(|(id, &(start, end))| (id as u32, start, end, 0)).collect();
    rows(&calls).into_iter().map(|(_, caller, _, _)| caller).collect()
}

#[test]
fn a_call_is_called_by_the_innermost_around_it() {
    let calls = [(0, 0, 100, 0), (1, 10, 50, 0), (2, 20, 30, 0), (3, 60, 90, 0)];
    assert_eq!(rows(&calls), [(0, None, 0, 30), (1, Some(0), 1, 30), (2, Some(1), 2, 10), (3, Some(0), 1, 30)]);
}

#[test]
fn what_another_thread_does_meanwhile_is_not_called() {
    assert_eq!(rows(&[(0, 0, 100, 0), (1, 10, 50, 1)]), [(0, None, 0, 100), (1, None, 0, 40)]);
}

#[test]
fn calls_that_touch_are_siblings() {
    assert_eq!(callers(&[(0, 100), (10, 50), (50, 90)]), [None, Some(0), Some(0)]);
}

#[test]
fn calls_that_overlap_in_part_are_siblings_and_the_last_to_begin_encloses_more_closely() {
    assert_eq!(callers(&[(0, 100), (10, 50), (40, 80), (42, 45)]), [None, Some(0), Some(0), Some(2)]);
    // A stack that pops what is on top at each end would have made 3 the child of 1.
    assert_eq!(callers(&[(0, 100), (10, 50), (40, 80), (60, 70)]), [None, Some(0), Some(0), Some(2)]);
}

#[test]
fn time_in_which_two_overlapping_calls_run_is_taken_off_once() {
    assert_eq!(rows(&[(0, 0, 100, 0), (1, 10, 50, 0), (2, 40, 80, 0)])[0], (0, None, 0, 30));
}

#[test]
fn a_call_without_duration_is_within_what_begins_or_ends_then() {
    assert_eq!(callers(&[(0, 10), (0, 0), (10, 10), (5, 5)]), [None, Some(0), Some(0), Some(0)]);
    // Between two that touch it is within the one that begins.
    assert_eq!(callers(&[(0, 10), (10, 20), (10, 10)]), [None, None, Some(1)]);
}

#[test]
fn of_calls_that_span_the_same_time_the_lower_id_is_the_caller() {
    assert_eq!(callers(&[(0, 10), (0, 10), (0, 10)]), [None, Some(0), Some(1)]);
    assert_eq!(callers(&[(5, 5), (5, 5)]), [None, Some(0)]);
}

#[test]
fn a_call_that_ends_before_its_start_has_no_time_and_harms_nobody() {
    assert_eq!(rows(&[(0, 0, 100, 0), (1, 50, 40, 0), (2, 60, 70, 0)])[0], (0, None, 0, 90));
}

#[test]
fn a_million_calls_one_in_the_other_need_no_stack() {
    let count = 1_000_000;
    let calls: Vec<Call> = (0..count).map(|i| (i as u32, i, 2 * count - i, 0)).collect();
    let tree = tree(&calls);
    assert_eq!(*tree.depths().last().unwrap(), count as u32 - 1);
    assert_eq!(tree.heights()[0], count as u32 - 1);
    let pieces = (0..count as u32).map(|row| (row, 2));
    assert_eq!(tree.brought_about(pieces, 0, i64::saturating_add)[0], 2 * count);
}

#[test]
fn work_belongs_to_the_call_that_launched_it_and_to_all_around() {
    let calls = [(10, 0, 100, 0), (11, 10, 50, 0), (12, 60, 90, 0), (13, 0, 9, 1)];
    let id: Vec<u32> = calls.iter().map(|call| call.0).collect();
    let rows = rows_of_launches(&id, &[11, 11, 12, 99]);
    assert_eq!(rows, [1, 1, 2, NONE]);
    let tree = tree(&calls);
    let lasted = || rows.iter().copied().zip([10_i64, 15, 10, 1]);
    assert_eq!(tree.brought_about(lasted(), 0, i64::saturating_add), [35, 25, 10, 0]);
    assert_eq!(tree.brought_about(lasted(), i64::MIN, i64::max), [15, 15, 10, i64::MIN]);
}

/// Calls that touch, coincide, overlap in part and have no duration, on two threads.
fn any_calls() -> impl Strategy<Value = Vec<Call>> {
    prop::collection::vec((0..30i64, 0..12i64, 0..2u32), 0..40).prop_map(|calls| {
        let with_id =
            |(id, (start, lasts, thread)): (usize, (i64, i64, u32))| (id as u32, start, start + lasts, thread);
        calls.into_iter().enumerate().map(with_id).collect()
    })
}

/// The caller by its definition: of all that enclose a call, the one that begins last, ends first, came last.
fn caller_by_definition(calls: &[Call], of: &Call) -> Option<u32> {
    let encloses = |call: &&Call| {
        let wider = (call.1, -call.2, call.0) < (of.1, -of.2, of.0);
        call.3 == of.3 && call.1 <= of.1 && call.2 >= of.2 && wider
    };
    calls.iter().filter(encloses).max_by_key(|call| (call.1, -call.2, call.0)).map(|call| call.0)
}

proptest! {
    #[test]
    fn every_caller_is_the_one_of_the_definition(calls in any_calls()) {
        for (id, caller, _, _) in rows(&calls) {
            prop_assert_eq!(caller, caller_by_definition(&calls, &calls[id as usize]));
        }
    }

    #[test]
    fn the_order_of_arrival_changes_nothing(calls in any_calls().prop_flat_map(|c| (Just(c.clone()), Just(c).prop_shuffle()))) {
        let (calls, shuffled) = calls;
        prop_assert_eq!(rows(&calls), rows(&shuffled));
    }

    #[test]
    fn depths_heights_and_own_times_are_those_of_the_definition(calls in any_calls()) {
        let tree = tree(&calls);
        let (depths, heights) = (tree.depths(), tree.heights());
        for row in 0..calls.len() {
            let parent = tree.parent[row];
            let depth = if parent == NONE { 0 } else { depths[parent as usize] + 1 };
            prop_assert_eq!(depths[row], depth);
            let below = (0..calls.len()).filter(|&call| tree.parent[call] == row as u32);
            prop_assert_eq!(heights[row], below.map(|call| heights[call] + 1).max().unwrap_or(0));
            let inside: Vec<i64> = (calls[row].1..calls[row].2)
                .filter(|&at| !(0..calls.len()).any(|c| tree.parent[c] == row as u32 && calls[c].1 <= at && at < calls[c].2))
                .collect();
            prop_assert_eq!(tree.own[row], inside.len() as i64);
        }
    }

    #[test]
    fn callers_come_before_what_they_called_and_it_lies_together(calls in any_calls()) {
        let tree = tree(&calls);
        let mut open: Vec<u32> = Vec::new();
        for &row in &tree.order {
            while open.last().is_some_and(|&caller| caller != tree.parent[row as usize]) {
                open.pop();
            }
            prop_assert_eq!(open.last().copied().unwrap_or(NONE), tree.parent[row as usize]);
            open.push(row);
        }
    }
}

#[test]
fn a_call_that_is_cut_ends_with_the_innermost_other_in_which_it_began() {
    // Operators from 0 and 10; launches that return late, one within another, one after all operators.
    let (start, end) = ([0, 10, 20, 22, 60, 100], [100, 30, 37, 35, 70, 110]);
    let calls =
        Calls { id: &[0, 1, 2, 3, 4, 5], start: &start, end: &end, thread: &[0; 6], is_cut: Some(&[0, 0, 1, 1, 1, 1]) };
    let tree = CallTree::new(calls);
    assert_eq!(tree.end, [100, 30, 30, 30, 70, 110]);
    assert_eq!(tree.parent, [NONE, 0, 1, 2, 0, NONE]);
    assert_eq!(tree.own, [70, 10, 2, 8, 10, 10]);
}

#[test]
fn a_call_that_is_cut_begins_within_an_operator_of_its_time() {
    let calls = Calls { id: &[0, 1], start: &[5, 5], end: &[20, 10], thread: &[0; 2], is_cut: Some(&[1, 0]) };
    let tree = CallTree::new(calls);
    assert_eq!((tree.parent, tree.end), (vec![1, NONE], vec![10, 10]));
}
