//! Configuration files: precedence, trust, and the errors of a broken one.

use std::path::Path;

use serde_json::json;

use crate::harness::{Fixture, program};

fn user_configuration(fixture: &Fixture, content: &str) {
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.yaml"), content).unwrap();
}

fn decision(fixture: &Fixture, tool: &str, arguments: serde_json::Value) -> String {
    let run = fixture.run(&["check", tool, &arguments.to_string()]);
    run.json()["decision"].as_str().unwrap_or_else(|| panic!("{}{}", run.stdout, run.stderr)).to_owned()
}

#[test]
fn a_broken_configuration_is_named_with_file_line_and_key() {
    for (content, expected) in [
        ("sandbox_config:\n  normal:\n    allow: [x]\n", "handfast.yaml:3:5: there is no key `allow` here"),
        ("modes: x\n", "handfast.yaml:1:1: there is no key `modes` here; did you mean `mode`?"),
        ("mode: sometimes\n", "handfast.yaml:1:7: `sometimes` is unknown here"),
        ("mode: [\n", "handfast.yaml:"),
    ] {
        let fixture = Fixture::with_files(&[("handfast.yaml", content), ("a.txt", "a")]);
        let run = fixture.run(&["call", "file_read", r#"{"path": "a.txt"}"#]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{content}");
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    }
}

#[test]
fn nothing_is_shown_of_a_file_elsewhere_that_the_configuration_is_a_link_to() {
    for content in ["secret-1234: x\n", "secret-1234\n", "mode: secret-1234\n", "- secret-1234\n"] {
        let fixture = Fixture::new();
        let elsewhere = fixture.outside().join("private");
        std::fs::write(&elsewhere, content).unwrap();
        std::os::unix::fs::symlink(&elsewhere, fixture.workspace().join("handfast.yaml")).unwrap();
        for arguments in [&["call", "self_list_capabilities"][..], &["trust"]] {
            let run = fixture.run(arguments);
            assert_eq!(run.code, 2, "{}", run.stderr);
            assert!(run.stderr.contains("handfast.yaml:1:"), "{}", run.stderr);
            assert!(run.stderr.contains("a link out of the workspace"), "{}", run.stderr);
            assert!(!run.stderr.contains("secret"), "{}", run.stderr);
        }
    }
}

#[test]
fn a_fifo_in_place_of_the_configuration_does_not_hang_the_start() {
    let fixture = Fixture::new();
    let made =
        std::process::Command::new("mkfifo").arg(fixture.workspace().join("handfast.yaml")).status().unwrap();
    assert!(made.success());
    let run = fixture.run(&["call", "self_list_capabilities"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("not a regular file"), "{}", run.stderr);
}

#[test]
fn an_untrusted_workspace_can_tighten_and_not_loosen_until_it_is_trusted_as_it_is() {
    let fixture = Fixture::with_files(&[
        (
            "handfast.yaml",
            "mode: full_auto\nsandbox_config:\n  normal:\n    deny_read_paths: [\"notes.txt\"]\n",
        ),
        ("notes.txt", "n"),
    ])
    .asking();
    let write = || decision(&fixture, "file_write", json!({"path": "b.txt", "content": ""}));
    assert_eq!(write(), "check");
    assert_eq!(decision(&fixture, "file_read", json!({"path": "notes.txt"})), "deny");
    let warned = fixture.run(&["check", "file_read", r#"{"path": "a"}"#]).stderr;
    assert!(warned.contains("`mode` is ignored") && warned.contains(" trust` makes it trusted"), "{warned}");

    assert_eq!(fixture.run(&["trust"]).code, 0);
    assert_eq!(write(), "pass");
    fixture.write("handfast.yaml", "mode: full_auto\n# changed\n");
    assert_eq!(write(), "check");
}

#[test]
fn narrower_lists_of_a_workspace_hold_before_it_is_trusted_as_afterwards() {
    let lists = "    allowed_read_paths: [\"./src\"]\n    allowed_write_paths: [\"./src\"]\n";
    let content = format!("sandbox_config:\n  normal:\n{lists}");
    let fixture =
        Fixture::with_files(&[("handfast.yaml", &content), ("docs/a.txt", "docs"), ("src/a.txt", "src")]);
    for trusted in [false, true] {
        if trusted {
            assert_eq!(fixture.run(&["trust"]).code, 0);
        }
        for (tool, arguments, expected) in [
            ("file_read", json!({"path": "src/a.txt"}), "pass"),
            ("file_read", json!({"path": "docs/a.txt"}), "check"),
            ("file_write", json!({"path": "docs/b.txt", "content": ""}), "check"),
            ("file_delete", json!({"path": "docs/a.txt"}), "check"),
            ("shell_execute", json!({"command": "cat docs/a.txt"}), "check"),
            ("shell_execute", json!({"command": "cat src/a.txt"}), "pass"),
        ] {
            assert_eq!(decision(&fixture, tool, arguments.clone()), expected, "{trusted} {tool} {arguments}");
        }
        let answer = fixture.run(&["call", "shell_execute", r#"{"command": "touch docs/b.txt"}"#]).json();
        assert_eq!(answer["error"]["code"], "EAPPROVAL", "{answer:#}");
        assert!(!fixture.workspace().join("docs/b.txt").exists());
    }
    // The file's allow list counts from now on.
    let write = json!({"path": "src/b.txt", "content": ""});
    assert_eq!(decision(&fixture, "file_write", write.clone()), "pass");
    let untrusted = Fixture::with_files(&[("handfast.yaml", &content)]).asking();
    assert_eq!(decision(&untrusted, "file_write", write), "check");
    let shown = untrusted.run(&["policy", "show"]).stdout;
    assert!(shown.contains("can only narrow: the file is not trusted"), "{shown}");
}

#[test]
fn an_untrusted_workspace_can_ask_for_a_stricter_mode() {
    let fixture = Fixture::with_files(&[("handfast.yaml", "mode: ask_always\n"), ("a.txt", "a")]);
    assert_eq!(decision(&fixture, "file_read", json!({"path": "a.txt"})), "check");
}

#[test]
fn the_user_beats_the_workspace_and_the_command_line_beats_the_user() {
    let fixture = Fixture::new();
    user_configuration(&fixture, "mode: full_auto\n");
    let arguments = r#"{"path": "b.txt", "content": ""}"#;
    assert_eq!(decision(&fixture, "file_write", json!({"path": "b.txt", "content": ""})), "pass");
    let run = fixture.run(&["--mode", "ask_always", "check", "file_write", arguments]);
    assert_eq!(run.json()["decision"], "check");
}

#[test]
fn no_tool_can_write_the_policy_or_the_state() {
    let fixture = Fixture::with_files(&[("handfast.yaml", "mode: ask_always\n")]);
    user_configuration(&fixture, "mode: full_auto\n");
    let everywhere = fixture.outside();
    let inside = |path: &str| json!({"path": everywhere.join(path), "content": "mode: full_auto\n"});
    for path in ["workspace/handfast.yaml", "home/.config/handfast/config.yaml", "state/handfast.db"] {
        let error = fixture.error("file_write", inside(path));
        assert_eq!(error["code"], "EPERMISSION", "{path}: {error:#}");
    }
    let result = fixture.call("shell_execute", json!({"command": "echo 'mode: full_auto' > handfast.yaml"}));
    assert_ne!(result["data"]["exit_code"], 0, "{result:#}");
    assert_eq!(fixture.read("handfast.yaml"), "mode: ask_always\n");
}

#[test]
fn init_writes_a_valid_configuration_and_never_over_one() {
    let fixture = Fixture::new();
    assert_eq!(fixture.run(&["init"]).code, 0);
    assert_eq!(fixture.run(&["check", "file_read", r#"{"path": "a"}"#]).code, 0);
    assert_eq!(fixture.run(&["init"]).code, 2);
}

/// Runs a command in this workspace with this state folder. Returns its exit code, standard output
/// and standard error.
fn command_in(fixture: &Fixture, workspace: &Path, state: &Path) -> (Option<i32>, String, String) {
    let output = std::process::Command::new(program())
        .arg("--workspace")
        .arg(workspace)
        .arg("--state")
        .arg(state)
        .args(["call", "--yes", "shell_execute", r#"{"command": "cat a.txt"}"#])
        .env("HOME", fixture.home())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_workspace_whose_path_is_no_text_works() {
    use std::os::unix::ffi::OsStrExt;
    let fixture = Fixture::new();
    let workspace = fixture.outside().join(std::ffi::OsStr::from_bytes(b"\xff"));
    std::fs::create_dir(&workspace).unwrap();
    std::fs::write(workspace.join("a.txt"), "a").unwrap();
    let (code, output, said) = command_in(&fixture, &workspace, &fixture.state());
    assert!(code == Some(0) && output.contains(r#""stdout":"a""#), "{output}{said}");
    assert_eq!(said, "");
}

#[test]
fn a_workspace_in_the_state_folder_is_refused_and_the_reverse_works() {
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    let workspace = fixture.workspace();
    for state in [workspace.clone(), fixture.outside()] {
        let (code, output, said) = command_in(&fixture, &workspace, &state);
        assert_eq!((code, output.as_str()), (Some(2), ""), "{said}");
        assert!(said.contains("lies in the state folder"), "{said}");
    }
    let (code, output, said) = command_in(&fixture, &workspace, &workspace.join("state"));
    assert!(code == Some(0) && output.contains(r#""stdout":"a""#), "{output}{said}");
}

#[test]
fn init_names_the_file_that_it_cannot_write() {
    let fixture = Fixture::new();
    // Not even root can make files in `/proc`.
    let output = std::process::Command::new(program())
        .args(["--workspace", "/proc", "init"])
        .env("HOME", fixture.home())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot write /proc/handfast.yaml"), "{said}");
}

#[test]
fn a_workspace_that_is_reached_through_a_link_is_known_by_both_names() {
    let fixture = Fixture::with_files(&[("sub/a.txt", "held\n")]);
    let link = fixture.outside().join("link");
    std::os::unix::fs::symlink(fixture.workspace(), &link).unwrap();
    let read = |workspace: &Path, path: &Path| {
        let arguments = serde_json::json!({ "path": path }).to_string();
        let output = std::process::Command::new(program())
            .args(["--workspace".as_ref(), workspace.as_os_str()])
            .args(["--state".as_ref(), fixture.state().as_os_str()])
            .args(["--no-input", "call", "file_read", &arguments])
            .env_clear()
            .env("HOME", fixture.home())
            .env("PWD", &link)
            .current_dir(&link)
            .output()
            .unwrap();
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    for workspace in [&link, Path::new("."), Path::new("../link")] {
        let answer = read(workspace, &fixture.workspace().join("sub/a.txt"));
        assert_eq!(answer["data"]["content"], "held\n", "{answer}");
    }
    for workspace in [&link, Path::new(".")] {
        let answer = read(workspace, &link.join("sub/a.txt"));
        assert_eq!(answer["data"]["content"], "held\n", "{answer}");
    }
    // Any other link to the workspace counts as a path outside.
    let other = fixture.outside().join("other");
    std::os::unix::fs::symlink(fixture.workspace(), &other).unwrap();
    let answer = read(&link, &other.join("sub/a.txt"));
    assert_eq!(answer["error"]["code"], "EAPPROVAL", "{answer}");
}
