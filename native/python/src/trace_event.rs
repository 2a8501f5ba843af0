//! Trace-event files for Python.

use std::collections::HashMap;
use std::path::PathBuf;

use holotrace_core::columns::ArgType;
use holotrace_core::trace_event::Store;
use holotrace_core::trace_event::Table;
use holotrace_core::trace_event::{Options, read};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::ArrowTable;
use crate::error::{raise, without_panic};
use crate::interrupt::{Interrupt, interruptible};
use crate::source::Source;

/// One trace file's columns.
#[pyclass(frozen, module = "holotrace._native")]
pub struct Trace {
    store: Store,
    path: PathBuf,
}

impl Trace {
    pub fn of(store: Store, path: PathBuf) -> Self {
        Self { store, path }
    }
}

#[pymethods]
impl Trace {
    #[getter]
    fn metadata(&self) -> Vec<(String, String)> {
        self.store.metadata.clone()
    }

    #[getter]
    fn counts(&self) -> HashMap<&'static str, u64> {
        let counts = self.store.counts;
        HashMap::from([
            ("entries", counts.entries),
            ("complete", counts.complete),
            ("begins", counts.begins),
            ("ends", counts.ends),
            ("instants", counts.instants),
            ("counters", counts.counters),
            ("flows", counts.flows),
            ("labels", counts.labels),
            ("reported", self.store.problems.losses()),
            ("skipped", counts.skipped),
            ("text_bytes", counts.text_bytes),
            ("file_bytes", counts.file_bytes),
        ])
    }

    /// Whether this work is of the host itself.
    #[getter]
    fn computes_on_host(&self) -> bool {
        self.store.computes_on_host()
    }

    /// Whether work of a device is among its rows.
    #[getter]
    fn has_device_events(&self) -> bool {
        self.store.has_device_events()
    }

    fn table(&self, py: Python<'_>, name: &str, columns: Vec<String>) -> PyResult<ArrowTable> {
        let batch = py.detach(|| without_panic(|| self.store.table(name, &columns)));
        batch.map(ArrowTable).map_err(|error| raise(py, error, &self.path))
    }
}

/// The args to keep, with their types.
pub fn arg_types(args: Vec<(String, String)>) -> PyResult<Vec<(String, ArgType)>> {
    let typed = args.into_iter().map(|(key, kind)| match kind.as_str() {
        "int" => Ok((key, ArgType::Int)),
        "float" => Ok((key, ArgType::Float)),
        "text" => Ok((key, ArgType::Text)),
        _ => Err(PyValueError::new_err(format!("unknown type {kind:?} of arg {key:?}"))),
    });
    typed.collect()
}

#[pyfunction]
#[pyo3(signature = (source, *, tables, args))]
pub fn read_trace_event(
    py: Python<'_>,
    source: Source,
    tables: Vec<String>,
    args: Vec<(String, String)>,
) -> PyResult<Trace> {
    let options = Options {
        tables: tables
            .iter()
            .map(|name| Table::named(name).ok_or_else(|| PyValueError::new_err(format!("unknown table {name:?}"))))
            .collect::<PyResult<_>>()?,
        args: arg_types(args)?,
    };
    let store = interruptible(
        py,
        &source.path,
        || source.failure(),
        |interrupt| read(source.blocks()?, &options, &mut || interrupt.is_raised()),
    )?;
    Ok(Trace { store, path: source.path })
}

#[pyfunction]
#[pyo3(signature = (source, *, head_bytes, tail_bytes))]
pub fn read_ends(
    py: Python<'_>,
    source: Source,
    head_bytes: usize,
    tail_bytes: usize,
) -> PyResult<(Bound<'_, PyBytes>, Bound<'_, PyBytes>)> {
    let find = |_: &mut Interrupt| Ok(source.ends(head_bytes, tail_bytes)?);
    let (head, tail) = interruptible(py, &source.path, || source.failure(), find)?;
    Ok((PyBytes::new(py, &head), PyBytes::new(py, &tail)))
}

#[pyfunction]
pub fn checksum(py: Python<'_>, path: PathBuf) -> PyResult<u32> {
    py.detach(|| holotrace_core::io::checksum(&path)).map_err(|error| raise(py, error.into(), &path))
}
