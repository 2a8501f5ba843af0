//! The compiled programs a profile holds: instructions with their opcodes, scopes, sources and shapes.

mod buffers;
mod config;
mod frames;
mod groups;
mod heap;
mod messages;
mod module;
mod products;
mod schedule;
mod shape;
mod work;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, LargeStringArray, RecordBatch};

use crate::columns::arrow::{NONE, batch};
use crate::columns::interner::Interner;
use crate::error::{Error, Result as CoreResult};
use crate::xplane::hlo::buffers::{Buffer, buffers};
use crate::xplane::hlo::frames::Frames;
use crate::xplane::hlo::groups::{device_list, iota_groups, members, mesh_groups};
use crate::xplane::hlo::messages::messages;
use crate::xplane::hlo::module::Module;
use crate::xplane::hlo::products::Product;
use crate::xplane::hlo::schedule::places;
use crate::xplane::hlo::shape::Shape;
use crate::xplane::hlo::work::{Node, Program};
use crate::xplane::protobuf::{Fields, Malformed, Value, packed};
use crate::xplane::schema::{hlo_computation, hlo_instruction, hlo_module, hlo_proto, op_metadata, precision_config};

/// Rows of the hlo table.
#[derive(Default)]
pub struct Instructions {
    strings: Interner,
    texts: [Vec<u32>; TEXTS.len()],
    program: Vec<i64>,
    is_fused: Vec<bool>,
    is_entry: Vec<bool>,
    result_bytes: Vec<Option<i64>>,
    element_count: Vec<Option<i64>>,
    /// When each instruction runs among those of its computation, from 0.
    place: Vec<Option<i64>>,
    channel: Vec<Option<i64>>,
    flops: Vec<Option<i64>>,
    moved_bytes: Vec<Option<i64>>,
    /// What the largest product inside each instruction is computed in.
    product_type: Vec<u32>,
    /// Opcodes of what each fusion is made of.
    inside: Vec<u32>,
    buffers: Vec<Buffer>,
}

/// Text columns, in the order in which a row is written.
const TEXTS: [&str; 10] =
    ["module", "name", "opcode", "computation", "scope", "source", "shape", "layout", "target", "groups"];

/// Where among them the name of the computation is.
const COMPUTATION: usize = 3;

impl Instructions {
    /// Add all instructions of an `HloProto` that begins at `origin` in the file; none of one that is damaged.
    pub fn add(&mut self, proto: &[u8], origin: u64, module: &[u8], program: i64) -> Result<(), Malformed> {
        let (rows, buffers) = (self.program.len(), self.buffers.len());
        let added = self.add_whole(proto, origin, module, program);
        if added.is_err() {
            self.truncate(rows);
            self.buffers.truncate(buffers);
        }
        added
    }

    fn truncate(&mut self, rows: usize) {
        self.texts.iter_mut().for_each(|codes| codes.truncate(rows));
        self.program.truncate(rows);
        self.is_fused.truncate(rows);
        self.is_entry.truncate(rows);
        self.result_bytes.truncate(rows);
        self.element_count.truncate(rows);
        self.place.truncate(rows);
        self.channel.truncate(rows);
        self.flops.truncate(rows);
        self.moved_bytes.truncate(rows);
        self.product_type.truncate(rows);
        self.inside.truncate(rows);
    }

    fn add_whole(&mut self, proto: &[u8], origin: u64, module: &[u8], program: i64) -> Result<(), Malformed> {
        let Some((module_bytes, origin)) = member(proto, origin, hlo_proto::HLO_MODULE)? else { return Ok(()) };
        let frames = match member(module_bytes, origin, hlo_module::STACK_FRAME_INDEX)? {
            Some((index, origin)) => Frames::read(index, origin)?,
            None => Frames::default(),
        };
        let entry = match member(module_bytes, origin, hlo_module::ENTRY_COMPUTATION_NAME)? {
            Some((name, _)) => name,
            None => b"",
        };
        let begun = self.program.len();
        let mut read = Module::new(module, program, frames);
        for (number, value, origin) in messages(module_bytes, origin)? {
            if number == hlo_module::COMPUTATIONS {
                self.computation(value, origin, &mut read)?;
            }
        }
        self.rate(&read.whole);
        let places = match member(module_bytes, origin, hlo_module::SCHEDULE)? {
            Some((schedule, origin)) => places(schedule, origin)?,
            None => HashMap::new(),
        };
        self.place.extend(read.ids.iter().map(|id| places.get(id.as_ref()?).copied()));
        let entry = self.strings.code(entry);
        self.is_entry.extend(self.texts[COMPUTATION][begun..].iter().map(|&name| name == entry));
        if let Some((assignment, origin)) = member(proto, origin, hlo_proto::BUFFER_ASSIGNMENT)? {
            let module = self.strings.code(module);
            let found = buffers(assignment, origin, &mut read.known)?;
            self.buffers.extend(found.into_iter().map(|buffer| Buffer { module, program, ..buffer }));
        }
        Ok(())
    }

    fn computation<'a>(&mut self, bytes: &'a [u8], origin: u64, module: &mut Module<'a>) -> Result<(), Malformed> {
        let mut name: &[u8] = b"";
        let mut is_fused = false;
        let (mut id, mut root, first) = (None, 0, module.whole.len());
        for field in Fields::new(bytes, origin) {
            match field? {
                (hlo_computation::NAME, Value::Bytes(text)) => name = text,
                (hlo_computation::IS_FUSION_COMPUTATION, Value::Varint(flag)) => is_fused = flag != 0,
                (hlo_computation::ID, Value::Varint(number)) => id = Some(number as i64),
                (hlo_computation::ROOT_ID, Value::Varint(number)) => root = number as i64,
                _ => {}
            }
        }
        for (number, value, origin) in messages(bytes, origin)? {
            if number == hlo_computation::INSTRUCTIONS {
                let row = Instruction::read(value, origin, &module.frames)?;
                module.ids.push(row.id);
                module.known.add(row.id, row.name, row.shape_bytes, self.program.len() as u32);
                self.push(module.name, module.program, name, is_fused, &row);
                module.whole.add(row.into_node());
            }
        }
        if let Some(id) = id {
            module.whole.close(id, first, root);
        }
        Ok(())
    }

    /// Say of the instructions that were added last, which are those of a program, what they compute and move.
    fn rate(&mut self, program: &Program<'_>) {
        for work in program.work() {
            self.flops.push(work.flops);
            self.moved_bytes.push(work.bytes);
            for (codes, text) in [(&mut self.product_type, work.product_type), (&mut self.inside, work.inside)] {
                codes.push(if text.is_empty() { NONE } else { self.strings.code(text.as_bytes()) });
            }
        }
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
                "is_entry" => Arc::new(BooleanArray::from(self.is_entry.clone())),
                "is_fused" => Arc::new(BooleanArray::from(self.is_fused.clone())),
                "result_bytes" => Arc::new(Int64Array::from(self.result_bytes.clone())),
                "element_count" => Arc::new(Int64Array::from(self.element_count.clone())),
                "place" => Arc::new(Int64Array::from(self.place.clone())),
                "channel" => Arc::new(Int64Array::from(self.channel.clone())),
                "flops" => Arc::new(Int64Array::from(self.flops.clone())),
                "moved_bytes" => Arc::new(Int64Array::from(self.moved_bytes.clone())),
                "product_type" => self.strings.dictionary(self.product_type.iter().copied()),
                "inside" => self.strings.dictionary(self.inside.iter().copied()),
                _ => return None,
            })
        };
        let found = columns.iter().map(|name| {
            let array = column(name).ok_or_else(|| Error::unknown_column("hlo", name))?;
            Ok((name.clone(), array))
        });
        batch(found.collect::<CoreResult<_>>()?)
    }
}

/// Text columns that a buffer has from its instruction.
const OF_INSTRUCTION: [&str; 5] = ["name", "opcode", "computation", "scope", "source"];

/// Memory of the programs.
impl Instructions {
    pub fn buffer_table(&self, columns: &[String]) -> CoreResult<RecordBatch> {
        let found = columns.iter().map(|name| {
            let array = self.buffer_column(name).ok_or_else(|| Error::unknown_column("buffers", name))?;
            Ok((name.clone(), array))
        });
        batch(found.collect::<CoreResult<_>>()?)
    }

    fn buffer_column(&self, name: &str) -> Option<ArrayRef> {
        let rows = || self.buffers.iter();
        if OF_INSTRUCTION.contains(&name) {
            let codes = &self.texts[TEXTS.iter().position(|text| *text == name)?];
            let code = |row: &Buffer| row.instruction.and_then(|at| codes.get(at as usize).copied()).unwrap_or(NONE);
            return Some(self.strings.dictionary(rows().map(code)));
        }
        let text = |of: fn(&Buffer) -> &str| -> ArrayRef {
            let texts = rows().map(|row| Some(of(row)).filter(|text| !text.is_empty()));
            Arc::new(LargeStringArray::from_iter(texts))
        };
        let whole = |of: fn(&Buffer) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(rows().map(of))) };
        let known = |of: fn(&Buffer) -> Option<i64>| -> ArrayRef { Arc::new(Int64Array::from_iter(rows().map(of))) };
        let flag = |of: fn(&Buffer) -> bool| -> ArrayRef {
            Arc::new(BooleanArray::from_iter(rows().map(|row| Some(of(row)))))
        };
        Some(match name {
            "module" => self.strings.dictionary(rows().map(|row| row.module)),
            "program" => Arc::new(Int64Array::from_iter_values(rows().map(|row| row.program))),
            "part" => text(|row| &row.part),
            "shape" => text(|row| &row.shape),
            "layout" => text(|row| &row.layout),
            "allocation" => whole(|row| row.allocation),
            "memory" => whole(|row| row.memory),
            "allocation_bytes" => whole(|row| row.allocation_bytes),
            "offset_bytes" => whole(|row| row.offset_bytes),
            "buffer_bytes" => whole(|row| row.buffer_bytes),
            "peak_bytes" => whole(|row| row.peak_bytes),
            "data_bytes" => known(|row| row.data_bytes),
            "first" => known(|row| row.first),
            "last" => known(|row| row.last),
            "is_parameter" => flag(|row| row.is_parameter),
            "is_output" => flag(|row| row.is_output),
            "is_constant" => flag(|row| row.is_constant),
            "is_thread_local" => flag(|row| row.is_thread_local),
            _ => return None,
        })
    }
}

/// The last of a message's fields of that number, and where its bytes begin.
fn member(bytes: &[u8], origin: u64, wanted: u32) -> Result<Option<(&[u8], u64)>, Malformed> {
    let found = messages(bytes, origin)?.into_iter().rev().find(|(number, ..)| *number == wanted);
    Ok(found.map(|(_, bytes, origin)| (bytes, origin)))
}

/// The precision of an operand that is to be multiplied as it is.
const HIGHEST: i64 = 2;

/// What is kept of an instruction.
#[derive(Default)]
struct Instruction<'a> {
    id: Option<i64>,
    name: &'a [u8],
    opcode: &'a [u8],
    scope: &'a [u8],
    source: String,
    shape: Shape,
    shape_bytes: &'a [u8],
    /// What a custom call calls.
    target: &'a [u8],
    groups: String,
    channel: Option<i64>,
    operands: Vec<i64>,
    called: Vec<i64>,
    config: &'a [u8],
    parameter: i64,
    is_exact: bool,
    product: Product,
}

impl<'a> Instruction<'a> {
    fn read(bytes: &'a [u8], origin: u64, frames: &Frames) -> Result<Self, Malformed> {
        let mut row = Self::default();
        let mut groups: Vec<Vec<i64>> = Vec::new();
        for field in Fields::new(bytes, origin) {
            match field? {
                (hlo_instruction::NAME, Value::Bytes(text)) => row.name = text,
                (hlo_instruction::OPCODE, Value::Bytes(text)) => row.opcode = text,
                (hlo_instruction::ID, Value::Varint(id)) => row.id = Some(id as i64),
                (hlo_instruction::SHAPE, Value::Bytes(shape)) => {
                    (row.shape, row.shape_bytes) = (Shape::read(shape, origin, 0)?, shape);
                }
                (hlo_instruction::METADATA, Value::Bytes(metadata)) => row.metadata(metadata, origin, frames)?,
                (hlo_instruction::CUSTOM_CALL_TARGET, Value::Bytes(target)) => row.target = target,
                (hlo_instruction::CHANNEL_ID, Value::Varint(channel)) => row.channel = Some(channel as i64),
                (hlo_instruction::REPLICA_GROUPS, Value::Bytes(group)) => groups.push(members(group, origin)?),
                (hlo_instruction::COLLECTIVE_DEVICE_LIST, Value::Bytes(list)) => groups = device_list(list, origin)?,
                (hlo_instruction::IOTA_COLLECTIVE_DEVICE_LIST, Value::Bytes(iota)) => {
                    groups = iota_groups(iota, origin)?;
                }
                (hlo_instruction::MESH_AXES_REPLICA_GROUP_LIST, Value::Bytes(axes)) => {
                    groups = mesh_groups(axes, origin)?;
                }
                (hlo_instruction::OPERAND_IDS, value) => packed(value, &mut row.operands),
                (hlo_instruction::CALLED_COMPUTATION_IDS, value) => packed(value, &mut row.called),
                (hlo_instruction::BACKEND_CONFIG, Value::Bytes(config)) => row.config = config,
                (hlo_instruction::PARAMETER_NUMBER, Value::Varint(number)) => row.parameter = number as i64,
                (number, Value::Bytes(bytes)) => row.product(number, bytes, origin)?,
                _ => {}
            }
        }
        if !groups.is_empty() {
            row.groups = format!("{groups:?}");
        }
        Ok(row)
    }

    /// Read a field that says what is multiplied.
    fn product(&mut self, number: u32, bytes: &[u8], origin: u64) -> Result<(), Malformed> {
        match number {
            hlo_instruction::DOT_DIMENSION_NUMBERS => self.product.read_dot(bytes, origin),
            hlo_instruction::WINDOW => self.product.read_window(bytes, origin),
            hlo_instruction::CONVOLUTION_DIMENSION_NUMBERS => self.product.read_convolution(bytes, origin),
            hlo_instruction::PRECISION_CONFIG => {
                let mut precisions = Vec::new();
                for field in Fields::new(bytes, origin) {
                    if let (precision_config::OPERAND_PRECISION, value) = field? {
                        packed(value, &mut precisions);
                    }
                }
                self.is_exact = precisions.contains(&HIGHEST);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What its work depends on.
    fn into_node(self) -> Node<'a> {
        Node {
            id: self.id.unwrap_or_default(),
            opcode: self.opcode,
            target: self.target,
            config: self.config,
            bytes: self.shape.bytes.unwrap_or_default(),
            first_bytes: self.shape.first_bytes.unwrap_or_default(),
            element_type: self.shape.element_type,
            dimensions: self.shape.dimensions,
            operands: self.operands,
            called: self.called,
            parameter: self.parameter,
            is_exact: self.is_exact,
            product: self.product,
        }
    }

    fn metadata(&mut self, bytes: &'a [u8], origin: u64, frames: &Frames) -> Result<(), Malformed> {
        let mut file = String::new();
        let mut line = 0;
        let mut frame = 0;
        for field in Fields::new(bytes, origin) {
            match field? {
                (op_metadata::OP_NAME, Value::Bytes(text)) => self.scope = text,
                (op_metadata::SOURCE_FILE, Value::Bytes(text)) => file = String::from_utf8_lossy(text).into_owned(),
                (op_metadata::SOURCE_LINE, Value::Varint(number)) => line = number as i32,
                (op_metadata::STACK_FRAME_ID, Value::Varint(number)) => frame = number,
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
