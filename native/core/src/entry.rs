//! The fields of one entry of the events array; most entries are laid out like one before them.

use crate::scan::{Raw, RawKind, Scan, byte, members, string, value};

/// A field of an entry that means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Field {
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
#[derive(Default, Clone, Copy)]
pub struct Fields {
    raw: [Raw; FIELDS],
    /// The letter of the phase; 0 where there is none, `?` where it is no single letter.
    pub phase: u8,
    pub has_duplicate: bool,
}

impl Fields {
    #[inline(always)]
    pub fn get(&self, field: Field) -> Raw {
        self.raw[field as usize]
    }

    #[inline(always)]
    fn set(&mut self, field: Field, raw: Raw) {
        let slot = &mut self.raw[field as usize];
        self.has_duplicate |= !slot.is_absent() && field != Field::Other;
        *slot = raw;
    }
}

/// How an entry was laid out: the text between its values, which for one writer is always the same.
struct Layout {
    phase: u8,
    pieces: Vec<Piece>,
    /// From behind the last value to the closing brace, inclusive.
    tail: Vec<u8>,
}

/// A value and the text before it: key, colon, white space, the quote that opens it.
struct Piece {
    before: Vec<u8>,
    field: Field,
    kind: RawKind,
}

/// A writer of traces has a handful; a file with more is read without guesses.
const MAX_LAYOUTS: usize = 8;

/// Reads entries, guessing that each is laid out like one before it.
#[derive(Default)]
pub struct Entries {
    layouts: Vec<Layout>,
    last: usize,
}

impl Entries {
    /// The fields of the entry whose brace is at `at`; returns the position behind it.
    ///
    /// `args` is called with the fields so far and the position of the brace of the args, and returns the position
    /// behind them.
    #[inline(always)]
    pub fn read(
        &mut self,
        w: &[u8],
        at: usize,
        fields: &mut Fields,
        args: &mut impl FnMut(&Fields, usize) -> Scan<usize>,
    ) -> Scan<usize> {
        for guess in 0..self.layouts.len() {
            let index = (self.last + guess) % self.layouts.len();
            *fields = Fields::default();
            if let Some(end) = self.layouts[index].fit(w, at, fields, args) {
                self.last = index;
                return Ok(end);
            }
        }
        *fields = Fields::default();
        self.read_any(w, at, fields, args)
    }

    /// Without a guess; what is found is the next guess.
    #[cold]
    fn read_any(
        &mut self,
        w: &[u8],
        at: usize,
        fields: &mut Fields,
        args: &mut impl FnMut(&Fields, usize) -> Scan<usize>,
    ) -> Scan<usize> {
        let mut pieces = Vec::new();
        let mut behind = at;
        let end = members(w, at, |key, start| {
            let field = match key.of(w) {
                b"ph" if byte(w, start)? == b'"' => {
                    let (raw, end) = string(w, start)?;
                    fields.has_duplicate |= fields.phase != 0;
                    fields.phase = if let [letter] = raw.of(w) { *letter } else { b'?' };
                    return Ok(end);
                }
                b"name" => Field::Name,
                b"cat" => Field::Category,
                b"pid" => Field::Pid,
                b"tid" => Field::Tid,
                b"ts" => Field::Time,
                b"dur" => Field::Duration,
                b"id" => Field::Id,
                b"args" => Field::Args,
                _ => Field::Other,
            };
            let (raw, end) = if field == Field::Args && byte(w, start)? == b'{' {
                let end = args(fields, start)?;
                (Raw { start, end, kind: RawKind::Nested }, end)
            } else {
                value(w, start)?
            };
            fields.set(field, raw);
            pieces.push(Piece { before: w[behind..raw.start].to_vec(), field, kind: raw.kind });
            behind = raw.end;
            Ok(end)
        })?;
        if self.layouts.len() < MAX_LAYOUTS && !fields.has_duplicate {
            self.last = self.layouts.len();
            self.layouts.push(Layout { phase: fields.phase, pieces, tail: w[behind..end].to_vec() });
        }
        Ok(end)
    }
}

impl Layout {
    /// The entry at `at` if it is laid out like this; `None` may also mean that the window ends in it.
    #[inline(always)]
    fn fit(
        &self,
        w: &[u8],
        at: usize,
        fields: &mut Fields,
        args: &mut impl FnMut(&Fields, usize) -> Scan<usize>,
    ) -> Option<usize> {
        let mut p = at;
        fields.phase = self.phase;
        for piece in &self.pieces {
            p = skip_literal(w, p, &piece.before)?;
            let raw = match piece.kind {
                RawKind::Text | RawKind::EscapedText => string(w, p - 1).ok()?.0,
                _ if piece.field == Field::Args && byte(w, p).ok()? == b'{' => {
                    Raw { start: p, end: args(fields, p).ok()?, kind: RawKind::Nested }
                }
                _ => value(w, p).ok()?.0,
            };
            // A string where there was none before.
            if raw.start != p {
                return None;
            }
            p = raw.end;
            fields.raw[piece.field as usize] = raw;
        }
        skip_literal(w, p, &self.tail)
    }
}

/// The position behind `literal`, if it stands at `at`.
#[inline(always)]
fn skip_literal(w: &[u8], at: usize, literal: &[u8]) -> Option<usize> {
    w.get(at..)?.starts_with(literal).then_some(at + literal.len())
}
