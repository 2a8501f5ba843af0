//! Bytes that are slow to come, fetched by a thread of their own while others work.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

const PIECE_BYTES: usize = 256 << 10;
/// Pieces fetched before they are wanted.
const PIECES: usize = 4;
/// How often one that waits for bytes looks whether anybody still wants them.
const STOP_CHECK: Duration = Duration::from_millis(100);

pub struct ReadAhead {
    fetched: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    /// How much of the piece was read.
    read: usize,
    stopped: Arc<AtomicBool>,
}

impl ReadAhead {
    /// What `source` gives; once `stopped`, an error.
    pub fn of(source: impl Read + Send + 'static, stopped: &Arc<AtomicBool>) -> io::Result<Self> {
        let (sender, fetched) = sync_channel(PIECES);
        thread::Builder::new().name("holotrace-fetch".into()).spawn(move || fetch(source, &sender))?;
        Ok(Self { fetched, piece: Vec::new(), read: 0, stopped: stopped.clone() })
    }
}

impl Read for ReadAhead {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        while self.read == self.piece.len() {
            match self.fetched.recv_timeout(STOP_CHECK) {
                Ok(piece) => (self.piece, self.read) = (piece?, 0),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
                Err(RecvTimeoutError::Timeout) if self.stopped.load(Ordering::Relaxed) => {
                    return Err(io::Error::other("stopped"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        let count = (&self.piece[self.read..]).read(target)?;
        self.read += count;
        Ok(count)
    }
}

/// Fetch piece after piece, until the source ends or nobody wants more.
fn fetch(mut source: impl Read, sender: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let got = source.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece);
        if (!piece.is_empty() && sender.send(Ok(piece)).is_err()) || got.as_ref().is_ok_and(|&count| count == 0) {
            return;
        }
        if let Err(error) = got {
            let _ = sender.send(Err(error));
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its pieces one by one, then fails or blocks for good.
    struct Slow(Vec<&'static [u8]>, bool);

    impl Read for Slow {
        fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
            match self.0.pop() {
                Some(mut piece) => piece.read(target),
                None if self.1 => Err(io::Error::other("gone")),
                None => loop {
                    thread::park();
                },
            }
        }
    }

    #[test]
    fn all_bytes_come_in_order_whatever_the_pieces() {
        let bytes: Vec<u8> = (0..PIECE_BYTES * 3 + 7).map(|i| i as u8).collect();
        let mut got = Vec::new();
        ReadAhead::of(io::Cursor::new(bytes.clone()), &Arc::default()).unwrap().read_to_end(&mut got).unwrap();
        assert!(got == bytes);
    }

    #[test]
    fn what_came_before_an_error_is_read_first() {
        let mut ahead = ReadAhead::of(Slow(vec![b"b", b"a"], true), &Arc::default()).unwrap();
        let mut got = Vec::new();
        assert_eq!(ahead.read_to_end(&mut got).unwrap_err().to_string(), "gone");
        assert_eq!(got, b"ab");
    }

    #[test]
    fn waiting_ends_when_nobody_wants_more() {
        let stopped = Arc::new(AtomicBool::new(true));
        let error = ReadAhead::of(Slow(vec![], false), &stopped).unwrap().read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.to_string(), "stopped");
    }
}
