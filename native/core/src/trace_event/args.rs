//! The args of an event, each in its column.

use crate::columns::arg_column::{ArgColumn, ArgValues};
use crate::io::blocks::offset;
use crate::problems::{Problem, Problems};
use crate::trace_event::columns::intern;
use crate::trace_event::lexer::{Raw, RawKind};
use crate::trace_event::number::{Decimal, decimal, float, hexadecimal};
use crate::trace_event::place::Place;

/// Keep the args of one row.
#[inline(always)]
pub fn push_args(columns: &mut [ArgColumn], scratch: &[(u32, Raw)], row: u32, at: &Place, problems: &mut Problems) {
    for &(column, raw) in scratch {
        let column = &mut columns[column as usize];
        let text = raw.of(at.w);
        if raw.kind == RawKind::Bare && text == b"null" {
            continue;
        }
        let is_again = column.rows.last() == Some(&row);
        let kept = match &mut column.values {
            ArgValues::Int(values) => match decimal(text, 0) {
                Decimal::Is { value, .. } => put(values, value, is_again),
                // Pointers, e.g. a ROCm stream as the host sees it: not the number that is asked for, and no damage.
                _ if hexadecimal(text).is_some() => continue,
                _ => false,
            },
            ArgValues::Float(values) => float(text).is_some_and(|value| put(values, value, is_again)),
            ArgValues::Text(codes, strings) => put(codes, intern(strings, at.w, raw), is_again),
        };
        let is_number = !matches!(column.values, ArgValues::Text(..));
        if kept && !is_again {
            column.rows.push(row);
        }
        if (is_number && raw.kind != RawKind::Bare) || is_again || !kept {
            let problem = match (is_again, kept) {
                (true, _) => Problem::DuplicateKey,
                (false, true) => Problem::NumberAsText,
                (false, false) => Problem::BadArgument,
            };
            problems.add(problem, offset(at.origin, raw.start()), text);
        }
    }
}

/// Add a value, or put it in the place of the last one; true, as it is kept.
fn put<T>(values: &mut Vec<T>, value: T, is_again: bool) -> bool {
    match values.last_mut() {
        Some(last) if is_again => *last = value,
        _ => values.push(value),
    }
    true
}
