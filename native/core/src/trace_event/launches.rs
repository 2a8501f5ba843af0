//! Which host call started which device event.

use crate::columns::arg_column::{ArgColumn, ArgValues};
use crate::columns::arrow::NONE;
use crate::columns::id_map::IdMap;
use crate::trace_event::columns::Spans;
use crate::trace_event::kineto::Class;

/// The arg both sides of a launch carry.
pub const CORRELATION: &str = "correlation";

/// For each of the `device` rows (ascending) the row of the host call that started it, or `NONE`.
///
/// One call may start many (a graph). Where calls nest (runtime over driver) and share the id, the outer one counts.
pub fn launches(spans: &Spans, device: &[u32]) -> Vec<u32> {
    let mut found = vec![NONE; device.len()];
    let Some(column) = spans.args.iter().find(|arg| arg.key == CORRELATION) else { return found };
    let Some(correlations) = integers(column) else { return found };
    let mut calls = IdMap::for_ids(correlations.iter().copied().filter(|&id| id > 0));
    for (&row, &id) in column.rows.iter().zip(correlations) {
        if id <= 0 || spans.class[row as usize] != Class::Runtime {
            continue;
        }
        let known = calls.place(id);
        if *known == NONE || spans.start[row as usize] < spans.start[*known as usize] {
            *known = row;
        }
    }
    let mut at = 0;
    for (slot, &row) in found.iter_mut().zip(device) {
        while at < column.rows.len() && column.rows[at] < row {
            at += 1;
        }
        if column.rows.get(at) == Some(&row) {
            *slot = if correlations[at] > 0 { calls.get(correlations[at]) } else { NONE };
        }
    }
    found
}

/// The integers of an arg, if it was read as such.
fn integers(arg: &ArgColumn) -> Option<&[i64]> {
    match &arg.values {
        ArgValues::Int(values) => Some(values),
        _ => None,
    }
}
