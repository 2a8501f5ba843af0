//! Bytes of a file, inflated in blocks.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use flate2::bufread::MultiGzDecoder;

use crate::io::read_ahead::Ahead;

/// Large enough that a block's own dictionaries do not weigh, small enough for the cache; see benchmarks/README.md.
pub const BLOCK_BYTES: usize = 512 << 10;
/// Free bytes before each block's text, so that the end of the last one can be put in front without moving the block.
const HEADROOM: usize = 64 << 10;
const COMPRESSED_BUFFER: usize = 256 << 10;

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

/// The inflated bytes of one file, in order; whoever asks for a block fills it.
pub struct Blocks {
    reader: Box<dyn Read + Send>,
    block_bytes: usize,
    /// The beginning of an event at the end of the last block.
    carried: Vec<u8>,
    offset: u64,
    taken: u64,
    is_at_end: bool,
    pub file_bytes: u64,
    /// Why the stream ended before its end, once it has; what came before it is whole.
    pub damage: Option<String>,
    /// Set from elsewhere, it ends the reading of what is slow to come.
    pub stopped: Arc<AtomicBool>,
}

impl Blocks {
    pub fn open(path: &Path) -> io::Result<Self> {
        let Opened { reader, file_bytes, .. } = open(path)?;
        Ok(Self::of(reader, file_bytes, BLOCK_BYTES))
    }

    /// A file of a size that comes from elsewhere than a disk, inflated as it arrives.
    pub fn stream(file: impl Read + Send + 'static, file_bytes: u64) -> io::Result<Self> {
        let stopped = Arc::default();
        let (reader, _) = inflated(Ahead::of(file, &stopped)?)?;
        Ok(Self { stopped, ..Self::of(reader, file_bytes, BLOCK_BYTES) })
    }

    /// Text from any reader, in blocks of a size.
    pub fn of(reader: Box<dyn Read + Send>, file_bytes: u64, block_bytes: usize) -> Self {
        Self {
            reader,
            block_bytes,
            carried: Vec::new(),
            offset: 0,
            taken: 0,
            is_at_end: false,
            file_bytes,
            damage: None,
            stopped: Arc::default(),
        }
    }

    /// The next block and its number, or `None` at the end of the file; a block that is done with lends its memory.
    pub fn next_block(&mut self, used: Block) -> Option<(u64, Block)> {
        if self.is_at_end {
            return None;
        }
        let block = self.fill(used.bytes);
        self.taken += 1;
        (!block.text().is_empty()).then_some((self.taken - 1, block))
    }

    /// Fill a block and cut it between two events.
    fn fill(&mut self, mut bytes: Vec<u8>) -> Block {
        bytes.resize(HEADROOM + self.block_bytes, 0);
        let start = HEADROOM - self.carried.len();
        bytes[start..HEADROOM].copy_from_slice(&self.carried);
        let (got, error) = fill(&mut *self.reader, &mut bytes[HEADROOM..]);
        self.is_at_end = got < self.block_bytes;
        self.damage = error.map(|error| error.to_string());
        bytes.truncate(HEADROOM + got);
        let cut = if self.is_at_end { bytes.len() } else { last_event(&bytes, start) };
        self.carried.clear();
        self.carried.extend_from_slice(&bytes[cut..]);
        bytes.truncate(cut);
        let origin = self.offset as i64 - start as i64;
        self.offset += (cut - start) as u64;
        Block { bytes, start, origin, wanted: 0 }
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
        let (mut out, mut block) = (Vec::new(), Block::default());
        while let Some((_, next)) = blocks.next_block(block) {
            block = next;
            assert_eq!(block.offset(block.start), out.len() as u64);
            out.extend_from_slice(block.text());
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
