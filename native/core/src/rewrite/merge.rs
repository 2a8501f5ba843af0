//! Traces of several ranks as one: each on processes and threads of its own, all on one clock.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result};
use crate::io::blocks::Blocks;
use crate::io::packed_writer;
use crate::rewrite::changes::{Member, with_members};
use crate::rewrite::tracks::{Numbers, Processes};
use crate::trace_event::columns::Categories;
use crate::trace_event::fields::{Field, Fields};
use crate::trace_event::grammar::{Reader, State};
use crate::trace_event::kineto::Class;
use crate::trace_event::lexer::Raw;
use crate::trace_event::number::{Decimal, TO_NS, decimal, hexadecimal};
use crate::trace_event::observer::{Entry, Observer};
use crate::trace_event::options::Options;
use crate::trace_event::store::Store;
use crate::trace_event::window::read_in_order;

/// Written text that is handed on at once.
const OUT_BYTES: usize = 256 << 10;
/// Ids of arrows below 2 to the power of this are kept apart by their rank in the bits above, others by a hash.
const ID_BITS: u32 = 40;
/// Ids stay below 2 to the power of this, so that they are positive for every viewer; the hashes are the upper half.
const ALL_ID_BITS: u32 = 62;

/// How much of what was recorded is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// What ran on devices.
    Device,
    /// All but Python functions.
    Host,
    Python,
}

/// What becomes of one rank's trace.
#[derive(Debug, Clone)]
pub struct Part {
    /// What the names of its processes begin with, as it may stand between quotes.
    pub name: String,
    /// Added to its times.
    pub shift_ns: i64,
    /// Times of the file, from the first to before the second, of which something must lie in what is written.
    pub window: Option<(i64, i64)>,
    pub detail: Detail,
}

/// What was done with one rank's trace.
pub struct Written {
    pub written: u64,
    /// Outside of the window, or of the detail.
    pub left_out: u64,
    /// Counts and problems of reading it.
    pub store: Store,
}

/// Takes one trace after the other into one file.
pub struct Timeline<'a> {
    push: &'a mut dyn FnMut(&[u8]) -> Result<()>,
    out: Vec<u8>,
    has_events: bool,
    numbers: Numbers,
    parts: u64,
}

/// Write the file at `target` from the traces that `add_all` adds; `head` is an object, for what stands before them.
pub fn write<T>(target: &Path, head: &str, add_all: impl FnOnce(&mut Timeline) -> Result<T>) -> Result<T> {
    packed_writer::write(target, |sink| text(head, &mut |text| sink.push(text), add_all))
}

/// The same as text: `push` is called with the pieces in order.
pub fn text<T>(
    head: &str,
    push: &mut dyn FnMut(&[u8]) -> Result<()>,
    add_all: impl FnOnce(&mut Timeline) -> Result<T>,
) -> Result<T> {
    let head = head.trim_end().trim_end_matches('}').trim_end();
    let comma = if head.ends_with('{') { "" } else { ",\n" };
    let out = format!("{head}{comma}\"traceEvents\":[").into_bytes();
    let mut timeline = Timeline { push, out, has_events: false, numbers: Numbers::default(), parts: 0 };
    let added = add_all(&mut timeline)?;
    timeline.out.extend_from_slice(b"\n]}\n");
    timeline.hand_on()?;
    Ok(added)
}

impl Timeline<'_> {
    /// Add a trace, as far as it can be read; `cancelled` is asked now and then.
    pub fn add(&mut self, mut blocks: Blocks, part: &Part, cancelled: &mut dyn FnMut() -> bool) -> Result<Written> {
        let rank = Rank {
            part,
            number: self.parts,
            processes: Processes::default(),
            categories: Categories::default(),
            dropped: HashSet::new(),
            edits: Edits::default(),
            written: 0,
            left_out: 0,
            error: None,
            timeline: self,
        };
        let mut reader = Reader::observed(&Options::nothing(), State::Start, rank);
        reader.sink.find_all_fields();
        read_in_order(&mut blocks, &mut reader, cancelled)?;
        let Reader { sink, observer: Rank { processes, written, left_out, .. }, .. } = reader;
        processes.name_all(&part.name, &mut self.numbers, |entry| {
            separate(&mut self.has_events, &mut self.out);
            self.out.extend_from_slice(entry);
        });
        self.parts += 1;
        self.hand_on()?;
        Ok(Written { written, left_out, store: sink.store })
    }

    fn hand_on(&mut self) -> Result<()> {
        (self.push)(&self.out)?;
        self.out.clear();
        Ok(())
    }
}

/// A rank that is being added.
struct Rank<'a, 'b> {
    part: &'a Part,
    number: u64,
    processes: Processes,
    categories: Categories,
    /// Events that were left out and have not ended yet.
    dropped: HashSet<u32>,
    edits: Edits,
    written: u64,
    left_out: u64,
    /// Why nothing more can be written.
    error: Option<Error>,
    timeline: &'a mut Timeline<'b>,
}

impl Observer for Rank<'_, '_> {
    fn window_begins(&mut self, _: usize) {}

    fn array_begins(&mut self, _: usize) {}

    fn entry(&mut self, w: &[u8], entry: &Entry) {
        // What is no object has no fields and is no event.
        let Some(fields) = entry.fields.filter(|_| self.error.is_none()) else { return };
        self.take(w, entry, fields);
        if self.timeline.out.len() >= OUT_BYTES {
            self.error = self.timeline.hand_on().err();
        }
    }

    fn array_ends(&mut self, _: &[u8], _: usize) {}

    fn window_ends(&mut self, _: &[u8], _: usize) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }
}

impl Rank<'_, '_> {
    fn take(&mut self, w: &[u8], entry: &Entry, fields: &Fields) {
        // What is no event is left out, and the reader says so.
        let time = time_of(w, fields.get(Field::Time));
        if fields.phase == 0 && (time.is_none() || fields.get(Field::Duration).is_absent()) {
            return;
        }
        let thread = self.processes.thread(w, fields, &mut self.timeline.numbers);
        if fields.phase == b'M' {
            if !self.processes.describe(w, fields, thread) {
                self.write(w, entry, fields, thread, time);
            }
            return;
        }
        let is_dropped = match entry.begun {
            Some(begun) => self.dropped.remove(&begun),
            None => !self.is_wanted(w, fields, time),
        };
        if !is_dropped {
            self.written += 1;
            self.write(w, entry, fields, thread, time);
            return;
        }
        self.left_out += 1;
        if fields.phase == b'B' {
            self.dropped.insert(entry.id);
        }
    }

    #[inline]
    fn is_wanted(&mut self, w: &[u8], fields: &Fields, time: Option<i64>) -> bool {
        let categories = &mut self.categories;
        let mut class = || {
            let code = categories.code(w, fields.get(Field::Category));
            categories.class(code)
        };
        let is_shown = match (self.part.detail, fields.phase) {
            (Detail::Python, _) | (Detail::Device, b'C') => true,
            (Detail::Host, _) => class() != Class::Python,
            (Detail::Device, b'X' | b'B' | 0) => {
                matches!(class(), Class::Device | Class::DeviceAnnotation | Class::Profiled)
            }
            (Detail::Device, _) => false,
        };
        is_shown && self.part.window.is_none_or(|window| is_in(window, w, fields, time))
    }

    /// Write an event with numbers that no other rank has, at its time on the clock of all.
    fn write(&mut self, w: &[u8], entry: &Entry, fields: &Fields, thread: u32, time: Option<i64>) {
        let Entry { start, end, .. } = *entry;
        let Part { shift_ns, .. } = *self.part;
        self.edits.clear();
        let (pid, tid) = self.processes.numbers(thread);
        self.edits.put(Field::Pid, |text| text.extend_from_slice(pid));
        // Metadata and counters may be of a whole process.
        if !fields.get(Field::Tid).is_absent() || !matches!(fields.phase, b'M' | b'C') {
            self.edits.put(Field::Tid, |text| text.extend_from_slice(tid));
        }
        if let Some(shifted) = time.filter(|_| shift_ns != 0).and_then(|time| time.checked_add(shift_ns)) {
            self.edits.put(Field::Time, |text| push_microseconds(shifted, text));
        }
        for field in [Field::Id, Field::BindId] {
            let raw = fields.get(field);
            if !raw.is_absent() {
                let id = id_apart(self.number, raw.of(w));
                self.edits.put(field, |text| push_decimal(id, 1, text));
            }
        }
        let Timeline { out, has_events, .. } = &mut *self.timeline;
        separate(has_events, out);
        if fields.has_duplicate {
            // What cannot be read as an object after all was no entry.
            out.extend(with_members(&w[start..end], &self.edits.members()).unwrap_or_else(|_| w[start..end].to_vec()));
        } else {
            self.edits.apply(w, start, end, fields, out);
        }
    }
}

/// New values of an entry's fields.
#[derive(Default)]
struct Edits {
    text: Vec<u8>,
    /// Each field, and where its value ends in the text.
    fields: Vec<(Field, usize)>,
    /// Where each goes in the entry, and where it stands in the text.
    places: Vec<(Range<usize>, Range<usize>)>,
}

impl Edits {
    fn clear(&mut self) {
        self.text.clear();
        self.fields.clear();
    }

    #[inline]
    fn put(&mut self, field: Field, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.text);
        self.fields.push((field, self.text.len()));
    }

    /// Copy an entry with the new values in the place of the old ones, or before all others.
    fn apply(&mut self, w: &[u8], start: usize, end: usize, fields: &Fields, out: &mut Vec<u8>) {
        let mut copied = start + 1;
        out.push(w[start]);
        let mut from = 0;
        self.places.clear();
        for &(field, to) in &self.fields {
            let raw = fields.get(field);
            if raw.is_absent() {
                out.extend_from_slice(format!("\"{}\":", key_of(field)).as_bytes());
                out.extend_from_slice(&self.text[from..to]);
                out.push(b',');
            } else {
                let quote = usize::from(raw.is_text());
                self.places.push((raw.start() - quote..raw.end() + quote, from..to));
            }
            from = to;
        }
        self.places.sort_unstable_by_key(|(place, _)| place.start);
        for (place, text) in &self.places {
            out.extend_from_slice(&w[copied..place.start]);
            out.extend_from_slice(&self.text[text.clone()]);
            copied = place.end;
        }
        out.extend_from_slice(&w[copied..end]);
    }

    fn members(&self) -> Vec<Member> {
        let begins = std::iter::once(0).chain(self.fields.iter().map(|&(_, to)| to));
        let ended = self.fields.iter().zip(begins);
        ended.map(|(&(field, to), from)| (key_of(field).into(), self.text[from..to].to_vec())).collect()
    }
}

fn key_of(field: Field) -> &'static str {
    match field {
        Field::Pid => "pid",
        Field::Tid => "tid",
        Field::Time => "ts",
        Field::Id => "id",
        _ => "bind_id",
    }
}

/// Whether something of an event lies in a window; one without a time does not.
fn is_in((from, to): (i64, i64), w: &[u8], fields: &Fields, time: Option<i64>) -> bool {
    let Some(start) = time.filter(|&start| start < to) else { return false };
    let duration = match fields.phase {
        b'X' | 0 => time_of(w, fields.get(Field::Duration)).unwrap_or(0),
        _ => 0,
    };
    start >= from || start.saturating_add(duration) > from
}

fn time_of(w: &[u8], raw: Raw) -> Option<i64> {
    match decimal(raw.of(w), TO_NS) {
        Decimal::Is { value, .. } => Some(value),
        _ => None,
    }
}

/// An id that links events of one rank, so that it does not link them with those of another.
fn id_apart(rank: u64, id: &[u8]) -> u64 {
    let number = match decimal(id, 0) {
        Decimal::Is { value, rounded: false } => u64::try_from(value).ok(),
        _ => hexadecimal(id),
    };
    match number.filter(|number| number >> ID_BITS == 0) {
        Some(number) => (rank << ID_BITS | number) & ((1 << (ALL_ID_BITS - 1)) - 1),
        None => {
            let mut hasher = DefaultHasher::new();
            (rank, id).hash(&mut hasher);
            1 << (ALL_ID_BITS - 1) | hasher.finish() >> (u64::BITS - ALL_ID_BITS + 1)
        }
    }
}

/// A number in at least so many digits.
fn push_decimal(mut number: u64, at_least: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    while number > 0 || digits.len() - first < at_least {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits[first..]);
}

/// Nanoseconds as microseconds, exact.
fn push_microseconds(ns: i64, out: &mut Vec<u8>) {
    if ns < 0 {
        out.push(b'-');
    }
    push_decimal(ns.unsigned_abs() / 1000, 1, out);
    out.push(b'.');
    push_decimal(ns.unsigned_abs() % 1000, 3, out);
}

/// Begin a line for an event.
#[inline]
fn separate(has_events: &mut bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if *has_events { b",\n" } else { b"\n" });
    *has_events = true;
}
