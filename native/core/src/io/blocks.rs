//! Bytes of a file, inflated in blocks.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::io::inflate::{Opened, fill, inflated, open};
use crate::io::read_ahead::ReadAhead;

/// Large enough that a block's own dictionaries do not weigh, small enough for the cache; see benchmarks/README.md.
pub const BLOCK_BYTES: usize = 512 << 10;

/// Free bytes before each block's text, so that the end of the last one can be put in front without moving the block.
const HEADROOM: usize = 64 << 10;

/// A piece of the text, most often cut between two events.
#[derive(Default)]
pub struct Block {
    pub bytes: Vec<u8>,
    /// Where its text begins; what is before is free.
    pub start: usize,
    /// Offset in the text of the first of `bytes`: negative where that is free space before the text.
    pub origin: i64,
}

impl Block {
    pub fn text(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The offset in the text of a position in `bytes`.
    pub fn offset(&self, at: usize) -> u64 {
        offset(self.origin, at)
    }
}

/// The offset in the text of a position in bytes of which the first stands at `origin`.
pub fn offset(origin: i64, at: usize) -> u64 {
    (origin + at as i64).max(0) as u64
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
        let (reader, _) = inflated(ReadAhead::of(file, &stopped)?)?;
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
        Block { bytes, start, origin }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::inflate::examples::{gzip, text, written};

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
}
