//! A command that writes to the workspace directly: it leaves nothing there through which a later
//! program would run code. The command cannot change existing files of this kind. A new one is
//! removed within a moment and waits for a human.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Fixture, eventually, unread};
use crate::server::Server;

const FREE: [&str; 2] = ["--mode", "full_auto"];

/// Returns a line that makes a file and reports when the file is gone, or that it has stayed for 30
/// seconds.
fn make_and_wait(make: &str, path: &str) -> String {
    unread(&format!(
        "{make}; for i in $(seq 3000); do [ -e {path} ] || [ -L {path} ] || {{ echo gone; exit; }}; sleep 0.01; done; echo stayed"
    ))
}

fn kept(fixture: &Fixture) -> Vec<Value> {
    fixture.run(&["changes", "list", "--json"]).json().as_array().unwrap().clone()
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Runs the command in the background, and returns all its output.
fn run(server: &mut Server, command: &str) -> String {
    let id = server.background(command, false);
    server.expect(&id, 0, "^(gone|stayed|end)$");
    let read = server.data("shell_session", json!({"action": "read", "session_id": id}));
    read["content"].as_str().unwrap().to_owned()
}

#[test]
fn what_a_background_command_makes_for_a_later_program_to_run_is_taken_away_and_waits_for_a_human() {
    let makes = [
        ("echo x > .envrc", ".envrc"),
        ("mkdir -p sub; echo x > sub/plain; mv sub/plain sub/.mcp.json", "sub/.mcp.json"),
        (
            "mkdir -p deep/er && cd deep/er && mkdir .vscode && cd .vscode && sleep 0.3 && echo x > tasks.json && cd ../../..",
            "deep/er/.vscode/tasks.json",
        ),
        ("echo x > plain; ln plain .BASHRC", ".BASHRC"),
        ("ln -s plain .zshrc", ".zshrc"),
        ("mkdir -p made/.husky; echo x > made/.husky/pre-commit; mv made moved", "moved/.husky/pre-commit"),
        ("mkdir -p r/.git/hooks; echo x > r/.git/hooks/pre-commit", "r/.git/hooks/pre-commit"),
        (
            "mkdir -p bare/hooks; echo x > bare/hooks/update; mkdir bare/objects; echo x > bare/HEAD",
            "bare/hooks/update",
        ),
        ("git init -q t; git -C t config core.fsmonitor ./x", "t/.git/config"),
        ("git init -q u; printf '[core]\\nfsmonitor = ./x\\n' >> u/.git/config", "u/.git/config"),
        ("echo 'gitdir: /elsewhere' > .git", ".git"),
    ];
    for (make, path) in makes {
        let fixture = Fixture::with_files(&[("file", "plain")]);
        let mut server = Server::start(&fixture, &FREE);
        let said = run(&mut server, &make_and_wait(make, path));
        assert!(said.contains("gone"), "{make}: {said}");
        assert!(!exists(&fixture.workspace().join(path)), "{make}");
        let kept = kept(&fixture);
        assert_eq!(kept.len(), 1, "{make}: {kept:#?}");
        assert!(kept[0]["reason"].as_str().unwrap().contains("a command that writes directly"), "{kept:#?}");
        server.end();
    }
    // The control: a file that no later program runs stays.
    let fixture = Fixture::with_files(&[("file", "plain")]);
    let mut server = Server::start(&fixture, &FREE);
    let line = unread("echo x > .envrc.md; git init -q t; git -C t config user.name Ann; sleep 1; echo end");
    assert!(run(&mut server, &line).contains("end"));
    assert_eq!(kept(&fixture).len(), 0);
    assert_eq!(fixture.read(".envrc.md"), "x\n");
    assert!(fixture.read("t/.git/config").contains("Ann"));
    assert!(exists(&fixture.workspace().join("t/.git/hooks")));
    server.end();
}

#[test]
fn the_session_says_what_was_taken_away_and_a_human_can_put_it_back_while_it_runs() {
    let fixture = Fixture::with_files(&[("file", "plain")]);
    let mut server = Server::start(&fixture, &FREE);
    let command = unread(
        "echo one > .envrc; until [ -e go ]; do sleep 0.01; done; sleep 1; cat .envrc; echo two > .envrc; echo end",
    );
    let id = server.background(&command, false);
    let path = fixture.workspace().join(".envrc");
    let mut told = String::new();
    for _ in 0..30 {
        if told.contains(" changes apply ") {
            break;
        }
        told.push_str(
            &server.call("shell_session", json!({"action": "read", "session_id": id, "wait": 1})).to_string(),
        );
    }
    assert!(told.contains(".envrc: direnv runs it"), "{told}");
    assert!(!exists(&path));
    let kept = kept(&fixture);
    let applied = fixture.run(&["changes", "apply", kept[0]["id"].as_str().unwrap()]);
    assert_eq!(applied.code, 0, "{}", applied.stderr);
    assert_eq!(fixture.read(".envrc"), "one\n");
    fixture.write("go", "");
    server.expect(&id, 0, "^end$");
    let said =
        server.data("shell_session", json!({"action": "read", "session_id": id}))["content"].to_string();
    // A file that a human has put there is read-only for the command.
    assert!(said.contains("one") && said.contains("Read-only file system"), "{said}");
    assert_eq!(fixture.read(".envrc"), "one\n");
    server.end();
}

#[test]
fn what_was_there_before_is_read_only_in_the_background_also_when_the_host_replaces_it() {
    let files = [
        (".git/config", "[core]\n"),
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".envrc", "old"),
        ("tool", "x"),
    ];
    let fixture = Fixture::with_files(&files);
    fixture.write(".git/objects/x", "");
    fs::hard_link(fixture.workspace().join(".envrc"), fixture.workspace().join("other-name")).unwrap();
    let mut server = Server::start(&fixture, &FREE);
    let attempt = "for f in .git/config .envrc other-name; do echo evil >> $f && echo wrote $f; done";
    let command = unread(&format!(
        "{attempt}; echo begun; until [ -e go ]; do sleep 0.01; done; {attempt}; echo tool > tool; echo end"
    ));
    let id = server.background(&command, false);
    server.expect(&id, 0, "^begun$");
    // Replace each file as an editor and git save: a new file takes the name.
    for (path, content) in [(".git/config", "[user]\n"), (".envrc", "new")] {
        fixture.write("next", content);
        fs::rename(fixture.workspace().join("next"), fixture.workspace().join(path)).unwrap();
    }
    // Wait a moment for the notifications, then give the sign.
    server.data("shell_session", json!({"action": "read", "session_id": id, "offset": 1_000_000, "wait": 1}));
    fixture.write("go", "");
    server.expect(&id, 0, "^end$");
    let said =
        server.data("shell_session", json!({"action": "read", "session_id": id}))["content"].to_string();
    assert!(!said.contains("wrote"), "{said}");
    assert_eq!((fixture.read(".git/config").as_str(), fixture.read(".envrc").as_str()), ("[user]\n", "new"));
    assert_eq!(fixture.read("other-name"), "old");
    assert_eq!(fixture.read("tool"), "tool\n", "the control");
    assert_eq!(kept(&fixture).len(), 0, "what the host replaces is not taken away");
    server.end();
}

#[test]
fn what_must_not_be_written_and_comes_while_a_background_command_runs_is_read_only_for_it() {
    let fixture = Fixture::with_files(&[("file", "plain")]);
    let folder = fixture.home().join(".config/handfast");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), "sandbox_config:\n  normal:\n    deny_write_paths: [\"*.lock\"]\n")
        .unwrap();
    let mut server = Server::start(&fixture, &FREE);
    // The command writes as soon as the file cannot be opened for writing any more, or after 30
    // seconds.
    let command = unread(
        "echo begun; until [ -e a/x.lock ]; do sleep 0.01; done; for i in $(seq 3000); do test -w a/x.lock || break; sleep 0.01; done; \
         echo evil > a/x.lock; rm -f a/x.lock; mv a/x.lock b; mv a c; echo fine > other; echo end",
    );
    fixture.write("a/plain", "");
    let id = server.background(&command, false);
    server.expect(&id, 0, "^begun$");
    fixture.write("a/x.lock", "content");
    server.expect(&id, 0, "^end$");
    let at = if exists(&fixture.workspace().join("c")) { "c/x.lock" } else { "a/x.lock" };
    assert_eq!(fixture.read(at), "content");
    assert_eq!(fixture.read("other"), "fine\n", "the control");
    server.end();
}

/// Returns every file of this name in the folders of the workspace.
fn all_called(fixture: &Fixture, name: &str) -> Vec<std::path::PathBuf> {
    let folders = fs::read_dir(fixture.workspace()).unwrap();
    folders.map(|folder| folder.unwrap().path().join(name)).filter(|path| exists(path)).collect()
}

#[test]
fn a_command_that_makes_decoys_by_the_dozen_is_killed_and_all_that_it_made_is_taken_away() {
    let fixture = Fixture::with_files(&[("file", "plain")]);
    let mut server = Server::start(&fixture, &FREE);
    let id = server.background(
        &unread("for i in $(seq 400); do mkdir d$i; echo x > d$i/.envrc; done; echo made; until [ -e go ]; do sleep 0.1; done; echo end"),
        false,
    );
    let mut told = String::new();
    for _ in 0..60 {
        let read = server
            .call("shell_session", json!({"action": "read", "session_id": id, "wait": 1, "offset": 100_000}));
        told.push_str(&read.to_string());
        if told.contains("kept making files") {
            break;
        }
    }
    assert!(told.contains("kept making files"), "{told}");
    server.end();
    assert!(exists(&fixture.workspace().join("d60")), "the control: it made more than it may");
    assert_eq!(all_called(&fixture, ".envrc"), Vec::<std::path::PathBuf>::new());
}

#[test]
fn what_a_command_made_while_the_server_was_killed_is_taken_away_by_the_next_start() {
    let fixture = Fixture::with_files(&[("old/.envrc", "old")]);
    let mut server = Server::start(&fixture, &FREE);
    let id = server.background(
        &unread("echo begun; until [ -e go ]; do sleep 0.01; done; for i in $(seq 20); do mkdir d$i; echo x > d$i/.envrc; done; echo x > made; sleep 60"),
        false,
    );
    server.expect(&id, 0, "^begun$");
    let process = rustix::process::Pid::from_child(server.process());
    // The stopped server removes nothing.
    rustix::process::kill_process(process, rustix::process::Signal::STOP).unwrap();
    fixture.write("go", "");
    eventually("the last file", || exists(&fixture.workspace().join("made")));
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    server.process().wait().unwrap();
    assert_eq!(all_called(&fixture, ".envrc").len(), 21, "the control: it is there");
    let started = fixture.run(&["--mode", "full_auto", "call", "shell_execute", "{\"command\": \"true\"}"]);
    assert_eq!(started.code, 0, "{}", started.stderr);
    assert!(started.stderr.contains("left files that would run automatically"), "{}", started.stderr);
    assert_eq!(all_called(&fixture, ".envrc"), [fixture.workspace().join("old/.envrc")]);
    assert_eq!(fixture.read("old/.envrc"), "old");
    assert!(exists(&fixture.workspace().join("made")), "what runs nothing stays");
    assert_eq!(kept(&fixture).len(), 1);
}

#[test]
fn what_the_users_own_links_lead_to_is_held_as_what_they_stand_for() {
    use std::os::unix::fs::symlink;
    let fixture = Fixture::with_files(&[
        ("env/dev.sh", "old"),
        ("tools/tasks.json", "{}"),
        ("lib/more.sh", "old"),
        ("other", "x"),
    ]);
    let at = |path: &str| fixture.workspace().join(path);
    symlink("env/dev.sh", at(".envrc")).unwrap();
    symlink("tools", at(".vscode")).unwrap();
    fixture.write("sub/.envrc", "source ../lib/more.sh\n");
    let mut server = Server::start(&fixture, &FREE);
    for path in ["env/dev.sh", "tools/tasks.json", "tools/settings.json", "lib/more.sh"] {
        let command = unread(&format!("echo new > {path}"));
        let held = server.call("shell_execute", json!({ "command": command }));
        assert!(held.to_string().contains("EAPPROVAL"), "{path}: {held:#}");
        let asked = server.call("file_write", json!({"path": path, "content": "new"}));
        assert!(asked.to_string().contains("EAPPROVAL"), "{path}: {asked:#}");
    }
    // The set of protected files is rebuilt when a file on the way to them changes.
    let plain = server.call("shell_execute", json!({"command": unread("echo new > other")}));
    assert!(!plain.to_string().contains("EAPPROVAL"), "{plain:#}");
    fs::remove_file(at(".envrc")).unwrap();
    symlink("other", at(".envrc")).unwrap();
    let held = server.call("shell_execute", json!({"command": unread("echo newer > other")}));
    assert!(held.to_string().contains("EAPPROVAL"), "{held:#}");
    let free = server.call("shell_execute", json!({"command": unread("echo new > env/dev.sh")}));
    assert!(!free.to_string().contains("EAPPROVAL"), "{free:#}");
    server.end();
}
