//! The spawner process, which builds cells and hands them out until its other end is closed.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg, socketpair,
};
use rustix::process::{Signal, chdir, pidfd_send_signal, setsid};
use rustix::thread::set_name;

use super::process::timespec;
use crate::cgroup::{self, Group, Hierarchy, Owner};
use crate::child::blueprint::Landlock;
use crate::child::first_steps::{EndOnUnwind, GO, keep_only};
use crate::child::report::Report;
use crate::child::zygote::{self, Foundation};
use crate::enforcement::UserMapping;
use crate::error::SandboxError;
use crate::identity::{Identity, map_user};
use crate::limits::values::Bounds;
use crate::process::{Process, cell_namespaces, prefer_at_out_of_memory, start_unattended};
use crate::view::View;
use crate::{landlock, seccomp, sys};

/// Request for one more cell. It gets exactly one answer: a cell, or a failure.
pub(super) const WANTED: u8 = b'w';
/// Request for [`Answer::Fresh`]: cells after that answer were built after this request.
pub(super) const REFRESH: u8 = b'r';
/// Request to begin at once, without an answer.
pub(super) const HURRY: u8 = b'h';

const CELL: u8 = b'c';
const FAILED: u8 = b'f';
const FRESH: u8 = b'n';

/// Time before the first cells are built if nobody asks for one: some times what a server takes from its
/// start to its first answer.
const START: Duration = Duration::from_millis(40);

/// Maximum time for which a cell that does not read can block the sender of a request. A waiting
/// cell reads at once, so this one has been stopped from outside.
const SEND_PATIENCE: Duration = Duration::from_secs(1);

/// Maximum time for which the spawner waits for the groups of ending cells. Groups of a process
/// that lives longer, for example because of an unresponsive disk, are left to the next program.
pub(super) const AFTERMATH: Duration = Duration::from_secs(10);
pub(super) const AFTERMATH_STEP: Duration = Duration::from_millis(2);

/// An answer of the spawner.
pub(super) enum Answer {
    /// A cell, with the number of its control group, or zero if it has none.
    Cell {
        process: Process,
        control: OwnedFd,
        group: u32,
    },
    Failed,
    Fresh,
}

/// The state of the spawner process.
pub(super) struct SpawnerState {
    pub(super) line: OwnedFd,
    /// True if the cells share the network in which this process started, instead of having one
    /// each.
    pub(super) shares_network: bool,
    pub(super) identity: Identity,
    pub(super) landlock: Option<i32>,
    pub(super) waiting: u8,
    /// Limits of the cells' groups, until a call changes them.
    pub(super) bounds: Bounds,
    pub(super) hierarchy: Option<&'static Hierarchy>,
}

/// A cell that is ready to be handed out.
struct BuiltCell {
    pid: i32,
    process: OwnedFd,
    control: OwnedFd,
    group: Option<(u32, Group)>,
}

/// The error that the other end of the line is closed.
struct LineClosed;

/// The reason why there is no new cell.
enum NoCell {
    Gone,
    /// Building failed; the caller's own attempt will show the reason.
    Failed,
}

impl From<SandboxError> for NoCell {
    fn from(_: SandboxError) -> Self {
        Self::Failed
    }
}

impl From<Errno> for NoCell {
    fn from(_: Errno) -> Self {
        Self::Failed
    }
}

/// Drops all resources of the program.
pub(super) fn settle(line: &OwnedFd) -> Result<(), Errno> {
    keep_only(&[line.as_raw_fd()])?;
    // The first free number is 0. With /dev/null there, no other file gets a standard descriptor by
    // accident.
    let null = open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    sys::duplicate_onto(&null, 1)?;
    sys::duplicate_onto(&null, 2)?;
    std::mem::forget(null);
    sys::ignore_children();
    chdir(c"/")?;
    setsid()?;
    set_name(c"handfast-nurse")
}

impl SpawnerState {
    /// Runs the process, which is settled. All signals must be blocked: only its line and SIGKILL
    /// end it, not a terminal's signals to all processes.
    pub(super) fn serve(self, shown: &mut View) -> ! {
        let _guard = EndOnUnwind;
        let Err(LineClosed) = self.answer_all(shown);
        self.remove_groups();
        sys::exit(0)
    }

    fn answer_all(&self, shown: &mut View) -> Result<std::convert::Infallible, LineClosed> {
        // Building would compete with the start of the program for the machine and for locks of the
        // kernel. A caller that cannot wait sends a message.
        let _until_asked = poll(&mut [PollFd::new(&self.line, PollFlags::IN)], Some(&timespec(START)));
        for _ in 0..self.waiting {
            self.give(shown)?;
        }
        loop {
            let mut asked = [0_u8; 1];
            match recv(&self.line, &mut asked[..], RecvFlags::empty()) {
                Ok((1, _)) if asked == [WANTED] => self.give(shown)?,
                Ok((1, _)) if asked == [REFRESH] => self.say(FRESH)?,
                Ok((1, _)) if asked == [HURRY] => {}
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return Err(LineClosed),
            }
        }
    }

    fn say(&self, what: u8) -> Result<(), LineClosed> {
        send(&self.line, &[what], SendFlags::NOSIGNAL).map_err(|_| LineClosed).map(drop)
    }

    /// Builds a cell and hands it out.
    fn give(&self, shown: &mut View) -> Result<(), LineClosed> {
        let BuiltCell { pid, process, control, group } = match self.build(shown) {
            Ok(built) => built,
            Err(NoCell::Failed) => return self.say(FAILED),
            Err(NoCell::Gone) => return Err(LineClosed),
        };
        let (number, group) = group.unzip();
        // The caller removes the group from now on; the groups of a killed caller are removed at
        // the end.
        std::mem::forget(group);
        let descriptors = [process.as_fd(), control.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let (pid, number) = (pid.to_ne_bytes(), number.unwrap_or(0).to_ne_bytes());
        let message = [IoSlice::new(&[CELL]), IoSlice::new(&pid), IoSlice::new(&number)];
        sendmsg(&self.line, &message, &mut ancillary, SendFlags::NOSIGNAL).map_err(|_| LineClosed)?;
        // Closing the control socket here leaves the caller's copy as its only end.
        Ok(())
    }

    fn build(&self, shown: &mut View) -> Result<BuiltCell, NoCell> {
        let (control, inner) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&control, Timeout::Send, Some(SEND_PATIENCE))?;
        let ruleset = self.landlock.map(landlock::ruleset).transpose()?;
        let rules = shown.rules.as_ref().map(landlock::Rules::paths);
        let shares_network = self.shares_network;
        // Without a group, the caller enforces the limits in another way, and reports that.
        let mut group = self
            .hierarchy
            .zip(Owner::this())
            .and_then(|(hierarchy, owner)| Group::make(hierarchy, &owner, &self.bounds).ok());
        let foundation = Foundation {
            shares_network,
            control: inner.as_raw_fd(),
            drop_groups: self.identity.mapping == UserMapping::IdMapped,
            keep_host: self.identity.mapping == UserMapping::Own,
            steps: &mut shown.steps,
            landlock: ruleset
                .as_ref()
                .zip(rules)
                .map(|(ruleset, rules)| Landlock { ruleset: ruleset.as_raw_fd(), rules: rules.to_vec() }),
            filter: seccomp::filter(group.is_some()).map_err(|_| NoCell::Failed)?,
        };
        let door = group.as_ref().and_then(|(_, group)| group.door());
        let started =
            start_unattended(door.as_ref().map(AsFd::as_fd), cell_namespaces(shares_network), || {
                zygote::wait(foundation)
            });
        if started.is_err() && door.is_some() {
            // The kernel may have refused because of the group. The next cell is made without one.
            cgroup::give_up();
        }
        let (pid, process) = started?;
        drop((inner, ruleset, door));
        let attached = match &mut group {
            Some((_, group)) => group.attach(pid).map_err(|_| {
                cgroup::give_up();
                NoCell::Failed
            }),
            None => Ok(()),
        };
        let built = attached.and_then(|()| self.see_through(pid, &control));
        if built.is_err() {
            // The only possible failure is a process that has ended.
            let _ended = pidfd_send_signal(&process, Signal::KILL);
        }
        built.map(|()| BuiltCell { pid, process, control, group })
    }

    /// Removes the groups of all cells, which are ending because the program has closed their
    /// sockets.
    fn remove_groups(&self) {
        let (Some(hierarchy), Some(own)) = (self.hierarchy, Owner::this()) else { return };
        let begun = Instant::now();
        while !hierarchy.remove_of(&own) && begun.elapsed() < AFTERMATH {
            std::thread::sleep(AFTERMATH_STEP);
        }
    }

    /// Maps the cell's user and waits until the cell is ready.
    fn see_through(&self, pid: i32, control: &OwnedFd) -> Result<(), NoCell> {
        prefer_at_out_of_memory(pid);
        map_user(pid, self.identity)?;
        send(control, &[GO], SendFlags::NOSIGNAL)?;
        let (ready, gone) = loop {
            let mut events =
                [PollFd::new(control, PollFlags::IN), PollFd::new(&self.line, PollFlags::empty())];
            match poll(&mut events, None) {
                Err(Errno::INTR) => {}
                other => {
                    other?;
                    break (!events[0].revents().is_empty(), !events[1].revents().is_empty());
                }
            }
        };
        match Report::receive(control.as_fd()) {
            _ if gone => Err(NoCell::Gone),
            Ok(Some(Report::Ready)) if ready => Ok(()),
            _ => Err(NoCell::Failed),
        }
    }
}

/// Receives the next answer at the other end of the line; returns `None` if the spawner is gone.
pub(super) fn receive(line: BorrowedFd<'_>) -> Option<Answer> {
    let (mut what, mut pid, mut group) = ([0_u8; 1], [0_u8; 4], [0_u8; 4]);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(&mut what), IoSliceMut::new(&mut pid), IoSliceMut::new(&mut group)];
    let received =
        recvmsg(line, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT).ok()?;
    let mut descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    match (received.bytes, what[0]) {
        (9, CELL) => {
            let mut descriptors = descriptors.next()?;
            let (process, control) = (descriptors.next()?, descriptors.next()?);
            let process = Process::adopt(i32::from_ne_bytes(pid), process);
            Some(Answer::Cell { process, control, group: u32::from_ne_bytes(group) })
        }
        (1, FAILED) => Some(Answer::Failed),
        (1, FRESH) => Some(Answer::Fresh),
        _ => None,
    }
}
