//! One session: a command, the thread that supervises it, and the requests of other threads.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use rustix::termios::{Winsize, tcsetwinsize};

use super::SessionError;
use super::facts::{Ending, Part, Phase, Status};
use crate::capture::Capture;
use crate::cell_processes::RunningCell;
use crate::enforcement::Enforcement;
use crate::error::SandboxError;
use crate::isolation::backend::{CellHost, StartRequest};
use crate::isolation::cell::Cell;
use crate::late_mask::LateMasks;
use crate::limits::values::LimitInForce;
use crate::outcome::{EndReason, Exit, Stream};
use crate::owner::{Owner, OwnerRequest};
use crate::spec::{CellSpec, Command, TerminalSize};
use crate::stdin_wait;
use crate::stdio_pump::Plumbing;
use crate::streams::Streams;
use crate::supervise::{End, supervise};
use crate::sys;

/// Maximum amount of input that may wait for a command that does not read it, in bytes.
const MAX_INPUT: usize = 1 << 20;

/// Stack size in bytes of a thread that only polls and copies.
const STACK: usize = 256 * 1024;

/// Maximum lifetime of a session.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    /// Time since the last request.
    pub idle: Duration,
    /// Time since its start.
    pub absolute: Duration,
}

/// A handle of a command that runs in a separate cell. Clones refer to the same session.
///
/// Its output is one stream: standard error goes to standard output. Dropping the last clone does
/// not end the session; [`Session::close`] does, and so does the end of this program.
#[derive(Clone)]
pub struct Session(Arc<Shared>);

/// A reader of a session's output from its beginning, as far as it is stored.
pub struct SessionOutput {
    session: Session,
    offset: u64,
}

struct Shared {
    state: Mutex<State>,
    /// Condition variable for changes of the phase or the output, and for [`Session::wake`].
    changed: Condvar,
    /// Descriptor that is readable when there are requests.
    event: OwnedFd,
    lifetime: Lifetime,
    started: Instant,
    has_terminal: bool,
    late_masks: Option<Arc<LateMasks>>,
}

struct State {
    phase: Phase,
    /// Error that ended the session, if any; the starter takes it if the command never ran.
    failure: Option<SandboxError>,
    enforcement: Option<Enforcement>,
    output: Capture,
    /// Copy of the terminal's descriptor, while the session lives.
    terminal: Option<OwnedFd>,
    /// Id of the cell's first process, while the session lives.
    first: Option<i32>,
    wishes: VecDeque<OwnerRequest>,
    pending_input: usize,
    input_ended: bool,
    asked_at: Instant,
    ended_at: Option<Instant>,
    exceeded: Option<LimitInForce>,
    /// Reference to the stored output, or the reason why it could not be stored.
    kept: Option<Result<String, String>>,
}

impl Session {
    /// Starts `command` and returns when its program runs. `on_end` is called on the session's
    /// thread after every process of the cell has ended, before the phase changes. It stores the
    /// output and returns the reference to it, or the reason for a failure. An empty file in
    /// `record` gets the output as it comes, up to the limit of `spec`.
    ///
    /// # Errors
    /// Returns the errors of [`run`](crate::run).
    pub fn start(
        spec: CellSpec,
        host: CellHost,
        command: Command,
        lifetime: Lifetime,
        record: Option<File>,
        on_end: impl FnOnce(&Self) -> Result<String, String> + Send + 'static,
    ) -> Result<Self, SandboxError> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(SandboxError::io("making an event"))?;
        let now = Instant::now();
        let session = Self(Arc::new(Shared {
            state: Mutex::new(State {
                phase: Phase::Starting,
                failure: None,
                enforcement: None,
                output: match record {
                    Some(file) => Capture::recorded(file, spec.output_limit),
                    None => Capture::new(spec.spool_directory.clone(), spec.output_limit),
                },
                terminal: None,
                first: None,
                wishes: VecDeque::new(),
                pending_input: 0,
                input_ended: false,
                asked_at: now,
                ended_at: None,
                exceeded: None,
                kept: None,
            }),
            changed: Condvar::new(),
            event,
            lifetime,
            started: now,
            has_terminal: spec.terminal.is_some(),
            late_masks: host.late_masks.clone(),
        }));
        let supervised = session.clone();
        thread::Builder::new()
            .name("session".to_owned())
            .stack_size(STACK)
            .spawn(move || supervised.live(|session| session.in_cell(&spec, &host, &command), on_end))
            .map_err(|source| SandboxError::Io { doing: "starting the session's thread", source })?;
        let mut state = session.0.lock();
        loop {
            if let Some(failure) = state.failure.take() {
                return Err(failure);
            }
            if state.phase != Phase::Starting {
                drop(state);
                return Ok(session);
            }
            session.0.changed.wait(&mut state);
        }
    }

    /// Returns a snapshot of the facts about the session.
    pub fn status(&self) -> Status {
        let state = self.0.lock();
        Status {
            phase: state.phase,
            bytes: state.output.bytes(),
            lines: state.output.lines(),
            has_terminal: self.0.has_terminal,
            runs_for: state.ended_at.unwrap_or_else(Instant::now).saturating_duration_since(self.0.started),
            exceeded: state.exceeded,
            kept: state.kept.clone(),
        }
    }

    /// Returns the notes for the caller that have not been taken yet.
    pub fn take_notes(&self) -> Vec<String> {
        self.0.late_masks.as_ref().map(|masks| masks.take_notes()).unwrap_or_default()
    }

    /// Returns the restrictions in force around the command.
    pub fn enforcement(&self) -> Option<Enforcement> {
        self.0.lock().enforcement.clone()
    }

    /// Returns at most `limit` bytes of the output from `offset`.
    ///
    /// # Errors
    /// Returns an error if output on disk cannot be read back.
    pub fn read(&self, offset: u64, limit: usize) -> io::Result<Part> {
        let mut state = self.0.lock();
        state.asked_at = Instant::now();
        let (offset, mut bytes) = state.output.read_at(offset, limit)?;
        // The stored output lies in several pieces.
        while bytes.len() < limit {
            let next = offset + bytes.len() as u64;
            let (at, more) = state.output.read_at(next, limit - bytes.len())?;
            if at != next || more.is_empty() {
                break;
            }
            bytes.extend(more);
        }
        Ok(Part { offset, bytes })
    }

    /// Returns a reader of the output from its beginning.
    pub fn output(&self) -> SessionOutput {
        SessionOutput { session: self.clone(), offset: 0 }
    }

    /// Waits until there is output past `offset`, the session has ended, `given_up` returns true,
    /// or the time is `until`. [`Session::wake`] makes this function call `given_up` again.
    pub fn wait_for_output(&self, offset: u64, until: Instant, given_up: impl Fn() -> bool) {
        let mut state = self.0.lock();
        loop {
            state.asked_at = Instant::now();
            let left = until.saturating_duration_since(Instant::now());
            let over = state.output.bytes() > offset || matches!(state.phase, Phase::Ended(_));
            if over || left.is_zero() || given_up() {
                return;
            }
            self.0.changed.wait_for(&mut state, left);
        }
    }

    /// Wakes all waiting threads, which then check their conditions again.
    pub fn wake(&self) {
        // Take the lock, so that no thread is between its check and its wait.
        let _state = self.0.lock();
        self.0.changed.notify_all();
    }

    /// Returns true if the foreground program of the terminal waits for input, as far as the kernel
    /// shows that.
    pub fn waits_for_input(&self) -> bool {
        let state = self.0.lock();
        let copy = state.terminal.as_ref().map(OwnedFd::try_clone);
        let first = state.first;
        drop(state);
        match (copy, first) {
            (Some(Ok(terminal)), Some(first)) => stdin_wait::waits_for_input(terminal.as_fd(), first),
            _ => false,
        }
    }

    /// Queues bytes for the command's input, in order, without waiting until the command reads
    /// them.
    ///
    /// # Errors
    /// [`SessionError::EndReason`], [`SessionError::InputClosed`], [`SessionError::InputFull`].
    pub fn write(&self, bytes: Vec<u8>) -> Result<(), SessionError> {
        let mut state = self.0.lock();
        let pending = state.pending_input;
        if state.input_ended {
            return Err(SessionError::InputClosed);
        }
        if pending + bytes.len() > MAX_INPUT {
            return Err(SessionError::InputFull { pending, limit: MAX_INPUT });
        }
        let length = bytes.len();
        self.0.wish(&mut state, OwnerRequest::Input(bytes))?;
        state.pending_input += length;
        Ok(())
    }

    /// Closes the command's input after the bytes written so far. A terminal has no input to close:
    /// there, the key `ctrl-d` has this effect.
    ///
    /// # Errors
    /// [`SessionError::EndReason`], [`SessionError::InputClosed`].
    pub fn end_input(&self) -> Result<(), SessionError> {
        let mut state = self.0.lock();
        if state.input_ended {
            return Err(SessionError::InputClosed);
        }
        self.0.wish(&mut state, OwnerRequest::EndOfInput)?;
        state.input_ended = true;
        Ok(())
    }

    /// Sends a signal. With a terminal, the signals that a terminal can send (SIGINT, SIGQUIT,
    /// SIGTSTP) go to its foreground process group; every other signal goes to the process group of
    /// the command.
    ///
    /// # Errors
    /// [`SessionError::EndReason`].
    pub fn signal(&self, number: u8) -> Result<(), SessionError> {
        let mut state = self.0.lock();
        let from_terminal = [libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP].contains(&number.into());
        if let Some(terminal) = state.terminal.as_ref().filter(|_| from_terminal)
            && sys::signal_foreground(terminal.as_fd(), number.into()).is_ok()
        {
            state.asked_at = Instant::now();
            return Ok(());
        }
        self.0.wish(&mut state, OwnerRequest::Signal(number))
    }

    /// Changes the size of the terminal; the kernel notifies the foreground program.
    ///
    /// # Errors
    /// [`SessionError::NoTerminal`], [`SessionError::EndReason`].
    pub fn resize(&self, size: TerminalSize) -> Result<(), SessionError> {
        if !self.0.has_terminal {
            return Err(SessionError::NoTerminal);
        }
        let mut state = self.0.lock();
        state.asked_at = Instant::now();
        let terminal = state.terminal.as_ref().ok_or(SessionError::Ended)?;
        let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(terminal, size)
            .map_err(|errno| SessionError::Start(SandboxError::io("resizing the terminal")(errno)))
    }

    /// Ends the session: sends SIGTERM to the command, and kills every process in its cell 200 ms
    /// later. Waits until none is left. Does nothing if the session has ended.
    pub fn close(&self) {
        let mut state = self.0.lock();
        let _ended = self.0.wish(&mut state, OwnerRequest::End(EndReason::Stopped));
        while !matches!(state.phase, Phase::Ended(_)) {
            self.0.changed.wait(&mut state);
        }
    }

    /// Asks the session to end as [`Session::close`] does, without waiting.
    pub fn begin_to_close(&self) {
        let _ended = self.0.wish(&mut self.0.lock(), OwnerRequest::End(EndReason::Stopped));
    }

    /// Runs the session's thread.
    fn live(
        &self,
        command: impl FnOnce(&Self) -> Result<End, SandboxError>,
        on_end: impl FnOnce(&Self) -> Result<String, String>,
    ) {
        let (ending, failure) = match command(self) {
            Ok(end) => (Ending { exit: end.exit, ended: end.ended }, None),
            Err(error) => {
                (Ending { exit: Exit::Signal(libc::SIGKILL), ended: EndReason::Killed }, Some(error))
            }
        };
        let mut state = self.0.lock();
        let never_ran = state.phase == Phase::Starting && failure.is_some();
        state.terminal = None;
        state.first = None;
        state.ended_at = Some(Instant::now());
        state.failure = failure;
        drop(state);
        if !never_ran {
            let kept = on_end(self);
            self.0.lock().kept = Some(kept);
        }
        self.0.enter(Phase::Ended(ending));
    }

    fn in_cell(&self, spec: &CellSpec, host: &CellHost, command: &Command) -> Result<End, SandboxError> {
        host.isolation.in_turn(spec, |backend| {
            let request = StartRequest { spec, host, command, streams: Streams::Conversed };
            self.in_this_cell(backend.start(&request)?, host)
        })
    }

    fn in_this_cell(&self, mut cell: Box<dyn Cell>, host: &CellHost) -> Result<End, SandboxError> {
        {
            let mut state = self.0.lock();
            state.enforcement = Some(cell.enforcement().clone());
            state.first = Some(cell.first_process());
        }
        let _running = RunningCell::of(host.processes.as_deref(), cell.first_process());
        let mut plumbing = Plumbing::new(cell.take_stdio());
        let mut owner = SessionOwner(&self.0);
        let end = supervise(&mut *cell, &mut plumbing, &mut owner)?;
        let ended = cell.wait(end.exit, false)?;
        if let Some(spawner) = &host.spawner {
            spawner.refill();
        }
        {
            let mut state = self.0.lock();
            state.enforcement = Some(ended.enforcement);
            state.exceeded = end.exceeded.or(ended.exceeded);
        }
        plumbing.finish(&mut owner)?;
        Ok(end)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Session").field(&self.status()).finish()
    }
}

impl Read for SessionOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let part = self.session.read(self.offset, buffer.len())?;
        let length = part.bytes.len();
        buffer.get_mut(..length).unwrap_or_default().copy_from_slice(&part.bytes);
        self.offset = part.offset + length as u64;
        Ok(length)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is a single assignment or push, so a panic elsewhere left it
        // consistent.
        self.state.lock()
    }

    fn enter(&self, phase: Phase) {
        self.lock().phase = phase;
        self.changed.notify_all();
    }

    fn wish(&self, state: &mut State, wish: OwnerRequest) -> Result<(), SessionError> {
        if matches!(state.phase, Phase::Ended(_)) {
            return Err(SessionError::Ended);
        }
        state.asked_at = Instant::now();
        state.wishes.push_back(wish);
        // The only possible failure is a counter at its maximum, which wakes the reader as well.
        let _full = write(&self.event, &1_u64.to_ne_bytes());
        Ok(())
    }
}

/// The session as the owner of its cell, on its thread.
struct SessionOwner<'a>(&'a Shared);

impl Owner for SessionOwner<'_> {
    const LINGERS: bool = true;

    fn output(&mut self, _: Stream, chunk: &[u8]) {
        self.0.lock().output.push(chunk);
        self.0.changed.notify_all();
    }

    fn deadline(&self) -> Option<(Instant, EndReason)> {
        let Lifetime { idle, absolute } = self.0.lifetime;
        let idle = self.0.lock().asked_at.checked_add(idle).map(|at| (at, EndReason::Idle));
        let absolute = self.0.started.checked_add(absolute).map(|at| (at, EndReason::Deadline));
        idle.into_iter().chain(absolute).min_by_key(|(at, _)| *at)
    }

    fn event(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.event.as_fd())
    }

    fn wish(&mut self) -> Option<OwnerRequest> {
        let mut state = self.0.lock();
        let next = state.wishes.pop_front();
        if next.is_none() {
            let mut count = [0_u8; 8];
            // The counter is already empty if it counted two requests at once.
            let _empty = read(&self.0.event, &mut count);
        }
        next
    }

    fn started(&mut self) {
        self.0.enter(Phase::Running);
    }

    fn terminal(&mut self, terminal: BorrowedFd<'_>) -> Result<(), SandboxError> {
        let copy = terminal
            .try_clone_to_owned()
            .map_err(|source| SandboxError::Io { doing: "copying the terminal's descriptor", source })?;
        self.0.lock().terminal = Some(copy);
        Ok(())
    }

    fn input_taken(&mut self, bytes: usize) {
        let mut state = self.0.lock();
        state.pending_input = state.pending_input.saturating_sub(bytes);
    }

    fn command_ended(&mut self, exit: Exit) {
        self.0.enter(Phase::Left(exit));
    }
}
