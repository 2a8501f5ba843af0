//! What waits for what, told from a few works and calls.

use super::*;

const USUAL: Usual =
    Usual { turn: 1_000, launch: 4_000, handed: 10_000, returned: 100_000, waited: 20_000, full: 2, full_times: 3 };
const NOTHING: Pairs = Pairs { after: &[], waits: &[] };

/// Id, queue, start, end, call and when that began.
type Work = (u32, u32, i64, i64, u32, i64);
/// Id, name, start, end and traits.
type Call = (u32, u32, i64, i64, u8);

/// Works, and calls of one thread.
#[derive(Default)]
struct Made {
    works: Vec<Work>,
    calls: Vec<Call>,
}

impl Made {
    fn graph(&self, held: Pairs, times: Pairs) -> DeviceGraph {
        let works = |of: fn(&Work) -> i64| self.works.iter().map(of).collect::<Vec<_>>();
        let (start, end, launch) = (works(|work| work.2), works(|work| work.3), works(|work| work.5));
        let id: Vec<u32> = self.works.iter().map(|work| work.0).collect();
        let queue: Vec<u32> = self.works.iter().map(|work| work.1).collect();
        let launch_id: Vec<u32> = self.works.iter().map(|work| work.4).collect();
        let calls = |of: fn(&Call) -> u32| self.calls.iter().map(of).collect::<Vec<_>>();
        let began: Vec<i64> = self.calls.iter().map(|call| call.2).collect();
        let ended: Vec<i64> = self.calls.iter().map(|call| call.3).collect();
        let traits: Vec<u8> = self.calls.iter().map(|call| call.4).collect();
        // Each call is the activity of its row, so that works count on from there.
        let activity: Vec<u32> = (0..self.calls.len() as u32).collect();
        let of_works = Works {
            id: &id,
            device: &vec![0; id.len()],
            queue: &queue,
            start: &start,
            end: &end,
            launch_id: &launch_id,
            launch: &launch,
        };
        let of_calls = Calls {
            id: &calls(|call| call.0),
            name: &calls(|call| call.1),
            thread: &vec![0; self.calls.len()],
            start: &began,
            end: &ended,
            activity: &activity,
            traits: &traits,
        };
        let of_host = HostEdges { to: &[], from: &[], is_inferred: &[] };
        DeviceGraph::new(of_works, of_calls, held, times, NOTHING, (self.calls.len() as u32, of_host), USUAL)
    }

    /// The point at which a work starts; one more is its end.
    fn work(&self, row: u32) -> u32 {
        2 * (self.calls.len() as u32 + row)
    }
}

fn edge(from: u32, to: u32, lag: i64, is_inferred: bool) -> Edge {
    Edge { to, from, lag, is_inferred }
}

#[test]
fn the_first_work_of_a_device_waits_for_what_the_recording_does_not_hold() {
    // The launch returned at 5 us; the device was busy with something else until 900 us.
    let works = vec![(0, 0, 900_000, 910_000, 0, 1_000), (1, 0, 990_000, 995_000, 1, 7_000)];
    let made = Made { works, calls: vec![(0, 0, 1_000, 5_000, 0), (1, 0, 7_000, 9_000, 0)] };
    let begins: Vec<_> = made.graph(NOTHING, NOTHING).edges.into_iter().filter(|edge| edge.lag > 100_000).collect();
    assert_eq!(begins, [edge(1, made.work(0), 895_000, true)]);
}

#[test]
fn work_waits_for_its_turn_as_long_as_turns_take() {
    // Launched long before, each takes its turn 2 us after the one before; the last was late for another reason.
    let works = [(0, 10_000), (12_000, 20_000), (22_000, 30_000), (50_000, 60_000)];
    let works = works.iter().zip(0..).map(|(&(start, end), id)| (id, 0, start, end, NONE, -50_000)).collect();
    let made = Made { works, ..Made::default() };
    let lags: Vec<i64> = made.graph(NOTHING, NOTHING).edges.iter().map(|edge| edge.lag).collect();
    assert_eq!(lags, [2_000, 2_000, 2_000]);
}

#[test]
fn work_waits_for_its_launch_as_long_as_a_free_queue_took() {
    let made = Made {
        works: vec![
            (10, 0, 5_000, 6_000, 1, 0),
            (11, 0, 105_000, 190_000, 2, 100_000),
            (12, 0, 191_000, 192_000, 3, 120_000),
        ],
        calls: vec![(1, 7, 0, 3_000, 0), (2, 7, 100_000, 103_000, 0), (3, 7, 120_000, 123_000, 0)],
    };
    let graph = made.graph(NOTHING, NOTHING);
    let launches: Vec<Edge> = graph.edges.iter().filter(|edge| edge.from < made.work(0)).copied().collect();
    // The third waited for its turn: of its launch it is known only how long that takes at its quickest.
    let expected =
        [(0, 0, 5_000), (2, 1, 5_000), (4, 2, 5_000)].map(|(from, row, lag)| edge(from, made.work(row), lag, false));
    assert_eq!(launches, expected);
}

#[test]
fn a_call_that_waits_takes_what_it_takes_without_waiting() {
    let made = Made {
        works: vec![(10, 0, 1_000, 50_000, 1, 0)],
        calls: vec![(1, 7, 0, 900, 0), (2, 8, 1_000, 53_000, traits::WAITS), (3, 8, 60_000, 61_000, traits::WAITS)],
    };
    let graph = made.graph(NOTHING, NOTHING);
    let returns = edge(made.work(0) + 1, 3, 3_000, true);
    assert!(graph.edges.contains(&returns), "{:?}", graph.edges);
    // The other call of the name found nothing to wait for.
    assert_eq!(graph.own, [(1, 1_000)]);
}

#[test]
fn what_was_recorded_is_not_inferred() {
    let made = Made {
        works: vec![(10, 0, 0, 40_000, NONE, -100_000), (11, 1, 45_000, 50_000, NONE, -90_000)],
        ..Made::default()
    };
    let waited = |is_inferred| edge(made.work(0) + 1, made.work(1), 5_000, is_inferred);
    let told = Pairs { after: &[10], waits: &[11] };
    assert_eq!(made.graph(NOTHING, told).edges, [waited(true)]);
    assert_eq!(made.graph(told, NOTHING).edges, [waited(false)]);
    assert_eq!(made.graph(told, told).edges, [waited(false)]);
    // It began before that was over, so it did not wait for it.
    assert_eq!(made.graph(Pairs { after: &[11], waits: &[10] }, NOTHING).edges, []);
}

#[test]
fn a_queue_that_is_made_to_wait_waits_for_the_last_mark_of_another() {
    let made = Made {
        works: vec![(10, 0, 5_000, 40_000, 1, 0), (11, 1, 60_000, 70_000, 5, 8_000)],
        calls: vec![
            (1, 7, 0, 1_000, 0),
            (2, 8, 2_000, 3_000, traits::RECORDS),
            (3, 9, 4_000, 5_000, traits::HOLDS),
            (5, 7, 8_000, 9_000, 0),
        ],
    };
    // 20 us after that was over: what else it waited for is not known.
    assert!(made.graph(NOTHING, NOTHING).edges.contains(&edge(made.work(0) + 1, made.work(1), 1_000, true)));
}

#[test]
fn launches_wait_for_room_in_a_full_queue() {
    // Two are under way at most: each later launch takes until the work two before it begins.
    let mut made = Made::default();
    for number in 0..8_i64 {
        let start = 10_000 + 100_000 * number;
        let room = 10_000 + 100_000 * (number - 2);
        let (called, returned) =
            if number < 3 { (number * 1_000, number * 1_000 + 900) } else { (room - 95_000, room + 500) };
        made.works.push((100 + number as u32, 0, start, start + 99_000, number as u32, called));
        made.calls.push((number as u32, 7, called, returned, 0));
    }
    let graph = made.graph(NOTHING, NOTHING);
    let of_room: Vec<Edge> = graph.edges.iter().filter(|edge| edge.is_inferred).copied().collect();
    let expected: Vec<Edge> = (3..8).map(|number| edge(made.work(number - 2), 2 * number + 1, 500, true)).collect();
    assert_eq!(of_room, expected);
    assert_eq!(graph.own.iter().map(|own| own.0).collect::<Vec<_>>(), [3, 4, 5, 6, 7]);
}

#[test]
fn a_median_of_two_is_between_them() {
    assert_eq!([median(&[]), median(&[1, 4]), median(&[1, 4, 9])], [None, Some(2.5), Some(4.0)]);
}

#[test]
fn edges_of_the_host_come_between_those_of_the_device_in_order() {
    let mut edges = vec![edge(5, 2, 1, false), edge(1, 4, 0, false), edge(3, 4, 7, true)];
    let of_host = HostEdges { to: &[1, 4, 4, 9], from: &[0, 1, 2, 3], is_inferred: &[false, true, false, true] };
    merge(&mut edges, of_host);
    let expected = [
        edge(0, 1, 0, false),
        edge(5, 2, 1, false),
        edge(1, 4, 0, false),
        edge(1, 4, 0, true),
        edge(2, 4, 0, false),
        edge(3, 4, 7, true),
        edge(3, 9, 0, true),
    ];
    assert_eq!(edges, expected);
}
