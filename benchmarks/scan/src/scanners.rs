//! The scanners compared: each gives the number of trace entries it found, or of marks where it knows no entries.

use std::error::Error;
use std::path::Path;

use holotrace_core::io::Blocks;
use holotrace_core::trace_event::Table;
use holotrace_core::columns::ArgType;
use holotrace_core::trace_event::{Options, read};
use memchr::{memchr_iter, memmem};
use serde_json::value::RawValue;
use simd_json::prelude::*;
use sonic_rs::{JsonValueTrait, LazyValue};

use crate::entries::Trace;

type Found = Result<usize, Box<dyn Error>>;

pub struct Scanner {
    pub name: &'static str,
    pub run: Run,
}

pub enum Run {
    Text(fn(&[u8]) -> Found),
    InPlace(fn(&mut [u8]) -> Found),
    File(fn(&Path) -> Found),
}

pub const ALL: &[Scanner] = &[
    Scanner { name: "memchr: every quote (no parser)", run: Run::Text(|text| Ok(memchr_iter(b'"', text).count())) },
    Scanner {
        name: "memmem: every \"ph\" (no parser)",
        run: Run::Text(|text| Ok(memmem::find_iter(text, "\"ph\"").count())),
    },
    Scanner { name: "holotrace: columns of three analyses", run: Run::File(|path| holotrace(path, &three_analyses())) },
    Scanner { name: "holotrace: every table, no args", run: Run::File(|path| holotrace(path, &every_table())) },
    Scanner { name: "simd-json: tape", run: Run::InPlace(simd_json_tape) },
    Scanner { name: "simd-json: borrowed values", run: Run::InPlace(simd_json_borrowed) },
    Scanner { name: "sonic-rs: lazy, category and start only", run: Run::Text(sonic_rs_lazy) },
    Scanner { name: "sonic-rs: typed", run: Run::Text(sonic_rs_typed) },
    Scanner { name: "serde_json: typed", run: Run::Text(serde_json_typed) },
];

fn three_analyses() -> Options {
    let args = ["correlation", "device", "stream"].map(|key| (key.to_string(), ArgType::Int)).to_vec();
    Options { tables: vec![Table::DeviceEvents, Table::Steps], args }
}

fn every_table() -> Options {
    Options { tables: Table::ALL.iter().map(|(_, table)| *table).collect(), args: Vec::new() }
}

fn holotrace(path: &Path, options: &Options) -> Found {
    Ok(read(Blocks::open(path)?, options, &mut || false)?.counts.entries as usize)
}

fn simd_json_tape(text: &mut [u8]) -> Found {
    let tape = simd_json::to_tape(text)?;
    Ok(tape.as_value().get("traceEvents").and_then(|entries| entries.as_array().map(|all| all.len())).unwrap_or(0))
}

fn simd_json_borrowed(text: &mut [u8]) -> Found {
    let trace = simd_json::to_borrowed_value(text)?;
    Ok(trace.get_array("traceEvents").map_or(0, Vec::len))
}

fn sonic_rs_lazy(text: &[u8]) -> Found {
    let entries = sonic_rs::get(text, ["traceEvents"])?;
    let mut found = 0;
    for entry in sonic_rs::to_array_iter(entries.as_raw_str()) {
        let entry = entry?;
        let (category, start): (Option<LazyValue>, Option<LazyValue>) = (entry.get("cat"), entry.get("ts"));
        std::hint::black_box((category, start));
        found += 1;
    }
    Ok(found)
}

fn sonic_rs_typed(text: &[u8]) -> Found {
    Ok(sonic_rs::from_slice::<Trace<LazyValue>>(text)?.entries.len())
}

fn serde_json_typed(text: &[u8]) -> Found {
    Ok(serde_json::from_slice::<Trace<&RawValue>>(text)?.entries.len())
}
