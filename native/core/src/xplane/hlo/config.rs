//! What the JSON text of a custom call's configuration says, as far as it is asked for.

/// The whole number behind a key, written as a number or as text; the first if the key is there several times.
pub fn whole(config: &[u8], key: &str) -> Option<i64> {
    let digits = behind(config, key)?;
    let digits = digits.strip_prefix(b"\"").unwrap_or(digits);
    number(digits).map(|(value, _)| value)
}

/// The list of whole numbers behind a key; empty where nothing or something else is there.
pub fn list(config: &[u8], key: &str) -> Vec<i64> {
    let mut found = Vec::new();
    let Some(mut rest) = behind(config, key).and_then(|rest| rest.strip_prefix(b"[")) else { return found };
    loop {
        let skipped = rest.iter().take_while(|byte| matches!(byte, b' ' | b',' | b'"')).count();
        rest = &rest[skipped..];
        let Some((value, length)) = number(rest) else { return found };
        found.push(value);
        rest = &rest[length..];
    }
}

/// Whether the list of texts behind a key holds one.
pub fn holds(config: &[u8], key: &str, text: &str) -> bool {
    let list = behind(config, key).and_then(|rest| rest.strip_prefix(b"["));
    let Some(list) = list.and_then(|rest| rest.split(|byte| *byte == b']').next()) else { return false };
    let quoted = format!("\"{text}\"");
    list.windows(quoted.len()).any(|found| found == quoted.as_bytes())
}

/// The text behind `"key":`, from the first character that is no space.
fn behind<'a>(config: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let quoted = format!("\"{key}\"");
    let at = config.windows(quoted.len()).position(|text| text == quoted.as_bytes())?;
    let rest = config[at + quoted.len()..].trim_ascii_start();
    Some(rest.strip_prefix(b":")?.trim_ascii_start())
}

/// A whole number without a sign at the beginning, and how many digits it has.
fn number(text: &[u8]) -> Option<(i64, usize)> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = std::str::from_utf8(&text[..length]).ok()?.parse().ok()?;
    Some((value, length))
}

#[cfg(test)]
mod tests {
    use super::{holds, list, whole};

    const CONFIG: &[u8] = br#"{"cost_estimate": {"flops": "96", "bytes_accessed":12},
        "dot_dimension_numbers":{"lhs_contracting_dimensions":["1", "2"],"rhs_contracting_dimensions":[]}}"#;

    #[test]
    fn numbers_are_read_whether_quoted_or_not() {
        assert_eq!(whole(CONFIG, "flops"), Some(96));
        assert_eq!(whole(CONFIG, "bytes_accessed"), Some(12));
        assert_eq!(list(CONFIG, "lhs_contracting_dimensions"), [1, 2]);
    }

    #[test]
    fn texts_are_looked_for_in_their_own_list() {
        let config = br#"{"operand_precision": ["DEFAULT", "HIGHEST"],"algorithm":["OTHER"]}"#;
        assert!(holds(config, "operand_precision", "HIGHEST"));
        assert!(!holds(config, "operand_precision", "OTHER"));
        assert!(!holds(config, "operand_precision", "HIGH"));
        assert!(!holds(CONFIG, "flops", "96"));
    }

    #[test]
    fn what_is_not_there_or_no_number_is_nothing() {
        assert_eq!(whole(CONFIG, "transcendentals"), None);
        assert_eq!(whole(CONFIG, "cost_estimate"), None);
        assert!(list(CONFIG, "rhs_contracting_dimensions").is_empty());
        assert!(list(CONFIG, "flops").is_empty());
        assert_eq!(whole(br#"{"flops":99999999999999999999}"#, "flops"), None);
    }
}
