//! JSON text, piece by piece: strings, numbers and values as spans of a window, without a tree.

use wide::u8x16;

/// Why a piece could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The window ends inside it.
    More,
    /// It breaks the grammar, here.
    Bad(usize),
}

pub type Scan<T> = Result<T, Stop>;

/// Deeper nesting than any profiler writes; one bit each in the bracket stack.
const MAX_DEPTH: u32 = 64;

/// A value as it stands in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Raw {
    // Windows are far smaller than 4 GiB, and a small span is copied sooner.
    start: u32,
    end: u32,
    pub kind: RawKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RawKind {
    /// Nothing was there.
    #[default]
    Absent,
    /// Text between quotes, which are not part of the span.
    Text,
    /// The same, with escapes in it.
    EscapedText,
    /// A number, `true`, `false`, `null`, `NaN` or `Infinity`.
    Bare,
    /// An array or object, brackets included.
    Nested,
}

impl Raw {
    #[inline(always)]
    pub fn new(start: usize, end: usize, kind: RawKind) -> Self {
        Self { start: start as u32, end: end as u32, kind }
    }

    #[inline(always)]
    pub fn start(&self) -> usize {
        self.start as usize
    }

    #[inline(always)]
    pub fn end(&self) -> usize {
        self.end as usize
    }

    #[inline(always)]
    pub fn of<'a>(&self, window: &'a [u8]) -> &'a [u8] {
        &window[self.start()..self.end()]
    }

    pub fn is_absent(&self) -> bool {
        self.kind == RawKind::Absent
    }

    pub fn is_text(&self) -> bool {
        matches!(self.kind, RawKind::Text | RawKind::EscapedText)
    }
}

/// The byte at `at`, or `More` at the end of the window.
#[inline(always)]
pub fn byte(window: &[u8], at: usize) -> Scan<u8> {
    window.get(at).copied().ok_or(Stop::More)
}

#[inline(always)]
pub fn skip_space(window: &[u8], mut at: usize) -> Scan<usize> {
    loop {
        let b = byte(window, at)?;
        if b > b' ' || !matches!(b, b' ' | b'\n' | b'\r' | b'\t') {
            return Ok(at);
        }
        at += 1;
    }
}

/// Bytes looked at together, on any processor of the last twenty years.
const LANES: usize = 16;

/// The bytes from `at` on, if that many are left in the window.
#[inline(always)]
fn lanes(window: &[u8], at: usize) -> Option<u8x16> {
    let bytes: [u8; LANES] = window.get(at..at + LANES)?.try_into().ok()?;
    Some(u8x16::from(bytes))
}

#[inline(always)]
fn is(lanes: u8x16, b: u8) -> u8x16 {
    lanes.simd_eq(u8x16::splat(b))
}

/// Turns `[` and `]` into `{` and `}`, which no other bytes become.
const BRACKET_TO_BRACE: u8 = 0x20;

/// The string whose opening quote is at `at`; returns it and the position behind its closing quote.
#[inline(always)]
pub fn string(window: &[u8], at: usize) -> Scan<(Raw, usize)> {
    let raw = string_body(window, at + 1)?;
    Ok((raw, raw.end() + 1))
}

/// The string whose opening quote is right before `start`; it ends at its closing quote.
#[inline(always)]
pub fn string_body(window: &[u8], start: usize) -> Scan<Raw> {
    let mut p = start;
    let mut kind = RawKind::Text;
    loop {
        while let Some(l) = lanes(window, p) {
            let hits = (is(l, b'"') | is(l, b'\\')).to_bitmask();
            if hits != 0 {
                p += hits.trailing_zeros() as usize;
                break;
            }
            p += LANES;
        }
        match byte(window, p)? {
            b'"' => return Ok(Raw::new(start, p, kind)),
            b'\\' => {
                kind = RawKind::EscapedText;
                p += 2;
            }
            _ => p += 1,
        }
    }
}

/// A number or a bare word.
#[inline(always)]
pub fn bare(window: &[u8], start: usize) -> Scan<(Raw, usize)> {
    let end = bare_end(window, start)?;
    if end == start { Err(Stop::Bad(end)) } else { Ok((Raw::new(start, end, RawKind::Bare), end)) }
}

#[inline(always)]
fn bare_end(window: &[u8], start: usize) -> Scan<usize> {
    let mut p = start;
    while let Some(l) = lanes(window, p) {
        let braced = l | u8x16::splat(BRACKET_TO_BRACE);
        let low = l.min(u8x16::splat(b'*')).simd_eq(l);
        let ends = low | is(l, b',') | is(l, b':') | is(braced, b'{') | is(braced, b'}');
        let ends = ends.to_bitmask();
        if ends != 0 {
            return Ok(p + ends.trailing_zeros() as usize);
        }
        p += LANES;
    }
    while !ENDS_BARE[byte(window, p)? as usize] {
        p += 1;
    }
    Ok(p)
}

/// What cannot be in a number or bare word: space, quotes, and the grammar's own marks.
const ENDS_BARE: [bool; 256] = {
    let mut table = [false; 256];
    let mut b = 0;
    while b < 256 {
        table[b] = b <= b'*' as usize || matches!(b as u8, b',' | b':' | b'{' | b'}' | b'[' | b']');
        b += 1;
    }
    table
};

/// Open brackets, innermost last.
#[derive(Default)]
struct Brackets {
    /// One bit each, 1 for a brace.
    open: u64,
    depth: u32,
}

impl Brackets {
    /// Take the bracket `b` at `at`; true if it closes the outermost one.
    #[inline(always)]
    fn take(&mut self, b: u8, at: usize) -> Scan<bool> {
        let is_brace = u64::from(b & BRACKET_TO_BRACE != 0);
        if matches!(b, b'{' | b'[') {
            if self.depth == MAX_DEPTH {
                return Err(Stop::Bad(at));
            }
            self.open = self.open << 1 | is_brace;
            self.depth += 1;
            return Ok(false);
        }
        if self.open & 1 != is_brace {
            return Err(Stop::Bad(at));
        }
        self.open >>= 1;
        self.depth -= 1;
        Ok(self.depth == 0)
    }
}

/// Bytes per round of `nested`: as many as there are bits in a mask.
const ROUND: usize = 64;

/// An array or object whose opening bracket is at `start`; returns the position behind its closing bracket.
#[inline]
pub fn nested(window: &[u8], start: usize) -> Scan<usize> {
    close(window, start, Brackets::default())
}

/// The position behind the brace that closes an object, from between two of its members.
#[inline]
pub fn rest_of_object(window: &[u8], at: usize) -> Scan<usize> {
    close(window, at, Brackets { open: 1, depth: 1 })
}

#[inline(always)]
fn close(window: &[u8], start: usize, mut brackets: Brackets) -> Scan<usize> {
    let mut p = start;
    // Whole rounds without escapes: brackets outside of strings from masks, as `start` is outside.
    let mut in_string = 0u64;
    while let Some(masks) = Masks::of(window, p) {
        if masks.escapes != 0 {
            break;
        }
        let mut inside = masks.quotes;
        for shift in [1, 2, 4, 8, 16, 32] {
            inside ^= inside << shift;
        }
        inside ^= in_string;
        let mut hits = masks.brackets & !inside;
        while hits != 0 {
            let at = p + hits.trailing_zeros() as usize;
            if brackets.take(window[at], at)? {
                return Ok(at + 1);
            }
            hits &= hits - 1;
        }
        in_string = ((inside as i64) >> 63) as u64;
        p += ROUND;
    }
    if in_string != 0 {
        p = string_body(window, p)?.end() + 1;
    }
    loop {
        let b = byte(window, p)?;
        match b {
            b'"' => {
                p = string_body(window, p + 1)?.end() + 1;
                continue;
            }
            b'{' | b'[' | b'}' | b']' if brackets.take(b, p)? => return Ok(p + 1),
            _ => p += 1,
        }
    }
}

/// Where in a round of bytes there is what matters.
struct Masks {
    quotes: u64,
    escapes: u64,
    brackets: u64,
}

impl Masks {
    #[inline(always)]
    fn of(window: &[u8], at: usize) -> Option<Self> {
        let round = window.get(at..at + ROUND)?;
        let mut masks = Self { quotes: 0, escapes: 0, brackets: 0 };
        for part in 0..ROUND / LANES {
            let l = lanes(round, part * LANES)?;
            let braced = l | u8x16::splat(BRACKET_TO_BRACE);
            let shift = part * LANES;
            masks.quotes |= u64::from(is(l, b'"').to_bitmask()) << shift;
            masks.escapes |= u64::from(is(l, b'\\').to_bitmask()) << shift;
            masks.brackets |= u64::from((is(braced, b'{') | is(braced, b'}')).to_bitmask()) << shift;
        }
        Some(masks)
    }
}

/// Any value that starts at `at`; returns it and the position behind it.
#[inline(always)]
pub fn value(window: &[u8], at: usize) -> Scan<(Raw, usize)> {
    match byte(window, at)? {
        b'"' => string(window, at),
        b'{' | b'[' => {
            let end = nested(window, at)?;
            Ok((Raw::new(at, end, RawKind::Nested), end))
        }
        _ => bare(window, at),
    }
}

/// Call `member` with each key and the position of its value, which it must read to return the position behind it.
///
/// `at` is the opening brace; returns the position behind the closing one. A missing comma is forgiven.
#[inline(always)]
pub fn members(window: &[u8], at: usize, mut member: impl FnMut(Raw, usize) -> Scan<usize>) -> Scan<usize> {
    let mut p = skip_space(window, at + 1)?;
    loop {
        match byte(window, p)? {
            b'"' => {
                let (key, next) = string(window, p)?;
                p = skip_space(window, next)?;
                if byte(window, p)? != b':' {
                    return Err(Stop::Bad(p));
                }
                p = member(key, skip_space(window, p + 1)?)?;
                p = skip_space(window, p)?;
                if byte(window, p)? == b',' {
                    p = skip_space(window, p + 1)?;
                }
            }
            b'}' => return Ok(p + 1),
            _ => return Err(Stop::Bad(p)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_at_their_own_quote() {
        let text = br#""a\"b\\" rest"#;
        let (raw, next) = string(text, 0).unwrap();
        assert_eq!((raw.of(text), raw.kind, next), (&br#"a\"b\\"#[..], RawKind::EscapedText, 8));
        assert_eq!(string(br#""open"#, 0), Err(Stop::More));
        assert_eq!(string(br#""ends in \"#, 0), Err(Stop::More));
    }

    #[test]
    fn brackets_must_match() {
        assert_eq!(nested(br#"{"a":[1,{"b":"]}"}]} x"#, 0), Ok(20));
        assert_eq!(nested(b"[1,2}", 0), Err(Stop::Bad(4)));
        assert_eq!(nested(b"[1,[2", 0), Err(Stop::More));
        assert!(matches!(nested(&[b'['; 100], 0), Err(Stop::Bad(_))));
    }
}
