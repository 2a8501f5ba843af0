//! What was read of one file, compact: a row per event, args only where they are.

use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, UInt32Array};

use crate::columns::table::{
    ArgColumn, ArgType, ArgValues, Interner, NONE, all_ids, at_rows, batch, ids, times, times_or_null,
};
use crate::error::{Error, Result};
use crate::problems::Problems;
use crate::trace_event::kineto::{Class, Table, class_of, step_number};
use crate::trace_event::lexer::{Raw, RawKind, decode};
use crate::trace_event::links;

/// Where something happened: codes of the process and the thread.
#[derive(Default)]
pub struct Tracks {
    /// Both as written, joined; the code is the track.
    joined: Interner,
    parts: Vec<(u32, u32)>,
    pids: Interner,
    tids: Interner,
    key: Vec<u8>,
}

impl Tracks {
    #[inline]
    pub fn code(&mut self, pid: &[u8], tid: &[u8]) -> u32 {
        self.key.clear();
        self.key.extend_from_slice(pid);
        self.key.push(0);
        self.key.extend_from_slice(tid);
        let code = self.joined.code(&self.key);
        if code as usize == self.parts.len() {
            let part = |strings: &mut Interner, text: &[u8]| if text.is_empty() { NONE } else { strings.code(text) };
            self.parts.push((part(&mut self.pids, pid), part(&mut self.tids, tid)));
        }
        code
    }

    /// Take the tracks out of another; returns the code each has here, by its code there.
    fn adopt(&mut self, other: &mut Tracks) -> Vec<u32> {
        let text = |strings: &'_ Interner, code: u32| if code == NONE { &[] } else { strings.get(code) }.to_vec();
        let parts = other.parts.drain(..);
        let codes = parts.map(|(pid, tid)| self.code(&text(&other.pids, pid), &text(&other.tids, tid))).collect();
        other.joined.clear();
        other.pids.clear();
        other.tids.clear();
        codes
    }

    fn pids(&self, tracks: impl Iterator<Item = u32>) -> ArrayRef {
        self.pids.dictionary(tracks.map(|track| self.parts[track as usize].0))
    }

    fn tids(&self, tracks: impl Iterator<Item = u32>) -> ArrayRef {
        self.tids.dictionary(tracks.map(|track| self.parts[track as usize].1))
    }
}

/// Categories, and the class of each, decided once.
#[derive(Default)]
pub struct Categories {
    pub names: Interner,
    classes: Vec<Class>,
    /// The one asked for last, as it stands in the text, and its code: long runs of events share theirs.
    last: Option<(Vec<u8>, u32)>,
}

impl Categories {
    /// The code of a category; `NONE` where an event has none.
    #[inline(always)]
    pub fn code(&mut self, w: &[u8], raw: Raw) -> u32 {
        match &self.last {
            Some((text, code)) if text == raw.of(w) => *code,
            _ => self.other_code(w, raw),
        }
    }

    fn other_code(&mut self, w: &[u8], raw: Raw) -> u32 {
        if raw.is_absent() {
            return NONE;
        }
        let code = intern(&mut self.names, w, raw);
        if code as usize == self.classes.len() {
            self.classes.push(class_of(self.names.get(code)));
        }
        self.last = Some((raw.of(w).to_vec(), code));
        code
    }

    /// Take the categories out of another; returns the code each has here, by its code there.
    fn adopt(&mut self, other: &mut Categories) -> Vec<u32> {
        let here = self.names.adopt(&mut other.names);
        other.classes.clear();
        other.last = None;
        for code in self.classes.len()..self.names.len() {
            self.classes.push(class_of(self.names.get(code as u32)));
        }
        here
    }

    #[inline(always)]
    pub fn class(&self, code: u32) -> Class {
        self.classes.get(code as usize).copied().unwrap_or(Class::Other)
    }
}

/// The code of a text, escapes decoded.
#[inline(always)]
pub fn intern(strings: &mut Interner, w: &[u8], raw: Raw) -> u32 {
    if raw.kind == RawKind::EscapedText {
        return strings.code(decode(raw.of(w)).0.as_bytes());
    }
    strings.code(raw.of(w))
}

/// Events with a duration.
#[derive(Default)]
pub struct Spans {
    pub id: Vec<u32>,
    pub category: Vec<u32>,
    pub name: Vec<u32>,
    pub track: Vec<u32>,
    pub start: Vec<i64>,
    pub end: Vec<i64>,
    pub class: Vec<Class>,
    pub args: Vec<ArgColumn>,
}

/// Marks without a duration.
#[derive(Default)]
pub struct Instants {
    pub id: Vec<u32>,
    pub category: Vec<u32>,
    pub name: Vec<u32>,
    pub track: Vec<u32>,
    pub time: Vec<i64>,
    pub args: Vec<ArgColumn>,
}

/// Samples, one row per counter and series.
#[derive(Default)]
pub struct Counters {
    pub id: Vec<u32>,
    pub name: Vec<u32>,
    pub series: Vec<u32>,
    pub track: Vec<u32>,
    pub time: Vec<i64>,
    pub value: Vec<f64>,
}

/// What hardware counters read around events, one row per event and counter.
#[derive(Default)]
pub struct HardwareCounters {
    /// Of the span.
    pub row: Vec<u32>,
    pub counter: Vec<u32>,
    pub value: Vec<f64>,
}

/// Which end of an arrow, in the order they come at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum FlowPhase {
    Start,
    Step,
    End,
}

/// Ends of arrows.
#[derive(Default)]
pub struct Flows {
    pub category: Vec<u32>,
    pub flow: Vec<i64>,
    pub phase: Vec<FlowPhase>,
    pub track: Vec<u32>,
    pub time: Vec<i64>,
}

/// Names of processes and threads.
#[derive(Default)]
pub struct Labels {
    pub label: Vec<u32>,
    pub track: Vec<u32>,
    pub value: Vec<u32>,
}

/// How many entries there were, and what became of them:
/// `entries` is the sum of the others down to `labels` plus what the problems lost.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub entries: u64,
    pub complete: u64,
    pub begins: u64,
    pub ends: u64,
    pub instants: u64,
    pub counters: u64,
    pub flows: u64,
    pub labels: u64,
    /// Of these, events that no table asked for holds.
    pub skipped: u64,
    pub text_bytes: u64,
    pub file_bytes: u64,
}

impl Counts {
    fn append(&mut self, other: Counts) {
        self.entries += other.entries;
        self.complete += other.complete;
        self.begins += other.begins;
        self.ends += other.ends;
        self.instants += other.instants;
        self.counters += other.counters;
        self.flows += other.flows;
        self.labels += other.labels;
        self.skipped += other.skipped;
    }
}

/// One file's columns.
#[derive(Default)]
pub struct Store {
    pub names: Interner,
    pub categories: Categories,
    pub tracks: Tracks,
    pub spans: Spans,
    pub instants: Instants,
    pub counters: Counters,
    pub hardware_counters: HardwareCounters,
    pub flows: Flows,
    pub labels: Labels,
    pub problems: Problems,
    pub counts: Counts,
    /// The top-level keys other than the events, each with its value as JSON text.
    pub metadata: Vec<(String, String)>,
    /// For each event on a device the row of the call that launched it, or `NONE`: found once all is read.
    launches: OnceLock<Vec<u32>>,
    /// In the order they begin, as well.
    steps: OnceLock<Vec<Step>>,
}

/// Number, start and row of a step.
type Step = (i64, i64, u32);

/// Makes a table's columns by name; `None` for a name it does not know.
type Maker<'a> = Box<dyn Fn(&str) -> Option<ArrayRef> + 'a>;

impl Store {
    /// An empty one, with columns for the args that were asked for.
    pub fn new(args: &[(String, ArgType)]) -> Self {
        let mut store = Self::default();
        store.spans.args = arg_columns(args);
        store.instants.args = arg_columns(args);
        store
    }

    /// Take what was read of the text that follows out of its store, which keeps its memory.
    pub fn append(&mut self, other: &mut Store) {
        let names = self.names.adopt(&mut other.names);
        let categories = self.categories.adopt(&mut other.categories);
        let tracks = self.tracks.adopt(&mut other.tracks);
        let first_id = self.counts.entries as u32;
        let here = |codes: &[u32], code: u32| if code == NONE { NONE } else { codes[code as usize] };
        let append = |to: &mut Vec<u32>, from: &mut Vec<u32>, codes: &[u32]| {
            to.extend(from.drain(..).map(|code| here(codes, code)));
        };
        let append_rows = |to: &mut Vec<u32>, from: &mut Vec<u32>, first: u32| {
            to.extend(from.drain(..).map(|row| row + first));
        };

        let (spans, others) = (&mut self.spans, &mut other.spans);
        let first_span = spans.id.len() as u32;
        append_rows(&mut spans.id, &mut others.id, first_id);
        append(&mut spans.category, &mut others.category, &categories);
        append(&mut spans.name, &mut others.name, &names);
        append(&mut spans.track, &mut others.track, &tracks);
        spans.start.append(&mut others.start);
        spans.end.append(&mut others.end);
        spans.class.append(&mut others.class);
        append_args(&mut spans.args, &mut others.args, first_span);

        let (instants, others) = (&mut self.instants, &mut other.instants);
        let first_row = instants.id.len() as u32;
        append_rows(&mut instants.id, &mut others.id, first_id);
        append(&mut instants.category, &mut others.category, &categories);
        append(&mut instants.name, &mut others.name, &names);
        append(&mut instants.track, &mut others.track, &tracks);
        instants.time.append(&mut others.time);
        append_args(&mut instants.args, &mut others.args, first_row);

        let (counters, others) = (&mut self.counters, &mut other.counters);
        append_rows(&mut counters.id, &mut others.id, first_id);
        append(&mut counters.name, &mut others.name, &names);
        append(&mut counters.series, &mut others.series, &names);
        append(&mut counters.track, &mut others.track, &tracks);
        counters.time.append(&mut others.time);
        counters.value.append(&mut others.value);

        let (counters, others) = (&mut self.hardware_counters, &mut other.hardware_counters);
        append_rows(&mut counters.row, &mut others.row, first_span);
        append(&mut counters.counter, &mut others.counter, &names);
        counters.value.append(&mut others.value);

        let (flows, others) = (&mut self.flows, &mut other.flows);
        append(&mut flows.category, &mut others.category, &categories);
        flows.flow.append(&mut others.flow);
        flows.phase.append(&mut others.phase);
        append(&mut flows.track, &mut others.track, &tracks);
        flows.time.append(&mut others.time);

        let (labels, others) = (&mut self.labels, &mut other.labels);
        append(&mut labels.label, &mut others.label, &names);
        append(&mut labels.track, &mut others.track, &tracks);
        append(&mut labels.value, &mut others.value, &names);

        self.problems.append(std::mem::take(&mut other.problems));
        self.counts.append(std::mem::take(&mut other.counts));
    }

    /// A table by name, with the named columns; those read from args go by their key there.
    pub fn table(&self, name: &str, columns: &[String]) -> Result<RecordBatch> {
        let table = Table::named(name).ok_or_else(|| Error::Unknown(format!("table {name:?}")))?;
        let made = self.maker(table);
        let mut out = Vec::with_capacity(columns.len());
        for column in columns {
            let array = made(column).ok_or_else(|| Error::Unknown(format!("column {column:?} of table {name:?}")))?;
            out.push((column.clone(), array));
        }
        batch(out)
    }

    fn maker<'a>(&'a self, table: Table) -> Maker<'a> {
        match table {
            Table::Events => self.span_maker((0..self.spans.id.len() as u32).collect()),
            Table::DeviceEvents => self.device_maker(),
            Table::CpuOps => self.span_maker(self.rows(|class| class == Class::CpuOp)),
            Table::Collectives => self.span_maker(self.collective_rows()),
            Table::Annotations => self.annotation_maker(),
            Table::PythonCalls => self.span_maker(self.rows(|class| class == Class::Python)),
            Table::RuntimeCalls => self.span_maker(self.rows(|class| class == Class::Runtime)),
            Table::Launches => self.launch_maker(),
            Table::Steps => self.step_maker(),
            Table::Instants => self.instant_maker((0..self.instants.id.len() as u32).collect()),
            Table::Memory => self.instant_maker(self.memory_rows()),
            Table::Counters => self.counter_maker(),
            Table::HardwareCounters => self.hardware_counter_maker(),
            Table::Flows => self.flow_maker(),
            Table::TrackLabels => self.label_maker(),
            Table::Problems => Box::new(|column| self.problems.column(column)),
        }
    }

    fn rows(&self, keep: impl Fn(Class) -> bool) -> Vec<u32> {
        (0u32..).zip(&self.spans.class).filter(|(_, class)| keep(**class)).map(|(row, _)| row).collect()
    }

    fn collective_rows(&self) -> Vec<u32> {
        let named = self.spans.args.iter().find(|arg| arg.key == "Collective name");
        named.map_or_else(Vec::new, |arg| {
            let wanted = |row: &u32| matches!(self.spans.class[*row as usize], Class::Device | Class::CpuOp);
            arg.rows.iter().copied().filter(wanted).collect()
        })
    }

    fn memory_rows(&self) -> Vec<u32> {
        (0u32..).zip(&self.instants.name).filter(|(_, name)| self.is_memory(**name)).map(|(row, _)| row).collect()
    }

    fn is_memory(&self, name: u32) -> bool {
        name != NONE && self.names.get(name) == b"[memory]"
    }

    fn span_maker<'a>(&'a self, rows: Vec<u32>) -> Maker<'a> {
        Box::new(move |column| self.span_column(&rows, column))
    }

    fn span_column<'a>(&'a self, rows: &'a [u32], column: &str) -> Option<ArrayRef> {
        let spans = &self.spans;
        let of = |values: &[u32]| at_rows(values, rows).into_iter();
        Some(match column {
            "event_id" => Arc::new(UInt32Array::from(at_rows(&spans.id, rows))),
            "category" => self.categories.names.dictionary(of(&spans.category)),
            "name" => self.names.dictionary(of(&spans.name)),
            "pid" => self.tracks.pids(of(&spans.track)),
            "tid" => self.tracks.tids(of(&spans.track)),
            "start_ns" => Arc::new(Int64Array::from(at_rows(&spans.start, rows))),
            "end_ns" => Arc::new(Int64Array::from(at_rows(&spans.end, rows))),
            key => spans.args.iter().find(|arg| arg.key == key)?.array(rows),
        })
    }

    fn device_maker<'a>(&'a self) -> Maker<'a> {
        let rows = self.rows(|class| class == Class::Device);
        Box::new(move |column| {
            let launches = || self.launches(&rows).iter();
            Some(match column {
                "launch_id" => ids(launches().map(|&row| if row == NONE { NONE } else { self.spans.id[row as usize] })),
                "launch_ns" => times_or_null(launches().map(|&row| self.start(row))),
                "step" => times_or_null(launches().map(|&row| self.step_at(self.start(row)?))),
                _ => return self.span_column(&rows, column),
            })
        })
    }

    fn launches(&self, device: &[u32]) -> &[u32] {
        self.launches.get_or_init(|| links::launches(&self.spans, device))
    }

    fn launch_maker<'a>(&'a self) -> Maker<'a> {
        let device = self.rows(|class| class == Class::Device);
        let pairs = self.launches(&device).iter().zip(&device).filter(|(launch, _)| **launch != NONE);
        let (launch, device): (Vec<u32>, Vec<u32>) = pairs.unzip();
        let spans = &self.spans;
        Box::new(move |column| {
            let of_launch = |values: &'_ Vec<i64>| times(launch.iter().map(|&row| values[row as usize]));
            Some(match column {
                "launch_id" => all_ids(launch.iter().map(|&row| spans.id[row as usize])),
                "device_event_id" => all_ids(device.iter().map(|&row| spans.id[row as usize])),
                "launch_name" => self.names.dictionary(launch.iter().map(|&row| spans.name[row as usize])),
                "pid" => self.tracks.pids(launch.iter().map(|&row| spans.track[row as usize])),
                "tid" => self.tracks.tids(launch.iter().map(|&row| spans.track[row as usize])),
                "launch_start_ns" => of_launch(&spans.start),
                "launch_end_ns" => of_launch(&spans.end),
                // Asked of the device side, whose rows ascend.
                "correlation" => spans.args.iter().find(|arg| arg.key == column)?.array(&device),
                _ => return None,
            })
        })
    }

    fn annotation_maker<'a>(&'a self) -> Maker<'a> {
        let rows = self.rows(|class| matches!(class, Class::Annotation | Class::DeviceAnnotation));
        Box::new(move |column| {
            if column == "on_device" {
                let on_device = rows.iter().map(|&row| Some(self.spans.class[row as usize] == Class::DeviceAnnotation));
                return Some(Arc::new(arrow_array::BooleanArray::from_iter(on_device)));
            }
            self.span_column(&rows, column)
        })
    }

    /// When a row began, if it is not `NONE`.
    fn start(&self, row: u32) -> Option<i64> {
        self.spans.start.get(row as usize).copied()
    }

    fn steps(&self) -> &[Step] {
        self.steps.get_or_init(|| self.found_steps())
    }

    fn found_steps(&self) -> Vec<Step> {
        let numbers: Vec<Option<i64>> = self.names.iter().map(step_number).collect();
        let number = |row: u32| numbers.get(self.spans.name[row as usize] as usize).copied().flatten();
        let mut steps: Vec<Step> = self
            .rows(|class| matches!(class, Class::Annotation | Class::CpuOp))
            .into_iter()
            .filter_map(|row| Some((number(row)?, self.spans.start[row as usize], row)))
            .collect();
        // A step that several threads announce begins with the first of them.
        steps.sort_unstable();
        steps.dedup_by_key(|(step, _, _)| *step);
        steps.sort_unstable_by_key(|&(_, start, row)| (start, row));
        steps
    }

    /// The number of the step during which something began.
    fn step_at(&self, time: i64) -> Option<i64> {
        let steps = self.steps();
        let begun = steps.partition_point(|&(_, start, _)| start <= time);
        // Between two steps the latest that began has ended already.
        let &(number, _, row) = steps[..begun].last()?;
        (time < self.spans.end[row as usize]).then_some(number)
    }

    fn step_maker<'a>(&'a self) -> Maker<'a> {
        let steps = self.steps();
        Box::new(move |column| {
            Some(match column {
                "step" => times(steps.iter().map(|(step, _, _)| *step)),
                "event_id" => all_ids(steps.iter().map(|&(_, _, row)| self.spans.id[row as usize])),
                "start_ns" => times(steps.iter().map(|&(_, start, _)| start)),
                "end_ns" => times(steps.iter().map(|&(_, _, row)| self.spans.end[row as usize])),
                _ => return None,
            })
        })
    }

    fn instant_maker<'a>(&'a self, rows: Vec<u32>) -> Maker<'a> {
        let instants = &self.instants;
        Box::new(move |column| {
            let of = |values: &'a Vec<u32>| rows.iter().map(|&row| values[row as usize]);
            Some(match column {
                "event_id" => all_ids(of(&instants.id)),
                "category" => self.categories.names.dictionary(of(&instants.category)),
                "name" => self.names.dictionary(of(&instants.name)),
                "pid" => self.tracks.pids(of(&instants.track)),
                "tid" => self.tracks.tids(of(&instants.track)),
                "time_ns" => times(rows.iter().map(|&row| instants.time[row as usize])),
                key => instants.args.iter().find(|arg| arg.key == key)?.array(&rows),
            })
        })
    }

    fn counter_maker<'a>(&'a self) -> Maker<'a> {
        let counters = &self.counters;
        Box::new(move |column| {
            Some(match column {
                "event_id" => all_ids(counters.id.iter().copied()),
                "name" => self.names.dictionary(counters.name.iter().copied()),
                "series" => self.names.dictionary(counters.series.iter().copied()),
                "pid" => self.tracks.pids(counters.track.iter().copied()),
                "time_ns" => times(counters.time.iter().copied()),
                "value" => Arc::new(Float64Array::from_iter_values(counters.value.iter().copied())),
                _ => return None,
            })
        })
    }

    fn hardware_counter_maker<'a>(&'a self) -> Maker<'a> {
        let counters = &self.hardware_counters;
        Box::new(move |column| {
            Some(match column {
                "counter" => self.names.dictionary(counters.counter.iter().copied()),
                "value" => Arc::new(Float64Array::from_iter_values(counters.value.iter().copied())),
                _ => return self.span_column(&counters.row, column),
            })
        })
    }

    fn flow_maker<'a>(&'a self) -> Maker<'a> {
        let arrows = links::arrows(&self.flows, &self.spans);
        let flows = &self.flows;
        Box::new(move |column| {
            let at = |times: &'a Vec<i64>, row: u32| (row != NONE).then(|| times[row as usize]);
            let optional = |of: &dyn Fn(&links::Arrow) -> Option<i64>| times_or_null(arrows.iter().map(of));
            let id = |row: u32| if row == NONE { NONE } else { self.spans.id[row as usize] };
            Some(match column {
                "category" => self.categories.names.dictionary(arrows.iter().map(|arrow| arrow.category)),
                "flow" => times(arrows.iter().map(|arrow| arrow.flow)),
                "from_id" => ids(arrows.iter().map(|arrow| id(arrow.from_span))),
                "to_id" => ids(arrows.iter().map(|arrow| id(arrow.to_span))),
                "from_ns" => optional(&|arrow| at(&flows.time, arrow.tail)),
                "to_ns" => optional(&|arrow| at(&flows.time, arrow.head)),
                _ => return None,
            })
        })
    }

    fn label_maker<'a>(&'a self) -> Maker<'a> {
        let labels = &self.labels;
        Box::new(move |column| {
            Some(match column {
                "label" => self.names.dictionary(labels.label.iter().copied()),
                "pid" => self.tracks.pids(labels.track.iter().copied()),
                "tid" => self.tracks.tids(labels.track.iter().copied()),
                "value" => self.names.dictionary(labels.value.iter().copied()),
                _ => return None,
            })
        })
    }
}

fn arg_columns(args: &[(String, ArgType)]) -> Vec<ArgColumn> {
    args.iter().map(|(key, kind)| ArgColumn::new(key.clone(), *kind)).collect()
}

fn append_args(columns: &mut [ArgColumn], others: &mut [ArgColumn], first_row: u32) {
    for (column, other) in columns.iter_mut().zip(others) {
        column.append(other, first_row);
    }
}

/// The integers of an arg, if it was read as such.
pub fn integers(arg: &ArgColumn) -> Option<&[i64]> {
    match &arg.values {
        ArgValues::Int(values) => Some(values),
        _ => None,
    }
}
