//! Tests that count the resources of their whole process. They run one after the other.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod leaks;
mod memory;

use parking_lot::{Mutex, MutexGuard};

static PROCESS: Mutex<()> = Mutex::new(());

/// Waits until no other test of this process runs. A failure of that test is not a failure of this one.
fn alone() -> MutexGuard<'static, ()> {
    PROCESS.lock()
}
