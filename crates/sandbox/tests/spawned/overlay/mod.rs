//! A command's changes to a workspace that is shown through an overlay, in cells of every origin.
//!
//! When the tests run as root, they run once more as an ordinary user.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]
#![expect(unsafe_code, reason = "the spawner must start before the test harness has threads")]
#![expect(clippy::disallowed_methods, reason = "what is watched runs outside of any cell on purpose")]

mod changes;
mod ending;
mod placeholders;
mod places;
mod refusals;
mod support;
mod walls;

use std::process::Command;
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

/// Id of a user that owns no files (`nobody` of Debian).
const NOBODY: &str = "65534";

#[test]
fn all_of_this_holds_for_an_ordinary_user_too() {
    if !support::is_root() {
        return;
    }
    // Copies that the user can reach, next to each other as the build leaves them.
    let folder = tempfile::tempdir().unwrap();
    support::open_to_all(folder.path());
    let copy = |from: &std::path::Path, name: &str| {
        let to = folder.path().join(name);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, &to).unwrap();
        to
    };
    let tests = copy(&std::env::current_exe().unwrap(), "deps/overlay");
    copy(&support::run_cell(), "examples/run_cell");
    let output = Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--inh-caps=-all", "--"])
        .arg(tests)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!said.contains(" 0 passed") && said.contains("test result: ok"), "{said}");
}
