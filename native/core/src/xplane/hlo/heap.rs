//! What of an allocation is in use when most of it is, by the compiler's own simulation of it.

use std::collections::HashMap;

use crate::xplane::hlo::messages::messages;
use crate::xplane::protobuf::{Fields, Malformed, Value};
use crate::xplane::schema::{heap_event, heap_simulator_trace};

const FREE: u64 = 1;
const SHARE: u64 = 2;

/// Buffers of one allocation, in the order in which the program takes and leaves them.
#[derive(Default)]
pub struct Heap {
    /// Numbers of the events that take and leave memory, by the buffer that it was taken for; a loop may take it again.
    pub spans: HashMap<i64, Vec<(i64, Option<i64>)>>,
    /// The event after which most is in use, and how much that is.
    pub peak: Option<(i64, i64)>,
}

impl Heap {
    /// Whether a buffer holds memory at the peak.
    pub fn holds(&self, buffer: i64) -> bool {
        let (Some((at, _)), Some(spans)) = (self.peak, self.spans.get(&buffer)) else { return false };
        spans.iter().any(|&(first, last)| first <= at && last.is_none_or(|last| at < last))
    }

    /// Numbers of the first event that takes memory for a buffer, and of the last that leaves it.
    pub fn span(&self, buffer: i64) -> (Option<i64>, Option<i64>) {
        let spans = self.spans.get(&buffer);
        let ends = spans.and_then(|spans| Some((spans.first()?.0, spans.last()?.1)));
        (ends.map(|ends| ends.0), ends.and_then(|ends| ends.1))
    }

    /// Walk the events of one trace, each `(kind, buffer, shared)`.
    fn replay(events: &[(u64, i64, i64)], sizes: &HashMap<i64, i64>) -> Self {
        let mut found = Self::default();
        let mut owners: HashMap<i64, i64> = HashMap::new();
        let mut users: HashMap<i64, u32> = HashMap::new();
        let mut used = 0i64;
        for (at, &(kind, buffer, shared)) in (0i64..).zip(events) {
            // A buffer that shares memory keeps what the other was given until both are done with it.
            let owner = match kind {
                SHARE => *owners.get(&shared).unwrap_or(&shared),
                FREE => *owners.get(&buffer).unwrap_or(&buffer),
                _ => buffer,
            };
            let size = sizes.get(&owner).copied().unwrap_or(0);
            let count = users.entry(owner).or_default();
            if kind == FREE {
                // What nobody holds cannot be left.
                let was_held = *count > 0;
                *count = count.saturating_sub(1);
                if was_held && *count == 0 {
                    used = used.saturating_sub(size);
                    if let Some(span) = found.spans.get_mut(&owner).and_then(|spans| spans.last_mut()) {
                        span.1 = Some(at);
                    }
                }
                continue;
            }
            owners.insert(buffer, owner);
            *count += 1;
            if *count == 1 {
                used = used.saturating_add(size);
                found.spans.entry(owner).or_default().push((at, None));
            }
            if found.peak.is_none_or(|(_, most)| used > most) {
                found.peak = Some((at, used));
            }
        }
        found
    }
}

/// The heaps of a buffer assignment, by the number of their allocation; those without events are left out.
///
/// A trace belongs to the allocation that has its buffers: the number it names may be one from before allocations were
/// put in order.
pub fn heaps(
    traces: &[(&[u8], u64)],
    sizes: &HashMap<i64, i64>,
    allocations: &HashMap<i64, i64>,
) -> Result<HashMap<i64, Heap>, Malformed> {
    let mut events: HashMap<i64, Vec<(u64, i64, i64)>> = HashMap::new();
    for &(bytes, origin) in traces {
        let mut found = Vec::new();
        for (number, event, origin) in messages(bytes, origin)? {
            if number == heap_simulator_trace::EVENTS {
                found.push(read(event, origin)?);
            }
        }
        if let Some(&allocation) = found.iter().find_map(|(_, buffer, _)| allocations.get(buffer)) {
            events.entry(allocation).or_default().append(&mut found);
        }
    }
    Ok(events.into_iter().map(|(index, events)| (index, Heap::replay(&events, sizes))).collect())
}

fn read(bytes: &[u8], origin: u64) -> Result<(u64, i64, i64), Malformed> {
    let (mut kind, mut buffer, mut shared) = (0, 0, 0);
    for field in Fields::new(bytes, origin) {
        match field? {
            (heap_event::KIND, Value::Varint(number)) => kind = number,
            (heap_event::BUFFER_ID, Value::Varint(number)) => buffer = number as i64,
            (heap_event::SHARE_WITH_CANONICAL_ID, Value::Varint(number)) => shared = number as i64,
            _ => {}
        }
    }
    Ok((kind, buffer, shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOC: u64 = 0;

    fn replayed(events: &[(u64, i64, i64)]) -> Heap {
        Heap::replay(events, &HashMap::from([(1, 10), (2, 20), (3, 5)]))
    }

    #[test]
    fn the_peak_is_where_most_is_taken() {
        let heap = replayed(&[(ALLOC, 1, 0), (ALLOC, 2, 0), (FREE, 2, 0), (ALLOC, 3, 0)]);
        assert_eq!(heap.peak, Some((1, 30)));
        assert_eq!([1, 2, 3].map(|buffer| heap.holds(buffer)), [true, true, false]);
        assert_eq!(heap.span(2), (Some(1), Some(2)));
    }

    #[test]
    fn shared_memory_counts_once_and_is_held_until_the_last_is_done() {
        let heap = replayed(&[(ALLOC, 1, 0), (SHARE, 3, 1), (FREE, 1, 0), (ALLOC, 2, 0), (FREE, 3, 0)]);
        assert_eq!(heap.peak, Some((3, 30)));
        assert_eq!(heap.span(1), (Some(0), Some(4)));
        assert!(!heap.holds(3));
    }

    #[test]
    fn memory_that_is_taken_again_is_not_held_in_between() {
        let heap = replayed(&[(ALLOC, 1, 0), (FREE, 1, 0), (ALLOC, 2, 0), (FREE, 2, 0), (SHARE, 3, 1)]);
        assert_eq!((heap.peak, heap.holds(1)), (Some((2, 20)), false));
        assert_eq!(heap.span(1), (Some(0), None));
    }

    #[test]
    fn memory_that_was_left_twice_is_not_negative() {
        let heap = replayed(&[(ALLOC, 1, 0), (FREE, 1, 0), (FREE, 1, 0), (ALLOC, 2, 0)]);
        assert_eq!(heap.peak, Some((3, 20)));
    }
}
