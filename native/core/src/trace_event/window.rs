//! The text of a trace, read in order and in one thread.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::io::blocks::{Block, Blocks};
use crate::memory::has_room;
use crate::problems::Problem;
use crate::trace_event::grammar::Reader;
use crate::trace_event::lexer::Stop;
use crate::trace_event::observer::Observer;

/// One entry larger than this is left out: nothing a profiler writes, and it would have to be held whole.
const MAX_ENTRY_BYTES: usize = 64 << 20;
const CANCEL_CHECK: Duration = Duration::from_millis(100);

/// Read a trace in order and in one thread: returns what is left over.
pub fn read_in_order<O: Observer>(
    blocks: &mut Blocks,
    reader: &mut Reader<O>,
    cancelled: &mut dyn FnMut() -> bool,
) -> Result<Window> {
    let mut window = Window::default();
    let mut last_check = Instant::now();
    let mut used = Block::default();
    while let Some((_, block)) = blocks.next_block(used) {
        used = window.append(block);
        window.read(reader)?;
        if last_check.elapsed() >= CANCEL_CHECK {
            if cancelled() {
                return Err(Error::Cancelled);
            }
            last_check = Instant::now();
        }
    }
    window.wanted = 0;
    reader.is_last = true;
    window.read(reader)?;
    reader.finish(&window.block.bytes[window.at..], window.end(), blocks.damage.as_deref())?;
    Ok(window)
}

/// The text being read in order: a block, with what was left of the ones before it in front.
#[derive(Default)]
pub struct Window {
    pub block: Block,
    /// Where unread text begins.
    pub at: usize,
    /// How much unread text there must be before it is worth looking at again.
    pub wanted: usize,
    pub text_bytes: u64,
}

impl Window {
    /// Read what is there.
    pub fn read<O: Observer>(&mut self, reader: &mut Reader<O>) -> Result<()> {
        // An entry that spans many blocks is read anew only each time it has doubled.
        if self.pending() < self.wanted {
            return Ok(());
        }
        has_room(0)?;
        reader.observer.window_begins(self.at);
        loop {
            match reader.advance(&self.block.bytes, &mut self.at, self.block.origin) {
                Err(Stop::Bad(bad)) => reader.recover(&self.block.bytes, &mut self.at, bad, self.block.origin)?,
                Err(Stop::More) if self.pending() > MAX_ENTRY_BYTES => {
                    reader.leave_out(Problem::TooLarge, &self.block.bytes, &mut self.at, self.block.origin);
                }
                _ => break,
            }
        }
        self.wanted = self.pending() * 2;
        reader.check_numbers()?;
        reader.observer.window_ends(&self.block.bytes, self.at)
    }

    /// The offset of the end of what was taken in.
    pub fn end(&self) -> u64 {
        self.block.offset(self.block.bytes.len())
    }

    pub fn pending(&self) -> usize {
        self.block.bytes.len() - self.at
    }

    /// Put `next` behind what is unread; returns the block that is no longer needed.
    pub fn append(&mut self, mut next: Block) -> Block {
        let rest = self.pending();
        if rest <= next.start {
            let at = next.start - rest;
            next.bytes[at..next.start].copy_from_slice(&self.block.bytes[self.at..]);
            next.start = at;
            self.at = at;
            return std::mem::replace(&mut self.block, next);
        }
        let origin = self.block.origin + self.at as i64;
        self.block.bytes.drain(..self.at);
        self.block.bytes.extend_from_slice(next.text());
        self.block.origin = origin;
        self.at = 0;
        next
    }
}
