//! The text of a file, however it is packed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

const COMPRESSED_BUFFER: usize = 256 << 10;

pub struct Opened {
    pub reader: Box<dyn Read + Send>,
    pub file_bytes: u64,
    pub is_plain: bool,
}

pub fn open(path: &Path) -> io::Result<Opened> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    let (reader, is_plain) = inflated(file)?;
    Ok(Opened { reader, file_bytes: metadata.len(), is_plain })
}

/// The text of a file, and whether the file is that text itself.
pub fn inflated(file: impl Read + Send + 'static) -> io::Result<(Box<dyn Read + Send>, bool)> {
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
pub fn fill(reader: &mut dyn Read, target: &mut [u8]) -> (usize, Option<io::Error>) {
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

#[cfg(test)]
pub mod examples {
    //! Files to read in tests.

    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    pub fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    pub fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    pub fn text() -> Vec<u8> {
        (0..300_000u32).flat_map(|i| format!("{i},").into_bytes()).collect()
    }
}
