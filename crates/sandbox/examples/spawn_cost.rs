//! What a cell adds to running `/bin/true`: `spawn_cost [RUNS] [RESIDENT_MIB]`, 300 runs each unless told.
//!
//! Cells and bare spawns take turns, so that whatever else the machine does hits both. With the second argument the
//! program first touches that much memory, because the cost of a clone grows with it.

#![expect(clippy::print_stdout, reason = "an example says what it found")]
#![expect(clippy::disallowed_methods, reason = "the bare spawn is what the cell is compared with")]

use std::error::Error;
use std::process;
use std::time::{Duration, Instant};

use sandbox::{CellSpec, Command, Exit, Program, Stopper, run};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let runs: usize = arguments.next().map_or(Ok(300), |text| text.parse())?;
    let resident: usize = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let ballast = vec![1_u8; resident << 20];
    let workspace = tempfile::tempdir()?;
    let spec = CellSpec {
        workspace: workspace.path().canonicalize()?,
        spool_directory: std::env::temp_dir(),
        output_limit: 1 << 20,
        ..CellSpec::default()
    };
    let command = Command {
        program: Program::Argv(vec!["/bin/true".into()]),
        working_directory: spec.workspace.clone(),
    };
    let stopper = Stopper::new()?;
    let (mut bare, mut cell) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let started = Instant::now();
        if !process::Command::new("/bin/true").status()?.success() {
            return Err("/bin/true failed".into());
        }
        bare.push(started.elapsed());
        let started = Instant::now();
        if run(&spec, &command, None, &stopper, &mut |_, _| {})?.exit != Exit::Code(0) {
            return Err("/bin/true failed in a cell".into());
        }
        cell.push(started.elapsed());
    }
    // Used once more, so that it is not optimised away.
    let ballast = std::hint::black_box(ballast).len() >> 20;
    println!("{runs} runs each, {ballast} MiB resident");
    for (name, percent) in [("min", 0), ("p10", 10), ("p50", 50)] {
        let (bare, cell) = (percentile(&mut bare, percent), percentile(&mut cell, percent));
        let ratio = cell.as_secs_f64() / bare.as_secs_f64();
        println!("{name}: bare {bare:?}, cell {cell:?}, ratio {ratio:.2}");
    }
    Ok(())
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times.get(times.len() * percent / 100).copied().unwrap_or_default()
}
