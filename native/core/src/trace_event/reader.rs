//! The grammar of a trace file: what stands around its entries, and how to go on behind damage.

use crate::error::{Error, Result};
use crate::problems::Problem;
use crate::trace_event::Options;
use crate::trace_event::events::{Taker, offset};
use crate::trace_event::fields::Fields;
use crate::trace_event::lexer::{Raw, Scan, Stop, byte, decode, members, nested, skip_space, string, value};
use crate::trace_event::store::Store;

/// Metadata kept of one file.
const MAX_METADATA_BYTES: usize = 64 << 20;
/// A malformed entry this small is left out by its brackets; of a larger one they may be what is malformed.
const MAX_MALFORMED_BYTES: usize = 64 << 10;
/// How far behind a malformed entry a candidate for the next one may reach before it is given up.
const MAX_RESYNC_BYTES: usize = 1 << 20;

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

/// Where a piece of the grammar stands in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Behind the bracket that opens an array of events.
    Open(usize),
    /// An entry of it, from its first byte to behind its last one, and the event that it is the end of.
    Entry { id: u32, start: usize, end: usize, begun: Option<u32> },
    /// At the bracket that closes it.
    Close(usize),
}

/// Reads text piece by piece; every method leaves `at` behind what it has read for good.
pub struct Reader {
    pub state: State,
    pub taker: Taker,
    /// Whether an entry came last, and no comma behind it yet.
    pub after_entry: bool,
    is_bare: bool,
    /// Whether an events array was found.
    has_events: bool,
    /// Whether a key was met that only traces have.
    has_metadata: bool,
    metadata_bytes: usize,
    /// Whether text behind the end was met.
    has_rest: bool,
    /// Whether no text comes behind the window.
    pub is_last: bool,
    /// What was read, in order, for one who asks where it stands and empties it.
    pub marks: Option<Vec<Mark>>,
    /// The fields of each entry that was marked, for one who asks for these too; none of what is no object.
    pub fields: Option<Vec<Fields>>,
}

impl Reader {
    pub fn new(options: &Options, state: State) -> Self {
        Self {
            state,
            taker: Taker::new(options),
            after_entry: false,
            is_bare: false,
            has_events: false,
            has_metadata: false,
            metadata_bytes: 0,
            has_rest: false,
            is_last: false,
            marks: None,
            fields: None,
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
            self.mark(Mark::Open(*at));
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
            self.mark(Mark::Open(*at));
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

    /// Entries of the events array, up to its end.
    fn events(&mut self, w: &[u8], at: &mut usize, origin: i64) -> Scan<()> {
        let mut fields = Fields::default();
        loop {
            let p = skip_space(w, *at)?;
            match w[p] {
                b'{' => {
                    let end = match self.taker.fields(w, p, &mut fields) {
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
                    self.mark_entry(w, p, end, Some(&fields));
                    self.taker.take(w, &fields, p, end, origin);
                }
                b',' => {
                    *at = p + 1;
                    self.after_entry = false;
                }
                b']' => {
                    self.state = if self.is_bare { State::Done } else { State::Object };
                    self.after_entry = false;
                    *at = p + 1;
                    self.mark(Mark::Close(p));
                    return Ok(());
                }
                _ => {
                    let (raw, end) = value(w, p)?;
                    self.mark_entry(w, p, end, None);
                    self.store().counts.entries += 1;
                    self.store().problems.add(Problem::NotAnEvent, offset(origin, p), raw.of(w));
                    *at = end;
                    self.after_entry = true;
                }
            }
        }
    }

    /// Where the entry at `at` ends that is large, malformed or cut off, and whether it is well-formed.
    ///
    /// How closely an entry is looked at depends on what is wanted of it, but which number it has must not.
    #[cold]
    fn odd_entry(&self, w: &[u8], at: usize, found: Scan<usize>) -> Scan<(usize, bool)> {
        match (well_formed(w, at), nested(w, at)) {
            (Ok(end), _) => Ok((end, true)),
            (Err(Stop::More), _) => found.and(Err(Stop::More)),
            (Err(Stop::Bad(_)), Ok(end)) if end - at <= MAX_MALFORMED_BYTES => Ok((end, false)),
            (Err(Stop::Bad(_)), Err(Stop::More)) if !self.is_last && w.len() - at <= MAX_MALFORMED_BYTES => {
                Err(Stop::More)
            }
            (Err(bad), _) => Err(bad),
        }
    }

    /// Go on behind text that makes no sense at `bad`.
    pub fn recover(&mut self, w: &[u8], at: &mut usize, bad: usize, origin: i64) -> Result<()> {
        let example = &w[*at..w.len().min(bad + 1)];
        match self.state {
            State::Start => {
                return Err(Error::NotATrace {
                    offset: offset(origin, bad),
                    reason: format!("neither an object nor an array begins ({})", shown(&w[bad..])),
                });
            }
            State::Events => {
                self.store().counts.entries += 1;
                self.store().problems.add(Problem::Malformed, offset(origin, bad), example);
                self.state = State::Resync;
            }
            _ => {
                self.store().counts.entries += 1;
                self.store().problems.add(Problem::Malformed, offset(origin, bad), example);
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
            match well_formed(w, brace).and_then(|_| self.taker.fields(w, brace, &mut fields)) {
                Ok(end) if !matches!(fields.phase, 0 | b'?') => {
                    self.mark_entry(w, brace, end, Some(&fields));
                    self.taker.take(w, &fields, brace, end, origin);
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
    pub fn leave_out(&mut self, problem: Problem, w: &[u8], at: &mut usize, origin: i64) {
        self.store().counts.entries += 1;
        self.store().problems.add(problem, offset(origin, *at), &w[*at..]);
        self.state =
            if matches!(self.state, State::Events | State::Resync) { State::Resync } else { State::FindEvents };
        *at += 1;
    }

    /// The text has ended at offset `end`, with `rest` unread; `damage` says why it ended early, if it did.
    pub fn finish(&mut self, rest: &[u8], end: u64, damage: Option<&str>) -> Result<()> {
        let not_a_trace = |reason: String| Err(Error::NotATrace { offset: end, reason });
        if self.state == State::Start {
            return not_a_trace("the file is empty".into());
        }
        if !self.has_events && !self.has_metadata {
            return not_a_trace("the object ended without traceEvents".into());
        }
        if self.store().counts.entries > 0 && self.taker.recognised == 0 {
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
        self.taker.end_of_text(end);
        Ok(())
    }

    #[inline(always)]
    fn mark(&mut self, mark: Mark) {
        if let Some(marks) = &mut self.marks {
            marks.push(mark);
        }
    }

    /// Mark the entry that is about to be counted.
    #[inline(always)]
    fn mark_entry(&mut self, w: &[u8], start: usize, end: usize, fields: Option<&Fields>) {
        if let Some(marks) = &mut self.marks {
            let id = self.taker.store.counts.entries as u32;
            let begun = fields.and_then(|fields| self.taker.begun(w, fields));
            marks.push(Mark::Entry { id, start, end, begun });
            if let Some(kept) = &mut self.fields {
                kept.push(fields.cloned().unwrap_or_default());
            }
        }
    }

    fn store(&mut self) -> &mut Store {
        &mut self.taker.store
    }
}

/// Where the entry at `at` ends, if it and its args are as they should be.
fn well_formed(w: &[u8], at: usize) -> Scan<usize> {
    let any = |start: usize| value(w, start).map(|(_, end)| end);
    members(w, at, |key, start| {
        let is_args = key.of(w) == b"args" && byte(w, start)? == b'{';
        if is_args { members(w, start, |_, start| any(start)) } else { any(start) }
    })
}

fn shown(text: &[u8]) -> String {
    text[..text.len().min(20)].escape_ascii().to_string()
}
