//! The core's errors as Python's.

use std::path::Path;

use holotrace_core::error::Error;
use pyo3::exceptions::{PyKeyError, PyOSError};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// `error` while working on `path`, as the exception holotrace.errors or Python has for it.
pub fn raise(py: Python<'_>, error: Error, path: &Path) -> PyErr {
    match error {
        Error::NotATrace { .. } => {
            let message = format!("{}: {error}; give the path of a file the profiler wrote", path.display());
            match py.import("holotrace.errors").and_then(|errors| errors.getattr("TraceFormatError")) {
                Ok(class) => match class.call1((PyString::new(py, &message),)) {
                    Ok(value) => PyErr::from_value(value),
                    Err(error) => error,
                },
                Err(error) => error,
            }
        }
        Error::Io(error) => match error.raw_os_error() {
            // With number and file name Python picks the subclass, e.g. FileNotFoundError.
            Some(code) => PyOSError::new_err((code, error.to_string(), path.to_path_buf())),
            None => PyOSError::new_err(format!("{}: {error}", path.display())),
        },
        Error::Cancelled => PyErr::take(py).unwrap_or_else(|| pyo3::exceptions::PyKeyboardInterrupt::new_err(())),
        Error::Unknown(what) => PyKeyError::new_err(what),
    }
}
