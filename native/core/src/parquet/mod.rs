//! Columns as a Parquet file: compressed, with the range of each number's column in every group of rows.

mod encodings;
mod kinds;
mod pages;
mod thrift;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{FieldRef, Schema};

use crate::error::{Error, Result};
use crate::memory::has_room;
use crate::parquet::kinds::{Encoding, Kind};
use crate::parquet::pages::{Chunk, Packer};
use crate::parquet::thrift::Struct;

const MAGIC: &[u8; 4] = b"PAR1";
/// Each has ranges, so that a query for some time skips the others.
const GROUP_ROWS: usize = 1 << 18;
const MAX_PACKERS: usize = 4;
/// Packed before another thread has started.
const FEW_ROWS: usize = 1 << 13;

const ZSTD: i32 = 6;
const OPTIONAL: i32 = 1;

/// Write a table to a new file, its rows by a column of times if one is named.
///
/// `metadata` are keys and values beside the columns.
pub fn write(
    path: &Path,
    schema: &Schema,
    columns: &[ArrayRef],
    by: Option<&str>,
    metadata: &[(String, String)],
) -> Result<()> {
    let heads = heads(schema, columns)?;
    // The order of the rows, and what is packed until it is written.
    has_room(columns.first().map_or(0, |column| column.len()).saturating_mul(2 * (columns.len() + 4)))?;
    let order = order(schema, columns, by)?;
    let groups: Vec<&[u32]> = order.chunks(GROUP_ROWS).collect();
    let tasks: Vec<(&ArrayRef, &[u32])> =
        groups.iter().flat_map(|rows| columns.iter().map(|column| (column, *rows))).collect();
    let chunks = packed(&tasks)?;
    let mut file = Written { file: BufWriter::new(File::create(path)?), bytes: 0 };
    file.write(MAGIC)?;
    let mut described = Vec::new();
    for (rows, chunks) in groups.iter().zip(chunks.chunks(heads.len())) {
        described.push(file.group(&heads, rows.len(), chunks)?);
    }
    let footer = footer(&heads, order.len(), described, metadata);
    file.write(&footer)?;
    file.write(&(footer.len() as u32).to_le_bytes())?;
    file.write(MAGIC)?;
    Ok(file.file.flush()?)
}

/// Name and kind of a column.
type Head<'a> = (&'a str, Kind);

/// Those of all columns, which must be as the schema says and have the same rows.
fn heads<'a>(schema: &'a Schema, columns: &[ArrayRef]) -> Result<Vec<Head<'a>>> {
    if schema.fields().len() != columns.len() {
        return Err(Error::Mismatch(format!("{} columns for {}", columns.len(), schema.fields().len())));
    }
    let rows = columns.first().map_or(0, |column| column.len());
    let head = |(field, column): (&'a FieldRef, &ArrayRef)| {
        let kind = Kind::of(field.data_type())?;
        if kind != Kind::of(column.data_type())? || column.len() != rows {
            return Err(Error::Mismatch(format!("{} {} in {}", column.len(), column.data_type(), field.name())));
        }
        Ok((field.name().as_str(), kind))
    };
    schema.fields().iter().zip(columns).map(head).collect()
}

/// The rows in the order in which they are written.
fn order(schema: &Schema, columns: &[ArrayRef], by: Option<&str>) -> Result<Vec<u32>> {
    let mut order: Vec<u32> = (0..columns.first().map_or(0, |column| column.len()) as u32).collect();
    let Some(by) = by else { return Ok(order) };
    let column = schema.column_with_name(by).and_then(|(at, _)| columns[at].as_primitive_opt::<Int64Type>());
    let times = column.ok_or_else(|| Error::unknown_column("the file", by))?;
    if times.null_count() > 0 {
        // Rows without a time come first.
        order.sort_by_key(|&row| times.is_valid(row as usize).then(|| times.value(row as usize)));
    } else if !times.values().is_sorted() {
        let mut sorted: Vec<(i64, u32)> = times.values().iter().copied().zip(order).collect();
        sorted.sort_by_key(|(time, _)| *time);
        order = sorted.into_iter().map(|(_, row)| row).collect();
    }
    Ok(order)
}

/// The chunk of each column and its rows, made by several threads.
fn packed(tasks: &[(&ArrayRef, &[u32])]) -> Result<Vec<Chunk>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        let mut packer = Packer::new()?;
        let mut own = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((column, rows)) = tasks.get(number) else { break };
            own.push((number, packer.chunk(column, rows)?));
        }
        done.lock().map_err(|_| Error::Defect("a packer panicked".into()))?.append(&mut own);
        Ok(())
    };
    let is_little = tasks.first().is_none_or(|(_, rows)| rows.len() <= FEW_ROWS);
    let packers = if is_little { 1 } else { thread::available_parallelism().map_or(1, usize::from).min(MAX_PACKERS) };
    thread::scope(|scope| -> Result<()> {
        let others = (1..packers.min(tasks.len()))
            .map(|_| thread::Builder::new().name("holotrace-pack".into()).spawn_scoped(scope, work))
            .collect::<std::io::Result<Vec<_>>>()?;
        work()?;
        for other in others {
            other.join().map_err(|_| Error::Defect("a packer panicked".into()))??;
        }
        Ok(())
    })?;
    let mut done = done.into_inner().map_err(|_| Error::Defect("a packer panicked".into()))?;
    done.sort_by_key(|(number, _)| *number);
    Ok(done.into_iter().map(|(_, chunk)| chunk).collect())
}

/// A file, and how much is in it.
struct Written {
    file: BufWriter<File>,
    bytes: i64,
}

impl Written {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as i64;
        Ok(self.file.write_all(bytes)?)
    }

    /// Write a group of rows; returns its description.
    fn group(&mut self, heads: &[Head], rows: usize, chunks: &[Chunk]) -> Result<Struct> {
        let begin = self.bytes;
        let mut columns = Vec::new();
        for ((name, kind), chunk) in heads.iter().zip(chunks) {
            let column = column(name, *kind, chunk, self.bytes);
            columns.push(Struct::default().i64(2, 0).inner(3, column));
            self.write(&chunk.bytes)?;
        }
        let unpacked: usize = chunks.iter().map(|chunk| chunk.unpacked_bytes).sum();
        Ok(Struct::default()
            .structs(1, columns.into_iter())
            .i64(2, unpacked as i64)
            .i64(3, rows as i64)
            .i64(5, begin)
            .i64(6, self.bytes - begin))
    }
}

/// What the footer says of a chunk that begins at an offset.
fn column(name: &str, kind: Kind, chunk: &Chunk, begin: i64) -> Struct {
    let mut column = Struct::default()
        .i32(1, stored(kind))
        .i32s(2, &[Encoding::Rle as i32, chunk.encoding as i32])
        .binaries(3, &[name.as_bytes()])
        .i32(4, ZSTD)
        .i64(5, chunk.rows as i64)
        .i64(6, chunk.unpacked_bytes as i64)
        .i64(7, chunk.bytes.len() as i64)
        .i64(9, begin + chunk.dictionary_bytes as i64);
    if chunk.dictionary_bytes > 0 {
        column = column.i64(11, begin);
    }
    let mut statistics = Struct::default().i64(3, chunk.null_count as i64);
    if let Some([least, greatest]) = &chunk.range {
        let width = if kind == Kind::U32 { 4 } else { 8 };
        statistics = statistics.binary(5, &greatest[..width]).binary(6, &least[..width]);
    }
    column.inner(12, statistics)
}

/// What all groups have in common, and what each is.
fn footer(heads: &[Head], rows: usize, groups: Vec<Struct>, metadata: &[(String, String)]) -> Vec<u8> {
    let root = Struct::default().binary(4, b"schema").i32(5, heads.len() as i32);
    let columns = heads.iter().map(|(name, kind)| element(name, *kind));
    let pairs =
        metadata.iter().map(|(key, value)| Struct::default().binary(1, key.as_bytes()).binary(2, value.as_bytes()));
    // Ranges are by the order of the type.
    let orders = heads.iter().map(|_| Struct::default().inner(1, Struct::default()));
    Struct::default()
        .i32(1, 2)
        .structs(2, std::iter::once(root).chain(columns).collect::<Vec<_>>().into_iter())
        .i64(3, rows as i64)
        .structs(4, groups.into_iter())
        .structs(5, pairs)
        .binary(6, concat!("holotrace version ", env!("CARGO_PKG_VERSION")).as_bytes())
        .structs(7, orders)
        .finish()
}

/// A column of the schema.
fn element(name: &str, kind: Kind) -> Struct {
    let element = Struct::default().i32(1, stored(kind)).i32(3, OPTIONAL).binary(4, name.as_bytes());
    match kind {
        Kind::Text => element.i32(6, 0).inner(10, Struct::default().inner(1, Struct::default())),
        Kind::U32 => {
            let width = Struct::default().byte(1, 32).bool(2, false);
            element.i32(6, 13).inner(10, Struct::default().inner(10, width))
        }
        Kind::Bool | Kind::I64 | Kind::F64 => element,
    }
}

/// The number of the type in which values are stored.
fn stored(kind: Kind) -> i32 {
    match kind {
        Kind::Bool => 0,
        Kind::U32 => 1,
        Kind::I64 => 2,
        Kind::F64 => 5,
        Kind::Text => 6,
    }
}
