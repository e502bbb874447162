//! Answers questions about names: those that may be reached have an address of this proxy's, all others do not exist. No
//! question goes anywhere.
//!
//! The addresses are those that are set aside for measuring networks (RFC 2544), which lead nowhere on the internet; in the cells
//! every address leads to this proxy, which knows by the address what name was meant.

use std::collections::HashMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};

use fetch::address::Host;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::session::Session;
use crate::{Gate, Way};

/// The first address that is given, and how many there are: 198.18.0.0/15 without its first and last.
const FIRST: u32 = 0xc612_0001;
const MOST: u32 = (1 << 17) - 2;

/// The addresses of names in one network. A name keeps its own.
#[derive(Debug, Default)]
pub(crate) struct Addresses(Mutex<Given>);

#[derive(Debug, Default)]
struct Given {
    of: HashMap<String, Ipv4Addr>,
    names: Vec<String>,
}

impl Addresses {
    /// The address of the name; none where all are given.
    fn of(&self, name: &str) -> Option<Ipv4Addr> {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(address) = given.of.get(name) {
            return Some(*address);
        }
        let next = u32::try_from(given.names.len()).ok().filter(|next| *next < MOST)?;
        let address = Ipv4Addr::from_bits(FIRST + next);
        given.of.insert(name.to_owned(), address);
        given.names.push(name.to_owned());
        Some(address)
    }

    /// What a connection to this address is meant for: the name that has it, or the address itself.
    pub(crate) fn meant(&self, address: IpAddr) -> Host {
        let address = address.to_canonical();
        let given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = match address {
            IpAddr::V4(address) => address.to_bits().checked_sub(FIRST),
            IpAddr::V6(_) => None,
        };
        let name = name.and_then(|index| given.names.get(usize::try_from(index).ok()?));
        name.map_or(Host::Address(address), |name| Host::Name(name.clone()))
    }
}

/// Answers until the socket fails.
pub(crate) async fn answer<G: Gate>(session: &Session<G>, socket: &UdpSocket) -> io::Result<()> {
    // One of the two is of the other family, and refused.
    if setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true).is_err() {
        setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?;
    }
    loop {
        let asked = socket.async_io(Interest::READABLE, || receive(socket)).await?;
        let Some(answer) = respond(session, &asked.bytes).await else { continue };
        // Who asked may be gone, and may ask again.
        let _gone = socket.async_io(Interest::WRITABLE, || send(socket, &asked, &answer)).await;
    }
}

/// A question, who asked, and whom.
struct Asked {
    bytes: Vec<u8>,
    from: Option<SockaddrStorage>,
    of: Option<ControlMessageOwned>,
}

/// The longest question over UDP (RFC 1035, section 4.2.1, and what RFC 6891 adds).
const LONGEST: usize = 4096;

fn receive(socket: &UdpSocket) -> io::Result<Asked> {
    let mut bytes = vec![0; LONGEST];
    let mut space = nix::cmsg_space!(nix::libc::in6_pktinfo);
    let (length, from, of) = {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
        (message.bytes, message.address, message.cmsgs()?.next())
    };
    bytes.truncate(length);
    Ok(Asked { bytes, from, of })
}

/// From the address that was asked: a program takes no answer from another.
fn send(socket: &UdpSocket, asked: &Asked, answer: &[u8]) -> io::Result<()> {
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
/// Seconds that an answer may be kept. Names keep their addresses for as long as the network is there.
const KEPT: u32 = 300;

/// What is asked, and where the question ends.
struct Question {
    name: String,
    kind: u16,
    end: usize,
}

/// The answer; none to what is no question.
async fn respond<G: Gate>(session: &Session<G>, bytes: &[u8]) -> Option<Vec<u8>> {
    let question = read(bytes)?;
    let host = Host::parse(&question.name).ok().filter(|host| matches!(host, Host::Name(_)));
    let host = host.filter(|host| session.gate.knows(host));
    let (code, address) = match &host {
        Some(Host::Name(name)) if question.kind == ADDRESS => match session.addresses.of(name) {
            Some(address) => (0, Some(address)),
            None => (SERVER_FAILURE, None),
        },
        // It exists, and has nothing else.
        Some(_) => (0, None),
        None => {
            if question.kind == ADDRESS {
                let reason = format!("{} is not among the hosts that may be reached", question.name);
                session.refuse(question.name.clone(), 0, Way::Name, reason).await;
            }
            (NO_SUCH_NAME, None)
        }
    };
    let mut answer = Vec::with_capacity(question.end + 16);
    answer.extend_from_slice(bytes.get(..2)?);
    // An answer of who is responsible, to who wanted others to be asked and is told that they are.
    answer.extend_from_slice(&[0x84 | bytes.get(2)? & 1, 0x80 | code]);
    answer.extend_from_slice(&[0, 1, 0, u8::from(address.is_some()), 0, 0, 0, 0]);
    answer.extend_from_slice(bytes.get(HEADER..question.end)?);
    if let Some(address) = address {
        // The name is that of the question.
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
        // Longer ones are references, which a question has no use for.
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
