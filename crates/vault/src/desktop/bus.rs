//! As much of [D-Bus](https://dbus.freedesktop.org/doc/dbus-specification.html) as asking one service takes: the handshake, calls,
//! and their answers.
//!
//! What goes through here may be a key, so every buffer is wiped, and nothing waits longer than until its deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Instant;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use zeroize::Zeroizing;

use super::wire::{Reader, Writer};

/// Bytes of a message at most. The specification allows 128 MiB, and no answer that is asked for here comes near this.
const LONGEST: usize = 1024 * 1024;
/// Bytes of a line of the handshake at most.
const LONGEST_LINE: usize = 512;

/// Kinds of message, and fields of their heads.
const CALL: u8 = 1;
const ANSWER: u8 = 2;
const ERROR: u8 = 3;
const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SIGNATURE: u8 = 8;

/// Why a call had no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// There is no bus, or nobody there answers.
    Unreachable(io::Error),
    /// The service refused, by the name of its error.
    Refused(String),
    /// What came is no answer to what was asked.
    Garbled,
}

impl Failure {
    /// Whether nobody has the name that was asked.
    pub(super) fn is_absence(&self) -> bool {
        let names = ["ServiceUnknown", "NameHasNoOwner", "Spawn.ServiceNotFound"];
        matches!(self, Self::Refused(error) if names.iter().any(|name| error.ends_with(name)))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Unreachable(error)
    }
}

/// An answer's content.
pub(super) struct Answer {
    message: Zeroizing<Vec<u8>>,
    body: usize,
    is_big_endian: bool,
}

impl Answer {
    pub(super) fn read(&self) -> Reader<'_> {
        Reader::new(self.message.get(self.body..).unwrap_or_default(), self.is_big_endian)
    }
}

/// One call.
pub(super) struct Call<'a> {
    pub(super) destination: &'a str,
    pub(super) path: &'a str,
    pub(super) interface: &'a str,
    pub(super) member: &'a str,
    /// The types of the arguments.
    pub(super) signature: &'a str,
    pub(super) arguments: Writer,
}

/// A connection to a bus.
pub(super) struct Bus {
    stream: UnixStream,
    until: Instant,
    serial: u32,
}

impl Bus {
    /// Connects to the first of these addresses that answers.
    pub(super) fn connect(addresses: &str, until: Instant) -> Result<Self, Failure> {
        let mut last = io::Error::new(ErrorKind::NotFound, "there is no address of a bus");
        for address in addresses.split(';').filter_map(socket_address) {
            match dial(&address) {
                Ok(stream) => {
                    let mut bus = Self { stream, until, serial: 0 };
                    bus.shake_hands()?;
                    let hello = Call {
                        destination: "org.freedesktop.DBus",
                        path: "/org/freedesktop/DBus",
                        interface: "org.freedesktop.DBus",
                        member: "Hello",
                        signature: "",
                        arguments: Writer::new(0),
                    };
                    bus.call(&hello)?;
                    return Ok(bus);
                }
                Err(error) => last = error,
            }
        }
        Err(last.into())
    }

    /// Makes a call and waits for its answer.
    pub(super) fn call(&mut self, call: &Call<'_>) -> Result<Answer, Failure> {
        self.serial += 1;
        let message = self.message(call);
        self.wait_no_longer()?;
        self.stream.write_all(&message)?;
        loop {
            if let Some(answer) = self.next_answer()? {
                return answer;
            }
        }
    }

    fn message(&self, call: &Call<'_>) -> Zeroizing<Vec<u8>> {
        let body = call.arguments.bytes();
        let texts = [call.destination, call.path, call.interface, call.member, call.signature];
        let room = texts.iter().map(|text| text.len() + 24).sum::<usize>() + body.len() + 32;
        let mut head = Writer::new(room);
        for byte in [b'l', CALL, 0, 1] {
            head.byte(byte);
        }
        head.number(u32::try_from(body.len()).unwrap_or(u32::MAX));
        head.number(self.serial);
        head.array(8, |head| {
            let fields = [
                (PATH, "o", call.path),
                (DESTINATION, "s", call.destination),
                (INTERFACE, "s", call.interface),
            ];
            for (field, kind, value) in fields.into_iter().chain([(MEMBER, "s", call.member)]) {
                head.align(8);
                head.byte(field);
                head.signature(kind);
                head.text(value);
            }
            if !call.signature.is_empty() {
                head.align(8);
                head.byte(SIGNATURE);
                head.signature("g");
                head.signature(call.signature);
            }
        });
        head.align(8);
        head.raw(body);
        head.into_bytes()
    }

    /// The next message, where it is the answer that is waited for; signals and the like are passed over.
    fn next_answer(&mut self) -> Result<Option<Result<Answer, Failure>>, Failure> {
        let mut message = Zeroizing::new(vec![0; 16]);
        self.read_exact(&mut message)?;
        let is_big_endian = message[0] == b'B';
        let kind = message[1];
        let mut start = Reader::new(&message, is_big_endian);
        start.skip(4);
        let (body, _serial, fields) = (start.number(), start.number(), start.number());
        let (Some(body), Some(fields)) = (body, fields) else { return Err(Failure::Garbled) };
        let head = 16 + (fields as usize).next_multiple_of(8);
        let length = head.saturating_add(body as usize);
        if length > LONGEST {
            return Err(Failure::Garbled);
        }
        // As long as it will be from the start, because growing would leave a copy behind.
        let mut whole = Zeroizing::new(vec![0; length]);
        whole[..16].copy_from_slice(&message);
        self.read_exact(&mut whole[16..])?;
        let (mut answers, mut error) = (None, String::new());
        let mut reader = Reader::new(&whole[..16 + fields as usize], is_big_endian);
        reader.skip(16);
        while reader.has_more() {
            reader.align(8);
            let field = reader.byte().ok_or(Failure::Garbled)?;
            let kind = reader.signature().ok_or(Failure::Garbled)?;
            match (field, kind) {
                (REPLY_SERIAL, "u") => answers = reader.number(),
                (ERROR_NAME, "s") => reader.text().ok_or(Failure::Garbled)?.clone_into(&mut error),
                (_, "u") => _ = reader.number().ok_or(Failure::Garbled)?,
                (_, "s" | "o") => _ = reader.text().ok_or(Failure::Garbled)?,
                (_, "g") => _ = reader.signature().ok_or(Failure::Garbled)?,
                _ => return Err(Failure::Garbled),
            }
        }
        if answers != Some(self.serial) {
            return Ok(None);
        }
        match kind {
            ANSWER => Ok(Some(Ok(Answer { message: whole, body: head, is_big_endian }))),
            ERROR => Ok(Some(Err(Failure::Refused(error)))),
            _ => Ok(None),
        }
    }

    /// The handshake: the bus knows by the socket who this is, and is told the same.
    fn shake_hands(&mut self) -> Result<(), Failure> {
        let id = rustix::process::geteuid().as_raw().to_string();
        let id: String = id.bytes().map(|digit| format!("{digit:02x}")).collect();
        self.wait_no_longer()?;
        self.stream.write_all(format!("\0AUTH EXTERNAL {id}\r\n").as_bytes())?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.read_exact(&mut byte)?;
            line.push(byte[0]);
            if line.len() > LONGEST_LINE {
                return Err(Failure::Garbled);
            }
        }
        if !line.starts_with(b"OK ") {
            return Err(Failure::Refused("the bus is another user's".to_owned()));
        }
        Ok(self.stream.write_all(b"BEGIN\r\n")?)
    }

    fn read_exact(&mut self, mut into: &mut [u8]) -> Result<(), Failure> {
        while !into.is_empty() {
            self.wait_no_longer()?;
            match self.stream.read(into) {
                Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                Ok(read) => into = &mut into[read..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// From here on, until the deadline.
    fn wait_no_longer(&self) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.set_write_timeout(Some(left))
    }
}

/// A socket of an address such as `unix:path=/run/user/1000/bus,guid=...`; none of another kind of address.
fn socket_address(address: &str) -> Option<SocketAddr> {
    let keys = address.strip_prefix("unix:")?;
    let value = |name: &str| keys.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    match (value("path"), value("abstract")) {
        (Some(path), _) => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(&unescaped(path)?)).ok(),
        (None, Some(name)) => SocketAddr::from_abstract_name(unescaped(name)?).ok(),
        (None, None) => None,
    }
}

/// Without the escapes of an address (`%20`).
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend(part.get(2..)?.bytes());
    }
    Some(bytes)
}

/// Connects, without waiting where the one who listens does not take what waits already.
fn dial(address: &SocketAddr) -> io::Result<UnixStream> {
    let to = match (address.as_pathname(), address.as_abstract_name()) {
        (Some(path), _) => SocketAddrUnix::new(path)?,
        (None, name) => SocketAddrUnix::new_abstract_name(name.unwrap_or_default())?,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &to)?;
    fcntl_setfl(&socket, fcntl_getfl(&socket)? - OFlags::NONBLOCK)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_the_specification_has_it() {
        let path =
            |address| socket_address(address).and_then(|address| Some(address.as_pathname()?.to_owned()));
        assert_eq!(path("unix:path=/a%20b,guid=00").unwrap().to_str(), Some("/a b"));
        assert_eq!(path("unix:guid=00,path=/a").unwrap().to_str(), Some("/a"));
        let name = socket_address("unix:abstract=/tmp/x").unwrap();
        assert_eq!(name.as_abstract_name(), Some(&b"/tmp/x"[..]));
        for none in ["", "tcp:host=a", "unix:", "unix:path=%2", "unix:path=%zz", "unix:runtime=yes"] {
            assert!(socket_address(none).is_none(), "{none}");
        }
    }
}
