//! The events of lines, several lines at once.

use std::io;
use std::sync::Mutex;

use crate::columns::arg_column::{ArgColumn, ArgType, ArgValues};
use crate::columns::arrow::NONE;
use crate::error::{Error, Result};
use crate::memory::has_room;
use crate::problems::{Problem, Problems};
use crate::trace_event::kineto::MAX_DURATION_NS;
use crate::xplane::index::Lines;
use crate::xplane::model::{Columns, LONG, LineHead, MAX_NS, Options, Part};
use crate::xplane::protobuf::{FieldValue, Fields, Source, Span, Stop, Value, Window, text};
use crate::xplane::schema::{x_event, x_line};
use crate::xplane::space::Space;
use crate::xplane::stats::{Dictionary, Stat};
use crate::xplane::workers::each;

/// Of an event in memory: its name, times, and some stats.
const EVENT_BYTES: usize = 64;

/// The id of no metadata.
const NOTHING: i64 = i64::MIN;

/// A line to be decoded.
struct Task<'a> {
    line: u32,
    span: Span,
    dictionary: &'a Dictionary,
}

/// Where a line's events go.
struct Slot<'a> {
    metadata: &'a mut [u32],
    start_ps: &'a mut [i64],
    duration_ps: &'a mut [u32],
}

/// Decode all lines; they come back in file order.
pub fn decode(
    source: &Source,
    options: &Options,
    planes: &[Lines],
    space: &mut Space,
    cancelled: &mut dyn FnMut() -> bool,
) -> Result<(Vec<Part>, Columns)> {
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for plane in planes {
        tasks.extend(plane.spans.iter().map(|&(line, span)| Task { line, span, dictionary: &plane.dictionary }));
    }
    // Counting first costs little, and columns of the right size are filled where they are.
    let mut counts = Vec::with_capacity(tasks.len());
    each(source, &tasks, cancelled, |window, task, _| count(window, task.span), |count| counts.push(count))?;
    let total = counts.iter().sum::<u64>();
    if total >= u64::from(NONE) {
        let reason = format!("it has {total} events, more than four billion; record fewer steps");
        return Err(Error::NotASpace { offset: 0, reason });
    }
    let size = total as usize;
    // With what each event most often has beside these.
    has_room(size.saturating_mul(EVENT_BYTES))?;
    let mut columns = Columns { metadata: vec![NONE; size], start_ps: vec![0; size], duration_ps: vec![0; size] };
    let mut parts = Vec::with_capacity(tasks.len());
    {
        let slots = slots(&mut columns, &counts);
        let decode_line = |window: &mut Window<'_>, task: &Task<'_>, at: usize| {
            let slot = slots[at].lock().ok().and_then(|mut slot| slot.take());
            line(window, task, options, slot.ok_or_else(|| io::Error::from(io::ErrorKind::Other))?)
        };
        let mut first = 0;
        each(source, &tasks, cancelled, decode_line, |mut part| {
            space.take_stats(&mut part, first);
            first += part.count;
            parts.push(part);
        })?;
    }
    Ok((parts, columns))
}

/// The columns, cut where lines end.
fn slots<'a>(columns: &'a mut Columns, counts: &[u64]) -> Vec<Mutex<Option<Slot<'a>>>> {
    let (mut metadata, mut start_ps, mut duration_ps) =
        (&mut columns.metadata[..], &mut columns.start_ps[..], &mut columns.duration_ps[..]);
    let mut slots = Vec::with_capacity(counts.len());
    for &count in counts {
        let count = count as usize;
        let (of_metadata, of_start, of_duration);
        (of_metadata, metadata) = metadata.split_at_mut(count);
        (of_start, start_ps) = start_ps.split_at_mut(count);
        (of_duration, duration_ps) = duration_ps.split_at_mut(count);
        slots.push(Mutex::new(Some(Slot { metadata: of_metadata, start_ps: of_start, duration_ps: of_duration })));
    }
    slots
}

/// Number of events in a line.
fn count(window: &mut Window<'_>, span: Span) -> std::result::Result<u64, Stop> {
    let mut rest = span;
    let mut count = 0;
    while let Some((number, held)) = window.field(&mut rest)? {
        count += u64::from(number == x_line::EVENTS && matches!(held, FieldValue::Bytes(_)));
    }
    // The damage is told when events are read.
    window.damage.clear();
    Ok(count)
}

fn line(
    window: &mut Window<'_>,
    task: &Task<'_>,
    options: &Options,
    mut slot: Slot<'_>,
) -> std::result::Result<Part, Stop> {
    let mut part = Part {
        line: task.line,
        head: LineHead::default(),
        count: 0,
        stats: options.stats.iter().map(|(key, kind)| ArgColumn::new(key.clone(), *kind)).collect(),
        arguments: ArgColumn::new("arguments".into(), ArgType::Text),
        long: Vec::new(),
        problems: Problems::default(),
        offset: task.span.start,
    };
    let mut json = Vec::new();
    let mut rest = task.span;
    while let Some((number, held)) = window.field(&mut rest)? {
        match (number, held) {
            (x_line::EVENTS, FieldValue::Bytes(span)) => {
                event(window.bytes(span)?, span.start, task.dictionary, &mut part, &mut slot, &mut json);
            }
            (x_line::ID, FieldValue::Number(id)) => part.head.id = id as i64,
            (x_line::NAME, FieldValue::Bytes(span)) => part.head.name = text(window, span)?,
            (x_line::TIMESTAMP_NS, FieldValue::Number(time)) => part.head.timestamp_ns = time as i64,
            (x_line::DISPLAY_NAME, FieldValue::Bytes(span)) => part.head.display = text(window, span)?,
            _ => {}
        }
    }
    for malformed in window.damage.drain(..) {
        malformed.tell(&mut part.problems);
    }
    Ok(part)
}

#[inline(always)]
fn event(bytes: &[u8], origin: u64, dictionary: &Dictionary, part: &mut Part, slot: &mut Slot<'_>, json: &mut Vec<u8>) {
    let (mut id, mut offset_ps, mut duration_ps, mut has_stats) = (0, 0, 0, false);
    let row = part.count;
    let mut has_arguments = dictionary.keeps_arguments;
    json.clear();
    let mut fields = Fields::new(bytes, origin);
    while let Some(field) = fields.next() {
        let field = match field {
            Ok(field) => field,
            Err(malformed) => {
                malformed.tell(&mut part.problems);
                // Times come before stats: without any of these, who knows.
                if !has_stats {
                    (id, duration_ps) = (NOTHING, 0);
                }
                break;
            }
        };
        match field {
            (x_event::METADATA_ID, Value::Varint(number)) => id = number as i64,
            (x_event::OFFSET_PS, Value::Varint(number)) => offset_ps = number as i64,
            (x_event::DURATION_PS, Value::Varint(number)) => duration_ps = number as i64,
            (x_event::STATS, Value::Bytes(bytes)) => {
                has_stats = true;
                let stat = match Stat::read(bytes, fields.offset() - bytes.len() as u64) {
                    Ok(stat) => stat,
                    Err(malformed) => {
                        malformed.tell(&mut part.problems);
                        continue;
                    }
                };
                let Some(key) = dictionary.key(stat.key) else { continue };
                if key.is_duration && !dictionary.is_possible(stat.value) {
                    part.problems.add(Problem::AbsurdDuration, origin, &[]);
                    continue;
                }
                if let Some(column) = part.stats.get_mut(key.column as usize) {
                    dictionary.keep(column, row, &stat);
                }
                has_arguments &= !key.is_operation;
                if has_arguments && !key.is_internal {
                    dictionary.argument(json, key, &stat);
                }
            }
            _ => {}
        }
    }
    if offset_ps.unsigned_abs() > MAX_NS as u64 * 1000 {
        part.problems.add(Problem::AbsurdTime, origin, &[]);
        offset_ps = 0;
    }
    if duration_ps < 0 {
        part.problems.add(Problem::NegativeDuration, origin, &[]);
    } else if duration_ps > MAX_DURATION_NS * 1000 {
        part.problems.add(Problem::AbsurdDuration, origin, &[]);
        duration_ps = 0;
    }
    let metadata = dictionary.metadata_rows.get(id);
    if metadata == NONE {
        part.problems.add(Problem::MissingName, origin, &[]);
    }
    part.count += 1;
    let at = row as usize;
    let short_ps = u32::try_from(duration_ps.max(0)).ok().filter(|&short_ps| short_ps < LONG);
    if short_ps.is_none() {
        part.long.push((row, duration_ps));
    }
    (slot.metadata[at], slot.start_ps[at], slot.duration_ps[at]) = (metadata, offset_ps, short_ps.unwrap_or(LONG));
    if has_arguments && !json.is_empty() {
        json.push(b'}');
        if let ArgValues::Text(codes, strings) = &mut part.arguments.values {
            codes.push(strings.code(json));
            part.arguments.rows.push(row);
        }
    }
}
