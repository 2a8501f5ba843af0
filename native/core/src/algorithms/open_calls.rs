//! What threads did in windows of time, told by the calls that were open on them.

use std::collections::BTreeMap;
use std::hash::Hash;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::columns::arrow::NONE;

pub use super::call_kinds::{Calls, kinds, traits};

/// Windows that do not overlap, in order, with the thread that matters in each.
#[derive(Clone, Copy)]
pub struct Windows<'a> {
    pub start: &'a [i64],
    pub end: &'a [i64],
    pub thread: &'a [u32],
}

/// How long something went on in a window on its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub window: u32,
    pub kind: u8,
    /// Row of the call that is responsible, and of the innermost one, for the longest of it; `NONE` if nothing is open.
    pub call: u32,
    pub inner: u32,
    pub time: i64,
    /// When it went on last.
    pub last: i64,
    longest: i64,
}

/// Sorts of names that are told apart.
pub const SORTS: [&str; 5] = ["operator", "module", "function", "annotation", "call"];
const OF_SORTS: [u16; 5] = [traits::OPERATOR, traits::MODULE, traits::FUNCTION, traits::RANGE, traits::RUNTIME];

/// What was innermost for most of each window.
pub struct Found {
    pub shares: Vec<Share>,
    /// By window, of each sort, the row of a call of that name; or `NONE`.
    pub names: Vec<[u32; 5]>,
    /// By window, what another thread did longest: row of a call, and for how long.
    pub others: Vec<(u32, i64)>,
}

/// From how long on a call is long: one between other calls, and a launch.
#[derive(Clone, Copy)]
pub struct Limits {
    pub pause: i64,
    pub launch: i64,
    /// Whether short calls of a function count together in all windows, too.
    pub together: bool,
}

/// What takes so great a part of launching is no part of it.
const MUCH: i64 = 4;

/// What goes on in each window; the shares of a window add up to its length.
///
/// Where nothing is open on a window's thread, what is open on `main` tells.
pub fn open_calls(calls: Calls, windows: Windows, main: u32, limits: Limits) -> Found {
    let by_thread = threads(&calls, &windows);
    let mut tally = Tally::new(calls, limits, windows.start.len());
    let mut wanted: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
    let whole: Vec<Span> = (0..windows.start.len()).map(|at| (windows.start[at], windows.end[at], at as u32)).collect();
    for (&thread, &span) in windows.thread.iter().zip(&whole) {
        wanted.entry(thread).or_default().push(span);
    }
    let rows_of = |thread: u32| by_thread.get(&thread).map_or(&[][..], Vec::as_slice);
    let (mut bare, mut unrecorded) = (Vec::new(), Vec::new());
    for (&thread, spans) in &wanted {
        let left = if thread == main { &mut unrecorded } else { &mut bare };
        sweep(calls, rows_of(thread), spans, limits, |frame| tally.add(frame), left);
    }
    bare.sort_unstable();
    sweep(calls, rows_of(main), &bare, limits, |frame| tally.add(frame), &mut unrecorded);
    let others = others(calls, windows, &by_thread, &whole, limits);
    tally.found(&unrecorded, others)
}

type Span = (i64, i64, u32);

/// The rows of each thread's calls that are open in a window, callers before what they called.
fn threads(calls: &Calls, windows: &Windows) -> BTreeMap<u32, Vec<u32>> {
    let mut rows: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut next = 0;
    for row in 0..calls.start.len() {
        // The first window that ends later; mostly that of the row before.
        let start = calls.start[row];
        let is_far = |end: Option<&i64>| end.is_none_or(|&end| end > start);
        if !is_far(windows.end.get(next)) || (next > 0 && is_far(windows.end.get(next - 1))) {
            next = windows.end.partition_point(|&end| end <= start);
        }
        if windows.start.get(next).is_some_and(|&start| start < calls.end[row]) {
            rows.entry(calls.thread[row]).or_default().push(row as u32);
        }
    }
    for of_thread in rows.values_mut() {
        of_thread.sort_by_key(|&row| (calls.start[row as usize], std::cmp::Reverse(calls.end[row as usize]), row));
    }
    rows
}

/// A call that is open, and what it did itself in the window of now.
#[derive(Clone, Copy)]
struct Frame {
    row: u32,
    end: i64,
    /// The outermost call around it that tells what goes on.
    told: u32,
    /// The innermost function or range of the program's own that lasts and launches nothing.
    own: u32,
    /// The outermost function of anybody's but the framework's that launches nothing, however short.
    task: u32,
    names: [u32; 5],
    window: u32,
    time: i64,
    longest: i64,
    last: i64,
}

impl Frame {
    fn new(calls: &Calls, row: u32, around: Option<&Frame>, limits: Limits) -> Self {
        let at = row as usize;
        let has = |what| calls.traits[at] & what != 0 && calls.launches[at] == 0;
        let is_own = has(traits::OWN) && calls.end[at] - calls.start[at] >= limits.pause;
        let mut names = around.map_or([NONE; 5], |frame| frame.names);
        for (name, sort) in names.iter_mut().zip(OF_SORTS) {
            if calls.traits[at] & sort != 0 {
                *name = row;
            }
        }
        let told = around.map_or(NONE, |frame| frame.told);
        let around_task = around.map_or(NONE, |frame| frame.task);
        Self {
            row,
            end: calls.end[at],
            told: if told == NONE && calls.told[at] != 0 { row } else { told },
            own: if is_own { row } else { around.map_or(NONE, |frame| frame.own) },
            task: if around_task == NONE && has(traits::TASK) { row } else { around_task },
            names,
            window: NONE,
            time: 0,
            longest: 0,
            last: i64::MIN,
        }
    }

    fn add(&mut self, from: i64, until: i64) {
        self.time += until - from;
        self.longest = self.longest.max(until - from);
        self.last = from;
    }

    /// What goes on, and the call that is responsible.
    fn decided(&self, calls: &Calls, limits: Limits) -> (u8, u32) {
        let at = self.row as usize;
        if self.told != NONE {
            return (calls.told[self.told as usize], self.told);
        }
        let has = |what| calls.traits[at] & what != 0;
        let operator = if self.names[0] == NONE { self.row } else { self.names[0] };
        if has(traits::RUNTIME) {
            return match () {
                () if has(traits::ALLOCATES) => (kinds::ALLOCATION, self.row),
                () if has(traits::COPIES) && self.longest >= limits.pause => (kinds::COPY, operator),
                () if has(traits::WAITS) => (kinds::SYNCHRONIZATION, operator),
                () if self.longest >= limits.launch => (kinds::FULL_QUEUE, operator),
                () => (kinds::LAUNCH, operator),
            };
        }
        let is_container = has(traits::CONTAINER);
        if self.longest < limits.pause {
            if self.own != NONE && !is_container {
                // Nothing of what it is made of is for a launch.
                return (kinds::FUNCTION, self.own);
            }
            if self.task != NONE && !is_container {
                return (kinds::BRIEF, self.task);
            }
            let is_python = self.names[0] == NONE && has(traits::FUNCTION);
            return (if is_python { kinds::PYTHON } else { kinds::LAUNCH }, operator);
        }
        if calls.launches[at] != 0 || is_container {
            // What puts work on the device elsewhere, and stands still here, was stopped from without.
            return (kinds::PAUSE, self.row);
        }
        (kinds::FUNCTION, if self.own == NONE { self.row } else { self.own })
    }
}

/// Gives away each call with what it did itself in each window, and the time in which none was open.
fn sweep(
    calls: Calls,
    rows: &[u32],
    spans: &[Span],
    limits: Limits,
    mut found: impl FnMut(&Frame),
    bare: &mut Vec<Span>,
) {
    let mut stack: Vec<Frame> = Vec::new();
    let mut at = Cursor { spans, next: 0, now: i64::MIN };
    for &row in rows {
        let (start, end) = (calls.start[row as usize], calls.end[row as usize]);
        at.advance(start, &mut stack, &mut found, bare);
        // What ends earlier does not enclose it.
        let around = stack.iter().rev().find(|frame| frame.end >= end);
        let frame = Frame::new(&calls, row, around, limits);
        stack.push(frame);
    }
    at.advance(i64::MAX, &mut stack, &mut found, bare);
}

/// How far a sweep has come.
struct Cursor<'a> {
    spans: &'a [Span],
    next: usize,
    now: i64,
}

impl Cursor<'_> {
    fn advance(&mut self, to: i64, stack: &mut Vec<Frame>, found: &mut impl FnMut(&Frame), bare: &mut Vec<Span>) {
        while self.now < to {
            let Some(top) = stack.last_mut() else {
                self.pieces(to, |from, until, window| bare.push((from, until, window)));
                self.now = to;
                return;
            };
            let until = top.end.min(to);
            self.pieces(until, |from, until, window| {
                if top.window != window {
                    if top.time > 0 {
                        found(top);
                    }
                    (top.window, top.time, top.longest) = (window, 0, 0);
                }
                top.add(from, until);
            });
            self.now = self.now.max(until);
            if top.end <= to {
                if top.time > 0 {
                    found(top);
                }
                stack.pop();
            }
        }
    }

    /// The parts of spans between now and then.
    fn pieces(&mut self, then: i64, mut part: impl FnMut(i64, i64, u32)) {
        while let Some(&(start, end, window)) = self.spans.get(self.next).filter(|span| span.0 < then) {
            let (from, until) = (start.max(self.now), end.min(then));
            if from < until {
                part(from, until, window);
            }
            if end > then {
                return;
            }
            self.next += 1;
        }
    }
}

type Sums<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// What was found so far.
struct Tally<'a> {
    calls: Calls<'a>,
    limits: Limits,
    windows: usize,
    shares: Sums<(u32, u8, u32), Share>,
    names: Sums<(u32, u8, u32), (i64, u32)>,
}

impl<'a> Tally<'a> {
    fn new(calls: Calls<'a>, limits: Limits, windows: usize) -> Self {
        let (shares, names) = (Sums::default(), Sums::default());
        Self { calls, limits, windows, shares, names }
    }

    fn add(&mut self, frame: &Frame) {
        let (kind, call) = frame.decided(&self.calls, self.limits);
        let name = self.calls.name[call as usize];
        let longest = frame.time;
        let (window, time, last) = (frame.window, frame.time, frame.last);
        let new = Share { window, kind, call, inner: frame.row, time, last, longest };
        self.share(name, new);
        for (sort, &row) in frame.names.iter().enumerate().filter(|&(_, &row)| row != NONE) {
            let sum = self.names.entry((window, sort as u8, self.calls.name[row as usize])).or_insert((0, row));
            *sum = (sum.0 + time, sum.1.min(row));
        }
    }

    fn share(&mut self, name: u32, new: Share) {
        match self.shares.entry((new.window, new.kind, name)) {
            Entry::Vacant(place) => {
                place.insert(new);
            }
            Entry::Occupied(mut place) => {
                let sum = place.get_mut();
                if new.longest > sum.longest {
                    (sum.call, sum.inner, sum.longest) = (new.call, new.inner, new.longest);
                }
                (sum.time, sum.last) = (sum.time + new.time, sum.last.max(new.last));
            }
        }
    }

    /// Decides what short calls of a function are: it where they last together, else interpreting.
    fn decide_brief(&mut self) {
        let brief: Vec<_> = self.shares.extract_if(|key, _| key.1 == kinds::BRIEF).collect();
        let much = if self.limits.together { self.much(&brief) } else { Sums::default() };
        for ((window, _, name), share) in brief {
            let long = self.shares.get(&(window, kinds::FUNCTION, name)).map_or(0, |other| other.time);
            let lasts = long + share.time >= self.limits.pause || much.contains_key(&name);
            self.share(name, Share { kind: if lasts { kinds::FUNCTION } else { kinds::PYTHON }, ..share });
        }
    }

    /// The functions whose short calls are much of all launching in all windows, with how long they take.
    fn much(&self, brief: &[((u32, u8, u32), Share)]) -> Sums<u32, i64> {
        let mut sums: Sums<u32, i64> = Sums::default();
        for ((.., name), share) in brief {
            *sums.entry(*name).or_default() += share.time;
        }
        let is_launching = |kind| kind == kinds::LAUNCH || kind == kinds::PYTHON;
        let launching = self.shares.values().filter(|share| is_launching(share.kind)).map(|share| share.time);
        let least = (launching.sum::<i64>() + sums.values().sum::<i64>()) / MUCH;
        sums.retain(|_, time| *time >= least.max(self.limits.pause));
        sums
    }

    fn found(mut self, unrecorded: &[Span], others: Vec<(u32, i64)>) -> Found {
        for &(from, until, window) in unrecorded {
            let time = until - from;
            let none =
                Share { window, kind: kinds::UNRECORDED, call: NONE, inner: NONE, time: 0, last: from, longest: 0 };
            let sum = self.shares.entry((window, kinds::UNRECORDED, NONE)).or_insert(none);
            (sum.time, sum.last) = (sum.time + time, sum.last.max(from));
        }
        self.decide_brief();
        let mut shares: Vec<Share> = self.shares.into_values().collect();
        shares.sort_unstable_by_key(|share| (share.window, std::cmp::Reverse(share.time), share.kind, share.call));
        let mut names = vec![[NONE; 5]; self.windows];
        let mut most = vec![[0_i64; 5]; self.windows];
        for ((window, sort, _), (time, row)) in self.names {
            let (window, sort) = (window as usize, usize::from(sort));
            if is_more((time, row), (most[window][sort], names[window][sort])) {
                (most[window][sort], names[window][sort]) = (time, row);
            }
        }
        Found { shares, names, others }
    }
}

/// Whether something took longer; of what took as long the first counts.
fn is_more(new: (i64, u32), old: (i64, u32)) -> bool {
    new.0 > old.0 || (new.0 == old.0 && new.1 < old.1)
}

/// What threads that do not matter in a window did longest in it.
fn others(
    calls: Calls,
    windows: Windows,
    by_thread: &BTreeMap<u32, Vec<u32>>,
    whole: &[Span],
    limits: Limits,
) -> Vec<(u32, i64)> {
    let mut sums: Sums<(u32, u32, u32), (i64, u32)> = Sums::default();
    for (&thread, rows) in by_thread {
        let spans: Vec<Span> = whole.iter().filter(|span| windows.thread[span.2 as usize] != thread).copied().collect();
        let add = |frame: &Frame| {
            if calls.traits[frame.row as usize] & traits::IDLE == 0 {
                let (_, call) = frame.decided(&calls, limits);
                add_to(&mut sums, (frame.window, thread, calls.name[call as usize]), frame.time, call);
            }
        };
        sweep(calls, rows, &spans, limits, add, &mut Vec::new());
    }
    let mut most = vec![(NONE, 0_i64); whole.len()];
    for ((window, ..), (time, row)) in sums {
        let place = &mut most[window as usize];
        if is_more((time, row), (place.1, place.0)) {
            *place = (row, time);
        }
    }
    most
}

fn add_to<K: Hash + Eq>(sums: &mut Sums<K, (i64, u32)>, key: K, time: i64, row: u32) {
    let sum = sums.entry(key).or_insert((0, row));
    *sum = (sum.0 + time, sum.1.min(row));
}
