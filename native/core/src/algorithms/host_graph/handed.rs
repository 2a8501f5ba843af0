//! Where the main thread stood still while another worked for it, as in a backward pass.

use super::Lanes;
use super::lanes::Lane;

/// A thread that stands still for less, in nanoseconds, did not hand over to another.
const HANDED_OVER_NS: i64 = 10_000;

/// What another thread did meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    pub start: i64,
    pub thread: u32,
    pub end: i64,
}

/// The runs of all other threads, by start and thread.
///
/// The other thread began after the main one had stopped, was done before it went on, and worked for half of the time
/// in between.
pub fn runs(lanes: &Lanes, main: u32) -> Vec<Run> {
    let of_main = lanes.of(main);
    let gaps: Vec<(i64, i64)> = busy(&of_main)
        .windows(2)
        .map(|pair| (of_main.end(pair[0]), of_main.start(pair[1])))
        .filter(|(from, until)| until.saturating_sub(*from) >= HANDED_OVER_NS)
        .collect();
    let others = (0..lanes.count()).filter(|&thread| thread != main && !gaps.is_empty());
    let mut found: Vec<Run> = others.flat_map(|thread| runs_of(&lanes.of(thread), &gaps)).collect();
    found.sort_unstable();
    found
}

/// Operators and calls that are in no other.
fn busy(lane: &Lane) -> Vec<u32> {
    lane.outermost(|row| lane.is_busy(row))
}

fn runs_of(lane: &Lane, gaps: &[(i64, i64)]) -> Vec<Run> {
    let busy = busy(lane);
    let gap_of = |row: u32| {
        let after = gaps.partition_point(|&(from, _)| from <= lane.start(row));
        after.checked_sub(1).filter(|&gap| lane.start(row) < gaps[gap].1)
    };
    let mut found = Vec::new();
    let mut before = None;
    for pieces in busy.chunk_by(|&one, &next| gap_of(one) == gap_of(next)) {
        let (first, last) = (pieces[0], pieces[pieces.len() - 1]);
        let was_done = before.replace(lane.end(last));
        let Some((from, until)) = gap_of(first).map(|gap| gaps[gap]) else { continue };
        let run = Run { start: lane.start(first), thread: lane.thread, end: lane.end(last) };
        let lasted = run.end.saturating_sub(run.start);
        let worked =
            pieces.iter().fold(0_i64, |sum, &row| sum.saturating_add(lane.end(row).saturating_sub(lane.start(row))));
        let is_within = was_done.unwrap_or(from) <= from && run.end <= until;
        if is_within && lasted >= HANDED_OVER_NS && worked >= lasted - worked {
            found.push(run);
        }
    }
    found
}
