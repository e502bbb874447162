//! Programs that a project has installed for itself: `.venv/bin`, `venv/bin` and `node_modules/.bin`.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::Fixture;

fn program(fixture: &Fixture, path: &str, content: &str) {
    fixture.write(path, content);
    let path = fixture.workspace().join(path);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn configured(fixture: &Fixture, profile: &str) {
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let content = format!("sandbox_config:\n  normal:\n    undoable: table\n{profile}");
    std::fs::write(folder.join("config.yaml"), content).unwrap();
}

/// Makes a call with nobody to ask, and returns its result.
fn unasked(fixture: &Fixture, command: &str, folder: &str) -> Value {
    let arguments = json!({"command": command, "working_directory": folder}).to_string();
    fixture.run(&["call", "shell_execute", &arguments]).json()
}

#[test]
fn they_are_found_from_each_folder_of_the_project_and_a_rule_for_their_name_applies() {
    let fixture = Fixture::with_files(&[("packages/a/x", ""), ("node_modules/lint/run.sh", "")]);
    program(&fixture, ".venv/bin/pytest", "#!/bin/sh\necho root\n");
    program(&fixture, "packages/venv/bin/ruff", "#!/bin/sh\necho checked\n");
    program(&fixture, "packages/a/.venv/bin/pytest", "#!/bin/sh\necho near\n");
    program(&fixture, "node_modules/lint/run.sh", "#!/bin/sh\necho linted\n");
    std::fs::create_dir(fixture.workspace().join("node_modules/.bin")).unwrap();
    symlink(Path::new("../lint/run.sh"), fixture.workspace().join("node_modules/.bin/lint")).unwrap();
    configured(&fixture, "    allowed_exec_command: [pytest, lint, ruff check]\n");
    for (command, folder, expected) in [
        ("pytest -q", ".", "root\n"),
        ("pytest -q", "packages", "root\n"),
        ("pytest -q", "packages/a", "near\n"),
        ("lint", "packages/a", "linted\n"),
        ("ruff check .", "packages/a", "checked\n"),
        ("pytest && lint", ".", "root\nlinted\n"),
    ] {
        let answer = unasked(&fixture, command, folder);
        assert_eq!(answer["data"]["stdout"], expected, "{command} in {folder}: {answer:#}");
    }
    // A program that is not listed is asked about, and runs after approval.
    configured(&fixture, "");
    assert_eq!(unasked(&fixture, "pytest -q", ".")["error"]["code"], "EAPPROVAL");
    let run = fixture.call("shell_execute", json!({"command": "pytest -q"}));
    assert_eq!(run["data"]["stdout"], "root\n", "{run:#}");
}

#[test]
fn none_of_them_takes_the_place_of_a_program_of_the_machine_or_passes_for_a_reader() {
    let fixture = Fixture::with_files(&[("a.txt", "a\n")]);
    for folder in [".venv/bin", "venv/bin", "node_modules/.bin"] {
        for name in ["ls", "cat", "git", "sh", "less", "tac2", "env"] {
            program(&fixture, &format!("{folder}/{name}"), "#!/bin/sh\necho planted > planted\n");
        }
    }
    configured(&fixture, "");
    for command in ["ls", "cat a.txt", "cat a.txt | head", "env ls", "git --version", "find . -name x"] {
        let answer = unasked(&fixture, command, ".");
        assert_eq!(answer["ok"], true, "{command}: {answer:#}");
        assert!(!fixture.workspace().join("planted").exists(), "{command}");
    }
    // The control: a name that only the project has is asked about.
    assert_eq!(unasked(&fixture, "tac2 a.txt", ".")["error"]["code"], "EAPPROVAL");
    fixture.call("shell_execute", json!({"command": "tac2 a.txt"}));
    assert!(fixture.workspace().join("planted").exists());
}

#[test]
fn a_yes_is_bound_to_what_runs_by_such_a_name() {
    let fixture = Fixture::new();
    program(&fixture, ".venv/bin/pytest", "#!/bin/sh\necho as approved\n");
    configured(&fixture, "");
    let ask = || unasked(&fixture, "pytest -q", ".");
    let approve = |answer: &Value| {
        let id = answer["error"]["approval_id"].as_str().unwrap().to_owned();
        let approved = fixture.run(&["approvals", "approve", &id]);
        assert_eq!(approved.code, 0, "{}", approved.stderr);
    };
    approve(&ask());
    assert_eq!(ask()["data"]["stdout"], "as approved\n");
    for change in ["content", "nearer"] {
        approve(&ask());
        match change {
            "content" => program(&fixture, ".venv/bin/pytest", "#!/bin/sh\necho another\n"),
            // The new program is found before the old one.
            _ => {
                std::fs::remove_file(fixture.workspace().join(".venv/bin/pytest")).unwrap();
                program(&fixture, "node_modules/.bin/pytest", "#!/bin/sh\necho another\n");
            }
        }
        let answer = ask();
        assert_eq!(answer["error"]["code"], "EPERMISSION", "{change}: {answer:#}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("pytest has changed"), "{answer:#}");
    }
}
