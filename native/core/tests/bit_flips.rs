//! Every bit of an event flipped, one at a time: a value changes, or a problem is told, and nothing vanishes in silence.

use std::io::Cursor;

use arrow_array::RecordBatch;
use holotrace_core::Error;
use holotrace_core::columns::ArgType;
use holotrace_core::io::Blocks;
use holotrace_core::trace_event::{Options, Store, Table, read};

const ARGS: [(&str, ArgType); 9] = [
    ("stream", ArgType::Int),
    ("device", ArgType::Int),
    ("correlation", ArgType::Int),
    ("est. achieved occupancy %", ArgType::Float),
    ("Input Dims", ArgType::Text),
    ("Collective name", ArgType::Text),
    ("Bytes", ArgType::Int),
    ("Addr", ArgType::Int),
    ("Python id", ArgType::Int),
];

const SPANS: [&str; 7] = ["event_id", "category", "name", "pid", "tid", "start_ns", "end_ns"];
const INSTANTS: [&str; 6] = ["event_id", "category", "name", "pid", "tid", "time_ns"];

const FLOWS: [&str; 10] =
    ["category", "flow", "from_id", "to_id", "from_ns", "to_ns", "from_pid", "from_tid", "to_pid", "to_tid"];

/// Every table with all its columns but args.
const TABLES: [(&str, &[&str]); 7] = [
    ("events", &SPANS),
    ("device_events", &["launch_id", "step"]),
    ("instants", &INSTANTS),
    ("counters", &["event_id", "name", "series", "pid", "time_ns", "value"]),
    ("hardware_counters", &["counter", "value", "event_id"]),
    ("flows", &FLOWS),
    ("track_labels", &["label", "pid", "tid", "value"]),
];

const OF_A_CLASS: [&str; 2] = ["device_events", "hardware_counters"];

/// Those that have args.
const WITH_ARGS: [&str; 2] = ["events", "instants"];

/// One event of each kind, whose every member has a column.
const EVENTS: [&str; 11] = [
    r#"{"ph":"X","cat":"kernel","name":"gemm<int>","pid":0,"tid":7,"ts":110.125,"dur":20.5,"args":{"stream":7,"device":0,"correlation":5,"est. achieved occupancy %":31.5}}"#,
    "{\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm \\u00e9\", \"pid\": 3381, \"tid\": 3382,\n    \"ts\": 1712184698123456.789, \"dur\": 12,\n    \"args\": {\n      \"Input Dims\": [[2, 3], []], \"Python id\": 3\n    }\n  }",
    r#"{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":3381,"tid":3381,"ts":100,"dur":5,"args":{"correlation":5}}"#,
    r#"{"ph":"X","cat":"user_annotation","name":"ProfilerStep#3","pid":3381,"tid":3381,"ts":90,"dur":100}"#,
    r#"{"ph":"B","cat":"cpu_op","name":"open","pid":3381,"tid":9,"ts":100.5}"#,
    r#"{"ph":"E","pid":3381,"tid":8,"ts":140.25}"#,
    r#"{"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":3381,"tid":3381,"ts":120.5,"args":{"Bytes":512,"Addr":1}}"#,
    r#"{"ph":"C","name":"GPU 0 Utilization","pid":0,"ts":100.5,"args":{"Utilization":0.75}}"#,
    r#"{"ph":"s","cat":"ac2g","id":5,"pid":3381,"tid":3381,"ts":100.5}"#,
    r#"{"ph":"f","cat":"ac2g","id":5,"pid":0,"tid":7,"ts":110.125}"#,
    r#"{"ph":"M","name":"process_name","pid":3381,"tid":0,"args":{"name":"python"}}"#,
];

/// What stands before and behind the event that is damaged.
const BEFORE: &str = r#"{"schemaVersion":1,"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#2","pid":3381,"tid":3381,"ts":80,"dur":10},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":3381,"tid":3381,"ts":101,"dur":5,"args":{"correlation":6}},
"#;
const BEGIN: &str = r#"{"ph":"B","cat":"cpu_op","name":"begun","pid":3381,"tid":8,"ts":100.5}"#;
const END: &str = r#"{"ph":"E","pid":3381,"tid":9,"ts":150}"#;
const BEHIND: &str = r#",
{"ph":"X","cat":"kernel","name":"relu","pid":0,"tid":7,"ts":140,"dur":3.25,"args":{"stream":7,"device":0,"correlation":6}},
{"ph":"s","cat":"ac2g","id":6,"pid":3381,"tid":3381,"ts":101.5},
{"ph":"f","cat":"ac2g","id":6,"pid":0,"tid":7,"ts":140},
{"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":3381,"tid":3381,"ts":121,"args":{"Bytes":-512,"Addr":1}}"#;

fn options() -> Options {
    Options {
        tables: Table::ALL.iter().map(|(_, table)| *table).collect(),
        args: ARGS.map(|(key, kind)| (key.to_string(), kind)).to_vec(),
    }
}

fn read_text(text: &[u8]) -> Result<Store, Error> {
    read(Blocks::of(Box::new(Cursor::new(text.to_vec())), 0, 1 << 20), &options(), &mut || false)
}

fn table(store: &Store, name: &str, columns: &[&str]) -> RecordBatch {
    let args = ARGS.iter().map(|(key, _)| *key).filter(|_| WITH_ARGS.contains(&name));
    let columns: Vec<String> = columns.iter().copied().chain(args).map(ToString::to_string).collect();
    store.table(name, &columns).unwrap()
}

/// All values, and how many rows there are; events of a class are among all events as well.
fn values(store: &Store) -> (Vec<RecordBatch>, usize) {
    let tables = TABLES.map(|(name, columns)| (name, table(store, name, columns)));
    let rows = tables.iter().filter(|(name, _)| !OF_A_CLASS.contains(name)).map(|(_, rows)| rows.num_rows()).sum();
    (tables.map(|(_, rows)| rows).into(), rows)
}

fn is_told(store: &Store) -> bool {
    table(store, "problems", &["count"]).num_rows() > 0
}

/// Whether a text says the same after a flip: another letter case of an escape or of an instant, a zero before a number.
fn means_the_same(whole: &[u8], damaged: &[u8], at: usize) -> bool {
    let before = |text: &[u8]| at.checked_sub(1).is_some_and(|before| whole[before..].starts_with(text));
    let is_before_number = whole[at + 1].is_ascii_digit() || whole[at + 1] == b'.';
    match (whole[at], damaged[at]) {
        (b'a'..=b'f', b'A'..=b'F') => whole[at.saturating_sub(5)..at].contains(&b'\\'),
        (b'i', b'I') => before(b"\"i\""),
        (b' ', b'0') | (b'0', b' ') => is_before_number,
        _ => false,
    }
}

/// What is wrong with a reading of a damaged text, if anything.
fn silence(text: &[u8], whole: &(Vec<RecordBatch>, usize)) -> Option<&'static str> {
    let Ok(store) = read_text(text) else { return None };
    if is_told(&store) {
        return None;
    }
    let damaged = values(&store);
    match (damaged.0 == whole.0, damaged.1 < whole.1) {
        (true, _) => Some("nothing changes"),
        (false, true) => Some("rows vanish"),
        (false, false) => None,
    }
}

#[test]
fn a_flipped_bit_changes_a_value_or_is_told() {
    let silent: Vec<String> = std::thread::scope(|scope| {
        let each: Vec<_> = EVENTS.iter().map(|event| scope.spawn(|| silent_flips(event))).collect();
        each.into_iter().flat_map(|flips| flips.join().unwrap()).collect()
    });
    assert!(silent.is_empty(), "{} flips:\n{}", silent.len(), silent.join("\n"));
}

/// The flips of an event of which nothing is known afterwards.
fn silent_flips(event: &str) -> Vec<String> {
    let mut silent = Vec::new();
    // An end and a begin are each the other's of what stands around them.
    let before = if event.contains(r#""ph":"E""#) { format!("{BEFORE}{BEGIN},\n") } else { BEFORE.into() };
    let behind = if event.contains(r#""ph":"B""#) { format!("{BEHIND},\n{END}") } else { BEHIND.into() };
    let text = format!("{before}{event}{behind}\n],\"traceName\":\"a\"}}");
    let start = text.find(event).unwrap();
    let text = text.into_bytes();
    let store = read_text(&text).unwrap();
    assert!(!is_told(&store), "{event}");
    let whole = values(&store);
    for at in start..start + event.len() {
        for bit in 0..8 {
            let mut damaged = text.clone();
            damaged[at] ^= 1 << bit;
            if means_the_same(&text, &damaged, at) {
                continue;
            }
            if let Some(what) = silence(&damaged, &whole) {
                let shown = damaged[start..start + event.len()].escape_ascii();
                silent.push(format!("{what}: byte {} is {:?}: {shown}", at - start, damaged[at] as char));
            }
        }
    }
    silent
}
