//! Measures the cost that a cell adds to running `/bin/true`: `spawn_cost [RUNS] [RESIDENT_MIB]`,
//! by default 300 runs each.
//!
//! Four kinds take turns, so that other load on the machine affects all: bare spawns, cells made
//! for the command, cells that waited, and cells whose home keeps its caches. With the second
//! argument the program first touches that much memory, because the cost of a clone grows with it.
//! Also prints the memory of a waiting cell.

#![expect(clippy::print_stdout, reason = "an example says what it found")]
#![expect(clippy::disallowed_methods, reason = "the bare spawn is what the cell is compared with")]

use std::error::Error;
use std::fs;
use std::process;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox::{CellHost, CellSpec, Command, Exit, KeptHome, Origin, Pool, Program, Spawner, Stopper, run};

fn main() -> Result<(), Box<dyn Error>> {
    let spawner = Arc::new(Spawner::start(Pool::default())?);
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
    let alone = CellHost::default();
    let pooled = CellHost { spawner: Some(spawner), ..CellHost::default() };
    let state = tempfile::tempdir()?;
    let home = KeptHome::new(state.path().join("home"), &spec.workspace)?;
    let keeping = CellHost { kept_home: Some(Arc::new(home)), ..pooled.clone() };
    let stopper = Stopper::new()?;
    let (mut bare, mut made, mut waiting, mut kept) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..runs {
        let started = Instant::now();
        if !process::Command::new("/bin/true").status()?.success() {
            return Err("/bin/true failed".into());
        }
        bare.push(started.elapsed());
        let mut kinds = [
            (&alone, &mut made, Origin::Made),
            (&pooled, &mut waiting, Origin::Spawner),
            (&keeping, &mut kept, Origin::Spawner),
        ];
        // The teardown of a cell slows the next one down, so each kind follows each other kind.
        kinds.rotate_left(round % 3);
        if round % 2 == 1 {
            kinds.reverse();
        }
        for (host, times, origin) in kinds {
            let started = Instant::now();
            let outcome = run(&spec, host, &command, None, &stopper, &mut |_, _| {})?;
            times.push(started.elapsed());
            if (outcome.exit, outcome.origin) != (Exit::Code(0), origin) {
                return Err(format!("{:?} in a cell: {:?}", outcome.exit, outcome.origin).into());
            }
        }
    }
    // Use the ballast once more, so that it is not optimised away.
    let ballast = std::hint::black_box(ballast).len() >> 20;
    println!("{runs} runs each, {ballast} MiB resident");
    for (name, percent) in [("min", 0), ("p10", 10), ("p50", 50)] {
        let bare = percentile(&mut bare, percent);
        println!("{name}: bare {bare:?}");
        for (origin, times) in
            [("made", &mut made), ("waiting", &mut waiting), ("waiting, caches kept", &mut kept)]
        {
            let cell = percentile(times, percent);
            let (more, ratio) = (cell.saturating_sub(bare), cell.as_secs_f64() / bare.as_secs_f64());
            println!("    {origin} {cell:?}, {more:?} more, ratio {ratio:.2}");
        }
    }
    for line in waiting_cells()? {
        println!("{line}");
    }
    Ok(())
}

/// Returns the memory of each waiting cell, a child of the spawner, in KiB.
fn waiting_cells() -> Result<Vec<String>, Box<dyn Error>> {
    let nursery = fs::read_to_string("/proc/thread-self/children")?;
    let nursery = nursery.trim();
    let spawner = fs::read_to_string(format!("/proc/{nursery}/task/{nursery}/children"))?;
    let spawner = spawner.trim();
    let cells = fs::read_to_string(format!("/proc/{spawner}/task/{spawner}/children"))?;
    let mut found = Vec::new();
    for pid in cells.split_whitespace() {
        // A waiting cell is not dumpable, so its memory is visible to root alone.
        let Ok(rollup) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else { continue };
        let fields =
            rollup.lines().filter(|line| line.starts_with("Private_Dirty:") || line.starts_with("Rss:"));
        found.push(format!("waiting cell {pid}: {}", fields.collect::<Vec<_>>().join(", ")));
    }
    Ok(found)
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times.get(times.len() * percent / 100).copied().unwrap_or_default()
}
