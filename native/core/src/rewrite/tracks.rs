//! The processes and threads of one rank in a timeline of several: their numbers there, and what viewers call them.

use crate::columns::interner::Interner;
use crate::trace_event::fields::{Field, Fields};
use crate::trace_event::lexer::{Raw, RawKind, Scan, members, value};
use crate::trace_event::number::{Decimal, decimal};

/// Longer names are left out: nothing that a viewer could show.
const MAX_NAME_BYTES: usize = 1 << 10;
/// What Kineto labels processes of the host with.
const HOST: &[u8] = b"CPU";

/// Numbers that no other rank has; all are different, as viewers take a thread for the main one of its process by them.
#[derive(Default)]
pub struct Numbers {
    last: u64,
    /// How many processes have their place in the order already.
    placed: u64,
}

impl Numbers {
    fn next(&mut self) -> Vec<u8> {
        self.last += 1;
        self.last.to_string().into_bytes()
    }
}

/// One rank's, in the order in which they were met.
#[derive(Default)]
pub struct Processes {
    /// Processes as their pids are written.
    pids: Interner,
    processes: Vec<Process>,
    /// Threads as their pids and tids are written.
    tracks: Interner,
    threads: Vec<Thread>,
    key: Vec<u8>,
}

/// Texts stand as in a file, between quotes.
#[derive(Default)]
struct Process {
    number: Vec<u8>,
    name: Vec<u8>,
    label: Vec<u8>,
    sort_index: Option<i64>,
    has_events: bool,
}

struct Thread {
    process: u32,
    tid: Vec<u8>,
    number: Vec<u8>,
    name: Vec<u8>,
    sort_index: Option<i64>,
    has_events: bool,
}

impl Processes {
    /// The thread that an entry is on.
    #[inline]
    pub fn thread(&mut self, w: &[u8], fields: &Fields, numbers: &mut Numbers) -> u32 {
        let (pid, tid) = (fields.get(Field::Pid), fields.get(Field::Tid));
        self.key.clear();
        push_text(w, pid, &mut self.key);
        let end = self.key.len();
        self.key.push(0);
        push_text(w, tid, &mut self.key);
        let track = self.tracks.code(&self.key);
        if track as usize == self.threads.len() {
            self.add(end, numbers);
        }
        track
    }

    #[cold]
    fn add(&mut self, end_of_pid: usize, numbers: &mut Numbers) {
        let process = self.pids.code(&self.key[..end_of_pid]);
        if process as usize == self.processes.len() {
            self.processes.push(Process { number: numbers.next(), ..Process::default() });
        }
        self.threads.push(Thread {
            process,
            tid: self.key[end_of_pid + 1..].to_vec(),
            number: numbers.next(),
            name: Vec::new(),
            sort_index: None,
            has_events: false,
        });
    }

    /// The numbers of its process and of a thread that an event is on.
    #[inline]
    pub fn numbers(&mut self, thread: u32) -> (&[u8], &[u8]) {
        let thread = &mut self.threads[thread as usize];
        let process = &mut self.processes[thread.process as usize];
        thread.has_events = true;
        process.has_events = true;
        (&process.number, &thread.number)
    }

    /// Take in what an entry calls a process or thread; false if it tells something else.
    pub fn describe(&mut self, w: &[u8], fields: &Fields, thread: u32) -> bool {
        let thread = &mut self.threads[thread as usize];
        let process = &mut self.processes[thread.process as usize];
        let arg = |key: &[u8]| arg_of(w, fields, key).unwrap_or_default();
        let index = |raw: Raw| match decimal(raw.of(w), 0) {
            Decimal::Is { value, .. } => Some(value),
            _ => None,
        };
        match fields.get(Field::Name).of(w) {
            b"process_name" => name(w, arg(b"name"), &mut process.name),
            b"process_labels" => name(w, arg(b"labels"), &mut process.label),
            b"process_sort_index" => process.sort_index = index(arg(b"sort_index")).or(process.sort_index),
            b"thread_name" => name(w, arg(b"name"), &mut thread.name),
            b"thread_sort_index" => thread.sort_index = index(arg(b"sort_index")).or(thread.sort_index),
            _ => return false,
        }
        true
    }

    /// Entries that name all that have events and say their order, each handed over; ranks come one after the other.
    pub fn name_all(&self, rank: &str, numbers: &mut Numbers, mut write: impl FnMut(&[u8])) {
        let mut order: Vec<usize> = (0..self.processes.len()).filter(|&i| self.processes[i].has_events).collect();
        // The sort keeps the order in which they were met among those that the file says nothing of.
        order.sort_by_key(|&i| self.processes[i].sort_index.unwrap_or(i64::MAX));
        let mut names = vec![Vec::new(); self.processes.len()];
        for process in order {
            names[process] = self.process_name(rank, process);
            let number = &self.processes[process].number;
            write(&entry("process_name", number, None, &text(&names[process], "name")));
            write(&entry("process_sort_index", number, None, &sort_index(numbers.placed as i64)));
            numbers.placed += 1;
        }
        for thread in self.threads.iter().filter(|thread| thread.has_events) {
            let (process, number) = (&self.processes[thread.process as usize].number, Some(&thread.number[..]));
            let of_process = &names[thread.process as usize];
            let own = [&thread.name, &thread.tid].into_iter().find(|text| !text.is_empty());
            let name = own.map_or_else(|| of_process.clone(), |own| [of_process, " · ".as_bytes(), own].concat());
            write(&entry("thread_name", process, number, &text(&name, "name")));
            if let Some(index) = thread.sort_index {
                write(&entry("thread_sort_index", process, number, &sort_index(index)));
            }
        }
    }

    fn process_name(&self, rank: &str, process: usize) -> Vec<u8> {
        let Process { name, label, .. } = &self.processes[process];
        let pid = self.pids.get(process as u32);
        let is_number = pid.iter().all(|b| b.is_ascii_digit() || *b == b'-');
        let own = match (&label[..], &name[..]) {
            (b"" | HOST, b"") if pid.is_empty() => b"no process".to_vec(),
            (b"" | HOST, b"") if is_number => [b"process ", pid].concat(),
            (b"" | HOST, b"") => pid.to_vec(),
            (b"" | HOST, name) => [name, b" ", pid].concat(),
            (label, _) => label.to_vec(),
        };
        [rank.as_bytes(), " · ".as_bytes(), &own].concat()
    }
}

/// The value of an arg; the last one of that key.
fn arg_of(w: &[u8], fields: &Fields, wanted: &[u8]) -> Option<Raw> {
    let args = fields.get(Field::Args);
    if args.kind != RawKind::Nested || w[args.start()] != b'{' {
        return None;
    }
    let mut found = None;
    let all: Scan<usize> = members(w, args.start(), |key, start| {
        let (raw, end) = value(w, start)?;
        if key.of(w) == wanted {
            found = Some(raw);
        }
        Ok(end)
    });
    // Args that cannot be read after all tell nothing.
    all.ok().and(found)
}

/// Take a name, if there is one that can be shown.
fn name(w: &[u8], raw: Raw, known: &mut Vec<u8>) {
    // In a text with escapes a space at the end may be one.
    let text = if raw.kind == RawKind::Text { raw.of(w).trim_ascii() } else { raw.of(w) };
    if raw.is_text() && !text.is_empty() && text.len() <= MAX_NAME_BYTES {
        *known = text.to_vec();
    }
}

/// A value as it may stand between quotes.
#[inline]
fn push_text(w: &[u8], raw: Raw, out: &mut Vec<u8>) {
    match raw.kind {
        RawKind::Text | RawKind::EscapedText => out.extend_from_slice(raw.of(w)),
        _ => out.extend(raw.of(w).iter().filter(|b| !matches!(b, b'"' | b'\\'))),
    }
}

fn text(text: &[u8], key: &str) -> Vec<u8> {
    [b"\"", key.as_bytes(), b"\":\"", text, b"\""].concat()
}

fn sort_index(index: i64) -> Vec<u8> {
    format!("\"sort_index\":{index}").into_bytes()
}

fn entry(name: &str, process: &[u8], thread: Option<&[u8]>, args: &[u8]) -> Vec<u8> {
    let begin = format!("{{\"ph\":\"M\",\"name\":\"{name}\",\"pid\":");
    // Some viewers make a thread of what has none.
    let thread = thread.unwrap_or(process);
    [begin.as_bytes(), process, b",\"tid\":", thread, b",\"args\":{", args, b"}}"].concat()
}
