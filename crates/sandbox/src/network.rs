//! A network that cells share: a namespace with only a loopback device.
//!
//! The commands of one session reach each other's servers in it, and no other connection enters or
//! leaves it. No cell has a right over it. The network lives as long as a descriptor of it is open,
//! even without cells.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::child::holder;
use crate::enforcement::UserMapping;
use crate::error::SandboxError;
use crate::hint::unavailable;
use crate::identity::Identity;
use crate::process::{self, Process, write_map};
use crate::sys::{self, AtEnd, Side};

/// A network namespace, referenced by descriptors.
#[derive(Debug)]
pub(crate) struct Network {
    /// User namespace that owns the network, if that is not the one of this process: an ordinary
    /// user has rights over a network only in a separate user namespace. Cells in this network are
    /// made from within that namespace.
    owner: Option<OwnedFd>,
    network: OwnedFd,
}

/// A network for the cells of one session, in a program that serves several sessions. It has only a
/// loopback device, and no cell has a right over it. It disappears with its last copy and the last
/// cell in it.
#[derive(Clone, Debug)]
pub struct SessionNetwork(Arc<Network>);

impl SessionNetwork {
    /// Makes a network. Fails if this machine refuses network namespaces.
    pub(crate) fn make() -> Result<Self, SandboxError> {
        Ok(Self(Arc::new(Network::make(Identity::of_this_process()?)?)))
    }

    /// Returns true if further copies of the network exist.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    pub(crate) fn network(&self) -> &Network {
        &self.0
    }
}

impl Network {
    /// Makes a network, with its loopback device up.
    pub(crate) fn make(identity: Identity) -> Result<Self, SandboxError> {
        let own = identity.mapping == UserMapping::Own;
        let flags = libc::CLONE_NEWNET | if own { libc::CLONE_NEWUSER } else { 0 };
        let (here, there) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(SandboxError::io("making a socket pair"))?;
        let process = process::start(flags, || holder::hold_network(&there))
            .map_err(|errno| unavailable("a network of its own", errno))?;
        drop(there);
        if own {
            let (user, group) = (identity.user, identity.group);
            write_map(process.pid(), "setgroups", "deny")
                .and_then(|()| write_map(process.pid(), "uid_map", &format!("{user} {user} 1\n")))
                .and_then(|()| write_map(process.pid(), "gid_map", &format!("{group} {group} 1\n")))
                .map_err(|source| SandboxError::Io { doing: "mapping the owner of the network", source })?;
        }
        let mut up = [0_u8; 1];
        if !matches!(recv(&here, &mut up[..], RecvFlags::empty()), Ok((1, _))) {
            let source = std::io::ErrorKind::Other.into();
            return Err(SandboxError::Io { doing: "bringing the loopback device up", source });
        }
        let open = |name: &str| {
            File::open(format!("/proc/{}/ns/{name}", process.pid()))
                .map(OwnedFd::from)
                .map_err(|source| SandboxError::Io { doing: "opening a namespace", source })
        };
        let owner = if own { Some(open("user")?) } else { None };
        let network = open("net")?;
        drop(here);
        process.end().map_err(SandboxError::io("ending a process that made a network"))?;
        Ok(Self { owner, network })
    }

    /// Takes over a network by the descriptors of its namespace and of the owning user namespace,
    /// if that is not the one of this process.
    pub(crate) fn held(owner: Option<OwnedFd>, network: OwnedFd) -> Self {
        Self { owner, network }
    }

    /// Moves this process into the network. The process must have one thread, and cannot return.
    ///
    /// INVARIANT: async-signal-safe, because a copy of a program with threads calls it.
    pub(crate) fn enter(&self) -> Result<(), Errno> {
        if let Some(owner) = &self.owner {
            move_into_link_name_space(owner.as_fd(), Some(LinkNameSpaceType::User))?;
            // The kernel clears the dumpable flag with the change of rights. Without the flag, only
            // the host's root could map the users of the namespaces that are made next.
            set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        }
        move_into_link_name_space(self.network.as_fd(), Some(LinkNameSpaceType::Network))
    }

    /// Starts a process in this network that runs `inside` with all signals blocked, and then ends.
    /// `flags` must not ask for a new network.
    ///
    /// An intermediate process enters the network and makes the new process as a child of this one.
    /// This process cannot do that, because it has threads and could not return.
    ///
    /// INVARIANT: as for [`process::start`].
    pub(crate) fn start_process(
        &self,
        group: Option<BorrowedFd<'_>>,
        flags: i32,
        inside: impl FnOnce(),
    ) -> Result<Process, Errno> {
        let (here, there) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let between = process::start(0, || {
            let flags = flags | libc::CLONE_PARENT;
            let cloned = self.enter().and_then(|()| sys::clone_into_namespaces(flags, AtEnd::Quiet, group));
            let answer = match cloned {
                Ok(Side::Child) => {
                    inside();
                    sys::exit(1)
                }
                Ok(Side::Parent(pid, _descriptor)) => pid,
                Err(errno) => -errno.raw_os_error(),
            };
            let _gone = send(&there, &answer.to_ne_bytes(), SendFlags::NOSIGNAL);
        })?;
        drop(there);
        let mut answer = [0_u8; 4];
        let (received, _) = recv(&here, &mut answer[..], RecvFlags::empty())?;
        between.end()?;
        match i32::from_ne_bytes(answer) {
            _ if received != answer.len() => Err(Errno::PIPE),
            refused if refused < 0 => Err(Errno::from_raw_os_error(-refused)),
            pid => Process::adopt_child(pid),
        }
    }

    /// Returns true if a cell in this network must map its users itself, because this process is
    /// not a parent of its user namespace.
    pub(crate) fn owned_apart(&self) -> bool {
        self.owner.is_some()
    }
}
