//! Seconds to inflate one `.json.gz`, by inflater and block size: `inflate FILE.gz [NAME] [REPEATS] [KIB|whole]`.
//!
//! A name that no inflater has stands for all that it is a part of. One line per measurement: inflater, KiB per block
//! ("whole": all of the text at once, into new memory), best and median seconds.

mod inflaters;
#[cfg(any(feature = "isal", feature = "libdeflate", feature = "zlib-ng"))]
mod native;

use std::error::Error;
use std::time::Instant;

use inflaters::{ALL, Inflater, Run};

const BLOCK_KIB: [usize; 4] = [256, 512, 1024, 4096];
const WHOLE: &str = "whole";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: inflate FILE.gz [NAME] [REPEATS] [KIB|whole]")?;
    let wanted = arguments.next().unwrap_or_default();
    let repeats = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let blocks = match arguments.next() {
        Some(kib) if kib == WHOLE => vec![None],
        Some(kib) => vec![Some(kib.parse()?)],
        None => BLOCK_KIB.map(Some).to_vec(),
    };
    let is_exact = ALL.iter().any(|inflater| inflater.name == wanted);
    let chosen = |name: &str| if is_exact { name == wanted } else { name.contains(&wanted) };
    let compressed = std::fs::read(path)?;
    println!("{:<24}{:>8}{:>10}{:>10}", "inflater", "KiB", "best s", "median s");
    for inflater in ALL.iter().filter(|inflater| chosen(inflater.name)) {
        measure(inflater, &compressed, repeats, &blocks);
    }
    Ok(())
}

fn measure(inflater: &Inflater, compressed: &[u8], repeats: usize, blocks: &[Option<usize>]) {
    let run = match inflater.run {
        Run::Blocks(run) => run,
        Run::Whole(run) => return report(inflater.name, WHOLE, &timed(repeats, compressed, || run(compressed))),
    };
    for kib in blocks {
        if let Some(kib) = kib {
            let mut block = vec![0; kib << 10];
            report(inflater.name, &kib.to_string(), &timed(repeats, compressed, || run(compressed, &mut block)));
        } else {
            let bytes = inflaters::text_bytes(compressed) as usize;
            report(inflater.name, WHOLE, &timed(repeats, compressed, || run(compressed, &mut vec![0; bytes])));
        }
    }
}

/// Sorted seconds of each repetition.
fn timed(repeats: usize, compressed: &[u8], mut run: impl FnMut() -> u64) -> Vec<f64> {
    let mut seconds: Vec<f64> = (0..repeats.max(1))
        .map(|_| {
            let start = Instant::now();
            let bytes = run();
            let elapsed = start.elapsed().as_secs_f64();
            assert_eq!(bytes as u32, inflaters::text_bytes(compressed), "the text is not whole");
            elapsed
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds
}

fn report(name: &str, block: &str, seconds: &[f64]) {
    println!("{name:<24}{block:>8}{:>10.3}{:>10.3}", seconds[0], seconds[seconds.len() / 2]);
}
