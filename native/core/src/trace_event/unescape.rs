//! The text that stands between quotes, escapes decoded.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(decode(br#"a\n\u00e9\ud83d\ude00\/"#), ("a\né😀/".into(), false));
        assert_eq!(decode(br"\ud83d!"), ("\u{fffd}!".into(), true));
        assert_eq!(decode(br"C:\path"), ("C:\\path".into(), true));
        assert_eq!(decode(b"\xff\xfe"), ("\u{fffd}\u{fffd}".into(), true));
        assert_eq!(decode(br"\u12"), ("\u{fffd}".into(), true));
    }
}
