//! What is asked of a file.

use crate::columns::arg_column::ArgType;
use crate::trace_event::kineto::Table;

/// What to keep of a file.
#[derive(Clone)]
pub struct Options {
    pub tables: Vec<Table>,
    pub args: Vec<(String, ArgType)>,
}

impl Options {
    /// No table and no arg: only where events begin and end.
    pub fn nothing() -> Self {
        Self { tables: Vec::new(), args: Vec::new() }
    }
}
