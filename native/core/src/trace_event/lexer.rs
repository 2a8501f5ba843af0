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

/// The text a string span stands for.
///
/// Bytes that are no UTF-8 and lone surrogates become U+FFFD; the second value says whether there were any.
pub fn decode(raw: &[u8]) -> (String, bool) {
    let mut out = Vec::with_capacity(raw.len());
    let mut damaged = false;
    let mut p = 0;
    while p < raw.len() {
        if raw[p] != b'\\' {
            out.push(raw[p]);
            p += 1;
            continue;
        }
        let code = raw.get(p + 1).copied().unwrap_or(0);
        p += 2;
        let plain = match code {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            b'"' | b'\\' | b'/' => code,
            b'u' => {
                let (c, used) = unicode_escape(&raw[p..]);
                damaged |= c.is_none();
                let mut utf8 = [0; 4];
                out.extend_from_slice(c.unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut utf8).as_bytes());
                p += used;
                continue;
            }
            // An escape JSON does not have, e.g. of a Windows path: kept as it is written.
            _ => {
                out.push(b'\\');
                damaged = true;
                code
            }
        };
        out.push(plain);
    }
    match String::from_utf8(out) {
        Ok(text) => (text, damaged),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
    }
}

/// The character behind `\u`, and how many bytes of `rest` spell it.
fn unicode_escape(rest: &[u8]) -> (Option<char>, usize) {
    let Some(first) = hex4(rest) else { return (None, rest.len().min(4)) };
    if !(0xD800..0xDC00).contains(&first) {
        return (char::from_u32(first), 4);
    }
    let second = if rest.get(4..6) == Some(b"\\u") { hex4(&rest[6..]) } else { None };
    match second {
        Some(low) if (0xDC00..0xE000).contains(&low) => {
            (char::from_u32(0x10000 + ((first - 0xD800) << 10) + (low - 0xDC00)), 10)
        }
        _ => (None, 4),
    }
}

fn hex4(text: &[u8]) -> Option<u32> {
    let digits = text.get(..4)?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// A decimal number of microseconds as nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decimal {
    /// Exact, but for digits below a nanosecond when `rounded`.
    Is { value: i64, rounded: bool },
    /// Too large for 64 bits.
    Overflow,
    /// No number: empty, `NaN`, `Infinity`, a word.
    Not,
}

/// `text` × 10^`shift`, exactly, from its decimal digits; what is below 1 is rounded half away from zero.
#[inline(always)]
pub fn decimal(text: &[u8], shift: i32) -> Decimal {
    // Nearly every number of a trace: digits, and three decimals where it is a time.
    let (whole, decimals, unit) = match text {
        [whole @ .., b'.', a, b, c] if shift == 3 => (whole, three_digits([*a, *b, *c]), 1000),
        _ => (text, Some(0), POWERS[shift as usize]),
    };
    match (whole_number(whole), decimals) {
        (Some(whole), Some(decimals)) => {
            let value = whole * unit + decimals;
            i64::try_from(value).map_or(Decimal::Overflow, |value| Decimal::Is { value, rounded: false })
        }
        _ => other_decimal(text, shift),
    }
}

/// The value of one to sixteen digits.
#[inline(always)]
fn whole_number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 16 {
        return None;
    }
    let (mut value, mut rest) = (0, text);
    while let Some((eight, others)) = rest.split_first_chunk() {
        value = value * 100_000_000 + eight_digits(*eight)?;
        rest = others;
    }
    for b in rest {
        value = value * 10 + digit(*b)?;
    }
    Some(value)
}

#[inline(always)]
fn digit(b: u8) -> Option<u64> {
    b.is_ascii_digit().then(|| u64::from(b - b'0'))
}

#[inline(always)]
fn three_digits([a, b, c]: [u8; 3]) -> Option<u64> {
    Some(digit(a)? * 100 + digit(b)? * 10 + digit(c)?)
}

/// All at once: each byte of a word holds a digit, then each two bytes a pair of them, and so on.
#[inline(always)]
fn eight_digits(text: [u8; 8]) -> Option<u64> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const PAIRS: u64 = 0x0000_00ff_0000_00ff;
    let digits = u64::from_le_bytes(text) ^ (EACH * b'0' as u64);
    // A byte over 9 reaches the highest bit when this is added, or has it.
    if (digits | digits.wrapping_add(EACH * 0x76)) & (EACH * 0x80) != 0 {
        return None;
    }
    let pairs = (digits * 10) + (digits >> 8);
    let high = (pairs & PAIRS).wrapping_mul(100 + (1_000_000 << 32));
    let low = (pairs >> 16 & PAIRS).wrapping_mul(1 + (10_000 << 32));
    Some(high.wrapping_add(low) >> 32)
}

fn other_decimal(text: &[u8], shift: i32) -> Decimal {
    // Digits, then at most `shift` decimals.
    let mut value = 0u64;
    let mut seen = 0;
    let mut decimals = -1i32;
    for &b in text {
        match b {
            b'0'..=b'9' if seen < MOST_DIGITS => {
                value = value * 10 + u64::from(b - b'0');
                seen += 1;
                decimals += i32::from(decimals >= 0);
            }
            b'.' if decimals < 0 => decimals = 0,
            _ => return decimal_with_care(text, shift),
        }
    }
    let missing = shift - decimals.max(0);
    if seen == 0 || missing < 0 || seen + missing > MOST_DIGITS {
        return decimal_with_care(text, shift);
    }
    let value = value * POWERS[missing as usize];
    if seen + missing == MOST_DIGITS { most_digits(value) } else { Decimal::Is { value: value as i64, rounded: false } }
}

/// As many digits as 64 bits hold of any number; a time since 1970 has them in nanoseconds.
const MOST_DIGITS: i32 = 19;

/// Apart, as looking whether it is too large would slow down all shorter numbers.
#[inline(never)]
fn most_digits(value: u64) -> Decimal {
    i64::try_from(value).map_or(Decimal::Overflow, |value| Decimal::Is { value, rounded: false })
}

const POWERS: [u64; MOST_DIGITS as usize] = {
    let mut powers = [1u64; MOST_DIGITS as usize];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

#[cold]
fn decimal_with_care(text: &[u8], shift: i32) -> Decimal {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (mantissa, exponent) = match digits.iter().position(|b| matches!(b, b'e' | b'E')) {
        Some(at) => {
            let Some(exponent) = std::str::from_utf8(&digits[at + 1..]).ok().and_then(|t| t.parse::<i32>().ok()) else {
                return Decimal::Not;
            };
            (&digits[..at], exponent)
        }
        None => (digits, 0),
    };
    let point = mantissa.iter().position(|&b| b == b'.').unwrap_or(mantissa.len());
    let is_digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    let fraction = mantissa.get(point + 1..).unwrap_or(&[]);
    if (point == 0 && fraction.is_empty()) || !is_digits(&mantissa[..point]) || !is_digits(fraction) {
        return Decimal::Not;
    }
    // Digits up to this place are whole units, those behind it are rounded away.
    let unit_place = (point as i64) + i64::from(exponent) + i64::from(shift);
    let mut value = 0i128;
    let mut dropped = false;
    let mut half = false;
    for (place, &b) in mantissa[..point].iter().chain(fraction).enumerate() {
        let digit = i128::from(b - b'0');
        let place = place as i64;
        if place < unit_place {
            value = value * 10 + digit;
        } else {
            half |= place == unit_place && digit >= 5;
            dropped |= digit != 0;
        }
        if value > i128::from(u64::MAX) {
            return Decimal::Overflow;
        }
    }
    let written = (point + fraction.len()) as i64;
    if value != 0 {
        for _ in 0..(unit_place - written).max(0) {
            value *= 10;
            if value > i128::from(u64::MAX) {
                return Decimal::Overflow;
            }
        }
    }
    value += i128::from(half);
    match i64::try_from(if negative { -value } else { value }) {
        Ok(value) => Decimal::Is { value, rounded: dropped },
        Err(_) => Decimal::Overflow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(value: i64) -> Decimal {
        Decimal::Is { value, rounded: false }
    }

    #[test]
    fn microseconds_become_exact_nanoseconds() {
        assert_eq!(decimal(b"1712184698123456.789", 3), is(1_712_184_698_123_456_789));
        assert_eq!(decimal(b"6322354305173.787", 3), is(6_322_354_305_173_787));
        assert_eq!(decimal(b"12", 3), is(12_000));
        assert_eq!(decimal(b"0.5", 3), is(500));
        assert_eq!(decimal(b"-3.25", 3), is(-3_250));
        assert_eq!(decimal(b"1.5e3", 3), is(1_500_000));
        assert_eq!(decimal(b"9E-4", 3), Decimal::Is { value: 1, rounded: true });
        assert_eq!(decimal(b"1.2340", 3), is(1_234));
    }

    #[test]
    fn digits_are_the_same_number_read_together_or_one_by_one() {
        for text in ["1712184698123456.789", "6322360103277.362", "12345678", "1.150", "0"] {
            for at in 0..text.len() {
                for b in 0..=u8::MAX {
                    let mut text = text.as_bytes().to_vec();
                    text[at] = b;
                    for shift in [0, 3] {
                        assert_eq!(decimal(&text, shift), other_decimal(&text, shift), "{text:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn digits_are_read_however_many_there_are() {
        for count in 1..=18 {
            let text = &"123456789012345678"[..count];
            assert_eq!(decimal(text.as_bytes(), 0), is(text.parse().unwrap()), "{text}");
            for at in 0..count {
                let broken = format!("{}:{}", &text[..at], &text[at + 1..]);
                assert_eq!(decimal(broken.as_bytes(), 0), Decimal::Not, "{broken}");
            }
        }
        assert_eq!(decimal(b"9223372036854775.807", 3), is(i64::MAX));
        assert_eq!(decimal(b"9223372036854775.808", 3), Decimal::Overflow);
        assert_eq!(decimal(b"9223372036854776", 3), Decimal::Overflow);
    }

    #[test]
    fn digits_below_a_nanosecond_are_rounded_and_said() {
        assert_eq!(decimal(b"1.2345", 3), Decimal::Is { value: 1_235, rounded: true });
        assert_eq!(decimal(b"-1.2344", 3), Decimal::Is { value: -1_234, rounded: true });
    }

    #[test]
    fn what_is_no_number_is_said() {
        for text in [&b""[..], b"NaN", b"Infinity", b"-", b".", b"1.2.3", b"0x10", b"1e", b"null"] {
            assert_eq!(decimal(text, 3), Decimal::Not, "{text:?}");
        }
        for text in [&b"9223372036854775808"[..], b"1e300", b"99999999999999999999999999999999999999999999"] {
            assert_eq!(decimal(text, 0), Decimal::Overflow, "{text:?}");
        }
        assert_eq!(decimal(b"0e999999999", 3), is(0));
        assert_eq!(decimal(b"1e-999999999", 3), Decimal::Is { value: 0, rounded: true });
        assert_eq!(decimal(b"-9223372036854775808", 0), is(i64::MIN));
    }

    #[test]
    fn strings_end_at_their_own_quote() {
        let text = br#""a\"b\\" rest"#;
        let (raw, next) = string(text, 0).unwrap();
        assert_eq!((raw.of(text), raw.kind, next), (&br#"a\"b\\"#[..], RawKind::EscapedText, 8));
        assert_eq!(string(br#""open"#, 0), Err(Stop::More));
        assert_eq!(string(br#""ends in \"#, 0), Err(Stop::More));
    }

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(decode(br#"a\n\u00e9\ud83d\ude00\/"#), ("a\né😀/".into(), false));
        assert_eq!(decode(br"\ud83d!"), ("\u{fffd}!".into(), true));
        assert_eq!(decode(br"C:\path"), ("C:\\path".into(), true));
        assert_eq!(decode(b"\xff\xfe"), ("\u{fffd}\u{fffd}".into(), true));
        assert_eq!(decode(br"\u12"), ("\u{fffd}".into(), true));
    }

    #[test]
    fn brackets_must_match() {
        assert_eq!(nested(br#"{"a":[1,{"b":"]}"}]} x"#, 0), Ok(20));
        assert_eq!(nested(b"[1,2}", 0), Err(Stop::Bad(4)));
        assert_eq!(nested(b"[1,[2", 0), Err(Stop::More));
        assert!(matches!(nested(&[b'['; 100], 0), Err(Stop::Bad(_))));
    }
}
