//! Protobuf's wire format, from bytes in memory and from a file of any size through a window.

use std::fs::File;
use std::io;

use crate::problems::{Problem, Problems};

/// Why bytes are no message, and which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    pub offset: u64,
    pub reason: &'static str,
}

impl Malformed {
    /// What it is in was read no further than to there.
    pub fn tell(&self, problems: &mut Problems) {
        problems.add(Problem::DamagedMessage, self.offset, self.reason.as_bytes());
    }
}

/// A field's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// The varint at `at` and the position behind it.
#[inline(always)]
pub fn varint(bytes: &[u8], at: usize) -> Result<(u64, usize), &'static str> {
    match bytes.get(at) {
        Some(&byte) if byte < 0x80 => Ok((u64::from(byte), at + 1)),
        Some(_) => long_varint(bytes, at),
        None => Err("a number is cut off"),
    }
}

fn long_varint(bytes: &[u8], at: usize) -> Result<(u64, usize), &'static str> {
    let mut value = 0;
    for (number, &byte) in bytes[at..].iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * number);
        if byte < 0x80 {
            return Ok((value, at + number + 1));
        }
    }
    Err(if bytes.len() - at < 10 { "a number is cut off" } else { "a number has more than ten bytes" })
}

/// The fields of a message in memory, in order.
#[derive(Clone)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where in the file the message begins.
    origin: u64,
}

impl<'a> Fields<'a> {
    pub fn new(bytes: &'a [u8], origin: u64) -> Self {
        Self { bytes, at: 0, origin }
    }

    /// Where in the file the field just read ends.
    pub fn offset(&self) -> u64 {
        self.origin + self.at as u64
    }

    #[inline(always)]
    fn next_field(&mut self) -> Result<(u32, Value<'a>), &'static str> {
        let (tag, at) = varint(self.bytes, self.at)?;
        let number = (tag >> 3) as u32;
        if tag >> 32 != 0 || number == 0 {
            return Err("a field has an impossible number");
        }
        let fixed = |length: usize| self.bytes.get(at..at + length).ok_or("a number is cut off");
        let (value, end) = match tag & 7 {
            0 => varint(self.bytes, at).map(|(value, end)| (Value::Varint(value), end))?,
            1 => (Value::Fixed64(u64::from_le_bytes(fixed(8)?.try_into().unwrap_or_default())), at + 8),
            2 => {
                let (length, start) = varint(self.bytes, at)?;
                let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
                let end = end.filter(|&end| end <= self.bytes.len()).ok_or("a field is longer than its message")?;
                (Value::Bytes(&self.bytes[start..end]), end)
            }
            5 => (Value::Fixed32(u32::from_le_bytes(fixed(4)?.try_into().unwrap_or_default())), at + 4),
            _ => return Err("a field has an impossible type"),
        };
        self.at = end;
        Ok((number, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Malformed>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        Some(self.next_field().map_err(|reason| {
            let offset = self.offset();
            self.at = self.bytes.len();
            Malformed { offset, reason }
        }))
    }
}

/// The numbers of a repeated integer field, packed or not.
pub fn packed(value: Value<'_>, numbers: &mut Vec<i64>) {
    match value {
        Value::Varint(number) => numbers.push(number as i64),
        Value::Bytes(bytes) => {
            let mut at = 0;
            while let Ok((number, end)) = varint(bytes, at) {
                numbers.push(number as i64);
                at = end;
            }
        }
        _ => {}
    }
}

/// A file, or bytes in memory, to be read at any position by several threads.
pub enum Source {
    File(File, u64),
    Memory(Vec<u8>),
}

impl Source {
    pub fn open(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Source::File(file, length))
    }

    pub fn len(&self) -> u64 {
        match self {
            Source::File(_, length) => *length,
            Source::Memory(bytes) => bytes.len() as u64,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fill `buffer` from `offset` on, which must all be there.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Source::File(file, _) => read_exact_at(file, buffer, offset),
            Source::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let there = start.checked_add(buffer.len()).and_then(|end| bytes.get(start..end));
                buffer.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        let got = std::os::windows::fs::FileExt::seek_read(file, buffer, offset)?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = &mut buffer[got..];
        offset += got as u64;
    }
    Ok(())
}

/// Where a field's bytes are in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start: u64,
    pub end: u64,
}

impl Span {
    pub fn bytes(self) -> u64 {
        self.end - self.start
    }
}

/// What a field of a message in the file holds: its number, or where its bytes are.
pub enum FieldValue {
    Number(u64),
    Bytes(Span),
    /// What is there of a field that goes on beyond the end of the file.
    Cut(Span),
    /// A number of fixed width, which no field that is looked for has.
    Skipped,
}

/// What ends the walk through a file.
#[derive(Debug)]
pub enum Stop {
    Malformed(Malformed),
    Io(io::Error),
}

impl From<Malformed> for Stop {
    fn from(malformed: Malformed) -> Self {
        Stop::Malformed(malformed)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Io(error)
    }
}

/// Why most fields that are cut off cannot be read.
pub const LONGER: &str = "a field is longer than what it is in";

/// Bytes read at once: few calls, and no more than a cache holds.
pub const WINDOW_BYTES: usize = 512 << 10;

/// The text of a field of a file.
pub fn text(window: &mut Window<'_>, span: Span) -> Result<String, Stop> {
    Ok(String::from_utf8_lossy(window.bytes(span)?).into_owned())
}

/// Part of the file, moved forward as it is read.
pub struct Window<'a> {
    source: &'a Source,
    /// Where messages were damaged, of which what follows the damage was not read.
    pub damage: Vec<Malformed>,
    buffer: Vec<u8>,
    origin: u64,
    step: usize,
}

/// A tag and a length.
const MAX_HEAD: u64 = 20;

impl<'a> Window<'a> {
    pub fn new(source: &'a Source, step: usize) -> Self {
        Self { source, damage: Vec::new(), buffer: Vec::new(), origin: 0, step }
    }

    /// The bytes of `span`, which lies within the file.
    #[inline(always)]
    pub fn bytes(&mut self, span: Span) -> io::Result<&[u8]> {
        let end = self.origin + self.buffer.len() as u64;
        if span.start < self.origin || span.end > end {
            self.load(span)?;
        }
        let start = (span.start - self.origin) as usize;
        Ok(&self.buffer[start..start + span.bytes() as usize])
    }

    #[cold]
    fn load(&mut self, span: Span) -> io::Result<()> {
        let wanted = span.bytes().max(self.step as u64).min(self.source.len() - span.start);
        let wanted = usize::try_from(wanted).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // What is damaged may seem as long as the file.
        self.buffer.try_reserve(wanted.saturating_sub(self.buffer.len())).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.buffer.resize(wanted, 0);
        self.origin = span.start;
        let read = self.source.read_exact_at(&mut self.buffer, span.start);
        if read.is_err() {
            self.buffer.clear();
        }
        read
    }

    /// The next field of the message that fills `rest`, which then begins behind it; bytes are not read yet.
    ///
    /// A message that is damaged ends where it is.
    #[inline(always)]
    pub fn field(&mut self, rest: &mut Span) -> Result<Option<(u32, FieldValue)>, Stop> {
        if rest.start >= rest.end {
            return Ok(None);
        }
        match self.whole_field(rest) {
            Err(Stop::Malformed(malformed)) => {
                rest.start = rest.end;
                self.damage.push(malformed);
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    #[inline(always)]
    fn whole_field(&mut self, rest: &mut Span) -> Result<(u32, FieldValue), Stop> {
        let head = Span { start: rest.start, end: rest.end.min(rest.start + MAX_HEAD) };
        let bad = |reason| Malformed { offset: head.start, reason };
        let bytes = self.bytes(head)?;
        let (tag, at) = varint(bytes, 0).map_err(bad)?;
        let number = (tag >> 3) as u32;
        if tag >> 32 != 0 || number == 0 {
            return Err(bad("a field has an impossible number").into());
        }
        let (held, length) = match tag & 7 {
            0 => varint(bytes, at).map(|(value, end)| (FieldValue::Number(value), end as u64)).map_err(bad)?,
            1 => (FieldValue::Skipped, at as u64 + 8),
            2 => {
                let (length, start) = varint(bytes, at).map_err(bad)?;
                let start = rest.start + start as u64;
                match start.checked_add(length).filter(|&end| end <= rest.end) {
                    Some(end) => (FieldValue::Bytes(Span { start, end }), end - rest.start),
                    None if rest.end == self.source.len() && start <= rest.end => {
                        (FieldValue::Cut(Span { start, end: rest.end }), rest.bytes())
                    }
                    None => return Err(bad(LONGER).into()),
                }
            }
            5 => (FieldValue::Skipped, at as u64 + 4),
            _ => return Err(bad("a field has an impossible type").into()),
        };
        if length > rest.bytes() {
            return Err(bad("a number is cut off").into());
        }
        rest.start += length;
        Ok((number, held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Result<Vec<(u32, Value<'_>)>, Malformed> {
        Fields::new(bytes, 100).collect()
    }

    #[test]
    fn fields_of_every_type_are_read() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1d, 1, 0, 0, 0, 0x21, 2, 0, 0, 0, 0, 0, 0, 0];
        let found = fields(&bytes).unwrap();
        assert_eq!(
            found,
            [(1, Value::Varint(150)), (2, Value::Bytes(b"hi")), (3, Value::Fixed32(1)), (4, Value::Fixed64(2))]
        );
    }

    #[test]
    fn a_negative_number_has_ten_bytes() {
        let bytes = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(fields(&bytes).unwrap(), [(1, Value::Varint(u64::MAX))]);
    }

    #[test]
    fn a_length_beyond_the_message_is_noticed_where_it_is() {
        let bytes = [0x08, 1, 0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let error = fields(&bytes).unwrap_err();
        assert_eq!(error, Malformed { offset: 102, reason: "a field is longer than its message" });
    }

    #[test]
    fn groups_and_field_zero_are_no_messages() {
        assert_eq!(fields(&[0x0b]).unwrap_err().reason, "a field has an impossible type");
        assert_eq!(fields(&[0x02, 0]).unwrap_err().reason, "a field has an impossible number");
        assert_eq!(fields(&[0x08, 0x80]).unwrap_err().reason, "a number is cut off");
    }

    #[test]
    fn a_window_reads_as_memory_does_whatever_its_size() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1d, 1, 0, 0, 0, 0x0a, 0];
        let source = Source::Memory(bytes.to_vec());
        for step in [1, 3, 1000] {
            let mut window = Window::new(&source, step);
            let mut rest = Span { start: 0, end: source.len() };
            let mut found = Vec::new();
            while let Some((number, held)) = window.field(&mut rest).unwrap() {
                found.push((
                    number,
                    match held {
                        FieldValue::Number(value) => value,
                        FieldValue::Bytes(span) | FieldValue::Cut(span) => window.bytes(span).unwrap().len() as u64,
                        FieldValue::Skipped => 0,
                    },
                ));
            }
            assert_eq!(found, [(1, 150), (2, 2), (3, 0), (1, 0)]);
        }
    }
}
