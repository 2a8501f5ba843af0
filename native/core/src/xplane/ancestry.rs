//! Which host call an event goes back to: up through the spans around it and along the flows between threads.

use std::borrow::Cow;
use std::thread;

use arrow_array::RecordBatch;
use hashbrown::HashMap;

use crate::columns::arg_column::{ArgColumn, ArgValues};
use crate::columns::arrow::{NONE, batch, ids};
use crate::error::{Error, Result};
use crate::xplane::space::Space;
use crate::xplane::web::{Set, Web};

/// Threads an event's ancestry is followed through; a task that starts tasks of its own goes a few.
const MAX_HOPS: usize = 64;
const REGION_BEGIN: &[u8] = b"ThreadpoolListener::StartRegion";
const REGION_END: &[u8] = b"ThreadpoolListener::StopRegion";

/// The stats that flows and steps are made of; they must have been asked for, as numbers.
const PRODUCER: (&str, &str) = ("_pt", "_p");
const CONSUMER: (&str, &str) = ("_ct", "_c");
const ROOT: &str = "_r";
/// How long an event took by the clock of its device, in ps.
const MEASURED: &str = "device_duration_ps";

/// Where an event goes back to; `NONE` where nothing is known.
#[derive(Clone, Copy)]
struct Ancestry {
    /// The outermost of the marked spans around it, on any thread on the way.
    mark: u32,
    /// The call on the first thread before its own.
    first: u32,
    /// The call on the last thread.
    launch: u32,
    /// The span of a step around that call.
    step: u32,
}

impl Ancestry {
    const UNKNOWN: Ancestry = Ancestry { mark: NONE, first: NONE, launch: NONE, step: NONE };

    fn field(name: &str) -> Result<fn(&Ancestry) -> u32> {
        Ok(match name {
            "mark" => |ancestry| ancestry.mark,
            "first" => |ancestry| ancestry.first,
            "launch" => |ancestry| ancestry.launch,
            "root" => |ancestry| ancestry.step,
            _ => return Err(Error::unknown_column("ancestry", name)),
        })
    }
}

/// Where events go back to.
struct Ancestries<'a> {
    space: &'a Space,
    web: &'a Web,
    marks: Set,
    known: HashMap<u32, Ancestry, foldhash::fast::RandomState>,
}

/// The sources of flow events, or their destinations.
struct FlowEnds<'a> {
    rows: Cow<'a, [u32]>,
    types: Cow<'a, [i64]>,
    ids: Cow<'a, [i64]>,
}

impl<'a> FlowEnds<'a> {
    fn of(space: &'a Space, (kind, id): (&str, &str)) -> Result<Self> {
        let (types, ids) = (space.stat(kind)?, space.stat(id)?);
        let (ArgValues::Int(types_of), ArgValues::Int(ids_of)) = (&types.values, &ids.values) else {
            return Err(Error::NotRequested(format!("stats {kind:?} and {id:?} as numbers")));
        };
        let all = 0..space.len() as u32;
        let (typed, identified) = (types.within(all.clone()), ids.within(all));
        let rows = &ids.rows[identified.clone()];
        if types.rows[typed.clone()] == *rows {
            // As a rule an event has both: nothing need be copied.
            let (types, ids) = (&types_of[typed], &ids_of[identified]);
            return Ok(Self { rows: rows.into(), types: types.into(), ids: ids.into() });
        }
        let mut ends = Self { rows: Cow::default(), types: Cow::default(), ids: Cow::default() };
        for ((&row, id), typed) in rows.iter().zip(&ids_of[identified]).zip(types.positions(rows)) {
            if let Some(kind) = types_of.get(typed as usize) {
                ends.rows.to_mut().push(row);
                ends.types.to_mut().push(*kind);
                ends.ids.to_mut().push(*id);
            }
        }
        Ok(ends)
    }

    /// Type and id of the flow, and its time.
    fn flow(&self, space: &Space, at: u32) -> ((i64, i64), i64) {
        let at = at as usize;
        ((self.types[at], self.ids[at]), space.times_ps(self.rows[at]).0)
    }

    /// Positions by flow, time and row.
    fn order(&self, space: &Space) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.rows.len() as u32).collect();
        // Stable, because it makes use of the order in which flows mostly are.
        order.sort_by_key(|&at| self.flow(space, at));
        order
    }

    /// Where the flow that arrives at each comes from: the latest of `sources` that left before it got there.
    fn origins(&self, space: &Space, sources: &FlowEnds<'_>) -> Vec<u32> {
        let mut origins = vec![NONE; self.rows.len()];
        let left = sources.order(space);
        let mut behind = 0;
        for at in self.order(space) {
            let (flow, time) = self.flow(space, at);
            while left.get(behind).is_some_and(|&source| sources.flow(space, source) <= (flow, time)) {
                behind += 1;
            }
            let Some(&source) = behind.checked_sub(1).and_then(|latest| left.get(latest)) else { continue };
            let row = sources.rows[source as usize];
            if sources.flow(space, source).0 == flow && row != self.rows[at as usize] {
                origins[at as usize] = row;
            }
        }
        origins
    }
}

impl Space {
    /// For each event its ancestry: those of mark, first, launch and root that are asked for; `lines` are those of the
    /// host, `marks` spans to look out for.
    pub fn ancestries(&self, rows: &[u32], lines: &[u32], marks: &[u32], columns: &[String]) -> Result<RecordBatch> {
        let fields = columns.iter().map(|name| Ancestry::field(name)).collect::<Result<Vec<_>>>()?;
        let made;
        let web = match self.web.get() {
            Some(web) if web.lines == lines => web,
            Some(_) => {
                made = Web::of(self, lines)?;
                &made
            }
            None => {
                let web = Web::of(self, lines)?;
                self.web.get_or_init(|| web)
            }
        };
        let marks = Set::of(marks.iter().copied(), self.len());
        let mut ancestries = Ancestries { space: self, web, marks, known: HashMap::default() };
        let mut found = vec![Vec::with_capacity(rows.len()); fields.len()];
        for &row in rows {
            let ancestry = ancestries.of(row);
            fields.iter().zip(&mut found).for_each(|(field, values)| values.push(field(&ancestry)));
        }
        drop(ancestries);
        batch(columns.iter().cloned().zip(found.into_iter().map(|values| ids(values.into_iter()))).collect())
    }
}

/// Time covered by the spans directly inside each of `rows`, which are whole lines or parts of them in file order.
pub fn inner_ps(space: &Space, rows: &[u32]) -> Vec<i64> {
    let mut inner = vec![0; rows.len()];
    let measured = space.stat(MEASURED).ok();
    for (_, range) in space.by_line(rows) {
        let first = range.start;
        nest(space, &rows[range], |child, parent| {
            inner[first + parent] += lasted_ps(space, rows[first + child], measured);
        });
    }
    inner
}

/// How long an event took: by the clock of its device where that measured it, else by that of the host.
fn lasted_ps(space: &Space, row: u32, measured: Option<&ArgColumn>) -> i64 {
    let known = measured.and_then(|column| match &column.values {
        ArgValues::Int(values) => column.rows.binary_search(&row).ok().map(|at| values[at]),
        _ => None,
    });
    known.unwrap_or_else(|| space.span_ps(row))
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

impl Web {
    fn of(space: &Space, lines: &[u32]) -> Result<Self> {
        let count = space.len();
        let name = |wanted: &[u8]| space.names.iter().position(|known| known == wanted).map(|code| code as u32);
        let (begin, end) = (name(REGION_BEGIN), name(REGION_END));
        let (sources, destinations) = (FlowEnds::of(space, PRODUCER)?, FlowEnds::of(space, CONSUMER)?);
        let mut web = Web {
            lines: lines.to_vec(),
            roots: Set::of(space.stat(ROOT)?.rows.iter().copied(), count),
            parents: vec![NONE; count],
            reached: Set::of(destinations.rows.iter().copied(), count),
            origins: Vec::new(),
            regions: vec![Vec::new(); space.lines.len()],
            begin,
        };
        thread::scope(|scope| {
            // To order the flows takes as long as to nest the spans.
            let origins = scope.spawn(|| destinations.origins(space, &sources));
            for &line in lines {
                web.nest(space, line, [begin, end]);
            }
            web.origins = origins.join().map_err(|_| Error::Defect("flows could not be ordered".into()))?;
            Ok(web)
        })
    }

    /// Take in the spans of a line, and where its tasks begin and end.
    fn nest(&mut self, space: &Space, line: u32, marks: [Option<u32>; 2]) {
        let Some(range) = space.lines.get(line as usize).map(|line| line.first..line.end) else { return };
        let rows: Vec<u32> = range.collect();
        nest(space, &rows, |child, parent| self.parents[rows[child] as usize] = rows[parent]);
        let is_region = |&row: &u32| space.name(row).is_some_and(|name| marks.contains(&Some(name)));
        let mut regions: Vec<u32> = rows.into_iter().filter(is_region).collect();
        regions.sort_by_key(|&row| space.times_ps(row).0);
        self.regions[line as usize] = regions;
    }
}

impl Ancestries<'_> {
    fn of(&mut self, row: u32) -> Ancestry {
        let mut ancestry = Ancestry::UNKNOWN;
        let (flow, is_step) = self.climb(row, &mut ancestry);
        let Some(flow) = flow.filter(|_| !is_step) else { return ancestry };
        // What came by the same flow goes the same way from there on.
        let beyond = match self.known.get(&flow) {
            Some(known) => *known,
            None => {
                let beyond = self.beyond(flow);
                self.known.insert(flow, beyond);
                beyond
            }
        };
        Ancestry { mark: if beyond.mark == NONE { ancestry.mark } else { beyond.mark }, ..beyond }
    }

    /// The ancestry of whatever came by an flow.
    fn beyond(&self, mut flow: u32) -> Ancestry {
        let mut ancestry = Ancestry::UNKNOWN;
        for _ in 0..MAX_HOPS {
            let Some(source) = self.source(flow) else { break };
            if ancestry.first == NONE {
                ancestry.first = source;
            }
            ancestry.launch = source;
            match self.climb(source, &mut ancestry) {
                (Some(next), false) => flow = next,
                _ => break,
            }
        }
        // An instant says when; the span around it is the call.
        if ancestry.launch != NONE && self.space.span_ps(ancestry.launch) == 0 {
            let around = self.web.parents[ancestry.launch as usize];
            if around != NONE && !self.web.roots.has(around) {
                ancestry.launch = around;
            }
        }
        ancestry
    }

    /// Look through the spans around an event: the nearest flow that ends in one of them, or in the task they are in,
    /// and whether one is a step.
    fn climb(&self, row: u32, ancestry: &mut Ancestry) -> (Option<u32>, bool) {
        let mut flow = None;
        let mut at = row;
        while at != NONE {
            if self.marks.has(at) {
                ancestry.mark = at;
            }
            if self.web.roots.has(at) {
                ancestry.step = at;
                return (flow, true);
            }
            if flow.is_none() && self.web.reached.has(at) {
                flow = Some(at);
            }
            at = self.web.parents[at as usize];
        }
        (flow.or_else(|| self.region(row)), false)
    }

    /// The begin of the task that `row` is part of.
    fn region(&self, row: u32) -> Option<u32> {
        let regions = &self.web.regions[self.space.line_of(row) as usize];
        let start = self.space.times_ps(row).0;
        let begun = regions.partition_point(|&region| self.space.times_ps(region).0 <= start);
        let region = *regions.get(begun.checked_sub(1)?)?;
        (self.space.name(region) == self.web.begin && region != row).then_some(region)
    }

    /// Where the flow that ends in `row` comes from.
    fn source(&self, row: u32) -> Option<u32> {
        let origin = self.web.origins[self.web.reached.position(row)?];
        (origin != NONE).then_some(origin)
    }
}
