//! Which flow between threads arrives where, and where it comes from.

use std::borrow::Cow;

use hashbrown::HashMap;

use crate::columns::arg_column::ArgValues;
use crate::columns::arrow::NONE;
use crate::columns::grouping::Grouping;
use crate::error::{Error, Result};
use crate::xplane::in_parts::in_parts;
use crate::xplane::space::Space;

/// The stats that flows are made of; they must have been asked for, as numbers.
pub const PRODUCER: (&str, &str) = ("_pt", "_p");
pub const CONSUMER: (&str, &str) = ("_ct", "_c");

/// The sources of flow events, or their destinations.
pub struct FlowEnds<'a> {
    pub rows: Cow<'a, [u32]>,
    types: Cow<'a, [i64]>,
    ids: Cow<'a, [i64]>,
}

impl<'a> FlowEnds<'a> {
    pub fn of(space: &'a Space, (kind, id): (&str, &str)) -> Result<Self> {
        let (types, ids) = (space.stat(kind)?, space.stat(id)?);
        let (ArgValues::Int(types_of), ArgValues::Int(ids_of)) = (types.values, ids.values) else {
            return Err(Error::NotRequested(format!("stats {kind:?} and {id:?} as numbers")));
        };
        let all = 0..space.len() as u32;
        let (typed, identified) = (types.within(all.clone()), ids.within(all));
        let rows = &ids.rows[identified.clone()];
        if types.rows[typed.clone()] == *rows {
            // As a rule an event has both: nothing need be copied.
            let (types, ids) = (&types_of[typed], &ids_of[identified]);
            return Ok(Self { rows: rows.into(), types: types.into(), ids: ids.into() });
        }
        let mut ends = Self { rows: Cow::default(), types: Cow::default(), ids: Cow::default() };
        for ((&row, id), typed) in rows.iter().zip(&ids_of[identified]).zip(types.positions(rows)) {
            if let Some(kind) = types_of.get(typed as usize) {
                ends.rows.to_mut().push(row);
                ends.types.to_mut().push(*kind);
                ends.ids.to_mut().push(*id);
            }
        }
        Ok(ends)
    }

    /// Type and id of each flow.
    fn flows(&self) -> impl Iterator<Item = (i64, i64)> {
        self.types.iter().copied().zip(self.ids.iter().copied())
    }

    /// Where the flow that arrives at each comes from: the latest of `sources` that left before it got there.
    pub fn origins(&self, space: &Space, sources: &FlowEnds<'_>) -> Result<Vec<u32>> {
        let left = Departures::of(space, sources);
        let flows: Vec<_> = self.rows.iter().copied().zip(self.flows()).collect();
        let origin = |&(row, flow): &(u32, (i64, i64))| {
            left.latest(flow, space.times_ps(row).0).filter(|&origin| origin != row).unwrap_or(NONE)
        };
        in_parts(&flows, |part| part.iter().map(origin).collect())
    }
}

/// The sources of flow events by their flow, and those of one by time.
struct Departures<'a> {
    space: &'a Space,
    numbers: HashMap<(i64, i64), u32, foldhash::fast::RandomState>,
    /// Where those of each flow begin, and where the last ends.
    begins: Vec<usize>,
    rows: Vec<u32>,
}

impl<'a> Departures<'a> {
    fn of(space: &'a Space, sources: &FlowEnds<'_>) -> Self {
        let mut numbers = HashMap::default();
        let number = |flow| {
            let next = numbers.len() as u32;
            *numbers.entry(flow).or_insert(next)
        };
        let flows: Vec<u32> = sources.flows().map(number).collect();
        let members = flows.iter().copied().zip(sources.rows.iter().copied());
        let (mut rows, sizes) = Grouping::new(numbers.len(), members).into_parts();
        let mut begins = vec![0];
        for size in sizes {
            let begin = begins[begins.len() - 1];
            // Stable, so that of those at one time the last in the file counts.
            rows[begin..begin + size].sort_by_key(|&row| space.times_ps(row).0);
            begins.push(begin + size);
        }
        Self { space, numbers, begins, rows }
    }

    /// The latest of a flow until `time`.
    fn latest(&self, flow: (i64, i64), time: i64) -> Option<u32> {
        let number = *self.numbers.get(&flow)? as usize;
        let rows = &self.rows[self.begins[number]..self.begins[number + 1]];
        let behind = rows.partition_point(|&row| self.space.times_ps(row).0 <= time);
        Some(rows[behind.checked_sub(1)?])
    }
}
