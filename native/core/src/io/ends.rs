//! The first and the last bytes of a file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::io::inflate::{fill, inflated, open};

/// Looked through at once for the end.
const STEP_BYTES: usize = 512 << 10;

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
    let mut text = vec![0; STEP_BYTES];
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
    use super::*;
    use crate::io::inflate::examples::{gzip, text, written};

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
