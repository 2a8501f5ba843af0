//! The core of holotrace: profiler traces to typed columns. No Python in it.

pub mod layout;
pub mod error;
pub mod input;
pub mod kineto;
pub mod links;
pub mod problems;
pub mod scan;
pub mod store;
pub mod table;
pub mod trace_event;
