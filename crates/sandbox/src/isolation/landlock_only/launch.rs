//! Cells of Landlock and a stricter system call filter alone.
//!
//! A cell of this kind shows the host's file system and refuses to open any file that an ordinary
//! cell would not show. Every result names the gaps that this leaves.
//!
//! Landlock version 6 (Linux 6.12) is required: with older versions a command could send signals to
//! every process of its user. The command never runs as root: if Handfast does, the command gets
//! the rights of the workspace's owner, who must not be root.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::process::geteuid;

use super::private::PrivateFolder;
use super::rules;
use crate::cgroup::{Group, Owner};
use crate::child::blueprint::{Blueprint, Landlock};
use crate::child::first_steps::GO;
use crate::child::keeper::{self, User};
use crate::enforcement::{Degraded, Enforcement, Home, NetworkReach, UserMapping, WorkspaceChanges};
use crate::error::SandboxError;
use crate::hint::not_offered;
use crate::identity::has_further_groups;
use crate::isolation::backend::{Abilities, Backend, StartRequest};
use crate::isolation::cell::Cell;
use crate::isolation::first_process::{CellFacts, CellParts, FirstProcess, ProcessCell};
use crate::limits::machine::Machine;
use crate::limits::values::{Bounds, LimitInForce};
use crate::outcome::Origin;
use crate::process::Process;
use crate::roots::Roots;
use crate::spec::Command;
use crate::streams::{above_standard, new_terminal};
use crate::{cgroup, landlock, overlay, process, program, seccomp};

/// First Landlock version that isolates signals and abstract sockets.
const OLDEST_LANDLOCK: i32 = 6;

/// The backend of Landlock alone.
#[derive(Debug)]
pub(crate) struct LandlockOnly;

impl Backend for LandlockOnly {
    fn name(&self) -> &'static str {
        "landlock"
    }

    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn Cell>, SandboxError> {
        launch(request).map(|cell| Box::new(cell) as Box<dyn Cell>)
    }
}

/// The parts of a cell of this backend.
struct LandlockParts {
    private: PrivateFolder,
}

impl CellParts for LandlockParts {
    fn own_folder(&self) -> Option<&Path> {
        Some(self.private.path())
    }

    fn end(self, process: Process, group: Option<Group>, _: bool) -> Result<Option<String>, SandboxError> {
        process.kill();
        process.end().map_err(SandboxError::io("waiting for the end of the cell"))?;
        drop(group);
        let removed = self.private.remove();
        Ok(removed.err().map(|error| format!("removal of the private folder: {error}")))
    }
}

// BOUNDED: one retry, because control groups are given up first.
fn launch(request: &StartRequest<'_>) -> Result<ProcessCell<LandlockParts>, SandboxError> {
    let StartRequest { spec, host, command, streams } = *request;
    let Some(version) = landlock::version().filter(|&version| version >= OLDEST_LANDLOCK) else {
        let hint = "use Linux 6.12 or later, with `landlock` in its list of security modules";
        return Err(not_offered("Landlock of Linux 6.12 or later is missing", hint));
    };
    let roots = Roots::new(spec)?;
    let user = match owner_instead_of_root(&roots)? {
        RightsOwner::Nobodys => {
            let hint = "start Handfast as the user who owns the workspace";
            return Err(not_offered(
                "without namespaces no command runs in a workspace that root owns",
                hint,
            ));
        }
        RightsOwner::Owners(user) => Some(user),
        RightsOwner::Callers => None,
    };
    let private = PrivateFolder::new(&spec.spool_directory, user)?;
    private.write(&spec.home_files)?;
    // The rights of another user do not cover a folder that belongs to the caller alone.
    let home = host.shared_home(spec).filter(|_| user.is_none()).and_then(|home| home.enter().ok());
    let kept = home.as_ref().map(|home| private.link_caches(home.kept())).transpose()?;
    let mut allowed = rules::allow(spec, &roots, (&private, kept.as_deref()), version)?;
    let confined = Command { working_directory: allowed.working_directory(command)?, ..command.clone() };
    let mut start = program::prepare(&private.in_environment(spec), &confined, streams.announced())?;
    // Without a user namespace the kernel counts all processes of the user.
    let machine = Machine { counts_processes_by_namespace: false, ..Machine::this().clone() };
    let bounds = Bounds::of(&spec.limits, &machine);
    let mut group = cgroup::hierarchy()
        .zip(Owner::this())
        .and_then(|(hierarchy, owner)| Group::make(hierarchy, &owner, &bounds).map(|(_, group)| group).ok());
    if let Some(group) = &mut group {
        group.limit_processes(&bounds);
    }
    let limits = bounds.in_force(group.as_ref(), &machine);
    start.bounds = bounds.resources(&limits, &machine);
    start.processors = bounds.processors(&limits, &machine);
    let (control, inner_control) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(SandboxError::io("making a socket pair"))?;
    let inner_control = above_standard(inner_control)?;
    let receiver = user.map(|User { user, group }| (user, group));
    let (ends, theirs) = match spec.terminal {
        Some(size) => new_terminal(size, receiver)?,
        None => streams.make(None, receiver)?,
    };
    if let (Some(_), [terminal]) = (spec.terminal, &theirs.descriptors[..]) {
        allowed.terminal(terminal.as_fd(), version)?;
    }
    let fence = above_standard(landlock::ruleset_for_signals()?)?;
    let mut keep: Vec<_> = [&inner_control, &allowed.ruleset, &fence].map(AsRawFd::as_raw_fd).into();
    keep.extend(theirs.descriptors.iter().map(AsRawFd::as_raw_fd));
    keep.sort_unstable();
    let blueprint = Blueprint {
        keep,
        control: inner_control.as_raw_fd(),
        standard: theirs.standard,
        drop_groups: false,
        shares_network: false,
        own_map: None,
        steps: Vec::new(),
        landlock: Some(Landlock { ruleset: allowed.ruleset.as_raw_fd(), rules: Vec::new() }),
        filter: if spec.reads_only { seccomp::filter_reading()? } else { seccomp::filter_alone()? },
        start,
    };
    let started_at = overlay::now();
    let enforcement = Enforcement {
        home: if home.is_some() { Home::CachesKept } else { Home::Fresh },
        ..enforcement(&roots, version, user, limits, allowed.missing)?
    };
    let process = process::start_keeper(|| keeper::enter(&blueprint, fence.as_raw_fd(), user))
        .map_err(SandboxError::io("starting a process"))?;
    if group.as_mut().is_some_and(|group| group.attach(process.pid()).is_err()) {
        drop(process);
        cgroup::give_up();
        return launch(request);
    }
    send(&control, &[GO], SendFlags::NOSIGNAL).map_err(SandboxError::io("starting the cell"))?;
    let first = FirstProcess { process, control, ends, group };
    let (origin, steps) = (Origin::Made, Vec::new());
    let facts = CellFacts { enforcement, origin, started_at, steps, home };
    Ok(ProcessCell::new(request, first, facts, LandlockParts { private }))
}

/// The owner of the rights that a command gets.
enum RightsOwner {
    Callers,
    Owners(User),
    /// A suitable user does not exist.
    Nobodys,
}

fn owner_instead_of_root(roots: &Roots) -> Result<RightsOwner, SandboxError> {
    if !geteuid().is_root() {
        return Ok(RightsOwner::Callers);
    }
    let Some(workspace) = roots.workspace() else { return Ok(RightsOwner::Nobodys) };
    let found = fs::metadata(&workspace.real)
        .map_err(|source| SandboxError::Io { doing: "finding the owner of the workspace", source })?;
    Ok(match (found.uid(), found.gid()) {
        (0, _) | (_, 0) => RightsOwner::Nobodys,
        (user, group) => RightsOwner::Owners(User { user, group }),
    })
}

fn enforcement(
    roots: &Roots,
    version: i32,
    user: Option<User>,
    limits: Vec<LimitInForce>,
    mut missing: Vec<String>,
) -> Result<Enforcement, SandboxError> {
    let always = [
        "hiding the names and sizes of other files",
        "guarding the modes and times of the user's other files",
        "a private /tmp",
        "processes of its own",
    ];
    missing.extend(always.map(str::to_owned));
    if user.is_none() && has_further_groups(rustix::process::getegid().as_raw())? {
        missing.push("dropping the user's further groups".to_owned());
    }
    let writable = roots.workspace().is_some_and(|root| root.writable);
    Ok(Enforcement {
        denied_files: crate::enforcement::DeniedFiles::AtStart,
        degraded: Some(Degraded::Landlock),
        namespaces: &[],
        landlock_abi: Some(version),
        seccomp: true,
        user: if user.is_some() { UserMapping::WorkspaceOwner } else { UserMapping::Own },
        network: NetworkReach::Own,
        workspace: if writable { WorkspaceChanges::Direct } else { WorkspaceChanges::ReadOnly },
        direct: Vec::new(),
        home: Home::Fresh,
        limits,
        missing,
    })
}
