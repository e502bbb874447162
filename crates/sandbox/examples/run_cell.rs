//! Runs a shell line in a cell that shows one folder:
//! `run_cell [--spawner] [--memory BYTES] [--disk BYTES] [--overlay PRIVATE_FOLDER] FOLDER LINE
//! [READ_ONLY_FOLDER...]`.
//!
//! Prints the command's output, then its exit status and the restrictions in force. With `-` for
//! the line, does so for each line of standard input. Useful to explore a cell by hand; tests kill
//! it to see its cells die.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example says what it found")]

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox::{CellHost, CellSpec, Command, Limits, Overlay, Pool, Program, Spawner, Stopper, Stream, run};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).peekable();
    let spawner = match arguments.next_if(|argument| argument == "--spawner") {
        Some(_) => Some(Arc::new(Spawner::start(Pool::default())?)),
        None => None,
    };
    let mut limits = Limits::default();
    for (name, limit) in [("--memory", &mut limits.memory), ("--disk", &mut limits.disk)] {
        if arguments.next_if(|argument| argument == name).is_some() {
            let value =
                arguments.next().and_then(|value| value.into_string().ok()).ok_or("a limit has no value")?;
            *limit = Some(value.parse()?);
        }
    }
    let overlay = match arguments.next_if(|argument| argument == "--overlay") {
        Some(_) => Some(overlay(&PathBuf::from(arguments.next().unwrap_or_default()))?),
        None => None,
    };
    let (Some(workspace), Some(line)) = (arguments.next(), arguments.next()) else {
        return Err(
            "usage: run_cell [--spawner] [--memory BYTES] [--disk BYTES] [--overlay PRIVATE_FOLDER] FOLDER LINE [READ_ONLY_FOLDER...]".into(),
        );
    };
    let spec = CellSpec {
        workspace: PathBuf::from(workspace),
        read_only: arguments.map(PathBuf::from).collect(),
        spool_directory: std::env::temp_dir(),
        output_limit: 1 << 30,
        limits,
        overlay,
        ..CellSpec::default()
    };
    let host = CellHost { spawner, ..CellHost::default() };
    let line = line.into_string().map_err(|_| "the line is not UTF-8")?;
    if line != "-" {
        return one(&spec, &host, line);
    }
    for line in std::io::stdin().lines() {
        one(&spec, &host, line?)?;
    }
    Ok(())
}

fn overlay(folder: &Path) -> Result<Overlay, Box<dyn Error>> {
    let overlay = Overlay { upper: folder.join("upper"), work: folder.join("work") };
    fs::create_dir(&overlay.upper)?;
    fs::create_dir(&overlay.work)?;
    Ok(overlay)
}

fn one(spec: &CellSpec, host: &CellHost, line: String) -> Result<(), Box<dyn Error>> {
    let command = Command { program: Program::Shell(line), working_directory: spec.workspace.clone() };
    let outcome = run(spec, host, &command, None, &Stopper::new()?, &mut |stream, chunk| {
        // A closed pipe of this example is no reason to disturb the command.
        let _closed = match stream {
            Stream::Stdout => std::io::stdout().write_all(chunk),
            Stream::Stderr => std::io::stderr().write_all(chunk),
        };
    })?;
    println!("{:?}, {:?}, {:?}, {:?}", outcome.exit, outcome.ended, outcome.duration, outcome.origin);
    if let Some(limit) = outcome.exceeded {
        println!("exceeded: {limit}");
    }
    eprintln!("{}", outcome.enforcement.summary().join(" "));
    Ok(())
}
