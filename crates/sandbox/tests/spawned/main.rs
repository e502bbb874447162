//! Cells that a spawner of this program keeps waiting.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]
#![expect(clippy::disallowed_methods, reason = "the controls run programs outside of any cell on purpose")]
#![expect(unsafe_code, reason = "the spawner must start before the test harness has threads")]

mod cells_from_spawner;
mod overlay;

use std::sync::{Arc, OnceLock};

use sandbox::{Pool, Spawner};

static SPAWNER: OnceLock<Arc<Spawner>> = OnceLock::new();

/// Runs before `main`, and so before the threads of the test harness.
extern "C" fn start() {
    let spawner = Spawner::start(Pool::default()).unwrap();
    SPAWNER.set(Arc::new(spawner)).unwrap();
}

// SAFETY: the loader calls each function of this section once, before `main`, with arguments that a
// function of the C convention may ignore. The standard library needs no setup for the work of
// `start`.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;
