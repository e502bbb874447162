//! Prints audit rows per second for 1 and 32 callers, flushed and committed, and the time to open a store.
//!
//! `cargo run --release -p store --example append_rate [FOLDER]`; the folder decides which disk is
//! measured, and is left empty.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use store_api::{AuditRow, Durability, Kind, Store as _, StoreError};
use store_sqlite::SqliteStore;

/// Duration of each measurement.
const MEASURED: Duration = Duration::from_millis(1500);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let parent = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(parent)?;
    let mut output = io::stdout().lock();
    for durability in [Durability::Flushed, Durability::Committed, Durability::Behind] {
        for callers in [1, 32] {
            let rate = rate(&folder.path().join(format!("{durability:?}{callers}")), callers, durability)?;
            writeln!(output, "{durability:>9?}, {callers:>2} callers: {rate:>8.0} rows/s")?;
        }
    }
    let fresh = median(|number| SqliteStore::open(&folder.path().join(format!("new{number}"))))?;
    let existing = folder.path().join("Committed32");
    let reopened = median(|_| SqliteStore::open(&existing))?;
    let running = SqliteStore::open(&existing)?;
    let beside = median(|_| SqliteStore::open(&existing))?;
    writeln!(output, "open: new {fresh:?}, existing {reopened:?}, beside another process {beside:?}")?;
    let started = Instant::now();
    let rows = running.audit().verify(None)?.rows;
    writeln!(output, "verify: {rows} rows in {:?}", started.elapsed())?;
    Ok(())
}

fn rate(folder: &Path, callers: u32, durability: Durability) -> Result<f64, StoreError> {
    let store = SqliteStore::open(folder)?;
    let started = Instant::now();
    let shared = &store;
    let counts: Vec<u32> = thread::scope(|scope| {
        let threads: Vec<_> = (0..callers)
            .map(|caller| scope.spawn(move || call(shared, started, durability, caller)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap_or(Ok(0)));
        joined.collect::<Result<_, _>>()
    })?;
    // Rows written behind count when they are on disk.
    store.close()?;
    Ok(counts.iter().map(|count| f64::from(*count)).sum::<f64>() / started.elapsed().as_secs_f64())
}

fn call(
    store: &SqliteStore,
    started: Instant,
    durability: Durability,
    caller: u32,
) -> Result<u32, StoreError> {
    let mut count = 0;
    while started.elapsed() < MEASURED {
        store.audit().append(row(&format!("call-{caller}-{count}")), durability).wait()?;
        count += 1;
    }
    Ok(count)
}

/// Builds a row of about 650 bytes, the usual size for a command.
fn row(call: &str) -> AuditRow {
    let mut row =
        AuditRow::new(Kind::Intent, Timestamp::UNIX_EPOCH, call, "mcp", "handfast", "shell_execute");
    row.session = Some("01J8ZQ0T4V3M5N6P7Q8R9S0T1U".to_owned());
    row.plan = Some(format!("{{\"effects\":[\"run cargo test\"],\"arguments\":\"{}\"}}", "x".repeat(380)));
    row.decision = Some("pass".to_owned());
    row.rule = Some("the command is listed as read-only".to_owned());
    row.sandbox = Some("namespaces,landlock,seccomp".to_owned());
    row
}

fn median(open: impl Fn(u32) -> Result<SqliteStore, StoreError>) -> Result<Duration, StoreError> {
    let mut times = Vec::new();
    for number in 0..21 {
        let started = Instant::now();
        let store = open(number)?;
        times.push(started.elapsed());
        drop(store);
    }
    times.sort();
    Ok(times[times.len() / 2])
}
