//! A trace as serde sees it: of each entry what the first three analyses need.

use std::borrow::Cow;

use serde::Deserialize;

/// `R` is a value left as text: `pid` and `tid` are numbers in some entries and strings in others.
#[derive(Deserialize)]
#[serde(bound(deserialize = "R: Deserialize<'de>"))]
pub struct Trace<'a, R> {
    #[serde(borrow, rename = "traceEvents")]
    pub entries: Vec<Entry<'a, R>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "R: Deserialize<'de>"))]
#[expect(dead_code, reason = "decoding is what is measured")]
pub struct Entry<'a, R> {
    ph: &'a str,
    #[serde(borrow, default)]
    cat: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    pid: Option<R>,
    tid: Option<R>,
    ts: Option<f64>,
    dur: Option<f64>,
    #[serde(default)]
    args: Args,
}

#[derive(Default, Deserialize)]
#[expect(dead_code, reason = "decoding is what is measured")]
struct Args {
    device: Option<i64>,
    stream: Option<i64>,
    correlation: Option<i64>,
}
