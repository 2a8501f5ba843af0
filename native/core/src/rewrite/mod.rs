//! A trace as a new file: byte for byte the same, but for events that are changed, left out or added.

pub mod merge;
mod tracks;

use std::collections::HashSet;
use std::path::Path;

use crate::error::{Error, Result};
use crate::io::blocks::Blocks;
use crate::io::packed_writer;
use crate::trace_event::fields::{Field, Fields};
use crate::trace_event::lexer::{Raw, Scan, members, value};
use crate::trace_event::reader::{Mark, Reader, State};
use crate::trace_event::{Options, Window, read_in_order};

/// Text between two events that is held until it is known what follows; more than that is damage, and stays.
const MAX_GAP_BYTES: usize = 64 << 10;

/// A key as it stands between its quotes, and a value as JSON.
pub type Member = (String, Vec<u8>);

/// What to write into an event, in the place of members of the same key or behind the others.
#[derive(Debug, Clone, Default)]
pub struct Edit {
    pub fields: Vec<Member>,
    /// Members of its args, which it need not have.
    pub args: Vec<Member>,
}

/// What becomes of a trace; events are known by their number in the file, as the reader counts them.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    edits: Vec<Edit>,
    /// Events by number, each with the edit to make; several edits of one are made in order.
    edited: Vec<(u32, u32)>,
    dropped: Vec<u32>,
    /// Each one or more events with commas between them.
    appended: Vec<String>,
    /// Categories; what lasts and has another one is left out, unless it is edited.
    only: Option<Vec<String>>,
}

impl Changes {
    pub fn new(edits: Vec<(Vec<u32>, Edit)>, mut dropped: Vec<u32>, appended: Vec<String>) -> Self {
        let mut edited = Vec::new();
        let mut changes = Vec::new();
        for (ids, edit) in edits {
            edited.extend(ids.into_iter().map(|id| (id, changes.len() as u32)));
            changes.push(edit);
        }
        edited.sort_by_key(|&(id, _)| id);
        dropped.sort_unstable();
        dropped.dedup();
        let appended = appended.into_iter().filter(|text| !text.trim_ascii().is_empty()).collect();
        Self { edits: changes, edited, dropped, appended, only: None }
    }

    /// Leave out what lasts and is of no such category, unless it is edited.
    pub fn only(self, categories: Option<Vec<String>>) -> Self {
        Self { only: categories, ..self }
    }

    fn drops(&self, id: u32) -> bool {
        self.dropped.binary_search(&id).is_ok()
    }

    /// The last event that something becomes of.
    fn last(&self) -> Option<u32> {
        self.edited.last().map(|&(id, _)| id).max(self.dropped.last().copied())
    }
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewritten {
    pub entries: u64,
    pub edited: u64,
    pub dropped: u64,
    /// Why the source ended early, if it did.
    pub damage: Option<String>,
}

/// Write a trace to `target`, packed as that name says; `cancelled` is asked now and then.
pub fn rewrite(
    blocks: Blocks,
    target: &Path,
    changes: &Changes,
    cancelled: &mut dyn FnMut() -> bool,
) -> Result<Rewritten> {
    packed_writer::write(target, |sink| rewrite_blocks(blocks, changes, &mut |text| sink.push(text), cancelled))
}

/// The same from text to text: `push` is called with the pieces in order.
pub fn rewrite_blocks(
    mut blocks: Blocks,
    changes: &Changes,
    push: &mut dyn FnMut(&[u8]) -> Result<()>,
    cancelled: &mut dyn FnMut() -> bool,
) -> Result<Rewritten> {
    // No table and no arg: only where events begin and end.
    let mut reader = Reader::new(&Options { tables: Vec::new(), args: Vec::new() }, State::Start);
    reader.marks = Some(Vec::new());
    if changes.only.is_some() {
        reader.fields = Some(Vec::new());
        reader.taker.find_all_fields();
    }
    let mut rewriter = Rewriter::new(changes, push);
    let each = &mut |reader: &mut Reader, window: &mut Window| rewriter.read(reader, window);
    let window = read_in_order(&mut blocks, &mut reader, each, cancelled)?;
    rewriter.finish(&window.block.bytes[window.at..], window.end())?;
    let entries = reader.taker.store.counts.entries;
    match changes.last().filter(|&id| u64::from(id) >= entries) {
        Some(id) => Err(Error::Unknown(format!("event {id} of {entries}"))),
        None => Ok(Rewritten { entries, damage: blocks.damage, ..rewriter.done }),
    }
}

struct Rewriter<'a> {
    changes: &'a Changes,
    push: &'a mut dyn FnMut(&[u8]) -> Result<()>,
    done: Rewritten,
    next_edited: usize,
    next_dropped: usize,
    /// Events of other categories that were left out and have not ended yet.
    begun: HashSet<u32>,
    is_appended: bool,
    array: Array,
    /// What came since the last event or bracket, as far as it is not in the window any more.
    gap: Vec<u8>,
}

/// What is known of the array of events that is being read.
enum Array {
    /// There is none.
    Outside,
    /// No event of it was written; the gap before the first of those that were left out.
    Empty(Option<Vec<u8>>),
    Begun,
}

/// Text of the window that is not written yet.
struct Run {
    from: usize,
    /// Behind the last event or bracket; what comes after it waits for what follows.
    last: usize,
}

/// An entry of the window, and whether it is left out.
struct Entry {
    id: u32,
    start: usize,
    end: usize,
    is_dropped: bool,
}

impl<'a> Rewriter<'a> {
    fn new(changes: &'a Changes, push: &'a mut dyn FnMut(&[u8]) -> Result<()>) -> Self {
        Self {
            changes,
            push,
            done: Rewritten::default(),
            next_edited: 0,
            next_dropped: 0,
            begun: HashSet::new(),
            is_appended: changes.appended.is_empty(),
            array: Array::Outside,
            gap: Vec::new(),
        }
    }

    /// Read on in the window, and write what was read.
    fn read(&mut self, reader: &mut Reader, window: &mut Window) -> Result<()> {
        let start = window.at;
        window.read(reader)?;
        let mut marks = reader.marks.as_mut().map(std::mem::take).unwrap_or_default();
        let mut fields = reader.fields.as_mut().map(std::mem::take);
        let mut of_entries = fields.iter().flatten();
        let w = &window.block.bytes;
        let mut run = Run { from: start, last: start };
        for &mark in &marks {
            match mark {
                Mark::Open(at) => {
                    run.last = at;
                    self.array = Array::Empty(None);
                }
                Mark::Entry { id, start, end, begun } => {
                    // There are as many as entries, where they were asked for.
                    let fields = of_entries.next();
                    let is_dropped = self.is_dropped(id)
                        || fields.is_some_and(|fields| self.is_other(w, id, fields))
                        || begun.is_some_and(|begun| self.changes.drops(begun) || self.begun.remove(&begun));
                    self.entry(w, &mut run, Entry { id, start, end, is_dropped })?;
                }
                Mark::Close(at) => {
                    self.hold(w, &mut run, at)?;
                    self.append()?;
                    self.push_gap()?;
                    self.array = Array::Outside;
                }
            }
        }
        marks.clear();
        fields.iter_mut().for_each(Vec::clear);
        (reader.marks, reader.fields) = (Some(marks), fields);
        self.hold(w, &mut run, window.at)?;
        if matches!(self.array, Array::Outside) || self.gap.len() > MAX_GAP_BYTES {
            self.push_gap()?;
        }
        Ok(())
    }

    /// Write the run, and hold what stands between it and `to`.
    fn hold(&mut self, w: &[u8], run: &mut Run, to: usize) -> Result<()> {
        (self.push)(&w[run.from..run.last])?;
        self.gap.extend_from_slice(&w[run.last..to]);
        (run.from, run.last) = (to, to);
        Ok(())
    }

    fn push_gap(&mut self) -> Result<()> {
        if !self.gap.is_empty() {
            (self.push)(&self.gap)?;
            self.gap.clear();
        }
        Ok(())
    }

    #[inline(always)]
    fn entry(&mut self, w: &[u8], run: &mut Run, entry: Entry) -> Result<()> {
        let Entry { id, start, end, is_dropped } = entry;
        let edits = self.edits_of(id);
        if is_dropped || edits.0 < edits.1 || matches!(self.array, Array::Empty(Some(_))) {
            self.hold(w, run, start)?;
            if is_dropped {
                self.drop_entry()?;
            } else {
                self.keep_entry(&w[start..end], edits)?;
            }
            run.from = end;
        } else {
            self.push_gap()?;
            self.array = Array::Begun;
        }
        run.last = end;
        Ok(())
    }

    fn is_dropped(&mut self, id: u32) -> bool {
        let dropped = &self.changes.dropped;
        while dropped.get(self.next_dropped).is_some_and(|&next| next < id) {
            self.next_dropped += 1;
        }
        dropped.get(self.next_dropped) == Some(&id)
    }

    /// Whether an entry lasts, is of none of the categories that are wanted, and is not edited.
    fn is_other(&mut self, w: &[u8], id: u32, fields: &Fields) -> bool {
        let Some(only) = &self.changes.only else { return false };
        let lasts = match fields.phase {
            b'X' | b'B' => true,
            0 => !fields.get(Field::Duration).is_absent(),
            _ => false,
        };
        let category = fields.get(Field::Category).of(w);
        if !lasts || only.iter().any(|wanted| wanted.as_bytes() == category) {
            return false;
        }
        let (first, end) = self.edits_of(id);
        if first == end && fields.phase == b'B' {
            self.begun.insert(id);
        }
        first == end
    }

    /// Where the edits of an event begin and end among all.
    fn edits_of(&mut self, id: u32) -> (usize, usize) {
        let edited = &self.changes.edited;
        while edited.get(self.next_edited).is_some_and(|&(next, _)| next < id) {
            self.next_edited += 1;
        }
        let mut end = self.next_edited;
        while edited.get(end).is_some_and(|&(next, _)| next == id) {
            end += 1;
        }
        (self.next_edited, end)
    }

    /// Leave out the event behind the gap, and its comma with it.
    fn drop_entry(&mut self) -> Result<()> {
        self.done.dropped += 1;
        if !is_separator(&self.gap) {
            return self.push_gap();
        }
        match &mut self.array {
            Array::Empty(first @ None) => *first = Some(std::mem::take(&mut self.gap)),
            _ => self.gap.clear(),
        }
        Ok(())
    }

    fn keep_entry(&mut self, event: &[u8], edits: (usize, usize)) -> Result<()> {
        // The first event that stays has no comma before it.
        if let Array::Empty(Some(first)) = &mut self.array
            && is_separator(&self.gap)
        {
            self.gap = std::mem::take(first);
        }
        self.push_gap()?;
        self.array = Array::Begun;
        let changes = self.changes;
        let mut text = None;
        for &(_, edit) in &changes.edited[edits.0..edits.1] {
            // What cannot be read as an event after all stays as it is.
            text = edited(text.as_deref().unwrap_or(event), &changes.edits[edit as usize]).ok().or(text);
        }
        self.done.edited += u64::from(text.is_some());
        (self.push)(text.as_deref().unwrap_or(event))
    }

    /// Write the new events, unless they have been.
    fn append(&mut self) -> Result<()> {
        if self.is_appended {
            return Ok(());
        }
        self.is_appended = true;
        for text in &self.changes.appended {
            if matches!(self.array, Array::Begun) {
                (self.push)(b",\n")?;
            }
            self.array = Array::Begun;
            (self.push)(text.as_bytes())?;
        }
        Ok(())
    }

    /// The text has ended at offset `end`, with `rest` unread.
    fn finish(&mut self, rest: &[u8], end: u64) -> Result<()> {
        if matches!(self.array, Array::Outside) && !self.is_appended {
            return Err(Error::NotATrace { offset: end, reason: "there are no traceEvents to add to".into() });
        }
        self.append()?;
        self.push_gap()?;
        (self.push)(rest)
    }
}

fn is_separator(gap: &[u8]) -> bool {
    gap.iter().all(|b| b.is_ascii_whitespace() || *b == b',')
}

/// The event after an edit.
fn edited(event: &[u8], edit: &Edit) -> Scan<Vec<u8>> {
    let mut fields = edit.fields.clone();
    if !edit.args.is_empty() {
        let args = args_of(event)?;
        let args = with_members(args.map_or(b"{}", |raw| raw.of(event)), &edit.args)?;
        fields.push(("args".into(), args));
    }
    with_members(event, &fields)
}

/// The args of an event, if they are an object.
fn args_of(event: &[u8]) -> Scan<Option<Raw>> {
    let mut found = None;
    members(event, 0, |key, start| {
        let (raw, end) = value(event, start)?;
        if key.of(event) == b"args" {
            found = (event[start] == b'{').then_some(raw);
        }
        Ok(end)
    })?;
    Ok(found)
}

/// An object with these members, in the place of those of the same key or behind the others.
pub(crate) fn with_members(object: &[u8], wanted: &[Member]) -> Scan<Vec<u8>> {
    let mut out = Vec::with_capacity(object.len() + 64);
    let mut is_there = vec![false; wanted.len()];
    let mut is_empty = true;
    let mut copied = 0;
    // Behind the last member.
    let mut last = 1;
    members(object, 0, |key, start| {
        let (_, end) = value(object, start)?;
        if let Some(place) = wanted.iter().position(|(name, _)| name.as_bytes() == key.of(object)) {
            out.extend_from_slice(&object[copied..start]);
            out.extend_from_slice(&wanted[place].1);
            is_there[place] = true;
            copied = end;
        }
        is_empty = false;
        last = end;
        Ok(end)
    })?;
    out.extend_from_slice(&object[copied..last]);
    for ((key, text), _) in wanted.iter().zip(is_there).filter(|(_, is_there)| !is_there) {
        let comma = if is_empty { "" } else { "," };
        out.extend_from_slice(format!("{comma}\"{key}\":").as_bytes());
        out.extend_from_slice(text);
        is_empty = false;
    }
    out.extend_from_slice(&object[last..]);
    Ok(out)
}
