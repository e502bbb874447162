//! The guarantees for a user who is not root. If the tests run as root, they switch to an ordinary
//! user.

use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Fixture, copy_program, unread};
use crate::server::Server;

/// A user that owns nothing (`nobody` of Debian).
const NOBODY: u32 = 65534;

/// A fixture that belongs to an ordinary user, with a copy of the program that this user can reach.
pub(crate) struct Ordinary {
    pub(crate) fixture: Fixture,
    root: bool,
}

/// Gives a tree to [`NOBODY`].
fn give(path: &Path) {
    lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if !path.is_symlink() && path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path());
        }
    }
}

impl Ordinary {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let fixture = Fixture::with_files(files);
        let root =
            std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        let own = Self { fixture, root };
        copy_program(&own.fixture.outside().join("handfast"));
        if root {
            give(&own.fixture.outside());
        }
        own
    }

    /// Gives new files to the ordinary user.
    pub(crate) fn give_all(&self) {
        if self.root {
            give(&self.fixture.outside());
        }
    }

    /// Returns the program, run by that user, in the fixture's folders.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.command_for_workspace();
        command.arg(self.fixture.workspace());
        command
    }

    /// Returns the program, run by that user. The caller must append the workspace as the first
    /// argument.
    pub(crate) fn command_for_workspace(&self) -> Command {
        let binary = self.fixture.outside().join("handfast");
        let mut command = if self.root {
            let mut command = Command::new("setpriv");
            let id = NOBODY.to_string();
            command
                .args(["--reuid", &id, "--regid", &id, "--clear-groups", "--inh-caps=-all", "--"])
                .arg(binary);
            command
        } else {
            Command::new(binary)
        };
        command.arg("--state").arg(self.fixture.state()).env("HOME", self.fixture.home()).arg("--workspace");
        command
    }

    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Value {
        let mut command = self.command();
        let output = command.args(["call", "--yes", tool, &arguments.to_string()]).output().unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

#[test]
fn what_lies_in_a_folder_that_a_background_command_has_closed_is_taken_away() {
    let ordinary = Ordinary::new(&[("plain", "plain"), ("closed/file", "the user's own")]);
    let own = ordinary.fixture.workspace().join("closed");
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o000)).unwrap();
    let mut command = ordinary.command();
    command.args(["--mode", "full_auto"]);
    let mut server = Server::of(command);
    // The folder cannot be listed, so no watcher sees its new files. The command is still in the
    // folder when the session is closed.
    let line = "mkdir out; cd out; chmod 0300 .; echo evil > kept; echo evil > .envrc; echo done; read line";
    let id = server.background(&unread(line), false);
    server.expect(&id, 0, "^done$");
    let listed = server.call("shell_session", json!({"action": "close", "session_id": id}));
    server.end();
    assert!(!ordinary.fixture.workspace().join("out/.envrc").exists(), "{listed:#}");
    assert_eq!(ordinary.fixture.read("out/kept"), "evil\n", "what no later program runs stays");
    let mode = std::fs::metadata(&own).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0, "what was closed before stays closed");
}

#[test]
fn an_ordinary_users_command_runs_on_a_snapshot_too() {
    let own = Ordinary::new(&[("a", "a"), ("d/x", "x")]);
    let arguments =
        json!({"command": "echo b > a; rm -r d; mkdir n; echo 1 > n/f; ln -s a l; chmod 600 n/f"});
    let result = own.call("shell_execute", arguments);
    assert_eq!(result["ok"], true, "{result:#}");
    assert_eq!(result["meta"]["changes"]["state"], "committed", "{result:#}");
    let sandbox = result["meta"]["sandbox"].to_string();
    assert!(sandbox.contains("workspace:overlay"), "{sandbox}");
    assert_eq!((own.fixture.read("a"), own.fixture.read("n/f")), ("b\n".to_owned(), "1\n".to_owned()));
    assert!(!own.fixture.workspace().join("d").exists());
    let left = std::fs::read_dir(own.fixture.state().join("changes")).unwrap();
    assert_eq!(left.filter(|entry| entry.as_ref().unwrap().path().is_dir()).count(), 0);
    // The question about the first names the file before it runs. That about the second comes when it has run.
    for command in ["mkdir -p .git/hooks; echo x > .git/hooks/update", "echo x > $(echo .git/hooks)/pre-push"]
    {
        let held = own.call("shell_execute", json!({ "command": command }));
        assert_eq!(held["ok"], true, "the caller said yes to everything: {held:#}");
        assert!(held["meta"]["approved_by"].is_string(), "{command}: {held:#}");
    }
    assert_eq!(own.fixture.read(".git/hooks/update") + &own.fixture.read(".git/hooks/pre-push"), "x\nx\n");
}

#[test]
fn files_and_commands_work_and_what_the_user_owns_stays_the_users() {
    use std::os::unix::fs::MetadataExt;
    let own = Ordinary::new(&[("a.txt", "a")]);
    assert_eq!(own.call("file_read", json!({"path": "a.txt"}))["data"]["content"], "a");
    assert_eq!(own.call("file_write", json!({"path": "b.txt", "content": "b"}))["ok"], true);
    let ran = own.call(
        "shell_execute",
        json!({"command": "cat a.txt b.txt; echo c > c.txt; id -un; cat /etc/shadow"}),
    );
    assert_eq!(ran["data"]["stdout"], "abagent\n", "{ran:#}");
    let owner = |name: &str| std::fs::metadata(own.fixture.workspace().join(name)).unwrap().uid();
    assert_eq!([owner("b.txt"), owner("c.txt")], [owner("a.txt"); 2]);
}

#[test]
fn what_the_system_denies_is_said_and_nothing_changes() {
    let own = Ordinary::new(&[("closed.txt", "old"), ("sealed/a.txt", "a")]);
    let mode = |path: &str, mode: u32| {
        let path = own.fixture.workspace().join(path);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("closed.txt", 0o000);
    mode("sealed", 0o555);
    for (tool, arguments, named) in [
        ("file_read", json!({"path": "closed.txt"}), "closed.txt"),
        ("file_write", json!({"path": "sealed/b.txt", "content": "x"}), "sealed"),
        ("file_delete", json!({"path": "sealed/a.txt"}), "sealed"),
        ("file_move", json!({"source": "sealed/a.txt", "destination": "b.txt"}), "sealed"),
    ] {
        let result = own.call(tool, arguments);
        let error = &result["error"];
        assert_eq!(
            (error["code"].as_str(), error["effect"].as_str()),
            (Some("EPERMISSION"), Some("none")),
            "{result:#}"
        );
        assert!(error["message"].as_str().unwrap().contains(named), "{error:#}");
    }
    mode("closed.txt", 0o600);
    mode("sealed", 0o755);
    assert_eq!(
        (own.fixture.read("closed.txt"), own.fixture.read("sealed/a.txt")),
        ("old".to_owned(), "a".to_owned())
    );
}

#[test]
fn folders_that_cannot_be_read_are_counted_and_hide_nothing_else() {
    let own = Ordinary::new(&[("closed/a", "needle"), ("names_only/b", "needle"), ("z", "needle")]);
    let mode = |path: &str, mode: u32| {
        let path = own.fixture.workspace().join(path);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("closed", 0o000);
    mode("names_only", 0o444);
    let listed = own.call("file_list", json!({"path": ".", "recursive": true, "details": false}));
    assert_eq!(listed["data"]["names"], json!(["closed/", "names_only/", "z"]), "{listed:#}");
    assert_eq!(listed["data"]["note"], "2 folders cannot be read");
    let found = own.call("file_search", json!({"pattern": "needle"}));
    assert_eq!(found["data"]["matches"].as_array().unwrap().len(), 1, "{found:#}");
    assert_eq!(found["data"]["note"], "2 files or folders cannot be read");
    mode("closed", 0o755);
    mode("names_only", 0o755);
    let found = own.call("file_search", json!({"pattern": "needle"}));
    assert_eq!(found["data"]["matches"].as_array().unwrap().len(), 3, "{found:#}");
}

#[test]
fn ordinary_development_works_inside_without_configuration() {
    let fixture = Fixture::with_files(&[
        ("hello.c", "#include <stdio.h>\nint main(void) { puts(\"c\"); return 0; }\n"),
        ("hello.py", "import json, threading\nprint(json.dumps('python'))\n"),
        ("hello.js", "console.log('node')\n"),
    ]);
    std::fs::write(fixture.home().join(".gitconfig"), "[user]\n\tname = A B\n\temail = a@b.example\n")
        .unwrap();
    let run = |command: &str| {
        let data = fixture.data("shell_execute", json!({"command": command, "timeout": 120}));
        assert_eq!(data["exit_code"], 0, "{command}: {data:#}");
        data["stdout"].as_str().unwrap().to_owned()
    };
    run("git init --quiet && git add . && git commit --quiet --message first");
    assert_eq!(run("git log --format='%an %s' && git status --short"), "A B first\n");
    assert_eq!(run("gcc -o hello hello.c && ./hello"), "c\n");
    assert_eq!(run("/usr/bin/env python3 hello.py"), "\"python\"\n");
    assert_eq!(run("node hello.js"), "node\n");
}
