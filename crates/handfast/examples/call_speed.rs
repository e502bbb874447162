//! What a command costs that is called from the library, beside the same one without a cell. `cargo xtask bench` runs it; by hand:
//! `cargo run --release --package handfast --example call_speed -- FOLDER`.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark: it starts programs and prints what it measured"
)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use handfast::{Mode, Runtime};
use serde_json::json;

/// Calls of each, after one that is not counted.
const CALLS: usize = 300;
/// The most that a call may cost beside the command itself.
const TARGET: Duration = Duration::from_micros(800);

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).ok_or("name a folder to work in")?;
    let (workspace, state) = (folder.join("workspace"), folder.join("state"));
    std::fs::create_dir_all(&workspace)?;
    // First of all, because the cells wait in a copy of this process.
    let runtime = Runtime::builder()
        .workspace(&workspace)
        .state(&state)
        .configuration(folder.join("configuration"))
        .mode(Mode::FullAuto)
        .waiting_cells(4)
        .build()?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut bare, mut called) = (Vec::new(), Vec::new());
    for _ in 0..=CALLS {
        bare.push(without_a_cell(&workspace)?);
        called.push(tokio.block_on(from_the_library(&runtime))?);
    }
    tokio.block_on(runtime.shutdown())?;
    let [bare, called] = [bare, called].map(tenth);
    let more = called.saturating_sub(bare);
    println!("\n| `true` from the library, p10 | bare | handfast | more than bare | target | ratio |");
    println!("|---|---:|---:|---:|---:|---:|");
    let ratio = more.as_secs_f64() / TARGET.as_secs_f64();
    println!(
        "| in a workspace without files | {bare:.1?} | {called:.1?} | {more:.1?} | {TARGET:?} | {ratio:.2} |"
    );
    Ok(())
}

fn without_a_cell(workspace: &Path) -> Result<Duration, Box<dyn Error>> {
    let began = Instant::now();
    let mut command = Command::new("bash");
    command.args(["-c", "true"]).current_dir(workspace).stdin(Stdio::null());
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output()?;
    let took = began.elapsed();
    if output.status.success() { Ok(took) } else { Err("`true` failed without a cell".into()) }
}

async fn from_the_library(runtime: &Runtime) -> Result<Duration, Box<dyn Error>> {
    let began = Instant::now();
    let result = runtime.call("shell_execute", json!({"command": "true"})).await;
    let took = began.elapsed();
    let text = serde_json::to_value(&result)?;
    // A call that failed would be quick for the wrong reason.
    if text["data"]["exit_code"] == 0 { Ok(took) } else { Err(format!("the call failed: {text:#}").into()) }
}

/// What one sample in ten is quicker than, without the first.
fn tenth(durations: Vec<Duration>) -> Duration {
    let mut counted: Vec<Duration> = durations.into_iter().skip(1).collect();
    counted.sort();
    counted.get(counted.len() / 10).copied().unwrap_or_default()
}
