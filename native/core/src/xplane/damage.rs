//! What most likely happened to a file that is no profile any more.

use crate::error::Error;
use crate::xplane::protobuf::{LONGER, Source, Stop};

const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// The error a damaged file ends in, with what most likely happened to it.
pub fn explained(source: &Source, stop: Stop) -> Error {
    let malformed = match stop {
        Stop::Io(error) => return error.into(),
        Stop::Malformed(malformed) => malformed,
    };
    let cause = if is_mangled(source) {
        "; it has passed through a text tool, which replaced bytes that are no UTF-8"
    } else if malformed.reason == LONGER {
        "; it is cut off or damaged"
    } else {
        ""
    };
    Error::NotASpace { offset: malformed.offset, reason: format!("{}{cause}", malformed.reason) }
}

/// Whether bytes that are no UTF-8 were replaced, so that hardly a number is what it was.
pub fn is_mangled(source: &Source) -> bool {
    let mut head = vec![0; source.len().min(1 << 20) as usize];
    if source.read_exact_at(&mut head, 0).is_err() {
        head.clear();
    }
    head.windows(REPLACEMENT.len()).filter(|bytes| *bytes == REPLACEMENT).count() > 8
}
