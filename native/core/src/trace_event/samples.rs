//! Events without a duration: instants, counters, ends of flow events, labels.

use crate::problems::Problem;
use crate::trace_event::args::push_args;
use crate::trace_event::columns::{FlowPhase, intern};
use crate::trace_event::events::EventSink;
use crate::trace_event::fields::{Field, Fields};
use crate::trace_event::kineto::{MAX_TIME_NS, MIN_TIME_NS};
use crate::trace_event::lexer::{RawKind, members, value};
use crate::trace_event::number::{Decimal, TO_NS, decimal, float, hexadecimal};
use crate::trace_event::place::Place;

impl EventSink {
    pub fn instant(&mut self, at: &Place, fields: &Fields, id: u32) {
        if !self.filter.instants {
            self.store.counts.instants += 1;
            self.store.counts.skipped += 1;
            return;
        }
        let Some(time) = self.time(at, fields.get(Field::Time)) else { return };
        self.store.counts.instants += 1;
        let category = self.store.categories.code(at.w, fields.get(Field::Category));
        let name = self.name(at, fields.get(Field::Name));
        let track = self.track(at, fields);
        let instants = &mut self.store.instants;
        let row = instants.id.len() as u32;
        instants.id.push(id);
        instants.category.push(category);
        instants.name.push(name);
        instants.track.push(track);
        instants.time.push(time);
        push_args(&mut self.store.instants.args, &self.scratch, row, at, &mut self.store.problems);
    }

    pub fn counter(&mut self, at: &Place, fields: &Fields, id: u32) {
        if !self.filter.counters {
            self.store.counts.counters += 1;
            self.store.counts.skipped += 1;
            return;
        }
        let Some(time) = self.time(at, fields.get(Field::Time)) else { return };
        if fields.get(Field::Args).is_absent() {
            self.problem(Problem::BadCounter, at);
            return;
        }
        let name = self.name(at, fields.get(Field::Name));
        let track = self.track(at, fields);
        let (names, counters) = (&mut self.store.names, &mut self.store.counters);
        let mut samples = 0;
        let read = members(at.w, fields.get(Field::Args).start(), |key, start| {
            let (raw, end) = value(at.w, start)?;
            if let Some(sample) = float(raw.of(at.w)) {
                samples += 1;
                counters.id.push(id);
                counters.name.push(name);
                counters.series.push(intern(names, at.w, key));
                counters.track.push(track);
                counters.time.push(time);
                counters.value.push(sample);
            }
            Ok(end)
        });
        if samples == 0 {
            self.problem(Problem::BadCounter, at);
            return;
        }
        self.store.counts.counters += 1;
        if read.is_err() {
            self.problem(Problem::BadArgument, at);
        }
    }

    pub fn flow(&mut self, at: &Place, fields: &Fields, phase: FlowPhase) {
        if !self.filter.flows {
            self.store.counts.flows += 1;
            self.store.counts.skipped += 1;
            return;
        }
        let text = fields.get(Field::Id).of(at.w);
        let (Decimal::Is { value: time @ MIN_TIME_NS..=MAX_TIME_NS, .. }, false) =
            (decimal(fields.get(Field::Time).of(at.w), TO_NS), text.is_empty())
        else {
            self.problem(Problem::BadFlow, at);
            return;
        };
        self.store.counts.flows += 1;
        let flow = match (hexadecimal(text), decimal(text, 0)) {
            (Some(value), _) => value as i64,
            (None, Decimal::Is { value, .. }) => value,
            // Ids that are no numbers are numbered, downwards.
            _ => {
                self.needs_others = true;
                -1 - i64::from(self.flow_names.code(text))
            }
        };
        let category = self.store.categories.code(at.w, fields.get(Field::Category));
        let track = self.thread(at, fields);
        let flows = &mut self.store.flows;
        flows.category.push(category);
        flows.flow.push(flow);
        flows.phase.push(phase);
        flows.track.push(track);
        flows.time.push(time);
    }

    pub fn label(&mut self, at: &Place, fields: &Fields) {
        self.store.counts.labels += 1;
        if !self.filter.labels {
            self.store.counts.skipped += 1;
            return;
        }
        let label = self.name(at, fields.get(Field::Name));
        let track = self.track(at, fields);
        let key_of_value = key_of_label(fields.get(Field::Name).of(at.w));
        let mut has_value = false;
        let (names, labels) = (&mut self.store.names, &mut self.store.labels);
        let args = fields.get(Field::Args);
        let read = (args.kind == RawKind::Nested).then(|| {
            members(at.w, args.start(), |key, start| {
                let (raw, end) = value(at.w, start)?;
                has_value |= key_of_value.is_none_or(|wanted| key.of(at.w) == wanted);
                labels.label.push(label);
                labels.track.push(track);
                labels.value.push(intern(names, at.w, raw));
                Ok(end)
            })
        });
        if !has_value || !matches!(read, Some(Ok(_))) {
            self.problem(Problem::BadLabel, at);
        }
    }
}

/// The arg that has the value of a label which viewers know.
fn key_of_label(name: &[u8]) -> Option<&'static [u8]> {
    match name {
        b"process_name" | b"thread_name" => Some(b"name"),
        b"process_labels" => Some(b"labels"),
        b"process_sort_index" | b"thread_sort_index" => Some(b"sort_index"),
        _ => None,
    }
}
