//! Running servers take a changed configuration, or say why they do not.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::functional::search_path::{file, path_of, program};
use crate::harness::{Fixture, eventually};
use crate::server::Server;
use crate::shown::data_of;

/// A server whose messages go into a file.
struct Served {
    server: Server,
    messages: PathBuf,
}

impl Served {
    fn start(fixture: &Fixture) -> Self {
        Self::of(fixture, fixture.command())
    }

    fn of(fixture: &Fixture, mut command: Command) -> Self {
        let messages = fixture.outside().join("messages");
        command.stderr(Stdio::from(std::fs::File::create(&messages).unwrap()));
        Self { server: Server::of(command), messages }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.messages).unwrap()
    }

    /// Waits until the server has said this.
    fn says(&self, text: &str) {
        eventually(text, || self.said().contains(text));
    }

    fn can_read(&mut self, path: &str) -> bool {
        self.server.call("file_read", json!({ "path": path }))["isError"] != true
    }

    fn can_run(&mut self, line: &str) -> bool {
        self.server.call("shell_execute", json!({ "command": line }))["isError"] != true
    }
}

fn user_file(fixture: &Fixture) -> PathBuf {
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join("config.yaml")
}

const TOOK: &str = "took the changed configuration";
const STAYS: &str = "the changed configuration is wrong, so the earlier one stays in force";

#[test]
fn a_rule_that_is_added_holds_for_the_next_call_and_one_that_is_removed_does_not() {
    let fixture = Fixture::with_files(&[("notes.txt", "n"), ("a.txt", "a")]);
    let mut served = Served::start(&fixture);
    assert!(served.can_read("notes.txt") && served.can_run("touch b.txt"));
    let rules =
        "sandbox_config:\n  normal:\n    deny_read_paths: [notes.txt]\n    deny_exec_command: [touch]\n";
    std::fs::write(user_file(&fixture), rules).unwrap();
    served.says(TOOK);
    assert!(
        !served.can_read("notes.txt") && !served.can_run("cat notes.txt") && !served.can_run("touch c.txt")
    );
    assert!(served.can_read("a.txt"));
    std::fs::remove_file(user_file(&fixture)).unwrap();
    eventually("the second change", || served.said().matches(TOOK).count() == 2);
    assert!(served.can_read("notes.txt") && served.can_run("touch c.txt"));
}

#[test]
fn a_broken_or_unreadable_file_leaves_the_earlier_rules_in_force_and_is_told_once() {
    let fixture = Fixture::with_files(&[("notes.txt", "n")]);
    let rules = "sandbox_config:\n  normal:\n    deny_read_paths: [notes.txt]\n";
    std::fs::write(user_file(&fixture), rules).unwrap();
    let mut served = Served::start(&fixture);
    assert!(!served.can_read("notes.txt"));
    for (position, broken) in
        ["sandbox_config:\n  normal:\n    deny_read_paths: [no", "modes: x\n"].iter().enumerate()
    {
        std::fs::write(user_file(&fixture), broken).unwrap();
        eventually("the message", || served.said().matches(STAYS).count() == position + 1);
        assert!(!served.can_read("notes.txt"), "{broken}");
    }
    served.says("there is no key `modes` here; did you mean `mode`?");
    // A folder in place of the file is no configuration either.
    std::fs::remove_file(user_file(&fixture)).unwrap();
    std::fs::create_dir(user_file(&fixture)).unwrap();
    served.says("it is not a regular file");
    assert!(!served.can_read("notes.txt"));
    std::fs::remove_dir(user_file(&fixture)).unwrap();
    served.says(TOOK);
    assert!(served.can_read("notes.txt"));
}

#[test]
fn the_first_half_of_a_file_that_is_being_written_is_not_taken_for_the_whole() {
    let fixture = Fixture::with_files(&[("notes.txt", "n")]);
    let begin = "sandbox_config:\n  normal:\n    deny_tools: [file_delete]\n";
    let whole = format!("{begin}    deny_read_paths: [notes.txt]\n");
    std::fs::write(user_file(&fixture), &whole).unwrap();
    let mut served = Served::start(&fixture);
    // Each state is a valid configuration, most of them without the rule, and none of them lasts.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        for _ in 0..100 {
            for content in ["", begin, &whole] {
                std::fs::write(user_file(&fixture), content).unwrap();
            }
        }
        assert!(!served.can_read("notes.txt"));
    }
    served.says(TOOK);
    assert!(!served.can_read("notes.txt"));
}

#[test]
fn a_changed_file_of_the_workspace_is_untrusted_until_it_is_trusted() {
    let rules = |more: &str| {
        format!("sandbox_config:\n  normal:\n    undoable: table\n    allowed_exec_command: [touch]\n{more}")
    };
    let fixture = Fixture::with_files(&[("handfast.yaml", &rules("")), ("notes.txt", "n")]);
    assert_eq!(fixture.run(&["trust"]).code, 0);
    let mut served = Served::start(&fixture);
    assert!(served.can_run("touch a.txt"));
    fixture.write("handfast.yaml", &rules("    deny_read_paths: [notes.txt]\n"));
    served.says("handfast.yaml is not trusted, so it can only tighten rules until");
    assert!(!served.can_run("touch a.txt"), "an untrusted list allows nothing");
    assert!(!served.can_read("notes.txt"), "and an untrusted list denies");
    assert_eq!(fixture.run(&["trust"]).code, 0);
    served.says("(what is trusted)");
    assert!(served.can_run("touch a.txt") && !served.can_read("notes.txt"));
}

#[test]
fn what_a_server_takes_at_its_start_only_is_named() {
    let fixture = Fixture::new();
    let mut served = Served::start(&fixture);
    let rules = "dialect: msc\nsandbox_config:\n  normal:\n    limits: {sessions: 2, cpus: 1}\n    deny_tools: [file_list]\n";
    std::fs::write(user_file(&fixture), rules).unwrap();
    served.says("`dialect`, `limits.sessions` is taken when this server starts again");
    let denied = served.server.call("file_list", json!({"path": "."}));
    assert_eq!(denied["isError"], true, "{denied:#}");
}

#[test]
fn background_commands_and_their_sessions_outlive_a_change() {
    let fixture = Fixture::new();
    let rules =
        |more: &str| format!("mode: full_auto\nsandbox_config:\n  normal:\n    dangerous: deny\n{more}");
    std::fs::write(user_file(&fixture), rules("")).unwrap();
    let mut served = Served::start(&fixture);
    let id = served.server.background("sleep 600", false);
    let listed =
        |served: &mut Served| served.server.data("shell_session", json!({"action": "list"})).to_string();
    assert!(listed(&mut served).contains(&id));
    std::fs::write(user_file(&fixture), rules("    deny_tools: [file_delete]\n")).unwrap();
    served.says(TOOK);
    let after = listed(&mut served);
    assert!(after.contains(&id) && after.contains("running"), "{after}");
}

#[test]
fn programs_of_path_are_served_and_leave_it_as_soon_as_calls_may_write_their_folder() {
    let fixture = Fixture::new();
    let home = fixture.home();
    program(&fixture, "apps/demo-1/bin/demo", "#!/bin/sh\ncat \"$(dirname \"$0\")/../lib/x\"\n");
    file(&fixture, "apps/demo-1/lib/x", "library\n");
    std::os::unix::fs::symlink("apps/demo-1", home.join("current")).unwrap();
    let mut command = fixture.command();
    command.env("PATH", path_of(&fixture, &["current/bin"]));
    let mut served = Served::of(&fixture, command);
    // The second call gets a cell that was prepared before it came.
    for _ in 0..2 {
        let result = served.server.call("shell_execute", json!({ "command": "demo; command -v demo" }));
        let expected = format!("library\n{}\n", home.join("current/bin/demo").display());
        assert_eq!(data_of("shell_execute", &result)["stdout"], expected, "{result:#}");
    }
    let key = file(&fixture, "apps/demo-1/lib/.npmrc", "planted-key");
    // A script, because paths in a line are judged before it runs.
    fixture.write("look.sh", &format!("cat {}; echo end", key.display()));
    let result = served.server.call("shell_execute", json!({ "command": "sh look.sh" }));
    assert!(!result.to_string().contains("planted-key") && result.to_string().contains("end"), "{result:#}");
    let rules = "sandbox_config:\n  normal:\n    allowed_write_paths: [./, ~/apps]\n    allowed_read_paths: [./, ~/apps]\ntoolchains: [~/other]\n";
    std::fs::write(user_file(&fixture), rules).unwrap();
    served.says(TOOK);
    assert!(
        served.said().contains("`toolchains` is taken when this server starts again"),
        "{}",
        served.said()
    );
    let result = served.server.call("shell_execute", json!({ "command": "command -v demo || echo absent" }));
    assert_eq!(data_of("shell_execute", &result)["stdout"], "absent\n", "{result:#}");
    std::fs::remove_file(user_file(&fixture)).unwrap();
    eventually("the second change", || served.said().matches(TOOK).count() == 2);
    let result = served.server.call("shell_execute", json!({ "command": "demo" }));
    assert_eq!(data_of("shell_execute", &result)["stdout"], "library\n", "{result:#}");
}
