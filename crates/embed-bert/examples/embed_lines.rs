//! Vectors for `cargo xtask bench --only embedding`.
//!
//! `embed_lines MODEL_FOLDER bytes|exact THREADS` reads lines of input, each a JSON list of texts.
//! Each line is answered with `{"cpu": SECONDS, "wall": SECONDS, "vectors": [[...]]}`, in the
//! format of the peer.

#![allow(clippy::print_stdout, reason = "the answers are this program's only result")]

use std::error::Error;
use std::io::BufRead;
use std::path::Path;
use std::time::{Duration, Instant};

use embed_bert::Precision;
use rustix::time::{ClockId, clock_gettime};
use simd::Level;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, precision, threads] = arguments.as_slice() else {
        return Err("usage: embed_lines MODEL_FOLDER bytes|exact THREADS".into());
    };
    let precision = if precision == "exact" { Precision::Exact } else { Precision::Bytes };
    let began = Instant::now();
    let embedder = embed_bert::open_with(Path::new(folder), threads.parse()?, precision, Level::best())?;
    eprintln!("opened in {:?}, {}", began.elapsed(), Level::best().name());
    for line in std::io::stdin().lock().lines() {
        let texts: Vec<String> = serde_json::from_str(&line?)?;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (cpu, wall) = (cpu_time()?, Instant::now());
        let vectors = embedder.embed(&texts, &|| false)?;
        let (cpu, wall) = (cpu_time()?.saturating_sub(cpu).as_secs_f64(), wall.elapsed().as_secs_f64());
        println!("{}", serde_json::json!({"cpu": cpu, "wall": wall, "vectors": vectors}));
    }
    Ok(())
}

fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Ok(Duration::new(u64::try_from(time.tv_sec)?, u32::try_from(time.tv_nsec)?))
}
