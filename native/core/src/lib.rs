//! The core of holotrace: profiler traces to typed columns. No Python in it.

pub mod algorithms;
pub mod columns;
mod error;
pub mod io;
pub mod parquet;
mod problems;
pub mod rewrite;
pub mod trace_event;
pub mod xplane;

pub use error::{Error, Result};
