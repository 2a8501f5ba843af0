//! Calls and windows in, shares out: what threads did in each.

use holotrace_core::algorithms::open_calls::{Calls, Found, Limits, Share, Windows, kinds, open_calls, traits};
use holotrace_core::columns::NONE;

const LIMITS: Limits = Limits { pause: 50, launch: 20, together: false };

/// (start, end, thread, traits, told, launches); each call has a name of its own.
type Call = (i64, i64, u32, u16, u8, u8);

fn found(calls: &[Call], windows: &[(i64, i64, u32)]) -> Found {
    let name: Vec<u32> = (0..calls.len() as u32).collect();
    let of = |pick: fn(&Call) -> i64| calls.iter().map(pick).collect::<Vec<_>>();
    let (start, end) = (of(|call| call.0), of(|call| call.1));
    let thread: Vec<u32> = calls.iter().map(|call| call.2).collect();
    let traits: Vec<u16> = calls.iter().map(|call| call.3).collect();
    let told: Vec<u8> = calls.iter().map(|call| call.4).collect();
    let launches: Vec<u8> = calls.iter().map(|call| call.5).collect();
    let calls = Calls {
        start: &start,
        end: &end,
        thread: &thread,
        name: &name,
        traits: &traits,
        told: &told,
        launches: &launches,
    };
    let (from, until): (Vec<i64>, Vec<i64>) = windows.iter().map(|window| (window.0, window.1)).unzip();
    let of: Vec<u32> = windows.iter().map(|window| window.2).collect();
    open_calls(calls, Windows { start: &from, end: &until, thread: &of }, 0, LIMITS)
}

fn rows(shares: &[Share]) -> Vec<(u32, u8, u32, i64)> {
    shares.iter().map(|share| (share.window, share.kind, share.call, share.time)).collect()
}

#[test]
fn a_window_belongs_to_what_was_innermost_in_it_and_its_shares_add_up() {
    let calls = [(0, 60, 0, traits::OPERATOR, 0, 1), (20, 30, 0, traits::RUNTIME | traits::WAITS, 0, 0)];
    let of = found(&calls, &[(10, 80, 0)]);
    assert_eq!(
        rows(&of.shares),
        [(0, kinds::LAUNCH, 0, 40), (0, kinds::UNRECORDED, NONE, 20), (0, kinds::SYNCHRONIZATION, 0, 10)]
    );
    assert_eq!(of.names[0], [0, NONE, NONE, NONE, 1]);
}

#[test]
fn the_outermost_name_that_tells_goes_before_what_is_below_it() {
    let calls = [(0, 90, 0, 0, 9, 0), (10, 80, 0, 0, 12, 0), (20, 70, 0, traits::RUNTIME, 0, 0)];
    assert_eq!(rows(&found(&calls, &[(0, 90, 0)]).shares), [(0, 9, 0, 90)]);
}

#[test]
fn a_thread_without_calls_is_told_by_the_main_one() {
    let calls = [(0, 100, 0, traits::FUNCTION | traits::OWN, 0, 0), (60, 100, 1, traits::OPERATOR, 0, 0)];
    let of = found(&calls, &[(0, 100, 1)]);
    assert_eq!(rows(&of.shares), [(0, kinds::FUNCTION, 0, 60), (0, kinds::LAUNCH, 1, 40)]);
}

#[test]
fn what_other_threads_did_longest_is_told_but_waiting() {
    let calls = [(0, 100, 2, traits::IDLE, 0, 0), (10, 40, 3, traits::OPERATOR, 0, 0), (50, 55, 4, 0, 0, 0)];
    assert_eq!(found(&calls, &[(0, 100, 0)]).others, [(1, 30)]);
}

#[test]
fn a_long_launch_waits_for_its_queue_and_long_python_is_a_function_unless_it_launches() {
    let calls =
        [(0, 30, 0, traits::RUNTIME, 0, 1), (30, 90, 0, traits::FUNCTION, 0, 0), (90, 150, 0, traits::FUNCTION, 0, 1)];
    let of = found(&calls, &[(0, 150, 0)]);
    assert_eq!(
        rows(&of.shares),
        [(0, kinds::PAUSE, 2, 60), (0, kinds::FUNCTION, 1, 60), (0, kinds::FULL_QUEUE, 0, 30)]
    );
}

#[test]
fn calls_that_overlap_in_part_lose_no_time() {
    let calls = [(0, 50, 0, traits::OPERATOR, 0, 0), (40, 90, 0, traits::OPERATOR, 0, 0)];
    let of = found(&calls, &[(0, 20, 0), (30, 100, 0)]);
    let sums =
        [0, 1].map(|at| of.shares.iter().filter(|share| share.window == at).map(|share| share.time).sum::<i64>());
    assert_eq!(sums, [20_i64, 70]);
}

#[test]
fn python_between_short_calls_is_told_apart_from_launching() {
    let calls = [(0, 30, 0, traits::FUNCTION, 0, 1), (40, 60, 0, traits::OPERATOR, 0, 1)];
    let of = found(&calls, &[(0, 60, 0)]);
    assert_eq!(
        rows(&of.shares),
        [(0, kinds::PYTHON, 0, 30), (0, kinds::LAUNCH, 1, 20), (0, kinds::UNRECORDED, NONE, 10)]
    );
}

const OWN: u16 = traits::FUNCTION | traits::OWN | traits::TASK;

#[test]
fn a_function_that_lasts_and_launches_nothing_is_told_though_it_consists_of_short_calls() {
    let short = |start: i64| (start, start + 10, 0, traits::FUNCTION, 0, 0);
    let calls = [(0, 60, 0, OWN, 0, 0), short(0), short(20), short(40)];
    assert_eq!(rows(&found(&calls, &[(0, 60, 0)]).shares), [(0, kinds::FUNCTION, 0, 60)]);
    // Of one that launches it is interpreting, and where it waits for another thread nothing is its own.
    let launching = [(0, 60, 0, OWN, 0, 1), short(0), short(20), short(40)];
    let of = found(&launching, &[(0, 60, 0)]);
    assert!(of.shares.iter().all(|share| share.kind == kinds::PYTHON));
    let awaiting = [(0, 60, 0, OWN, 0, 0), (1, 59, 0, traits::FUNCTION | traits::CONTAINER, 0, 0)];
    assert_eq!(rows(&found(&awaiting, &[(10, 50, 0)]).shares), [(0, kinds::PYTHON, 1, 40)]);
}

#[test]
fn short_calls_of_a_function_are_told_where_they_last_together() {
    let name = [0, 1, 1, 1];
    let call = |start: i64, end: i64, launches: u8| (start, end, launches);
    let of = |calls: &[(i64, i64, u8)]| {
        let (start, end) = (calls.iter().map(|one| one.0), calls.iter().map(|one| one.1));
        let (start, end): (Vec<i64>, Vec<i64>) = (start.collect(), end.collect());
        let launches: Vec<u8> = calls.iter().map(|one| one.2).collect();
        let calls = Calls {
            start: &start,
            end: &end,
            thread: &[0; 4],
            name: &name,
            traits: &[OWN; 4],
            told: &[0; 4],
            launches: &launches,
        };
        let found = open_calls(calls, Windows { start: &[0], end: &[90], thread: &[0] }, 0, LIMITS);
        found.shares.iter().map(|share| (share.kind, share.call, share.time)).collect::<Vec<_>>()
    };
    let long = of(&[call(0, 90, 1), call(0, 20, 0), call(30, 55, 0), call(60, 80, 0)]);
    assert_eq!(long, [(kinds::FUNCTION, 2, 65), (kinds::PYTHON, 0, 25)]);
    let short = of(&[call(0, 90, 1), call(0, 10, 0), call(30, 35, 0), call(60, 70, 0)]);
    assert!(short.iter().all(|share| share.0 == kinds::PYTHON));
}
