//! Memory that a program's results are given: the compiler's buffer assignment.

use std::collections::HashMap;

use crate::xplane::hlo::heap::{Heap, heaps};
use crate::xplane::hlo::messages::messages;
use crate::xplane::hlo::shape::Shape;
use crate::xplane::protobuf::{Fields, Malformed, Value, packed};
use crate::xplane::schema::{
    assigned, buffer_allocation, buffer_assignment, buffer_location, logical_buffer, shape as shape_field,
};

/// One buffer that was given memory.
#[derive(Clone, Default)]
pub struct Buffer {
    /// Code of the program's name, and its id.
    pub module: u32,
    pub program: i64,
    /// Row of its instruction among all.
    pub instruction: Option<u32>,
    /// Which part of the instruction's result it holds, e.g. `{0}`; empty for the whole.
    pub part: String,
    pub shape: String,
    pub layout: String,
    /// What its elements take without padding.
    pub data_bytes: Option<i64>,
    pub allocation: i64,
    pub memory: i64,
    pub allocation_bytes: i64,
    pub offset_bytes: i64,
    pub buffer_bytes: i64,
    /// What it holds when the program holds most.
    pub peak_bytes: i64,
    pub first: Option<i64>,
    pub last: Option<i64>,
    pub is_parameter: bool,
    pub is_output: bool,
    pub is_constant: bool,
    pub is_thread_local: bool,
}

/// What instructions the buffers of one program may be of.
#[derive(Default)]
pub struct Definitions<'a> {
    by_id: HashMap<i64, usize>,
    by_name: HashMap<&'a [u8], usize>,
    /// Row and shape of each, with its bytes and the parts that it was taken apart into.
    known: Vec<Definition<'a>>,
}

struct Definition<'a> {
    row: u32,
    shape: &'a [u8],
    parts: Option<Vec<&'a [u8]>>,
}

impl<'a> Definitions<'a> {
    pub fn add(&mut self, id: Option<i64>, name: &'a [u8], shape: &'a [u8], row: u32) {
        let at = self.known.len();
        self.known.push(Definition { row, shape, parts: None });
        self.by_name.insert(name, at);
        if let Some(id) = id {
            self.by_id.insert(id, at);
        }
    }

    fn find(&mut self, location: &Location<'_>) -> Option<&mut Definition<'a>> {
        let at = location.id.and_then(|id| self.by_id.get(&id)).or_else(|| self.by_name.get(location.name));
        self.known.get_mut(*at?)
    }
}

impl<'a> Definition<'a> {
    /// The shape of a part of the result.
    fn shape_at(&mut self, index: &[i64], origin: u64) -> Result<Option<&'a [u8]>, Malformed> {
        let mut bytes = self.shape;
        for (depth, &number) in index.iter().enumerate() {
            let part = if depth == 0 {
                // Results of many parts have a buffer for each.
                if self.parts.is_none() {
                    self.parts = Some(shapes(bytes, origin)?);
                }
                self.parts.as_ref().and_then(|parts| parts.get(number as usize).copied())
            } else {
                shapes(bytes, origin)?.get(number as usize).copied()
            };
            let Some(part) = part else { return Ok(None) };
            bytes = part;
        }
        Ok(Some(bytes))
    }
}

fn shapes(bytes: &[u8], origin: u64) -> Result<Vec<&[u8]>, Malformed> {
    let found = messages(bytes, origin)?.into_iter();
    Ok(found.filter(|(number, ..)| *number == shape_field::TUPLE_SHAPES).map(|(_, part, _)| part).collect())
}

/// Where a buffer's value is made.
#[derive(Default)]
struct Location<'a> {
    name: &'a [u8],
    id: Option<i64>,
    index: Vec<i64>,
}

/// A value that needs memory.
#[derive(Default)]
struct Held<'a> {
    size: i64,
    location: Location<'a>,
}

/// All buffers of a buffer assignment that begins at `origin` in the file.
pub fn buffers(assignment: &[u8], origin: u64, known: &mut Definitions<'_>) -> Result<Vec<Buffer>, Malformed> {
    let (mut values, mut traces, mut allocations) = (HashMap::new(), Vec::new(), Vec::new());
    for (number, bytes, origin) in messages(assignment, origin)? {
        match number {
            buffer_assignment::LOGICAL_BUFFERS => {
                let (id, value) = logical(bytes, origin)?;
                values.insert(id, value);
            }
            buffer_assignment::BUFFER_ALLOCATIONS => allocations.push(Allocation::read(bytes, origin)?),
            buffer_assignment::HEAP_SIMULATOR_TRACES => traces.push((bytes, origin)),
            _ => {}
        }
    }
    let sizes = values.iter().map(|(id, value)| (*id, value.size)).collect();
    let places = allocations.iter().flat_map(|it| it.given.iter().map(|(id, ..)| (*id, it.whole.allocation))).collect();
    let heaps = heaps(&traces, &sizes, &places)?;
    let mut found = Vec::new();
    for allocation in allocations {
        let heap = heaps.get(&allocation.whole.allocation);
        allocation.rows(origin, &values, heap, known, &mut found)?;
    }
    Ok(found)
}

fn logical(bytes: &[u8], origin: u64) -> Result<(i64, Held<'_>), Malformed> {
    let (mut id, mut value) = (0, Held::default());
    for field in Fields::new(bytes, origin) {
        match field? {
            (logical_buffer::ID, Value::Varint(number)) => id = number as i64,
            (logical_buffer::SIZE, Value::Varint(number)) => value.size = (number as i64).max(0),
            (logical_buffer::DEFINED_AT, Value::Bytes(location)) => value.location = located(location, origin)?,
            _ => {}
        }
    }
    Ok((id, value))
}

fn located(bytes: &[u8], origin: u64) -> Result<Location<'_>, Malformed> {
    let mut found = Location::default();
    for field in Fields::new(bytes, origin) {
        match field? {
            (buffer_location::INSTRUCTION_NAME, Value::Bytes(name)) => found.name = name,
            (buffer_location::INSTRUCTION_ID, Value::Varint(id)) => found.id = Some(id as i64),
            (buffer_location::SHAPE_INDEX, value) => packed(value, &mut found.index),
            _ => {}
        }
    }
    Ok(found)
}

/// A piece of memory.
struct Allocation {
    /// What all its buffers have in common.
    whole: Buffer,
    /// Number, place and size of each buffer in it.
    given: Vec<(i64, i64, i64)>,
}

impl Allocation {
    fn read(bytes: &[u8], origin: u64) -> Result<Self, Malformed> {
        let mut whole = Buffer::default();
        let mut given = Vec::new();
        for field in Fields::new(bytes, origin) {
            match field? {
                (buffer_allocation::INDEX, Value::Varint(index)) => whole.allocation = index as i64,
                (buffer_allocation::SIZE, Value::Varint(size)) => whole.allocation_bytes = (size as i64).max(0),
                (buffer_allocation::IS_THREAD_LOCAL, Value::Varint(flag)) => whole.is_thread_local = flag != 0,
                (buffer_allocation::IS_ENTRY_COMPUTATION_PARAMETER, Value::Varint(flag)) => {
                    whole.is_parameter = flag != 0;
                }
                (buffer_allocation::IS_CONSTANT, Value::Varint(flag)) => whole.is_constant = flag != 0,
                (buffer_allocation::MAYBE_LIVE_OUT, Value::Varint(flag)) => whole.is_output = flag != 0,
                (buffer_allocation::COLOR, Value::Varint(color)) => whole.memory = color as i64,
                (buffer_allocation::ASSIGNED, Value::Bytes(buffer)) => given.push(placed(buffer, origin)?),
                _ => {}
            }
        }
        Ok(Self { whole, given })
    }

    /// Add its buffers.
    fn rows(
        &self,
        origin: u64,
        values: &HashMap<i64, Held<'_>>,
        heap: Option<&Heap>,
        known: &mut Definitions<'_>,
        found: &mut Vec<Buffer>,
    ) -> Result<(), Malformed> {
        let first = found.len();
        for &(id, offset_bytes, buffer_bytes) in &self.given {
            let (taken, left) = heap.map(|heap| heap.span(id)).unwrap_or_default();
            let held =
                if heap.is_some_and(|heap| heap.holds(id)) { values.get(&id).map(|value| value.size) } else { None };
            let mut row = Buffer {
                offset_bytes,
                buffer_bytes,
                peak_bytes: held.unwrap_or(0),
                first: taken,
                last: left,
                ..self.whole.clone()
            };
            if let Some(value) = values.get(&id) {
                describe(&mut row, value, origin, known)?;
            }
            found.push(row);
        }
        if heap.is_none() && !self.whole.is_thread_local {
            stand_for(&mut found[first..], self.whole.allocation_bytes);
        }
        Ok(())
    }
}

/// Memory that a program holds as long as it runs is told by one of its buffers: a parameter, else the largest.
fn stand_for(buffers: &mut [Buffer], bytes: i64) {
    let first = (0..buffers.len()).max_by_key(|&at| (buffers[at].buffer_bytes, std::cmp::Reverse(at)));
    if let Some(at) = first {
        buffers[at].peak_bytes = bytes;
    }
}

/// Number, place and size of a buffer within its allocation.
fn placed(bytes: &[u8], origin: u64) -> Result<(i64, i64, i64), Malformed> {
    let (mut id, mut offset, mut size) = (0, 0, 0);
    for field in Fields::new(bytes, origin) {
        match field? {
            (assigned::LOGICAL_BUFFER_ID, Value::Varint(number)) => id = number as i64,
            (assigned::OFFSET, Value::Varint(number)) => offset = number as i64,
            (assigned::SIZE, Value::Varint(number)) => size = (number as i64).max(0),
            _ => {}
        }
    }
    Ok((id, offset, size))
}

fn describe(row: &mut Buffer, value: &Held<'_>, origin: u64, known: &mut Definitions<'_>) -> Result<(), Malformed> {
    let Some(definition) = known.find(&value.location) else { return Ok(()) };
    row.instruction = Some(definition.row);
    if !value.location.index.is_empty() {
        let listed: Vec<_> = value.location.index.iter().map(i64::to_string).collect();
        row.part = format!("{{{}}}", listed.join(","));
    }
    if let Some(bytes) = definition.shape_at(&value.location.index, origin)? {
        let shape = Shape::read(bytes, origin, 0)?;
        // A tuple's own buffer holds addresses, not what its parts hold.
        row.data_bytes = shape.bytes.filter(|_| !shape.text.starts_with('('));
        (row.shape, row.layout) = (shape.text, shape.layout);
    }
    Ok(())
}
