//! The grammar of a trace file: what stands around its entries.

use crate::error::{Error, Result};
use crate::io::blocks::offset;
use crate::problems::Problem;
use crate::trace_event::events::EventSink;
use crate::trace_event::fields::Fields;
use crate::trace_event::lexer::{Raw, Scan, Stop, byte, skip_space, string, value};
use crate::trace_event::observer::{Entry, Observer};
use crate::trace_event::options::Options;
use crate::trace_event::store::Store;
use crate::trace_event::unescape::decode;

/// Metadata kept of one file.
const MAX_METADATA_BYTES: usize = 64 << 20;
/// A malformed entry this small is left out by its brackets; of a larger one they may be what is malformed.
pub const MAX_MALFORMED_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
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

/// Reads text piece by piece; every method leaves `at` behind what it has read for good.
pub struct Reader<O = ()> {
    pub state: State,
    pub sink: EventSink,
    pub observer: O,
    /// Whether an entry came last, and no comma behind it yet.
    pub after_entry: bool,
    pub(super) is_bare: bool,
    /// Whether an events array was found.
    pub(super) has_events: bool,
    /// Whether a key was met that only traces have.
    has_metadata: bool,
    metadata_bytes: usize,
    /// Whether text behind the end was met.
    has_rest: bool,
    /// Whether no text comes behind the window.
    pub is_last: bool,
}

impl Reader {
    pub fn new(options: &Options, state: State) -> Self {
        Self::observed(options, state, ())
    }
}

/// The file as a whole.
impl<O: Observer> Reader<O> {
    /// One that is told where entries stand.
    pub fn observed(options: &Options, state: State, observer: O) -> Self {
        Self {
            state,
            sink: EventSink::new(options),
            observer,
            after_entry: false,
            is_bare: false,
            has_events: false,
            has_metadata: false,
            metadata_bytes: 0,
            has_rest: false,
            is_last: false,
        }
    }

    /// Take the text that comes for a piece of an events array.
    pub fn begin_among_events(&mut self) {
        (self.state, self.after_entry, self.has_events) = (State::Events, false, false);
    }

    /// Whether the array has not ended since: another one may have begun.
    pub fn stayed_among_events(&self) -> bool {
        self.state == State::Events && !self.has_events
    }

    /// Read entry after entry, `at` always behind the last whole one.
    pub fn advance(&mut self, w: &[u8], at: &mut usize, origin: i64) -> Scan<()> {
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

    fn start(&mut self, w: &[u8], at: &mut usize, origin: i64) -> Scan<()> {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        if byte(w, *at)? == MARK[0] && w.len() < *at + MARK.len() {
            return Err(Stop::More);
        }
        if w[*at..].starts_with(MARK) {
            self.store().problems.add(Problem::ByteOrderMark, offset(origin, *at), b"");
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
        if self.is_bare {
            self.observer.array_begins(*at);
        }
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
        let (key, next) = string(w, p)?;
        let colon = skip_space(w, next)?;
        if w[colon] != b':' {
            return Err(Stop::Bad(colon));
        }
        let start = skip_space(w, colon + 1)?;
        if key.of(w) == b"traceEvents" && w[start] == b'[' {
            if self.has_events {
                self.store().problems.add(Problem::DuplicateKey, offset(origin, p), key.of(w));
            }
            self.has_events = true;
            self.after_entry = false;
            self.state = State::Events;
            *at = start + 1;
            self.observer.array_begins(*at);
            return Ok(());
        }
        let (raw, end) = value(w, start)?;
        self.keep_metadata(w, p, key, raw, end, origin);
        *at = end;
        Ok(())
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
        self.store().problems.add(Problem::TrailingText, offset(origin, text), &w[text..]);
        *at = text;
        // A brace too many may have ended the object before its events.
        if !self.has_events {
            self.state = State::FindEvents;
        }
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
        self.has_metadata |= KNOWN.contains(&key.of(w));
        let start = if raw.is_text() { raw.start() - 1 } else { raw.start() };
        self.metadata_bytes += end - at;
        if self.metadata_bytes > MAX_METADATA_BYTES {
            self.store().problems.add(Problem::MetadataTooLarge, offset(origin, at), key.of(w));
            return;
        }
        let text = String::from_utf8_lossy(&w[start..end]).into_owned();
        self.store().metadata.push((decode(key.of(w)).0, text));
    }
}

/// The array of events.
impl<O: Observer> Reader<O> {
    /// Entries of the events array, up to its end.
    fn events(&mut self, w: &[u8], at: &mut usize, origin: i64) -> Scan<()> {
        let mut fields = Fields::default();
        loop {
            let p = skip_space(w, *at)?;
            match w[p] {
                b'{' => {
                    let end = match self.sink.fields(w, p, &mut fields) {
                        Ok(end) if end - p <= MAX_MALFORMED_BYTES => end,
                        other => match self.odd_entry(w, p, other)? {
                            (end, true) => end,
                            (end, false) => {
                                self.store().counts.entries += 1;
                                self.store().problems.add(Problem::Malformed, offset(origin, p), &w[p..end]);
                                *at = end;
                                self.after_entry = true;
                                continue;
                            }
                        },
                    };
                    if self.after_entry {
                        self.store().problems.add(Problem::MissingComma, offset(origin, p), &w[p..end]);
                    }
                    *at = end;
                    self.after_entry = true;
                    self.observe(w, p, end, Some(&fields));
                    self.sink.take(w, &fields, p, end, origin);
                }
                b',' => {
                    *at = p + 1;
                    self.after_entry = false;
                }
                b']' => {
                    self.state = if self.is_bare { State::Done } else { State::Object };
                    self.after_entry = false;
                    *at = p + 1;
                    self.observer.array_ends(w, p);
                    return Ok(());
                }
                _ => {
                    let (raw, end) = value(w, p)?;
                    self.observe(w, p, end, None);
                    self.store().counts.entries += 1;
                    self.store().problems.add(Problem::NotAnEvent, offset(origin, p), raw.of(w));
                    *at = end;
                    self.after_entry = true;
                }
            }
        }
    }

    /// The text has ended at offset `end`, with `rest` unread; `damage` says why it ended early, if it did.
    pub fn finish(&mut self, rest: &[u8], end: u64, damage: Option<&str>) -> Result<()> {
        let not_a_trace = |reason: String| Err(Error::NotATrace { offset: end, reason });
        if self.state == State::Start {
            return not_a_trace(match damage {
                Some(damage) => format!("nothing before the damage of its compressed stream could be read ({damage})"),
                None => "the file is empty".into(),
            });
        }
        // An empty list says as little as an empty object: any program may have written it.
        if !self.has_metadata && (!self.has_events || (self.is_bare && self.store().counts.entries == 0)) {
            return not_a_trace("it holds neither traceEvents nor another key of a trace".into());
        }
        if self.store().counts.entries > 0 && self.sink.recognised == 0 {
            return not_a_trace(format!("none of {} entries is an event", self.store().counts.entries));
        }
        // A bare array may leave its bracket out.
        let is_open_array = self.is_bare && self.state == State::Events && rest.trim_ascii().is_empty();
        if self.state != State::Done && !is_open_array {
            self.store().problems.add(Problem::CutOff, end, rest);
        }
        if let Some(damage) = damage {
            self.store().problems.add(Problem::DamagedStream, end, damage.as_bytes());
        }
        self.sink.end_of_text(end);
        Ok(())
    }

    pub(super) fn store(&mut self) -> &mut Store {
        &mut self.sink.store
    }

    /// Tell of the entry that is about to be counted.
    #[inline(always)]
    pub(super) fn observe(&mut self, w: &[u8], start: usize, end: usize, fields: Option<&Fields>) {
        if O::LOOKS {
            let id = self.sink.store.counts.entries as u32;
            let begun = fields.and_then(|fields| self.sink.begun(w, fields));
            self.observer.entry(w, &Entry { id, start, end, begun, fields });
        }
    }

    /// Every entry has a number of its own, or nothing that was read is of use.
    pub fn check_numbers(&self) -> Result<()> {
        self.sink.store.check_numbers()
    }
}
