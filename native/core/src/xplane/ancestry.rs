//! Which host call an event goes back to: up through the spans around it and along the flows between threads.

use std::ops::Range;
use std::thread;

use arrow_array::RecordBatch;
use hashbrown::HashMap;

use crate::columns::arg_column::{ArgValues, ArgView};
use crate::columns::arrow::{NONE, batch, ids};
use crate::error::{Error, Result};
use crate::xplane::flows::{CONSUMER, FlowEnds, PRODUCER};
use crate::xplane::in_parts::in_parts;
use crate::xplane::space::Space;
use crate::xplane::web::{Set, Web};

/// Threads an event's ancestry is followed through; a task that starts tasks of its own goes a few.
const MAX_HOPS: usize = 64;
const REGION_BEGIN: &[u8] = b"ThreadpoolListener::StartRegion";
const REGION_END: &[u8] = b"ThreadpoolListener::StopRegion";

/// The stat of steps; it must have been asked for, as a number.
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
    marks: &'a Set,
    known: HashMap<u32, Ancestry, foldhash::fast::RandomState>,
    /// The span that was last climbed from: events that follow each other are mostly in the same.
    latest: (u32, Climb),
    /// The line that a task was last looked for on, its rows, and how many of its begins and ends of tasks came before.
    line: usize,
    stretch: Range<u32>,
    begun: usize,
}

/// What is found on the way up through the spans around an event; `NONE` where it is not.
#[derive(Clone, Copy)]
struct Climb {
    /// The outermost of the marked spans.
    mark: u32,
    /// The nearest in which a flow ends.
    flow: u32,
    /// The span of a step, where the way ends.
    step: u32,
}

impl Climb {
    const NOWHERE: Climb = Climb { mark: NONE, flow: NONE, step: NONE };
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
        let found = in_parts(rows, |rows| {
            let mut ancestries = Ancestries::new(self, web, &marks);
            rows.iter().map(|&row| ancestries.of(row)).collect()
        })?;
        let fields = fields.into_iter().map(|field| ids(found.iter().map(field)));
        batch(columns.iter().cloned().zip(fields).collect())
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
fn lasted_ps(space: &Space, row: u32, measured: Option<ArgView<'_>>) -> i64 {
    let known = measured.and_then(|column| match column.values {
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
            web.origins = origins.join().map_err(|_| Error::Defect("flows could not be ordered".into()))??;
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

impl<'a> Ancestries<'a> {
    fn new(space: &'a Space, web: &'a Web, marks: &'a Set) -> Self {
        let latest = (NONE, Climb::NOWHERE);
        Self { space, web, marks, known: HashMap::default(), latest, line: 0, stretch: 0..0, begun: 0 }
    }

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
    fn beyond(&mut self, mut flow: u32) -> Ancestry {
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
    fn climb(&mut self, row: u32, ancestry: &mut Ancestry) -> (Option<u32>, bool) {
        let parent = self.web.parents[row as usize];
        if self.latest.0 != parent {
            self.latest = (parent, self.above(parent));
        }
        let found = self.joined(row, self.latest.1);
        if found.mark != NONE {
            ancestry.mark = found.mark;
        }
        if found.step != NONE {
            ancestry.step = found.step;
        }
        let flow = Some(found.flow).filter(|&flow| flow != NONE);
        let is_step = found.step != NONE;
        (if is_step { flow } else { flow.or_else(|| self.region(row)) }, is_step)
    }

    /// What is found from `row` on upwards, given what is from the span around it.
    fn joined(&self, row: u32, above: Climb) -> Climb {
        let mark = if self.marks.has(row) { row } else { NONE };
        if self.web.roots.has(row) {
            return Climb { mark, flow: NONE, step: row };
        }
        Climb {
            mark: if above.mark == NONE { mark } else { above.mark },
            flow: if self.web.reached.has(row) { row } else { above.flow },
            step: above.step,
        }
    }

    /// What is found from a span on upwards.
    fn above(&self, span: u32) -> Climb {
        let mut found = Climb::NOWHERE;
        let mut at = span;
        while at != NONE && found.step == NONE {
            if self.marks.has(at) {
                found.mark = at;
            }
            if self.web.roots.has(at) {
                found.step = at;
            }
            if found.flow == NONE && found.step == NONE && self.web.reached.has(at) {
                found.flow = at;
            }
            at = self.web.parents[at as usize];
        }
        found
    }

    /// The begin of the task that `row` is part of.
    fn region(&mut self, row: u32) -> Option<u32> {
        if !self.stretch.contains(&row) {
            self.line = self.space.line_of(row) as usize;
            let line = &self.space.lines[self.line];
            (self.stretch, self.begun) = (line.first..line.end, 0);
        }
        let regions = &self.web.regions[self.line];
        let begins = |at: usize| self.space.times_ps(regions[at]).0;
        let start = self.space.times_ps(row).0;
        // Events mostly come in order: few are beyond the task after that of the one before.
        if self.begun > 0 && begins(self.begun - 1) > start {
            self.begun = 0;
        }
        let near = regions.len().min(self.begun + 2);
        while self.begun < near && begins(self.begun) <= start {
            self.begun += 1;
        }
        if self.begun == near {
            self.begun += regions[near..].partition_point(|&region| self.space.times_ps(region).0 <= start);
        }
        let region = *regions.get(self.begun.checked_sub(1)?)?;
        (self.space.name(region) == self.web.begin && region != row).then_some(region)
    }

    /// Where the flow that ends in `row` comes from.
    fn source(&self, row: u32) -> Option<u32> {
        let origin = self.web.origins[self.web.reached.position(row)?];
        (origin != NONE).then_some(origin)
    }
}
