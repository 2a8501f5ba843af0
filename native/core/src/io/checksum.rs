//! What tells a file from one that was damaged.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::Crc;

const STEP_BYTES: usize = 1 << 20;

/// CRC-32 of bytes, as gzip and Parquet have it.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// CRC-32 of a whole file.
pub fn checksum(path: &Path) -> io::Result<u32> {
    let (mut file, mut crc) = (File::open(path)?, Crc::new());
    let mut bytes = vec![0; STEP_BYTES];
    loop {
        match file.read(&mut bytes) {
            Ok(0) => return Ok(crc.sum()),
            Ok(count) => crc.update(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::inflate::examples::{text, written};

    #[test]
    fn a_file_has_the_checksum_of_its_bytes() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let text = text();
        assert!(text.len() > STEP_BYTES);
        assert_eq!(checksum(written(&text).path()).unwrap(), crc32(&text));
    }
}
