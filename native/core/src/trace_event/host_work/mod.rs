//! Work of a job without accelerators: its operators compute on the host, in the calls themselves.
//!
//! A row of a device is made for each operator that computes, behind the rows of the file and numbered after its
//! entries, so that whoever asks what devices did is told of it. The operator is the call that launched it.

mod exchanges;
mod nested;

use std::collections::HashMap;

use self::exchanges::{Doing, Exchanged, asked_for, exchanged, is_asking, is_exchange, text};
use self::nested::{Nested, Own, in_python, own_work_by_name};
use crate::columns::arg_column::{ArgColumn, ArgValues};
use crate::columns::arrow::NONE;
use crate::columns::grouping::Grouping;
use crate::error::Result;
use crate::memory::has_room;
use crate::trace_event::columns::Spans;
use crate::trace_event::kineto::{Class, Table};
use crate::trace_event::options::Options;
use crate::trace_event::store::Store;

/// What this is made of; a file is looked at for it only where all of these are wanted.
const NEEDS: [Table; 5] =
    [Table::DeviceEvents, Table::CpuOps, Table::Annotations, Table::RuntimeCalls, Table::PythonCalls];
/// In names of operators and ranges: they use an accelerator, whose work the file lacks.
const ACCELERATED: [&[u8]; 9] =
    [b"cuda", b"cudnn", b"nccl", b"miopen", b"xpu", b"xccl", b"hccl", b"npu::", b"pin_memory"];
/// In names of the runtime's calls that put work on a queue.
const LAUNCHING: [&[u8]; 3] = [b"launch", b"memcpy", b"memset"];
/// How the names of operators begin that stand for others, or only hand something on.
const WRAPPERS: [&[u8]; 7] = [
    b"autograd::",
    b"torch::autograd",
    b"torch::jit",
    b"c10d::",
    b"c10d_functional",
    b"_c10d_functional",
    b"_dtensor::",
];
/// What operators of PyTorch do that compute nothing: they make views, ask, or set memory aside.
const VIEWS: &str = "\
    _local_scalar_dense _nested_tensor_size _reshape_alias _shape_as_tensor _unsafe_view alias as_strided \
    as_strided_ broadcast_tensors broadcast_to chunk cudnn_is_acceptable detach detach_ diagonal empty empty_like \
    empty_strided expand expand_as flatten is_floating_point is_nonzero is_pinned is_same_size item lift_fresh \
    movedim narrow new_empty new_empty_strided permute real requires_grad_ reshape resize_ resolve_conj resolve_neg \
    result_type select set_ size slice split split_with_sizes squeeze squeeze_ stride swapaxes swapdims t t_ \
    tensor_split to transpose transpose_ unbind unflatten unfold unsafe_chunk unsafe_split unsqueeze unsqueeze_ \
    values view view_as view_as_complex view_as_real";
/// How Inductor marks that it runs compiled code, whose own kernels profilers do not see.
const COMPILED: &[u8] = b"## Call CompiledFxGraph";
/// Less between two operators of compiled code is calling them.
const LEAST_OWN_NS: i64 = 2_000;
/// So much between two that another operator calls it computes itself, if it partly does in all its calls.
const LONG_OWN_NS: i64 = 100_000;
/// The arg that says whether something was over when the recording ended.
const FINISHED: &str = "finished";
/// What data is read in: its operators are the host's.
const LOADING: &[u8] = b"enumerate(DataLoader)";

/// Make rows of the device that the host is, where the file has operators but no accelerator.
pub fn add(store: &mut Store, options: &Options) -> Result<()> {
    store.recorded = store.spans.id.len();
    if !NEEDS.iter().all(|table| options.tables.contains(table)) || !computes_on_host(store) {
        return Ok(());
    }
    let mut found = found(store);
    has_room(found.len().saturating_mul(64))?;
    found.sort_by_key(|work| (work.start, work.row));
    let first_id = store.counts.entries as u32;
    found.truncate((NONE - 1 - first_id) as usize);
    push(store, &found, first_id);
    let launches = found.iter().map(|work| work.launch).collect();
    // Nobody has asked yet.
    let _ = store.launches.set(launches);
    Ok(())
}

/// Work that a row of the file stands for, when it ran, and the row of the call that brought it about.
struct Work {
    row: u32,
    start: i64,
    end: i64,
    launch: u32,
}

fn computes_on_host(store: &Store) -> bool {
    let (spans, mut has_operator, mut has_calls) = (&store.spans, false, false);
    let mut names = vec![Class::Other; store.names.len()];
    for (class, &name) in spans.class.iter().zip(&spans.name) {
        match class {
            Class::Device => return false,
            Class::Runtime => has_calls = true,
            Class::CpuOp => has_operator = true,
            Class::Annotation => (),
            _ => continue,
        }
        if let Some(known) = names.get_mut(name as usize) {
            *known = *class;
        }
    }
    let tells_device = (0u32..).zip(&names).any(|(name, class)| {
        let words: &[&[u8]] = match class {
            Class::Runtime => &LAUNCHING,
            Class::CpuOp | Class::Annotation => &ACCELERATED,
            _ => return false,
        };
        let name = store.names.get(name).to_ascii_lowercase();
        // Recurrent networks ask for it on any device.
        name != b"aten::cudnn_is_acceptable"
            && words.iter().any(|word| name.windows(word.len()).any(|part| part == *word))
    });
    // A profiler that watches accelerators records calls of their runtime, be it to ask for their number.
    has_operator && !tells_device && (has_calls || !store.has_accelerators())
}

/// The work of all threads.
fn found(store: &Store) -> Vec<Work> {
    let spans = &store.spans;
    let is_told = |row: &u32| matches!(spans.class[*row as usize], Class::CpuOp | Class::Annotation);
    let tracks = spans.track.iter().max().map_or(0, |&last| last as usize + 1);
    let by_track = Grouping::of_rows(tracks, &spans.track);
    let roles: Vec<Role> = store.names.iter().map(role).collect();
    let in_python = in_python(spans, &by_track, tracks);
    let role = |row: u32| match (spans.class[row as usize], roles.get(spans.name[row as usize] as usize)) {
        (_, Some(role @ (Role::Loading | Role::Exchange | Role::Compiled))) => *role,
        (Class::CpuOp, Some(role)) if !in_python[row as usize] => *role,
        _ => Role::Around,
    };
    let threads: Vec<Nested> = (0..tracks as u32)
        .map(|track| Nested::of(spans, by_track.of(track).iter().copied().filter(is_told).collect()))
        .collect();
    let own_work = own_work_by_name(spans, &threads, (&in_python, store.names.len()));
    let mut found = Vec::new();
    for thread in &threads {
        let asks = thread.rows.iter().any(|&row| is_asking(store, row));
        of_thread(spans, thread, role, (&own_work, asks), &mut found);
    }
    let mut exchanges: Vec<usize> = (0..found.len()).filter(|&at| role(found[at].row) == Role::Exchange).collect();
    exchanges.sort_by_key(|&at| (spans.start[found[at].row as usize], found[at].row));
    let mut computes = vec![false; spans.id.len()];
    for work in found.iter().filter(|work| role(work.row) != Role::Exchange) {
        computes[work.row as usize] = true;
    }
    let mut threads: HashMap<u32, Doing> = HashMap::new();
    let asked = asked_for(store, exchanges.iter().map(|&at| found[at].row));
    let mut ended: HashMap<u32, Vec<i64>> = HashMap::new();
    for (&at, &launch) in exchanges.iter().zip(&asked).filter(|&(_, &launch)| launch != NONE) {
        ended.entry(spans.track[launch as usize]).or_default().push(found[at].end);
    }
    ended.values_mut().for_each(|times| times.sort_unstable());
    for (at, launch) in exchanges.iter().zip(asked) {
        let work = &mut found[*at];
        work.launch = launch;
        if launch != NONE {
            let was_over = text(store, FINISHED, work.row).as_deref() != Some("false");
            let track = spans.track[launch as usize];
            let thread = threads.entry(track).or_insert_with(|| Doing::of(spans, by_track.of(track), &computes));
            work.end = thread.went_on(work, was_over, &ended[&track]);
        }
    }
    found
}

/// What a span is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It computes, in what it calls or by itself.
    Computing,
    /// It moves data between ranks.
    Exchange,
    Loading,
    /// Compiled code: beside the operators that it calls it computes.
    Compiled,
    /// It is around others, or computes nothing.
    Around,
}

fn role(name: &[u8]) -> Role {
    if name.starts_with(LOADING) {
        return Role::Loading;
    }
    if name.starts_with(COMPILED) {
        return Role::Compiled;
    }
    if is_exchange(name) {
        return Role::Exchange;
    }
    let is_wrapper = WRAPPERS.iter().any(|wrapper| name.starts_with(wrapper));
    let is_view = name.strip_prefix(b"aten::").is_some_and(|name| VIEWS.split(' ').any(|view| view.as_bytes() == name));
    let is_operator = name.windows(2).any(|pair| pair == b"::");
    if is_operator && !is_wrapper && !is_view { Role::Computing } else { Role::Around }
}

/// The operators of a thread that compute: of those within each other the outermost whose time is mostly its own.
///
/// What happens within an exchange is a part of it, unless the thread `asks` for some itself: then it computes meanwhile.
fn of_thread(
    spans: &Spans,
    thread: &Nested,
    role: impl Fn(u32) -> Role,
    (own_work, asks): (&[Own], bool),
    found: &mut Vec<Work>,
) {
    let Nested { rows, around, caller, within } = thread;
    let (start, end) = (|row: u32| spans.start[row as usize], |row: u32| spans.end[row as usize]);
    let mut is_taken = vec![false; rows.len()];
    let of_name = |row: u32| own_work.get(spans.name[row as usize] as usize).copied().unwrap_or(Own::Hardly);
    // Whether it computes itself between what it calls.
    let is_partly = |row: u32| role(row) == Role::Computing && of_name(row) == Own::Partly;
    let computes = |row: u32| role(row) == Role::Compiled || is_partly(row);
    // What each is in that does, and until when that has called others.
    let mut computing = vec![NONE; rows.len()];
    let mut reached: Vec<i64> = rows.iter().map(|&row| start(row)).collect();
    let own = |at: usize, from: i64, until: i64| {
        let row = rows[at];
        let caller = rows.get(caller[at] as usize).copied().unwrap_or(NONE);
        let (least, launch) = if is_partly(row) { (LONG_OWN_NS, row) } else { (LEAST_OWN_NS, caller) };
        (until - from >= least).then_some(Work { row, start: from, end: until, launch })
    };
    for (at, &row) in rows.iter().enumerate() {
        let outer = around[at] as usize;
        let is_within = around[at] != NONE && is_taken[outer];
        if around[at] != NONE {
            computing[at] = if computes(rows[outer]) { around[at] } else { computing[outer] };
        }
        if computing[at] != NONE && !is_within {
            let code = computing[at] as usize;
            found.extend(own(code, reached[code], start(row)));
            reached[code] = reached[code].max(end(row));
        }
        let is_work = match role(row) {
            Role::Exchange => true,
            Role::Computing => within[at] == 0 || of_name(row) == Own::Mostly,
            Role::Loading | Role::Compiled | Role::Around => false,
        };
        is_taken[at] = is_within || (is_work && !(asks && role(row) == Role::Exchange)) || role(row) == Role::Loading;
        if is_work && !is_within && end(row) > start(row) {
            found.push(Work { row, start: start(row), end: end(row), launch: row });
        }
    }
    for (at, _) in rows.iter().enumerate().filter(|&(at, &row)| computes(row) && !is_taken[at]) {
        found.extend(own(at, reached[at], end(rows[at])));
    }
}

/// The rows, with what the columns that were asked for tell of them.
fn push(store: &mut Store, found: &[Work], first_id: u32) {
    let first = store.spans.id.len() as u32;
    let collective = exchanged(store, found);
    let (device, stream) = (vec![Some(0); found.len()], streams(&store.spans, found, &collective));
    let texts = |of: fn(&Exchanged) -> Option<&String>| collective.iter().map(move |known| of(known.as_deref()?));
    let spans = &mut store.spans;
    for (id, work) in (first_id..).zip(found) {
        let row = work.row as usize;
        spans.id.push(id);
        spans.category.push(spans.category[row]);
        spans.name.push(spans.name[row]);
        spans.track.push(spans.track[row]);
        spans.start.push(work.start);
        spans.end.push(work.end);
        spans.class.push(Class::Device);
    }
    for column in &mut spans.args {
        match column.key.as_str() {
            "device" => extend(column, first, &device),
            "stream" => extend(column, first, &stream),
            "External id" => again(column, first, found),
            "Collective name" => name(column, first, texts(|of| Some(&of.name))),
            "dtype" => name(column, first, texts(|of| of.kind.as_ref())),
            "Src Rank" => extend(column, first, &numbers(&collective, |of| of.source)),
            "Dst Rank" => extend(column, first, &numbers(&collective, |of| of.destination)),
            "In msg nelems" | "Out msg nelems" => {
                extend(column, first, &numbers(&collective, |of| of.elements));
            }
            _ => (),
        }
    }
}

fn numbers(of: &[Option<Box<Exchanged>>], number: fn(&Exchanged) -> Option<i64>) -> Vec<Option<i64>> {
    of.iter().map(|known| number(known.as_deref()?)).collect()
}

/// A queue per thread, and for each kind of exchanges on it, in the order in which they first work.
fn streams(spans: &Spans, found: &[Work], collective: &[Option<Box<Exchanged>>]) -> Vec<Option<i64>> {
    let mut known = HashMap::new();
    let of = |(work, exchange): (&Work, &Option<Box<Exchanged>>)| {
        let next = known.len() as i64;
        let kind = exchange.as_ref().map(|of| of.name.clone());
        Some(*known.entry((spans.track[work.row as usize], kind)).or_insert(next))
    };
    found.iter().zip(collective).map(of).collect()
}

/// Values of the rows from `first` on.
fn extend(column: &mut ArgColumn, first: u32, values: &[Option<i64>]) {
    let ArgValues::Int(known) = &mut column.values else { return };
    for (row, value) in (first..).zip(values) {
        if let Some(value) = value {
            column.rows.push(row);
            known.push(*value);
        }
    }
}

/// The values of the rows that these are made of.
fn again(column: &mut ArgColumn, first: u32, found: &[Work]) {
    let ArgValues::Int(known) = &column.values else { return };
    let of = |work: &Work| column.rows.binary_search(&work.row).ok().map(|at| known[at]);
    let values: Vec<Option<i64>> = found.iter().map(of).collect();
    extend(column, first, &values);
}

fn name<'a>(column: &mut ArgColumn, first: u32, texts: impl Iterator<Item = Option<&'a String>>) {
    let ArgValues::Text(codes, strings) = &mut column.values else { return };
    for (row, text) in (first..).zip(texts) {
        if let Some(text) = text {
            column.rows.push(row);
            codes.push(strings.code(text.as_bytes()));
        }
    }
}
