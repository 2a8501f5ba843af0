//! What could not be read as it was written, and what was done about it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, LargeStringArray, RecordBatch};

use crate::columns::arrow::batch;
use crate::error::{Error, Result};
use crate::trace_event::unescape::decode;

/// Bytes of an example that are shown.
const EXAMPLE_BYTES: usize = 120;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $reported:literal, $action:literal;)*) => {
        /// A kind of damage.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Problem { $($(#[$doc])* $kind,)* }

        impl Problem {
            pub fn name(self) -> &'static str {
                match self { $(Problem::$kind => $name,)* }
            }

            pub fn action(self) -> &'static str {
                match self { $(Problem::$kind => $action,)* }
            }

            /// Whether each occurrence is an entry that reached no table.
            fn is_loss(self) -> bool {
                match self { $(Problem::$kind => $reported,)* }
            }
        }
    };
}

kinds! {
    CutOff = "file cut off", false, "every whole entry before the end was read";
    DamagedMessage = "profile damaged", false, "what it is in was read up to the damage";
    DamagedStream = "compressed stream damaged", false, "every whole entry before the damage was read";
    TrailingText = "text after the end", false, "only events that the trace did not hold already were kept";
    ByteOrderMark = "byte order mark", false, "skipped";
    Malformed = "malformed text", true, "skipped up to the next whole event";
    MissingComma = "comma missing between events", false, "read as if it were there";
    NotAnEvent = "entry is no event", true, "left out";
    TooLarge = "entry too large", true, "left out";
    MetadataTooLarge = "metadata too large", false, "left out";
    DuplicateKey = "duplicate key", false, "the last value was kept";
    UnknownPhase = "phase not read", true, "left out";
    MissingPhase = "phase missing", false, "read as a complete event";
    MissingTime = "start time missing", true, "left out";
    MissingDuration = "duration missing", false, "kept with no duration";
    MissingThread = "process or thread missing", false, "kept without it";
    MissingName = "name missing", false, "kept without a name";
    NegativeDuration = "negative duration", false, "kept with no duration";
    AbsurdDuration = "duration over a week", false, "kept with no duration";
    NumberAsText = "number written as text", false, "read as the number";
    SubNanosecond = "digits below a nanosecond", false, "rounded";
    TimeOverflow = "time beyond 146 years", true, "left out";
    AbsurdTime = "time beyond 46 days", false, "kept at the beginning of its line";
    BadArgument = "argument is no number", false, "read as missing";
    BadText = "invalid UTF-8 or escape", false, "replaced by U+FFFD";
    EndWithoutBegin = "end without begin", true, "left out";
    BeginWithoutEnd = "begin without end", false, "kept with no duration";
    BadFlow = "arrow without id or time", true, "left out";
    BadLabel = "label without its value", false, "left without a name";
    BadCounter = "counter without numbers", true, "left out";
}

struct Seen {
    count: u64,
    first_offset: u64,
    example: String,
}

#[derive(Default)]
pub struct Problems {
    seen: BTreeMap<Problem, Seen>,
}

impl Problems {
    #[cold]
    pub fn add(&mut self, problem: Problem, offset: u64, example: &[u8]) {
        let seen = self.seen.entry(problem).or_insert_with(|| Seen {
            count: 0,
            first_offset: offset,
            example: decode(&example[..example.len().min(EXAMPLE_BYTES)]).0,
        });
        seen.count += 1;
    }

    /// Take in what was seen further on.
    pub fn append(&mut self, others: Problems) {
        for (problem, other) in others.seen {
            match self.seen.entry(problem) {
                Entry::Occupied(mut seen) => seen.get_mut().count += other.count,
                Entry::Vacant(free) => drop(free.insert(other)),
            }
        }
    }

    /// Entries that reached no table.
    pub fn losses(&self) -> u64 {
        self.seen.iter().filter(|(problem, _)| problem.is_loss()).map(|(_, seen)| seen.count).sum()
    }

    pub fn table(&self, columns: &[String]) -> Result<RecordBatch> {
        let found = columns.iter().map(|name| {
            let array = self.column(name).ok_or_else(|| Error::unknown_column("problems", name))?;
            Ok((name.clone(), array))
        });
        batch(found.collect::<Result<_>>()?)
    }

    pub fn column(&self, name: &str) -> Option<ArrayRef> {
        let text = |values: Vec<&str>| Arc::new(LargeStringArray::from_iter_values(values)) as ArrayRef;
        let number = |values: Vec<u64>| {
            Arc::new(Int64Array::from_iter_values(values.into_iter().map(|value| value as i64))) as ArrayRef
        };
        Some(match name {
            "problem" => text(self.seen.keys().map(|problem| problem.name()).collect()),
            "count" => number(self.seen.values().map(|seen| seen.count).collect()),
            "first_offset" => number(self.seen.values().map(|seen| seen.first_offset).collect()),
            "example" => text(self.seen.values().map(|seen| seen.example.as_str()).collect()),
            "action" => text(self.seen.keys().map(|problem| problem.action()).collect()),
            _ => return None,
        })
    }
}
