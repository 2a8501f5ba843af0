//! The tables of a profile.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use arrow_array::{ArrayRef, Float64Array, Int64Array, LargeStringArray, RecordBatch, UInt32Array};

use crate::columns::arrow::{NONE, all_ids, batch, times};
use crate::error::{Error, Result};
use crate::memory::has_room;
use crate::xplane::ancestry::inner_ps;
use crate::xplane::signatures::signatures;
use crate::xplane::space::Space;

/// Of a column, as it is and while it is made.
const ROW_BYTES: usize = 12;
/// Rows from which on it takes less time to make columns in threads than to start these.
const MANY: usize = 100_000;

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
    /// Lines of which only events that last are wanted, to the nanosecond.
    pub lasting: HashSet<u32>,
}

/// What is not of single events.
impl Space {
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

    /// The distinct names of events, among others.
    pub fn names(&self) -> Result<RecordBatch> {
        batch(vec![("name".into(), self.names.dictionary(0..self.names.len() as u32))])
    }
}

/// Events.
impl Space {
    /// The wanted events in file order; a stat that all events of a name have is a stat of each of them.
    pub fn events(&self, columns: &[String], selection: &Selection) -> Result<RecordBatch> {
        let rows = self.rows_of(selection)?;
        has_room(rows.len().saturating_mul(ROW_BYTES).saturating_mul(columns.len() + 1))?;
        batch(self.columns(columns, &rows)?)
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
            "kind" => all_ids(signatures(self, rows)?.into_iter()),
            "inner_ps" => Arc::new(Int64Array::from(inner_ps(self, rows))),
            "name" => self.names.dictionary(rows.iter().map(|row| shared(&self.metadata_names, row))),
            // What a plane shows instead of the name, where it has it.
            "display" => self.names.dictionary(rows.iter().map(|row| match shared(&self.metadata_displays, row) {
                NONE => shared(&self.metadata_names, row),
                code => code,
            })),
            "start_ns" => times(rows.iter().map(|row| time_ns(self.start_ps[of_row(row)]))),
            "end_ns" => times(rows.iter().map(|row| {
                let row = of_row(row);
                time_ns(self.start_ps[row] + self.durations.of(row))
            })),
            "duration_ps" => times(rows.iter().map(|row| self.durations.of(of_row(row)))),
            "arguments" => self.arguments.array(rows),
            key => {
                // A stat may have the name of a column above.
                let key = key.strip_prefix("stat:").unwrap_or(key);
                let instead = rows.iter().map(|row| self.metadata[of_row(row)]);
                self.stat(key)?.array_or(rows, self.len() as u32, instead)
            }
        })
    }

    fn rows_of(&self, selection: &Selection) -> Result<Vec<u32>> {
        if let Some(rows) = &selection.rows {
            return Ok(rows.iter().copied().filter(|&row| (row as usize) < self.len()).collect());
        }
        let lines = (0u32..).zip(&self.lines);
        let wanted = lines.filter(|(number, _)| selection.lines.as_ref().is_none_or(|wanted| wanted.contains(number)));
        let wanted: Vec<_> =
            wanted.map(|(number, line)| (selection.lasting.contains(&number), line.first..line.end)).collect();
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
            for (lasts, line) in wanted {
                let there = column.rows[column.within(line)].iter().copied();
                rows.extend(there.filter(|row| is_named(row) && (!lasts || self.lasts(*row))));
            }
        } else {
            if names.is_none() {
                rows.reserve_exact(wanted.iter().map(|(_, line)| line.len()).sum());
            }
            for (lasts, line) in wanted {
                rows.extend(line.filter(|row| is_named(row) && (!lasts || self.lasts(*row))));
            }
        }
        if let Some(key) = &selection.lacking {
            let lacks: Vec<bool> = self.stat(key)?.positions(&rows).map(|at| at == NONE).collect();
            let mut lacks = lacks.into_iter();
            rows.retain(|_| lacks.next().unwrap_or(false));
        }
        Ok(rows)
    }
}

fn texts<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(LargeStringArray::from_iter_values(values))
}
