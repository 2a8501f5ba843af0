//! Where a file's bytes come from: a path, or Python that hands them over piece by piece.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use holotrace_core::io::{Blocks, ends, ends_of_stream};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

/// A file of this machine, or a `holotrace.stores.Stream`.
pub struct Source {
    /// What messages call it.
    pub path: PathBuf,
    stream: Option<Stream>,
}

/// Pieces of bytes from a Python iterator, which can be read once.
struct Stream {
    pieces: Py<PyAny>,
    file_bytes: u64,
    /// What could not be fetched is no damage of the file, so Python's error is kept beside the one that readers see.
    failure: Arc<Mutex<Option<PyErr>>>,
}

impl<'py> FromPyObject<'_, 'py> for Source {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(path) = object.extract() {
            return Ok(Self { path, stream: None });
        }
        let stream = Stream {
            pieces: object.getattr("pieces")?.unbind(),
            file_bytes: object.getattr("file_bytes")?.extract()?,
            failure: Arc::default(),
        };
        Ok(Self { path: object.getattr("url")?.extract()?, stream: Some(stream) })
    }
}

impl Source {
    pub fn blocks(&self) -> io::Result<Blocks> {
        match &self.stream {
            None => Blocks::open(&self.path),
            Some(stream) => Blocks::stream(stream.reader(), stream.file_bytes),
        }
    }

    pub fn ends(&self, head_bytes: usize, tail_bytes: usize) -> io::Result<(Vec<u8>, Vec<u8>)> {
        match &self.stream {
            None => ends(&self.path, head_bytes, tail_bytes),
            Some(stream) => ends_of_stream(stream.reader(), head_bytes, tail_bytes),
        }
    }

    /// Python's error, if that is why the bytes ended.
    pub fn failure(&self) -> Option<PyErr> {
        self.stream.as_ref()?.failure.lock().ok()?.take()
    }
}

impl Stream {
    fn reader(&self) -> Pieces {
        let pieces = Python::attach(|py| self.pieces.clone_ref(py));
        Pieces { pieces, piece: None, read: 0, failure: self.failure.clone() }
    }
}

struct Pieces {
    pieces: Py<PyAny>,
    piece: Option<PyBackedBytes>,
    /// How much of the piece was read.
    read: usize,
    failure: Arc<Mutex<Option<PyErr>>>,
}

impl Read for Pieces {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        while self.piece.as_ref().is_none_or(|piece| self.read == piece.len()) {
            match self.next_piece() {
                Ok(Some(piece)) => (self.piece, self.read) = (Some(piece), 0),
                Ok(None) => return Ok(0),
                Err(error) => {
                    let message = error.to_string();
                    if let Ok(mut failure) = self.failure.lock() {
                        *failure = Some(error);
                    }
                    return Err(io::Error::other(message));
                }
            }
        }
        let rest = &self.piece.as_deref().unwrap_or_default()[self.read..];
        let count = rest.len().min(target.len());
        target[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        Ok(count)
    }
}

impl Pieces {
    fn next_piece(&self) -> PyResult<Option<PyBackedBytes>> {
        Python::attach(|py| {
            let Some(piece) = self.pieces.bind(py).try_iter()?.next() else { return Ok(None) };
            Ok(Some(piece?.extract()?))
        })
    }
}
