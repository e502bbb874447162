//! Cost of a command called from the library, compared with the same command without a cell, and
//! memory cost of a waiting cell. `cargo xtask bench` runs this example. By hand: `cargo run
//! --release --package handfast --example call_speed -- FOLDER`.

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

/// Number of calls of each kind, after one that is not counted.
const CALLS: usize = 300;
/// Maximum cost of a call in addition to the command itself.
const TARGET: Duration = Duration::from_micros(800);
/// Number of cells that wait at once while their memory is measured, followed by the number of
/// measurements.
const CELLS: u8 = 100;
const TIMES: usize = 5;
/// Maximum memory that a waiting cell may take from the machine, in KiB.
const CELL_TARGET: i32 = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).ok_or("name a folder to work in")?;
    let (workspace, state) = (folder.join("workspace"), folder.join("state"));
    std::fs::create_dir_all(&workspace)?;
    // This comes first, because the cells wait in a copy of this process.
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

/// Returns the memory that a waiting cell takes from the machine, in KiB. Other processes that
/// allocate or free memory meanwhile distort the result.
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

/// Counts the cells: the children of the spawners, which are children of the process that this one
/// started.
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

/// Returns the available memory in KiB, after the kernel has combined its per-processor counters.
fn available() -> Result<i64, Box<dyn Error>> {
    /// Twice the interval at which the kernel combines its counters (`vm.stat_interval`). The
    /// kernel gives no sign of the update.
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
    // A failed call would be quick for the wrong reason.
    if text["data"]["exit_code"] == 0 { Ok(took) } else { Err(format!("the call failed: {text:#}").into()) }
}

/// Returns the 10th percentile of the samples, without the first sample.
fn tenth(durations: Vec<Duration>) -> Duration {
    let mut counted: Vec<Duration> = durations.into_iter().skip(1).collect();
    counted.sort();
    counted.get(counted.len() / 10).copied().unwrap_or_default()
}
