//! Cells whose first process runs this program's code and reports over a control socket. The
//! backends differ in how they make it, and in what must be taken away after its end.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::backend::StartRequest;
use super::cell::{Cell, CellEvent, EndedCell};
use crate::cgroup::Group;
use crate::child::blueprint::{Mount, Source, Step};
use crate::child::first_steps::SIGNAL;
use crate::child::report::{ExecuteFailure, Fault, Report, Stage};
use crate::enforcement::{Enforcement, WorkspaceChanges};
use crate::error::SandboxError;
use crate::hint::unavailable;
use crate::home::InUse;
use crate::limits::space::{Space, WrittenFolder};
use crate::limits::watchdog::Watchdog;
use crate::limits::{ProcessTotal, exceeded};
use crate::outcome::{ChangeSource, Exit, Origin};
use crate::process::Process;
use crate::program;
use crate::spec::Command;
use crate::streams::Ends;

/// The parts of a cell that belong to one backend.
pub(super) trait CellParts: Send + 'static {
    /// Returns the folder of the host in which all files belong to the cell.
    fn own_folder(&self) -> Option<&Path> {
        None
    }

    /// Takes one of the cell's namespaces, which it hands over right before its command starts.
    fn take_namespace(&self, _: Report, _: OwnedFd, _: &Process) -> Result<(), SandboxError> {
        Ok(())
    }

    /// Makes the error for an overlay that the kernel has refused.
    fn overlay_refused(&self, _: Errno) -> Option<SandboxError> {
        None
    }

    /// Ends the cell, as [`Cell::wait`] does. Returns a note on what could not be taken away.
    fn end(
        self,
        process: Process,
        group: Option<Group>,
        may_outlast: bool,
    ) -> Result<Option<String>, SandboxError>;
}

/// A cell of this kind.
///
/// INVARIANT: the process is the first field: it ends before everything that it uses.
pub(super) struct ProcessCell<P> {
    process: Process,
    /// The caller's end of the control socket. Closing it ends the cell.
    control: OwnedFd,
    /// The caller's ends of the command's standard descriptors, until they are taken.
    ends: Ends,
    /// The control group, which must outlive its processes.
    group: Option<Group>,
    facts: CellFacts,
    command: Command,
    changes: ChangeSource,
    /// Limits on the disk space that the cell may use.
    space: Space,
    /// Counter that this cell's processes share with those of other cells.
    process_total: Option<Arc<ProcessTotal>>,
    parts: P,
}

/// The first process of a cell, and its connections.
pub(super) struct FirstProcess {
    pub(super) process: Process,
    pub(super) control: OwnedFd,
    pub(super) ends: Ends,
    pub(super) group: Option<Group>,
}

/// Facts about a cell, known at its start.
pub(super) struct CellFacts {
    pub(super) enforcement: Enforcement,
    pub(super) origin: Origin,
    /// Earliest change time of later changes by other programs.
    pub(super) started_at: SystemTime,
    /// Steps to which the cell's faults refer by number.
    pub(super) steps: Vec<Step>,
    /// Lock that keeps the caches of the cell's home in place.
    pub(super) home: Option<InUse>,
}

impl<P: CellParts> ProcessCell<P> {
    /// Builds the cell. Adds the built-in limit on disk space, unless the call has a limit on disk
    /// writes.
    pub(super) fn new(request: &StartRequest<'_>, first: FirstProcess, facts: CellFacts, parts: P) -> Self {
        let FirstProcess { process, control, ends, group } = first;
        let StartRequest { spec, host, command, .. } = *request;
        let upper = spec.overlay.as_ref().map(|overlay| overlay.upper.clone());
        let upper = upper.filter(|_| facts.enforcement.workspace == WorkspaceChanges::Overlay);
        let mut cell = Self {
            process,
            control,
            ends,
            group,
            facts,
            command: command.clone(),
            changes: upper.map_or(ChangeSource::None, ChangeSource::UpperFolder),
            space: Space::default(),
            process_total: host.process_total.clone(),
            parts,
        };
        if spec.limits.disk.is_some() {
            return cell;
        }
        let facts = &mut cell.facts;
        let own = |folder: &Path| WrittenFolder { folder: folder.to_owned(), is_its_own: true };
        let others = |folder: &Path| WrittenFolder { folder: folder.to_owned(), is_its_own: false };
        let mut written: Vec<WrittenFolder> = cell.parts.own_folder().map(own).into_iter().collect();
        if facts.enforcement.workspace == WorkspaceChanges::Direct {
            written.push(others(&spec.workspace));
        }
        written.extend(facts.enforcement.direct.iter().chain(&spec.read_write).map(|folder| others(folder)));
        written.extend(facts.home.iter().map(|home| others(home.kept())));
        cell.space = Space::begin(written, facts.started_at);
        facts.enforcement.limits.extend(cell.space.in_force());
        cell
    }

    /// Makes the error for a report of a command that never ran.
    fn failed_to_start(&self, report: Report) -> SandboxError {
        match report {
            Report::Fault(fault) => self.fault(fault),
            Report::WorkingDirectory(errno) => SandboxError::WorkingDirectory {
                path: self.command.working_directory.clone(),
                source: errno.into(),
            },
            Report::Execute { failure: ExecuteFailure::NotFound, .. } => {
                SandboxError::ProgramNotFound { program: program::name(&self.command) }
            }
            Report::Execute { failure, errno } => SandboxError::NotExecutable {
                program: program::name(&self.command),
                reason: reason(failure, errno),
                source: errno.into(),
            },
            Report::Ended { .. }
            | Report::Ready
            | Report::Started
            | Report::Terminal
            | Report::UserNamespace
            | Report::MountNamespace => SandboxError::Io {
                doing: "understanding the cell",
                source: std::io::ErrorKind::InvalidData.into(),
            },
        }
    }

    /// Makes the error for a fault that the cell has reported.
    fn fault(&self, fault: Fault) -> SandboxError {
        let step = usize::try_from(fault.step).ok().and_then(|index| self.facts.steps.get(index));
        let doing = match (fault.stage, step) {
            (Stage::TakeTree | Stage::Step | Stage::Check, Some(step)) => {
                format!("{} (`{}`)", fault.stage.doing(), step.path().display())
            }
            _ => fault.stage.doing().to_owned(),
        };
        if let Some(Step::Mount(Mount { source: Source::Overlay { .. }, .. })) = step
            && let Some(error) = self.parts.overlay_refused(fault.errno)
        {
            return error;
        }
        let refused = matches!(fault.errno, Errno::PERM | Errno::ACCESS | Errno::NOSYS);
        // These stages do not touch the user's files, so the machine is the cause of a refusal.
        let of_machine = matches!(
            fault.stage,
            Stage::Identity
                | Stage::PrivateMounts
                | Stage::NewRoot
                | Stage::Names
                | Stage::Network
                | Stage::Capabilities
                | Stage::Landlock
                | Stage::Seccomp
        ) || step.is_some_and(|step| step.path().starts_with("/proc"));
        if refused && of_machine {
            return unavailable(&format!("the right for {doing}"), fault.errno);
        }
        SandboxError::Setup { doing, source: fault.errno.into() }
    }
}

impl<P: CellParts> Cell for ProcessCell<P> {
    fn take_stdio(&mut self) -> Ends {
        std::mem::take(&mut self.ends)
    }

    fn enforcement(&self) -> &Enforcement {
        &self.facts.enforcement
    }

    fn first_process(&self) -> i32 {
        self.process.pid()
    }

    fn take_watchdog(&mut self, now: Instant) -> Watchdog {
        let (space, total) = (std::mem::take(&mut self.space), self.process_total.clone());
        Watchdog::over(self.process.pid(), &self.facts.enforcement, space, total, now)
    }

    fn events(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    fn next_event(&self) -> Result<Option<CellEvent>, SandboxError> {
        let received = match Report::receive_with(self.control.as_fd()) {
            Ok(Some(received)) => received,
            // The control socket closes only when the cell's first process ends.
            Ok(None) => return Ok(Some(CellEvent::Closed)),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(errno) => return Err(SandboxError::io("listening to the cell")(errno)),
        };
        Ok(Some(match received {
            (Report::Ended { status, last }, _) => CellEvent::Ended { exit: exit(status), alone: last },
            (report @ (Report::UserNamespace | Report::MountNamespace), Some(namespace)) => {
                self.parts.take_namespace(report, namespace, &self.process)?;
                CellEvent::Connected
            }
            (Report::Started, _) => CellEvent::Started,
            (Report::Terminal, Some(terminal)) => CellEvent::Terminal(terminal),
            (report, _) => return Err(self.failed_to_start(report)),
        }))
    }

    fn signal(&self, number: u8) {
        // If the cell is gone already, its end is about to be read from the control socket.
        let _gone = send(&self.control, &[SIGNAL, number], SendFlags::NOSIGNAL);
    }

    fn kill(&self) {
        self.process.kill();
    }

    fn wait(self: Box<Self>, exit: Exit, may_outlast: bool) -> Result<EndedCell, SandboxError> {
        let Self { process, control, group, facts, changes, parts, .. } = *self;
        let CellFacts { mut enforcement, origin, started_at, home, .. } = facts;
        let exceeded = exceeded(group.as_ref(), exit, &enforcement.limits);
        // The first process of a cell that was made now is a copy of this whole program.
        let note = parts.end(process, group, may_outlast && origin != Origin::Made)?;
        enforcement.missing.extend(note);
        drop((control, home));
        Ok(EndedCell { enforcement, changes, origin, started_at, exceeded })
    }
}

fn exit(status: i32) -> Exit {
    if libc::WIFEXITED(status) {
        Exit::Code(libc::WEXITSTATUS(status))
    } else {
        Exit::Signal(libc::WTERMSIG(status))
    }
}

/// Returns the reason why a command could not be executed, in words.
fn reason(failure: ExecuteFailure, errno: Errno) -> &'static str {
    match (failure, errno) {
        (ExecuteFailure::InterpreterMissing, _) => {
            "the interpreter or loader that it names is not in the sandbox"
        }
        (_, Errno::ACCESS) => "permission denied: it is not executable, or is a folder",
        (_, Errno::NOEXEC) => {
            "it is neither a program for this machine nor a script that names its interpreter"
        }
        (_, Errno::TOOBIG) => "its arguments and environment are too large",
        _ => "the kernel refuses to execute it",
    }
}
