//! Measures the cost that an overlay adds to a command: `overlay_cost FOLDER [RUNS]`, by default
//! 200 runs each.
//!
//! The folder is the workspace, for example one of 100,000 files; `d000/f0` to `d009/f0` in it are
//! changed. Direct cells and cells with an overlay take turns, all from a spawner, so that other
//! load on the machine affects both. Making and removing the folders of the overlay is not
//! measured, because the caller does that before and after.

#![expect(clippy::print_stdout, reason = "an example says what it found")]

use std::error::Error;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox::{CellHost, CellSpec, Command, Exit, Overlay, Pool, Program, Spawner, Stopper, run};

fn main() -> Result<(), Box<dyn Error>> {
    let spawner = Arc::new(Spawner::start(Pool::default())?);
    let mut arguments = std::env::args().skip(1);
    let workspace = PathBuf::from(arguments.next().ok_or("usage: overlay_cost FOLDER [RUNS]")?);
    let runs: usize = arguments.next().map_or(Ok(200), |text| text.parse())?;
    let state = tempfile::tempdir()?;
    let direct = CellSpec {
        workspace: workspace.canonicalize()?,
        spool_directory: std::env::temp_dir(),
        output_limit: 1 << 20,
        ..CellSpec::default()
    };
    let host = CellHost { spawner: Some(spawner), ..CellHost::default() };
    let ten = "for i in 0 1 2 3 4 5 6 7 8 9; do echo changed > d00$i/f0; done";
    let programs = [
        ("true", Program::Argv(vec!["/bin/true".into()])),
        ("ten files", Program::Shell(ten.to_owned())),
        ("walk", Program::Argv(["/usr/bin/find", ".", "-name", "none"].map(Into::into).into())),
    ];
    let stopper = Stopper::new()?;
    for (name, program) in programs {
        let command = Command { program, working_directory: direct.workspace.clone() };
        let (mut plain, mut overlaid) = (Vec::new(), Vec::new());
        let runs = if name == "walk" { runs.min(20) } else { runs };
        for _ in 0..runs {
            plain.push(time(&direct, &host, &command, &stopper)?);
            let private = fs::Permissions::from_mode(0o700);
            let folder = tempfile::Builder::new().permissions(private).tempdir_in(state.path())?;
            let overlay = Some(folders(folder.path())?);
            overlaid.push(time(&CellSpec { overlay, ..direct.clone() }, &host, &command, &stopper)?);
        }
        for (label, percent) in [("min", 0), ("p10", 10), ("p50", 50)] {
            let (direct, direct_end) = percentiles(&plain, percent);
            let (overlay, overlay_end) = percentiles(&overlaid, percent);
            let more = overlay.saturating_sub(direct);
            println!(
                "{name}, {label}: direct {direct:?} ({direct_end:?} after its end), overlay {overlay:?} \
                 ({overlay_end:?} after its end), {more:?} more"
            );
        }
    }
    Ok(())
}

/// Returns the whole duration, and the part of it after the command's end.
fn time(
    spec: &CellSpec,
    host: &CellHost,
    command: &Command,
    stopper: &Stopper,
) -> Result<(Duration, Duration), Box<dyn Error>> {
    let started = Instant::now();
    let outcome = run(spec, host, command, None, stopper, &mut |_, _| {})?;
    let took = started.elapsed();
    if outcome.exit != Exit::Code(0) {
        return Err(String::from_utf8_lossy(&outcome.stderr.head).into());
    }
    Ok((took, took.saturating_sub(outcome.duration)))
}

fn folders(folder: &Path) -> Result<Overlay, Box<dyn Error>> {
    let overlay = Overlay { upper: folder.join("upper"), work: folder.join("work") };
    for path in [&overlay.upper, &overlay.work] {
        DirBuilder::new().mode(0o700).create(path)?;
    }
    Ok(overlay)
}

fn percentiles(times: &[(Duration, Duration)], percent: usize) -> (Duration, Duration) {
    let (mut whole, mut end): (Vec<_>, Vec<_>) = times.iter().copied().unzip();
    let at = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times.get(times.len() * percent / 100).copied().unwrap_or_default()
    };
    (at(&mut whole), at(&mut end))
}
