//! One file's columns, and how those of its parts are put together.

use std::sync::OnceLock;

use crate::columns::arg_column::{ArgColumn, ArgType};
use crate::columns::arrow::NONE;
use crate::columns::interner::Interner;
use crate::error::{Error, Result};
use crate::memory::has_room;
use crate::problems::Problems;
use crate::trace_event::columns::{
    Categories, Counters, Counts, Flows, HardwareCounters, Instants, Labels, Spans, Tracks,
};
use crate::trace_event::kineto::Class;

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
    /// Spans of the file; those behind are made of them (`host_work`).
    pub recorded: usize,
    /// The top-level keys other than the events, each with its value as JSON text.
    pub metadata: Vec<(String, String)>,
    /// For each event on a device the row of the call that launched it, or `NONE`: found once all is read.
    pub(super) launches: OnceLock<Vec<u32>>,
    /// In the order they begin, as well.
    pub(super) steps: OnceLock<Vec<Step>>,
}

/// Number, start and row of a step.
pub type Step = (i64, i64, u32);

impl Store {
    /// An empty one, with columns for the args that were asked for.
    pub fn new(args: &[(String, ArgType)]) -> Self {
        let mut store = Self::default();
        store.spans.args = arg_columns(args);
        store.instants.args = arg_columns(args);
        store
    }

    pub fn name_of(&self, row: u32) -> Option<&[u8]> {
        let name = self.spans.name[row as usize];
        (name != NONE).then(|| self.names.get(name))
    }

    /// Whether the file lists accelerators of the machine.
    pub fn has_accelerators(&self) -> bool {
        let listed = self.metadata.iter().find(|(key, _)| key == "deviceProperties");
        listed.is_some_and(|(_, text)| text.contains('{'))
    }

    /// Whether the file says that its ranks are in one group.
    pub fn has_one_group(&self) -> bool {
        let told = self.metadata.iter().find(|(key, _)| key == "distributedInfo");
        let count = told.and_then(|(_, text)| text.split_once("\"pg_count\"")).map(|(_, behind)| behind);
        let count = count.map(|behind| behind.trim_start_matches([' ', ':', '\n', '\t']));
        count.is_some_and(|text| text.starts_with('1') && !text[1..].starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Whether rows were made of the file's.
    pub fn computes_on_host(&self) -> bool {
        self.recorded < self.spans.id.len()
    }

    pub fn has_device_events(&self) -> bool {
        self.spans.class.contains(&Class::Device)
    }

    /// Take what was read of the text that follows out of its store, which keeps its memory.
    pub fn append(&mut self, other: &mut Store) -> Result<()> {
        self.make_room(other)?;
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
        self.check_numbers()
    }

    /// Reserve what the rows of another need, so that an error says where memory runs out.
    fn make_room(&mut self, other: &Store) -> Result<()> {
        has_room(0)?;
        let (spans, others) = (&mut self.spans, &other.spans);
        let count = others.id.len();
        for codes in [&mut spans.id, &mut spans.category, &mut spans.name, &mut spans.track] {
            codes.try_reserve(count)?;
        }
        spans.start.try_reserve(count)?;
        spans.end.try_reserve(count)?;
        spans.class.try_reserve(count)?;
        let instants = self.instants.args.iter_mut().zip(&other.instants.args);
        for (column, other) in self.spans.args.iter_mut().zip(&other.spans.args).chain(instants) {
            column.make_room(other)?;
        }
        // A flow event has two ends of these, a counter a sample for each.
        self.flows.flow.try_reserve(other.flows.flow.len())?;
        self.flows.time.try_reserve(other.flows.time.len())?;
        self.counters.value.try_reserve(other.counters.value.len())?;
        self.counters.time.try_reserve(other.counters.time.len())?;
        Ok(())
    }

    /// Entries are numbered in 32 bits: of more, some would share their number.
    pub fn check_numbers(&self) -> Result<()> {
        if self.counts.entries < u64::from(NONE) {
            return Ok(());
        }
        let reason = "it has more than four billion entries; record fewer steps".into();
        Err(Error::NotATrace { offset: self.counts.text_bytes, reason })
    }
}

/// A column without values for each arg.
pub fn arg_columns(args: &[(String, ArgType)]) -> Vec<ArgColumn> {
    args.iter().map(|(key, kind)| ArgColumn::new(key.clone(), *kind)).collect()
}

fn append_args(columns: &mut [ArgColumn], others: &mut [ArgColumn], first_row: u32) {
    for (column, other) in columns.iter_mut().zip(others) {
        column.append(other, first_row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_beyond_four_billion_do_not_share_their_numbers() {
        let mut store = Store::new(&[]);
        store.counts.entries = u64::from(NONE) - 2;
        let mut next = Store::new(&[]);
        next.counts.entries = 1;
        store.append(&mut next).unwrap();
        next.counts.entries = 1;
        assert!(store.append(&mut next).unwrap_err().to_string().contains("four billion entries"));
    }
}
