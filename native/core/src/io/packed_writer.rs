//! A new file, packed as its name says by several threads, in its place only once it is whole.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use flate2::{Compress, Compression, Crc, FlushCompress};
use tempfile::{Builder, NamedTempFile};

use crate::error::{Error, Result};

/// Packed on its own: large enough that what it cannot refer back to does not weigh, small enough for the cache.
const CHUNK_BYTES: usize = 1 << 20;
/// Unpacking and scanning the source is one thread, and twice as fast as packing.
const MAX_PACKERS: usize = 4;
const CHUNKS_AHEAD: usize = 2 * MAX_PACKERS;
/// A gzip stream without name and time, packed fast, on an unknown system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];
/// A last block of deflated data with nothing in it.
const GZIP_END: [u8; 2] = [3, 0];
/// A quarter smaller than with 1 for a seventh more time; 3 takes twice as long for a tenth less.
const GZIP_LEVEL: u32 = 2;
const ZSTD_LEVEL: i32 = 1;

/// How a file is packed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    Gzip,
    Zstd,
}

impl Form {
    fn of(path: &Path) -> Self {
        match path.extension().and_then(OsStr::to_str) {
            Some("gz") => Form::Gzip,
            Some("zst") => Form::Zstd,
            _ => Form::Plain,
        }
    }
}

/// Takes text; keeps what is not enough for a chunk.
pub struct Sink {
    pending: Vec<u8>,
    to_packers: SyncSender<Chunk>,
    /// What each packer will send, in the order of the text.
    to_writer: SyncSender<Receiver<io::Result<Packed>>>,
}

/// A piece of the text, and where it goes when it is packed.
struct Chunk {
    text: Vec<u8>,
    done: SyncSender<io::Result<Packed>>,
}

struct Packed {
    bytes: Vec<u8>,
    sum: Crc,
}

impl Sink {
    pub fn push(&mut self, mut text: &[u8]) -> Result<()> {
        while self.pending.len() + text.len() >= CHUNK_BYTES {
            let (now, later) = text.split_at(CHUNK_BYTES - self.pending.len());
            self.pending.extend_from_slice(now);
            self.send()?;
            text = later;
        }
        self.pending.extend_from_slice(text);
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        let text = std::mem::replace(&mut self.pending, Vec::with_capacity(CHUNK_BYTES));
        let (done, packed) = sync_channel(1);
        let stopped = || Error::Defect("the writer stopped".into());
        self.to_writer.send(packed).map_err(|_| stopped())?;
        self.to_packers.send(Chunk { text, done }).map_err(|_| stopped())
    }
}

/// Write the file at `target` from what `produce` pushes; it is not touched unless all went well.
pub fn write<T>(target: &Path, produce: impl FnOnce(&mut Sink) -> Result<T>) -> Result<T> {
    let partial = partial(target)?;
    let file = partial.as_file().try_clone()?;
    let form = Form::of(target);
    let packers = thread::available_parallelism().map_or(1, usize::from).min(MAX_PACKERS);
    let (to_packers, chunks) = sync_channel(CHUNKS_AHEAD);
    let (to_writer, packed) = sync_channel(CHUNKS_AHEAD);
    let chunks = Mutex::new(chunks);
    let result = thread::scope(|scope| {
        for _ in 0..packers {
            let chunks = &chunks;
            thread::Builder::new().name("holotrace-pack".into()).spawn_scoped(scope, move || pack_all(form, chunks))?;
        }
        let writer = thread::Builder::new()
            .name("holotrace-write".into())
            .spawn_scoped(scope, move || save(form, file, packed))?;
        let mut sink = Sink { pending: Vec::with_capacity(CHUNK_BYTES), to_packers, to_writer };
        let produced = produce(&mut sink).and_then(|value| sink.send().map(|()| value));
        // Packers and writer end when nothing more can come.
        drop(sink);
        // Where the writer failed, that is why nothing more could be produced.
        writer.join().map_err(|_| Error::Defect("the writer panicked".into()))??;
        produced
    })?;
    partial.persist(target).map_err(|error| error.error)?;
    Ok(result)
}

fn pack_all(form: Form, chunks: &Mutex<Receiver<Chunk>>) {
    loop {
        // A packer that panicked holds no lock: it only waits for chunks under it.
        let Ok(guard) = chunks.lock() else { return };
        let Ok(Chunk { text, done }) = guard.recv() else { return };
        drop(guard);
        // A writer that failed does not want it any more.
        let _ = done.send(pack(form, text));
    }
}

fn pack(form: Form, text: Vec<u8>) -> io::Result<Packed> {
    let mut sum = Crc::new();
    let bytes = match form {
        Form::Plain => text,
        Form::Zstd => zstd::bulk::compress(&text, ZSTD_LEVEL)?,
        Form::Gzip => {
            sum.update(&text);
            deflated(&text)?
        }
    };
    Ok(Packed { bytes, sum })
}

/// A piece of a deflate stream that refers to nothing before it and ends with a byte, so that another can follow.
fn deflated(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = Compress::new(Compression::new(GZIP_LEVEL), false);
    let mut bytes = Vec::with_capacity(text.len() / 4 + 1024);
    loop {
        let rest = &text[stream.total_in() as usize..];
        stream.compress_vec(rest, &mut bytes, FlushCompress::Sync)?;
        // All is out once there was room to spare.
        if stream.total_in() as usize == text.len() && bytes.len() < bytes.capacity() {
            return Ok(bytes);
        }
        bytes.reserve(text.len() / 4 + 1024);
    }
}

fn save(form: Form, mut file: File, packed: Receiver<Receiver<io::Result<Packed>>>) -> Result<()> {
    let mut sum = Crc::new();
    if form == Form::Gzip {
        file.write_all(&GZIP_HEADER)?;
    }
    for chunk in packed {
        // A packer that panicked sends nothing.
        let chunk = chunk.recv().map_err(|_| Error::Defect("a packer panicked".into()))??;
        sum.combine(&chunk.sum);
        file.write_all(&chunk.bytes)?;
    }
    if form == Form::Gzip {
        file.write_all(&GZIP_END)?;
        file.write_all(&sum.sum().to_le_bytes())?;
        file.write_all(&sum.amount().to_le_bytes())?;
    }
    Ok(())
}

/// A file that is being written, next to where it will be; gone unless it gets there.
fn partial(target: &Path) -> io::Result<NamedTempFile> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = Builder::new();
    builder.prefix(".holotrace-").suffix(".part");
    // As of any new file, which others may read; the umask takes its part.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}
