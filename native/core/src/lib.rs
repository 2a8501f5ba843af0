//! The core of holotrace: profiler traces to typed columns. No Python in it.

mod ahead;
pub mod call_tree;
pub mod causes;
pub mod critical_path;
pub mod entry;
pub mod error;
pub mod fields;
pub mod hlo;
pub mod input;
pub mod intervals;
mod kinds;
pub mod kineto;
pub mod layout;
pub mod links;
pub mod output;
pub mod problems;
mod processes;
pub mod reader;
pub mod rewrite;
pub mod scan;
pub mod space;
pub mod store;
pub mod table;
pub mod timeline;
pub mod trace_event;
pub mod wire;
pub mod xplane;
