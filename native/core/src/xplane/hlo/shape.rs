//! Types and sizes of results.

use std::fmt::Write;

use crate::xplane::protobuf::{Fields, Malformed, Value, packed};
use crate::xplane::schema::shape;

/// Nested tuples below this depth are shown as `(…)`: nothing here may recurse on input.
const MAX_TUPLE_DEPTH: usize = 2;

/// Name and bits of each primitive type, by its number in xla_data.proto.
const TYPES: [(&str, u32); 31] = [
    ("invalid", 0),
    ("pred", 8),
    ("s8", 8),
    ("s16", 16),
    ("s32", 32),
    ("s64", 64),
    ("u8", 8),
    ("u16", 16),
    ("u32", 32),
    ("u64", 64),
    ("f16", 16),
    ("f32", 32),
    ("f64", 64),
    ("tuple", 0),
    ("opaque", 0),
    ("c64", 64),
    ("bf16", 16),
    ("token", 0),
    ("c128", 128),
    ("f8e5m2", 8),
    ("f8e4m3fn", 8),
    ("s4", 4),
    ("u4", 4),
    ("f8e4m3b11fnuz", 8),
    ("f8e5m2fnuz", 8),
    ("f8e4m3fnuz", 8),
    ("s2", 2),
    ("u2", 2),
    ("s1", 1),
    ("f8e4m3", 8),
    ("f8e3m4", 8),
];

/// Type and size of a result.
#[derive(Default)]
pub struct Shape {
    pub text: String,
    pub bytes: Option<i64>,
    pub elements: Option<i64>,
}

impl Shape {
    pub fn read(bytes: &[u8], origin: u64, depth: usize) -> Result<Self, Malformed> {
        let mut kind = 0;
        let mut dims = Vec::new();
        let mut parts = Vec::new();
        for field in Fields::new(bytes, origin) {
            match field? {
                (shape::ELEMENT_TYPE, Value::Varint(number)) => kind = number as usize,
                (shape::DIMENSIONS, value) => packed(value, &mut dims),
                (shape::TUPLE_SHAPES, Value::Bytes(part)) if depth < MAX_TUPLE_DEPTH => {
                    parts.push(Self::read(part, origin, depth + 1)?);
                }
                _ => {}
            }
        }
        let Some(&(name, bits)) = TYPES.get(kind) else { return Ok(Self::default()) };
        if name == "tuple" {
            return Ok(Self::tuple(&parts, depth));
        }
        let elements = dims.iter().try_fold(1i64, |product, &dim| product.checked_mul(dim.max(0)));
        let bytes = elements.filter(|_| bits > 0).and_then(|count| count.checked_mul(i64::from(bits)));
        let mut text = format!("{name}[");
        for (at, dim) in dims.iter().enumerate() {
            let _ = write!(text, "{}{dim}", if at == 0 { "" } else { "," });
        }
        text.push(']');
        Ok(Self {
            text,
            bytes: bytes.map(|bits| bits / 8 + i64::from(bits % 8 != 0)),
            elements: elements.filter(|_| bits > 0),
        })
    }

    fn tuple(parts: &[Shape], depth: usize) -> Self {
        let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
        let text = if depth == MAX_TUPLE_DEPTH { "(…)".to_string() } else { format!("({})", texts.join(", ")) };
        let sum = |of: fn(&Shape) -> Option<i64>| {
            let known: Vec<i64> = parts.iter().filter_map(of).collect();
            if known.is_empty() { None } else { known.into_iter().try_fold(0i64, i64::checked_add) }
        };
        Self { text, bytes: sum(|part| part.bytes), elements: sum(|part| part.elements) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_says_its_type_dimensions_and_size() {
        // bf16[2,3]
        let shape = Shape::read(&[0x10, 16, 0x1a, 2, 2, 3], 0, 0).unwrap();
        assert_eq!((shape.text.as_str(), shape.bytes, shape.elements), ("bf16[2,3]", Some(12), Some(6)));
    }

    #[test]
    fn a_tuple_has_the_size_of_its_parts_and_no_endless_depth() {
        let tuple = |part: &[u8]| [&[0x10, 13, 0x22, part.len() as u8][..], part].concat();
        let scalar = [0x10, 11];
        let shape = Shape::read(&tuple(&scalar), 0, 0).unwrap();
        assert_eq!((shape.text.as_str(), shape.bytes), ("(f32[])", Some(4)));
        let deep = Shape::read(&tuple(&tuple(&tuple(&tuple(&scalar)))), 0, 0).unwrap();
        assert_eq!(deep.text, "(((…)))");
    }
}
