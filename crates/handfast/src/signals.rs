//! The signals that ask the program to end: Ctrl-C, a polite kill, the end of the terminal.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Listens from now on; where nobody waits, the signals have no effect.
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

/// What a shell gives to a program that a signal ended: 128 and the signal's number.
const BY_SIGNAL: u8 = 128;

impl Signals {
    /// Begins to listen. Needs a tokio runtime around it.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one; the exit code that tells of it.
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => BY_SIGNAL + 2,
            _ = self.terminate.recv() => BY_SIGNAL + 15,
            _ = self.hang_up.recv() => BY_SIGNAL + 1,
        }
    }
}
