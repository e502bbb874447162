//! The caller's ends of a command's standard descriptors, with the data in transit.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, read, write};

use crate::error::SandboxError;
use crate::outcome::Stream;
use crate::owner::Owner;
use crate::stdin_wait;
use crate::streams::Ends;

/// Bytes per read: the size of a pipe.
const CHUNK: usize = 64 * 1024;

/// The ends, with the data in transit.
pub(crate) struct Plumbing {
    outputs: [(Stream, Option<OwnedFd>); 2],
    input: Option<OwnedFd>,
    /// Bytes still to be written to the input.
    pending: VecDeque<u8>,
    /// True if the input is to be closed once all pending bytes are written.
    input_ends: bool,
    /// A terminal that is not connected yet.
    terminal: Option<OwnedFd>,
    /// True if the output is a terminal.
    is_terminal: bool,
    buffer: Vec<u8>,
}

impl Plumbing {
    pub(crate) fn new(ends: Ends) -> Self {
        let Ends { input, output, error, terminal } = ends;
        Self {
            outputs: [(Stream::Stdout, output), (Stream::Stderr, error)],
            input,
            pending: VecDeque::new(),
            input_ends: false,
            terminal,
            is_terminal: false,
            buffer: vec![0; CHUNK],
        }
    }

    /// Returns the caller's side of a terminal that existed from the start, once, so that the
    /// caller can connect it.
    pub(crate) fn given_terminal(&mut self) -> Option<OwnedFd> {
        self.terminal.take()
    }

    /// Connects the caller's side of the command's terminal.
    pub(crate) fn connect(&mut self, terminal: OwnedFd) -> Result<(), SandboxError> {
        let failed = SandboxError::io("preparing the terminal");
        fcntl_setfl(&terminal, OFlags::RDWR | OFlags::NONBLOCK).map_err(failed)?;
        let copy = terminal
            .try_clone()
            .map_err(|source| SandboxError::Io { doing: "preparing the terminal", source })?;
        self.input = Some(copy);
        self.outputs[0].1 = Some(terminal);
        self.is_terminal = true;
        Ok(())
    }

    /// Returns true if all output has been read to its end.
    pub(crate) fn is_read(&self) -> bool {
        self.outputs.iter().all(|(_, pipe)| pipe.is_none())
    }

    /// Returns the outputs to poll for reading.
    pub(crate) fn to_read(&self) -> [Option<BorrowedFd<'_>>; 2] {
        self.outputs.each_ref().map(|(_, pipe)| pipe.as_ref().map(AsFd::as_fd))
    }

    /// Returns the input to poll for writing, while bytes are pending.
    pub(crate) fn to_write(&self) -> Option<BorrowedFd<'_>> {
        self.input.as_ref().filter(|_| !self.pending.is_empty()).map(AsFd::as_fd)
    }

    /// Returns true if the foreground program of the terminal waits for input; `first` is the
    /// cell's first process.
    pub(crate) fn waits_for_input(&self, first: i32) -> bool {
        let terminal = self.outputs[0].1.as_ref().filter(|_| self.is_terminal);
        terminal.is_some_and(|terminal| stdin_wait::waits_for_input(terminal.as_fd(), first))
    }

    /// Reads once from the output of this index. Returns true if there may be more.
    pub(crate) fn drain(&mut self, index: usize, owner: &mut impl Owner) -> Result<bool, SandboxError> {
        let Some((stream, end)) = self.outputs.get_mut(index) else { return Ok(false) };
        let Some(pipe) = end.as_ref() else { return Ok(false) };
        match read(pipe, &mut self.buffer[..]) {
            // Reading from a terminal that no process has open fails where a pipe would end.
            Ok(0) | Err(Errno::IO) => {
                *end = None;
                Ok(false)
            }
            Ok(length) => {
                owner.output(*stream, self.buffer.get(..length).unwrap_or_default());
                Ok(true)
            }
            Err(Errno::INTR) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(errno) => Err(SandboxError::io("reading the command's output")(errno)),
        }
    }

    /// Reads the remaining output after every process of the cell is dead.
    pub(crate) fn finish(&mut self, owner: &mut impl Owner) -> Result<(), SandboxError> {
        for index in 0..self.outputs.len() {
            // INVARIANT: no process can write any more, so this ends: at the end of the pipe, or
            // when it is empty.
            while self.drain(index, owner)? {}
        }
        Ok(())
    }

    pub(crate) fn put_in(&mut self, bytes: &[u8]) {
        self.pending.extend(bytes);
    }

    pub(crate) fn end_input(&mut self) {
        self.input_ends = true;
        self.close_ended_input();
    }

    /// Writes once. Returns the number of bytes that are no longer pending.
    pub(crate) fn feed(&mut self) -> usize {
        let Some(input) = &self.input else { return 0 };
        let (first, _) = self.pending.as_slices();
        let taken = match write(input, first) {
            Ok(written) => written,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            // No process reads any more, so the rest is dropped.
            Err(_) => {
                self.input_ends = true;
                self.pending.len()
            }
        };
        self.pending.drain(..taken);
        self.close_ended_input();
        taken
    }

    fn close_ended_input(&mut self) {
        if self.input_ends && self.pending.is_empty() {
            self.input = None;
        }
    }
}
