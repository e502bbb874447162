//! Running one command in one cell until its end.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::capture::Capture;
use crate::degraded::{self, PrivateFolder};
use crate::error::SandboxError;
use crate::launch::{Cell, launch};
use crate::limits::exceeded;
use crate::outcome::{EndReason, Origin, Outcome, Stream};
use crate::owner::{Owner, OwnerRequest};
use crate::spec::{CellSpec, Command};
use crate::stdio_pump::Plumbing;
use crate::stopper::Stopper;
use crate::streams::Streams;
use crate::supervise::supervise;

/// Runs `command` in a new cell and waits for its end.
///
/// At the deadline, or when the stopper is used, the command's process group gets SIGTERM. Every
/// process in the cell is killed 200 ms later; the outcome contains the output until then. When the
/// command has ended, its remaining descendants are killed: at once, or after at most 100 ms if
/// they still have the output open. So no process that the command started is left when this
/// returns, and no process changes the roots or the upper folder any more. The first process of a
/// cell that had waited runs this program's code, and may still be taking the cell's mounts down.
/// If this program dies in the meantime, the cell ends in the same way.
///
/// `on_output` is called on this thread with every piece of output as it is read, at most 64 KiB at
/// once. It must not block for long: while it runs, no output is read and no deadline is noticed.
///
/// This function blocks, and may be called from any thread, and from several at once.
///
/// If the machine refuses namespaces, the cell has none; see
/// [`Enforcement::degraded`](crate::Enforcement).
///
/// # Errors
/// Returns a [`SandboxError`]; a command never runs without a cell.
pub fn run(
    spec: &CellSpec,
    command: &Command,
    deadline: Option<Duration>,
    stopper: &Stopper,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Outcome, SandboxError> {
    match run_in_namespaces(spec, command, deadline, stopper, on_output) {
        // INVARIANT: with this error, the command has not started.
        Err(error) if degraded::may_follow(spec, &error) => {
            let started = Instant::now();
            let cell = degraded::launch(spec, command, Streams::Captured, error)?;
            run_in(cell, spec, command, (started, deadline), stopper, on_output)
        }
        other => other,
    }
}

/// Runs `command` as [`run`] does, but fails without namespaces.
pub(crate) fn run_in_namespaces(
    spec: &CellSpec,
    command: &Command,
    deadline: Option<Duration>,
    stopper: &Stopper,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Outcome, SandboxError> {
    let started = Instant::now();
    let cell = launch(spec, command, Streams::Captured)?;
    run_in(cell, spec, command, (started, deadline), stopper, on_output)
}

/// Runs the command of a launched cell; `started` is the time of the call.
fn run_in(
    mut cell: Cell,
    spec: &CellSpec,
    command: &Command,
    (started, deadline): (Instant, Option<Duration>),
    stopper: &Stopper,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Outcome, SandboxError> {
    // A deadline beyond the range of the clock has no effect.
    let deadline = deadline.and_then(|deadline| started.checked_add(deadline));
    let mut plumbing = Plumbing::new(std::mem::take(&mut cell.ends));
    let capture = || Capture::new(spec.spool_directory.clone(), spec.output_limit);
    let mut caller =
        Caller { stdout: capture(), stderr: capture(), deadline, stopper, stopped: false, on_output };
    let space = std::mem::take(&mut cell.space);
    let end = supervise(&cell, space, command, &mut plumbing, &mut caller)?;
    let exceeded = end.exceeded.or_else(|| exceeded(cell.group.as_ref(), end.exit, &cell.enforcement.limits));
    // Covering ends here; `kept` is the only reference that keeps the cell's file system alive.
    let kept = cell.late.take().map(|late| late.end());
    match &spec.spawner {
        // A first process that is alone is our own code at its end, and takes the cell's mounts
        // down. No caller need wait for that: an overlay does not buffer writes. Once the writers
        // are gone, all their writes, including those through mappings, are in the upper folder's
        // files.
        Some(spawner) if end.alone && cell.origin != Origin::Made => {
            spawner.see_off(cell.process, cell.group, kept);
        }
        _ => {
            drop(kept);
            cell.process.kill();
            cell.process.end().map_err(SandboxError::io("waiting for the end of the cell"))?;
            drop((cell.maker, cell.group));
        }
    }
    if let Some(spawner) = &spec.spawner {
        spawner.refill();
    }
    plumbing.finish(&mut caller)?;
    if let Some(Err(error)) = cell.private.map(PrivateFolder::remove) {
        cell.enforcement.missing.push(format!("removal of the private folder: {error}"));
    }
    Ok(Outcome {
        exit: end.exit,
        ended: end.ended,
        waited_for_input: end.waited_for_input,
        stdout: caller.stdout.finish(),
        stderr: caller.stderr.finish(),
        duration: end.at.saturating_duration_since(started),
        exceeded,
        enforcement: cell.enforcement,
        origin: cell.origin,
        started_at: cell.started_at,
    })
}

/// The waiting caller of a command: has a deadline, may stop the command, and receives all output.
struct Caller<'a> {
    stdout: Capture,
    stderr: Capture,
    deadline: Option<Instant>,
    stopper: &'a Stopper,
    stopped: bool,
    on_output: &'a mut dyn FnMut(Stream, &[u8]),
}

impl Owner for Caller<'_> {
    const LINGERS: bool = false;

    fn output(&mut self, stream: Stream, chunk: &[u8]) {
        match stream {
            Stream::Stdout => self.stdout.push(chunk),
            Stream::Stderr => self.stderr.push(chunk),
        }
        (self.on_output)(stream, chunk);
    }

    fn deadline(&self) -> Option<(Instant, EndReason)> {
        self.deadline.map(|deadline| (deadline, EndReason::Deadline))
    }

    fn event(&self) -> Option<BorrowedFd<'_>> {
        (!self.stopped).then(|| self.stopper.event())
    }

    fn wish(&mut self) -> Option<OwnerRequest> {
        (!std::mem::replace(&mut self.stopped, true)).then_some(OwnerRequest::End(EndReason::Stopped))
    }
}
