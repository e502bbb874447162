//! The process that spawners are started from: small, and with one thread, whatever this program has become by then.
//!
//! Each spawner has a network of its own and is born into it, because a cell cannot change its network: it has no right over any.
//! So the cells of every network wait in it, and none is a copy of this program.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg, socketpair,
};
use rustix::process::{DumpableBehavior, PidfdFlags, getpid, pidfd_open, set_dumpable_behavior};
use rustix::thread::set_name;

use super::serve::{AFTERMATH, AFTERMATH_STEP, Serving, settle};
use super::{Leaving, patience};
use crate::cgroup::{Hierarchy, Owner};
use crate::child::{EndOnUnwind, GO, keep_only, raise_loopback, told_to_go};
use crate::enforcement::UserMapping;
use crate::error::SandboxError;
use crate::identity::Identity;
use crate::limits::Bounds;
use crate::network::Network;
use crate::process::{self, Process, start_unattended, write_map};
use crate::streams::above_standard;
use crate::sys;
use crate::view::View;

/// How long a spawner may take until it is there: a thousand times what it takes, also on a busy machine.
const BIRTH: Duration = Duration::from_secs(5);

/// Says that a spawner is there: with its id, a descriptor of its process, and its network where it has one.
const BORN: u8 = b'b';

/// The process, as this program holds it.
#[derive(Debug)]
pub(super) struct Nursery {
    pub(super) identity: Identity,
    pub(super) landlock: Option<i32>,
    /// The paths of the foundation but for what is in the home, which no root may stand at or above.
    pub(super) foundation: Vec<PathBuf>,
    /// What the groups of cells are limited to.
    pub(super) bounds: Bounds,
    pub(super) hierarchy: Option<&'static Hierarchy>,
    mounts: Mutex<Mounts>,
    line: OwnedFd,
    /// INVARIANT: after `line`, which is closed first and by that tells the process to clear up and end.
    _process: Leaving,
}

/// The mounts of this process, which are those of the nursery and of all spawners.
#[derive(Debug)]
struct Mounts {
    /// Tells that they have changed since it was asked last.
    file: File,
    changes: u64,
}

/// A spawner that was started.
pub(super) struct Born {
    pub(super) line: OwnedFd,
    pub(super) process: Process,
    /// The network of its cells; none where they have one each, because this machine refuses to share one.
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
        // Before the process copies the mounts, so that no change of them is missed.
        let file = File::open("/proc/self/mountinfo")
            .map_err(|source| SandboxError::Io { doing: "watching the mounts", source })?;
        let (line, theirs) = pair()?;
        let theirs = above_standard(theirs)?;
        let nursing = Nursing { line: theirs, identity, landlock, bounds, hierarchy, starter: Owner::this() };
        let process =
            process::start(0, || nursing.serve(shown)).map_err(SandboxError::io("starting the spawner"))?;
        let mounts = Mutex::new(Mounts { file, changes: 0 });
        let process = Leaving(process);
        Ok(Self { identity, landlock, foundation, bounds, hierarchy, mounts, line, _process: process })
    }

    /// How often something was mounted or unmounted, as far as anybody asked.
    pub(super) fn mount_changes(&self) -> u64 {
        let mut mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Timespec::default();
        if poll(&mut [PollFd::new(&mounts.file, PollFlags::PRI)], Some(&now)) != Ok(0) {
            mounts.changes += 1;
        }
        mounts.changes
    }

    /// Has a spawner started that keeps so many cells waiting.
    pub(super) fn ask(&self, waiting: u8) -> Result<Born, SandboxError> {
        let (line, theirs) = pair()?;
        let descriptors = [theirs.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.line, &[IoSlice::new(&[waiting])], &mut ancillary, flags)
            .map_err(SandboxError::io("starting a spawner"))?;
        drop(theirs);
        born(line).map_err(SandboxError::io("starting a spawner"))
    }
}

fn pair() -> Result<(OwnedFd, OwnedFd), SandboxError> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(SandboxError::io("making a socket pair"))
}

/// Waits for what a new spawner says first.
fn born(line: OwnedFd) -> Result<Born, Errno> {
    let timeout = patience(BIRTH);
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
            Ok(Born { line, process, network: network.map(Arc::new) })
        }
        _ => Err(Errno::PIPE),
    }
}

/// What the process works with.
struct Nursing {
    line: OwnedFd,
    identity: Identity,
    landlock: Option<i32>,
    bounds: Bounds,
    hierarchy: Option<&'static Hierarchy>,
    /// The program that has started it.
    starter: Option<Owner>,
}

impl Nursing {
    /// Runs the process. All signals must be blocked: only its line and SIGKILL end it, not what a terminal sends to everybody.
    fn serve(self, mut shown: View) -> ! {
        let _guard = EndOnUnwind;
        if settle(&self.line).is_ok() {
            while let Ok((line, waiting)) = self.asked() {
                // Where there is none, whoever asked finds its line closed.
                let _refused = self
                    .start(true, &line, waiting, &mut shown)
                    // Where a network cannot be had, the cells have one each, and their results say so.
                    .or_else(|_| self.start(false, &line, waiting, &mut shown));
            }
            self.remove_groups();
        }
        sys::exit(0)
    }

    /// The line of the next spawner that is to be started, and how many cells it is to keep waiting; an error when this program is
    /// gone.
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
                // This program had too many files open to send one.
                (_, None) => {}
            }
        }
    }

    /// Starts a spawner and waits until it has said that it is there.
    fn start(
        &self,
        in_network: bool,
        line: &OwnedFd,
        waiting: u8,
        shown: &mut View,
    ) -> Result<(), SandboxError> {
        // An ordinary user has rights over a network in a user namespace of their own alone.
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

    /// The new process: says that it is there, and builds cells from then on.
    fn begin(&self, line: &OwnedFd, told: &OwnedFd, network: Option<bool>, waiting: u8, shown: &mut View) {
        let _guard = EndOnUnwind;
        if introduce(line, told, network).is_err() {
            sys::exit(1)
        }
        let Ok(line) = line.try_clone() else { sys::exit(1) };
        let mut keep = [0, 1, 2, line.as_raw_fd()];
        keep.sort_unstable();
        // The line of the nursery, and its own under another number.
        if keep_only(&keep).is_err() {
            sys::exit(1)
        }
        let Self { identity, landlock, bounds, hierarchy, .. } = *self;
        let shares_network = network.is_some();
        Serving { line, shares_network, identity, landlock, waiting, bounds, hierarchy }.serve(shown)
    }

    /// Removes the groups of the cells that the program has made itself, which are ending because it is gone. The spawners remove
    /// those of their own.
    fn remove_groups(&self) {
        let (Some(hierarchy), Some(starter)) = (self.hierarchy, &self.starter) else { return };
        let begun = Instant::now();
        while !hierarchy.remove_of(starter) && begun.elapsed() < AFTERMATH {
            std::thread::sleep(AFTERMATH_STEP);
        }
    }
}

/// Says to the program that a new spawner is there, and to the nursery that this is said. `network` says whether the spawner was born into
/// one, and whether that belongs to a user namespace of its own.
fn introduce(line: &OwnedFd, told: &OwnedFd, network: Option<bool>) -> Result<(), Errno> {
    // So that nothing of the other end of `told` lives on here, and the nursery's end is noticed.
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
            // Without it nobody but the host's root could map the users of the cells.
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
