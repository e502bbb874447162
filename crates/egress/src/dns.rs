//! A name server that assigns an address of this proxy to every allowed name, and answers that all
//! other names do not exist. No query is forwarded.
//!
//! The addresses come from the range for benchmarks (RFC 2544), which is not routed on the
//! internet. In the cells every address leads to this proxy, which maps the address back to the
//! name.

use std::collections::HashMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;

use fetch::address::Host;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
};
use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::session::Session;
use crate::{Gate, Way};

/// First assigned address, and the number of addresses: 198.18.0.0/15 without its first and last.
const FIRST: u32 = 0xc612_0001;
const MOST: u32 = (1 << 17) - 2;

/// Addresses of the names in one network. A name never changes its address.
#[derive(Debug, Default)]
pub(crate) struct Addresses(Mutex<AssignedAddresses>);

#[derive(Debug, Default)]
struct AssignedAddresses {
    of: HashMap<String, Ipv4Addr>,
    names: Vec<String>,
}

impl Addresses {
    /// Returns the address of the name; `None` if all addresses are assigned.
    fn of(&self, name: &str) -> Option<Ipv4Addr> {
        let mut given = self.0.lock();
        if let Some(address) = given.of.get(name) {
            return Some(*address);
        }
        let next = u32::try_from(given.names.len()).ok().filter(|next| *next < MOST)?;
        let address = Ipv4Addr::from_bits(FIRST + next);
        given.of.insert(name.to_owned(), address);
        given.names.push(name.to_owned());
        Some(address)
    }

    /// Returns the destination of a connection to this address: the name that owns the address, or
    /// the address itself.
    pub(crate) fn meant(&self, address: IpAddr) -> Host {
        let address = address.to_canonical();
        let given = self.0.lock();
        let name = match address {
            IpAddr::V4(address) => address.to_bits().checked_sub(FIRST),
            IpAddr::V6(_) => None,
        };
        let name = name.and_then(|index| given.names.get(usize::try_from(index).ok()?));
        name.map_or(Host::Address(address), |name| Host::Name(name.clone()))
    }
}

/// Answers queries until the socket fails.
pub(crate) async fn answer<G: Gate>(session: &Session<G>, socket: &UdpSocket) -> io::Result<()> {
    // One of the two options is for the other address family and fails.
    if setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true).is_err() {
        setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?;
    }
    loop {
        let asked = socket.async_io(Interest::READABLE, || receive(socket)).await?;
        let Some(answer) = respond(session, &asked.bytes).await else { continue };
        // The client may have gone. A client without an answer repeats its query.
        let _gone = socket.async_io(Interest::WRITABLE, || send(socket, &asked, &answer)).await;
    }
}

/// A query, with its sender and the address that it was sent to.
struct NameQuestion {
    bytes: Vec<u8>,
    from: Option<SockaddrStorage>,
    of: Option<ControlMessageOwned>,
}

/// Maximum length of a query over UDP (RFC 1035, section 4.2.1, and the extension of RFC 6891), in bytes.
const LONGEST: usize = 4096;

fn receive(socket: &UdpSocket) -> io::Result<NameQuestion> {
    let mut bytes = vec![0; LONGEST];
    let mut space = nix::cmsg_space!(nix::libc::in6_pktinfo);
    let (length, from, of) = {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
        (message.bytes, message.address, message.cmsgs()?.next())
    };
    bytes.truncate(length);
    Ok(NameQuestion { bytes, from, of })
}

/// Sends the answer from the address that was queried: programs accept answers from no other address.
fn send(socket: &UdpSocket, asked: &NameQuestion, answer: &[u8]) -> io::Result<()> {
    let parts = [IoSlice::new(answer)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let v4;
    let told = match &asked.of {
        Some(ControlMessageOwned::Ipv6PacketInfo(to)) => Some(ControlMessage::Ipv6PacketInfo(to)),
        Some(ControlMessageOwned::Ipv4PacketInfo(to)) => {
            v4 = nix::libc::in_pktinfo { ipi_spec_dst: to.ipi_addr, ..*to };
            Some(ControlMessage::Ipv4PacketInfo(&v4))
        }
        _ => None,
    };
    sendmsg(socket.as_raw_fd(), &parts, told.as_slice(), flags, asked.from.as_ref())?;
    Ok(())
}

// Numbers of RFC 1035, sections 3.2 and 4.1.
const HEADER: usize = 12;
const INTERNET: u16 = 1;
const ADDRESS: u16 = 1;
const NO_SUCH_NAME: u8 = 3;
const SERVER_FAILURE: u8 = 2;
/// Time to live of an answer, in seconds. A name keeps its address for the life of the network.
const KEPT: u32 = 300;

/// A parsed query, with the offset of its end.
struct Question {
    name: String,
    kind: u16,
    end: usize,
}

/// Builds the answer; `None` if the bytes are not a query.
async fn respond<G: Gate>(session: &Session<G>, bytes: &[u8]) -> Option<Vec<u8>> {
    let question = read(bytes)?;
    let host = Host::parse(&question.name).ok().filter(|host| matches!(host, Host::Name(_)));
    let host = host.filter(|host| session.gate.knows(host));
    let (code, address) = match &host {
        Some(Host::Name(name)) if question.kind == ADDRESS => match session.addresses.of(name) {
            Some(address) => (0, Some(address)),
            None => (SERVER_FAILURE, None),
        },
        // The name exists, but has no record of this type.
        Some(_) => (0, None),
        None => {
            if question.kind == ADDRESS {
                let reason = format!("{} is not an allowed host", question.name);
                session.refuse(question.name.clone(), 0, Way::Name, reason).await;
            }
            (NO_SUCH_NAME, None)
        }
    };
    let mut answer = Vec::with_capacity(question.end + 16);
    answer.extend_from_slice(bytes.get(..2)?);
    // Flags: response, authoritative, recursion desired as in the query, recursion available.
    answer.extend_from_slice(&[0x84 | bytes.get(2)? & 1, 0x80 | code]);
    answer.extend_from_slice(&[0, 1, 0, u8::from(address.is_some()), 0, 0, 0, 0]);
    answer.extend_from_slice(bytes.get(HEADER..question.end)?);
    if let Some(address) = address {
        // Pointer to the name in the question.
        answer.extend_from_slice(&[0xc0, 12]);
        answer.extend_from_slice(&ADDRESS.to_be_bytes());
        answer.extend_from_slice(&INTERNET.to_be_bytes());
        answer.extend_from_slice(&KEPT.to_be_bytes());
        answer.extend_from_slice(&[0, 4]);
        answer.extend_from_slice(&address.octets());
    }
    Some(answer)
}

fn read(bytes: &[u8]) -> Option<Question> {
    let is_one_plain_question = bytes.get(2)? & 0xf8 == 0 && bytes.get(4..6)? == [0, 1];
    let mut name = Vec::new();
    let mut at = HEADER;
    loop {
        let length = usize::from(*bytes.get(at)?);
        // Larger values are compression pointers, which a query does not need.
        if length > 63 {
            return None;
        }
        let label = bytes.get(at + 1..at + 1 + length)?;
        at += 1 + length;
        if length == 0 {
            break;
        }
        if !name.is_empty() {
            name.push(b'.');
        }
        name.extend_from_slice(label);
    }
    let number = |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
    let (kind, class) = (number(at)?, number(at + 2)?);
    let name = String::from_utf8(name).ok()?;
    (is_one_plain_question && class == INTERNET).then_some(Question { name, kind, end: at + 4 })
}
