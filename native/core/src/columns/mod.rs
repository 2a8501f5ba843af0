//! Columns while they grow, and as Arrow.

pub(crate) mod arg_column;
pub(crate) mod arrow;
pub(crate) mod grouping;
pub(crate) mod id_map;
pub(crate) mod interner;

pub use arg_column::ArgType;
pub use arrow::{NONE, all_ids, batch, ids, times, times_or_null};
