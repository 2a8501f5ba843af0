//! Types and sizes of results.

use std::fmt::Write;

use crate::xplane::protobuf::{Fields, Malformed, Value, packed};
use crate::xplane::schema::{layout, shape, tile};

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
    /// How an array lies in memory, e.g. `{1,0:T(8,128)S(1)}`; of a tuple those of its parts.
    pub layout: String,
    pub bytes: Option<i64>,
    pub elements: Option<i64>,
    /// Dimensions and bytes of an array, of a tuple those of its first part.
    pub dimensions: Vec<i64>,
    pub first_bytes: Option<i64>,
    /// Type of its elements, as the text has it.
    pub element_type: &'static str,
}

impl Shape {
    pub fn read(bytes: &[u8], origin: u64, depth: usize) -> Result<Self, Malformed> {
        let mut kind = 0;
        let mut dims = Vec::new();
        let mut parts = Vec::new();
        let mut layout = String::new();
        for field in Fields::new(bytes, origin) {
            match field? {
                (shape::ELEMENT_TYPE, Value::Varint(number)) => kind = number as usize,
                (shape::DIMENSIONS, value) => packed(value, &mut dims),
                (shape::LAYOUT, Value::Bytes(written)) => layout = read_layout(written, origin)?,
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
        let bytes = bytes.map(|bits| bits / 8 + i64::from(bits % 8 != 0));
        Ok(Self {
            text,
            layout: if dims.is_empty() { String::new() } else { layout },
            bytes,
            elements: elements.filter(|_| bits > 0),
            dimensions: dims,
            first_bytes: bytes,
            element_type: name,
        })
    }

    fn tuple(parts: &[Shape], depth: usize) -> Self {
        let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
        let text = if depth == MAX_TUPLE_DEPTH { "(…)".to_string() } else { format!("({})", texts.join(", ")) };
        let sum = |of: fn(&Shape) -> Option<i64>| {
            let known: Vec<i64> = parts.iter().filter_map(of).collect();
            if known.is_empty() { None } else { known.into_iter().try_fold(0i64, i64::checked_add) }
        };
        let is_known = depth == 0 && parts.iter().any(|part| !part.layout.is_empty());
        let layouts: Vec<&str> = parts.iter().map(|part| part.layout.as_str()).collect();
        let layout = if is_known { format!("({})", layouts.join(", ")) } else { String::new() };
        let (bytes, elements) = (sum(|part| part.bytes), sum(|part| part.elements));
        let first = parts.first();
        Self {
            text,
            layout,
            bytes,
            elements,
            dimensions: first.map(|part| part.dimensions.clone()).unwrap_or_default(),
            first_bytes: first.and_then(|part| part.first_bytes),
            element_type: first.map_or("", |part| part.element_type),
        }
    }
}

/// A layout as XLA writes it: dimensions from the innermost, tiles, and the memory if it is not the main one.
fn read_layout(bytes: &[u8], origin: u64) -> Result<String, Malformed> {
    let (mut order, mut tiles, mut memory) = (Vec::new(), Vec::new(), 0);
    for field in Fields::new(bytes, origin) {
        match field? {
            (layout::MINOR_TO_MAJOR, value) => packed(value, &mut order),
            (layout::TILES, Value::Bytes(tile)) => tiles.push(tile_dimensions(tile, origin)?),
            (layout::MEMORY_SPACE, Value::Varint(space)) => memory = space,
            _ => {}
        }
    }
    let mut text = listed(&order);
    if !tiles.is_empty() {
        text.push_str(":T");
        tiles.iter().for_each(|tile| text.push_str(&format!("({})", listed(tile))));
    }
    if memory != 0 {
        text.push_str(&format!("{}S({memory})", if tiles.is_empty() { ":" } else { "" }));
    }
    Ok(format!("{{{text}}}"))
}

fn tile_dimensions(bytes: &[u8], origin: u64) -> Result<Vec<i64>, Malformed> {
    let mut found = Vec::new();
    for field in Fields::new(bytes, origin) {
        if let (tile::DIMENSIONS, value) = field? {
            packed(value, &mut found);
        }
    }
    Ok(found)
}

fn listed(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
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
    fn a_layout_is_written_as_xla_writes_it() {
        // The order of dimensions 1,0; a tile of 8 times 128; memory 1.
        assert_eq!(read_layout(&[0x0a, 2, 1, 0], 0).unwrap(), "{1,0}");
        let tiled = [0x0a, 2, 1, 0, 0x32, 5, 0x0a, 3, 8, 0x80, 1, 0x40, 1];
        assert_eq!(read_layout(&tiled, 0).unwrap(), "{1,0:T(8,128)S(1)}");
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
