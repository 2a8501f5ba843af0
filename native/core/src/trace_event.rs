//! Trace-event JSON: scan blocks, find events, survive damage.

use std::time::{Duration, Instant};

use crate::layout::{Layouts, Visitor};
use crate::error::{Error, Result};
use crate::input::{Block, Blocks, HEADROOM};
use crate::kineto::{Class, MAX_DURATION_NS, Table};
use crate::links::CORRELATION;
use crate::problems::Problem;
use crate::scan::{
    Decimal, Raw, RawKind, Scan, Stop, byte, decimal, decode, members, nested, skip_space, value,
};
use crate::store::{Categories, FlowPhase, Store, arg_columns, intern};
use crate::table::{ArgColumn, ArgType, ArgValues, Interner, NONE};

/// One entry larger than this is left out: nothing a profiler writes, and it would have to be held whole.
const MAX_ENTRY_BYTES: usize = 64 << 20;
/// Metadata kept of one file.
const MAX_METADATA_BYTES: usize = 64 << 20;
/// How far behind a malformed entry a candidate for the next one may reach before it is given up.
const MAX_RESYNC_BYTES: usize = 1 << 20;
const CANCEL_CHECK: Duration = Duration::from_millis(100);
/// Decimal places from microseconds to nanoseconds.
const TO_NS: i32 = 3;

/// What to keep of a file.
pub struct Options {
    pub tables: Vec<Table>,
    pub args: Vec<(String, ArgType)>,
}

/// Read a trace; `cancelled` is asked now and then whether to stop.
pub fn read(blocks: Blocks, options: &Options, cancelled: &mut dyn FnMut() -> bool) -> Result<Store> {
    let mut window = Window { block: Block::new(), at: 0, origin: 0, blocks, text_bytes: 0 };
    let mut reader = Reader::new(options);
    let mut last_check = Instant::now();
    loop {
        match reader.advance(&window.block, &mut window.at, window.origin) {
            Err(Stop::More) => {}
            Err(Stop::Bad(at)) => {
                reader.recover(&window.block, &mut window.at, at, window.origin)?;
                continue;
            }
            Ok(()) => unreachable!("advance only ends for want of text or sense"),
        }
        if window.pending() > MAX_ENTRY_BYTES {
            reader.leave_out(Problem::TooLarge, &window.block, &mut window.at, window.origin);
            continue;
        }
        if last_check.elapsed() > CANCEL_CHECK {
            if cancelled() {
                return Err(Error::Cancelled);
            }
            last_check = Instant::now();
        }
        if !window.extend() {
            break;
        }
    }
    reader.finish(&window)?;
    let mut store = reader.store;
    store.counts.text_bytes = window.text_bytes;
    store.counts.file_bytes = window.blocks.file_bytes;
    Ok(store)
}

/// The text being scanned: a block, with what was left of the ones before it in front.
struct Window {
    block: Block,
    /// Where unread text begins.
    at: usize,
    /// Offset in the file of the block's first byte, headroom included: it may lie before the file.
    origin: i64,
    blocks: Blocks,
    text_bytes: u64,
}

impl Window {
    fn pending(&self) -> usize {
        self.block.len() - self.at
    }

    /// Get more text behind what is unread; false at the end of the file.
    fn extend(&mut self) -> bool {
        // An entry that spans many blocks is scanned anew only each time it has doubled.
        let wanted = self.pending() * 2;
        let mut any = false;
        while !any || self.pending() < wanted {
            let Some(next) = self.blocks.next() else { return any };
            self.text_bytes += (next.len() - HEADROOM) as u64;
            self.append(next);
            any = true;
        }
        any
    }

    fn append(&mut self, mut next: Block) {
        let rest = self.pending();
        let file_offset = self.origin + self.at as i64;
        if rest <= HEADROOM {
            let at = HEADROOM - rest;
            next[at..HEADROOM].copy_from_slice(&self.block[self.at..]);
            let old = std::mem::replace(&mut self.block, next);
            self.blocks.recycle(old);
            self.at = at;
        } else {
            self.block.drain(..self.at);
            self.block.extend_from_slice(&next[HEADROOM..]);
            self.blocks.recycle(next);
            self.at = 0;
        }
        self.origin = file_offset - self.at as i64;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    /// Between the keys of the top-level object.
    Object,
    /// In the array of events; of a bare array where `Reader::is_bare`.
    Events,
    /// Behind a malformed entry, looking for the next whole one.
    Resync,
    /// The same in the top-level object, looking for its events.
    FindEvents,
    Done,
}

struct Reader {
    state: State,
    is_bare: bool,
    /// Whether an events array was found.
    has_events: bool,
    /// Entries that had a phase, or a time and a duration: what makes a file a trace.
    recognised: u64,
    after_entry: bool,
    /// Whether text behind the end was met.
    has_rest: bool,
    store: Store,
    entries: Layouts<Field>,
    arg_layouts: [Layouts<u8>; CLASSES],
    wanted: Wanted,
    /// Args of the entry being read: their column and value.
    scratch: Vec<(u8, Raw)>,
    kept: Kept,
    flow_names: Interner,
    /// By track: rows of the spans begun and not ended; `NONE` for one that is not kept.
    open: Vec<Vec<u32>>,
    /// Whether a key was met that only traces have.
    seen_metadata: bool,
}

const CLASSES: usize = Class::Other as usize + 1;

impl Reader {
    fn new(options: &Options) -> Self {
        let has = |table: Table| options.tables.contains(&table);
        let all = [
            Class::Device,
            Class::Runtime,
            Class::CpuOp,
            Class::Annotation,
            Class::DeviceAnnotation,
            Class::Python,
            Class::Other,
        ];
        let mut keeps = [false; CLASSES];
        let mut takes_args = [false; CLASSES];
        for class in all {
            let mut holding = options.tables.iter().filter(|table| table.holds(class));
            keeps[class as usize] = holding.clone().next().is_some();
            takes_args[class as usize] = !options.args.is_empty() && holding.any(|table| table.has_args());
        }
        let mut store = Store::default();
        store.spans.args = arg_columns(&options.args);
        let takes_instant_args = has(Table::Memory) || has(Table::Instants);
        if takes_instant_args {
            store.instants.args = arg_columns(&options.args);
        }
        Self {
            state: State::Start,
            is_bare: false,
            has_events: false,
            recognised: 0,
            after_entry: false,
            has_rest: false,
            store,
            entries: Layouts::default(),
            arg_layouts: Default::default(),
            wanted: Wanted {
                keys: Keys::new(&options.args),
                by_class: takes_args,
                of_instants: takes_instant_args && !options.args.is_empty(),
            },
            scratch: Vec::new(),
            kept: Kept {
                classes: keeps,
                instants: takes_instant_args,
                counters: has(Table::Counters),
                flows: has(Table::Flows),
                labels: has(Table::TrackLabels),
            },
            flow_names: Interner::default(),
            open: Vec::new(),
            seen_metadata: false,
        }
    }

    /// Read entry after entry, `at` always behind the last whole one.
    fn advance(&mut self, w: &[u8], at: &mut usize, origin: i64) -> Scan<()> {
        loop {
            match self.state {
                State::Events => self.events(w, at, origin)?,
                State::Start => self.start(w, at, origin)?,
                State::Object => self.member(w, at, origin)?,
                State::Resync => self.resync(w, at, origin)?,
                State::FindEvents => self.find_events(w, at)?,
                State::Done => self.rest(w, at, origin)?,
            }
        }
    }

    /// What stands behind the end: nothing, but for space, a comma or NULs.
    fn rest(&mut self, w: &[u8], at: &mut usize, origin: i64) -> Scan<()> {
        let is_text = |b: &u8| !matches!(b, b' ' | b'\n' | b'\r' | b'\t' | b',' | 0);
        let found = w[*at..].iter().position(is_text);
        let Some(text) = found.map(|found| *at + found).filter(|_| !self.has_rest) else {
            *at = w.len();
            return Err(Stop::More);
        };
        self.has_rest = true;
        self.store.problems.add(Problem::TrailingText, offset(origin, text), &w[text..]);
        *at = text;
        // A brace too many may have ended the object before its events.
        if !self.has_events {
            self.state = State::FindEvents;
        }
        Ok(())
    }

    fn start(&mut self, w: &[u8], at: &mut usize, origin: i64) -> Scan<()> {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        if byte(w, *at)? == MARK[0] && w.len() < *at + MARK.len() {
            return Err(Stop::More);
        }
        if w[*at..].starts_with(MARK) {
            self.store.problems.add(Problem::ByteOrderMark, offset(origin, *at), b"");
            *at += MARK.len();
        }
        let p = skip_space(w, *at)?;
        match w[p] {
            b'{' => self.state = State::Object,
            b'[' => {
                self.is_bare = true;
                self.has_events = true;
                self.state = State::Events;
            }
            _ => return Err(Stop::Bad(p)),
        }
        *at = p + 1;
        Ok(())
    }

    /// One key of the top-level object.
    fn member(&mut self, w: &[u8], at: &mut usize, origin: i64) -> Scan<()> {
        let mut p = skip_space(w, *at)?;
        if w[p] == b',' {
            p = skip_space(w, p + 1)?;
        }
        if w[p] == b'}' {
            self.state = State::Done;
            *at = p + 1;
            return Ok(());
        }
        if w[p] != b'"' {
            return Err(Stop::Bad(p));
        }
        let (key, next) = crate::scan::string(w, p)?;
        let colon = skip_space(w, next)?;
        if w[colon] != b':' {
            return Err(Stop::Bad(colon));
        }
        let start = skip_space(w, colon + 1)?;
        if key.of(w) == b"traceEvents" && w[start] == b'[' {
            if self.has_events {
                self.store.problems.add(Problem::DuplicateKey, offset(origin, p), key.of(w));
            }
            self.has_events = true;
            self.after_entry = false;
            self.state = State::Events;
            *at = start + 1;
            return Ok(());
        }
        let (raw, end) = value(w, start)?;
        self.keep_metadata(w, p, key, raw, end, origin);
        *at = end;
        Ok(())
    }

    fn keep_metadata(&mut self, w: &[u8], at: usize, key: Raw, raw: Raw, end: usize, origin: i64) {
        const KNOWN: [&[u8]; 7] = [
            b"schemaVersion",
            b"deviceProperties",
            b"distributedInfo",
            b"displayTimeUnit",
            b"baseTimeNanoseconds",
            b"traceName",
            b"trace_id",
        ];
        self.seen_metadata |= KNOWN.contains(&key.of(w));
        let start = if raw.is_text() { raw.start() - 1 } else { raw.start() };
        let metadata = &mut self.store.metadata;
        if metadata.len() + (end - at) > MAX_METADATA_BYTES {
            self.store.problems.add(Problem::MetadataTooLarge, offset(origin, at), key.of(w));
            return;
        }
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        metadata.push(if metadata.is_empty() { '{' } else { ',' });
        metadata.push_str(&lossy(&w[key.start() - 1..key.end() + 1]));
        metadata.push(':');
        metadata.push_str(&lossy(&w[start..end]));
    }

    /// Entries of the events array, up to its end.
    fn events(&mut self, w: &[u8], at: &mut usize, origin: i64) -> Scan<()> {
        let mut fields = Fields::default();
        loop {
            let p = skip_space(w, *at)?;
            match w[p] {
                b'{' => {
                    let end = self.entry(w, p, &mut fields)?;
                    if self.after_entry {
                        self.store.problems.add(Problem::MissingComma, offset(origin, p), &w[p..end]);
                    }
                    *at = end;
                    self.after_entry = true;
                    self.take(w, &fields, p, end, origin);
                }
                b',' => {
                    *at = p + 1;
                    self.after_entry = false;
                }
                b']' => {
                    self.state = if self.is_bare { State::Done } else { State::Object };
                    self.after_entry = false;
                    *at = p + 1;
                    return Ok(());
                }
                _ => {
                    let (raw, end) = value(w, p)?;
                    self.store.counts.entries += 1;
                    self.store.problems.add(Problem::NotAnEvent, offset(origin, p), raw.of(w));
                    *at = end;
                    self.after_entry = true;
                }
            }
        }
    }

    /// The fields of the entry whose brace is at `at`, its wanted args in `scratch`; returns the position behind it.
    #[inline(always)]
    fn entry(&mut self, w: &[u8], at: usize, fields: &mut Fields) -> Scan<usize> {
        let Self { entries, store, kept, wanted, scratch, arg_layouts, .. } = self;
        let (categories, class) = (&mut store.categories, Class::Other);
        entries.read(w, at, &mut EntryVisitor { w, fields, categories, class, kept, wanted, scratch, arg_layouts })
    }

    /// Put a whole entry where it belongs.
    #[inline(always)]
    fn take(&mut self, w: &[u8], fields: &Fields, start: usize, end: usize, origin: i64) {
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
        if !self.kept.classes[class as usize] {
            self.store.counts.complete += 1;
            self.store.counts.skipped += 1;
            return;
        }
        let Some(start) = self.time(at, fields.get(Field::Time)) else { return };
        self.store.counts.complete += 1;
        let duration = self.duration(at, fields.get(Field::Duration));
        // An end beyond 64 bits is 292 years away.
        let end = start.saturating_add(duration);
        self.push_span(at, fields, id, category, class, start, end);
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
        self.open[track].push(row);
    }

    fn end(&mut self, at: &Place, fields: &Fields) {
        let track = self.track(at, fields) as usize;
        let Some(row) = self.open.get_mut(track).and_then(Vec::pop) else {
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
        if end < start {
            self.problem(Problem::NegativeDuration, at);
        }
        self.store.spans.end[row as usize] = end.max(start);
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
        let (Decimal::Is { value: time, .. }, false) = (decimal(fields.get(Field::Time).of(at.w), TO_NS), text.is_empty()) else {
            self.problem(Problem::BadFlow, at);
            return;
        };
        self.store.counts.flows += 1;
        let flow = match (hexadecimal(text), decimal(text, 0)) {
            (Some(value), _) => value,
            (None, Decimal::Is { value, .. }) => value,
            // Ids that are no numbers are numbered, downwards.
            _ => -1 - i64::from(self.flow_names.code(text)),
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
        if raw.kind == RawKind::EscapedText {
            self.check_text(at, raw);
        }
        let known = self.store.names.len();
        let code = intern(&mut self.store.names, at.w, raw);
        if code as usize == known && std::str::from_utf8(raw.of(at.w)).is_err() {
            self.problem(Problem::BadText, at);
        }
        code
    }

    #[cold]
    fn check_text(&mut self, at: &Place, raw: Raw) {
        if decode(raw.of(at.w)).1 {
            self.problem(Problem::BadText, at);
        }
    }

    #[inline(always)]
    fn track(&mut self, at: &Place, fields: &Fields) -> u32 {
        self.store.tracks.code(fields.get(Field::Pid).of(at.w), fields.get(Field::Tid).of(at.w))
    }

    /// Nanoseconds of a start time; without one the entry is lost, and said to be.
    #[inline(always)]
    fn time(&mut self, at: &Place, raw: Raw) -> Option<i64> {
        match decimal(raw.of(at.w), TO_NS) {
            Decimal::Is { value, rounded } => {
                if rounded || raw.kind != RawKind::Bare {
                    self.odd_number(at, raw, rounded);
                }
                Some(value)
            }
            Decimal::Overflow => {
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

    /// Go on behind text that makes no sense at `bad`.
    fn recover(&mut self, w: &[u8], at: &mut usize, bad: usize, origin: i64) -> Result<()> {
        let example = &w[*at..w.len().min(bad + 1)];
        match self.state {
            State::Start => {
                return Err(Error::NotATrace {
                    offset: offset(origin, bad),
                    reason: format!("neither an object nor an array begins ({})", shown(&w[bad..])),
                });
            }
            State::Events => {
                self.store.counts.entries += 1;
                self.store.problems.add(Problem::Malformed, offset(origin, bad), example);
                self.state = State::Resync;
            }
            _ => {
                self.store.counts.entries += 1;
                self.store.problems.add(Problem::Malformed, offset(origin, bad), example);
                self.state = State::FindEvents;
            }
        }
        *at = bad.max(*at);
        Ok(())
    }

    /// Find the next brace where a whole entry with a phase begins, or the end of the array.
    fn resync(&mut self, w: &[u8], at: &mut usize, origin: i64) -> Scan<()> {
        loop {
            let Some(brace) = w[*at..].iter().position(|&b| b == b'{').map(|found| *at + found) else {
                *at = w.len();
                return Err(Stop::More);
            };
            let mut fields = Fields::default();
            *at = brace;
            match self.entry(w, brace, &mut fields) {
                Ok(end) if !matches!(fields.phase, 0 | b'?') => {
                    self.take(w, &fields, brace, end, origin);
                    *at = end;
                    self.after_entry = true;
                    self.state = State::Events;
                    return Ok(());
                }
                Err(Stop::More) if w.len() - brace < MAX_RESYNC_BYTES => return Err(Stop::More),
                _ => *at = brace + 1,
            }
        }
    }

    /// Find the key of the events behind damage in the metadata.
    fn find_events(&mut self, w: &[u8], at: &mut usize) -> Scan<()> {
        const KEY: &[u8] = b"\"traceEvents\"";
        let Some(found) = w[*at..].windows(KEY.len()).position(|text| text == KEY) else {
            *at = (*at).max(w.len().saturating_sub(KEY.len()));
            return Err(Stop::More);
        };
        *at += found;
        self.state = State::Object;
        Ok(())
    }

    /// Leave out the entry that begins at `at` and never seems to end.
    fn leave_out(&mut self, problem: Problem, w: &[u8], at: &mut usize, origin: i64) {
        self.store.counts.entries += 1;
        self.store.problems.add(problem, offset(origin, *at), &w[*at..]);
        self.state = if matches!(self.state, State::Events | State::Resync) { State::Resync } else { State::FindEvents };
        *at += 1;
    }

    fn finish(&mut self, window: &Window) -> Result<()> {
        let rest = &window.block[window.at..];
        let end = offset(window.origin, window.block.len());
        let not_a_trace = |reason: String| Err(Error::NotATrace { offset: end, reason });
        if self.state == State::Start {
            return not_a_trace("the file ends and was empty so far".into());
        }
        if !self.has_events && !self.seen_metadata {
            return not_a_trace("the object ended without traceEvents".into());
        }
        if self.store.counts.entries > 0 && self.recognised == 0 {
            return not_a_trace(format!("none of {} entries is an event", self.store.counts.entries));
        }
        // A bare array may leave its bracket out.
        let is_open_array = self.is_bare && self.state == State::Events && rest.trim_ascii().is_empty();
        let damage = window.blocks.damage.as_deref();
        if self.state != State::Done && !is_open_array {
            self.store.problems.add(Problem::CutOff, end, rest);
        }
        if let Some(damage) = damage {
            self.store.problems.add(Problem::DamagedStream, end, damage.as_bytes());
        }
        for row in std::mem::take(&mut self.open).into_iter().flatten().filter(|&row| row != NONE) {
            let name = self.store.spans.name[row as usize];
            let name = if name == NONE { Vec::new() } else { self.store.names.get(name).to_vec() };
            self.store.problems.add(Problem::BeginWithoutEnd, end, &name);
        }
        if self.store.metadata.is_empty() {
            self.store.metadata.push('{');
        }
        self.store.metadata.push('}');
        Ok(())
    }
}

/// Where an entry stands, for what is said of it.
struct Place<'a> {
    w: &'a [u8],
    start: usize,
    end: usize,
    origin: i64,
}

fn offset(origin: i64, at: usize) -> u64 {
    (origin + at as i64).max(0) as u64
}

fn shown(text: &[u8]) -> String {
    text[..text.len().min(20)].escape_ascii().to_string()
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
fn push_args(
    columns: &mut [ArgColumn],
    scratch: &[(u8, Raw)],
    row: u32,
    at: &Place,
    problems: &mut crate::problems::Problems,
) {
    for &(column, raw) in scratch {
        let column = &mut columns[column as usize];
        let text = raw.of(at.w);
        if raw.kind == RawKind::Bare && text == b"null" {
            continue;
        }
        let is_again = column.rows.last() == Some(&row);
        let kept = match &mut column.values {
            ArgValues::Int(values) => match decimal(text, 0) {
                Decimal::Is { value, .. } if !is_again => {
                    values.push(value);
                    true
                }
                Decimal::Is { value, .. } => replace_last(values, value),
                _ => false,
            },
            ArgValues::Float(values) => match float(text) {
                Some(value) if !is_again => {
                    values.push(value);
                    true
                }
                Some(value) => replace_last(values, value),
                None => false,
            },
            ArgValues::Text(codes, strings) => {
                let code = intern(strings, at.w, raw);
                if is_again {
                    replace_last(codes, code)
                } else {
                    codes.push(code);
                    true
                }
            }
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

fn replace_last<T>(values: &mut [T], value: T) -> bool {
    if let Some(last) = values.last_mut() {
        *last = value;
    }
    true
}

/// A field of an entry that means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Field {
    Phase,
    Name,
    Category,
    Pid,
    Tid,
    Time,
    Duration,
    Id,
    Args,
    /// Any other.
    Other,
}

const FIELDS: usize = Field::Other as usize + 1;

/// The fields of one entry, as they stand.
#[derive(Default)]
struct Fields {
    raw: [Raw; FIELDS],
    /// The letter of the phase; 0 where there is none, `?` where it is no single letter.
    phase: u8,
    has_duplicate: bool,
}

impl Fields {
    #[inline(always)]
    fn clear(&mut self) {
        for raw in &mut self.raw {
            raw.kind = RawKind::Absent;
        }
        self.phase = 0;
        self.has_duplicate = false;
    }

    /// A field; one that is absent has no text.
    #[inline(always)]
    fn get(&self, field: Field) -> Raw {
        let raw = self.raw[field as usize];
        if raw.is_absent() { Raw::default() } else { raw }
    }
}

/// What goes into tables; the rest is counted.
struct Kept {
    classes: [bool; CLASSES],
    instants: bool,
    counters: bool,
    flows: bool,
    labels: bool,
}

/// Whose args are wanted, and which.
struct Wanted {
    keys: Keys,
    by_class: [bool; CLASSES],
    of_instants: bool,
}

struct EntryVisitor<'a> {
    w: &'a [u8],
    fields: &'a mut Fields,
    categories: &'a mut Categories,
    /// Of the category, once it is known.
    class: Class,
    kept: &'a Kept,
    wanted: &'a Wanted,
    scratch: &'a mut Vec<(u8, Raw)>,
    arg_layouts: &'a mut [Layouts<u8>; CLASSES],
}

impl Visitor for EntryVisitor<'_> {
    type Key = Field;

    fn key(&self, key: &[u8]) -> Field {
        match key {
            b"ph" => Field::Phase,
            b"name" => Field::Name,
            b"cat" => Field::Category,
            b"pid" => Field::Pid,
            b"tid" => Field::Tid,
            b"ts" => Field::Time,
            b"dur" => Field::Duration,
            b"id" => Field::Id,
            b"args" => Field::Args,
            _ => Field::Other,
        }
    }

    #[inline(always)]
    fn begin(&mut self) {
        self.fields.clear();
        self.scratch.clear();
    }

    #[inline(always)]
    fn visit(&mut self, key: Field, raw: Raw) {
        if key == Field::Phase {
            self.fields.phase = if let [letter] = raw.of(self.w) { *letter } else { b'?' };
        }
        if key == Field::Category {
            let code = self.categories.code(self.w, raw);
            self.class = self.categories.class(code);
        }
        let slot = &mut self.fields.raw[key as usize];
        self.fields.has_duplicate |= !slot.is_absent() && key != Field::Other;
        *slot = raw;
    }

    #[inline(always)]
    fn is_enough(&self, key: Field) -> bool {
        match (key, self.fields.phase) {
            (Field::Category, b'X') => !self.kept.classes[self.class as usize],
            (Field::Phase, b'i' | b'I') => !self.kept.instants,
            (Field::Phase, b'C') => !self.kept.counters,
            (Field::Phase, b's' | b't' | b'f') => !self.kept.flows,
            (Field::Phase, b'M') => !self.kept.labels,
            _ => false,
        }
    }

    #[inline(always)]
    fn enter(&mut self, w: &[u8], key: Field, at: usize) -> Scan<usize> {
        if key != Field::Args || w[at] != b'{' {
            return nested(w, at);
        }
        let category = self.fields.get(Field::Category);
        let class = self.class;
        // The class says whether they are wanted; where it is not known yet they are looked at.
        let is_wanted = match self.fields.phase {
            b'X' | b'B' => category.is_absent() || self.wanted.by_class[class as usize],
            b'i' | b'I' => self.wanted.of_instants,
            0 => true,
            _ => false,
        };
        if !is_wanted {
            return nested(w, at);
        }
        let keys = &self.wanted.keys;
        self.arg_layouts[class as usize].read(w, at, &mut ArgVisitor { keys, scratch: self.scratch })
    }
}

struct ArgVisitor<'a> {
    keys: &'a Keys,
    scratch: &'a mut Vec<(u8, Raw)>,
}

impl Visitor for ArgVisitor<'_> {
    /// The column of an arg, or `FREE`.
    type Key = u8;

    #[inline(always)]
    fn key(&self, key: &[u8]) -> u8 {
        self.keys.find(key)
    }

    #[inline(always)]
    fn begin(&mut self) {
        self.scratch.clear();
    }

    #[inline(always)]
    fn visit(&mut self, key: u8, raw: Raw) {
        if key != FREE {
            self.scratch.push((key, raw));
        }
    }

    #[inline(always)]
    fn is_enough(&self, _: u8) -> bool {
        false
    }

    #[inline(always)]
    fn enter(&mut self, w: &[u8], _: u8, at: usize) -> Scan<usize> {
        nested(w, at)
    }
}

/// Which arg has a column: found by a few bytes of its key, then compared.
struct Keys {
    slots: [u8; SLOTS],
    keys: Vec<Vec<u8>>,
}

const SLOTS: usize = 256;
const FREE: u8 = u8::MAX;

impl Keys {
    fn new(args: &[(String, ArgType)]) -> Self {
        let mut keys = Self { slots: [FREE; SLOTS], keys: args.iter().map(|(key, _)| key.clone().into()).collect() };
        // Links need it whatever else was asked for; others beyond the slots could not be told apart.
        debug_assert!(args.len() < FREE as usize && CORRELATION.len() < SLOTS);
        for (column, key) in keys.keys.iter().enumerate() {
            let mut slot = Self::slot(key);
            while keys.slots[slot] != FREE {
                slot = (slot + 1) % SLOTS;
            }
            keys.slots[slot] = column as u8;
        }
        keys
    }

    #[inline(always)]
    fn slot(key: &[u8]) -> usize {
        match key {
            [] => 0,
            [first, .., last] => {
                let middle = key[key.len() / 2];
                (key.len() * 31 + *first as usize * 7 + *last as usize * 13 + middle as usize * 3) % SLOTS
            }
            [only] => *only as usize,
        }
    }

    #[inline(always)]
    fn find(&self, key: &[u8]) -> u8 {
        let mut slot = Self::slot(key);
        while self.slots[slot] != FREE && self.keys[self.slots[slot] as usize] != key {
            slot = (slot + 1) % SLOTS;
        }
        self.slots[slot]
    }
}
