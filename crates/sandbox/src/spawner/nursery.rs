//! The process from which spawners are started: small, and with one thread, however large this
//! program has become.
//!
//! Each spawner starts in a separate network, because a cell has no right over any network and
//! cannot change it. So the cells of each network wait inside of it, and none is a copy of this
//! program.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg, socketpair,
};
use rustix::process::{DumpableBehavior, PidfdFlags, getpid, pidfd_open, set_dumpable_behavior};
use rustix::thread::set_name;

use super::process::{SpawnerProcess, timespec};
use super::serve::{AFTERMATH, AFTERMATH_STEP, SpawnerState, settle};
use crate::cgroup::{Hierarchy, Owner};
use crate::child::first_steps::{EndOnUnwind, GO, keep_only, told_to_go};
use crate::child::holder::raise_loopback;
use crate::enforcement::UserMapping;
use crate::error::SandboxError;
use crate::identity::Identity;
use crate::limits::values::Bounds;
use crate::network::Network;
use crate::process::{self, Process, start_unattended, write_map};
use crate::streams::above_standard;
use crate::sys;
use crate::view::View;

/// Maximum time for the start of a spawner: a thousand times its usual time, also on a busy
/// machine.
const BIRTH: Duration = Duration::from_secs(5);

/// Message that a spawner has started: its id, a descriptor of its process, and its network if it
/// has one.
const BORN: u8 = b'b';

/// The process, seen from this program.
#[derive(Debug)]
pub(super) struct Nursery {
    pub(super) identity: Identity,
    pub(super) landlock: Option<i32>,
    /// Paths of the foundation, except those in the home. No root may lie at or above one of them.
    pub(super) foundation: Vec<PathBuf>,
    /// Limits of the cells' groups.
    pub(super) bounds: Bounds,
    pub(super) hierarchy: Option<&'static Hierarchy>,
    mounts: Mutex<Mounts>,
    line: OwnedFd,
    /// INVARIANT: after `line`. Closing `line` first makes the process clean up and end.
    _process: SpawnerProcess,
}

/// The mounts of this process, which the nursery and all spawners share.
#[derive(Debug)]
struct Mounts {
    /// File that reports changes since the last check.
    file: File,
    changes: u64,
}

/// A started spawner.
pub(super) struct StartedSpawner {
    pub(super) line: OwnedFd,
    pub(super) process: Process,
    /// Network of its cells; `None` if each has a separate one, because this machine refuses to
    /// share one.
    pub(super) network: Option<Arc<Network>>,
}

impl Nursery {
    /// Starts the process, as a copy of this one.
    pub(super) fn start(
        identity: Identity,
        landlock: Option<i32>,
        foundation: Vec<PathBuf>,
        bounds: Bounds,
        hierarchy: Option<&'static Hierarchy>,
        shown: View,
    ) -> Result<Self, SandboxError> {
        // Opened before the process copies the mounts, so that no change of them is missed.
        let file = File::open("/proc/self/mountinfo")
            .map_err(|source| SandboxError::Io { doing: "watching the mounts", source })?;
        let (line, theirs) = pair()?;
        let theirs = above_standard(theirs)?;
        let nursing =
            NurseryState { line: theirs, identity, landlock, bounds, hierarchy, starter: Owner::this() };
        let process =
            process::start(0, || nursing.serve(shown)).map_err(SandboxError::io("starting the spawner"))?;
        let mounts = Mutex::new(Mounts { file, changes: 0 });
        let process = SpawnerProcess(process);
        Ok(Self { identity, landlock, foundation, bounds, hierarchy, mounts, line, _process: process })
    }

    /// Returns the number of detected changes of the mounts.
    pub(super) fn mount_changes(&self) -> u64 {
        let mut mounts = self.mounts.lock();
        let now = Timespec::default();
        if poll(&mut [PollFd::new(&mounts.file, PollFlags::PRI)], Some(&now)) != Ok(0) {
            mounts.changes += 1;
        }
        mounts.changes
    }

    /// Begins the start of a spawner that keeps `waiting` cells waiting, and returns the line to it.
    pub(super) fn ask(&self, waiting: u8) -> Result<OwnedFd, SandboxError> {
        let (line, theirs) = pair()?;
        let descriptors = [theirs.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.line, &[IoSlice::new(&[waiting])], &mut ancillary, flags)
            .map_err(SandboxError::io("starting a spawner"))?;
        Ok(line)
    }
}

fn pair() -> Result<(OwnedFd, OwnedFd), SandboxError> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(SandboxError::io("making a socket pair"))
}

/// Waits until the spawner at the other end of the line has started.
pub(super) fn started(line: OwnedFd) -> Result<StartedSpawner, SandboxError> {
    born(line).map_err(SandboxError::io("starting a spawner"))
}

/// Waits for the first message of a new spawner.
fn born(line: OwnedFd) -> Result<StartedSpawner, Errno> {
    let timeout = timespec(BIRTH);
    loop {
        match poll(&mut [PollFd::new(&line, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(Errno::TIMEDOUT),
            Err(Errno::INTR) => {}
            polled => break polled.map(drop)?,
        }
    }
    let (mut what, mut pid) = ([0_u8; 1], [0_u8; 4]);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(&mut what), IoSliceMut::new(&mut pid)];
    let received = recvmsg(&line, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT)?;
    let mut descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let mut descriptors = descriptors.next().into_iter().flatten();
    match (received.bytes, what, descriptors.next()) {
        (5, [BORN], Some(process)) => {
            let process = Process::adopt(i32::from_ne_bytes(pid), process);
            let network = descriptors.next().map(|network| Network::held(descriptors.next(), network));
            Ok(StartedSpawner { line, process, network: network.map(Arc::new) })
        }
        _ => Err(Errno::PIPE),
    }
}

/// The state of the process.
struct NurseryState {
    line: OwnedFd,
    identity: Identity,
    landlock: Option<i32>,
    bounds: Bounds,
    hierarchy: Option<&'static Hierarchy>,
    /// Program that has started the process.
    starter: Option<Owner>,
}

impl NurseryState {
    /// Runs the process. All signals must be blocked: only its line and SIGKILL end it, not a
    /// terminal's signals to all processes.
    fn serve(self, mut shown: View) -> ! {
        let _guard = EndOnUnwind;
        if settle(&self.line).is_ok() {
            while let Ok((line, waiting)) = self.asked() {
                // On failure, the requester finds its line closed.
                let _refused = self
                    .start(true, &line, waiting, &mut shown)
                    // If a shared network is not available, each cell has a separate one, and the
                    // results report that.
                    .or_else(|_| self.start(false, &line, waiting, &mut shown));
            }
            self.remove_groups();
        }
        sys::exit(0)
    }

    /// Receives the line of the next spawner to start, and the number of cells that it keeps
    /// waiting; returns an error when this program is gone.
    fn asked(&self) -> Result<(OwnedFd, u8), Errno> {
        loop {
            let mut waiting = [0_u8; 1];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let parts = &mut [IoSliceMut::new(&mut waiting)];
            let received = match recvmsg(&self.line, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => continue,
                received => received?.bytes,
            };
            let line = ancillary.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
                _ => None,
            });
            match (received, line) {
                (0, _) => return Err(Errno::PIPE),
                (_, Some(line)) => return Ok((line, waiting[0])),
                // The program had too many open files to send a descriptor.
                (_, None) => {}
            }
        }
    }

    /// Starts a spawner and waits until it has reported its start.
    fn start(
        &self,
        in_network: bool,
        line: &OwnedFd,
        waiting: u8,
        shown: &mut View,
    ) -> Result<(), SandboxError> {
        // An ordinary user has rights over a network only in a separate user namespace.
        let own = in_network && self.identity.mapping == UserMapping::Own;
        let flags =
            if in_network { libc::CLONE_NEWNET } else { 0 } | if own { libc::CLONE_NEWUSER } else { 0 };
        let (here, there) = pair()?;
        let begin = || self.begin(line, &there, in_network.then_some(own), waiting, shown);
        let (pid, _process) =
            start_unattended(None, flags, begin).map_err(SandboxError::io("starting a spawner"))?;
        drop(there);
        if own {
            let (user, group) = (self.identity.user, self.identity.group);
            let mapped = write_map(pid, "setgroups", "deny")
                .and_then(|()| write_map(pid, "uid_map", &format!("{user} {user} 1\n")))
                .and_then(|()| write_map(pid, "gid_map", &format!("{group} {group} 1\n")));
            mapped
                .map_err(|source| SandboxError::Io { doing: "mapping the owner of the network", source })?;
        }
        send(&here, &[GO], SendFlags::NOSIGNAL).map_err(SandboxError::io("starting a spawner"))?;
        let mut said = [0_u8; 1];
        match recv(&here, &mut said[..], RecvFlags::empty()) {
            Ok((1, _)) => Ok(()),
            Ok(_) => Err(SandboxError::io("starting a spawner")(Errno::PIPE)),
            Err(errno) => Err(SandboxError::io("starting a spawner")(errno)),
        }
    }

    /// Runs the new process, which reports its start and then builds cells.
    fn begin(&self, line: &OwnedFd, told: &OwnedFd, network: Option<bool>, waiting: u8, shown: &mut View) {
        let _guard = EndOnUnwind;
        if introduce(line, told, network).is_err() {
            sys::exit(1)
        }
        let Ok(line) = line.try_clone() else { sys::exit(1) };
        let mut keep = [0, 1, 2, line.as_raw_fd()];
        keep.sort_unstable();
        // Closes the line of the nursery, and the spawner's line under its other number.
        if keep_only(&keep).is_err() {
            sys::exit(1)
        }
        let Self { identity, landlock, bounds, hierarchy, .. } = *self;
        let shares_network = network.is_some();
        SpawnerState { line, shares_network, identity, landlock, waiting, bounds, hierarchy }.serve(shown)
    }

    /// Removes the groups of the cells that the program has made itself, which are ending because
    /// the program is gone. The spawners remove their own cells' groups.
    fn remove_groups(&self) {
        let (Some(hierarchy), Some(starter)) = (self.hierarchy, &self.starter) else { return };
        let begun = Instant::now();
        while !hierarchy.remove_of(starter) && begun.elapsed() < AFTERMATH {
            std::thread::sleep(AFTERMATH_STEP);
        }
    }
}

/// Reports a new spawner to the program, and the report to the nursery. `network` is `None` without
/// a shared network; its value is true if the network belongs to a separate user namespace.
fn introduce(line: &OwnedFd, told: &OwnedFd, network: Option<bool>) -> Result<(), Errno> {
    // Close the inherited copy of the other end of `told`, so that the nursery's end is noticed.
    let mut keep = [0, 1, 2, line.as_raw_fd(), told.as_raw_fd()];
    keep.sort_unstable();
    keep_only(&keep)?;
    set_name(c"handfast-spawn")?;
    if !told_to_go(told.as_raw_fd()) {
        return Err(Errno::PIPE);
    }
    let open = |name: &str| {
        File::open(format!("/proc/self/ns/{name}"))
            .map(OwnedFd::from)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    let mut held = vec![pidfd_open(getpid(), PidfdFlags::empty())?];
    if let Some(own) = network {
        if own {
            // Without this, only the host's root could map the users of the cells.
            set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        }
        raise_loopback()?;
        held.push(open("net")?);
        if own {
            held.push(open("user")?);
        }
    }
    let descriptors: Vec<_> = held.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let pid = getpid().as_raw_nonzero().get().to_ne_bytes();
    let message = [IoSlice::new(&[BORN]), IoSlice::new(&pid)];
    sendmsg(line, &message, &mut ancillary, SendFlags::NOSIGNAL)?;
    send(told, &[GO], SendFlags::NOSIGNAL).map(drop)
}
