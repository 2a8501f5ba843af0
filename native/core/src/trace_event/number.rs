//! Numbers as they stand in a text.

/// Decimal places from microseconds to nanoseconds.
pub const TO_NS: i32 = 3;

pub fn float(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok().filter(|value: &f64| value.is_finite())
}

/// The number behind `0x`.
pub fn hexadecimal(text: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text.strip_prefix(b"0x")?).ok()?;
    u64::from_str_radix(digits, 16).ok()
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
    // Behind a point there are digits; where there are none, most likely a comma was damaged.
    if seen == 0 || decimals == 0 || missing < 0 || seen + missing > MOST_DIGITS {
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
    if (fraction.is_empty() && (point == 0 || point < mantissa.len()))
        || !is_digits(&mantissa[..point])
        || !is_digits(fraction)
    {
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
        for text in [&b""[..], b"NaN", b"Infinity", b"-", b".", b"1.2.3", b"7.", b"7.e1", b"0x10", b"1e", b"null"] {
            assert_eq!(decimal(text, 3), Decimal::Not, "{text:?}");
        }
        for text in [&b"9223372036854775808"[..], b"1e300", b"99999999999999999999999999999999999999999999"] {
            assert_eq!(decimal(text, 0), Decimal::Overflow, "{text:?}");
        }
        assert_eq!(decimal(b"0e999999999", 3), is(0));
        assert_eq!(decimal(b"1e-999999999", 3), Decimal::Is { value: 0, rounded: true });
        assert_eq!(decimal(b"-9223372036854775808", 0), is(i64::MIN));
    }
}
