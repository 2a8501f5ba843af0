//! Traces of several ranks as one, for Python.

use std::path::PathBuf;

use holotrace_core::rewrite::{Detail, Part, Timeline, write};
use holotrace_core::{Error, Result};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::raise;
use crate::interrupt::{Interrupt, interruptible};
use crate::source::Source;
use crate::trace_event::Trace;

/// A rank's source, its name, what is added to its times, from when to when, and how much of it.
type Asked = (Source, String, i64, Option<(i64, i64)>, String);
/// Events written and left out, and what was said of the rest.
type Done = (u64, u64, Trace);

#[pyfunction]
#[pyo3(signature = (target, *, head, parts))]
pub fn write_timeline(py: Python<'_>, target: PathBuf, head: &str, parts: Py<PyAny>) -> PyResult<Vec<Done>> {
    let mut adding = Adding { parts, path: target.clone(), done: Vec::new() };
    // Where a rank cannot be read, its path is named and not the target's.
    let result = interruptible(
        py,
        &target,
        || None,
        |interrupt| {
            let result = write(&target, head, |timeline| adding.add_all(timeline, interrupt));
            Ok(result.map_err(|error| (error, adding.path.clone())))
        },
    )?;
    match result {
        Ok(()) => Ok(adding.done),
        Err((error, path)) => Err(raise(py, error, &path)),
    }
}

/// Ranks that are added one by one, as Python hands them over.
struct Adding {
    parts: Py<PyAny>,
    /// What is being read.
    path: PathBuf,
    done: Vec<Done>,
}

impl Adding {
    fn add_all(&mut self, timeline: &mut Timeline, interrupt: &mut Interrupt) -> Result<()> {
        while let Some((source, part)) = self.next_part(interrupt)? {
            self.path.clone_from(&source.path);
            let added = timeline.add(source.blocks()?, &part, &mut || interrupt.is_raised());
            if let Some(failure) = source.failure() {
                interrupt.raised(failure);
                return Err(Error::Cancelled);
            }
            let mut added = added?;
            added.store.metadata.clear();
            self.done.push((added.written, added.left_out, Trace::of(added.store, source.path)));
        }
        Ok(())
    }

    fn next_part(&self, interrupt: &mut Interrupt) -> Result<Option<(Source, Part)>> {
        Python::attach(|py| {
            let Some(asked) = self.parts.bind(py).try_iter()?.next() else { return Ok(None) };
            let (source, name, shift_ns, window, detail) = asked?.extract::<Asked>()?;
            let detail = match detail.as_str() {
                "device" => Detail::Device,
                "host" => Detail::Host,
                "python" => Detail::Python,
                _ => return Err(PyValueError::new_err(format!("unknown detail {detail:?}"))),
            };
            Ok(Some((source, Part { name, shift_ns, window, detail })))
        })
        .map_err(|failure| {
            interrupt.raised(failure);
            Error::Cancelled
        })
    }
}
