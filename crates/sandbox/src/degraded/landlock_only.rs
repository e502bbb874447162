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

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::process::geteuid;

use super::{PrivateFolder, rules};
use crate::cgroup::{Group, Owner};
use crate::child::blueprint::{Blueprint, Landlock};
use crate::child::first_steps::GO;
use crate::child::keeper::{self, User};
use crate::enforcement::{Degraded, Enforcement, Home, NetworkReach, UserMapping, WorkspaceChanges};
use crate::error::SandboxError;
use crate::identity::has_further_groups;
use crate::launch::Cell;
use crate::limits::machine::Machine;
use crate::limits::values::{Bounds, LimitInForce};
use crate::roots::Roots;
use crate::spec::{CellSpec, Command};
use crate::streams::{Streams, above_standard, new_terminal};
use crate::{cgroup, landlock, overlay, process, program, seccomp};

/// First Landlock version that isolates signals and abstract sockets.
const OLDEST_LANDLOCK: i32 = 6;

/// Starts a cell of this kind, after one with namespaces was `refused`.
// BOUNDED: one retry, because control groups are given up first.
pub(super) fn launch(
    spec: &CellSpec,
    command: &Command,
    streams: Streams,
    refused: SandboxError,
) -> Result<Cell, SandboxError> {
    let Some(version) = landlock::version().filter(|&version| version >= OLDEST_LANDLOCK) else {
        return Err(neither(refused, "Landlock of Linux 6.12 or later is missing too"));
    };
    let roots = Roots::new(spec)?;
    let user = match owner_instead_of_root(&roots)? {
        RightsOwner::Nobodys => {
            return Err(neither(refused, "without them no command runs in a workspace that root owns"));
        }
        RightsOwner::Owners(user) => Some(user),
        RightsOwner::Callers => None,
    };
    let private = PrivateFolder::new(&spec.spool_directory, user)?;
    private.write(&spec.home_files)?;
    // The rights of another user do not cover a folder that belongs to the caller alone.
    let home = spec.shared_home().filter(|_| user.is_none()).and_then(|home| home.enter().ok());
    let kept = home.as_ref().map(|home| private.link_caches(home.kept())).transpose()?;
    let mut allowed = rules::allow(spec, &roots, (&private, kept.as_deref()), version)?;
    let command = Command { working_directory: allowed.working_directory(command)?, ..command.clone() };
    let mut start = program::prepare(&private.in_environment(spec), &command, streams.announced())?;
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
        return launch(spec, &command, streams, refused);
    }
    send(&control, &[GO], SendFlags::NOSIGNAL).map_err(SandboxError::io("starting the cell"))?;
    let mut cell = Cell::degraded(process, control, ends, enforcement, started_at);
    (cell.group, cell.private, cell.home) = (group, Some(private), home);
    Ok(cell)
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

/// Extends the error for a machine on which neither kind of confinement is available.
fn neither(refused: SandboxError, also: &str) -> SandboxError {
    match refused {
        SandboxError::Unavailable { what, hint, source } => {
            SandboxError::Unavailable { what: format!("{what}, and {also}"), hint, source }
        }
        other => other,
    }
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
