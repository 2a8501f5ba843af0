//! Trace-event JSON, as PyTorch writes it, to columns.

mod args;
pub(crate) mod columns;
mod events;
pub(crate) mod fields;
mod flows;
pub(crate) mod grammar;
mod host_work;
pub(crate) mod kineto;
mod launches;
pub(crate) mod lexer;
pub(crate) mod number;
pub(crate) mod observer;
pub(crate) mod options;
mod parallel;
mod place;
mod projection;
mod recovery;
mod samples;
mod spans;
pub(crate) mod store;
mod tables;
mod templates;
pub(crate) mod unescape;
mod values;
pub(crate) mod window;

pub use self::kineto::{MAX_DURATION_NS, MAX_TIME_NS, Table};
pub use self::options::Options;
pub use self::parallel::read;
pub use self::store::Store;
