//! What a profile of XLA holds, as columns.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use arrow_array::{ArrayRef, Float64Array, Int64Array, LargeStringArray, RecordBatch, UInt32Array};

use crate::columns::table::{ArgColumn, ArgType, Interner, NONE, all_ids, batch, times};
use crate::error::{Error, Result};
use crate::problems::{Problem, Problems};
use crate::xplane::hlo::Instructions;
use crate::xplane::{Columns, MAX_NS, Options, Part};

/// Rows from which on it takes less time to make columns in threads than to start these.
const MANY: usize = 100_000;

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
    metadata: Vec<u32>,
    start_ps: Vec<i64>,
    duration_ps: Vec<i64>,
    /// Stats of events by row, and behind them those of metadata.
    stats: Vec<ArgColumn>,
    arguments: ArgColumn,
}

/// Which events are wanted.
#[derive(Default)]
pub struct Selection {
    /// Numbers of lines; all if none are given.
    pub lines: Option<HashSet<u32>>,
    /// Their numbers, ascending; all if none are given.
    pub rows: Option<Vec<u32>>,
    /// A stat that they must have.
    pub having: Option<String>,
    /// A stat that they must not have.
    pub lacking: Option<String>,
    /// What they may be called; anything if nothing is given.
    pub names: Option<HashSet<String>>,
}

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
            duration_ps: Vec::new(),
            stats: options.stats.iter().map(column).collect(),
            arguments: ArgColumn::new("arguments".into(), ArgType::Text),
        }
    }

    /// Take in the events of all lines, in file order.
    pub fn take(&mut self, mut parts: Vec<Part>, columns: Columns) {
        (self.metadata, self.start_ps, self.duration_ps) = (columns.metadata, columns.start_ps, columns.duration_ps);
        let mut first = 0;
        for part in &mut parts {
            let end = first + part.count;
            self.place(part, first, end);
            first = end;
        }
        for (column, mut shared) in self.stats.iter_mut().zip(std::mem::take(&mut self.metadata_stats)) {
            column.append(&mut shared, first);
        }
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

    /// Number of events in rows.
    pub fn len(&self) -> usize {
        self.metadata.len()
    }

    pub fn is_empty(&self) -> bool {
        self.metadata.is_empty()
    }

    pub fn planes(&self) -> Result<RecordBatch> {
        batch(vec![
            ("plane".into(), all_ids(0..self.planes.len() as u32)),
            ("name".into(), texts(self.planes.iter().map(|plane| plane.name.as_str()))),
            ("id".into(), times(self.planes.iter().map(|plane| plane.id))),
        ])
    }

    pub fn plane_stats(&self) -> Result<RecordBatch> {
        let stats = &self.plane_stats;
        let text = stats.iter().map(|stat| stat.text.as_deref());
        batch(vec![
            ("plane".into(), all_ids(stats.iter().map(|stat| stat.plane))),
            ("key".into(), texts(stats.iter().map(|stat| stat.key.as_str()))),
            ("whole".into(), Arc::new(Int64Array::from_iter(stats.iter().map(|stat| stat.whole)))),
            ("number".into(), Arc::new(Float64Array::from_iter(stats.iter().map(|stat| stat.number)))),
            ("text".into(), Arc::new(LargeStringArray::from_iter(text))),
        ])
    }

    pub fn lines(&self) -> Result<RecordBatch> {
        let lines = &self.lines;
        batch(vec![
            ("line".into(), all_ids(0..lines.len() as u32)),
            ("plane".into(), all_ids(lines.iter().map(|line| line.plane))),
            ("id".into(), times(lines.iter().map(|line| line.id))),
            ("name".into(), texts(lines.iter().map(|line| line.name.as_str()))),
            ("display".into(), texts(lines.iter().map(|line| line.display.as_str()))),
            ("event_count".into(), times(lines.iter().map(|line| i64::from(line.end - line.first)))),
        ])
    }

    /// The wanted events in file order; a stat that all events of a name have is a stat of each of them.
    pub fn events(&self, columns: &[String], selection: &Selection) -> Result<RecordBatch> {
        let rows = self.rows_of(selection)?;
        batch(self.columns(columns, &rows)?)
    }

    /// The distinct names of events, among others.
    pub fn names(&self) -> Result<RecordBatch> {
        batch(vec![("name".into(), self.names.dictionary(0..self.names.len() as u32))])
    }

    /// The columns, made by as many threads as there are CPUs.
    fn columns(&self, names: &[String], rows: &[u32]) -> Result<Vec<(String, ArrayRef)>> {
        let workers = thread::available_parallelism().map_or(1, usize::from).min(names.len());
        let next = AtomicUsize::new(0);
        let make = || -> Result<Vec<(usize, ArrayRef)>> {
            let mut made = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(name) = names.get(at) else { return Ok(made) };
                made.push((at, self.column(name, rows)?));
            }
        };
        let mut found = if rows.len() < MANY || workers < 2 {
            make()?
        } else {
            thread::scope(|scope| {
                let others: Vec<_> = (1..workers).map(|_| scope.spawn(make)).collect();
                let mut found = make()?;
                for other in others {
                    found.extend(other.join().map_err(|_| Error::Defect("a column's maker panicked".into()))??);
                }
                Ok::<_, Error>(found)
            })?
        };
        found.sort_by_key(|(at, _)| *at);
        Ok(names.iter().cloned().zip(found.into_iter().map(|(_, column)| column)).collect())
    }

    fn rows_of(&self, selection: &Selection) -> Result<Vec<u32>> {
        if let Some(rows) = &selection.rows {
            return Ok(rows.iter().copied().filter(|&row| (row as usize) < self.len()).collect());
        }
        let lines = (0u32..).zip(&self.lines);
        let wanted = lines.filter(|(number, _)| selection.lines.as_ref().is_none_or(|wanted| wanted.contains(number)));
        let wanted: Vec<_> = wanted.map(|(_, line)| line.first..line.end).collect();
        let names = selection.names.as_ref().map(|wanted| {
            let is_wanted = self.names.iter().map(|name| wanted.contains(String::from_utf8_lossy(name).as_ref()));
            is_wanted.collect::<Vec<bool>>()
        });
        let is_named = |row: &u32| match &names {
            Some(is_wanted) => self.name(*row).is_some_and(|name| is_wanted[name as usize]),
            None => true,
        };
        // Most selections leave out most events: these must not cost memory.
        let mut rows: Vec<u32> = Vec::new();
        if let Some(key) = &selection.having {
            let column = self.stat(key)?;
            let there = wanted.into_iter().flat_map(|line| &column.rows[column.within(line)]);
            rows.extend(there.filter(|row| is_named(row)));
        } else {
            if names.is_none() {
                rows.reserve_exact(wanted.iter().map(ExactSizeIterator::len).sum());
            }
            rows.extend(wanted.into_iter().flatten().filter(is_named));
        }
        if let Some(key) = &selection.lacking {
            let lacks: Vec<bool> = self.stat(key)?.positions(&rows).map(|at| at == NONE).collect();
            let mut lacks = lacks.into_iter();
            rows.retain(|_| lacks.next().unwrap_or(false));
        }
        Ok(rows)
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
        (start, start + self.duration_ps[row as usize])
    }

    pub fn span_ps(&self, row: u32) -> i64 {
        self.duration_ps[row as usize]
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

    pub fn stat(&self, key: &str) -> Result<&ArgColumn> {
        let found = self.stats.iter().find(|column| column.key == key);
        found.ok_or_else(|| Error::Unknown(format!("stat {key:?}: it was not asked for")))
    }

    fn column(&self, name: &str, rows: &[u32]) -> Result<ArrayRef> {
        let of_row = |row: &u32| *row as usize;
        let time_ns = |ps: i64| self.origin_ns + ps.div_euclid(1000);
        let shared = |names: &[u32], row: &u32| names.get(self.metadata[of_row(row)] as usize).copied().unwrap_or(NONE);
        Ok(match name {
            "event_id" => Arc::new(UInt32Array::from(rows.to_vec())),
            "line" => {
                let runs = self.by_line(rows);
                all_ids(runs.into_iter().flat_map(|(number, range)| range.map(move |_| number)))
            }
            "kind" => all_ids(self.kinds(rows)?.into_iter()),
            "inner_ps" => Arc::new(Int64Array::from(self.inner_ps(rows))),
            "name" => self.names.dictionary(rows.iter().map(|row| shared(&self.metadata_names, row))),
            // What a plane shows instead of the name, where it has it.
            "display" => self.names.dictionary(rows.iter().map(|row| match shared(&self.metadata_displays, row) {
                NONE => shared(&self.metadata_names, row),
                code => code,
            })),
            "start_ns" => times(rows.iter().map(|row| time_ns(self.start_ps[of_row(row)]))),
            "end_ns" => times(rows.iter().map(|row| {
                let row = of_row(row);
                time_ns(self.start_ps[row] + self.duration_ps[row])
            })),
            "duration_ps" => times(rows.iter().map(|row| self.duration_ps[of_row(row)])),
            "arguments" => self.arguments.array(rows),
            key => {
                // A stat may have the name of a column above.
                let key = key.strip_prefix("stat:").unwrap_or(key);
                let instead = rows.iter().map(|row| self.metadata[of_row(row)]);
                self.stat(key)?.array_or(rows, self.len() as u32, instead)
            }
        })
    }
}

fn texts<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(LargeStringArray::from_iter_values(values))
}
