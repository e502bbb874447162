//! A command's changes to a workspace that is shown through an overlay, in cells of every origin.
//!
//! When the tests run as root, they run once more as an ordinary user.

mod changes;
mod ending;
mod placeholders;
mod places;
mod refusals;
mod support;
mod walls;

use std::process::Command;

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
    let tests = copy(&std::env::current_exe().unwrap(), "deps/spawned");
    copy(&support::run_cell(), "examples/run_cell");
    let output = Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--inh-caps=-all", "--"])
        .arg(tests)
        .arg("overlay::")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!said.contains(" 0 passed") && said.contains("test result: ok"), "{said}");
}
