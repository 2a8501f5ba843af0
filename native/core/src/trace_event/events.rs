//! What becomes of an entry of the events array: a row of a table, or a problem.

use crate::columns::table::{ArgColumn, ArgValues, Interner, NONE};
use crate::problems::{Problem, Problems};
use crate::trace_event::Options;
use crate::trace_event::fields::{CLASSES, EntryVisitor, Field, Fields, Kept, Wanted};
use crate::trace_event::kineto::{Class, MAX_DURATION_NS, MAX_TIME_NS, MIN_TIME_NS};
use crate::trace_event::lexer::{Decimal, Raw, RawKind, Scan, decimal, decode, members, value};
use crate::trace_event::store::{FlowPhase, Store, intern};
use crate::trace_event::templates::Layouts;

/// Decimal places from microseconds to nanoseconds.
pub const TO_NS: i32 = 3;

/// Takes entries into a store.
pub struct Taker {
    pub store: Store,
    /// Entries that had a phase, or a time and a duration: what makes a file a trace.
    pub recognised: u64,
    entries: Layouts<Field>,
    arg_layouts: [Layouts<u32>; CLASSES],
    wanted: Wanted,
    kept: Kept,
    /// Args of the entry being read: their column and value.
    scratch: Vec<(u32, Raw)>,
    /// Ids of arrows that are no numbers.
    flow_names: Interner,
    /// By track: the spans begun and not ended.
    open: Vec<Vec<Begun>>,
    /// Whether an entry needed others of the file: the end of a span, an id that is no number.
    pub needs_others: bool,
}

/// A span whose end is to come.
struct Begun {
    id: u32,
    /// `NONE` if it is not kept.
    row: u32,
}

impl Taker {
    pub fn new(options: &Options) -> Self {
        Self {
            store: Store::new(&options.args),
            recognised: 0,
            entries: Layouts::default(),
            arg_layouts: Default::default(),
            wanted: Wanted::of(options),
            kept: Kept::of(options),
            scratch: Vec::new(),
            flow_names: Interner::default(),
            open: Vec::new(),
            needs_others: false,
        }
    }

    /// Find all fields of every entry, also of those that no table holds.
    pub fn find_all_fields(&mut self) {
        self.kept.all_fields = true;
    }

    /// What was taken so far; what comes goes into a store that is empty.
    pub fn take_store(&mut self, empty: Store) -> Store {
        self.open.clear();
        self.recognised = 0;
        self.needs_others = false;
        std::mem::replace(&mut self.store, empty)
    }

    /// Say which spans never ended, at the end of the text.
    pub fn end_of_text(&mut self, end: u64) {
        for Begun { row, .. } in std::mem::take(&mut self.open).into_iter().flatten().filter(|begun| begun.row != NONE)
        {
            let name = self.store.spans.name[row as usize];
            let name = if name == NONE { Vec::new() } else { self.store.names.get(name).to_vec() };
            self.store.problems.add(Problem::BeginWithoutEnd, end, &name);
        }
    }

    /// The fields of the entry whose brace is at `at`, its wanted args in `scratch`; returns the position behind it.
    #[inline(always)]
    pub fn fields(&mut self, w: &[u8], at: usize, fields: &mut Fields) -> Scan<usize> {
        let Self { entries, store, kept, wanted, scratch, arg_layouts, .. } = self;
        let (categories, class) = (&mut store.categories, Class::Other);
        entries.read(w, at, &mut EntryVisitor { w, fields, categories, class, kept, wanted, scratch, arg_layouts })
    }

    /// Put a whole entry where it belongs.
    #[inline(always)]
    pub fn take(&mut self, w: &[u8], fields: &Fields, start: usize, end: usize, origin: i64) {
        let id = self.store.counts.entries as u32;
        self.store.counts.entries += 1;
        let at = Place { w, start, end, origin };
        if fields.has_duplicate {
            self.problem(Problem::DuplicateKey, &at);
        }
        match fields.phase {
            b'X' => {
                self.recognised += 1;
                self.complete(&at, fields, id);
            }
            0 if !fields.get(Field::Time).is_absent() && !fields.get(Field::Duration).is_absent() => {
                self.recognised += 1;
                self.problem(Problem::MissingPhase, &at);
                self.complete(&at, fields, id);
            }
            _ => self.take_rare(&at, fields, id),
        }
    }

    fn take_rare(&mut self, at: &Place, fields: &Fields, id: u32) {
        self.recognised += u64::from(fields.phase != 0);
        self.needs_others |= matches!(fields.phase, b'B' | b'E');
        match fields.phase {
            b'B' => self.begin(at, fields, id),
            b'E' => self.end(at, fields),
            b'i' | b'I' => self.instant(at, fields, id),
            b'C' => self.counter(at, fields, id),
            b's' => self.flow(at, fields, FlowPhase::Start),
            b't' => self.flow(at, fields, FlowPhase::Step),
            b'f' => self.flow(at, fields, FlowPhase::End),
            b'M' => self.label(at, fields),
            0 => self.problem(Problem::NotAnEvent, at),
            _ => self.problem(Problem::UnknownPhase, at),
        }
    }

    #[inline(always)]
    fn complete(&mut self, at: &Place, fields: &Fields, id: u32) {
        let category = self.store.categories.code(at.w, fields.get(Field::Category));
        let class = self.store.categories.class(category);
        if !self.kept.holds(class, at.w, fields.get(Field::Name)) {
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
    fn push_span(&mut self, at: &Place, fields: &Fields, id: u32, category: u32, class: Class, start: i64, end: i64) {
        let name = self.name(at, fields.get(Field::Name));
        let track = self.track(at, fields);
        let spans = &mut self.store.spans;
        let row = spans.id.len() as u32;
        spans.id.push(id);
        spans.category.push(category);
        spans.name.push(name);
        spans.track.push(track);
        spans.start.push(start);
        spans.end.push(end);
        spans.class.push(class);
        if !self.scratch.is_empty() && self.wanted.by_class[class as usize] {
            push_args(&mut self.store.spans.args, &self.scratch, row, at, &mut self.store.problems);
        }
        if class == Class::Profiled && self.kept.hardware_counters {
            self.hardware_counters(at, fields, row);
        }
    }

    /// Each arg that is a number, whatever it is called.
    #[cold]
    fn hardware_counters(&mut self, at: &Place, fields: &Fields, row: u32) {
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

    fn begin(&mut self, at: &Place, fields: &Fields, id: u32) {
        let Some(start) = self.time(at, fields.get(Field::Time)) else { return };
        self.store.counts.begins += 1;
        let category = self.store.categories.code(at.w, fields.get(Field::Category));
        let class = self.store.categories.class(category);
        let track = self.track(at, fields) as usize;
        let row = if self.kept.classes[class as usize] {
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

    fn end(&mut self, at: &Place, fields: &Fields) {
        let track = self.track(at, fields) as usize;
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

    fn instant(&mut self, at: &Place, fields: &Fields, id: u32) {
        if !self.kept.instants {
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

    fn counter(&mut self, at: &Place, fields: &Fields, id: u32) {
        if !self.kept.counters {
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
        // The args were scanned before, so this cannot stop.
        let _ = members(at.w, fields.get(Field::Args).start(), |key, start| {
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
        } else {
            self.store.counts.counters += 1;
        }
    }

    fn flow(&mut self, at: &Place, fields: &Fields, phase: FlowPhase) {
        if !self.kept.flows {
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
            (Some(value), _) => value,
            (None, Decimal::Is { value, .. }) => value,
            // Ids that are no numbers are numbered, downwards.
            _ => {
                self.needs_others = true;
                -1 - i64::from(self.flow_names.code(text))
            }
        };
        let category = self.store.categories.code(at.w, fields.get(Field::Category));
        let track = self.track(at, fields);
        let flows = &mut self.store.flows;
        flows.category.push(category);
        flows.flow.push(flow);
        flows.phase.push(phase);
        flows.track.push(track);
        flows.time.push(time);
    }

    fn label(&mut self, at: &Place, fields: &Fields) {
        self.store.counts.labels += 1;
        if !self.kept.labels {
            self.store.counts.skipped += 1;
            return;
        }
        let label = self.name(at, fields.get(Field::Name));
        let track = self.track(at, fields);
        if fields.get(Field::Args).is_absent() {
            return;
        }
        let (names, labels) = (&mut self.store.names, &mut self.store.labels);
        // The args were scanned before, so this cannot stop.
        let _ = members(at.w, fields.get(Field::Args).start(), |_, start| {
            let (raw, end) = value(at.w, start)?;
            labels.label.push(label);
            labels.track.push(track);
            labels.value.push(intern(names, at.w, raw));
            Ok(end)
        });
    }

    #[inline(always)]
    fn name(&mut self, at: &Place, raw: Raw) -> u32 {
        if raw.is_absent() {
            self.problem(Problem::MissingName, at);
            return NONE;
        }
        let text = raw.of(at.w);
        let is_odd = raw.kind == RawKind::EscapedText || !text.is_ascii();
        if is_odd && decode(text).1 {
            self.problem(Problem::BadText, at);
        }
        intern(&mut self.store.names, at.w, raw)
    }

    #[inline(always)]
    fn track(&mut self, at: &Place, fields: &Fields) -> u32 {
        self.store.tracks.code(fields.get(Field::Pid).of(at.w), fields.get(Field::Tid).of(at.w))
    }

    /// Nanoseconds of a start time; without one the entry is lost, and said to be.
    #[inline(always)]
    fn time(&mut self, at: &Place, raw: Raw) -> Option<i64> {
        match decimal(raw.of(at.w), TO_NS) {
            Decimal::Is { value: value @ MIN_TIME_NS..=MAX_TIME_NS, rounded } => {
                if rounded || raw.kind != RawKind::Bare {
                    self.odd_number(at, raw, rounded);
                }
                Some(value)
            }
            Decimal::Is { .. } | Decimal::Overflow => {
                self.problem(Problem::TimeOverflow, at);
                None
            }
            Decimal::Not => {
                self.problem(Problem::MissingTime, at);
                None
            }
        }
    }

    #[inline(always)]
    fn duration(&mut self, at: &Place, raw: Raw) -> i64 {
        match decimal(raw.of(at.w), TO_NS) {
            Decimal::Is { value: value @ 0..=MAX_DURATION_NS, rounded: false } if raw.kind == RawKind::Bare => value,
            other => self.odd_duration(at, raw, other),
        }
    }

    #[cold]
    fn odd_duration(&mut self, at: &Place, raw: Raw, decimal: Decimal) -> i64 {
        match decimal {
            Decimal::Is { value, .. } if value < 0 => self.problem(Problem::NegativeDuration, at),
            Decimal::Is { value, .. } if value > MAX_DURATION_NS => self.problem(Problem::AbsurdDuration, at),
            Decimal::Overflow => self.problem(Problem::AbsurdDuration, at),
            Decimal::Not => self.problem(Problem::MissingDuration, at),
            Decimal::Is { value, rounded } => {
                self.odd_number(at, raw, rounded);
                return value;
            }
        }
        0
    }

    #[cold]
    fn odd_number(&mut self, at: &Place, raw: Raw, rounded: bool) {
        if rounded {
            self.problem(Problem::SubNanosecond, at);
        }
        if raw.is_text() {
            self.problem(Problem::NumberAsText, at);
        }
    }

    #[cold]
    fn problem(&mut self, problem: Problem, at: &Place) {
        self.store.problems.add(problem, offset(at.origin, at.start), &at.w[at.start..at.end]);
    }
}

/// Where an entry stands, for what is said of it.
struct Place<'a> {
    w: &'a [u8],
    start: usize,
    end: usize,
    origin: i64,
}

pub fn offset(origin: i64, at: usize) -> u64 {
    (origin + at as i64).max(0) as u64
}

fn float(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok().filter(|value: &f64| value.is_finite())
}

fn hexadecimal(text: &[u8]) -> Option<i64> {
    let digits = std::str::from_utf8(text.strip_prefix(b"0x")?).ok()?;
    u64::from_str_radix(digits, 16).ok().map(|value| value as i64)
}

/// Keep the args of one row.
#[inline(always)]
fn push_args(columns: &mut [ArgColumn], scratch: &[(u32, Raw)], row: u32, at: &Place, problems: &mut Problems) {
    for &(column, raw) in scratch {
        let column = &mut columns[column as usize];
        let text = raw.of(at.w);
        if raw.kind == RawKind::Bare && text == b"null" {
            continue;
        }
        let is_again = column.rows.last() == Some(&row);
        let kept = match &mut column.values {
            ArgValues::Int(values) => match decimal(text, 0) {
                Decimal::Is { value, .. } => put(values, value, is_again),
                // Pointers, e.g. a ROCm stream as the host sees it: not the number that is asked for, and no damage.
                _ if hexadecimal(text).is_some() => continue,
                _ => false,
            },
            ArgValues::Float(values) => float(text).is_some_and(|value| put(values, value, is_again)),
            ArgValues::Text(codes, strings) => put(codes, intern(strings, at.w, raw), is_again),
        };
        let is_number = !matches!(column.values, ArgValues::Text(..));
        if kept && !is_again {
            column.rows.push(row);
        }
        if (is_number && raw.kind != RawKind::Bare) || is_again || !kept {
            let problem = match (is_again, kept) {
                (true, _) => Problem::DuplicateKey,
                (false, true) => Problem::NumberAsText,
                (false, false) => Problem::BadArgument,
            };
            problems.add(problem, offset(at.origin, raw.start()), text);
        }
    }
}

/// Add a value, or put it in the place of the last one; true, as it is kept.
fn put<T>(values: &mut Vec<T>, value: T, is_again: bool) -> bool {
    match values.last_mut() {
        Some(last) if is_again => *last = value,
        _ => values.push(value),
    }
    true
}
