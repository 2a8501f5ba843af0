//! Blocks of text to one store, scanned by several threads.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::io::blocks::{Block, Blocks};
use crate::memory::has_room;
use crate::trace_event::grammar::{Reader, State};
use crate::trace_event::host_work;
use crate::trace_event::lexer::Stop;
use crate::trace_event::options::Options;
use crate::trace_event::store::Store;
use crate::trace_event::window::Window;

const CANCEL_CHECK: Duration = Duration::from_millis(100);
/// One inflates at a time, and inflating is a third of the work, so more would wait for each other.
const MAX_SCANNERS: usize = 3;

/// Read a trace; `cancelled` is asked now and then whether to stop.
///
/// Blocks are scanned out of order, each as if it held whole events and nothing else, which nearly all do. Their stores
/// are then joined in order, and a block that was otherwise is read again, in its place.
pub fn read(blocks: Blocks, options: &Options, cancelled: &mut dyn FnMut() -> bool) -> Result<Store> {
    let (_reading, scanners) = Reading::begin();
    let stopped = blocks.stopped.clone();
    let (blocks, joined) = (Mutex::new(blocks), Mutex::new(Joined::new(options)));
    // Nothing is sent; it ends with the last scanner.
    let (running, ended) = channel::<Infallible>();
    thread::scope(|scope| {
        for _ in 0..scanners {
            let (blocks, joined, stopped, running) = (&blocks, &joined, &*stopped, running.clone());
            let work = move || {
                scan(blocks, joined, options, stopped);
                drop(running);
            };
            thread::Builder::new().name("holotrace-scan".into()).spawn_scoped(scope, work)?;
        }
        drop(running);
        while ended.recv_timeout(CANCEL_CHECK) == Err(RecvTimeoutError::Timeout) {
            if cancelled() {
                stopped.store(true, Ordering::Relaxed);
                return Err(Error::Cancelled);
            }
        }
        Ok(())
    })?;
    match (blocks.into_inner(), joined.into_inner()) {
        (Ok(blocks), Ok(joined)) => joined.finish(&blocks, options),
        _ => Err(Error::Defect("a scanner panicked".into())),
    }
}

/// One of the files that this process reads at the same time.
struct Reading;

/// How many there are.
static READINGS: AtomicUsize = AtomicUsize::new(0);

impl Reading {
    /// Another one, and how many threads shall scan it: its share of the cores, as what one thread reads alone takes a
    /// seventh less of their time than what several do.
    fn begin() -> (Self, usize) {
        let others = READINGS.fetch_add(1, Ordering::Relaxed);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        (Self, (cores / (others + 1)).clamp(1, MAX_SCANNERS))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        READINGS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A block, and what was found in it alone.
struct Scanned {
    block: Block,
    store: Store,
    alone: Option<Alone>,
}

/// That a block was one of whole events, and what is to be known of them beside their store.
struct Alone {
    recognised: u64,
    after_entry: bool,
}

/// Inflate and scan block after block, and join what is next in order.
///
/// Handing blocks to another thread, for either, takes longer than it saves: a block stays in the cache of its core.
fn scan(blocks: &Mutex<Blocks>, joined: &Mutex<Joined>, options: &Options, stopped: &AtomicBool) {
    let mut reader = Reader::new(options, State::Events);
    let (mut spare, mut empty) = (Block::default(), None);
    while !stopped.load(Ordering::Relaxed) {
        if let Err(error) = has_room(0) {
            let Ok(mut joined) = joined.lock() else { return };
            joined.error.get_or_insert(error);
            return;
        }
        // A lock is poisoned where a scanner panicked; the others need not go on.
        let Ok(mut guard) = blocks.lock() else { return };
        let Some((number, block)) = guard.next_block(spare) else { return };
        drop(guard);
        let alone = scan_alone(&mut reader, &block);
        let store = reader.sink.take_store(empty.unwrap_or_else(|| Store::new(&options.args)));
        let Ok(mut joined) = joined.lock() else { return };
        joined.take(number, Scanned { block, store, alone });
        if joined.error.is_some() {
            return;
        }
        spare = joined.used.pop().unwrap_or_default();
        empty = joined.emptied.pop();
    }
}

fn scan_alone(reader: &mut Reader, block: &Block) -> Option<Alone> {
    reader.begin_among_events();
    let mut at = block.start;
    let stop = reader.advance(&block.bytes, &mut at, block.origin);
    let is_whole = stop == Err(Stop::More)
        && reader.stayed_among_events()
        && block.bytes[at..].iter().all(u8::is_ascii_whitespace)
        && !reader.sink.needs_others;
    is_whole.then_some(Alone { recognised: reader.sink.recognised, after_entry: reader.after_entry })
}

/// What blocks gave, put together in order.
struct Joined {
    reader: Reader,
    window: Window,
    /// Blocks that came before their turn.
    early: BTreeMap<u64, Scanned>,
    next: u64,
    /// Blocks that are done with, and stores whose rows were taken out, for their memory.
    used: Vec<Block>,
    emptied: Vec<Store>,
    error: Option<Error>,
}

impl Joined {
    fn new(options: &Options) -> Self {
        Self {
            reader: Reader::new(options, State::Start),
            window: Window::default(),
            early: BTreeMap::new(),
            next: 0,
            used: Vec::new(),
            emptied: Vec::new(),
            error: None,
        }
    }

    /// Take a block in, and those that waited for it.
    fn take(&mut self, number: u64, scanned: Scanned) {
        self.early.insert(number, scanned);
        while let Some(scanned) = self.early.remove(&self.next) {
            self.next += 1;
            match take_in(&mut self.window, &mut self.reader, scanned) {
                Ok((block, store)) => {
                    self.used.push(block);
                    self.emptied.extend(store);
                }
                Err(error) => {
                    self.error = Some(error);
                    return;
                }
            }
        }
    }

    /// All that was read, once no block is to come.
    fn finish(mut self, blocks: &Blocks, options: &Options) -> Result<Store> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.window.wanted = 0;
        self.reader.is_last = true;
        self.window.read(&mut self.reader)?;
        self.reader.finish(&self.window.block.bytes[self.window.at..], self.window.end(), blocks.damage.as_deref())?;
        let mut store = self.reader.sink.store;
        store.counts.text_bytes = self.window.text_bytes;
        store.counts.file_bytes = blocks.file_bytes;
        host_work::add(&mut store, options)?;
        Ok(store)
    }
}

/// Take the next block in, by its store if that may stand for its text; returns a block that is done with, and the
/// store if its rows were taken out.
fn take_in(window: &mut Window, reader: &mut Reader, scanned: Scanned) -> Result<(Block, Option<Store>)> {
    let Scanned { block, mut store, alone } = scanned;
    window.text_bytes += block.text().len() as u64;
    let is_between_events = reader.state == State::Events
        && !reader.after_entry
        && window.block.bytes[window.at..].iter().all(u8::is_ascii_whitespace);
    if let Some(alone) = alone.filter(|_| is_between_events) {
        reader.sink.store.append(&mut store)?;
        reader.sink.recognised += alone.recognised;
        reader.after_entry = alone.after_entry;
        (window.at, window.wanted) = (block.bytes.len(), 0);
        return Ok((std::mem::replace(&mut window.block, block), Some(store)));
    }
    let used = window.append(block);
    window.read(reader)?;
    Ok((used, None))
}
