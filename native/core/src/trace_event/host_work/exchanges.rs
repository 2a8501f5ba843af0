//! Operations between hosts: who asked for each, when it was over, and what is known of it.

use std::collections::{HashMap, VecDeque};

use super::Work;
use crate::columns::arg_column::ArgValues;
use crate::columns::arrow::NONE;
use crate::trace_event::columns::Spans;
use crate::trace_event::kineto::Class;
use crate::trace_event::store::Store;

/// Backends whose operations are ranges on threads of their own.
const BACKENDS: [&[u8]; 4] = [b"gloo:", b"mpi:", b"ucc:", b"ccl:"];
/// A backend's thread says at most this part of an exchange later that it is over: it needs a CPU, too.
const LATE_PARTS: i64 = 5;
/// A thread that waits for an exchange goes on so soon after it.
const WAKING_NS: i64 = 1_000_000;
/// Of what a thread did, and of operators that may have asked for an exchange, no more are looked at for one.
const MOST_LOOKED_AT: usize = 4096;

/// Whether a range is an operation between hosts.
pub(super) fn is_exchange(name: &[u8]) -> bool {
    BACKENDS.iter().any(|backend| name.starts_with(backend))
}

/// Whether a row is an operator that asks for an exchange.
pub(super) fn is_asking(store: &Store, row: u32) -> bool {
    store.spans.class[row as usize] == Class::CpuOp && store.name_of(row).is_some_and(|name| name.starts_with(b"c10d"))
}

/// What a thread did, by its begin: computing took from one time to another, and other spans say only that the thread was
/// at their begin and at their end.
pub(super) struct Doing {
    spans: Vec<(i64, i64)>,
    /// Until when it computed before each.
    reached: Vec<i64>,
}

impl Doing {
    pub fn of(spans: &Spans, rows: &[u32], computes: &[bool]) -> Self {
        let mut found: Vec<(i64, i64)> = Vec::new();
        for &row in rows {
            let (start, end) = (spans.start[row as usize], spans.end[row as usize]);
            match spans.class[row as usize] {
                Class::CpuOp if computes[row as usize] => found.push((start, end)),
                Class::CpuOp | Class::Annotation | Class::Python => found.extend([(start, start), (end, end)]),
                _ => (),
            }
        }
        found.sort_unstable();
        let mut latest = i64::MIN;
        let mut reached = Vec::with_capacity(found.len());
        for &(_, end) in &found {
            reached.push(latest);
            latest = latest.max(end);
        }
        Self { spans: found, reached }
    }

    /// When an exchange was over: the thread that asked for it and waited goes on then, and the backend's may say so
    /// later, or never where the recording ended before it did.
    ///
    /// It may have waited for another, by when these `ended`.
    pub fn went_on(&self, work: &Work, was_over: bool, ended: &[i64]) -> i64 {
        let first = self.spans.partition_point(|&(start, _)| start < work.start);
        let last = self.spans.partition_point(|&(start, _)| start < work.end);
        if last - first > MOST_LOOKED_AT {
            return work.end;
        }
        let mut reached = self.reached.get(first).map_or(work.start, |&before| before.max(work.start));
        let mut longest = (0, work.end);
        for &(start, end) in &self.spans[first..last] {
            longest = longest.max((start - reached, start));
            reached = reached.max(end);
        }
        let ((paused, until), lasted) = (longest, work.end - work.start);
        let last = ended[..ended.partition_point(|&end| end <= until)].last();
        let is_of_another = until < work.end && last.is_some_and(|&end| until - end <= WAKING_NS);
        let is_told_late = !is_of_another && 2 * paused >= lasted && work.end - until <= lasted / LATE_PARTS;
        if is_told_late || !was_over { until } else { work.end }
    }
}

/// For each exchange, in their order, the operator that asked for it: the first of its kind that no other has, or the
/// last one before it, as backends do some operations by others.
pub(super) fn asked_for(store: &Store, exchanges: impl Iterator<Item = u32>) -> Vec<u32> {
    let spans = &store.spans;
    let mut asking: Vec<u32> = (0..spans.id.len() as u32).filter(|&row| is_asking(store, row)).collect();
    asking.sort_by_key(|&row| (spans.start[row as usize], row));
    let mut of_kind: HashMap<String, VecDeque<usize>> = HashMap::new();
    for (place, &row) in asking.iter().enumerate() {
        of_kind.entry(operation(store.name_of(row))).or_default().push_back(place);
    }
    let mut is_free = vec![true; asking.len()];
    let mut launch = |row: u32| {
        let start = spans.start[row as usize];
        let begun = asking.partition_point(|&asked| spans.start[asked as usize] <= start);
        let alike = of_kind.entry(operation(store.name_of(row))).or_default();
        while alike.front().is_some_and(|&place| !is_free[place]) {
            alike.pop_front();
        }
        let first = alike.front().copied().filter(|&place| place < begun);
        let place =
            first.or_else(|| (begun.saturating_sub(MOST_LOOKED_AT)..begun).rev().find(|&place| is_free[place]))?;
        is_free[place] = false;
        Some(asking[place])
    };
    exchanges.map(|row| launch(row).unwrap_or(NONE)).collect()
}

/// What an operation between ranks is called, however it is spelled: gloo:all_reduce and c10d::allreduce_ are one.
pub(super) fn operation(name: Option<&[u8]>) -> String {
    let text = String::from_utf8_lossy(name.unwrap_or_default());
    let last = text.rsplit(':').next().unwrap_or_default();
    last.split('_').filter(|part| !matches!(*part, "base" | "coalesced" | "tensor" | "into")).collect()
}

/// What is known of an exchange.
pub(super) struct Exchanged {
    pub name: String,
    pub kind: Option<String>,
    pub elements: Option<i64>,
    /// The rank that it comes from, or goes to, of an operation that only two of them do.
    pub source: Option<i64>,
    pub destination: Option<i64>,
}

pub(super) fn exchanged(store: &Store, found: &[Work]) -> Vec<Option<Box<Exchanged>>> {
    let has_one_group = store.has_one_group();
    let of = |work: &Work| {
        let name = store.name_of(work.row)?;
        let operation = operation(Some(name));
        // Numbers of ranks in their group, which are those of the job if it is the only one.
        let peer = if has_one_group { peer(store, work.launch) } else { None };
        let found = || Exchanged {
            source: peer.filter(|_| operation == "recv"),
            destination: peer.filter(|_| operation == "send"),
            name: operation,
            kind: text(store, "Input type", work.row)
                .and_then(|types| types.split('"').nth(1).map(|kind| kind.trim().to_owned()))
                .filter(|kind| !kind.is_empty()),
            elements: text(store, "Input Dims", work.row).and_then(|dims| elements(&dims)),
        };
        is_exchange(name).then(|| Box::new(found()))
    };
    found.iter().map(of).collect()
}

/// The rank at the other end, which is the third argument of the operators that send and receive.
fn peer(store: &Store, launch: u32) -> Option<i64> {
    let arguments = (launch != NONE).then(|| text(store, "Concrete Inputs", launch))??;
    arguments.split(',').nth(2)?.trim_matches(|c: char| c == '"' || c.is_whitespace()).parse().ok()
}

/// The text that a row has in a column that was asked for.
pub(super) fn text(store: &Store, key: &str, row: u32) -> Option<String> {
    let column = store.spans.args.iter().find(|arg| arg.key == key)?;
    let at = column.rows.binary_search(&row).ok()?;
    match &column.values {
        ArgValues::Text(codes, strings) => Some(String::from_utf8_lossy(strings.get(codes[at])).into_owned()),
        _ => None,
    }
}

/// How many elements tensors of these sizes have in all; `None` if there is none or their number is absurd.
fn elements(dims: &str) -> Option<i64> {
    let inner = dims.split('[').filter_map(|part| part.split(']').next()).filter(|part| !part.trim().is_empty());
    let mut sum: Option<i64> = None;
    for list in inner {
        let mut product = 1i64;
        for size in list.split(',').map(str::trim).filter(|size| !size.is_empty()) {
            product = product.checked_mul(size.parse().ok().filter(|&size: &i64| size >= 0)?)?;
        }
        sum = Some(sum.unwrap_or(0).checked_add(product)?);
    }
    sum
}
