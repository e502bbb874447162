//! Measures the median time to look up one secret among a thousand.
//!
//! Run it with `cargo run --release -p vault --example lookup_speed`.

#![allow(clippy::print_stdout, reason = "the figure is this program's only result")]

use std::error::Error;
use std::time::Instant;

use jiff::Timestamp;
use vault::{Change, HostRule, Keys, RequestPart, Vault};

/// Number of timed lookups.
const ROUNDS: usize = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let key = folder.path().join("key");
    vault::make_key_file(&key)?;
    let vault = Vault::new(folder.path().join("vault"), Keys { key_file: Some(key), ..Keys::default() });
    let now = Timestamp::UNIX_EPOCH;
    for number in 0..1_000 {
        let hosts = Some(HostRule::parse_all(["api.example.com"])?);
        vault.set(&Change { hosts, ..Change::named(&format!("s{number}"))? }, b"sk-0123456789", now)?;
    }
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        vault.value_for("s777", "api.example.com", RequestPart::Header, now)?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    println!("median {:?}, 99 of 100 within {:?}", times[ROUNDS / 2], times[ROUNDS * 99 / 100]);
    Ok(())
}
