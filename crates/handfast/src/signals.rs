//! The signals that ask the program to end: SIGINT, SIGTERM and SIGHUP.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A listener for those signals. While nobody waits for the next signal, signals have no effect.
pub(crate) struct Signals {
    /// Receiver of SIGINT, or `None` if the parent process ignores the signal, as a shell does for
    /// background jobs.
    interrupt: Option<Signal>,
    terminate: Signal,
    /// Receiver of SIGHUP, or `None` if the parent process ignores the signal, as `nohup` does.
    hang_up: Option<Signal>,
}

/// Base of the exit code that a shell reports for a program ended by a signal. The signal's number
/// is added.
const BY_SIGNAL: u8 = 128;

impl Signals {
    /// Starts listening. Requires a tokio runtime.
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

    /// Waits for the next signal and returns the exit code that reports it.
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            () = next(self.interrupt.as_mut()) => BY_SIGNAL + 2,
            _ = self.terminate.recv() => BY_SIGNAL + 15,
            () = next(self.hang_up.as_mut()) => BY_SIGNAL + 1,
        }
    }
}

/// Waits for work. The first signal calls `stop`, which asks the work to end cleanly, and a second signal ends the
/// process at once. Returns the outcome of the work and, if a signal came, the exit code that reports it.
///
/// # Errors
/// If the signals cannot be listened for. The work has not begun then.
pub(crate) async fn until_done<T>(
    work: impl Future<Output = T>,
    mut stop: impl FnMut(),
) -> io::Result<(T, Option<u8>)> {
    let mut signals = Signals::listen()?;
    tokio::pin!(work);
    let mut signalled = None;
    loop {
        tokio::select! {
            outcome = &mut work => return Ok((outcome, signalled)),
            code = signals.next() => {
                if signalled.is_some() {
                    std::process::exit(i32::from(code));
                }
                signalled = Some(code);
                stop();
            }
        }
    }
}

async fn next(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Reads the set of signals that this process ignores, one bit per signal, starting with signal 1.
/// Returns an empty set if the kernel does not report it.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    field.and_then(|field| u64::from_str_radix(field.trim(), 16).ok()).unwrap_or_default()
}
