//! Seconds to read a trace: `cargo run --release --example load -- FILE [three|all] [REPEAT]`.

use std::path::Path;
use std::time::Instant;

use holotrace_core::columns::ArgType;
use holotrace_core::io::{Block, Blocks};
use holotrace_core::trace_event::Table;
use holotrace_core::trace_event::{Options, read};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let path = Path::new(&arguments[1]);
    let mut options = Options {
        tables: vec![Table::DeviceEvents, Table::Steps],
        args: ["device", "stream", "correlation"].map(|key| (key.to_string(), ArgType::Int)).to_vec(),
    };
    if arguments.get(2).is_some_and(|what| what == "all") {
        options.tables = Table::ALL.iter().map(|(_, table)| *table).collect();
        for key in ["Input Dims", "Input type", "Input Strides", "Concrete Inputs", "grid", "block", "Collective name"]
        {
            options.args.push((key.to_string(), ArgType::Text));
        }
        for key in ["External id", "Sequence number", "Ev Idx", "bytes", "queued", "Seq", "registers per thread"] {
            options.args.push((key.to_string(), ArgType::Int));
        }
    }
    for _ in 0..arguments.get(3).map_or(5, |count| count.parse().expect("a number")) {
        let cpu = cpu_seconds();
        let start = Instant::now();
        let store = read(Blocks::open(path).expect("a file"), &options, &mut || false).expect("a trace");
        let seconds = start.elapsed().as_secs_f64();
        let megabytes = store.counts.text_bytes as f64 / 1e6;
        let scanning = cpu_seconds() - cpu;
        println!(
            "{seconds:.3} s, {scanning:.3} s of it scanning, {:.0} MB/s, {} entries",
            megabytes / seconds,
            store.counts.entries
        );
        let mut drain = Blocks::open(path).expect("a file");
        let start = Instant::now();
        let mut block = Block::default();
        while let Some((_, next)) = drain.next_block(block) {
            block = next;
        }
        println!("{:.3} s without scanning", start.elapsed().as_secs_f64());
    }
}

/// Processor time of this thread; 0 where the system does not tell.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}
