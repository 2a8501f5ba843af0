//! Text in, text out: what becomes of a trace that is changed, and of everything around the change.

use std::fs;
use std::io::{Cursor, Read};
use std::path::Path;

use flate2::read::GzDecoder;
use holotrace_core::Error;
use holotrace_core::io::Blocks;
use holotrace_core::rewrite::{Changes, Edit, Rewritten, rewrite, rewrite_blocks};

fn args(members: &[(&str, &str)]) -> Edit {
    Edit { args: members.iter().map(|(key, value)| (key.to_string(), (*value).into())).collect(), ..Edit::default() }
}

fn fields(members: &[(&str, &str)]) -> Edit {
    Edit { fields: args(members).args, args: Vec::new() }
}

fn edit(id: u32, edit: Edit) -> Changes {
    Changes::new(vec![(vec![id], edit)], vec![], vec![])
}

fn without(ids: &[u32]) -> Changes {
    Changes::new(vec![], ids.to_vec(), vec![])
}

fn with(texts: &[&str]) -> Changes {
    Changes::new(vec![], vec![], texts.iter().map(ToString::to_string).collect())
}

fn in_blocks(text: &str, changes: &Changes, block_bytes: usize) -> Result<(String, Rewritten), Error> {
    let blocks = Blocks::of(Box::new(Cursor::new(text.to_string())), 0, block_bytes);
    let mut out = Vec::new();
    let push = &mut |piece: &[u8]| {
        out.extend_from_slice(piece);
        Ok(())
    };
    let done = rewrite_blocks(blocks, changes, push, &mut || false)?;
    Ok((String::from_utf8(out).unwrap(), done))
}

/// Rewrite it in one block, then in small ones: where a block ends must not matter.
fn rewritten(text: &str, changes: &Changes) -> String {
    let whole = in_blocks(text, changes, 1 << 20).unwrap();
    for block_bytes in [1, 7, 64] {
        assert_eq!(whole, in_blocks(text, changes, block_bytes).unwrap(), "with blocks of {block_bytes} bytes");
    }
    whole.0
}

const A: &str = r#"{"ph":"X","name":"a","ts":1,"dur":1}"#;
const B: &str = r#"{"ph":"X","name":"b","ts":2,"dur":1}"#;

#[test]
fn an_arg_is_put_behind_the_others() {
    let text = r#"{"traceEvents":[{"ph":"X","args":{ "stream" : 7 },"ts":1,"dur":1}]}"#;
    let changes = edit(0, args(&[("critical", "1")]));
    assert_eq!(
        rewritten(text, &changes),
        r#"{"traceEvents":[{"ph":"X","args":{ "stream" : 7,"critical":1 },"ts":1,"dur":1}]}"#
    );
}

#[test]
fn an_arg_that_is_there_gets_the_new_value() {
    let text = r#"[{"ph":"X","args":{"a":[1,2],"b":2},"ts":1,"dur":1}]"#;
    let changes = edit(0, args(&[("a", r#""new""#)]));
    assert_eq!(rewritten(text, &changes), r#"[{"ph":"X","args":{"a":"new","b":2},"ts":1,"dur":1}]"#);
}

#[test]
fn an_event_without_args_gets_them() {
    for (event, expected) in [
        (r#"{"ph":"X","ts":1,"dur":1}"#, r#"{"ph":"X","ts":1,"dur":1,"args":{"critical":1}}"#),
        (
            "{\n  \"ph\": \"X\", \"ts\": 1, \"dur\": 1\n }",
            "{\n  \"ph\": \"X\", \"ts\": 1, \"dur\": 1,\"args\":{\"critical\":1}\n }",
        ),
        (r#"{"args":{},"ph":"X","ts":1,"dur":1}"#, r#"{"args":{"critical":1},"ph":"X","ts":1,"dur":1}"#),
        (r#"{"args":null,"ph":"X","ts":1,"dur":1}"#, r#"{"args":{"critical":1},"ph":"X","ts":1,"dur":1}"#),
    ] {
        let text = format!("[{event}]");
        assert_eq!(rewritten(&text, &edit(0, args(&[("critical", "1")]))), format!("[{expected}]"));
    }
}

#[test]
fn fields_are_replaced_and_several_edits_of_an_event_are_made_in_order() {
    let text = r#"[{"ph":"X","name":"a\"b","ts":1,"dur":1,"args":{"x":1}}]"#;
    let clean = fields(&[("name", r#""7""#), ("args", "{}")]);
    let changes = Changes::new(vec![(vec![0], clean), (vec![0], args(&[("y", "2")]))], vec![], vec![]);
    assert_eq!(rewritten(text, &changes), r#"[{"ph":"X","name":"7","ts":1,"dur":1,"args":{"y":2}}]"#);
}

#[test]
fn an_event_that_is_left_out_takes_one_comma_with_it() {
    let text = format!("{{\"traceEvents\": [\n  {A} ,\n  {B},\n  {A}\n ], \"x\": 1}}");
    let ends = |events: &str| format!("{{\"traceEvents\": [{events}\n ], \"x\": 1}}");
    assert_eq!(rewritten(&text, &without(&[0])), ends(&format!("\n  {B},\n  {A}")));
    assert_eq!(rewritten(&text, &without(&[1])), ends(&format!("\n  {A},\n  {A}")));
    assert_eq!(rewritten(&text, &without(&[2])), ends(&format!("\n  {A} ,\n  {B}")));
    assert_eq!(rewritten(&text, &without(&[1, 0])), ends(&format!("\n  {A}")));
    assert_eq!(rewritten(&text, &without(&[0, 1, 2])), ends(""));
}

#[test]
fn an_event_that_is_left_out_takes_its_end_with_it() {
    let outer = r#"{"ph":"B","name":"outer","pid":1,"tid":1,"ts":1}"#;
    let inner = r#"{"ph":"B","name":"inner","pid":1,"tid":1,"ts":2}"#;
    let other = r#"{"ph":"B","name":"other","pid":1,"tid":2,"ts":2}"#;
    let [first, second] = [3, 4].map(|ts| format!(r#"{{"ph":"E","pid":1,"tid":1,"ts":{ts}}}"#));
    let others = r#"{"ph":"E","pid":1,"tid":2,"ts":3}"#;
    let text = format!("[{outer},{inner},{other},{first},{others},{second}]");
    assert_eq!(rewritten(&text, &without(&[1])), format!("[{outer},{other},{others},{second}]"));
    assert_eq!(rewritten(&text, &without(&[0])), format!("[{inner},{other},{first},{others}]"));
    assert_eq!(rewritten(&text, &without(&[3])), format!("[{outer},{inner},{other},{others},{second}]"));
}

#[test]
fn new_events_stand_at_the_end_of_the_list() {
    assert_eq!(rewritten(r#"{"traceEvents": [ ]}"#, &with(&[A])), format!(r#"{{"traceEvents": [{A} ]}}"#));
    let text = format!(r#"{{"traceEvents": [{A}], "traceName": "t"}}"#);
    let expected = format!("{{\"traceEvents\": [{A},\n{B},\n{A}], \"traceName\": \"t\"}}");
    assert_eq!(rewritten(&text, &with(&[B, "", A])), expected);
}

#[test]
fn new_events_may_be_the_only_ones() {
    let changes = Changes::new(vec![], vec![0], vec![B.into()]);
    assert_eq!(rewritten(&format!("[ {A} ]"), &changes), format!("[{B} ]"));
}

#[test]
fn a_file_cut_off_gets_its_new_events_behind_the_last_whole_one() {
    assert_eq!(rewritten(&format!("[{A},"), &with(&[B])), format!("[{A},\n{B},"));
    let cut = r#"{"traceEvents":[{"ph":"X","ts":1,"dur":1},{"ph":"X","na"#;
    assert_eq!(
        rewritten(cut, &with(&[B])),
        format!("{{\"traceEvents\":[{{\"ph\":\"X\",\"ts\":1,\"dur\":1}},\n{B},{{\"ph\":\"X\",\"na")
    );
}

#[test]
fn what_makes_no_sense_stays_where_it_is() {
    let marked = |text: &str| text.replace(r#":2,"dur":1"#, r#":2,"dur":1,"args":{"n":3}"#);
    for middle in ["\u{1}", "null"] {
        let text = format!("{{\"traceEvents\":[{A},{middle},{B}]}}");
        assert_eq!(rewritten(&text, &Changes::default()), text);
        assert_eq!(rewritten(&text, &edit(2, args(&[("n", "3")]))), marked(&text));
    }
}

#[test]
fn an_event_that_is_not_there_is_an_error() {
    for changes in [without(&[2]), edit(7, args(&[("a", "1")]))] {
        let error = in_blocks(&format!("[{A},{B}]"), &changes, 64).unwrap_err();
        assert!(matches!(error, Error::NoSuchEvent { .. }), "{error}");
    }
}

#[test]
fn events_cannot_be_added_where_there_is_no_list() {
    let error = in_blocks(r#"{"schemaVersion":1}"#, &with(&[A]), 64).unwrap_err();
    assert!(matches!(error, Error::NotATrace { .. }), "{error}");
}

fn inflated(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    let mut text = Vec::new();
    match path.extension().unwrap().to_str().unwrap() {
        // Of one member only, as a browser reads it.
        "gz" => drop(GzDecoder::new(&bytes[..]).read_to_end(&mut text).unwrap()),
        "zst" => text = zstd::decode_all(&bytes[..]).unwrap(),
        _ => text = bytes,
    }
    text
}

#[test]
fn the_name_says_how_the_file_is_packed() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source.json");
    // Several chunks, each of several blocks.
    let events: Vec<String> = (0..60_000).map(|i| A.replace(r#""a""#, &format!("\"{i}\""))).collect();
    let text = format!("{{\"traceEvents\":[{}]}}", events.join(","));
    fs::write(&source, &text).unwrap();
    for name in ["plain.json", "packed.json.gz", "packed.json.zst"] {
        let target = folder.path().join(name);
        let done = rewrite(Blocks::open(&source).unwrap(), &target, &without(&[0]), &mut || false).unwrap();
        assert_eq!((done.entries, done.dropped), (60_000, 1));
        assert!(inflated(&target) == text.replace(&format!("[{},", events[0]), "[").into_bytes(), "{name}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing else is left in the folder");
}

#[test]
fn a_file_that_cannot_be_written_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source.json"), folder.path().join("target.json"));
    fs::write(&source, format!("[{A}]")).unwrap();
    fs::write(&target, "as it was").unwrap();
    assert!(rewrite(Blocks::open(&source).unwrap(), &target, &without(&[9]), &mut || false).is_err());
    assert_eq!(fs::read_to_string(&target).unwrap(), "as it was");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_caller_that_wants_to_stop_gets_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source.json"), folder.path().join("target.json.gz"));
    let events = vec![A; 400_000].join(",\n");
    fs::write(&source, format!("[{events}]")).unwrap();
    let mut calls = 0;
    let mut cancelled = || {
        calls += 1;
        true
    };
    match rewrite(Blocks::open(&source).unwrap(), &target, &Changes::default(), &mut cancelled) {
        Err(Error::Cancelled) => assert!(!target.exists()),
        // Written before it was asked.
        other => assert!(other.is_ok() && calls == 0),
    }
}

#[test]
fn what_lasts_and_is_of_no_wanted_category_is_left_out_with_its_end() {
    const BEGIN: &str = r#"{"ph":"B","cat":"op","name":"c","pid":1,"tid":1,"ts":3}"#;
    const INSTANT: &str = r#"{"ph":"i","cat":"op","name":"d","pid":1,"tid":1,"ts":4}"#;
    const END: &str = r#"{"ph":"E","pid":1,"tid":1,"ts":5}"#;
    const RANGE: &str = r#"{"ph":"X","cat":"range","name":"e","ts":1,"dur":9}"#;
    let text = format!(r#"{{"traceEvents":[{A},{BEGIN},{INSTANT},{END},{RANGE},"odd"]}}"#);
    let changes = without(&[]).only(Some(vec!["range".into()]));
    assert_eq!(rewritten(&text, &changes), format!(r#"{{"traceEvents":[{INSTANT},{RANGE},"odd"]}}"#));
    // Where other events are left out by number, those after them are still told by what they are.
    let changes = without(&[2]).only(Some(vec!["range".into()]));
    assert_eq!(rewritten(&text, &changes), format!(r#"{{"traceEvents":[{RANGE},"odd"]}}"#));
}

#[test]
fn an_edited_event_stays_whatever_its_category_is() {
    let text = format!(r#"{{"traceEvents":[{A},{B}]}}"#);
    let changes = edit(1, fields(&[("tid", "9")])).only(Some(vec![]));
    assert_eq!(rewritten(&text, &changes), r#"{"traceEvents":[{"ph":"X","name":"b","ts":2,"dur":1,"tid":9}]}"#);
}
