//! Work on many pieces of a file by several threads, its results in their order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::xplane::damage::explained;
use crate::xplane::protobuf::{Source, Stop, WINDOW_BYTES, Window};

const CANCEL_CHECK: Duration = Duration::from_millis(100);

/// Hand the result of `work` for each task to `take`, in their order; as many threads work as there are CPUs.
pub fn each<K: Sync, T: Send>(
    source: &Source,
    tasks: &[K],
    cancelled: &mut dyn FnMut() -> bool,
    work: impl Fn(&mut Window<'_>, &K, usize) -> std::result::Result<T, Stop> + Sync,
    mut take: impl FnMut(T),
) -> Result<()> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(tasks.len());
    let (next, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, results) = channel();
    let mut taken = 0;
    thread::scope(|scope| -> Result<()> {
        for _ in 0..workers {
            let (next, stopped, work, sender) = (&next, &stopped, &work, sender.clone());
            thread::Builder::new().name("holotrace-decode".into()).spawn_scoped(scope, move || {
                let mut window = Window::new(source, WINDOW_BYTES);
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(at) else { return };
                    let outcome = work(&mut window, task, at);
                    if sender.send((at, outcome)).is_err() || stopped.load(Ordering::Relaxed) {
                        return;
                    }
                }
            })?;
        }
        drop(sender);
        let outcome = collect(source, &results, cancelled, |result| {
            taken += 1;
            take(result);
        });
        stopped.store(true, Ordering::Relaxed);
        outcome
    })?;
    if taken < tasks.len() {
        return Err(Error::Defect("a decoder panicked".into()));
    }
    Ok(())
}

/// Hand over what arrives in order, until all has arrived: each is let go as soon as the ones before it have come.
fn collect<T>(
    source: &Source,
    results: &Receiver<(usize, std::result::Result<T, Stop>)>,
    cancelled: &mut dyn FnMut() -> bool,
    mut take: impl FnMut(T),
) -> Result<()> {
    let mut early = BTreeMap::new();
    let mut next = 0;
    loop {
        match results.recv_timeout(CANCEL_CHECK) {
            Ok((at, outcome)) => drop(early.insert(at, outcome.map_err(|stop| explained(source, stop))?)),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) if cancelled() => return Err(Error::Cancelled),
            Err(RecvTimeoutError::Timeout) => {}
        }
        while let Some(result) = early.remove(&next) {
            take(result);
            next += 1;
        }
    }
}
