//! What is read of one file, compact: a row per event, args only where they are.

use arrow_array::ArrayRef;

use crate::columns::arg_column::ArgColumn;
use crate::columns::arrow::NONE;
use crate::columns::interner::Interner;
use crate::trace_event::kineto::{Class, class_of};
use crate::trace_event::lexer::{Raw, RawKind};
use crate::trace_event::unescape::decode;

/// Where something happened: codes of the process and the thread.
#[derive(Default)]
pub struct Tracks {
    /// Both as written, joined; the code is the track.
    joined: Interner,
    parts: Vec<(u32, u32)>,
    pids: Interner,
    tids: Interner,
    key: Vec<u8>,
}

impl Tracks {
    #[inline]
    pub fn code(&mut self, pid: &[u8], tid: &[u8]) -> u32 {
        self.key.clear();
        self.key.extend_from_slice(pid);
        self.key.push(0);
        self.key.extend_from_slice(tid);
        let code = self.joined.code(&self.key);
        if code as usize == self.parts.len() {
            let part = |strings: &mut Interner, text: &[u8]| if text.is_empty() { NONE } else { strings.code(text) };
            self.parts.push((part(&mut self.pids, pid), part(&mut self.tids, tid)));
        }
        code
    }

    /// Take the tracks out of another; returns the code each has here, by its code there.
    pub fn adopt(&mut self, other: &mut Tracks) -> Vec<u32> {
        let text = |strings: &'_ Interner, code: u32| if code == NONE { &[] } else { strings.get(code) }.to_vec();
        let parts = other.parts.drain(..);
        let codes = parts.map(|(pid, tid)| self.code(&text(&other.pids, pid), &text(&other.tids, tid))).collect();
        other.joined.clear();
        other.pids.clear();
        other.tids.clear();
        codes
    }

    /// The processes of tracks; null where there is none (`NONE`).
    pub fn pids(&self, tracks: impl Iterator<Item = u32>) -> ArrayRef {
        self.pids.dictionary(tracks.map(|track| self.part(track).0))
    }

    pub fn tids(&self, tracks: impl Iterator<Item = u32>) -> ArrayRef {
        self.tids.dictionary(tracks.map(|track| self.part(track).1))
    }

    fn part(&self, track: u32) -> (u32, u32) {
        self.parts.get(track as usize).copied().unwrap_or((NONE, NONE))
    }
}

/// Categories, and the class of each, decided once.
#[derive(Default)]
pub struct Categories {
    pub names: Interner,
    classes: Vec<Class>,
    /// The one asked for last, as it stands in the text, and its code: long runs of events share theirs.
    last: Option<(Vec<u8>, u32)>,
}

impl Categories {
    /// The code of a category; `NONE` where an event has none.
    #[inline(always)]
    pub fn code(&mut self, w: &[u8], raw: Raw) -> u32 {
        match &self.last {
            Some((text, code)) if text == raw.of(w) => *code,
            _ => self.other_code(w, raw),
        }
    }

    fn other_code(&mut self, w: &[u8], raw: Raw) -> u32 {
        if raw.is_absent() {
            return NONE;
        }
        let code = intern(&mut self.names, w, raw);
        if code as usize == self.classes.len() {
            self.classes.push(class_of(self.names.get(code)));
        }
        self.last = Some((raw.of(w).to_vec(), code));
        code
    }

    /// Take the categories out of another; returns the code each has here, by its code there.
    pub fn adopt(&mut self, other: &mut Categories) -> Vec<u32> {
        let here = self.names.adopt(&mut other.names);
        other.classes.clear();
        other.last = None;
        for code in self.classes.len()..self.names.len() {
            self.classes.push(class_of(self.names.get(code as u32)));
        }
        here
    }

    #[inline(always)]
    pub fn class(&self, code: u32) -> Class {
        self.classes.get(code as usize).copied().unwrap_or(Class::Other)
    }
}

/// The code of a text, escapes decoded.
#[inline(always)]
pub fn intern(strings: &mut Interner, w: &[u8], raw: Raw) -> u32 {
    if raw.kind == RawKind::EscapedText {
        return strings.code(decode(raw.of(w)).0.as_bytes());
    }
    strings.code(raw.of(w))
}

/// Events with a duration.
#[derive(Default)]
pub struct Spans {
    pub id: Vec<u32>,
    pub category: Vec<u32>,
    pub name: Vec<u32>,
    pub track: Vec<u32>,
    pub start: Vec<i64>,
    pub end: Vec<i64>,
    pub class: Vec<Class>,
    pub args: Vec<ArgColumn>,
}

/// Marks without a duration.
#[derive(Default)]
pub struct Instants {
    pub id: Vec<u32>,
    pub category: Vec<u32>,
    pub name: Vec<u32>,
    pub track: Vec<u32>,
    pub time: Vec<i64>,
    pub args: Vec<ArgColumn>,
}

/// Samples, one row per counter and series.
#[derive(Default)]
pub struct Counters {
    pub id: Vec<u32>,
    pub name: Vec<u32>,
    pub series: Vec<u32>,
    pub track: Vec<u32>,
    pub time: Vec<i64>,
    pub value: Vec<f64>,
}

/// What hardware counters read around events, one row per event and counter.
#[derive(Default)]
pub struct HardwareCounters {
    /// Of the span.
    pub row: Vec<u32>,
    pub counter: Vec<u32>,
    pub value: Vec<f64>,
}

/// Which end of an arrow, in the order they come at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum FlowPhase {
    Start,
    Step,
    End,
}

/// Ends of arrows.
#[derive(Default)]
pub struct Flows {
    pub category: Vec<u32>,
    pub flow: Vec<i64>,
    pub phase: Vec<FlowPhase>,
    pub track: Vec<u32>,
    pub time: Vec<i64>,
}

/// Names of processes and threads.
#[derive(Default)]
pub struct Labels {
    pub label: Vec<u32>,
    pub track: Vec<u32>,
    pub value: Vec<u32>,
}

/// How many entries there were, and what became of them:
/// `entries` is the sum of the others down to `labels` plus what the problems lost.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub entries: u64,
    pub complete: u64,
    pub begins: u64,
    pub ends: u64,
    pub instants: u64,
    pub counters: u64,
    pub flows: u64,
    pub labels: u64,
    /// Of these, events that no table asked for holds.
    pub skipped: u64,
    pub text_bytes: u64,
    pub file_bytes: u64,
}

impl Counts {
    pub fn append(&mut self, other: Counts) {
        self.entries += other.entries;
        self.complete += other.complete;
        self.begins += other.begins;
        self.ends += other.ends;
        self.instants += other.instants;
        self.counters += other.counters;
        self.flows += other.flows;
        self.labels += other.labels;
        self.skipped += other.skipped;
    }
}
