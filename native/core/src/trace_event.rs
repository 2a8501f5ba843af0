//! Trace-event JSON: blocks of text to one store, scanned by several threads.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::input::{Block, Blocks};
use crate::kineto::Table;
use crate::problems::Problem;
use crate::reader::{Reader, State};
use crate::scan::Stop;
use crate::store::Store;
use crate::table::ArgType;

/// One entry larger than this is left out: nothing a profiler writes, and it would have to be held whole.
const MAX_ENTRY_BYTES: usize = 64 << 20;
pub(crate) const CANCEL_CHECK: Duration = Duration::from_millis(100);
/// Inflating is one thread and three times as fast as scanning, so more would wait for it.
const MAX_SCANNERS: usize = 3;

/// What to keep of a file.
#[derive(Clone)]
pub struct Options {
    pub tables: Vec<Table>,
    pub args: Vec<(String, ArgType)>,
}

/// Read a trace; `cancelled` is asked now and then whether to stop.
///
/// Blocks are scanned out of order, each as if it held whole events and nothing else, which nearly all do. Their stores
/// are then joined in order, and a block that was otherwise is read again, in its place.
pub fn read(blocks: Blocks, options: &Options, cancelled: &mut dyn FnMut() -> bool) -> Result<Store> {
    let scanners = thread::available_parallelism().map_or(1, usize::from).min(MAX_SCANNERS);
    let blocks = Mutex::new(blocks);
    let (sender, results) = channel();
    thread::scope(|scope| {
        for _ in 0..scanners {
            let (blocks, sender) = (&blocks, sender.clone());
            thread::Builder::new()
                .name("holotrace-scan".into())
                .spawn_scoped(scope, move || scan(blocks, options, &sender))?;
        }
        drop(sender);
        let joined = join(&results, &blocks, options, cancelled);
        // Scanners stop at the next block when nobody listens.
        drop(results);
        joined
    })
}

/// A block, where it stands among the others, and what was found in it alone.
struct Scanned {
    number: u64,
    block: Block,
    alone: Option<Alone>,
}

/// What a block of whole events gave.
struct Alone {
    store: Store,
    recognised: u64,
    after_entry: bool,
}

fn scan(blocks: &Mutex<Blocks>, options: &Options, sender: &Sender<Scanned>) {
    let mut reader = Reader::new(options, State::Events);
    loop {
        // A scanner that panicked holds no lock: it only waits for blocks under it.
        let Ok(mut guard) = blocks.lock() else { return };
        let Some((number, block)) = guard.next_block() else { return };
        drop(guard);
        let alone = scan_alone(&mut reader, &block, options);
        if sender.send(Scanned { number, block, alone }).is_err() {
            return;
        }
    }
}

fn scan_alone(reader: &mut Reader, block: &Block, options: &Options) -> Option<Alone> {
    reader.begin_among_events();
    let mut at = block.start;
    let stop = reader.advance(&block.bytes, &mut at, block.origin);
    let recognised = reader.taker.recognised;
    let needs_others = reader.taker.needs_others;
    let store = reader.taker.take_store(options);
    let is_whole = stop == Err(Stop::More)
        && reader.stayed_among_events()
        && block.bytes[at..].iter().all(u8::is_ascii_whitespace)
        && !needs_others;
    is_whole.then_some(Alone { store, recognised, after_entry: reader.after_entry })
}

/// Put the blocks' stores together, in order.
fn join(
    results: &Receiver<Scanned>,
    blocks: &Mutex<Blocks>,
    options: &Options,
    cancelled: &mut dyn FnMut() -> bool,
) -> Result<Store> {
    let mut reader = Reader::new(options, State::Start);
    let mut window = Window::default();
    let mut early = BTreeMap::new();
    let mut next = 0;
    let mut last_check = Instant::now();
    loop {
        match results.recv_timeout(CANCEL_CHECK) {
            Ok(scanned) => drop(early.insert(scanned.number, scanned)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if last_check.elapsed() >= CANCEL_CHECK {
            if cancelled() {
                return Err(Error::Cancelled);
            }
            last_check = Instant::now();
        }
        while let Some(scanned) = early.remove(&next) {
            next += 1;
            let used = window.take(&mut reader, scanned)?;
            if let Ok(blocks) = blocks.lock() {
                blocks.recycle(used);
            }
        }
    }
    let blocks = blocks.lock().map_err(|_| Error::Defect("a scanner panicked".into()))?;
    if !early.is_empty() {
        return Err(Error::Defect("a scanner panicked".into()));
    }
    window.block.wanted = 0;
    window.read(&mut reader)?;
    let end = window.block.offset(window.block.bytes.len());
    reader.finish(&window.block.bytes[window.at..], end, blocks.damage.as_deref())?;
    let mut store = reader.taker.store;
    store.counts.text_bytes = window.text_bytes;
    store.counts.file_bytes = blocks.file_bytes;
    Ok(store)
}

/// The text being read in order: a block, with what was left of the ones before it in front.
#[derive(Default)]
pub(crate) struct Window {
    pub(crate) block: Block,
    /// Where unread text begins.
    pub(crate) at: usize,
    text_bytes: u64,
}

impl Window {
    /// Take the next block in, by its store if it may stand for its text; returns a block that is done with.
    fn take(&mut self, reader: &mut Reader, scanned: Scanned) -> Result<Block> {
        let Scanned { block, alone, .. } = scanned;
        self.text_bytes += block.text().len() as u64;
        let is_between_events = reader.state == State::Events
            && !reader.after_entry
            && self.block.bytes[self.at..].iter().all(u8::is_ascii_whitespace);
        if let Some(alone) = alone.filter(|_| is_between_events) {
            reader.taker.store.append(alone.store);
            reader.taker.recognised += alone.recognised;
            reader.after_entry = alone.after_entry;
            self.at = block.bytes.len();
            return Ok(std::mem::replace(&mut self.block, block));
        }
        let used = self.append(block);
        self.read(reader)?;
        Ok(used)
    }

    /// Read what is there.
    pub(crate) fn read(&mut self, reader: &mut Reader) -> Result<()> {
        // An entry that spans many blocks is read anew only each time it has doubled.
        if self.pending() < self.block.wanted {
            return Ok(());
        }
        loop {
            match reader.advance(&self.block.bytes, &mut self.at, self.block.origin) {
                Err(Stop::Bad(bad)) => reader.recover(&self.block.bytes, &mut self.at, bad, self.block.origin)?,
                Err(Stop::More) if self.pending() > MAX_ENTRY_BYTES => {
                    reader.leave_out(Problem::TooLarge, &self.block.bytes, &mut self.at, self.block.origin);
                }
                _ => break,
            }
        }
        self.block.wanted = self.pending() * 2;
        Ok(())
    }

    fn pending(&self) -> usize {
        self.block.bytes.len() - self.at
    }

    /// Put `next` behind what is unread; returns the block that is no longer needed.
    pub(crate) fn append(&mut self, mut next: Block) -> Block {
        let rest = self.pending();
        if rest <= next.start {
            let at = next.start - rest;
            next.bytes[at..next.start].copy_from_slice(&self.block.bytes[self.at..]);
            next.start = at;
            next.wanted = self.block.wanted;
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
