//! The clean root: what it runs are the commands of the documents, all of them and no others. The trial itself takes
//! root and minutes, so it is run by hand and for a release: `cargo xtask dist --clean-root`.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test program: it starts processes, and what goes wrong in it ends it"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Checks the documents after this change of the read-me.
fn check(change: impl Fn(&str) -> String) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("docs")).unwrap();
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).unwrap();
    std::fs::write(folder.path().join("README.md"), change(&read("README.md"))).unwrap();
    std::fs::write(folder.path().join("docs/INSTALL.md"), read("docs/INSTALL.md")).unwrap();
    let script = repository().join("xtask/dist/clean-root/commands.py");
    // No bytecode is left in the checkout.
    Command::new("python3").arg("-B").arg(script).arg(folder.path()).output().unwrap()
}

fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_command_of_the_documents_is_run_or_has_a_reason_why_it_cannot() {
    let output = check(str::to_owned);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "archive\ndeb\nnpm\npip\nuv\n");
}

#[test]
fn a_command_that_nothing_runs_and_one_that_is_gone_are_named() {
    let unknown = refusal(&check(|text| text.replace("handfast up\n", "handfast up --fast\n")));
    assert!(unknown.contains("README.md: `handfast up --fast` is not known"), "{unknown}");
    let unknown = refusal(&check(|text| format!("{text}\nThen `handfast fly` home.\n")));
    assert!(unknown.contains("README.md: `handfast fly` is not known"), "{unknown}");
    let gone = refusal(&check(|text| text.replace("handfast attach claude\n", "")));
    assert!(gone.contains("no document has the command handfast attach claude"), "{gone}");
}

#[test]
fn artefacts_that_were_changed_or_are_incomplete_are_refused_before_a_root_is_made() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "").unwrap();
    // The hash of the empty text.
    let sums = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n";
    std::fs::write(folder.path().join("SHA256SUMS"), sums).unwrap();
    let refused = || {
        let mut dist = Command::new(env!("CARGO_BIN_EXE_xtask-dist"));
        refusal(&dist.args(["--clean-root", "--out"]).arg(folder.path()).output().unwrap())
    };
    let incomplete = refused();
    assert!(incomplete.contains("make the artefacts anew"), "{incomplete}");
    std::fs::write(folder.path().join("a"), "changed").unwrap();
    let changed = refused();
    assert!(changed.contains("sha256sum") && changed.contains("ended with"), "{changed}");
}
