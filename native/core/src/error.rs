//! Why a file could not be read.

use std::fmt;
use std::io;

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
    /// A table or column nobody declared.
    Unknown(String),
    /// The core is wrong.
    Defect(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotATrace { offset, reason } => write!(f, "not a trace: at byte {offset}, {reason}"),
            Error::NotASpace { offset, reason } => write!(f, "not a valid XSpace: at byte {offset}, {reason}"),
            Error::Io(error) => error.fmt(f),
            Error::Cancelled => f.write_str("cancelled"),
            Error::Unknown(what) => write!(f, "unknown {what}"),
            Error::Defect(what) => write!(f, "defect: {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
    }
}

pub type Result<T> = std::result::Result<T, Error>;
