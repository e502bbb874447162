//! Exits from a network of cells: sockets in that network that belong to this program.
//!
//! A socket stays in the network in which it was made. So the owner of these sockets accepts the
//! cells' connections directly, and no cell needs a right over the network. The ports are below
//! 1024, on which no command may listen. Routes lead every address to these sockets, so that a
//! program without proxy support connects to one too.
//!
//! The owner of the sockets decides about each connection. This module makes no connection.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, bind, listen, recv, recvmsg, send, sendmsg,
    socket_with, socketpair,
};

use crate::child::first_steps::keep_only;
use crate::error::SandboxError;
use crate::hint::unavailable;
use crate::network::Network;
use crate::process;

/// Port of the proxy on the loopback device of the cells. No command may listen on it, and it is on
/// no browser's list of refused ports.
pub const PROXY_PORT: u16 = 880;

/// Port of the name server (RFC 1035, section 4.2).
const NAMES_PORT: u16 = 53;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Sockets in a network of cells.
#[derive(Debug)]
pub struct EgressListeners {
    /// Listener for programs with proxy support: `127.0.0.1` at [`PROXY_PORT`].
    pub proxy: TcpListener,
    /// Listeners for other programs: every address, one port each. The local address of a
    /// connection is the intended destination.
    pub everywhere: Vec<TcpListener>,
    /// Socket for name queries at every address, over IPv4 and, if the machine has it, IPv6.
    pub names: UdpSocket,
}

/// Opens the listeners of a network at these ports.
pub(crate) fn open(network: &Network, ports: &[u16]) -> Result<EgressListeners, SandboxError> {
    let (here, there) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(SandboxError::io("making a socket pair"))?;
    // Needs a separate process, because a process with threads cannot change its network namespace
    // and come back.
    let process = process::start(0, || inside(network, ports, &there))
        .map_err(|errno| unavailable("a process of its own", errno))?;
    drop(there);
    let received = receive(&here, ports.len() + 2);
    process.end().map_err(SandboxError::io("ending a process that opened ways out"))?;
    let mut received = received.map_err(|errno| unavailable("ways out of the network of cells", errno))?;
    let short = || unavailable("ways out of the network of cells", Errno::PIPE);
    let names = received.pop().ok_or_else(short)?;
    let proxy = received.pop().ok_or_else(short)?;
    Ok(EgressListeners {
        proxy: proxy.into(),
        everywhere: received.into_iter().map(TcpListener::from).collect(),
        names: names.into(),
    })
}

fn receive(socket: &OwnedFd, count: usize) -> Result<Vec<OwnedFd>, Errno> {
    let mut received = Vec::new();
    while received.len() < count {
        let mut errno = [0_u8; 4];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let message =
            recvmsg(socket, &mut [IoSliceMut::new(&mut errno)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        if message.bytes != errno.len() {
            return Err(Errno::PIPE);
        }
        let descriptor = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        match descriptor {
            Some(descriptor) => received.push(descriptor),
            None => return Err(Errno::from_raw_os_error(i32::from_ne_bytes(errno))),
        }
    }
    Ok(received)
}

/// Makes the sockets in the new process and hands them out.
///
/// INVARIANT: as in [`child`](crate::child), nothing here allocates, locks or panics.
fn inside(network: &Network, ports: &[u16], socket: &OwnedFd) {
    if let Err(errno) = make(network, ports, socket) {
        let _gone = send(socket, &errno.raw_os_error().to_ne_bytes(), SendFlags::NOSIGNAL);
    }
}

fn make(network: &Network, ports: &[u16], socket: &OwnedFd) -> Result<(), Errno> {
    network.enter()?;
    keep_only(&[socket.as_raw_fd()])?;
    lead_everywhere_here(AddressFamily::INET)?;
    // A machine may lack IPv6; then no connection uses it either.
    let both = lead_everywhere_here(AddressFamily::INET6).is_ok();
    for port in ports {
        hand_out(socket, &listener(both, *port)?)?;
    }
    let proxy = stream(AddressFamily::INET)?;
    bind(&proxy, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, PROXY_PORT))?;
    listen(&proxy, BACKLOG)?;
    hand_out(socket, &proxy)?;
    let family = if both { AddressFamily::INET6 } else { AddressFamily::INET };
    let names = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    bind_everywhere(&names, both, NAMES_PORT)?;
    hand_out(socket, &names)
}

fn stream(family: AddressFamily) -> Result<OwnedFd, Errno> {
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

fn listener(both: bool, port: u16) -> Result<OwnedFd, Errno> {
    let socket = stream(if both { AddressFamily::INET6 } else { AddressFamily::INET })?;
    set_socket_reuseaddr(&socket, true)?;
    bind_everywhere(&socket, both, port)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn bind_everywhere(socket: &OwnedFd, both: bool, port: u16) -> Result<(), Errno> {
    if both {
        set_ipv6_v6only(socket, false)?;
        return bind(socket, &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0));
    }
    bind(socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))
}

fn hand_out(socket: &OwnedFd, descriptor: &OwnedFd) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(socket, &[IoSlice::new(&[0; 4])], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

/// Makes every address of a family local to the loopback device: `ip route add local default dev
/// lo`.
fn lead_everywhere_here(family: AddressFamily) -> Result<(), Errno> {
    // Numbers of linux/netlink.h and linux/rtnetlink.h. The loopback device is the first of every
    // network.
    const NEW_ROUTE: u16 = 24;
    const REQUEST_CREATE_AND_ANSWER: u16 = 0x001 | 0x004 | 0x400;
    const LOCAL_TABLE: u8 = 255;
    const BY_ADMINISTRATOR: u8 = 4;
    const SCOPE_HOST: u8 = 254;
    const LOCAL: u8 = 2;
    const DEVICE: u16 = 4;
    const LOOPBACK: u32 = 1;
    let family = u8::try_from(family.as_raw()).map_err(|_| Errno::AFNOSUPPORT)?;
    let mut request = [0_u8; 36];
    let length = u32::try_from(request.len()).map_err(|_| Errno::OVERFLOW)?;
    let mut put = |at: usize, bytes: &[u8]| {
        request.iter_mut().skip(at).zip(bytes).for_each(|(place, byte)| *place = *byte);
    };
    // nlmsghdr: length, type, flags, sequence, port
    put(0, &length.to_ne_bytes());
    put(4, &NEW_ROUTE.to_ne_bytes());
    put(6, &REQUEST_CREATE_AND_ANSWER.to_ne_bytes());
    // rtmsg: family, lengths of destination and source, type of service, table, protocol, scope, type, flags
    put(16, &[family, 0, 0, 0, LOCAL_TABLE, BY_ADMINISTRATOR, SCOPE_HOST, LOCAL]);
    // rtattr: length, type, the device
    put(28, &8_u16.to_ne_bytes());
    put(30, &DEVICE.to_ne_bytes());
    put(32, &LOOPBACK.to_ne_bytes());
    // Protocol zero is routing.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, &request, SendFlags::empty())?;
    // Response: nlmsghdr, then the error number, negative, or zero.
    let mut answer = [0_u8; 64];
    let (received, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    match answer.get(16..20).and_then(|bytes| bytes.first_chunk::<4>()) {
        Some(bytes) if received >= 20 => match i32::from_ne_bytes(*bytes) {
            0 => Ok(()),
            // Doors were opened in this network before, and closed again.
            error if error == -Errno::EXIST.raw_os_error() => Ok(()),
            error => Err(Errno::from_raw_os_error(-error)),
        },
        _ => Err(Errno::PROTO),
    }
}
