//! Bytes of a file, inflated on their own thread and handed over in blocks.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use flate2::bufread::MultiGzDecoder;

/// Small enough that inflating and scanning meet in the cache; see benchmarks/README.md.
pub const BLOCK_BYTES: usize = 512 << 10;
/// Free bytes before each block's text, so that the end of the last one can be put in front without moving the block.
pub const HEADROOM: usize = 64 << 10;
/// Blocks under way between the two threads.
const BLOCKS_AHEAD: usize = 3;
const COMPRESSED_BUFFER: usize = 256 << 10;

/// A block: text from `HEADROOM` on.
pub type Block = Vec<u8>;

enum Message {
    Block(Block),
    /// The stream ended early; what came before it is whole.
    Damaged(io::Error),
}

/// The inflated bytes of one file, in order.
pub struct Blocks {
    filled: Receiver<Message>,
    empty: SyncSender<Block>,
    pub file_bytes: u64,
    /// Why the stream ended before its end, once it has.
    pub damage: Option<String>,
}

impl Blocks {
    pub fn open(path: &Path) -> io::Result<Self> {
        let Opened { reader, file_bytes, .. } = open(path)?;
        Self::of(reader, file_bytes, BLOCK_BYTES)
    }

    /// Text from any reader, in blocks of a size.
    pub fn of(mut reader: Box<dyn Read + Send>, file_bytes: u64, block_bytes: usize) -> io::Result<Self> {
        let (to_scanner, filled) = sync_channel(BLOCKS_AHEAD);
        let (empty, to_inflater) = sync_channel::<Block>(BLOCKS_AHEAD + 2);
        thread::Builder::new().name("holotrace-inflate".into()).spawn(move || {
            loop {
                let mut block = to_inflater.try_recv().unwrap_or_default();
                block.resize(HEADROOM + block_bytes, 0);
                let (got, error) = fill(&mut *reader, &mut block[HEADROOM..]);
                block.truncate(HEADROOM + got);
                // A scanner that has gone away needs no more blocks.
                if got > 0 && to_scanner.send(Message::Block(block)).is_err() {
                    return;
                }
                if let Some(error) = error {
                    let _ = to_scanner.send(Message::Damaged(error));
                    return;
                }
                if got < block_bytes {
                    return;
                }
            }
        })?;
        Ok(Self { filled, empty, file_bytes, damage: None })
    }

    /// The next block, or `None` at the end of the file.
    pub fn next(&mut self) -> Option<Block> {
        match self.filled.recv() {
            Ok(Message::Block(block)) => Some(block),
            Ok(Message::Damaged(error)) => {
                self.damage = Some(error.to_string());
                None
            }
            Err(_) => None,
        }
    }

    /// Give a block's memory back.
    pub fn recycle(&self, block: Block) {
        let _ = self.empty.try_send(block);
    }
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
    Ok(Opened { reader, file_bytes: metadata.len(), is_plain: !is_gzip && !is_zstd })
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
    let mut head = vec![0; head_bytes];
    let (got, error) = fill(&mut *opened.reader, &mut head);
    head.truncate(got);
    if error.is_some() || got < head_bytes || tail_bytes == 0 {
        return Ok((head, Vec::new()));
    }
    if opened.is_plain {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(opened.file_bytes.saturating_sub(tail_bytes as u64)))?;
        let mut tail = Vec::new();
        file.take(tail_bytes as u64).read_to_end(&mut tail)?;
        return Ok((head, tail));
    }
    drop(opened);
    let mut tail = Vec::new();
    let mut blocks = Blocks::open(path)?;
    while let Some(block) = blocks.next() {
        let text = &block[HEADROOM..];
        let keep = tail_bytes.saturating_sub(text.len()).min(tail.len());
        tail.drain(..tail.len() - keep);
        tail.extend_from_slice(&text[text.len().saturating_sub(tail_bytes)..]);
        blocks.recycle(block);
    }
    Ok((head, tail))
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
        while let Some(block) = blocks.next() {
            out.extend_from_slice(&block[HEADROOM..]);
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
    fn both_ends_are_the_same_however_it_is_packed() {
        let text = text();
        for bytes in [text.clone(), gzip(&text), zstd::encode_all(&text[..], 1).unwrap()] {
            let (head, tail) = ends(written(&bytes).path(), 100, 900_000).unwrap();
            assert_eq!(head, text[..100]);
            assert!(tail == text[text.len() - 900_000..]);
        }
        assert_eq!(ends(written(b"short").path(), 100, 100).unwrap(), (b"short".to_vec(), Vec::new()));
    }
}
