//! Bytes of a file, inflated on their own thread and handed over in blocks.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use flate2::bufread::MultiGzDecoder;

/// Large enough that a block's own dictionaries do not weigh, small enough for the cache; see benchmarks/README.md.
pub const BLOCK_BYTES: usize = 256 << 10;
/// Free bytes before each block's text, so that the end of the last one can be put in front without moving the block.
const HEADROOM: usize = 64 << 10;
/// Blocks under way to the scanners.
const BLOCKS_AHEAD: usize = 3;
const COMPRESSED_BUFFER: usize = 256 << 10;
/// How often a reader that waits for bytes looks whether anybody still wants them.
const STOP_CHECK: Duration = Duration::from_millis(100);

/// A piece of the text, most often cut between two events.
#[derive(Default)]
pub struct Block {
    pub bytes: Vec<u8>,
    /// Where its text begins; what is before is free.
    pub start: usize,
    /// Offset in the text of the first of `bytes`: negative where that is free space before the text.
    pub origin: i64,
    /// How much unread text there must be before it is worth looking at again.
    pub wanted: usize,
}

impl Block {
    pub fn text(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The offset in the text of a position in `bytes`.
    pub fn offset(&self, at: usize) -> u64 {
        (self.origin + at as i64).max(0) as u64
    }
}

enum Message {
    Block(Block),
    /// The stream ended early; what came before it is whole.
    Damaged(io::Error),
}

/// The inflated bytes of one file, in order.
pub struct Blocks {
    filled: Receiver<Message>,
    empty: SyncSender<Vec<u8>>,
    taken: u64,
    pub file_bytes: u64,
    /// Why the stream ended before its end, once it has.
    pub damage: Option<String>,
    /// Set from elsewhere, it ends the waiting for bytes that are slow to come.
    pub stopped: Arc<AtomicBool>,
}

impl Blocks {
    pub fn open(path: &Path) -> io::Result<Self> {
        let Opened { reader, file_bytes, .. } = open(path)?;
        Self::of(reader, file_bytes, BLOCK_BYTES)
    }

    /// A file of a size that comes from elsewhere than a disk, inflated as it arrives.
    pub fn stream(file: impl Read + Send + 'static, file_bytes: u64) -> io::Result<Self> {
        Self::of(inflated(file)?.0, file_bytes, BLOCK_BYTES)
    }

    /// Text from any reader, in blocks of a size.
    pub fn of(reader: Box<dyn Read + Send>, file_bytes: u64, block_bytes: usize) -> io::Result<Self> {
        let (to_scanner, filled) = sync_channel(BLOCKS_AHEAD);
        let (empty, to_inflater) = sync_channel(BLOCKS_AHEAD + 4);
        thread::Builder::new()
            .name("holotrace-inflate".into())
            .spawn(move || inflate(reader, block_bytes, &to_inflater, &to_scanner))?;
        Ok(Self { filled, empty, taken: 0, file_bytes, damage: None, stopped: Arc::default() })
    }

    /// The next block and its number, or `None` at the end of the file.
    pub fn next_block(&mut self) -> Option<(u64, Block)> {
        loop {
            match self.filled.recv_timeout(STOP_CHECK) {
                Ok(Message::Block(block)) => {
                    self.taken += 1;
                    return Some((self.taken - 1, block));
                }
                Ok(Message::Damaged(error)) => {
                    self.damage = Some(error.to_string());
                    return None;
                }
                Err(RecvTimeoutError::Timeout) if !self.stopped.load(Ordering::Relaxed) => {}
                Err(_) => return None,
            }
        }
    }

    /// Give a block's memory back.
    pub fn recycle(&self, block: Block) {
        let _ = self.empty.try_send(block.bytes);
    }
}

/// Fill blocks and cut them between events, until the stream ends or nobody wants more.
fn inflate(
    mut reader: Box<dyn Read + Send>,
    block_bytes: usize,
    empty: &Receiver<Vec<u8>>,
    filled: &SyncSender<Message>,
) {
    // The beginning of an event at the end of the last block.
    let mut carried = Vec::new();
    let mut offset = 0;
    loop {
        let mut bytes = empty.try_recv().unwrap_or_default();
        bytes.resize(HEADROOM + block_bytes, 0);
        let start = HEADROOM - carried.len();
        bytes[start..HEADROOM].copy_from_slice(&carried);
        let (got, error) = fill(&mut *reader, &mut bytes[HEADROOM..]);
        let is_end = got < block_bytes;
        bytes.truncate(HEADROOM + got);
        let cut = if is_end { bytes.len() } else { last_event(&bytes, start) };
        carried.clear();
        carried.extend_from_slice(&bytes[cut..]);
        bytes.truncate(cut);
        let origin = offset - start as i64;
        offset += (cut - start) as i64;
        if cut > start && filled.send(Message::Block(Block { bytes, start, origin, wanted: 0 })).is_err() {
            return;
        }
        if let Some(error) = error {
            let _ = filled.send(Message::Damaged(error));
            return;
        }
        if is_end {
            return;
        }
    }
}

/// Where the last event of a block most likely begins: a brace behind `},`. The end of the block if none is near it.
fn last_event(bytes: &[u8], start: usize) -> usize {
    let near = bytes.len().saturating_sub(HEADROOM).max(start);
    let before = |mut at: usize| {
        while at > near && bytes[at - 1].is_ascii_whitespace() {
            at -= 1;
        }
        (at > near).then(|| (bytes[at - 1], at - 1))
    };
    let begins = |&at: &usize| {
        bytes[at] == b'{'
            && before(at).is_some_and(|(b, comma)| b == b',' && before(comma).is_some_and(|(b, _)| b == b'}'))
    };
    (near..bytes.len()).rev().find(begins).unwrap_or(bytes.len())
}

struct Opened {
    reader: Box<dyn Read + Send>,
    file_bytes: u64,
    is_plain: bool,
}

fn open(path: &Path) -> io::Result<Opened> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    let (reader, is_plain) = inflated(file)?;
    Ok(Opened { reader, file_bytes: metadata.len(), is_plain })
}

/// The text of a file, and whether the file is that text itself.
fn inflated(file: impl Read + Send + 'static) -> io::Result<(Box<dyn Read + Send>, bool)> {
    let mut buffered = BufReader::with_capacity(COMPRESSED_BUFFER, file);
    let magic = buffered.fill_buf()?;
    let is_gzip = magic.starts_with(&[0x1f, 0x8b]);
    let is_zstd = magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    let reader: Box<dyn Read + Send> = if is_gzip {
        Box::new(MultiGzDecoder::new(buffered))
    } else if is_zstd {
        Box::new(zstd::Decoder::with_buffer(buffered)?)
    } else {
        Box::new(buffered)
    };
    Ok((reader, !is_gzip && !is_zstd))
}

/// Fill `target` as far as the stream goes; the error, if any, comes after the bytes that were good.
fn fill(reader: &mut dyn Read, target: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut got = 0;
    while got < target.len() {
        match reader.read(&mut target[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (got, Some(error)),
        }
    }
    (got, None)
}

/// First and last bytes of the inflated file; without a tail, no more than the head is read.
///
/// A stream that is damaged gives what came before the damage.
pub fn ends(path: &Path, head_bytes: usize, tail_bytes: usize) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut opened = open(path)?;
    if !opened.is_plain || tail_bytes == 0 {
        return Ok(ends_of(&mut *opened.reader, head_bytes, tail_bytes));
    }
    let (head, _) = ends_of(&mut *opened.reader, head_bytes, 0);
    if head.len() < head_bytes {
        return Ok((head, Vec::new()));
    }
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(opened.file_bytes.saturating_sub(tail_bytes as u64)))?;
    let mut tail = Vec::new();
    file.take(tail_bytes as u64).read_to_end(&mut tail)?;
    Ok((head, tail))
}

/// The same of a file that comes from elsewhere than a disk.
pub fn ends_of_stream(
    file: impl Read + Send + 'static,
    head_bytes: usize,
    tail_bytes: usize,
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    Ok(ends_of(&mut *inflated(file)?.0, head_bytes, tail_bytes))
}

fn ends_of(reader: &mut dyn Read, head_bytes: usize, tail_bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let mut head = vec![0; head_bytes];
    let (mut got, mut error) = fill(reader, &mut head);
    head.truncate(got);
    if error.is_some() || got < head_bytes || tail_bytes == 0 {
        return (head, Vec::new());
    }
    let mut tail = head.clone();
    let mut text = vec![0; BLOCK_BYTES];
    loop {
        (got, error) = fill(reader, &mut text);
        tail.extend_from_slice(&text[..got]);
        tail.drain(..tail.len().saturating_sub(tail_bytes));
        if error.is_some() || got < text.len() {
            return (head, tail);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn text() -> Vec<u8> {
        (0..300_000u32).flat_map(|i| format!("{i},").into_bytes()).collect()
    }

    fn inflated(bytes: &[u8]) -> (Vec<u8>, Option<String>) {
        let file = written(bytes);
        let mut blocks = Blocks::open(file.path()).unwrap();
        let mut out = Vec::new();
        while let Some((_, block)) = blocks.next_block() {
            assert_eq!(block.offset(block.start), out.len() as u64);
            out.extend_from_slice(block.text());
            blocks.recycle(block);
        }
        (out, blocks.damage)
    }

    #[test]
    fn plain_gzip_of_many_members_and_zstd_give_the_same_text() {
        let text = text();
        let (a, b) = text.split_at(text.len() / 3);
        assert_eq!(inflated(&text), (text.clone(), None));
        assert_eq!(inflated(&[gzip(a), gzip(b)].concat()), (text.clone(), None));
        assert_eq!(inflated(&zstd::encode_all(&text[..], 1).unwrap()), (text.clone(), None));
    }

    #[test]
    fn a_stream_cut_off_gives_what_came_before() {
        let text = text();
        let whole = gzip(&text);
        let (got, damage) = inflated(&whole[..whole.len() / 2]);
        assert!(damage.is_some());
        assert!(got.len() > text.len() / 4 && text.starts_with(&got));
    }

    #[test]
    fn waiting_for_a_stream_that_stalls_can_be_ended() {
        let (_kept, stalled) = std::sync::mpsc::channel::<()>();
        struct Stalled(Receiver<()>);
        impl Read for Stalled {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                self.0.recv().map(|()| 0).map_err(io::Error::other)
            }
        }
        let mut blocks = Blocks::of(Box::new(Stalled(stalled)), 0, BLOCK_BYTES).unwrap();
        blocks.stopped.store(true, Ordering::Relaxed);
        assert!(blocks.next_block().is_none());
    }

    #[test]
    fn both_ends_are_the_same_however_it_is_packed() {
        let text = text();
        for bytes in [text.clone(), gzip(&text), zstd::encode_all(&text[..], 1).unwrap()] {
            let (head, tail) = ends(written(&bytes).path(), 100, 900_000).unwrap();
            assert_eq!(head, text[..100]);
            assert!(tail == text[text.len() - 900_000..]);
            assert!(ends_of_stream(io::Cursor::new(bytes), 100, 900_000).unwrap() == (head, tail));
        }
        assert_eq!(ends(written(b"short").path(), 100, 100).unwrap(), (b"short".to_vec(), Vec::new()));
    }
}
