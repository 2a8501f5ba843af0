//! The compiled programs a profile holds: instructions with their opcodes, scopes, sources and shapes.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};

use crate::columns::table::{Interner, NONE, batch};
use crate::error::{Error, Result as CoreResult};
use crate::xplane::protobuf::{Fields, Malformed, Value, packed};

/// Rows of the hlo table.
#[derive(Default)]
pub struct Instructions {
    strings: Interner,
    texts: [Vec<u32>; TEXTS.len()],
    program: Vec<i64>,
    is_fused: Vec<bool>,
    result_bytes: Vec<Option<i64>>,
    element_count: Vec<Option<i64>>,
    channel: Vec<Option<i64>>,
}

/// Text columns, in the order in which a row is written.
const TEXTS: [&str; 10] =
    ["module", "name", "opcode", "computation", "scope", "source", "shape", "layout", "target", "groups"];

/// Nested tuples below this depth are shown as `(…)`: nothing here may recurse on input.
const MAX_TUPLE_DEPTH: usize = 2;
/// Devices of a program; more come from a made-up list of groups.
const MAX_DEVICES: i64 = 1 << 14;

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

impl Instructions {
    /// Add all instructions of an `HloProto` that begins at `origin` in the file.
    pub fn add(&mut self, proto: &[u8], origin: u64, module: &[u8], program: i64) -> Result<(), Malformed> {
        let Some((hlo_module, origin)) = member(proto, origin, 1)? else { return Ok(()) };
        let frames = match member(hlo_module, origin, 17)? {
            Some((index, origin)) => Frames::read(index, origin)?,
            None => Frames::default(),
        };
        for (number, value, origin) in messages(hlo_module, origin)? {
            if number == 3 {
                self.computation(value, origin, module, program, &frames)?;
            }
        }
        Ok(())
    }

    fn computation(
        &mut self,
        bytes: &[u8],
        origin: u64,
        module: &[u8],
        program: i64,
        frames: &Frames,
    ) -> Result<(), Malformed> {
        let mut name: &[u8] = b"";
        let mut is_fused = false;
        for field in Fields::new(bytes, origin) {
            match field? {
                (1, Value::Bytes(text)) => name = text,
                (7, Value::Varint(flag)) => is_fused = flag != 0,
                _ => {}
            }
        }
        for (number, value, origin) in messages(bytes, origin)? {
            if number == 2 {
                let row = Instruction::read(value, origin, frames)?;
                self.push(module, program, name, is_fused, &row);
            }
        }
        Ok(())
    }

    fn push(&mut self, module: &[u8], program: i64, computation: &[u8], is_fused: bool, row: &Instruction<'_>) {
        let texts = [
            module,
            row.name,
            row.opcode,
            computation,
            row.scope,
            row.source.as_bytes(),
            row.shape.text.as_bytes(),
            row.shape.layout.as_bytes(),
            row.target,
            row.groups.as_bytes(),
        ];
        for (codes, text) in self.texts.iter_mut().zip(texts) {
            codes.push(if text.is_empty() { NONE } else { self.strings.code(text) });
        }
        self.program.push(program);
        self.is_fused.push(is_fused);
        self.result_bytes.push(row.shape.bytes);
        self.element_count.push(row.shape.elements);
        self.channel.push(row.channel);
    }

    pub fn table(&self, columns: &[String]) -> CoreResult<RecordBatch> {
        let column = |name: &str| -> Option<ArrayRef> {
            if let Some(at) = TEXTS.iter().position(|text| *text == name) {
                return Some(self.strings.dictionary(self.texts[at].iter().copied()));
            }
            Some(match name {
                "program" => Arc::new(Int64Array::from(self.program.clone())),
                "is_fused" => Arc::new(BooleanArray::from(self.is_fused.clone())),
                "result_bytes" => Arc::new(Int64Array::from(self.result_bytes.clone())),
                "element_count" => Arc::new(Int64Array::from(self.element_count.clone())),
                "channel" => Arc::new(Int64Array::from(self.channel.clone())),
                _ => return None,
            })
        };
        let found = columns.iter().map(|name| {
            let array = column(name).ok_or_else(|| Error::Unknown(format!("column {name:?} of hlo")))?;
            Ok((name.clone(), array))
        });
        batch(found.collect::<CoreResult<_>>()?)
    }
}

/// The last of a message's fields of that number, and where its bytes begin.
fn member(bytes: &[u8], origin: u64, wanted: u32) -> Result<Option<(&[u8], u64)>, Malformed> {
    let found = messages(bytes, origin)?.into_iter().rev().find(|(number, ..)| *number == wanted);
    Ok(found.map(|(_, bytes, origin)| (bytes, origin)))
}

/// A field's number, bytes, and where these begin in the file.
type Message<'a> = (u32, &'a [u8], u64);

/// The fields of a message that are messages or text themselves.
fn messages(bytes: &[u8], origin: u64) -> Result<Vec<Message<'_>>, Malformed> {
    let mut fields = Fields::new(bytes, origin);
    let mut found = Vec::new();
    while let Some(field) = fields.next() {
        if let (number, Value::Bytes(value)) = field? {
            found.push((number, value, fields.offset() - value.len() as u64));
        }
    }
    Ok(found)
}

/// What is kept of an instruction.
#[derive(Default)]
struct Instruction<'a> {
    name: &'a [u8],
    opcode: &'a [u8],
    scope: &'a [u8],
    source: String,
    shape: Shape,
    /// What a custom call calls.
    target: &'a [u8],
    groups: String,
    channel: Option<i64>,
}

impl<'a> Instruction<'a> {
    fn read(bytes: &'a [u8], origin: u64, frames: &Frames) -> Result<Self, Malformed> {
        let mut row = Self::default();
        let mut groups: Vec<Vec<i64>> = Vec::new();
        for field in Fields::new(bytes, origin) {
            match field? {
                (1, Value::Bytes(text)) => row.name = text,
                (2, Value::Bytes(text)) => row.opcode = text,
                (3, Value::Bytes(shape)) => row.shape = Shape::read(shape, origin, 0)?,
                (7, Value::Bytes(metadata)) => row.metadata(metadata, origin, frames)?,
                (28, Value::Bytes(target)) => row.target = target,
                (26, Value::Varint(channel)) => row.channel = Some(channel as i64),
                (49, Value::Bytes(group)) => groups.push(members(group, origin)?),
                (87, Value::Bytes(list)) => groups = device_list(list, origin)?,
                _ => {}
            }
        }
        if !groups.is_empty() {
            row.groups = format!("{groups:?}");
        }
        Ok(row)
    }

    fn metadata(&mut self, bytes: &'a [u8], origin: u64, frames: &Frames) -> Result<(), Malformed> {
        let mut file = String::new();
        let mut line = 0;
        let mut frame = 0;
        for field in Fields::new(bytes, origin) {
            match field? {
                (2, Value::Bytes(text)) => self.scope = text,
                (3, Value::Bytes(text)) => file = String::from_utf8_lossy(text).into_owned(),
                (4, Value::Varint(number)) => line = number as i32,
                (15, Value::Varint(number)) => frame = number,
                _ => {}
            }
        }
        self.source = match file.as_str() {
            "" => frames.source(frame).unwrap_or_default(),
            _ => format!("{file}:{line}"),
        };
        Ok(())
    }
}

/// Replica groups as they are listed, or as an iota: `[groups, size]<=[dims]T(perm)`.
fn device_list(bytes: &[u8], origin: u64) -> Result<Vec<Vec<i64>>, Malformed> {
    let mut groups = Vec::new();
    for field in Fields::new(bytes, origin) {
        match field? {
            (1, Value::Bytes(group)) => groups.push(members(group, origin)?),
            (2, Value::Bytes(iota)) => return iota_groups(iota, origin),
            _ => {}
        }
    }
    Ok(groups)
}

fn members(bytes: &[u8], origin: u64) -> Result<Vec<i64>, Malformed> {
    let mut found = Vec::new();
    for field in Fields::new(bytes, origin) {
        if let (1, value) = field? {
            packed(value, &mut found);
        }
    }
    Ok(found)
}

fn iota_groups(bytes: &[u8], origin: u64) -> Result<Vec<Vec<i64>>, Malformed> {
    let (mut count, mut size) = (0, 0);
    let (mut dims, mut perm) = (Vec::new(), Vec::new());
    for field in Fields::new(bytes, origin) {
        match field? {
            (1, Value::Varint(number)) => count = number as i64,
            (2, Value::Varint(number)) => size = number as i64,
            (3, value) => packed(value, &mut dims),
            (4, value) => packed(value, &mut perm),
            _ => {}
        }
    }
    Ok(iota(count, size, &dims, &perm))
}

/// The groups an iota stands for; none if it makes no sense.
pub fn iota(count: i64, size: i64, dims: &[i64], perm: &[i64]) -> Vec<Vec<i64>> {
    let total = dims.iter().try_fold(1i64, |product, &dim| product.checked_mul(dim)).unwrap_or(0);
    let is_sound = (1..=MAX_DEVICES).contains(&total) && dims.iter().all(|&dim| dim > 0);
    if !is_sound || count < 1 || count.checked_mul(size) != Some(total) {
        return Vec::new();
    }
    let natural: Vec<i64> = (0..dims.len() as i64).collect();
    let perm = if perm.is_empty() { &natural[..] } else { perm };
    let mut sorted = perm.to_vec();
    sorted.sort_unstable();
    if sorted != natural {
        return Vec::new();
    }
    let stride = |axis: usize| dims[axis + 1..].iter().product::<i64>();
    let devices: Vec<i64> = (0..total)
        .map(|mut at| {
            let mut device = 0;
            for &axis in perm.iter().rev() {
                let dim = dims[axis as usize];
                device += at % dim * stride(axis as usize);
                at /= dim;
            }
            device
        })
        .collect();
    devices.chunks(size as usize).map(<[i64]>::to_vec).collect()
}

/// Type and size of a result.
#[derive(Default)]
struct Shape {
    text: String,
    /// How an array lies in memory, e.g. `{1,0:T(8,128)S(1)}`; of a tuple those of its parts.
    layout: String,
    bytes: Option<i64>,
    elements: Option<i64>,
}

impl Shape {
    fn read(bytes: &[u8], origin: u64, depth: usize) -> Result<Self, Malformed> {
        let mut kind = 0;
        let mut dims = Vec::new();
        let mut parts = Vec::new();
        let mut layout = String::new();
        for field in Fields::new(bytes, origin) {
            match field? {
                (2, Value::Varint(number)) => kind = number as usize,
                (3, value) => packed(value, &mut dims),
                (5, Value::Bytes(written)) => layout = self::layout(written, origin)?,
                (4, Value::Bytes(part)) if depth < MAX_TUPLE_DEPTH => {
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
            layout: if dims.is_empty() { String::new() } else { layout },
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
        let is_known = depth == 0 && parts.iter().any(|part| !part.layout.is_empty());
        let layouts: Vec<&str> = parts.iter().map(|part| part.layout.as_str()).collect();
        let layout = if is_known { format!("({})", layouts.join(", ")) } else { String::new() };
        Self { text, layout, bytes: sum(|part| part.bytes), elements: sum(|part| part.elements) }
    }
}

/// A layout as XLA writes it: dimensions from the innermost, tiles, and the memory if it is not the main one.
fn layout(bytes: &[u8], origin: u64) -> Result<String, Malformed> {
    let (mut order, mut tiles, mut memory) = (Vec::new(), Vec::new(), 0);
    for field in Fields::new(bytes, origin) {
        match field? {
            (1, value) => packed(value, &mut order),
            (6, Value::Bytes(tile)) => tiles.push(members(tile, origin)?),
            (8, Value::Varint(space)) => memory = space,
            _ => {}
        }
    }
    let listed = |numbers: &[i64]| numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
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

/// Where instructions were made, by number of a stack frame.
#[derive(Default)]
struct Frames {
    files: Vec<String>,
    /// Numbers of file and line.
    locations: Vec<(u64, i32)>,
    /// Numbers of locations.
    frames: Vec<u64>,
}

impl Frames {
    fn read(bytes: &[u8], origin: u64) -> Result<Self, Malformed> {
        let mut found = Self::default();
        for field in Fields::new(bytes, origin) {
            match field? {
                (1, Value::Bytes(text)) => found.files.push(String::from_utf8_lossy(text).into_owned()),
                (3, Value::Bytes(location)) => {
                    let (file, line) = (number(location, origin, 1)?, number(location, origin, 3)?);
                    found.locations.push((file, line as i32));
                }
                (4, Value::Bytes(frame)) => found.frames.push(number(frame, origin, 1)?),
                _ => {}
            }
        }
        Ok(found)
    }

    /// `file:line` of a frame; they are numbered from 1, 0 is none.
    fn source(&self, frame: u64) -> Option<String> {
        fn numbered<T>(items: &[T], number: u64) -> Option<&T> {
            items.get(usize::try_from(number.checked_sub(1)?).ok()?)
        }
        let &(file, line) = numbered(&self.locations, *numbered(&self.frames, frame)?)?;
        Some(format!("{}:{line}", numbered(&self.files, file)?))
    }
}

fn number(bytes: &[u8], origin: u64, wanted: u32) -> Result<u64, Malformed> {
    let mut found = 0;
    for field in Fields::new(bytes, origin) {
        if let (field, Value::Varint(value)) = field?
            && field == wanted
        {
            found = value;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iota_of_groups_is_written_out() {
        assert_eq!(iota(2, 2, &[4], &[]), [[0, 1], [2, 3]]);
        assert_eq!(iota(4, 2, &[2, 4], &[1, 0]), [[0, 4], [1, 5], [2, 6], [3, 7]]);
    }

    #[test]
    fn an_iota_that_makes_no_sense_has_no_groups() {
        assert!(iota(2, 2, &[5], &[]).is_empty());
        assert!(iota(1, 4, &[2, 2], &[0, 0]).is_empty());
        assert!(iota(1, i64::MAX, &[i64::MAX], &[]).is_empty());
        assert!(iota(i64::MAX, 2, &[2], &[]).is_empty());
    }

    #[test]
    fn a_shape_says_its_type_dimensions_and_size() {
        // bf16[2,3]
        let shape = Shape::read(&[0x10, 16, 0x1a, 2, 2, 3], 0, 0).unwrap();
        assert_eq!((shape.text.as_str(), shape.bytes, shape.elements), ("bf16[2,3]", Some(12), Some(6)));
    }

    #[test]
    fn a_layout_is_written_as_xla_writes_it() {
        // The order of dimensions 1,0; a tile of 8 times 128; memory 1.
        assert_eq!(layout(&[0x0a, 2, 1, 0], 0).unwrap(), "{1,0}");
        let tiled = [0x0a, 2, 1, 0, 0x32, 5, 0x0a, 3, 8, 0x80, 1, 0x40, 1];
        assert_eq!(layout(&tiled, 0).unwrap(), "{1,0:T(8,128)S(1)}");
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
