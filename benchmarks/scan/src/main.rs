//! Seconds to get through one plain trace, by scanner: `scan FILE.json [NAME-PART] [REPEATS]`.
//!
//! One line per scanner: best and median seconds, GB/s, and what came out. All but the project's own start from the
//! text in memory, so that they have neither to read the file nor to stop at the end of a block.

mod entries;
mod scanners;

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use scanners::{ALL, Run, Scanner};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: scan FILE.json [NAME-PART] [REPEATS]")?;
    let wanted = arguments.next().unwrap_or_default();
    let repeats = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let text = std::fs::read(&path)?;
    println!("{:<44}{:>8}{:>10}{:>7}  entries", "scanner", "best s", "median s", "GB/s");
    for scanner in ALL.iter().filter(|scanner| scanner.name.contains(&wanted)) {
        measure(scanner, Path::new(&path), &text, repeats);
    }
    Ok(())
}

fn measure(scanner: &Scanner, path: &Path, text: &[u8], repeats: usize) {
    let mut seconds = Vec::new();
    let mut came_out = Ok(0);
    for _ in 0..repeats.max(1) {
        // Some scanners write into their input; the copy is not timed.
        let mut copy = if matches!(scanner.run, Run::InPlace(_)) { text.to_vec() } else { Vec::new() };
        let start = Instant::now();
        came_out = black_box(match scanner.run {
            Run::Text(run) => run(text),
            Run::InPlace(run) => run(&mut copy),
            Run::File(run) => run(path),
        });
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let (best, median) = (seconds[0], seconds[seconds.len() / 2]);
    let rate = text.len() as f64 / best / 1e9;
    let count = came_out.map_or_else(|error| format!("failed: {error}"), |count| count.to_string());
    println!("{:<44}{best:>8.3}{median:>10.3}{rate:>7.2}  {count}", scanner.name);
}
