//! Why a file could not be read.

use std::collections::TryReserveError;
use std::fmt;
use std::io;

use arrow_schema::ArrowError;

/// Everything that can end a read without a result.
#[derive(Debug)]
pub enum Error {
    /// The file is no trace: where that was noticed, and why.
    NotATrace {
        offset: u64,
        reason: String,
    },
    /// The file is no profile of XLA: where that was noticed, and why.
    NotASpace {
        offset: u64,
        reason: String,
    },
    Io(io::Error),
    /// The caller asked to stop.
    Cancelled,
    /// There is not that much memory.
    OutOfMemory,
    /// A table that nobody declared.
    UnknownTable(String),
    /// A column that its table does not have.
    UnknownColumn {
        table: String,
        column: String,
    },
    /// Something that was not asked for when the file was read.
    NotRequested(String),
    /// An event that the file does not have.
    NoSuchEvent {
        id: u32,
        entries: u64,
    },
    /// A type that cannot be stored.
    Unsupported(String),
    /// Columns that do not fit together.
    Mismatch(String),
    /// The core is wrong.
    Defect(String),
}

impl Error {
    pub fn unknown_column(table: &str, column: &str) -> Self {
        Self::UnknownColumn { table: table.into(), column: column.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotATrace { offset, reason } => write!(f, "not a trace: at byte {offset}, {reason}"),
            Error::NotASpace { offset, reason } => write!(f, "not a valid XSpace: at byte {offset}, {reason}"),
            Error::Io(error) => error.fmt(f),
            Error::Cancelled => f.write_str("cancelled"),
            Error::OutOfMemory => f.write_str("there is not enough memory"),
            Error::UnknownTable(table) => write!(f, "unknown table {table:?}"),
            Error::UnknownColumn { table, column } => write!(f, "unknown column {column:?} of table {table:?}"),
            Error::NotRequested(what) => write!(f, "{what} was not asked for"),
            Error::NoSuchEvent { id, entries } => write!(f, "no event {id}: there are {entries} entries"),
            Error::Unsupported(what) => write!(f, "{what} cannot be stored"),
            Error::Mismatch(what) => f.write_str(what),
            Error::Defect(what) => write!(f, "defect: {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::OutOfMemory => Error::OutOfMemory,
            _ => Error::Io(error),
        }
    }
}

impl From<TryReserveError> for Error {
    fn from(_: TryReserveError) -> Self {
        Error::OutOfMemory
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        Error::Mismatch(error.to_string())
    }
}

pub type Result<T> = std::result::Result<T, Error>;
