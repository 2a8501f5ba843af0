//! What is asked of a profile, and what a line of it gives.

use crate::columns::arg_column::{ArgColumn, ArgType};
use crate::problems::Problems;

/// Times beyond it are damage, and picoseconds would not fit in 64 bits (46 days).
pub const MAX_NS: i64 = 4_000_000_000_000_000;
/// Lines that begin later than this give UNIX time, not time since the profile began (1973 in ns).
pub const FIRST_UNIX_NS: i64 = 100_000_000_000_000_000;

/// What to keep of a file.
#[derive(Clone, Default)]
pub struct Options {
    /// Stats of events to keep, each as a column.
    pub stats: Vec<(String, ArgType)>,
    /// Whether to keep all arguments of host events as JSON.
    pub arguments: bool,
    /// Whether to read the compiled programs.
    pub hlo: bool,
}

/// What every event has, in file order.
#[derive(Default)]
pub struct Columns {
    /// Rows of the space's metadata.
    pub metadata: Vec<u32>,
    /// From the line's own time on.
    pub start_ps: Vec<i64>,
    /// `LONG` for those that are in their part.
    pub duration_ps: Vec<u32>,
}

/// Durations from here on, some milliseconds, are few, and kept elsewhere: most of a profile is much shorter.
pub const LONG: u32 = 1 << 31;

/// What else there is of one line.
pub struct Part {
    pub line: u32,
    pub head: LineHead,
    pub count: u32,
    /// Of some events; rows are counted from the line's first.
    pub stats: Vec<ArgColumn>,
    pub arguments: ArgColumn,
    /// Rows of events that last long, with their durations in ps.
    pub long: Vec<(u32, i64)>,
    pub problems: Problems,
    /// Where in the file the line begins.
    pub offset: u64,
}

#[derive(Default)]
pub struct LineHead {
    pub id: i64,
    pub name: String,
    pub display: String,
    pub timestamp_ns: i64,
}

impl LineHead {
    pub fn is_unix(&self) -> bool {
        self.timestamp_ns > FIRST_UNIX_NS
    }
}
