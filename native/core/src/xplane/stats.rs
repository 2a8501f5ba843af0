//! Stats of planes and events, and what their keys mean.

use crate::columns::arg_column::{ArgColumn, ArgValues};
use crate::columns::id_map::IdMap;
use crate::trace_event::kineto::MAX_DURATION_NS;
use crate::xplane::protobuf::{Fields, Malformed, Value};
use crate::xplane::schema::x_stat;
use crate::xplane::space::{PlaneStat, Space};

/// A key of stats, in one plane.
pub struct Key {
    pub name: Vec<u8>,
    /// The column that keeps it, or `NONE`.
    pub column: u32,
    /// The profiler's own bookkeeping, and no argument of the event.
    pub is_internal: bool,
    /// Only operations of a device have it; their arguments have columns of their own.
    pub is_operation: bool,
    /// How many picoseconds something took.
    pub is_duration: bool,
}

/// What the ids in a plane's events mean.
pub struct Dictionary {
    pub keys: Vec<Key>,
    pub key_places: IdMap,
    /// To rows of the space's metadata.
    pub metadata_rows: IdMap,
    pub keeps_arguments: bool,
}

/// A key with its value.
pub struct Stat<'a> {
    pub key: i64,
    pub value: StatValue<'a>,
    /// Where in the file its bytes begin.
    pub offset: u64,
}

#[derive(Clone, Copy)]
pub enum StatValue<'a> {
    None,
    Double(f64),
    Uint(u64),
    Int(i64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
    /// The name of the stat of that id.
    Reference(i64),
}

impl<'a> Stat<'a> {
    #[inline(always)]
    pub fn read(bytes: &'a [u8], origin: u64) -> std::result::Result<Self, Malformed> {
        let mut stat = Stat { key: 0, value: StatValue::None, offset: origin };
        let mut fields = Fields::new(bytes, origin);
        while let Some(field) = fields.next() {
            match field? {
                (x_stat::METADATA_ID, Value::Varint(id)) => stat.key = id as i64,
                (x_stat::DOUBLE_VALUE, Value::Fixed64(bits)) => stat.value = StatValue::Double(f64::from_bits(bits)),
                (x_stat::UINT64_VALUE, Value::Varint(number)) => stat.value = StatValue::Uint(number),
                (x_stat::INT64_VALUE, Value::Varint(number)) => stat.value = StatValue::Int(number as i64),
                (x_stat::STR_VALUE, Value::Bytes(text)) => stat.value = StatValue::Text(text),
                (x_stat::BYTES_VALUE, Value::Bytes(bytes)) => {
                    stat.value = StatValue::Blob(bytes);
                    stat.offset = fields.offset() - bytes.len() as u64;
                }
                (x_stat::REF_VALUE, Value::Varint(id)) => stat.value = StatValue::Reference(id as i64),
                _ => {}
            }
        }
        Ok(stat)
    }
}

impl Dictionary {
    pub fn key(&self, id: i64) -> Option<&Key> {
        self.keys.get(self.key_places.get(id) as usize)
    }

    /// The text of a value that is text.
    pub fn text<'a>(&'a self, value: StatValue<'a>) -> Option<&'a [u8]> {
        match value {
            StatValue::Text(text) => Some(text),
            StatValue::Reference(id) => Some(self.key(id).map_or(b"".as_slice(), |key| &key.name)),
            _ => None,
        }
    }

    /// Keep a stat's value for `row` of a column; the last one counts.
    #[inline(always)]
    pub fn keep(&self, column: &mut ArgColumn, row: u32, stat: &Stat<'_>) {
        if column.rows.last() == Some(&row) {
            column.pop();
        }
        let is_kept = match &mut column.values {
            ArgValues::Int(values) => self.whole(stat.value).map(|value| values.push(value)),
            ArgValues::Float(values) => self.number(stat.value).map(|value| values.push(value)),
            ArgValues::Text(codes, strings) => {
                let code = match (self.text(stat.value), stat.value) {
                    (Some(text), _) => Some(strings.code(text)),
                    (None, StatValue::Int(value)) => Some(strings.code(value.to_string().as_bytes())),
                    (None, StatValue::Uint(value)) => Some(strings.code(value.to_string().as_bytes())),
                    (None, StatValue::Double(value)) => Some(strings.code(value.to_string().as_bytes())),
                    _ => None,
                };
                code.map(|code| codes.push(code))
            }
        };
        if is_kept.is_some() {
            column.rows.push(row);
        }
    }

    /// Whether so many picoseconds are no longer than any recording.
    pub fn is_possible(&self, picoseconds: StatValue<'_>) -> bool {
        self.whole(picoseconds).is_some_and(|value| (0..=MAX_DURATION_NS * 1000).contains(&value))
    }

    /// A whole number; ids of 64 bits keep their bits.
    #[inline(always)]
    fn whole(&self, value: StatValue<'_>) -> Option<i64> {
        match value {
            StatValue::Int(value) => Some(value),
            StatValue::Uint(value) => Some(value as i64),
            StatValue::Double(value) if value.fract() == 0.0 && value.abs() < 9e18 => Some(value as i64),
            _ => std::str::from_utf8(self.text(value)?).ok()?.parse().ok(),
        }
    }

    fn number(&self, value: StatValue<'_>) -> Option<f64> {
        match value {
            StatValue::Double(value) => Some(value),
            StatValue::Int(value) => Some(value as f64),
            StatValue::Uint(value) => Some(value as f64),
            _ => std::str::from_utf8(self.text(value)?).ok()?.parse().ok(),
        }
    }

    pub fn plane_stat(&self, plane: u32, stat: &Stat<'_>, space: &mut Space) {
        let Some(key) = self.key(stat.key) else { return };
        let text = self.text(stat.value).map(|text| String::from_utf8_lossy(text).into_owned());
        let key = String::from_utf8_lossy(&key.name).into_owned();
        let (whole, number) =
            if text.is_some() { (None, None) } else { (self.whole(stat.value), self.number(stat.value)) };
        if text.is_some() || number.is_some() {
            space.plane_stats.push(PlaneStat { plane, key, whole, number, text });
        }
    }

    /// Add `"key":value` to the JSON text of an event's arguments.
    pub fn argument(&self, json: &mut Vec<u8>, key: &Key, stat: &Stat<'_>) {
        json.push(if json.is_empty() { b'{' } else { b',' });
        quote(json, &key.name);
        json.push(b':');
        match stat.value {
            StatValue::Int(value) => json.extend(value.to_string().bytes()),
            StatValue::Uint(value) => json.extend(value.to_string().bytes()),
            StatValue::Double(value) if value.is_finite() => json.extend(format!("{value:?}").bytes()),
            StatValue::Text(_) | StatValue::Reference(_) => quote(json, self.text(stat.value).unwrap_or_default()),
            // Bytes of a message that nobody declared say nothing.
            _ => json.extend(b"null"),
        }
    }
}

fn quote(json: &mut Vec<u8>, text: &[u8]) {
    json.push(b'"');
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '"' | '\\' => json.extend([b'\\', character as u8]),
            control if control < ' ' => json.extend(format!("\\u{:04x}", control as u32).bytes()),
            other => json.extend(other.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    json.push(b'"');
}
