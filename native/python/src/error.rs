//! The core's errors as Python's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use holotrace_core::Error;
use pyo3::exceptions::{PyKeyError, PyMemoryError, PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// `error` while working on `path`, as the exception holotrace.errors or Python has for it.
pub fn raise(py: Python<'_>, error: Error, path: &Path) -> PyErr {
    match error {
        Error::NotATrace { .. } | Error::NotASpace { .. } => {
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
        Error::OutOfMemory => PyMemoryError::new_err(format!("{}: {error}", path.display())),
        Error::UnknownTable(_) | Error::UnknownColumn { .. } | Error::NotRequested(_) | Error::NoSuchEvent { .. } => {
            PyKeyError::new_err(error.to_string())
        }
        Error::Unsupported(_) => PyTypeError::new_err(error.to_string()),
        Error::Mismatch(_) => PyValueError::new_err(error.to_string()),
        Error::Defect(what) => PyRuntimeError::new_err(format!(
            "{}: a defect of holotrace ({what}); please report it with the file's first lines",
            path.display()
        )),
    }
}

/// Run `work`; a panic, which is a defect of ours, becomes an error instead of crossing into Python.
pub fn without_panic<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default();
        Err(Error::Defect(text))
    })
}
