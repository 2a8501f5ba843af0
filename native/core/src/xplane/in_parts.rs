//! Work on many items by several threads, its results in their order.

use std::thread;

use crate::error::{Error, Result};

/// Items from which on it takes less time to work in threads than to start these.
const MANY: usize = 100_000;

/// What `work` makes of the items, which it gets in as many parts as there are CPUs.
pub fn in_parts<T: Sync, R: Send>(items: &[T], work: impl Fn(&[T]) -> Vec<R> + Sync) -> Result<Vec<R>> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    if items.len() < MANY || workers < 2 {
        return Ok(work(items));
    }
    let work = &work;
    thread::scope(|scope| {
        let mut parts = items.chunks(items.len().div_ceil(workers));
        let first = parts.next().unwrap_or_default();
        let others: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        let mut found = work(first);
        for other in others {
            found.extend(other.join().map_err(|_| Error::Defect("a part of the work panicked".into()))?);
        }
        Ok(found)
    })
}
