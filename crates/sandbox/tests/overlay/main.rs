//! What a command changes in a workspace that is shown through an overlay, in cells of both kinds.
//!
//! Where the tests run as root, they run once more as an ordinary user.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]
#![expect(unsafe_code, reason = "the spawner must start before the test harness has threads")]

mod changes;
mod support;

use std::sync::{Arc, OnceLock};

use sandbox::{Pool, Spawner};

static SPAWNER: OnceLock<Arc<Spawner>> = OnceLock::new();

/// Runs before `main`, so before the threads of the test harness.
extern "C" fn start() {
    let spawner = Spawner::start(Pool::default()).unwrap();
    SPAWNER.set(Arc::new(spawner)).unwrap();
}

// SAFETY: the loader calls each function of this section once, before `main`, with arguments that a function of the C
// convention may ignore. The standard library needs nothing set up for what `start` does.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;
