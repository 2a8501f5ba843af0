//! Long work without the GIL, which Python's signals end.

use std::path::Path;

use holotrace_core::{Error, Result};
use pyo3::prelude::*;

use crate::error::{raise, without_panic};

/// Asks Python now and then whether to stop, and keeps what it raised.
#[derive(Default)]
pub struct Interrupt(Option<PyErr>);

impl Interrupt {
    pub fn is_raised(&mut self) -> bool {
        self.0 = Python::attach(|py| py.check_signals()).err();
        self.0.is_some()
    }

    /// What Python raised while it was asked for something else.
    pub fn raised(&mut self, failure: PyErr) {
        self.0 = Some(failure);
    }
}

/// Do `work` on `path` without the GIL; it is handed what tells it to stop.
///
/// `failure` is what Python raised while it handed over bytes, which is no damage of the file.
pub fn interruptible<T: Send>(
    py: Python<'_>,
    path: &Path,
    failure: impl FnOnce() -> Option<PyErr>,
    work: impl FnOnce(&mut Interrupt) -> Result<T> + Send,
) -> PyResult<T> {
    let mut interrupt = Interrupt::default();
    let result = py.detach(|| without_panic(|| work(&mut interrupt)));
    if let Some(failure) = failure().or(interrupt.0) {
        return Err(failure);
    }
    result.map_err(|error| match error {
        Error::Cancelled => PyErr::take(py).unwrap_or_else(|| raise(py, Error::Cancelled, path)),
        error => raise(py, error, path),
    })
}
