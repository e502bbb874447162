//! Cost of `db_query` for one row in the library, compared with the same statement in SQLite alone,
//! in turns. `cargo xtask bench` runs this example. By hand: `cargo run --release --package
//! handfast --example query_speed -- FOLDER`.

#![allow(clippy::print_stdout, reason = "a benchmark: it prints what it measured")]

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use handfast::{Mode, Runtime};
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

/// Number of queries of each kind. The first tenth is not counted.
const QUERIES: usize = 5_000;
/// Maximum cost of a query in addition to SQLite's own work.
const TARGET: Duration = Duration::from_micros(60);
const QUERY: &str = "SELECT id, name FROM people WHERE id = ?";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).ok_or("name a folder to work in")?;
    let (workspace, state) = (folder.join("workspace"), folder.join("state"));
    std::fs::create_dir_all(&workspace)?;
    let runtime = Runtime::builder()
        .workspace(&workspace)
        .state(&state)
        .configuration(folder.join("configuration"))
        .mode(Mode::FullAuto)
        .build()?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for sql in [
        "CREATE TABLE IF NOT EXISTS people (id INTEGER PRIMARY KEY, name TEXT)",
        "INSERT OR REPLACE INTO people WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 1000) \
         SELECT x, 'name ' || x FROM c",
    ] {
        let written = tokio.block_on(async { runtime.call("db_write", json!({ "sql": sql })).await });
        if !written.ok() {
            return Err(format!("{sql}: {:?}", written.error()).into());
        }
    }
    let path = workspace.join(".handfast/data.db");
    let alone = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let (mut bare, mut called) = (Vec::new(), Vec::new());
    for number in 0..QUERIES {
        let id = number % 1_000 + 1;
        let began = Instant::now();
        let mut statement = alone.prepare_cached(QUERY)?;
        let name: String = statement.query_row([i64::try_from(id)?], |row| row.get(1))?;
        bare.push(began.elapsed());
        drop(statement);
        let began = Instant::now();
        let result =
            tokio.block_on(async { runtime.call("db_query", json!({"sql": QUERY, "params": [id]})).await });
        called.push(began.elapsed());
        // A failed call would be quick for the wrong reason.
        let text = serde_json::to_value(&result)?;
        if text["data"]["rows"] != json!([{"id": id, "name": name}]) {
            return Err(format!("it found something else: {text:#}").into());
        }
    }
    tokio.block_on(runtime.shutdown())?;
    println!("\n| one row by its key, in the library | SQLite alone | db_query | more | target | ratio |");
    println!("|---|---:|---:|---:|---:|---:|");
    for (name, place) in [("p10", 10), ("p50", 2)] {
        let [bare, called] = [&bare, &called].map(|all| quantile(all, place));
        let more = called.saturating_sub(bare);
        let ratio = more.as_secs_f64() / TARGET.as_secs_f64();
        println!("| {name} | {bare:.1?} | {called:.1?} | {more:.1?} | {TARGET:?} | {ratio:.2} |");
    }
    Ok(())
}

/// Returns the duration that one in `place` of the samples is quicker than, without the first tenth
/// of the samples.
fn quantile(durations: &[Duration], place: usize) -> Duration {
    let mut counted: Vec<Duration> = durations.iter().skip(durations.len() / 10).copied().collect();
    counted.sort();
    counted.get(counted.len() / place).copied().unwrap_or_default()
}
