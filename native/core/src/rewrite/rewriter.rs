//! A trace written anew while it is read.

use std::collections::HashSet;
use std::path::Path;

use crate::error::{Error, Result};
use crate::io::blocks::Blocks;
use crate::io::packed_writer;
use crate::rewrite::changes::{Changes, edited};
use crate::trace_event::fields::{Field, Fields};
use crate::trace_event::grammar::{Reader, State};
use crate::trace_event::observer::{Entry, Observer};
use crate::trace_event::options::Options;
use crate::trace_event::window::read_in_order;

/// Text between two events that is held until it is known what follows; more than that is damage, and stays.
const MAX_GAP_BYTES: usize = 64 << 10;

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
    let rewriter = Rewriter {
        changes,
        push,
        done: Rewritten::default(),
        next_edited: 0,
        next_dropped: 0,
        begun: HashSet::new(),
        is_appended: changes.appended.is_empty(),
        array: Array::Outside,
        gap: Vec::new(),
        run: Run::default(),
        error: None,
    };
    let mut reader = Reader::observed(&Options::nothing(), State::Start, rewriter);
    if changes.only.is_some() {
        reader.sink.find_all_fields();
    }
    let window = read_in_order(&mut blocks, &mut reader, cancelled)?;
    let mut rewriter = reader.observer;
    rewriter.finish(&window.block.bytes[window.at..], window.end())?;
    let entries = reader.sink.store.counts.entries;
    match changes.last().filter(|&id| u64::from(id) >= entries) {
        Some(id) => Err(Error::NoSuchEvent { id, entries }),
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
    run: Run,
    /// Why nothing more can be written.
    error: Option<Error>,
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
#[derive(Default)]
struct Run {
    from: usize,
    /// Behind the last event or bracket; what comes after it waits for what follows.
    last: usize,
}

impl Observer for Rewriter<'_> {
    fn window_begins(&mut self, at: usize) {
        self.run = Run { from: at, last: at };
    }

    fn array_begins(&mut self, at: usize) {
        self.run.last = at;
        self.array = Array::Empty(None);
    }

    fn entry(&mut self, w: &[u8], entry: &Entry) {
        let is_dropped = self.is_dropped(entry.id)
            || entry.fields.is_some_and(|fields| self.is_other(w, entry.id, fields))
            || entry.begun.is_some_and(|begun| self.changes.drops(begun) || self.begun.remove(&begun));
        self.unless_failed(|this| this.take(w, entry, is_dropped));
    }

    fn array_ends(&mut self, w: &[u8], at: usize) {
        self.unless_failed(|this| {
            this.hold(w, at)?;
            this.append()?;
            this.push_gap()
        });
        self.array = Array::Outside;
    }

    fn window_ends(&mut self, w: &[u8], at: usize) -> Result<()> {
        self.unless_failed(|this| {
            this.hold(w, at)?;
            if matches!(this.array, Array::Outside) || this.gap.len() > MAX_GAP_BYTES {
                this.push_gap()?;
            }
            Ok(())
        });
        self.error.take().map_or(Ok(()), Err)
    }
}

/// What is written.
impl Rewriter<'_> {
    /// Do something, and remember why it could not be done.
    fn unless_failed(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) {
        if self.error.is_none() {
            self.error = work(self).err();
        }
    }

    /// Write the run, and hold what stands between it and `to`.
    fn hold(&mut self, w: &[u8], to: usize) -> Result<()> {
        (self.push)(&w[self.run.from..self.run.last])?;
        self.gap.extend_from_slice(&w[self.run.last..to]);
        self.run = Run { from: to, last: to };
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
    fn take(&mut self, w: &[u8], entry: &Entry, is_dropped: bool) -> Result<()> {
        let &Entry { id, start, end, .. } = entry;
        let edits = self.edits_of(id);
        if is_dropped || edits.0 < edits.1 || matches!(self.array, Array::Empty(Some(_))) {
            self.hold(w, start)?;
            if is_dropped {
                self.drop_entry()?;
            } else {
                self.keep_entry(&w[start..end], edits)?;
            }
            self.run.from = end;
        } else {
            self.push_gap()?;
            self.array = Array::Begun;
        }
        self.run.last = end;
        Ok(())
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

/// Which events are.
impl Rewriter<'_> {
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
}

fn is_separator(gap: &[u8]) -> bool {
    gap.iter().all(|b| b.is_ascii_whitespace() || *b == b',')
}
