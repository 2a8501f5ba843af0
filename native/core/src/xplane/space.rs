//! What a profile of XLA holds.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::OnceLock;

use crate::columns::arg_column::{ArgColumn, ArgType, ArgValues, ArgView};
use crate::columns::interner::Interner;
use crate::error::{Error, Result};
use crate::problems::{Problem, Problems};
use crate::xplane::hlo::Instructions;
use crate::xplane::model::{Columns, LONG, MAX_NS, Options, Part};
use crate::xplane::web::Web;

pub struct Plane {
    pub id: i64,
    pub name: String,
}

/// A fact about a plane; text has no number.
pub struct PlaneStat {
    pub plane: u32,
    pub key: String,
    pub whole: Option<i64>,
    pub number: Option<f64>,
    pub text: Option<String>,
}

#[derive(Default)]
pub struct Line {
    pub plane: u32,
    pub id: i64,
    pub name: String,
    pub display: String,
    /// Rows of its events.
    pub first: u32,
    pub end: u32,
}

/// One file.
pub struct Space {
    pub file_bytes: u64,
    pub hostnames: Vec<String>,
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
    pub planes: Vec<Plane>,
    pub plane_stats: Vec<PlaneStat>,
    pub lines: Vec<Line>,
    /// Names of metadata.
    pub names: Interner,
    pub metadata_names: Vec<u32>,
    pub metadata_displays: Vec<u32>,
    /// Stats that all events of one metadata have; rows are those of metadata.
    pub metadata_stats: Vec<ArgColumn>,
    pub instructions: Instructions,
    pub programs: HashSet<Vec<u8>>,
    pub problems: Problems,
    /// UNIX time that the events' times count from; 0 where the file does not say.
    pub origin_ns: i64,
    /// Row of the metadata of each event.
    pub(super) metadata: Vec<u32>,
    pub(super) start_ps: Vec<i64>,
    pub(super) durations: Durations,
    /// Stats of events by row, and behind them those of metadata.
    pub(super) stats: Vec<ArgColumn>,
    /// The stat that has the rows of each: several are told by the same events.
    rows_of: Vec<usize>,
    pub(super) arguments: ArgColumn,
    /// Where events go back to.
    pub(super) web: OnceLock<Web>,
}

/// Taking in what is read.
impl Space {
    pub fn new(file_bytes: u64, options: &Options) -> Self {
        let column = |(key, kind): &(String, ArgType)| ArgColumn::new(key.clone(), *kind);
        Self {
            file_bytes,
            hostnames: Vec::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
            planes: Vec::new(),
            plane_stats: Vec::new(),
            lines: Vec::new(),
            names: Interner::default(),
            metadata_names: Vec::new(),
            metadata_displays: Vec::new(),
            metadata_stats: options.stats.iter().map(column).collect(),
            instructions: Instructions::default(),
            programs: HashSet::new(),
            problems: Problems::default(),
            origin_ns: 0,
            metadata: Vec::new(),
            start_ps: Vec::new(),
            durations: Durations::default(),
            stats: options.stats.iter().map(column).collect(),
            rows_of: (0..options.stats.len()).collect(),
            arguments: ArgColumn::new("arguments".into(), ArgType::Text),
            web: OnceLock::new(),
        }
    }

    /// Take in the events of all lines, in file order.
    pub fn take(&mut self, mut parts: Vec<Part>, columns: Columns) {
        (self.metadata, self.start_ps, self.durations.short_ps) =
            (columns.metadata, columns.start_ps, columns.duration_ps);
        let mut first = 0;
        for part in &mut parts {
            let end = first + part.count;
            self.durations.take(&part.long, first);
            self.place(part, first, end);
            first = end;
        }
        for (column, mut shared) in self.stats.iter_mut().zip(std::mem::take(&mut self.metadata_stats)) {
            column.append(&mut shared, first);
        }
        self.share_rows();
    }

    /// Keep the rows of stats that the same events have once.
    fn share_rows(&mut self) {
        for at in 0..self.stats.len() {
            let rows = &self.stats[at].rows;
            if let Some(same) = (0..at).find(|&other| !rows.is_empty() && self.stats[other].rows == *rows) {
                self.stats[at].rows = Vec::new();
                self.rows_of[at] = same;
            }
        }
    }

    /// Let go of all stats but these, and of how events hang together, which follows from them.
    pub fn keep_stats(&mut self, keys: &[String]) {
        let kept: Vec<usize> = (0..self.stats.len()).filter(|&at| keys.contains(&self.stats[at].key)).collect();
        let rows: Vec<usize> = kept.iter().map(|&at| self.rows_of[at]).collect();
        for at in (0..self.stats.len()).filter(|at| !kept.contains(at)) {
            let column = &mut self.stats[at];
            column.values = ArgValues::Int(Vec::new());
            column.key = String::new();
            if !rows.contains(&at) {
                column.rows = Vec::new();
            }
        }
        self.web = OnceLock::new();
    }

    /// Take in the stats of the next line, whose rows begin at `first`.
    pub fn take_stats(&mut self, part: &mut Part, first: u32) {
        // Parts wait for the last of them: a profile of many short lines would mostly hold empty columns.
        for (column, mut stats) in self.stats.iter_mut().zip(std::mem::take(&mut part.stats)) {
            column.append(&mut stats, first);
        }
        let nothing = ArgColumn::new(part.arguments.key.clone(), ArgType::Text);
        self.arguments.append(&mut std::mem::replace(&mut part.arguments, nothing), first);
    }

    /// Give a line its rows, and these their times since the beginning of the profile.
    fn place(&mut self, part: &mut Part, first: u32, end: u32) {
        self.problems.append(std::mem::take(&mut part.problems));
        let head = std::mem::take(&mut part.head);
        let mut begun_ns = if head.is_unix() { head.timestamp_ns - self.origin_ns } else { head.timestamp_ns };
        if begun_ns.unsigned_abs() > MAX_NS as u64 {
            self.problems.add(Problem::AbsurdTime, part.offset, head.name.as_bytes());
            begun_ns = 0;
        }
        for start_ps in &mut self.start_ps[first as usize..end as usize] {
            *start_ps += begun_ns * 1000;
        }
        let line = &mut self.lines[part.line as usize];
        *line = Line { plane: line.plane, id: head.id, name: head.name, display: head.display, first, end };
    }
}

/// What is known of an event.
impl Space {
    /// Number of events in rows.
    pub fn len(&self) -> usize {
        self.metadata.len()
    }

    pub fn is_empty(&self) -> bool {
        self.metadata.is_empty()
    }

    /// Row of the metadata of an event, or `NONE`.
    pub fn metadata_of(&self, row: u32) -> u32 {
        self.metadata[row as usize]
    }

    /// Name of an event, as a code of `names`.
    pub fn name(&self, row: u32) -> Option<u32> {
        self.metadata_names.get(self.metadata[row as usize] as usize).copied()
    }

    /// Start and end, from the beginning of the profile.
    pub fn times_ps(&self, row: u32) -> (i64, i64) {
        let start = self.start_ps[row as usize];
        (start, start + self.durations.of(row as usize))
    }

    pub fn span_ps(&self, row: u32) -> i64 {
        self.durations.of(row as usize)
    }

    /// Whether an event ends after it began, to the nanosecond.
    pub fn lasts(&self, row: u32) -> bool {
        let (start, end) = self.times_ps(row);
        end.div_euclid(1000) > start.div_euclid(1000)
    }

    /// The line of an event.
    pub fn line_of(&self, row: u32) -> u32 {
        self.lines.partition_point(|line| line.end <= row) as u32
    }

    /// Lines of ascending rows, each with the positions of its rows.
    pub fn by_line(&self, rows: &[u32]) -> Vec<(u32, Range<usize>)> {
        let mut found = Vec::new();
        let mut at = 0;
        for (number, line) in (0u32..).zip(&self.lines) {
            let end = at + rows[at..].partition_point(|&row| row < line.end);
            if end > at {
                found.push((number, at..end));
            }
            at = end;
        }
        found
    }

    pub fn stat(&self, key: &str) -> Result<ArgView<'_>> {
        let found = self.stats.iter().position(|column| column.key == key);
        let at = found.ok_or_else(|| Error::NotRequested(format!("stat {key:?}")))?;
        Ok(ArgView { rows: &self.stats[self.rows_of[at]].rows, values: &self.stats[at].values })
    }
}

/// How long events last, in ps.
#[derive(Default)]
pub(super) struct Durations {
    /// From `LONG` on, the place among the long ones.
    short_ps: Vec<u32>,
    long_ps: Vec<i64>,
}

impl Durations {
    pub fn of(&self, row: usize) -> i64 {
        match self.short_ps[row] {
            short if short < LONG => i64::from(short),
            place => self.long_ps[(place - LONG) as usize],
        }
    }

    /// Take in those that last long of the line whose rows begin at `first`.
    fn take(&mut self, long: &[(u32, i64)], first: u32) {
        for &(row, duration_ps) in long {
            self.short_ps[(first + row) as usize] = LONG + self.long_ps.len() as u32;
            self.long_ps.push(duration_ps);
        }
    }
}
