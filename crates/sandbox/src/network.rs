//! A network that cells share: a namespace with nothing in it but the loopback device.
//!
//! The commands of one session reach each other's servers in it, and nothing else reaches them or is reached.
//! No cell has a right over it. It lives for as long as somebody holds it, whatever becomes of the cells.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::child;
use crate::enforcement::UserMapping;
use crate::error::SandboxError;
use crate::hint::unavailable;
use crate::identity::Identity;
use crate::process::{self, write_map};

/// The namespace, held by descriptor.
#[derive(Debug)]
pub(crate) struct Network {
    /// The user namespace that the network belongs to, where that is not the one of this process: an ordinary user has
    /// rights over a network in a user namespace of their own alone. Cells in this network are made from within it.
    owner: Option<OwnedFd>,
    network: OwnedFd,
}

/// A network for the cells of one session, where a program serves several: it has nothing but a loopback device, and no cell has a
/// right over it. It is gone with the last of its copies and the last cell in it.
#[derive(Clone, Debug)]
pub struct SessionNetwork(Arc<Network>);

impl SessionNetwork {
    /// Makes one.
    ///
    /// # Errors
    /// Where this machine refuses one.
    pub fn make() -> Result<Self, SandboxError> {
        Ok(Self(Arc::new(Network::make(Identity::of_this_process()?)?)))
    }

    /// Whether there are further copies of it.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    pub(crate) fn network(&self) -> &Network {
        &self.0
    }
}

impl Network {
    /// Makes one, with its loopback device up.
    pub(crate) fn make(identity: Identity) -> Result<Self, SandboxError> {
        let own = identity.mapping == UserMapping::Own;
        let flags = libc::CLONE_NEWNET | if own { libc::CLONE_NEWUSER } else { 0 };
        let (here, there) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(SandboxError::io("making a socket pair"))?;
        let process = process::start(flags, || child::hold_network(&there))
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

    /// Takes one over by the descriptors of its namespace, and of the user namespace that it belongs to where that is not the one of
    /// this process.
    pub(crate) fn held(owner: Option<OwnedFd>, network: OwnedFd) -> Self {
        Self { owner, network }
    }

    /// Moves this process into it. The process must have one thread, and no way back.
    ///
    /// INVARIANT: async-signal-safe, as a copy of a program with threads calls it.
    pub(crate) fn enter(&self) -> Result<(), Errno> {
        if let Some(owner) = &self.owner {
            move_into_link_name_space(owner.as_fd(), Some(LinkNameSpaceType::User))?;
            // The kernel takes this away with the change of rights, and without it nobody but the host's root could
            // map the users of the namespaces that are made next.
            set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        }
        move_into_link_name_space(self.network.as_fd(), Some(LinkNameSpaceType::Network))
    }

    /// Whether a cell in it maps its users by itself: this process is no parent of its user namespace then.
    pub(crate) fn owned_apart(&self) -> bool {
        self.owner.is_some()
    }
}
