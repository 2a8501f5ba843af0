//! Which host call an event goes back to: up through the spans around it and along the arrows between threads.

use std::collections::{HashMap, HashSet};

use arrow_array::RecordBatch;

use crate::error::{Error, Result};
use crate::space::Space;
use crate::table::{ArgColumn, ArgValues, NONE, batch, ids};

/// Threads an event's cause is followed through; a task that starts tasks of its own goes a few.
const MAX_HOPS: usize = 64;
const REGION_BEGIN: &[u8] = b"ThreadpoolListener::StartRegion";
const REGION_END: &[u8] = b"ThreadpoolListener::StopRegion";

/// The stats that arrows and steps are made of; they must have been asked for, as numbers.
const PRODUCER: (&str, &str) = ("_pt", "_p");
const CONSUMER: (&str, &str) = ("_ct", "_c");
const ROOT: &str = "_r";

/// Where an event goes back to; `NONE` where nothing is known.
#[derive(Clone, Copy)]
struct Cause {
    /// The outermost of the marked spans around it, on any thread on the way.
    mark: u32,
    /// The call on the first thread before its own.
    first: u32,
    /// The call on the last thread.
    launch: u32,
    /// The span of a step around that call.
    step: u32,
}

impl Cause {
    const UNKNOWN: Cause = Cause { mark: NONE, first: NONE, launch: NONE, step: NONE };
}

/// How the host's events hang together.
struct Causes<'a> {
    space: &'a Space,
    marks: HashSet<u32>,
    roots: HashSet<u32>,
    /// The innermost span around each event on its own line.
    parents: Vec<u32>,
    /// Type and id of an arrow's tail, where it begins, the event it leaves; sorted.
    producers: Vec<(i64, i64, i64, u32)>,
    /// Begins (true) and ends of tasks on each line, by time.
    regions: Vec<Vec<(i64, bool, u32)>>,
    known: HashMap<u32, Cause>,
}

impl Space {
    /// For each event its cause; `lines` are those of the host, `marks` spans to look out for.
    pub fn causes(&self, rows: &[u32], lines: &[u32], marks: Vec<u32>) -> Result<RecordBatch> {
        let mut causes = Causes::new(self, lines, marks)?;
        let found: Vec<Cause> = rows.iter().map(|&row| causes.of(row)).collect();
        batch(vec![
            ("event_id".into(), ids(rows.iter().copied())),
            ("mark".into(), ids(found.iter().map(|cause| cause.mark))),
            ("first".into(), ids(found.iter().map(|cause| cause.first))),
            ("launch".into(), ids(found.iter().map(|cause| cause.launch))),
            ("root".into(), ids(found.iter().map(|cause| cause.step))),
        ])
    }

    /// Time covered by the spans directly inside each of `rows`, which are whole lines or parts of them in file order.
    pub fn inner_ps(&self, rows: &[u32]) -> Vec<i64> {
        let mut inner = vec![0; rows.len()];
        for (_, range) in self.by_line(rows) {
            let first = range.start;
            nest(self, &rows[range], |child, parent| inner[first + parent] += self.span_ps(rows[first + child]));
        }
        inner
    }
}

/// Call `found(child, parent)` with the positions of each of `rows` and of the shortest span among them around it.
fn nest(space: &Space, rows: &[u32], mut found: impl FnMut(usize, usize)) {
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    order.sort_by_key(|&at| {
        let (start, end) = space.times_ps(rows[at as usize]);
        (start, std::cmp::Reverse(end), at)
    });
    let mut open: Vec<(i64, usize)> = Vec::new();
    for at in order {
        let at = at as usize;
        let (start, end) = space.times_ps(rows[at]);
        // What has ended, or ends in between, is around neither this one nor anything that begins later in it.
        while open.last().is_some_and(|&(until, _)| until < end || until <= start) {
            open.pop();
        }
        if let Some(&(_, parent)) = open.last() {
            found(at, parent);
        }
        if end > start {
            open.push((end, at));
        }
    }
}

impl<'a> Causes<'a> {
    fn new(space: &'a Space, lines: &[u32], marks: Vec<u32>) -> Result<Self> {
        let mut causes = Causes {
            space,
            marks: marks.into_iter().collect(),
            roots: space.stat(ROOT)?.rows.iter().copied().filter(|&row| (row as usize) < space.len()).collect(),
            parents: vec![NONE; space.len()],
            producers: Vec::new(),
            regions: vec![Vec::new(); space.lines.len()],
            known: HashMap::new(),
        };
        let names = [REGION_BEGIN, REGION_END].map(|name| space.names.iter().position(|known| known == name));
        for &line in lines {
            let Some(range) = space.lines.get(line as usize).map(|line| line.first..line.end) else { continue };
            let rows: Vec<u32> = range.collect();
            nest(space, &rows, |child, parent| causes.parents[rows[child] as usize] = rows[parent]);
            let regions = rows.iter().filter_map(|&row| {
                let name = Some(space.name(row)? as usize);
                let kind = names.iter().position(|known| known.is_some() && *known == name)?;
                Some((space.times_ps(row).0, kind == 0, row))
            });
            let mut regions: Vec<_> = regions.collect();
            regions.sort_by_key(|&(start, ..)| start);
            causes.regions[line as usize] = regions;
        }
        let (types, ids) = (space.stat(PRODUCER.0)?, space.stat(PRODUCER.1)?);
        for &row in ids.rows.iter().take_while(|&&row| (row as usize) < space.len()) {
            if let (Some(kind), Some(id)) = (whole(types, row)?, whole(ids, row)?) {
                causes.producers.push((kind, id, space.times_ps(row).0, row));
            }
        }
        causes.producers.sort_unstable();
        Ok(causes)
    }

    fn of(&mut self, row: u32) -> Cause {
        let mut cause = Cause::UNKNOWN;
        let (arrow, is_step) = self.climb(row, &mut cause);
        let Some(arrow) = arrow.filter(|_| !is_step) else { return cause };
        // What came by the same arrow goes the same way from there on.
        let beyond = match self.known.get(&arrow) {
            Some(known) => *known,
            None => {
                let beyond = self.beyond(arrow);
                self.known.insert(arrow, beyond);
                beyond
            }
        };
        Cause { mark: if beyond.mark == NONE { cause.mark } else { beyond.mark }, ..beyond }
    }

    /// The cause of whatever came by an arrow.
    fn beyond(&self, mut arrow: u32) -> Cause {
        let mut cause = Cause::UNKNOWN;
        for _ in 0..MAX_HOPS {
            let Some(tail) = self.tail(arrow) else { break };
            if cause.first == NONE {
                cause.first = tail;
            }
            cause.launch = tail;
            match self.climb(tail, &mut cause) {
                (Some(next), false) => arrow = next,
                _ => break,
            }
        }
        // An instant says when; the span around it is the call.
        if cause.launch != NONE && self.space.span_ps(cause.launch) == 0 {
            let around = self.parents[cause.launch as usize];
            if around != NONE && !self.roots.contains(&around) {
                cause.launch = around;
            }
        }
        cause
    }

    /// Look through the spans around an event: the nearest arrow that ends in one of them, or in the task they are in,
    /// and whether one is a step.
    fn climb(&self, row: u32, cause: &mut Cause) -> (Option<u32>, bool) {
        let mut arrow = None;
        let mut at = row;
        while at != NONE {
            if self.marks.contains(&at) {
                cause.mark = at;
            }
            if self.roots.contains(&at) {
                cause.step = at;
                return (arrow, true);
            }
            if arrow.is_none() && self.head(at).is_some() {
                arrow = Some(at);
            }
            at = self.parents[at as usize];
        }
        (arrow.or_else(|| self.region(row)), false)
    }

    /// The begin of the task that `row` is part of.
    fn region(&self, row: u32) -> Option<u32> {
        let regions = &self.regions[self.space.line_of(row) as usize];
        let start = self.space.times_ps(row).0;
        let begun = regions.partition_point(|&(begin, ..)| begin <= start);
        let (_, is_begin, region) = *regions.get(begun.checked_sub(1)?)?;
        (is_begin && region != row).then_some(region)
    }

    /// Type and id of the arrow that ends in an event.
    fn head(&self, row: u32) -> Option<(i64, i64)> {
        let (types, ids) = (self.space.stat(CONSUMER.0).ok()?, self.space.stat(CONSUMER.1).ok()?);
        Some((whole(types, row).ok()??, whole(ids, row).ok()??))
    }

    /// Where the arrow that ends in `row` comes from: the latest that left before it got there.
    fn tail(&self, row: u32) -> Option<u32> {
        let (kind, id) = self.head(row)?;
        let start = self.space.times_ps(row).0;
        let behind = self.producers.partition_point(|&producer| producer <= (kind, id, start, NONE));
        let (of_kind, of_id, _, tail) = *self.producers.get(behind.checked_sub(1)?)?;
        (of_kind == kind && of_id == id && tail != row).then_some(tail)
    }
}

/// The number an event has in a column, if any.
fn whole(column: &ArgColumn, row: u32) -> Result<Option<i64>> {
    let ArgValues::Int(values) = &column.values else {
        return Err(Error::Unknown(format!("stat {:?}: it was not asked for as a number", column.key)));
    };
    Ok(column.rows.binary_search(&row).ok().map(|at| values[at]))
}
