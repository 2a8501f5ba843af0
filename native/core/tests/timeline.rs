//! Text in, text out: what becomes of traces that are put together.

use std::io::Cursor;

use holotrace_core::io::Blocks;
use holotrace_core::rewrite::{Detail, Part, text};
use holotrace_core::{Error, Result};

fn rank(number: u32) -> Part {
    Part { name: format!("rank {number}"), shift_ns: 0, window: None, detail: Detail::Python }
}

fn put_together(traces: &[(&str, Part)], block_bytes: usize) -> Result<String> {
    let mut out = Vec::new();
    let push = &mut |piece: &[u8]| {
        out.extend_from_slice(piece);
        Ok(())
    };
    text("{}", push, |timeline| {
        for (trace, part) in traces {
            let blocks = Blocks::of(Box::new(Cursor::new(trace.to_string())), 0, block_bytes);
            timeline.add(blocks, part, &mut || false)?;
        }
        Ok(())
    })?;
    Ok(String::from_utf8(out).unwrap())
}

/// The events of the traces put together, first from one block, then from small ones: where one ends must not matter.
fn events(traces: &[(&str, Part)]) -> Vec<String> {
    let whole = put_together(traces, 1 << 20).unwrap();
    for block_bytes in [1, 7, 64] {
        assert_eq!(whole, put_together(traces, block_bytes).unwrap(), "with blocks of {block_bytes} bytes");
    }
    let list = whole.strip_prefix("{\"traceEvents\":[").unwrap().strip_suffix("\n]}\n").unwrap();
    list.trim_start()
        .split(",\n")
        .filter(|event| !event.is_empty() && !event.contains(r#""ph":"M","name":"#))
        .map(Into::into)
        .collect()
}

/// One event, put behind another rank's, with what was done to its times.
fn event(event: &str, shift_ns: i64) -> String {
    let before = (r#"[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1}]"#, rank(0));
    let moved = Part { shift_ns, ..rank(1) };
    events(&[before, (&format!("[{event}]"), moved)]).remove(1)
}

#[test]
fn numbers_and_times_are_replaced_where_they_stand() {
    for (before, after) in [
        (
            r#"{ "tid" : 7, "ph":"X", "ts": 1712184698123456.789 ,"name":"\"pid\":1","pid":0,"dur":2 }"#,
            r#"{ "tid" : 4, "ph":"X", "ts": 1712184698123456.788 ,"name":"\"pid\":1","pid":3,"dur":2 }"#,
        ),
        (
            r#"{"ph":"X","pid":"a \" b","tid":"","ts":"12","dur":1,"args":{"pid":1,"tid":2,"ts":3,"id":[{"pid":4}]}}"#,
            r#"{"ph":"X","pid":3,"tid":4,"ts":11.999,"dur":1,"args":{"pid":1,"tid":2,"ts":3,"id":[{"pid":4}]}}"#,
        ),
        // Each of several of one key.
        (
            r#"{"ph":"X","pid":1,"pid":2,"tid":1,"ts":5,"dur":1}"#,
            r#"{"ph":"X","pid":3,"pid":3,"tid":4,"ts":4.999,"dur":1}"#,
        ),
    ] {
        assert_eq!(event(before, -1), after);
    }
}

#[test]
fn times_are_exact_and_stay_as_written_where_nothing_is_taken_off() {
    let at = |ts: &str, shift_ns: i64| {
        let moved = event(&format!(r#"{{"ph":"X","pid":1,"tid":1,"ts":{ts},"dur":1}}"#), shift_ns);
        moved.split_once("\"ts\":").unwrap().1.split_once(",\"dur\"").unwrap().0.to_string()
    };
    assert_eq!(at("1712184698123456.789", 0), "1712184698123456.789");
    assert_eq!(at("1.5e3", 0), "1.5e3");
    assert_eq!(at("1712184698123456.789", 1_000_000_000_000_000_211), "2712184698123457.000");
    assert_eq!(at("1.5e3", 1), "1500.001");
    assert_eq!(at("0.5", -501), "-0.001");
    assert_eq!(at("-3.25", 1), "-3.249");
    assert_eq!(at("0", -1_000), "-1.000");
    // What is no time, or would be none that 64 bits hold.
    for text in ["NaN", "null", "1e300", "9223372036854775.807"] {
        assert_eq!(at(text, 1), text);
    }
}

#[test]
fn what_has_no_process_or_thread_gets_one() {
    assert_eq!(event(r#"{"ph":"X","ts":1,"dur":1}"#, 0), r#"{"pid":3,"tid":4,"ph":"X","ts":1,"dur":1}"#);
    assert_eq!(event(r#"{"ph":"C","ts":1,"args":{"a":1}}"#, 0), r#"{"pid":3,"ph":"C","ts":1,"args":{"a":1}}"#);
    assert_eq!(event(r#"{"ph":"X","pid":1,"dur":1}"#, 5), r#"{"tid":4,"ph":"X","pid":3,"dur":1}"#);
}

#[test]
fn arrows_of_different_ranks_are_not_linked() {
    let arrow = |id: &str| format!(r#"{{"ph":"s","id":{id},"pid":1,"tid":1,"ts":1}}"#);
    let ids = |id: &str| {
        let trace = format!("[{}]", arrow(id));
        let found = events(&[(&trace, rank(0)), (&trace, rank(1))]);
        let id = |event: &String| event.split_once("\"id\":").unwrap().1.split_once(',').unwrap().0.to_string();
        found.iter().map(|event| id(event).parse::<u64>().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(ids("7"), [7, (1 << 40) + 7]);
    assert_eq!(ids(r#""0x10""#), [16, (1 << 40) + 16]);
    for odd in [r#""a""#, "-1", "1.5", "18446744073709551615", r#""0xffffffffffffffff""#, "1099511627776", "null"] {
        let found = ids(odd);
        assert_eq!(found, ids(odd));
        assert_ne!(found[0], found[1]);
        // As viewers read numbers: positive, and apart from those that were small.
        assert!(found.iter().all(|&id| id >> 61 == 1), "{odd}: {found:?}");
    }
}

#[test]
fn an_event_that_is_left_out_takes_its_end_with_it() {
    let of = |ph: &str, ts: u32| format!(r#"{{"ph":"{ph}","cat":"python_function","pid":1,"tid":1,"ts":{ts}}}"#);
    let trace = format!("[{},{},{},{}]", of("B", 1), of("B", 5), of("E", 8), of("E", 20));
    let kept = |part: Part| {
        let found = events(&[(&trace, part)]);
        found
            .iter()
            .map(|event| event.split_once("\"ts\":").unwrap().1.trim_end_matches('}').to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(kept(Part { window: Some((4_000, 10_000)), ..rank(0) }), ["5", "8"]);
    assert_eq!(kept(Part { window: Some((0, 4_000)), ..rank(0) }), ["1", "20"]);
    assert!(kept(Part { detail: Detail::Host, ..rank(0) }).is_empty());
}

#[test]
fn what_is_damaged_is_left_out_and_the_rest_stays() {
    let whole = r#"{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1}"#;
    let own = r#"{"ph":"X","pid":1,"tid":2,"ts":1,"dur":1}"#;
    for text in [
        format!("[{whole},"),
        format!("[{whole},null,7,\"x\",{{}},{{\"pid\":1}}]"),
        format!("[\u{1}{whole}]"),
        format!("{{\"traceEvents\":[{whole},{{\"ph\":\"X\",\"na"),
    ] {
        assert_eq!(events(&[(&text, rank(0))]), [own], "{text}");
    }
    let error = put_together(&[("no trace", rank(0))], 64).unwrap_err();
    assert!(matches!(error, Error::NotATrace { .. }), "{error}");
}
