//! Messages of the new process to its caller over the control socket: four numbers each, of fixed
//! size.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, send, sendmsg,
};

/// A message from the cell to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Setting up failed; the cell is gone.
    Fault(Fault),
    /// The command could not change to its working directory.
    WorkingDirectory(Errno),
    /// The command could not be executed.
    Execute { failure: ExecuteFailure, errno: Errno },
    /// The command has ended.
    Ended {
        /// Wait status of the command.
        status: i32,
        /// True if every process of the cell except the reporting one has ended and been reaped.
        last: bool,
    },
    /// The parts that do not depend on a call are built; the cell waits for its request. If another
    /// program has started the first process, the message carries a descriptor of that process.
    Ready,
    /// The cell is built and its command is about to start. The message carries the cell's user
    /// namespace.
    UserNamespace,
    /// Follows [`Self::UserNamespace`] and carries the cell's mount namespace.
    MountNamespace,
    /// The program runs. Sent only on request, and never after a report of a failed start.
    Started,
    /// The command has made its terminal; the message carries a descriptor of the caller's side.
    Terminal,
}

/// The reason why no candidate could be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExecuteFailure {
    /// The program does not exist.
    NotFound,
    /// The program exists, but its interpreter or loader is missing.
    InterpreterMissing,
    /// The program exists, but the kernel refuses to execute it.
    Refused,
}

/// A failure of setting up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) stage: Stage,
    /// Index of the step in the blueprint, for stages that have steps.
    pub(crate) step: u32,
    pub(crate) errno: Errno,
}

/// The stages of setting up, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Stage {
    Descriptors,
    Request,
    Identity,
    PrivateMounts,
    TakeTree,
    NewRoot,
    Step,
    SealRoot,
    Check,
    Names,
    Network,
    Limits,
    Capabilities,
    Landlock,
    Seccomp,
    Fork,
    Wait,
    Terminal,
}

impl Stage {
    const ALL: [Self; 18] = [
        Self::Descriptors,
        Self::Request,
        Self::Identity,
        Self::PrivateMounts,
        Self::TakeTree,
        Self::NewRoot,
        Self::Step,
        Self::SealRoot,
        Self::Check,
        Self::Names,
        Self::Network,
        Self::Limits,
        Self::Capabilities,
        Self::Landlock,
        Self::Seccomp,
        Self::Fork,
        Self::Wait,
        Self::Terminal,
    ];

    /// Returns the activity of the stage, to complete "while ...".
    pub(crate) fn doing(self) -> &'static str {
        match self {
            Self::Descriptors => "closing inherited descriptors",
            Self::Request => "understanding what is wanted of it",
            Self::Identity => "becoming the unprivileged user",
            Self::PrivateMounts => "separating the mounts from the host's",
            Self::TakeTree => "taking over a folder of the host",
            Self::NewRoot => "changing to the new root",
            Self::Step => "building the file system",
            Self::SealRoot => "making the new root read-only",
            Self::Check => "making sure that the file system is as it should be",
            Self::Names => "setting the host name",
            Self::Network => "bringing the loopback device up",
            Self::Limits => "setting resource limits",
            Self::Capabilities => "dropping capabilities",
            Self::Landlock => "applying the Landlock rules",
            Self::Seccomp => "applying the system call filter",
            Self::Fork => "starting the command",
            Self::Wait => "waiting for the command",
            Self::Terminal => "making its terminal",
        }
    }

    /// Makes a fault of this stage from an error number.
    pub(crate) fn fault(self, errno: Errno) -> Fault {
        Fault { stage: self, step: 0, errno }
    }
}

impl Report {
    fn encode(self) -> [u8; 16] {
        let numbers: [i32; 4] = match self {
            Self::Fault(fault) => {
                [0, fault.stage as i32, fault.step.cast_signed(), fault.errno.raw_os_error()]
            }
            Self::WorkingDirectory(errno) => [1, 0, 0, errno.raw_os_error()],
            Self::Execute { failure, errno } => [2, failure as i32, 0, errno.raw_os_error()],
            Self::Ended { status, last } => [3, status, last.into(), 0],
            Self::Ready => [4, 0, 0, 0],
            Self::Started => [5, 0, 0, 0],
            Self::Terminal => [6, 0, 0, 0],
            Self::UserNamespace => [7, 0, 0, 0],
            Self::MountNamespace => [8, 0, 0, 0],
        };
        let mut bytes = [0_u8; 16];
        for (place, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    /// Sends the report. A missing caller is no error: the cell ends with the caller anyway.
    pub(crate) fn send(self, control: BorrowedFd<'_>) {
        let _gone = send(control, &self.encode(), SendFlags::NOSIGNAL);
    }

    /// Sends the report with a descriptor.
    pub(crate) fn send_with(self, control: BorrowedFd<'_>, descriptor: BorrowedFd<'_>) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor];
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(control, &[IoSlice::new(&self.encode())], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
    }

    /// Receives the next report and its descriptor, if it carries one; returns `None` when the cell
    /// has closed its end.
    pub(crate) fn receive_with(control: BorrowedFd<'_>) -> Result<Option<(Self, Option<OwnedFd>)>, Errno> {
        let mut bytes = [0_u8; 16];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = match recvmsg(control, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
            Err(Errno::CONNRESET) => return Ok(None),
            other => other?,
        };
        if received.bytes == 0 {
            return Ok(None);
        }
        let descriptor = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        Ok(Some((Self::decode(bytes)?, descriptor)))
    }

    /// Receives the next report; returns `None` when the cell has closed its end, which it does by
    /// ending.
    pub(crate) fn receive(control: BorrowedFd<'_>) -> Result<Option<Self>, Errno> {
        Ok(Self::receive_with(control)?.map(|(report, _)| report))
    }

    fn decode(bytes: [u8; 16]) -> Result<Self, Errno> {
        let mut numbers = [0_i32; 4];
        for (number, place) in numbers.iter_mut().zip(bytes.chunks_exact(4)) {
            *number = i32::from_ne_bytes(place.try_into().map_err(|_| Errno::PROTO)?);
        }
        let [tag, first, second, errno] = numbers;
        let errno = || match errno {
            1..4096 => Ok(Errno::from_raw_os_error(errno)),
            _ => Err(Errno::PROTO),
        };
        match tag {
            0 => {
                let stage = *usize::try_from(first)
                    .ok()
                    .and_then(|index| Stage::ALL.get(index))
                    .ok_or(Errno::PROTO)?;
                Ok(Self::Fault(Fault { stage, step: second.cast_unsigned(), errno: errno()? }))
            }
            1 => Ok(Self::WorkingDirectory(errno()?)),
            2 => {
                let failure = match first {
                    0 => ExecuteFailure::NotFound,
                    1 => ExecuteFailure::InterpreterMissing,
                    _ => ExecuteFailure::Refused,
                };
                Ok(Self::Execute { failure, errno: errno()? })
            }
            3 => Ok(Self::Ended { status: first, last: second != 0 }),
            4 => Ok(Self::Ready),
            5 => Ok(Self::Started),
            6 => Ok(Self::Terminal),
            7 => Ok(Self::UserNamespace),
            8 => Ok(Self::MountNamespace),
            _ => Err(Errno::PROTO),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn every_report_arrives_as_it_was_sent() {
        let (here, there) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let mut reports = vec![
            Report::WorkingDirectory(Errno::NOENT),
            Report::Ended { status: 0x0f, last: false },
            Report::Ended { status: 0, last: true },
            Report::Ready,
            Report::UserNamespace,
            Report::MountNamespace,
            Report::Started,
            Report::Terminal,
            Report::Execute { failure: ExecuteFailure::NotFound, errno: Errno::NOENT },
            Report::Execute { failure: ExecuteFailure::InterpreterMissing, errno: Errno::NOENT },
            Report::Execute { failure: ExecuteFailure::Refused, errno: Errno::ACCESS },
        ];
        reports.extend(
            Stage::ALL.map(|stage| Report::Fault(Fault { stage, step: u32::MAX, errno: Errno::PERM })),
        );
        for report in reports {
            report.send(there.as_fd());
            assert_eq!(Report::receive(here.as_fd()), Ok(Some(report)));
        }
        drop(there);
        assert_eq!(Report::receive(here.as_fd()), Ok(None));
    }
}
