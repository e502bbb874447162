//! The spawner process, seen from this program.

use std::time::Duration;

use rustix::event::Timespec;

use crate::process::Process;

/// Maximum wait of a call for a cell before it makes one itself: many times the duration of
/// building one, also on a busy machine.
pub(super) const TIMEOUT: Duration = Duration::from_secs(1);

/// The spawner process, which gets time to clean up before it is killed.
#[derive(Debug)]
pub(super) struct SpawnerProcess(pub(super) Process);

impl Drop for SpawnerProcess {
    fn drop(&mut self) {
        self.0.await_end(TIMEOUT);
    }
}

/// Converts a time for the kernel.
pub(super) fn timespec(patience: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    }
}
