//! The signals that ask the program to end: Ctrl-C, a polite kill, the end of the terminal.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A listener to those signals. While nobody waits for the next one, they have no effect.
pub(crate) struct Signals {
    /// None where whoever started the program has it ignored, as a shell does for what runs in the background.
    interrupt: Option<Signal>,
    terminate: Signal,
    /// None where it is ignored, as `nohup` has it.
    hang_up: Option<Signal>,
}

/// The exit code that a shell gives a program that a signal ended is this one and the signal's number.
const BY_SIGNAL: u8 = 128;

impl Signals {
    /// Begins to listen. Needs a tokio runtime around it.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let unless_ignored = |kind: SignalKind| {
            let bit = 1_u64 << (kind.as_raw_value() - 1);
            (ignored & bit == 0).then(|| signal(kind)).transpose()
        };
        Ok(Self {
            interrupt: unless_ignored(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: unless_ignored(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one and gives the exit code that reports it.
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            () = next(self.interrupt.as_mut()) => BY_SIGNAL + 2,
            _ = self.terminate.recv() => BY_SIGNAL + 15,
            () = next(self.hang_up.as_mut()) => BY_SIGNAL + 1,
        }
    }
}

async fn next(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Reads the set of signals that this process ignores, a bit for each from signal 1 on. Empty where the kernel does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    field.and_then(|field| u64::from_str_radix(field.trim(), 16).ok()).unwrap_or_default()
}
