//! The tables of a file: which columns each has, and of which rows.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, UInt32Array};

use crate::columns::arrow::{NONE, all_ids, at_rows, batch, ids, times, times_or_null};
use crate::error::{Error, Result};
use crate::memory::has_room;
use crate::trace_event::flows;
use crate::trace_event::kineto::{Class, Table, step_number};
use crate::trace_event::launches;
use crate::trace_event::store::{Step, Store};

/// Of a column, as it is and while it is made.
const ROW_BYTES: usize = 12;

/// Makes a table's columns by name; `None` for a name it does not know.
type ColumnProvider<'a> = Box<dyn Fn(&str) -> Option<ArrayRef> + 'a>;

impl Store {
    /// A table by name, with the named columns; those read from args go by their key there.
    pub fn table(&self, name: &str, columns: &[String]) -> Result<RecordBatch> {
        let table = Table::named(name).ok_or_else(|| Error::UnknownTable(name.into()))?;
        // Rows to choose, then a column after the other; some of them are gathered before they are Arrow's.
        let most = self.spans.id.len().max(self.flows.time.len()).max(self.counters.time.len());
        has_room(most.saturating_mul(ROW_BYTES).saturating_mul(columns.len() + 1))?;
        let made = self.provider(table);
        let mut out = Vec::with_capacity(columns.len());
        for column in columns {
            let array = made(column).ok_or_else(|| Error::unknown_column(name, column))?;
            out.push((column.clone(), array));
        }
        batch(out)
    }

    fn provider<'a>(&'a self, table: Table) -> ColumnProvider<'a> {
        match table {
            Table::Events => self.span_columns((0..self.recorded as u32).collect()),
            Table::DeviceEvents => self.device_columns(),
            Table::CpuOps => self.span_columns(self.rows(|class| class == Class::CpuOp)),
            Table::Collectives => self.span_columns(self.collective_rows()),
            Table::Annotations => self.annotation_columns(),
            Table::PythonCalls => self.span_columns(self.rows(|class| class == Class::Python)),
            Table::RuntimeCalls => self.span_columns(self.rows(|class| class == Class::Runtime)),
            Table::Launches => self.launch_columns(),
            Table::Steps => self.step_columns(),
            Table::Instants => self.instant_columns((0..self.instants.id.len() as u32).collect()),
            Table::Memory => self.instant_columns(self.memory_rows()),
            Table::Counters => self.counter_columns(),
            Table::HardwareCounters => self.hardware_counter_columns(),
            Table::Flows => self.flow_columns(),
            Table::TrackLabels => self.label_columns(),
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
}

/// Events with a duration.
impl Store {
    fn span_columns<'a>(&'a self, rows: Vec<u32>) -> ColumnProvider<'a> {
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

    fn device_columns<'a>(&'a self) -> ColumnProvider<'a> {
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
        self.launches.get_or_init(|| launches::launches(&self.spans, device))
    }

    fn launch_columns<'a>(&'a self) -> ColumnProvider<'a> {
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

    fn annotation_columns<'a>(&'a self) -> ColumnProvider<'a> {
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
}

/// Steps.
impl Store {
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

    fn step_columns<'a>(&'a self) -> ColumnProvider<'a> {
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
}

/// What has no duration.
impl Store {
    fn instant_columns<'a>(&'a self, rows: Vec<u32>) -> ColumnProvider<'a> {
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

    fn counter_columns<'a>(&'a self) -> ColumnProvider<'a> {
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

    fn hardware_counter_columns<'a>(&'a self) -> ColumnProvider<'a> {
        let counters = &self.hardware_counters;
        Box::new(move |column| {
            Some(match column {
                "counter" => self.names.dictionary(counters.counter.iter().copied()),
                "value" => Arc::new(Float64Array::from_iter_values(counters.value.iter().copied())),
                _ => return self.span_column(&counters.row, column),
            })
        })
    }

    fn flow_columns<'a>(&'a self) -> ColumnProvider<'a> {
        let found = flows::flow_events(&self.flows, &self.spans, self.recorded);
        let flows = &self.flows;
        Box::new(move |column| {
            let at = |times: &'a Vec<i64>, row: u32| (row != NONE).then(|| times[row as usize]);
            let optional = |of: &dyn Fn(&flows::FlowEvent) -> Option<i64>| times_or_null(found.iter().map(of));
            let id = |row: u32| if row == NONE { NONE } else { self.spans.id[row as usize] };
            let track = |end: u32| flows.track.get(end as usize).copied().unwrap_or(NONE);
            let tails = found.iter().map(|flow| track(flow.source));
            let heads = found.iter().map(|flow| track(flow.destination));
            Some(match column {
                "category" => self.categories.names.dictionary(found.iter().map(|flow| flow.category)),
                "flow" => times(found.iter().map(|flow| flow.flow)),
                "from_id" => ids(found.iter().map(|flow| id(flow.from_span))),
                "to_id" => ids(found.iter().map(|flow| id(flow.to_span))),
                "from_ns" => optional(&|flow| at(&flows.time, flow.source)),
                "to_ns" => optional(&|flow| at(&flows.time, flow.destination)),
                "from_pid" => self.tracks.pids(tails),
                "from_tid" => self.tracks.tids(tails),
                "to_pid" => self.tracks.pids(heads),
                "to_tid" => self.tracks.tids(heads),
                _ => return None,
            })
        })
    }

    fn label_columns<'a>(&'a self) -> ColumnProvider<'a> {
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
