//! Request of a call to a waiting cell, as sent through the control socket: the steps, rules and
//! start of a blueprint in bytes, with their descriptors. Steps and rules may come ahead of the
//! call.
//!
//! Both ends are the same program, so the format has no versions. Neither end allocates in a copy
//! of a process with other threads: the sender is an ordinary process, and the receiver a copy of
//! the spawner, which has one thread.

use std::ffi::{CStr, CString, OsStr};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, IntoRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recv, recvmsg, send, sendmsg,
};

use super::blueprint::{
    Bound, ExpectedEntry, Kind, Mount, Place, Placeholder, Resource, Source, Standard, Start, Step,
};
use crate::spec::TerminalSize;
use crate::sys::StringArray;

/// Additions that turn a waiting cell into the cell of a call.
pub(crate) struct Request {
    pub(crate) steps: Vec<Step>,
    pub(crate) rules: Vec<(CString, u64)>,
    pub(crate) part: RequestPart<Start>,
}

/// The part of a cell's build that a request describes.
pub(crate) enum RequestPart<S> {
    /// Sent before the call, while no caller waits for the cell; at most once.
    Ahead {
        /// True if nothing is left to build, so that the cell gives up the right to build.
        finish: bool,
    },
    /// The call.
    Call { start: S, standard: Standard },
}

/// Bytes in one message: far less than a socket accepts at once.
const CHUNK: usize = 64 * 1024;
/// Maximum number of descriptors in one message, `SCM_MAX_FD` of net/scm.h.
const MAX_DESCRIPTORS: usize = 253;

/// First number of a request: either a request ahead of the call, or the kind of standard
/// descriptors that the call has.
mod kind {
    pub(super) const OUTPUTS: u64 = 0;
    pub(super) const PIPES: u64 = 1;
    pub(super) const TERMINAL: u64 = 2;
    pub(super) const GIVEN_TERMINAL: u64 = 3;
    pub(super) const AHEAD: u64 = 4;
    pub(super) const AHEAD_AND_FINISH: u64 = 5;
}

/// Encodes the request. `trees` are the descriptors to which the steps refer by index, in the order
/// in which they are sent.
///
/// The descriptors of the call's `standard` are sent before them.
pub(crate) fn encode(
    steps: &[Step],
    rules: &[(CString, u64)],
    part: &RequestPart<&Start>,
    trees: &[RawFd],
) -> Vec<u8> {
    let mut bytes = Encoder(Vec::new());
    match part {
        RequestPart::Ahead { finish } => {
            bytes.number(if *finish { kind::AHEAD_AND_FINISH } else { kind::AHEAD });
        }
        RequestPart::Call { standard, .. } => bytes.standard(*standard),
    }
    bytes.list(steps, |bytes, step| bytes.step(step, trees));
    bytes.list(rules, |bytes, (path, rights)| {
        bytes.text(path);
        bytes.number(*rights);
    });
    let RequestPart::Call { start, .. } = part else { return bytes.0 };
    bytes.text(&start.working_directory);
    for texts in [&start.candidates[..], start.arguments.strings(), start.environment.strings()] {
        bytes.list(texts, |bytes, text| bytes.text(text));
    }
    bytes.list(&start.bounds, |bytes, bound| {
        bytes.number(bound.resource as u64);
        bytes.number(bound.soft);
        bytes.number(bound.hard);
    });
    bytes.list(&start.processors, |bytes, processor| bytes.number(*processor));
    bytes.number(start.announced.into());
    bytes.number(u64::from(start.hands_over));
    bytes.0
}

impl Request {
    fn decode(bytes: &[u8], descriptors: &[RawFd]) -> Option<Self> {
        let mut bytes = Decoder(bytes);
        let kind = bytes.number()?;
        let (standard, trees) = match kind {
            kind::AHEAD | kind::AHEAD_AND_FINISH => (None, descriptors),
            _ => bytes.standard(kind, descriptors).map(|(standard, trees)| (Some(standard), trees))?,
        };
        let steps = bytes.list(|bytes| bytes.step(trees))?;
        let rules = bytes.list(|bytes| Some((bytes.text()?, bytes.number()?)))?;
        let part = match standard {
            None => RequestPart::Ahead { finish: kind == kind::AHEAD_AND_FINISH },
            Some(standard) => RequestPart::Call { start: bytes.start()?, standard },
        };
        bytes.0.is_empty().then_some(Self { steps, rules, part })
    }
}

/// Sends an encoded request: the standard descriptors first, then the trees. Blocks while the
/// socket is full.
pub(crate) fn transmit(
    control: BorrowedFd<'_>,
    request: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(Errno::TOOBIG);
    }
    let length = (request.len() as u64).to_ne_bytes();
    let mut space = vec![MaybeUninit::uninit(); ancillary_space()];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOBIG);
    }
    let (first, rest) = request.split_at(request.len().min(CHUNK));
    sendmsg(control, &[IoSlice::new(&length), IoSlice::new(first)], &mut ancillary, SendFlags::NOSIGNAL)?;
    for chunk in rest.chunks(CHUNK) {
        send(control, chunk, SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

/// Receives the next request; returns `None` if the other end was closed instead.
pub(super) fn receive(control: BorrowedFd<'_>) -> Result<Option<Request>, Errno> {
    let mut length = [0_u8; 8];
    let mut request = vec![0_u8; CHUNK];
    let mut space = vec![MaybeUninit::uninit(); ancillary_space()];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        control,
        &mut [IoSliceMut::new(&mut length), IoSliceMut::new(&mut request)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    );
    let Some(received) = (match received {
        Ok(message) => message.bytes.checked_sub(length.len()),
        Err(Errno::CONNRESET) => None,
        Err(errno) => return Err(errno),
    }) else {
        return Ok(None);
    };
    // The descriptors are plain numbers from here on, as in every blueprint. The process ends if
    // this fails.
    let descriptors: Vec<RawFd> = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .map(IntoRawFd::into_raw_fd)
        .collect();
    let length = usize::try_from(u64::from_ne_bytes(length)).map_err(|_| Errno::PROTO)?;
    request.truncate(received);
    while request.len() < length {
        let filled = request.len();
        request.resize(filled + CHUNK, 0);
        match recv(control, &mut request[filled..], RecvFlags::empty()) {
            Ok((0, _)) | Err(Errno::CONNRESET) => return Ok(None),
            Ok((received, _)) => request.truncate(filled + received),
            Err(errno) => return Err(errno),
        }
    }
    Request::decode(&request, &descriptors).map(Some).ok_or(Errno::PROTO)
}

fn ancillary_space() -> usize {
    rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))
}

struct Encoder(Vec<u8>);

impl Encoder {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_ne_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &CStr) {
        self.bytes(text.to_bytes());
    }

    fn list<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.number(items.len() as u64);
        for item in items {
            each(self, item);
        }
    }

    fn standard(&mut self, standard: Standard) {
        match standard {
            Standard::Outputs { .. } => self.number(kind::OUTPUTS),
            Standard::Pipes { .. } => self.number(kind::PIPES),
            Standard::Terminal(size) => {
                self.number(kind::TERMINAL);
                self.number(size.columns.into());
                self.number(size.rows.into());
            }
            Standard::GivenTerminal(_) => self.number(kind::GIVEN_TERMINAL),
        }
    }

    fn step(&mut self, step: &Step, trees: &[RawFd]) {
        self.text(&step.at().full);
        match step {
            Step::Mount(mount) => {
                self.number(0);
                self.source(&mount.source, trees);
                self.number(u64::from(mount.kind == Kind::Folder));
                self.number(mount.attributes.bits().into());
                self.number(mount.required.into());
                self.number(mount.make_point.into());
            }
            Step::Link { text, .. } => {
                self.number(1);
                self.text(text);
            }
            Step::File { content, mode, .. } => {
                self.number(2);
                self.bytes(content);
                self.number((*mode).into());
            }
            Step::Folder { mode, .. } => {
                self.number(3);
                self.number((*mode).into());
            }
            Step::Folders { names, .. } => {
                self.number(8);
                self.list(names, |bytes, name| bytes.text(name));
            }
            Step::Placeholder { placeholder, .. } => {
                self.number(9);
                let Placeholder { folder, made_as, upper, mark, content, mode } = placeholder;
                for text in [folder, made_as, upper, mark] {
                    self.text(text);
                }
                self.bytes(content);
                self.number((*mode).into());
            }
            Step::Seal { .. } => self.number(4),
            Step::Setting { value, .. } => {
                self.number(5);
                self.text(value);
            }
            Step::Check { is: ExpectedEntry::Hidden, .. } => self.number(6),
            Step::Check { is: ExpectedEntry::Same { device, inode, read_only }, .. } => {
                self.number(7);
                self.number(*device);
                self.number(*inode);
                self.number((*read_only).into());
            }
        }
    }

    fn source(&mut self, source: &Source, trees: &[RawFd]) {
        match source {
            Source::Host(path) => {
                self.number(0);
                self.text(path);
            }
            Source::Handed(tree) => {
                self.number(1);
                // A tree outside of `trees` gets an index that the receiver refuses.
                let index = trees.iter().position(|other| other == tree).unwrap_or(trees.len());
                self.number(index as u64);
            }
            Source::Inside(path) => {
                self.number(2);
                self.text(path);
            }
            Source::Memory { size, mode } => {
                self.number(3);
                self.text(size);
                self.text(mode);
            }
            Source::Overlay { upper, work } => {
                self.number(6);
                self.text(upper);
                self.text(work);
            }
            Source::Processes => self.number(4),
            Source::Terminals => self.number(5),
        }
    }
}

struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*number))
    }

    fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn flag(&mut self) -> Option<bool> {
        Some(self.number()? != 0)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<CString> {
        CString::new(self.bytes()?).ok()
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        (0..count).map(|_| item(self)).collect()
    }

    fn bound(&mut self) -> Option<Bound> {
        let resource = *Resource::ALL.get(usize::try_from(self.number()?).ok()?)?;
        Some(Bound { resource, soft: self.number()?, hard: self.number()? })
    }

    fn start(&mut self) -> Option<Start> {
        Some(Start {
            working_directory: self.text()?,
            candidates: self.list(Decoder::text)?,
            arguments: StringArray::new(self.list(Decoder::text)?),
            environment: StringArray::new(self.list(Decoder::text)?),
            bounds: self.list(Decoder::bound)?,
            processors: self.list(Decoder::number)?,
            announced: self.flag()?,
            hands_over: self.number()? == 1,
        })
    }

    /// Decodes the standard descriptors, and returns the remaining descriptors, which belong to the
    /// trees.
    fn standard<'d>(&mut self, kind: u64, descriptors: &'d [RawFd]) -> Option<(Standard, &'d [RawFd])> {
        if kind == kind::TERMINAL {
            let mut side = || u16::try_from(self.number()?).ok();
            return Some((Standard::Terminal(TerminalSize { columns: side()?, rows: side()? }), descriptors));
        }
        if kind == kind::GIVEN_TERMINAL {
            let (&terminal, trees) = descriptors.split_first()?;
            return Some((Standard::GivenTerminal(terminal), trees));
        }
        let (&[first, second], trees) = descriptors.split_first_chunk::<2>()?;
        let standard = match kind {
            kind::OUTPUTS => Standard::Outputs { stdout: first, stderr: second },
            kind::PIPES => Standard::Pipes { input: first, output: second },
            _ => return None,
        };
        Some((standard, trees))
    }

    fn step(&mut self, trees: &[RawFd]) -> Option<Step> {
        let at = Place::new(Path::new(OsStr::from_bytes(self.bytes()?))).ok()?;
        Some(match self.number()? {
            0 => Step::Mount(Mount {
                source: self.source(trees)?,
                at,
                kind: if self.flag()? { Kind::Folder } else { Kind::File },
                attributes: MountAttrFlags::from_bits_retain(self.small()?),
                required: self.flag()?,
                make_point: self.flag()?,
                tree: -1,
            }),
            1 => Step::Link { at, text: self.text()? },
            2 => Step::File { at, content: self.bytes()?.to_vec(), mode: self.small()? },
            3 => Step::Folder { at, mode: self.small()? },
            8 => Step::Folders { at, names: self.list(Self::text)? },
            9 => {
                let placeholder = Placeholder {
                    folder: self.text()?,
                    made_as: self.text()?,
                    upper: self.text()?,
                    mark: self.text()?,
                    content: self.bytes()?.to_vec(),
                    mode: self.small()?,
                };
                Step::Placeholder { at, placeholder }
            }
            4 => Step::Seal { at },
            5 => Step::Setting { at, value: self.text()? },
            6 => Step::Check { at, is: ExpectedEntry::Hidden },
            7 => {
                let (device, inode, read_only) = (self.number()?, self.number()?, self.flag()?);
                Step::Check { at, is: ExpectedEntry::Same { device, inode, read_only } }
            }
            _ => return None,
        })
    }

    fn source(&mut self, trees: &[RawFd]) -> Option<Source> {
        Some(match self.number()? {
            0 => Source::Host(self.text()?),
            1 => Source::Handed(*trees.get(usize::try_from(self.number()?).ok()?)?),
            2 => Source::Inside(self.text()?),
            3 => Source::Memory { size: self.text()?, mode: self.text()? },
            4 => Source::Processes,
            5 => Source::Terminals,
            6 => Source::Overlay { upper: self.text()?, work: self.text()? },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
