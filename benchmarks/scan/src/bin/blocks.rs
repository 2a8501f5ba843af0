//! Seconds to read one `.json.gz`, by bytes per block: `blocks FILE.gz [REPEATS]`.

use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::time::Instant;

use flate2::bufread::MultiGzDecoder;
use holotrace_core::io::Blocks;
use holotrace_core::trace_event::Table;
use holotrace_core::columns::ArgType;
use holotrace_core::trace_event::{Options, read};

const COMPRESSED_BUFFER: usize = 256 << 10;
const BLOCK_KIB: [usize; 7] = [64, 128, 256, 512, 1024, 2048, 4096];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: blocks FILE.gz [REPEATS]")?;
    let repeats = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let args = ["correlation", "device", "stream"].map(|key| (key.to_string(), ArgType::Int)).to_vec();
    let options = Options { tables: vec![Table::DeviceEvents, Table::Steps], args };
    let mut seconds = vec![Vec::new(); BLOCK_KIB.len()];
    // Sizes take turns, so that all of them meet the same disturbances.
    for _ in 0..repeats {
        for (kib, seconds) in BLOCK_KIB.iter().zip(&mut seconds) {
            let file = BufReader::with_capacity(COMPRESSED_BUFFER, File::open(&path)?);
            let start = Instant::now();
            let blocks = Blocks::of(Box::new(MultiGzDecoder::new(file)), 0, kib << 10);
            read(blocks, &options, &mut || false)?;
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    println!("{:>8}{:>10}{:>10}", "KiB", "best s", "median s");
    for (kib, seconds) in BLOCK_KIB.iter().zip(&mut seconds) {
        seconds.sort_by(f64::total_cmp);
        println!("{kib:>8}{:>10.3}{:>10.3}", seconds[0], seconds[seconds.len() / 2]);
    }
    Ok(())
}
