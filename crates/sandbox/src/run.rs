//! Running one command in one cell until its end.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::capture::Capture;
use crate::cell_processes::RunningCell;
use crate::error::SandboxError;
use crate::isolation::backend::{CellHost, StartRequest};
use crate::isolation::cell::Cell;
use crate::outcome::{EndReason, Outcome, Stream};
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
/// If the machine does not offer the preferred isolation, the next one makes the cell; see
/// [`Enforcement::degraded`](crate::Enforcement).
///
/// # Errors
/// Returns a [`SandboxError`]; a command never runs without a cell.
pub fn run(
    spec: &CellSpec,
    host: &CellHost,
    command: &Command,
    deadline: Option<Duration>,
    stopper: &Stopper,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Outcome, SandboxError> {
    host.isolation.in_turn(spec, |backend| {
        let started = Instant::now();
        let cell = backend.start(&StartRequest { spec, host, command, streams: Streams::Captured })?;
        // A deadline beyond the range of the clock has no effect.
        let deadline = deadline.and_then(|deadline| started.checked_add(deadline));
        let capture = || Capture::new(spec.spool_directory.clone(), spec.output_limit);
        let (stdout, stderr) = (capture(), capture());
        let on_output = &mut *on_output;
        run_in(cell, host, started, Caller { stdout, stderr, deadline, stopper, stopped: false, on_output })
    })
}

/// Runs the command of a launched cell; `started` is the time of the call.
fn run_in(
    mut cell: Box<dyn Cell>,
    host: &CellHost,
    started: Instant,
    mut caller: Caller<'_>,
) -> Result<Outcome, SandboxError> {
    let _running = RunningCell::of(host.processes.as_deref(), cell.first_process());
    let mut plumbing = Plumbing::new(cell.take_stdio());
    let end = supervise(&mut *cell, &mut plumbing, &mut caller)?;
    let ended = cell.wait(end.exit, end.alone)?;
    if let Some(spawner) = &host.spawner {
        spawner.refill();
    }
    plumbing.finish(&mut caller)?;
    Ok(Outcome {
        exit: end.exit,
        ended: end.ended,
        waited_for_input: end.waited_for_input,
        stdout: caller.stdout.finish(),
        stderr: caller.stderr.finish(),
        duration: end.at.saturating_duration_since(started),
        exceeded: end.exceeded.or(ended.exceeded),
        enforcement: ended.enforcement,
        changes: ended.changes,
        origin: ended.origin,
        started_at: ended.started_at,
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
