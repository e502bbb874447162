//! What a command costs that is called from the library, beside the same one without a cell, and what a cell costs that waits
//! for one. `cargo xtask bench` runs it; by hand:
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
use sandbox::{Pool, Spawner};
use serde_json::json;

/// Calls of each, after one that is not counted.
const CALLS: usize = 300;
/// The most that a call may cost beside the command itself.
const TARGET: Duration = Duration::from_micros(800);
/// Cells that wait at once while their memory is measured, and how often that is done.
const CELLS: u8 = 100;
const TIMES: usize = 5;
/// The most memory of the machine that a waiting cell may take, in KiB.
const CELL_TARGET: i32 = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).ok_or("name a folder to work in")?;
    let (workspace, state) = (folder.join("workspace"), folder.join("state"));
    std::fs::create_dir_all(&workspace)?;
    // First of all, because the cells wait in a copy of this process.
    let mut sizes = (0..TIMES).map(|_| waiting_cell()).collect::<Result<Vec<i32>, _>>()?;
    sizes.sort_unstable();
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
    println!("\n| a cell that waits, median of {TIMES} | KiB | target | ratio |\n|---|---:|---:|---:|");
    let size = sizes.get(TIMES / 2).copied().unwrap_or_default();
    println!(
        "| of {CELLS}, with all that the kernel keeps of it | {size} | {CELL_TARGET} | {:.2} |",
        f64::from(size) / f64::from(CELL_TARGET)
    );
    Ok(())
}

/// How many KiB less memory the machine has when a cell waits. Whatever else takes or gives memory meanwhile shows in it.
fn waiting_cell() -> Result<i32, Box<dyn Error>> {
    let before = available()?;
    let spawner = Spawner::start(Pool { waiting: CELLS })?;
    let began = Instant::now();
    while cells_of_spawners()? < usize::from(CELLS) {
        if began.elapsed() > Duration::from_secs(20) {
            return Err("the cells are not made in time".into());
        }
    }
    let after = available()?;
    drop(spawner);
    Ok(i32::try_from((before - after) / i64::from(CELLS))?)
}

/// Counts the cells: the children of the spawners, which are children of the process that this one started.
fn cells_of_spawners() -> Result<usize, Box<dyn Error>> {
    let mut processes = children("/proc/thread-self/children")?;
    for _ in 0..2 {
        let below =
            processes.iter().map(|process| children(&format!("/proc/{process}/task/{process}/children")));
        processes = below.collect::<Result<Vec<_>, _>>()?.concat();
    }
    Ok(processes.len())
}

fn children(list: &str) -> Result<Vec<String>, Box<dyn Error>> {
    Ok(std::fs::read_to_string(list)?.split_whitespace().map(str::to_owned).collect())
}

/// The memory that could be had, in KiB, as the kernel says when it has counted together what its processors count apart.
fn available() -> Result<i64, Box<dyn Error>> {
    /// Twice the time after which it does (`vm.stat_interval`), of which it gives no sign.
    const COUNTED: Duration = Duration::from_secs(2);
    std::thread::park_timeout(COUNTED);
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")).ok_or("the kernel does not say")?;
    Ok(number.parse()?)
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
