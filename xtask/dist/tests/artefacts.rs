//! The artefacts of a release, made of the program that the other tests use: they install and work, their bytes
//! depend on nothing but the program and the commit, and what cannot be packed is refused.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test program: it starts processes, and what goes wrong in it ends it"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns this command with a folder for its artefacts.
fn dist(out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask-dist"));
    command.args(["--quick", "--out"]).arg(out);
    command
}

/// Returns a program that the build of the workspace has made, without its symbols.
fn stripped(folder: &Path, name: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_xtask-dist")).with_file_name(name);
    assert!(built.is_file(), "{} is missing; build it with: cargo build --workspace", built.display());
    let stripped = folder.join(name);
    assert!(Command::new("strip").arg("-o").arg(&stripped).arg(&built).status().unwrap().success());
    stripped
}

fn program(folder: &Path) -> PathBuf {
    stripped(folder, "handfast")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn every_artefact_is_installed_by_its_client_and_makes_a_call_and_equal_input_makes_equal_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let languages = stripped(folder.path(), "handfast-languages");
    let pack = |mut command: Command| {
        command.arg("--binary").arg(&program).arg("--languages").arg(&languages);
        command
    };
    let summary = succeeded(&pack(dist(&first)).output().unwrap());
    assert!(summary.contains("works, installed by handfast setup languages"), "{summary}");
    let has = |client: &str| Command::new(client).arg("--version").output().is_ok();
    // A machine without Debian's programs still tries the other forms.
    let clients = ["tar", "dpkg", "npm", "pip"].into_iter().filter(|client| *client != "dpkg" || has("dpkg"));
    for client in clients {
        assert!(summary.contains(&format!("works, installed by {client}")), "{client}:\n{summary}");
    }

    let mut again = Command::new("sh");
    again.args(["-c", "umask 077; cd /; exec \"$@\"", "sh"]).arg(env!("CARGO_BIN_EXE_xtask-dist"));
    again.args(["--quick", "--no-trial", "--out"]).arg(&second);
    let mut again = pack(again);
    succeeded(&again.env("TZ", "Asia/Kathmandu").env("TMPDIR", folder.path()).output().unwrap());
    let sums = |folder: &Path| std::fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(&first), sums(&second));
    assert_eq!(sums(&first).lines().count(), 8, "{}", sums(&first));

    let mut check = Command::new("sha256sum");
    succeeded(&check.args(["--check", "SHA256SUMS"]).current_dir(&first).output().unwrap());
}

#[test]
fn what_is_no_program_of_a_release_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (out, file) = (folder.path().join("out"), folder.path().join("file"));
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    let refused = |mut command: Command| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let pack = |path: &Path| {
        let mut command = dist(&out);
        command.arg("--binary").arg(path);
        command
    };
    assert!(refused(pack(&file)).contains("is not a Linux program"));
    assert!(refused(pack(&folder.path().join("gone"))).contains("cannot read"));
    // This test is a program of this machine, and no Handfast.
    let other = refused(pack(&std::env::current_exe().unwrap()));
    assert!(other.contains("--version") || other.contains("build it again"), "{other}");
    assert!(!out.exists(), "nothing is written before the program is known");

    let mut elsewhere = Command::new(env!("CARGO_BIN_EXE_xtask-dist"));
    elsewhere.args(["--target", "riscv64gc-unknown-linux-musl"]);
    let output = elsewhere.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("aarch64-unknown-linux-musl"), "{}", text(&output.stderr));
}

#[test]
fn a_folder_with_files_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("thesis"), "years").unwrap();
    let output = dist(&out).arg("--binary").arg(&program).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("is not empty; name a new one with --out"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(std::fs::read_to_string(out.join("thesis")).unwrap(), "years");
}

#[test]
fn the_release_workflow_makes_its_artefacts_by_the_same_command_and_by_no_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let workflow = std::fs::read_to_string(root.join(".github/workflows/release.yml")).unwrap();
    assert!(workflow.contains("run: cargo xtask dist\n"), "{workflow}");
    assert!(workflow.contains("run: cargo xtask dist --clean-root\n"), "{workflow}");
    for other in ["cargo build", "cargo install", "npm pack", "dpkg-deb", "python -m build"] {
        assert!(!workflow.contains(other), "{other}");
    }
}
