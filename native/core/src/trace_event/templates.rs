//! Objects whose layout repeats: most are laid out, to the byte between their values, like one before them.

use crate::trace_event::lexer::{Raw, RawKind, Scan, bare, members, rest_of_object, string_body, value};

/// How an object was laid out: the text between its values, which for one writer is always the same.
struct Layout<T> {
    pieces: Vec<Piece<T>>,
    /// From behind the last value to the closing brace, inclusive.
    tail: Literal,
}

/// A value and the text before it: key, colon, white space, the quote that opens it.
struct Piece<T> {
    before: Literal,
    key: T,
    kind: RawKind,
}

/// A writer of traces has a handful for each kind of object; a file with more is read without guesses.
const MAX_LAYOUTS: usize = 8;

/// Reads objects, guessing that each is laid out like one before it.
pub struct Layouts<T> {
    known: Vec<Layout<T>>,
    last: usize,
}

impl<T> Default for Layouts<T> {
    fn default() -> Self {
        Self { known: Vec::new(), last: 0 }
    }
}

/// What is done with the members of an object.
pub trait Visitor {
    /// What a key means.
    type Key: Copy;
    fn key(&self, key: &[u8]) -> Self::Key;
    /// A new attempt to read the object begins; what was visited does not count.
    fn begin(&mut self);
    /// The value of `key`, in order.
    fn visit(&mut self, key: Self::Key, raw: Raw);
    /// Whether, after `key`, the rest of the object does not matter.
    fn is_enough(&self, key: Self::Key) -> bool;
    /// An object or array begins at `at`; returns the position behind it.
    fn enter(&mut self, w: &[u8], key: Self::Key, at: usize) -> Scan<usize>;
}

impl<T: Copy> Layouts<T> {
    /// Visit the members of the object whose brace is at `at`; returns the position behind it.
    #[inline(always)]
    pub fn read(&mut self, w: &[u8], at: usize, visitor: &mut impl Visitor<Key = T>) -> Scan<usize> {
        let count = self.known.len();
        for guess in 0..count {
            let index = if self.last + guess < count { self.last + guess } else { self.last + guess - count };
            visitor.begin();
            if let Some(end) = self.known[index].fit(w, at, visitor) {
                self.last = index;
                return Ok(end);
            }
        }
        self.read_any(w, at, visitor)
    }

    /// Without a guess; what is found is the next guess.
    fn read_any(&mut self, w: &[u8], at: usize, visitor: &mut impl Visitor<Key = T>) -> Scan<usize> {
        visitor.begin();
        let is_learning = self.known.len() < MAX_LAYOUTS;
        let mut pieces = Vec::new();
        let mut behind = at;
        let end = members(w, at, |key, start| {
            let key = visitor.key(key.of(w));
            let (raw, end) = match w[start] {
                b'{' | b'[' => {
                    let end = visitor.enter(w, key, start)?;
                    (Raw::new(start, end, RawKind::Nested), end)
                }
                _ => value(w, start)?,
            };
            visitor.visit(key, raw);
            if is_learning {
                pieces.push(Piece { before: Literal::new(&w[behind..raw.start()]), key, kind: raw.kind });
            }
            behind = raw.end();
            Ok(end)
        })?;
        if is_learning {
            self.last = self.known.len();
            self.known.push(Layout { pieces, tail: Literal::new(&w[behind..end]) });
        }
        Ok(end)
    }
}

impl<T: Copy> Layout<T> {
    /// Visit the object at `at` if it is laid out like this; `None` may also mean that the window ends in it.
    #[inline(always)]
    fn fit(&self, w: &[u8], at: usize, visitor: &mut impl Visitor<Key = T>) -> Option<usize> {
        let mut p = at;
        for piece in &self.pieces {
            p = piece.before.skip(w, p)?;
            let raw = match piece.kind {
                RawKind::Text | RawKind::EscapedText => string_body(w, p).ok()?,
                RawKind::Nested if matches!(w.get(p), Some(b'{' | b'[')) => {
                    Raw::new(p, visitor.enter(w, piece.key, p).ok()?, RawKind::Nested)
                }
                // Anything else makes no sense here, which the reading without a guess finds out.
                _ => bare(w, p).ok()?.0,
            };
            visitor.visit(piece.key, raw);
            p = raw.end();
            if visitor.is_enough(piece.key) {
                return rest_of_object(w, p + usize::from(raw.is_text())).ok();
            }
        }
        self.tail.skip(w, p)
    }
}

/// Text to compare with: whole words of eight bytes, the last one overlapping the one before it.
struct Literal {
    bytes: Vec<u8>,
}

impl Literal {
    fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec() }
    }

    /// The position behind this text, if it stands at `at`.
    #[inline(always)]
    fn skip(&self, w: &[u8], at: usize) -> Option<usize> {
        let end = at + self.bytes.len();
        let there = w.get(at..end)?;
        let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let len = self.bytes.len();
        if len < 8 {
            return (there == &self.bytes[..]).then_some(end);
        }
        let mut i = 0;
        while i + 8 < len {
            if word(there, i) != word(&self.bytes, i) {
                return None;
            }
            i += 8;
        }
        (word(there, len - 8) == word(&self.bytes, len - 8)).then_some(end)
    }
}
