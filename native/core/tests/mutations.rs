//! Real traces, broken at random: the reader neither panics nor hangs nor loses count, and blocks do not matter.
//!
//! `HOLOTRACE_FUZZ_SECONDS=600 cargo test --release --test mutations -- --nocapture` looks for longer; what it finds is
//! printed as a file to keep in `tests/corpus/`, which is read first every time.

use std::fs;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use holotrace_core::Error;
use holotrace_core::columns::ArgType;
use holotrace_core::io::Blocks;
use holotrace_core::rewrite::{Changes, Edit, rewrite_blocks};
use holotrace_core::trace_event::Store;
use holotrace_core::trace_event::Table;
use holotrace_core::trace_event::{Options, read};

/// One reading of a file of this size takes milliseconds; a second means work that grows faster than the text.
const TOO_LONG: Duration = Duration::from_secs(5);

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

/// Text that means something to the grammar or to what follows it.
const TOKENS: [&[u8]; 26] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\\u",
    b"\\ud800",
    b"null",
    b"NaN",
    b"-1",
    b"1e999",
    b"0.0001",
    b"\"ph\"",
    b"\"args\":{",
    b"\"traceEvents\":[",
    b"\"B\"",
    b"\"E\"",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\0",
    b" ",
    b"99999999999999999999",
    b"{\"ph\":\"X\",\"ts\":1,\"dur\":1}",
];

fn mutate(text: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        if text.is_empty() {
            return;
        }
        let at = random.below(text.len());
        match random.below(7) {
            0 => text[at] = random.next() as u8,
            1 => text[at] ^= 1 << random.below(8),
            2 => drop(text.drain(at..(at + random.below(200)).min(text.len()))),
            3 => text.truncate(at),
            4 => {
                let token = TOKENS[random.below(TOKENS.len())];
                text.splice(at..at, token.iter().copied());
            }
            5 => {
                let token = TOKENS[random.below(TOKENS.len())];
                let end = (at + token.len()).min(text.len());
                text.splice(at..end, token.iter().copied());
            }
            _ => {
                let piece = text[at..(at + random.below(300)).min(text.len())].to_vec();
                let to = random.below(text.len());
                text.splice(to..to, piece);
            }
        }
    }
}

fn options() -> Options {
    let args = [
        ("stream", ArgType::Int),
        ("correlation", ArgType::Int),
        ("Input Dims", ArgType::Text),
        ("memory bandwidth (GB/s)", ArgType::Float),
        ("Collective name", ArgType::Text),
    ];
    Options {
        tables: Table::ALL.iter().map(|(_, table)| *table).collect(),
        args: args.map(|(key, kind)| (key.to_string(), kind)).to_vec(),
    }
}

/// Columns that make every table do its work.
const COLUMNS: [(&str, &[&str]); 9] = [
    ("events", &["name", "pid", "start_ns", "Input Dims"]),
    ("device_events", &["launch_id", "stream"]),
    ("launches", &["launch_id", "correlation"]),
    ("steps", &["step"]),
    ("flows", &["from_id", "to_ns"]),
    ("counters", &["value"]),
    ("hardware_counters", &["counter", "value"]),
    ("track_labels", &["value"]),
    // Not the example: how much of it is shown depends on where a block ends.
    ("problems", &["problem", "count", "first_offset"]),
];

/// What a reading gave, in a form that can be compared.
fn reading(text: &[u8], block_bytes: usize) -> String {
    let blocks = Blocks::of(Box::new(Cursor::new(text.to_vec())), 0, block_bytes);
    let store = match read(blocks, &options(), &mut || false) {
        Ok(store) => store,
        Err(Error::NotATrace { offset, .. }) => return offset.to_string(),
        Err(error) => panic!("{error}"),
    };
    let c = store.counts;
    let tabled = c.complete + c.begins + c.ends + c.instants + c.counters + c.flows + c.labels;
    assert_eq!(c.entries, tabled + store.problems.losses(), "entries in are entries out and entries reported");
    let tables = COLUMNS.map(|(table, columns)| {
        let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
        format!("{:?}", store.table(table, &columns).expect("a table"))
    });
    format!("{c:?} {tables:?} {:?}", store.metadata)
}

/// An arg that no trace has.
const MARK: &str = "numbered";

/// The text with every third of the events of `store` numbered in its args.
fn numbered(text: &[u8], store: &Store, only: Option<Vec<String>>, block_bytes: usize) -> Vec<u8> {
    let ids = marks(store).into_iter().filter_map(|(id, _)| (id % 3 == 0).then_some(id));
    let edit = |id: u32| Edit { args: vec![(MARK.into(), id.to_string().into())], ..Edit::default() };
    let changes = Changes::new(ids.map(|id| (vec![id], edit(id))).collect(), vec![], vec![]);
    rewritten(text, &changes.only(only), block_bytes)
}

fn rewritten(text: &[u8], changes: &Changes, block_bytes: usize) -> Vec<u8> {
    let blocks = Blocks::of(Box::new(Cursor::new(text.to_vec())), 0, block_bytes);
    let mut out = Vec::new();
    let push = &mut |piece: &[u8]| {
        out.extend_from_slice(piece);
        Ok(())
    };
    rewrite_blocks(blocks, changes, push, &mut || false).expect("what can be read can be written");
    out
}

/// Every event by its number, with the number in its args.
fn marks(store: &Store) -> Vec<(u32, Option<i64>)> {
    let table = store.table("events", &["event_id".to_string(), MARK.to_string()]).expect("a table");
    let ids = table.column(0).as_primitive::<UInt32Type>().values().iter().copied();
    ids.zip(table.column(1).as_primitive::<Int64Type>().iter()).collect()
}

fn check_rewriting(text: &[u8]) {
    let mut options = options();
    options.args.push((MARK.into(), ArgType::Int));
    let read =
        |text: &[u8]| read(Blocks::of(Box::new(Cursor::new(text.to_vec())), 0, 1 << 20), &options, &mut || false);
    let Ok(store) = read(text) else { return };
    for block_bytes in [1 << 20, 97] {
        let same = rewritten(text, &Changes::default(), block_bytes);
        assert!(same == text, "with nothing to change, the text is the same: {}", same.escape_ascii());
        let found = marks(&read(&numbered(text, &store, None, block_bytes)).expect("a trace stays one"));
        let expected: Vec<_> =
            marks(&store).iter().map(|&(id, _)| (id, (id % 3 == 0).then_some(i64::from(id)))).collect();
        assert_eq!(found, expected, "an event's number is the same for reading and writing");
        // Damage may be read otherwise once its neighbours are gone.
        if store.problems.losses() > 0 {
            continue;
        }
        // Without any event there may be nothing left that tells a trace.
        let Ok(few) = read(&numbered(text, &store, Some(vec![]), block_bytes)) else { continue };
        let found: Vec<_> = marks(&few).iter().map(|&(_, mark)| mark).collect();
        let expected: Vec<_> = expected.iter().filter(|(_, mark)| mark.is_some()).map(|&(_, mark)| mark).collect();
        assert_eq!(found, expected, "of no category, the numbered events stay and no others");
    }
}

fn check(text: &[u8], what: &dyn std::fmt::Display) {
    let start = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        assert_eq!(reading(text, 1 << 20), reading(text, 97), "where blocks end must not matter");
        check_rewriting(text);
    }));
    if outcome.is_err() || start.elapsed() > TOO_LONG {
        let kept = std::env::temp_dir().join("holotrace-found.json");
        fs::write(&kept, text).expect("a file for what was found");
        panic!("{what}: {:?}; kept as {}", start.elapsed(), kept.display());
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default();
    files.sort();
    files
}

#[test]
fn what_was_found_before_stays_mended() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    for path in files(&corpus) {
        check(&fs::read(&path).unwrap(), &path.display());
    }
}

#[test]
fn broken_traces_are_survived() {
    let seconds = std::env::var("HOLOTRACE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let seeds: Vec<Vec<u8>> = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds"))
        .into_iter()
        .map(|path| fs::read(path).unwrap())
        .collect();
    assert!(!seeds.is_empty(), "tests/seeds holds small traces to break");
    let mut seed = std::env::var("HOLOTRACE_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut tried = 0u64;
    while Instant::now() < deadline {
        let mut random = Random(seed);
        let mut text = seeds[random.below(seeds.len())].clone();
        mutate(&mut text, &mut random);
        check(&text, &format!("seed {seed}"));
        seed += 1;
        tried += 1;
    }
    println!("{tried} broken traces survived");
}
