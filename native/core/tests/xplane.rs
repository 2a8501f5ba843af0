//! Profiles of XLA: what is read of one, and that broken ones are survived.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{Array, RecordBatch};
use holotrace_core::Error;
use holotrace_core::columns::ArgType;
use holotrace_core::xplane::Source;
use holotrace_core::xplane::{Options, read, times};
use holotrace_core::xplane::{Selection, Space};

const STATS: [(&str, ArgType); 13] = [
    ("_r", ArgType::Int),
    ("_pt", ArgType::Int),
    ("_p", ArgType::Int),
    ("_ct", ArgType::Int),
    ("_c", ArgType::Int),
    ("step_num", ArgType::Int),
    ("run_id", ArgType::Int),
    ("program_id", ArgType::Int),
    ("hlo_op", ArgType::Text),
    ("memcpy_details", ArgType::Text),
    ("memset_details", ArgType::Text),
    ("hlo_category", ArgType::Text),
    ("% util", ArgType::Float),
];
/// One reading of a file of this size takes microseconds; a second means work that grows faster than the file.
const TOO_LONG: Duration = Duration::from_secs(2);

fn options() -> Options {
    Options { stats: STATS.map(|(key, kind)| (key.to_string(), kind)).to_vec(), arguments: true, hlo: true }
}

/// Made by hand: a TPU and a host with arrows, arguments and programs.
fn made() -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profiles/made.xplane.pb")).unwrap()
}

fn read_bytes(bytes: Vec<u8>) -> Result<Space, Error> {
    read(&Source::Memory(bytes), &options(), &mut || false)
}

fn names(columns: &[&str]) -> Vec<String> {
    columns.iter().map(ToString::to_string).collect()
}

fn texts(batch: &RecordBatch, name: &str) -> Vec<Option<String>> {
    let array = batch.column_by_name(name).unwrap();
    let text = |at: usize| {
        let dictionary = array.as_dictionary::<UInt32Type>();
        let key = dictionary.key(at)?;
        Some(dictionary.values().as_string::<i64>().value(key).to_string())
    };
    (0..array.len()).map(text).collect()
}

fn numbers(batch: &RecordBatch, name: &str) -> Vec<Option<i64>> {
    batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().iter().collect()
}

#[test]
fn events_have_names_exact_times_and_stats() {
    let space = read_bytes(made()).unwrap();
    let columns = names(&["display", "start_ns", "end_ns", "duration_ps", "inner_ps", "hlo_category"]);
    let ops = space.lines.iter().position(|line| line.name == "XLA Ops").unwrap() as u32;
    let selection = Selection { lines: Some([ops].into()), ..Selection::default() };
    let events = space.events(&columns, &selection).unwrap();
    assert_eq!(texts(&events, "display"), [Some("while".to_string()), Some("all-reduce.1".to_string())]);
    let origin = 1_700_000_000_000_000_000;
    assert_eq!(numbers(&events, "start_ns"), [Some(origin + 50_000), Some(origin + 51_000)]);
    assert_eq!(numbers(&events, "duration_ps"), [Some(15_000_000), Some(10_000_000)]);
    assert_eq!(numbers(&events, "inner_ps"), [Some(10_000_000), Some(0)]);
    assert_eq!(texts(&events, "hlo_category"), [Some("while".to_string()), Some("all-reduce".to_string())]);
}

#[test]
fn arguments_are_json_without_the_profilers_own() {
    let space = read_bytes(made()).unwrap();
    let events = space.events(&names(&["name", "arguments"]), &Selection::default()).unwrap();
    let found: Vec<_> = texts(&events, "name").into_iter().zip(texts(&events, "arguments")).collect();
    let of = |name: &str| found.iter().find(|(known, _)| known.as_deref() == Some(name)).unwrap().1.clone();
    assert_eq!(of("data \"load\"").unwrap(), "{\"batch\":16,\"name\":\"é\\u000a\"}");
    assert_eq!(of("train").unwrap(), "{\"step_num\":7}");
    assert_eq!(of("Execute"), None);
    assert_eq!(of("fusion.1"), None);
}

#[test]
fn events_of_one_kind_have_one_number() {
    let space = read_bytes([made(), made()].concat()).unwrap();
    let columns = names(&["kind", "line", "name", "hlo_op"]);
    let events = space.events(&columns, &Selection::default()).unwrap();
    let kinds = events.column(0).as_primitive::<UInt32Type>().values();
    let plane = |row: usize| space.lines[events.column(1).as_primitive::<UInt32Type>().value(row) as usize].plane;
    let (called, ops) = (texts(&events, "name"), texts(&events, "hlo_op"));
    for one in 0..kinds.len() {
        for other in 0..one {
            let is_alike = plane(one) == plane(other) && called[one] == called[other] && ops[one] == ops[other];
            assert_eq!(kinds[one] == kinds[other], is_alike, "{one} and {other}");
        }
    }
    // They are counted in the order in which they come.
    let firsts: Vec<u32> =
        (0..kinds.len()).filter(|&at| !kinds[..at].contains(&kinds[at])).map(|at| kinds[at]).collect();
    assert!(firsts.iter().copied().eq(0..firsts.len() as u32));
}

#[test]
fn events_are_selected_by_stat_and_name() {
    let space = read_bytes(made()).unwrap();
    let found = |selection: Selection| texts(&space.events(&names(&["name"]), &selection).unwrap(), "name");
    let called = |name: &str| Selection { names: Some([name.to_string()].into()), ..Selection::default() };
    assert_eq!(found(called("train")), [Some("train".to_string())]);
    assert_eq!(found(Selection { having: Some("_r".into()), ..called("train") }).len(), 1);
    assert_eq!(found(Selection { having: Some("_r".into()), ..called("Execute") }).len(), 0);
    assert_eq!(found(Selection { lacking: Some("_r".into()), ..called("train") }).len(), 0);
    let (with, without) = (Selection { having: Some("_c".into()), ..Selection::default() }, Selection::default());
    let lacking = Selection { lacking: Some("_c".into()), ..Selection::default() };
    assert_eq!(found(with).len() + found(lacking).len(), found(without).len());
}

#[test]
fn a_cause_is_found_along_arrows_and_tasks() {
    let space = read_bytes(made()).unwrap();
    let events = space.events(&names(&["event_id", "name"]), &Selection::default()).unwrap();
    let id = |name: &str| {
        let found = texts(&events, "name").iter().position(|known| known.as_deref() == Some(name)).unwrap();
        events.column(0).as_primitive::<UInt32Type>().value(found)
    };
    let lines: Vec<u32> = (0..space.lines.len() as u32).collect();
    let columns = names(&["mark", "launch", "root"]);
    let found = space.ancestries(&[id("fusion.1")], &lines, &[id("Execute")], &columns).unwrap();
    let of = |name: &str| found.column_by_name(name).unwrap().as_primitive::<UInt32Type>().value(0);
    assert_eq!(of("mark"), id("Execute"));
    assert_eq!(of("launch"), id("PjitFunction(f)"));
    assert_eq!(of("root"), id("train"));
}

#[test]
fn instructions_have_scope_source_shape_and_groups() {
    let space = read_bytes(made()).unwrap();
    let columns = names(&["module", "name", "scope", "source", "shape", "groups", "result_bytes"]);
    let hlo = space.instructions.table(&columns).unwrap();
    let row = texts(&hlo, "name").iter().position(|name| name.as_deref() == Some("all-reduce.1")).unwrap();
    let text = |name: &str| texts(&hlo, name)[row].clone().unwrap();
    assert_eq!(text("module"), "jit_f");
    assert_eq!(text("scope"), "jit(f)/forward/psum");
    assert_eq!(text("source"), "train.py:12");
    assert_eq!(text("shape"), "f32[8,16]");
    assert_eq!(text("groups"), "[[0, 2], [1, 3]]");
    assert_eq!(numbers(&hlo, "result_bytes")[row], Some(512));
}

#[test]
fn files_put_together_are_one_profile() {
    let one = read_bytes(made()).unwrap();
    let two = read_bytes([made(), made()].concat()).unwrap();
    assert_eq!(two.len(), 2 * one.len());
    // A program that is there twice is one.
    let rows = |space: &Space| space.instructions.table(&names(&["name"])).unwrap().num_rows();
    assert_eq!(rows(&one), rows(&two));
}

#[test]
fn a_file_is_read_as_its_bytes_are() {
    let path = std::env::temp_dir().join(format!("holotrace-{}.xplane.pb", std::process::id()));
    fs::write(&path, made()).unwrap();
    let source = Source::open(fs::File::open(&path).unwrap()).unwrap();
    fs::remove_file(&path).unwrap();
    let columns = names(&["event_id", "line", "name", "start_ns", "end_ns", "run_id"]);
    let of_file = read(&source, &options(), &mut || false).unwrap().events(&columns, &Selection::default()).unwrap();
    let of_bytes = read_bytes(made()).unwrap().events(&columns, &Selection::default()).unwrap();
    assert_eq!(of_file, of_bytes);
    let (host, begun, ended) = times(&source).unwrap();
    assert_eq!((host.as_str(), ended.unwrap() - begun.unwrap()), ("host", 1_000_000_000));
}

#[test]
fn a_file_that_ends_early_says_where() {
    let bytes = made();
    for end in 1..bytes.len() {
        match read_bytes(bytes[..end].to_vec()) {
            Err(Error::NotASpace { offset, .. }) => assert!(offset < bytes.len() as u64),
            Err(error) => panic!("{end}: {error}"),
            // It ended between two planes.
            Ok(_) => {}
        }
    }
}

/// Numbers from a seed (splitmix64): the same run can be made again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = 0xff,
            3 => drop(bytes.drain(at..(at + random.below(50)).min(bytes.len()))),
            4 => {
                let piece = bytes[at..(at + random.below(300)).min(bytes.len())].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            // The largest number, in place of one.
            _ => drop(bytes.splice(at..at, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01])),
        }
        if bytes.is_empty() {
            return;
        }
    }
}

/// Read it and make every table.
fn exercise(bytes: &[u8]) {
    let space = match read_bytes(bytes.to_vec()) {
        Ok(space) => space,
        Err(Error::NotASpace { offset, .. }) => return assert!(offset <= bytes.len() as u64),
        Err(error) => panic!("{error}"),
    };
    let columns =
        ["event_id", "line", "name", "display", "start_ns", "end_ns", "duration_ps", "inner_ps", "arguments", "kind"];
    let all: Vec<&str> = columns.into_iter().chain(STATS.map(|(key, _)| key)).collect();
    let events = space.events(&names(&all), &Selection::default()).expect("events");
    assert_eq!(events.num_rows(), space.len());
    let rows: Vec<u32> = (0..space.len() as u32).collect();
    let lines: Vec<u32> = (0..space.lines.len() as u32).collect();
    space.ancestries(&rows, &lines, &rows, &names(&["mark", "first", "launch", "root"])).expect("ancestries");
    space.instructions.table(&names(&["name", "groups", "shape", "source"])).expect("programs");
    space.planes().and(space.plane_stats()).and(space.lines()).expect("planes");
}

#[test]
fn broken_profiles_are_survived() {
    let seconds = std::env::var("HOLOTRACE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut seed = std::env::var("HOLOTRACE_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut tried = 0u64;
    while Instant::now() < deadline {
        let mut bytes = made();
        mutate(&mut bytes, &mut Random(seed));
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| exercise(&bytes)));
        assert!(outcome.is_ok() && start.elapsed() < TOO_LONG, "seed {seed}: {:?}", start.elapsed());
        seed += 1;
        tried += 1;
    }
    println!("{tried} broken profiles survived");
}
