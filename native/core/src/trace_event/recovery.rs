//! How to go on behind damage.

use memchr::{memchr, memmem};

use crate::error::{Error, Result};
use crate::io::blocks::offset;
use crate::problems::Problem;
use crate::trace_event::fields::Fields;
use crate::trace_event::grammar::{MAX_MALFORMED_BYTES, Reader, State};
use crate::trace_event::lexer::{Scan, Stop, byte, members, nested, value};
use crate::trace_event::observer::Observer;

/// How far behind a malformed entry a candidate for the next one may reach before it is given up.
const MAX_RESYNC_BYTES: usize = 1 << 20;

impl<O: Observer> Reader<O> {
    /// Where the entry at `at` ends that is large, malformed or cut off, and whether it is well-formed.
    ///
    /// How closely an entry is looked at depends on what is wanted of it, but which number it has must not.
    #[cold]
    pub(super) fn odd_entry(&self, w: &[u8], at: usize, found: Scan<usize>) -> Scan<(usize, bool)> {
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
    pub(super) fn resync(&mut self, w: &[u8], at: &mut usize, origin: i64) -> Scan<()> {
        loop {
            let Some(brace) = memchr(b'{', &w[*at..]).map(|found| *at + found) else {
                *at = w.len();
                return Err(Stop::More);
            };
            let mut fields = Fields::default();
            *at = brace;
            match well_formed(w, brace).and_then(|_| self.sink.fields(w, brace, &mut fields)) {
                Ok(end) if !matches!(fields.phase, 0 | b'?') => {
                    self.observe(w, brace, end, Some(&fields));
                    self.sink.take(w, &fields, brace, end, origin);
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
    pub(super) fn find_events(&mut self, w: &[u8], at: &mut usize) -> Scan<()> {
        const KEY: &[u8] = b"\"traceEvents\"";
        let Some(found) = memmem::find(&w[*at..], KEY) else {
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
