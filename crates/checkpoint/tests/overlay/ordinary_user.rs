//! Runs all these tests for a user who is not root.

use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

/// Id of a user that owns nothing (`nobody` of Debian).
const NOBODY: u32 = 65534;

#[test]
fn everything_holds_for_an_ordinary_user_too() {
    if !rustix::process::geteuid().is_root() {
        println!("not needed: this is an ordinary user");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let tests = folder.path().join("tests");
    // Another process makes the copy: a child of another test must not inherit a descriptor that
    // writes to it.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&tests).status();
    assert!(copied.unwrap().success());
    let own = folder.path().join("own");
    std::fs::create_dir(&own).unwrap();
    chown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
    let id = NOBODY.to_string();
    let output = Command::new("setpriv")
        .args(["--reuid", &id, "--regid", &id, "--clear-groups", "--inh-caps=-all", "--"])
        .arg(&tests)
        .env("TMPDIR", &own)
        .env("HOME", &own)
        .current_dir(&own)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
}
