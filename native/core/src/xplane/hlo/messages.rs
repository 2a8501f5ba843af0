//! The messages within a message.

use crate::xplane::protobuf::{Fields, Malformed, Value};

/// A field's number, bytes, and where these begin in the file.
pub type Message<'a> = (u32, &'a [u8], u64);

/// The fields of a message that are messages or text themselves.
pub fn messages(bytes: &[u8], origin: u64) -> Result<Vec<Message<'_>>, Malformed> {
    let mut fields = Fields::new(bytes, origin);
    let mut found = Vec::new();
    while let Some(field) = fields.next() {
        if let (number, Value::Bytes(value)) = field? {
            found.push((number, value, fields.offset() - value.len() as u64));
        }
    }
    Ok(found)
}
