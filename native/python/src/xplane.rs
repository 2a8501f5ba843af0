//! Profiles of XLA for Python.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use arrow_array::types::UInt32Type;
use holotrace_core::Error;
use holotrace_core::xplane::{self, Options, Selection, Source, read, times};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::allocator::give_back;
use crate::arrow::{ArrowTable, Batches};
use crate::error::{raise, without_panic};
use crate::interrupt::interruptible;
use crate::trace_event::arg_types;

/// One profile's columns.
#[pyclass(frozen, module = "holotrace._native")]
pub struct Space {
    space: RwLock<xplane::Space>,
    path: PathBuf,
}

impl Space {
    fn read(&self) -> RwLockReadGuard<'_, xplane::Space> {
        self.space.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(
        &self,
        py: Python<'_>,
        make: impl FnOnce(&xplane::Space) -> Result<arrow_array::RecordBatch, Error> + Send,
    ) -> PyResult<ArrowTable> {
        let batch = py.detach(|| without_panic(|| make(&self.read())));
        batch.map(ArrowTable).map_err(|error| raise(py, error, &self.path))
    }
}

#[pymethods]
impl Space {
    #[getter]
    fn counts(&self) -> HashMap<&'static str, u64> {
        let space = self.read();
        HashMap::from([("entries", space.len() as u64), ("file_bytes", space.file_bytes)])
    }

    #[getter]
    fn origin_ns(&self) -> i64 {
        self.read().origin_ns
    }

    #[getter]
    fn hostnames(&self) -> Vec<String> {
        self.read().hostnames.clone()
    }

    #[getter]
    fn messages(&self) -> Vec<(&'static str, String)> {
        let space = self.read();
        let errors = space.errors.iter().map(|text| ("error", text.clone()));
        errors.chain(space.warnings.iter().map(|text| ("warning", text.clone()))).collect()
    }

    fn planes(&self, py: Python<'_>) -> PyResult<ArrowTable> {
        self.table(py, xplane::Space::planes)
    }

    fn plane_stats(&self, py: Python<'_>) -> PyResult<ArrowTable> {
        self.table(py, xplane::Space::plane_stats)
    }

    fn lines(&self, py: Python<'_>) -> PyResult<ArrowTable> {
        self.table(py, xplane::Space::lines)
    }

    fn names(&self, py: Python<'_>) -> PyResult<ArrowTable> {
        self.table(py, xplane::Space::names)
    }

    #[pyo3(signature = (columns, *, lines = None, rows = None, having = None, lacking = None, names = None, lasting = None))]
    #[allow(clippy::too_many_arguments, reason = "Python's keywords")]
    fn events(
        &self,
        py: Python<'_>,
        columns: Vec<String>,
        lines: Option<Vec<u32>>,
        rows: Option<&Bound<'_, PyAny>>,
        having: Option<String>,
        lacking: Option<String>,
        names: Option<Vec<String>>,
        lasting: Option<Vec<u32>>,
    ) -> PyResult<ArrowTable> {
        let rows = rows.map(ids).transpose()?.map(|mut rows| {
            rows.sort_unstable();
            rows.dedup();
            rows
        });
        let lines = lines.map(|lines| lines.into_iter().collect());
        let names = names.map(|names| names.into_iter().collect());
        let lasting = lasting.into_iter().flatten().collect();
        let selection = Selection { lines, rows, having, lacking, names, lasting };
        self.table(py, |space| space.events(&columns, &selection))
    }

    fn causes(
        &self,
        py: Python<'_>,
        columns: Vec<String>,
        events: &Bound<'_, PyAny>,
        lines: Vec<u32>,
        marks: &Bound<'_, PyAny>,
    ) -> PyResult<ArrowTable> {
        let (events, marks) = (ids(events)?, ids(marks)?);
        self.table(py, move |space| space.ancestries(&events, &lines, &marks, &columns))
    }

    fn hlo(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<ArrowTable> {
        self.table(py, |space| space.instructions.table(&columns))
    }

    fn buffers(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<ArrowTable> {
        self.table(py, |space| space.instructions.buffer_table(&columns))
    }

    fn keep_stats(&self, py: Python<'_>, keys: Vec<String>) {
        py.detach(|| self.space.write().unwrap_or_else(PoisonError::into_inner).keep_stats(&keys));
    }

    fn problems(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<ArrowTable> {
        self.table(py, |space| space.problems.table(&columns))
    }
}

/// The events that a table of Python's names.
fn ids(table: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    Ok(Batches::of(table)?.values::<UInt32Type>("event_id")?.to_vec())
}

#[pyfunction]
#[pyo3(signature = (path, *, stats, arguments, hlo))]
pub fn read_xplane(
    py: Python<'_>,
    path: PathBuf,
    stats: Vec<(String, String)>,
    arguments: bool,
    hlo: bool,
) -> PyResult<Space> {
    let options = Options { stats: arg_types(stats)?, arguments, hlo };
    read_source(py, path.clone(), options, move || Source::open(File::open(path)?))
}

#[pyfunction]
#[pyo3(signature = (content, *, stats, arguments, hlo))]
pub fn read_xplane_bytes(
    py: Python<'_>,
    content: &Bound<'_, PyBytes>,
    stats: Vec<(String, String)>,
    arguments: bool,
    hlo: bool,
) -> PyResult<Space> {
    let options = Options { stats: arg_types(stats)?, arguments, hlo };
    let content = content.as_bytes().to_vec();
    read_source(py, PathBuf::from("the bytes given"), options, move || Ok(Source::Memory(content)))
}

/// Host, begin and end of a recording.
type Times = (String, Option<i64>, Option<i64>);

#[pyfunction]
pub fn profile_times(py: Python<'_>, path: PathBuf) -> PyResult<Times> {
    let found = py.detach(|| without_panic(|| times(&Source::open(File::open(&path)?)?)));
    found.map_err(|error| raise(py, error, &path))
}

fn read_source(
    py: Python<'_>,
    path: PathBuf,
    options: Options,
    open: impl FnOnce() -> std::io::Result<Source> + Send,
) -> PyResult<Space> {
    let space = interruptible(py, &path, || None, |interrupt| read(&open()?, &options, &mut || interrupt.is_raised()))?;
    // Each line was read into columns of its own.
    give_back(py);
    Ok(Space { space: RwLock::new(space), path })
}
