//! What waited for what, and the longest path through it.

use holotrace_core::algorithms::critical_path::{
    COUNTS, DEVICE_SYNC, Device, EVENT_SYNC, Graph, Host, Kind, LOCKS, PROMPT, QUEUE_SYNC, QUEUE_WAIT, Rules, WAITS,
    WORK,
};
use holotrace_core::columns::NONE;
use proptest::prelude::*;

/// (id, start, end, thread, role)
type HostRow = (u32, i64, i64, u32, u8);
/// (id, start, end, queue, call, role, after, holds)
type DeviceRow = (u32, i64, i64, u32, u32, u8, u32, u32);

const RULES: Rules = Rules { longest_kernel_delay: 1_000, has_all_launches: false };

fn graph(host: &[HostRow], device: &[DeviceRow], rules: Rules) -> Graph {
    macro_rules! column {
        ($rows:ident, $field:tt) => {
            &$rows.iter().map(|row| row.$field).collect::<Vec<_>>()
        };
    }
    Graph::new(
        Host {
            id: column!(host, 0),
            start: column!(host, 1),
            end: column!(host, 2),
            thread: column!(host, 3),
            role: column!(host, 4),
        },
        Device {
            id: column!(device, 0),
            start: column!(device, 1),
            end: column!(device, 2),
            device: &vec![0; device.len()],
            queue: column!(device, 3),
            call: column!(device, 4),
            role: column!(device, 5),
            after: column!(device, 6),
            holds: column!(device, 7),
        },
        rules,
    )
}

/// The edges of the longest path: kind, weight and event of each.
fn path(graph: &Graph) -> Vec<(Kind, i64, u32)> {
    let weights: Vec<i64> = graph.edges.iter().map(|edge| edge.weight.max(0)).collect();
    let edges = graph.longest_path(&weights).edges;
    edges.iter().map(|&edge| &graph.edges[edge as usize]).map(|edge| (edge.kind, edge.weight, edge.event)).collect()
}

fn between(graph: &Graph, kind: Kind) -> Vec<(u32, u32, i64)> {
    let event = |node: u32| graph.nodes[node as usize].event;
    let found = graph.edges.iter().filter(|edge| edge.kind == kind);
    found.map(|edge| (event(edge.from), event(edge.to), edge.weight)).collect()
}

#[test]
fn a_call_within_an_operator_takes_its_own_time() {
    let graph = graph(&[(1, 0, 100, 0, COUNTS), (2, 20, 50, 0, COUNTS)], &[], RULES);
    assert_eq!(path(&graph), [(Kind::Operator, 20, 1), (Kind::Operator, 30, 2), (Kind::Operator, 50, 1)]);
}

#[test]
fn time_between_calls_is_that_of_their_caller_and_outside_of_all_it_counts_for_nothing() {
    let host = [(1, 0, 100, 0, COUNTS), (2, 10, 20, 0, COUNTS), (3, 30, 40, 0, COUNTS), (4, 150, 160, 0, COUNTS)];
    let path = path(&graph(&host, &[], RULES));
    assert_eq!(path[2], (Kind::Operator, 10, 1));
    assert_eq!(path[5], (Kind::Dependency, 0, NONE));
}

#[test]
fn calls_that_overlap_in_part_end_when_they_end() {
    let graph = graph(&[(1, 0, 20, 0, COUNTS), (2, 10, 30, 0, COUNTS)], &[], RULES);
    let weights: Vec<i64> = path(&graph).iter().map(|edge| edge.1).collect();
    assert_eq!(weights, [10, 10, 10]);
}

#[test]
fn work_follows_its_launch_if_the_queue_was_free_then_and_other_work_if_not() {
    let host = [(1, 0, 5, 0, COUNTS), (2, 6, 9, 0, COUNTS), (3, 100, 105, 0, COUNTS)];
    let work = |id, start, end, call| (id, start, end, 7, call, WORK + PROMPT, NONE, NONE);
    let graph = graph(&host, &[work(11, 8, 40, 1), work(12, 42, 50, 2), work(13, 110, 120, 3)], RULES);
    assert_eq!(between(&graph, Kind::LaunchDelay), [(1, 11, 8), (3, 13, 10)]);
    assert_eq!(between(&graph, Kind::KernelDelay), [(11, 12, 2)]);
}

#[test]
fn a_long_gap_is_no_delay_between_kernels() {
    let host = [(1, 0, 5, 0, COUNTS), (2, 6, 9, 0, COUNTS)];
    let work = |id, start, end, call| (id, start, end, 7, call, WORK + PROMPT, NONE, NONE);
    let rows = [work(11, 8, 40, 1), work(12, 40 + RULES.longest_kernel_delay, 2_000, 2)];
    assert_eq!(between(&graph(&host, &rows, RULES), Kind::KernelDelay), []);
    let all = graph(&host, &rows, Rules { has_all_launches: true, ..RULES });
    assert_eq!(between(&all, Kind::LaunchDelay), [(1, 11, 8), (2, 12, 0)]);
}

#[test]
fn who_synchronises_waits_for_the_work_and_not_for_itself() {
    for (sync, queue, after) in [(QUEUE_SYNC, 7, NONE), (DEVICE_SYNC, NONE, NONE), (EVENT_SYNC, NONE, 11)] {
        let host = [(1, 0, 5, 0, COUNTS), (2, 6, 100, 0, COUNTS | WAITS), (3, 100, 103, 0, COUNTS)];
        let work = (11, 10, 90, 7, 1, WORK + PROMPT, NONE, NONE);
        let graph = graph(&host, &[work, (12, 6, 99, queue, 2, sync, after, NONE)], RULES);
        let found: Vec<_> = path(&graph).into_iter().map(|(kind, weight, _)| (kind, weight)).collect();
        let waited = [(Kind::LaunchDelay, 10), (Kind::Operator, 80), (Kind::Sync, 0)];
        assert_eq!(found, [waited.as_slice(), &[(Kind::Dependency, 0), (Kind::Operator, 3)]].concat());
    }
}

#[test]
fn work_waits_for_an_event_of_another_queue() {
    let host = [(1, 0, 2, 0, COUNTS), (2, 3, 4, 0, COUNTS), (3, 5, 6, 0, COUNTS)];
    let rows = [
        (11, 10, 90, 7, 1, WORK + PROMPT, NONE, NONE),
        (12, 4, 4, 8, 2, QUEUE_WAIT, 11, 13),
        (13, 92, 99, 8, 3, WORK + PROMPT, NONE, NONE),
    ];
    let graph = graph(&host, &rows, RULES);
    assert_eq!(between(&graph, Kind::Sync), [(11, 13, 0)]);
    assert_eq!(between(&graph, Kind::LaunchDelay), [(1, 11, 10)]);
}

#[test]
fn one_thread_has_the_lock_at_a_time() {
    let host = [(1, 0, 10, 0, COUNTS | LOCKS), (2, 5, 15, 1, COUNTS | LOCKS)];
    let graph = graph(&host, &[], RULES);
    assert_eq!(between(&graph, Kind::Dependency), [(2, 1, 0), (1, 2, 0)]);
    assert_eq!(between(&graph, Kind::Operator), [(1, 1, 10)]);
}

#[test]
fn what_was_found_first_wins_among_equals() {
    let host = [(1, 0, 10, 0, COUNTS), (2, 0, 10, 1, COUNTS)];
    assert_eq!(path(&graph(&host, &[], RULES)), [(Kind::Operator, 10, 1)]);
}

#[test]
fn a_circle_is_cut_at_its_first_event_and_what_happens_at_once_elsewhere_stays_in_order() {
    let host =
        [(5, 0, 100, 0, COUNTS), (1, 100, 200, 0, COUNTS), (2, 200, 210, 0, COUNTS | WAITS), (3, 220, 225, 0, COUNTS)];
    // By its clock the device did after the call that waited for it what was launched only then.
    let device = [(11, 230, 250, 7, 3, WORK + PROMPT, NONE, NONE), (12, 200, 210, 7, 2, EVENT_SYNC, 11, NONE)];
    let found = path(&graph(&host, &device, RULES));
    assert_eq!(found[..2], [(Kind::Operator, 100, 5), (Kind::Dependency, 0, NONE)]);
    assert_eq!(found[2], (Kind::Operator, 100, 1));
    assert_eq!(found.last(), Some(&(Kind::Operator, 20, 11)));
}

#[test]
fn nothing_has_an_empty_path() {
    assert_eq!(path(&graph(&[], &[], RULES)), []);
}

proptest! {
    #[test]
    fn any_events_have_a_path_and_none_is_longer_than_the_sum_of_weights(
        host in prop::collection::vec((0_i64..50, 0_i64..50, 0_u32..3, 0_u8..8), 0..30),
        device in prop::collection::vec(
            (0_i64..50, 0_i64..50, 0_u32..3, 0_u32..40, 0_u8..13, 0_u32..80, 0_u32..80), 0..30
        ),
    ) {
        let host: Vec<HostRow> = (0..).zip(host).map(|(id, (s, e, t, r))| (id, s, e, t, r)).collect();
        let queue = |queue| if queue == 0 { NONE } else { queue };
        let device: Vec<DeviceRow> =
            (40..).zip(device).map(|(id, (s, e, q, c, r, a, h))| (id, s, e, queue(q), c, r, a, h)).collect();
        let graph = graph(&host, &device, RULES);
        let weights: Vec<i64> = graph.edges.iter().map(|edge| edge.weight.max(0)).collect();
        let path = graph.longest_path(&weights);
        prop_assert_eq!(path.edges.is_empty(), weights.iter().all(|&weight| weight == 0));
        for pair in path.edges.windows(2) {
            prop_assert_eq!(graph.edges[pair[0] as usize].to, graph.edges[pair[1] as usize].from);
        }
        let longest: i64 = path.edges.iter().map(|&edge| weights[edge as usize]).sum();
        prop_assert!(weights.iter().all(|&weight| weight <= longest) || graph.edges.iter().any(|e| e.from > e.to));
    }
}
