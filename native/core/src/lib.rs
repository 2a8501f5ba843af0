//! The core of holotrace: profiler traces to typed columns. No Python in it.

pub mod algorithms;
pub mod columns;
mod error;
pub mod io;
mod memory;
pub mod parquet;
mod problems;
pub mod rewrite;
pub mod trace_event;
pub mod xplane;

pub use error::{Error, Result};
pub use memory::has_room;
