//! Text in, rows out: what becomes of every kind of entry, and of every kind of damage.

use std::io::Cursor;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt32Type};
use arrow_array::{ArrayRef, RecordBatch};
use holotrace_core::Error;
use holotrace_core::columns::ArgType;
use holotrace_core::io::Blocks;
use holotrace_core::trace_event::Store;
use holotrace_core::trace_event::{MAX_DURATION_NS, MAX_TIME_NS, Table};
use holotrace_core::trace_event::{Options, read};

fn everything() -> Options {
    let args = [
        ("stream", ArgType::Int),
        ("device", ArgType::Int),
        ("correlation", ArgType::Int),
        ("memory bandwidth (GB/s)", ArgType::Float),
        ("Input Dims", ArgType::Text),
        ("Collective name", ArgType::Text),
        ("Bytes", ArgType::Int),
    ];
    Options {
        tables: Table::ALL.iter().map(|(_, table)| *table).collect(),
        args: args.map(|(key, kind)| (key.to_string(), kind)).to_vec(),
    }
}

fn read_in_blocks(text: &[u8], block_bytes: usize) -> Result<Store, Error> {
    let blocks = Blocks::of(Box::new(Cursor::new(text.to_vec())), text.len() as u64, block_bytes);
    read(blocks, &everything(), &mut || false)
}

/// Read it in one block, then in small ones: where a block ends must not matter.
fn read_text(text: &str) -> Store {
    let store = read_in_blocks(text.as_bytes(), 1 << 20).unwrap();
    for block_bytes in [1, 7, 64] {
        let other = read_in_blocks(text.as_bytes(), block_bytes).unwrap();
        assert_eq!(summary(&store), summary(&other), "with blocks of {block_bytes} bytes");
    }
    let c = store.counts;
    let tabled = c.complete + c.begins + c.ends + c.instants + c.counters + c.flows + c.labels;
    assert_eq!(c.entries, tabled + store.problems.losses(), "every entry is in a table or among the problems");
    store
}

fn summary(store: &Store) -> String {
    format!("{:?} {:?} {:?} {:?}", store.counts, rows(store), problems(store), store.metadata)
}

fn column(store: &Store, table: &str, name: &str) -> ArrayRef {
    let batch: RecordBatch = store.table(table, &[name.to_string()]).unwrap();
    batch.column_by_name(name).unwrap().clone()
}

fn numbers(store: &Store, table: &str, name: &str) -> Vec<Option<i64>> {
    let array = column(store, table, name);
    match array.as_primitive_opt::<Int64Type>() {
        Some(values) => values.iter().collect(),
        None => array.as_primitive::<UInt32Type>().iter().map(|id| id.map(i64::from)).collect(),
    }
}

fn texts(store: &Store, table: &str, name: &str) -> Vec<Option<String>> {
    let array = column(store, table, name);
    let dictionary = array.as_dictionary::<UInt32Type>();
    let values = dictionary.values().as_string::<i64>();
    dictionary.keys().iter().map(|key| key.map(|key| values.value(key as usize).to_string())).collect()
}

/// Name, start and end of every event.
fn rows(store: &Store) -> Vec<(String, i64, i64)> {
    let names = texts(store, "events", "name").into_iter().map(Option::unwrap_or_default);
    let starts = numbers(store, "events", "start_ns").into_iter().flatten();
    let ends = numbers(store, "events", "end_ns").into_iter().flatten();
    names.zip(starts.zip(ends)).map(|(name, (start, end))| (name, start, end)).collect()
}

fn problems(store: &Store) -> Vec<(String, i64, i64)> {
    let names = column(store, "problems", "problem");
    let counts = numbers(store, "problems", "count").into_iter().flatten();
    let offsets = numbers(store, "problems", "first_offset").into_iter().flatten();
    let names = names.as_string::<i64>().iter().map(|name| name.unwrap().to_string());
    names.zip(counts.zip(offsets)).map(|(name, (count, offset))| (name, count, offset)).collect()
}

fn row(name: &str, start: i64, end: i64) -> (String, i64, i64) {
    (name.to_string(), start, end)
}

fn only_problem(store: &Store) -> (String, i64) {
    let problems = problems(store);
    assert_eq!(problems.len(), 1, "{problems:?}");
    (problems[0].0.clone(), problems[0].1)
}

fn one(event: &str) -> Store {
    read_text(&format!(r#"{{"traceEvents":[{event}]}}"#))
}

#[test]
fn a_complete_event_is_a_row_with_exact_nanoseconds() {
    let store =
        one(r#"{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":8,"ts":1712184698123456.789,"dur":1.5}"#);
    assert_eq!(rows(&store), [row("aten::mm", 1712184698123456789, 1712184698123458289)]);
    assert_eq!(texts(&store, "events", "pid"), [Some("7".into())]);
    assert_eq!(numbers(&store, "cpu_ops", "event_id"), [Some(0)]);
    assert_eq!(problems(&store), []);
}

#[test]
fn pretty_text_and_any_order_of_keys_read_the_same() {
    let store = read_text(
        "\u{feff}{\n  \"displayTimeUnit\" : \"ms\",\n \"traceEvents\" : [\n  { \"args\" : { \"stream\" : 7 , \"device\":0 } ,\n \"dur\" : 2 , \
         \"ts\" : 1 , \"name\" : \"k\" , \"cat\" : \"kernel\" , \"ph\" : \"X\" , \"pid\" : 0 , \"tid\" : 7 } \n ] , \"traceName\" : \"t\" }",
    );
    assert_eq!(rows(&store), [row("k", 1000, 3000)]);
    assert_eq!(numbers(&store, "device_events", "stream"), [Some(7)]);
    let metadata = [("displayTimeUnit", r#""ms""#), ("traceName", r#""t""#)];
    assert_eq!(store.metadata, metadata.map(|(key, value)| (key.to_string(), value.to_string())));
    assert_eq!(only_problem(&store).0, "byte order mark");
}

#[test]
fn a_bare_array_needs_no_closing_bracket() {
    let store = read_text(r#"[{"ph":"X","name":"a","ts":1,"dur":1},"#);
    assert_eq!((rows(&store).len(), problems(&store).len()), (1, 0));
}

#[test]
fn an_empty_list_is_a_trace_without_events() {
    for text in [r#"{"traceEvents":[]}"#, r#"{"schemaVersion":1,"traceEvents":[]}"#] {
        let store = read_text(text);
        assert_eq!((rows(&store).len(), problems(&store).len()), (0, 0), "{text}");
    }
}

#[test]
fn begin_and_end_on_one_track_are_one_event() {
    let store = read_text(
        r#"[{"ph":"B","name":"outer","pid":1,"tid":1,"ts":1},{"ph":"B","name":"inner","pid":1,"tid":1,"ts":2},
            {"ph":"B","name":"elsewhere","pid":1,"tid":2,"ts":3},{"ph":"E","pid":1,"tid":1,"ts":4},
            {"ph":"E","pid":1,"tid":1,"ts":9},{"ph":"E","pid":1,"tid":3,"ts":9}]"#,
    );
    assert_eq!(rows(&store), [row("outer", 1000, 9000), row("inner", 2000, 4000), row("elsewhere", 3000, 3000)]);
    let kinds: Vec<_> = problems(&store).into_iter().map(|(kind, count, _)| (kind, count)).collect();
    assert_eq!(kinds, [("end without begin".into(), 1), ("begin without end".into(), 1)]);
}

#[test]
fn one_launch_may_start_many_device_events() {
    let store = read_text(
        r#"[{"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","ts":1,"dur":1,"args":{"correlation":5}},
            {"ph":"X","cat":"cuda_driver","name":"cuGraphLaunch","ts":1.2,"dur":0.1,"args":{"correlation":5}},
            {"ph":"X","cat":"kernel","name":"a","ts":3,"dur":1,"args":{"correlation":5}},
            {"ph":"X","cat":"kernel","name":"b","ts":4,"dur":1,"args":{"correlation":5}},
            {"ph":"X","cat":"kernel","name":"alone","ts":4,"dur":1,"args":{"correlation":6}}]"#,
    );
    assert_eq!(numbers(&store, "device_events", "launch_id"), [Some(0), Some(0), None]);
    assert_eq!(numbers(&store, "device_events", "launch_ns"), [Some(1000), Some(1000), None]);
    assert_eq!(numbers(&store, "launches", "device_event_id"), [Some(2), Some(3)]);
}

#[test]
fn ids_far_apart_are_matched_too() {
    let event = |category: &str, id: &str| {
        format!(r#"{{"ph":"X","cat":"{category}","name":"a","ts":1,"dur":1,"args":{{"correlation":{id}}}}}"#)
    };
    let ids = ["9223372036854775807", "7", "-1", "0", "123456789012"];
    let pairs = ids.map(|id| format!("{},{}", event("cuda_runtime", id), event("kernel", id)));
    let store = read_text(&format!("[{}]", pairs.join(",")));
    assert_eq!(numbers(&store, "device_events", "launch_id"), [Some(0), Some(2), None, None, Some(8)]);
}

#[test]
fn steps_come_from_the_host_only() {
    let store = read_text(
        r#"[{"ph":"X","cat":"user_annotation","name":"ProfilerStep#2","ts":20,"dur":9},
            {"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","ts":10,"dur":9},
            {"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","ts":11,"dur":5},
            {"ph":"X","cat":"gpu_user_annotation","name":"ProfilerStep#3","ts":1,"dur":9}]"#,
    );
    assert_eq!(numbers(&store, "steps", "step"), [Some(1), Some(2)]);
    assert_eq!(numbers(&store, "steps", "event_id"), [Some(1), Some(0)]);
}

#[test]
fn arrows_join_the_events_they_touch() {
    let store = read_text(
        r#"[{"ph":"X","name":"host","pid":1,"tid":1,"ts":0,"dur":9},{"ph":"X","name":"launch","pid":1,"tid":1,"ts":2,"dur":2},
            {"ph":"X","name":"k","pid":0,"tid":7,"ts":5,"dur":2},{"ph":"X","name":"k","pid":0,"tid":7,"ts":8,"dur":2},
            {"ph":"s","cat":"ac2g","id":3,"pid":1,"tid":1,"ts":2},{"ph":"f","cat":"ac2g","id":3,"pid":0,"tid":7,"ts":5,"bp":"e"},
            {"ph":"f","cat":"ac2g","id":3,"pid":0,"tid":7,"ts":8},{"ph":"s","cat":"fwdbwd","id":3,"pid":1,"tid":1,"ts":8}]"#,
    );
    assert_eq!(numbers(&store, "flows", "from_id"), [Some(1), Some(1), Some(0)]);
    assert_eq!(numbers(&store, "flows", "to_id"), [Some(2), Some(3), None]);
}

#[test]
fn counters_instants_and_labels_have_their_tables() {
    let store = read_text(
        r#"[{"ph":"C","name":"queue","pid":0,"ts":5,"args":{"length":3,"other":1.5}},
            {"ph":"i","name":"[memory]","pid":1,"tid":2,"ts":6,"s":"t","args":{"Bytes":-512}},
            {"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"python"}}]"#,
    );
    assert_eq!(texts(&store, "counters", "series"), [Some("length".into()), Some("other".into())]);
    assert_eq!(numbers(&store, "memory", "Bytes"), [Some(-512)]);
    assert_eq!(texts(&store, "track_labels", "value"), [Some("python".into())]);
}

#[test]
fn what_hardware_counters_read_is_kept_whatever_they_are_called() {
    let store = read_text(
        r#"[{"ph":"X","cat":"cuda_profiler_range","name":"gemm","ts":5,"dur":1,"args":{"a.sum":86114304,"b":1.5,"c":"x"}},
            {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","ts":1,"dur":1,"args":{"correlation":3}},
            {"ph":"X","cat":"kernel","name":"gemm","ts":9,"dur":1,"args":{"b":7}},
            {"ph":"X","cat":"cuda_profiler_range","name":"add","ts":7,"dur":1,"args":{"b":2}},
            {"ph":"X","cat":"cuda_profiler_range","name":"none","ts":8,"dur":1}]"#,
    );
    assert_eq!(texts(&store, "hardware_counters", "counter"), ["a.sum", "b", "b"].map(|name| Some(name.into())));
    assert_eq!(numbers(&store, "hardware_counters", "event_id"), [Some(0), Some(0), Some(3)]);
    let values = column(&store, "hardware_counters", "value");
    assert_eq!(values.as_primitive::<Float64Type>().values()[..], [86114304.0, 1.5, 2.0]);
    assert_eq!(numbers(&store, "runtime_calls", "correlation"), [Some(3)]);
}

#[test]
fn an_arg_nobody_declared_comes_as_it_is_written() {
    let args = vec![("my arg".to_string(), ArgType::Text)];
    let text = br#"[{"ph":"X","cat":"cpu_op","name":"a","ts":1,"dur":1,"args":{"my arg":{"x":[1, 2]}}}]"#;
    let blocks = Blocks::of(Box::new(Cursor::new(text.to_vec())), 0, 1 << 16);
    let store = read(blocks, &Options { tables: vec![Table::Events], args }, &mut || false).unwrap();
    assert_eq!(texts(&store, "events", "my arg"), [Some(r#"{"x":[1, 2]}"#.into())]);
}

#[test]
fn any_number_of_args_can_be_asked_for() {
    let keys: Vec<String> = (0..1000).map(|i| format!("arg {i}")).collect();
    let pairs: Vec<String> = keys.iter().enumerate().map(|(i, key)| format!(r#""{key}":{i}"#)).collect();
    let text = format!(r#"[{{"ph":"X","name":"a","ts":1,"dur":1,"args":{{{}}}}}]"#, pairs.join(","));
    let args = keys.iter().map(|key| (key.clone(), ArgType::Int)).collect();
    let blocks = Blocks::of(Box::new(Cursor::new(text.into_bytes())), 0, 1 << 16);
    let store = read(blocks, &Options { tables: vec![Table::Events], args }, &mut || false).unwrap();
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(numbers(&store, "events", key), [Some(i as i64)]);
    }
}

#[test]
fn events_no_table_needs_are_counted() {
    let text =
        br#"[{"ph":"X","cat":"cpu_op","name":"a","ts":1,"dur":1},{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1}]"#;
    let blocks = Blocks::of(Box::new(Cursor::new(text.to_vec())), 0, 1 << 16);
    let options = Options { tables: vec![Table::DeviceEvents], args: vec![] };
    let store = read(blocks, &options, &mut || false).unwrap();
    assert_eq!((store.counts.complete, store.counts.skipped), (2, 1));
}

#[test]
fn of_operators_only_the_steps_are_read_where_nothing_else_is_asked_for() {
    let text = br#"[{"ph":"X","cat":"cpu_op","name":"a","ts":0,"dur":1},{"ph":"X","cat":"cpu_op","name":"a"},
        {"ph":"X","cat":"cpu_op","name":"ProfilerStep#1","ts":1,"dur":1},{"name":"a","cat":"cpu_op","ph":"X","ts":2,"dur":1},
        {"ph":"X","cat":"user_annotation","name":"Profiler\u0053tep#2","ts":3,"dur":1},{"ph":"X","cat":"cpu_op","ts":4}]"#;
    let blocks = Blocks::of(Box::new(Cursor::new(text.to_vec())), 0, 1 << 16);
    let options = Options { tables: vec![Table::Steps], args: vec![] };
    let store = read(blocks, &options, &mut || false).unwrap();
    assert_eq!(numbers(&store, "steps", "step"), [Some(1), Some(2)]);
    assert_eq!((store.counts.complete, store.counts.skipped), (6, 3));
    assert_eq!(problems(&store).len(), 2, "those of the one without a name, which may have been a step");
}

#[test]
fn escapes_and_damaged_text_are_read() {
    let store = one(r#"{"ph":"X","name":"a\"\u00e9\ud83d\ude00","ts":1,"dur":1}"#);
    assert_eq!(rows(&store)[0].0, "a\"é😀");
    let bytes = b"[{\"ph\":\"X\",\"name\":\"\xff\",\"ts\":1,\"dur\":1}]";
    let store = read_in_blocks(bytes, 64).unwrap();
    assert_eq!((rows(&store)[0].0.as_str(), only_problem(&store).0.as_str()), ("\u{fffd}", "invalid UTF-8 or escape"));
}

/// Fields of an event, what its row must be, and the problem that must be said.
#[test]
fn odd_numbers_are_read_or_said() {
    for (fields, end, problem) in [
        (r#""ts":1,"dur":-5"#, Some(1000), "negative duration"),
        (r#""ts":1,"dur":9e15"#, Some(1000), "duration over a week"),
        (r#""ts":1,"dur":1e300"#, Some(1000), "duration over a week"),
        (r#""ts":1"#, Some(1000), "duration missing"),
        (r#""ts":1,"dur":NaN"#, Some(1000), "duration missing"),
        (r#""ts":1,"dur":null"#, Some(1000), "duration missing"),
        (r#""ts":"1","dur":2"#, Some(3000), "number written as text"),
        (r#""ts":1,"dur":0.0004"#, Some(1000), "digits below a nanosecond"),
        (r#""ts":1e300,"dur":1"#, None, "time beyond 146 years"),
        (r#""ts":Infinity,"dur":1"#, None, "start time missing"),
        (r#""dur":1"#, None, "start time missing"),
        (r#""ts":1,"dur":1,"dur":2"#, Some(3000), "duplicate key"),
    ] {
        let store = one(&format!(r#"{{"ph":"X","name":"a",{fields}}}"#));
        assert_eq!(rows(&store).first().map(|row| row.2), end, "{fields}");
        assert_eq!(only_problem(&store), (problem.to_string(), 1), "{fields}");
    }
}

#[test]
fn what_lies_between_any_two_times_fits_in_64_bits() {
    let most = MAX_TIME_NS / 1000;
    let text = format!(
        r#"[{{"ph":"X","name":"a","ts":-{most},"dur":0}},{{"ph":"X","name":"b","ts":{most},"dur":{}}},
            {{"ph":"X","name":"c","ts":{},"dur":0}},{{"ph":"X","name":"d","ts":-{},"dur":0}}]"#,
        MAX_DURATION_NS / 1000,
        most + 1,
        most + 1,
    );
    let store = read_text(&text);
    let rows = rows(&store);
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1].2.checked_sub(rows[0].1), Some(2 * (most * 1000) + MAX_DURATION_NS));
    assert_eq!(only_problem(&store), ("time beyond 146 years".to_string(), 2));
}

#[test]
fn a_begin_and_an_end_more_than_a_week_apart_have_no_duration() {
    let store = read_text(r#"[{"ph":"B","name":"a","ts":1},{"ph":"E","ts":9e14}]"#);
    assert_eq!(rows(&store)[0].2, 1000);
    assert_eq!(only_problem(&store), ("duration over a week".to_string(), 1));
}

#[test]
fn an_entry_with_a_part_missing_is_kept_or_said() {
    for (event, rows_expected, problem) in [
        (r#"{"ph":"X","ts":1,"dur":1}"#, 1, "name missing"),
        (r#"{"name":"a","ts":1,"dur":1}"#, 1, "phase missing"),
        (r#"{"ph":"b","name":"a","ts":1,"id":1}"#, 0, "phase not read"),
        (r#"{"ph":"s","name":"a","ts":1}"#, 0, "arrow without id or time"),
        (r#"{"ph":"C","name":"a","ts":1,"args":{"x":"y"}}"#, 0, "counter without numbers"),
    ] {
        let store = one(event);
        assert_eq!(rows(&store).len(), rows_expected, "{event}");
        assert_eq!(only_problem(&store), (problem.to_string(), 1), "{event}");
    }
}

#[test]
fn what_stands_between_events_and_is_none_is_left_out() {
    let store = read_text(r#"[{"ph":"X","name":"a","ts":1,"dur":1},{},17,"x",null,[1]]"#);
    assert_eq!((rows(&store).len(), only_problem(&store)), (1, ("entry is no event".into(), 5)));
}

#[test]
fn events_may_stand_on_lines_without_commas() {
    let store = read_text(
        "[\n{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":1}\n{\"ph\":\"X\",\"name\":\"b\",\"ts\":2,\"dur\":1}\n",
    );
    assert_eq!((rows(&store).len(), only_problem(&store)), (2, ("comma missing between events".into(), 1)));
}

#[test]
fn every_whole_event_before_a_cut_is_kept() {
    let whole = r#"{"schemaVersion":1,"traceEvents":[{"ph":"X","name":"a","ts":1,"dur":1},{"ph":"X","name":"b","ts":2,"dur":1,"args":{"stream":1}}],"traceName":"t"}"#;
    let first = whole.find("},{").unwrap() + 1;
    let second = whole.find("}}").unwrap() + 2;
    for cut in 20..whole.len() {
        let store = read_text(&whole[..cut]);
        let expected = usize::from(cut >= first) + usize::from(cut >= second);
        assert_eq!(rows(&store).len(), expected, "cut at {cut}");
        assert_eq!(only_problem(&store), ("file cut off".into(), 1), "cut at {cut}");
    }
}

#[test]
fn reading_goes_on_behind_a_malformed_event() {
    for broken in
        [r#"{"ph":"X",,}"#, r#"{"ph":"X","name":"b" "ts":2]"#, r#"{"ph":"X","args":{"a":[1,2}},"ts":1}"#, "}", "{ph:1}"]
    {
        let text =
            format!(r#"[{{"ph":"X","name":"a","ts":1,"dur":1}},{broken},{{"ph":"X","name":"c","ts":3,"dur":1}}]"#);
        let store = read_text(&text);
        let names: Vec<String> = rows(&store).into_iter().map(|row| row.0).collect();
        assert_eq!((names[0].as_str(), names[names.len() - 1].as_str()), ("a", "c"), "{broken}");
        assert_eq!(problems(&store)[0].0, "malformed text", "{broken}");
    }
}

#[test]
fn damage_before_the_events_does_not_hide_them() {
    let store = read_text(
        r#"{"schemaVersion":1,"deviceProperties":[{]},"traceEvents":[{"ph":"X","name":"a","ts":1,"dur":1}]}"#,
    );
    assert_eq!((rows(&store).len(), problems(&store)[0].0.as_str()), (1, "malformed text"));
}

#[test]
fn the_offset_of_a_problem_is_its_byte_in_the_file() {
    let good = r#"{"ph":"X","name":"a","ts":1,"dur":1}"#;
    let text = format!("[{}{}]", format!("{good},").repeat(5000), r#"{"ph":"X","name":"late","ts":1,"dur":-1}"#);
    for block_bytes in [64, 4096, 1 << 20] {
        let store = read_in_blocks(text.as_bytes(), block_bytes).unwrap();
        assert_eq!(problems(&store)[0].2, 1 + 5000 * (good.len() as i64 + 1));
    }
}

#[test]
fn an_event_larger_than_blocks_and_headroom_is_read() {
    let long = "x".repeat(300_000);
    let text = format!(r#"[{{"ph":"X","name":"{long}","ts":1,"dur":1}},{{"ph":"X","name":"b","ts":2,"dur":1}}]"#);
    let store = read_in_blocks(text.as_bytes(), 1000).unwrap();
    assert_eq!(rows(&store), [row(&long, 1000, 2000), row("b", 2000, 3000)]);
}

#[test]
fn what_is_no_trace_is_an_error_with_offset_and_reason() {
    for (text, offset, reason) in [
        ("", 0, "empty"),
        ("  \n", 3, "empty"),
        ("hello", 0, "neither an object nor an array"),
        ("7", 0, "neither an object nor an array"),
        ("{}", 2, "neither traceEvents"),
        (r#"{"a":{"b":1}}"#, 13, "neither traceEvents"),
        ("[1,2,3]", 7, "none of 3 entries"),
    ] {
        let Err(Error::NotATrace { offset: at, reason: why }) = read_in_blocks(text.as_bytes(), 64) else {
            panic!("{text:?} was read");
        };
        assert!(why.contains(reason), "{text:?}: {why}");
        assert_eq!(at, offset, "{text:?}");
    }
}

#[test]
fn hostile_nesting_ends_soon() {
    for unit in ["{", "[", "{\"a\":", "{\"a\":[", "\"", "{\"", "[{\"ph\":\"X\",\"args\":{"] {
        let text = format!("[{}", unit.repeat(200_000));
        let _ = read_in_blocks(text.as_bytes(), 1 << 16);
    }
}

#[test]
fn an_entry_has_the_same_number_whatever_is_wanted_of_others() {
    let damaged = r#"{"ph":"X","cat":"kernel","name":"a","ts":1,"dur":1,"args":{"x" {"ph":"X"}, "y":{"ph":"X"}}}"#;
    let text = format!(r#"{{"traceEvents":[{damaged},{{"ph":"X","cat":"cpu_op","name":"b","ts":1,"dur":1}}]}}"#);
    let all = read_text(&text);
    assert_eq!(numbers(&all, "cpu_ops", "event_id"), [Some(1)]);
    assert_eq!(only_problem(&all), ("malformed text".into(), 1));
    for tables in [vec![Table::CpuOps], vec![Table::CpuOps, Table::DeviceEvents]] {
        let blocks = Blocks::of(Box::new(Cursor::new(text.clone())), 0, 1 << 20);
        let some = read(blocks, &Options { tables, args: Vec::new() }, &mut || false).unwrap();
        assert_eq!(numbers(&some, "cpu_ops", "event_id"), [Some(1)]);
    }
}

#[test]
fn an_empty_list_says_as_little_as_an_empty_object() {
    let reasons = ["[]", "{}", " [ ] ", "{ }"].map(|text| {
        let Err(Error::NotATrace { reason, .. }) = read_in_blocks(text.as_bytes(), 1 << 20) else {
            panic!("{text} is no trace")
        };
        reason
    });
    assert!(reasons.iter().all(|reason| *reason == reasons[0]), "{reasons:?}");
}

#[test]
fn a_stream_that_is_damaged_from_its_beginning_is_not_called_empty() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("corrupt deflate stream"))
        }
    }
    let error = read(Blocks::of(Box::new(Broken), 10, 1 << 20), &everything(), &mut || false).err().unwrap();
    let text = error.to_string();
    assert!(text.contains("nothing before the damage") && text.contains("corrupt deflate stream"), "{text}");
    let error = read_in_blocks(b"", 1 << 20).err().unwrap().to_string();
    assert!(error.contains("the file is empty"), "{error}");
}

#[test]
fn half_a_thread_and_a_label_without_its_value_are_told() {
    let store = one(r#"{"ph":"X","cat":"kernel","name":"k","qid":0,"tid":7,"ts":1,"dur":1}"#);
    assert_eq!(only_problem(&store), ("process or thread missing".into(), 1));
    for args in [r#","args":{"nam":"python"}"#, r#","args":{}"#, r#","args":7"#, ""] {
        let store = one(&format!(r#"{{"ph":"M","name":"process_name","pid":1,"tid":0{args}}}"#));
        assert_eq!(only_problem(&store), ("label without its value".into(), 1), "{args}");
    }
}
