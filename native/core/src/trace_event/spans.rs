//! Events with a duration, whole or as a begin and an end.

use crate::columns::arrow::NONE;
use crate::problems::Problem;
use crate::trace_event::args::push_args;
use crate::trace_event::columns::intern;
use crate::trace_event::events::{Begun, EventSink};
use crate::trace_event::fields::{Field, Fields};
use crate::trace_event::kineto::{Class, MAX_DURATION_NS};
use crate::trace_event::lexer::{RawKind, members, value};
use crate::trace_event::number::float;
use crate::trace_event::place::Place;

impl EventSink {
    #[inline(always)]
    pub fn complete(&mut self, at: &Place, fields: &Fields, id: u32) {
        let category = self.store.categories.code(at.w, fields.get(Field::Category));
        let class = self.store.categories.class(category);
        if !self.filter.holds(class, at.w, fields.get(Field::Name)) {
            self.store.counts.complete += 1;
            self.store.counts.skipped += 1;
            return;
        }
        let Some(start) = self.time(at, fields.get(Field::Time)) else { return };
        self.store.counts.complete += 1;
        let duration = self.duration(at, fields.get(Field::Duration));
        self.push_span(at, fields, id, category, class, start, start + duration);
    }

    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // The row, column by column.
    pub fn push_span(
        &mut self,
        at: &Place,
        fields: &Fields,
        id: u32,
        category: u32,
        class: Class,
        start: i64,
        end: i64,
    ) {
        let name = self.name(at, fields.get(Field::Name));
        let track = self.thread(at, fields);
        let spans = &mut self.store.spans;
        let row = spans.id.len() as u32;
        spans.id.push(id);
        spans.category.push(category);
        spans.name.push(name);
        spans.track.push(track);
        spans.start.push(start);
        spans.end.push(end);
        spans.class.push(class);
        if !self.scratch.is_empty() && self.projection.by_class[class as usize] {
            push_args(&mut self.store.spans.args, &self.scratch, row, at, &mut self.store.problems);
        }
        if class == Class::Profiled && self.filter.hardware_counters {
            self.hardware_counters(at, fields, row);
        }
    }

    /// Each arg that is a number, whatever it is called.
    #[cold]
    pub fn hardware_counters(&mut self, at: &Place, fields: &Fields, row: u32) {
        if fields.get(Field::Args).kind != RawKind::Nested {
            return;
        }
        let (names, counters) = (&mut self.store.names, &mut self.store.hardware_counters);
        // The args were scanned before, so this cannot stop.
        let _ = members(at.w, fields.get(Field::Args).start(), |key, start| {
            let (raw, end) = value(at.w, start)?;
            if let Some(sample) = float(raw.of(at.w)) {
                counters.row.push(row);
                counters.counter.push(intern(names, at.w, key));
                counters.value.push(sample);
            }
            Ok(end)
        });
    }

    pub fn begin(&mut self, at: &Place, fields: &Fields, id: u32) {
        let Some(start) = self.time(at, fields.get(Field::Time)) else { return };
        self.store.counts.begins += 1;
        let category = self.store.categories.code(at.w, fields.get(Field::Category));
        let class = self.store.categories.class(category);
        let track = self.track(at, fields) as usize;
        let row = if self.filter.classes[class as usize] {
            self.push_span(at, fields, id, category, class, start, start);
            self.store.spans.id.len() as u32 - 1
        } else {
            self.store.counts.skipped += 1;
            NONE
        };
        if self.open.len() <= track {
            self.open.resize_with(track + 1, Vec::new);
        }
        self.open[track].push(Begun { id, row });
    }

    /// The event that an entry is the end of, before it is taken.
    pub fn begun(&mut self, w: &[u8], fields: &Fields) -> Option<u32> {
        if fields.phase != b'E' {
            return None;
        }
        let track = self.track(&Place { w, start: 0, end: 0, origin: 0 }, fields) as usize;
        self.open.get(track)?.last().map(|begun| begun.id)
    }

    pub fn end(&mut self, at: &Place, fields: &Fields) {
        let track = self.thread(at, fields) as usize;
        let Some(Begun { row, .. }) = self.open.get_mut(track).and_then(Vec::pop) else {
            self.problem(Problem::EndWithoutBegin, at);
            return;
        };
        let Some(end) = self.time(at, fields.get(Field::Time)) else { return };
        self.store.counts.ends += 1;
        if row == NONE {
            self.store.counts.skipped += 1;
            return;
        }
        let class = self.store.spans.class[row as usize];
        if !self.scratch.is_empty() && self.projection.by_class[class as usize] {
            push_args(&mut self.late, &self.scratch, row, at, &mut self.store.problems);
        }
        let start = self.store.spans.start[row as usize];
        self.store.spans.end[row as usize] = match end - start {
            ..0 => {
                self.problem(Problem::NegativeDuration, at);
                start
            }
            0..=MAX_DURATION_NS => end,
            _ => {
                self.problem(Problem::AbsurdDuration, at);
                start
            }
        };
    }
}
