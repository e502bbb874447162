//! A command that passes because it only reads can be made to run code of the workspace. The code
//! changes nothing that outlives the command, with every mechanism that makes cells.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Fixture, unread};
use crate::server::Server;

/// A line that reads, and runs the monitor that the repository's configuration names.
pub(crate) const LINE: &str = "git -C x status";

/// Actions of the monitor: every way to leave something behind, and then a word that it ran.
const MONITOR: &str =
    "echo c > ../canary; echo c >> ../plain; chmod 600 ../plain; touch -d @1 ../plain; rm -f ../goes
mkdir -p ~/.npm && echo c > ~/.npm/canary; echo c > \"$(dirname \"$PWD\")/../beside/canary\"
echo 'the monitor ran' >&2\n";

/// Returns the workspace's files: the monitor, and two files that the monitor tries to change or
/// remove.
pub(crate) fn files() -> [(&'static str, &'static str); 3] {
    [("monitor", MONITOR), ("plain", "plain\n"), ("goes", "stays\n")]
}

/// Makes the repository of the workspace.
pub(crate) fn make_repository(fixture: &Fixture) {
    std::fs::create_dir_all(fixture.outside().join("beside")).unwrap();
    for arguments in
        [&["init", "-q", "x"] as &[&str], &["-C", "x", "config", "core.fsmonitor", "sh ../monitor"]]
    {
        let made = Command::new("git").args(arguments).current_dir(fixture.workspace()).output().unwrap();
        assert!(made.status.success(), "{made:?}");
    }
    std::fs::write(fixture.workspace().join("x/file"), "").unwrap();
}

/// Lists the traces that the monitor has left behind.
pub(crate) fn left(fixture: &Fixture) -> Vec<&'static str> {
    let workspace = fixture.workspace();
    let plain = std::fs::metadata(workspace.join("plain")).unwrap();
    let found = [
        ("a new file", workspace.join("canary").exists()),
        ("other content", fixture.read("plain") != "plain\n"),
        ("another mode", plain.permissions().mode() & 0o777 == 0o600),
        (
            "another time",
            plain.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() < 9,
        ),
        ("a file less", !workspace.join("goes").exists()),
        ("a file beside the workspace", fixture.outside().join("beside/canary").exists()),
    ];
    found.into_iter().filter_map(|(what, is_so)| is_so.then_some(what)).collect()
}

/// Asserts that the line passed as one that reads, and that the monitor ran.
#[track_caller]
pub(crate) fn assert_ran_as_reader(result: &Value) {
    assert_eq!(result["ok"], true, "{result:#}");
    assert!(result["data"]["stderr"].as_str().unwrap().contains("the monitor ran"), "{result:#}");
    let rule = result["meta"]["rule"].as_str().unwrap();
    assert!(rule.starts_with("read_only_commands"), "{rule}");
}

fn fixture(configuration: &str) -> Fixture {
    let fixture = Fixture::with_files(&files());
    make_repository(&fixture);
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let beside = fixture.outside().join("beside");
    let lists = format!(
        "sandbox_config:\n  normal:\n    undoable: table\n    allowed_write_paths: ['.', '{}']\n{configuration}",
        beside.display()
    );
    std::fs::write(folder.join("config.yaml"), lists).unwrap();
    fixture
}

#[test]
fn what_a_reading_command_runs_changes_nothing_and_the_answer_says_what_was_discarded() {
    let fixture = fixture("");
    let result = fixture.call("shell_execute", json!({"command": LINE}));
    assert_ran_as_reader(&result);
    assert_eq!(left(&fixture), Vec::<&str>::new());
    assert_eq!(result["meta"]["changes"]["state"], "discarded", "{result:#}");
    let warnings = result["meta"]["warnings"].to_string();
    assert!(warnings.contains("it changed 3 paths; these changes were discarded"), "{warnings}");
    assert_eq!(result["meta"]["checkpoint"], Value::Null);
    // A file in the caches of the home would be there for later commands.
    let listed = fixture.data("shell_execute", json!({"command": unread("ls ~/.npm")}));
    assert_eq!(listed["stdout"], "", "{listed:#}");

    // A command that changes nothing produces no warning.
    let quiet = fixture.call("shell_execute", json!({"command": "cat plain"}));
    assert!(quiet["meta"]["warnings"].is_null() && quiet["meta"]["changes"].is_null(), "{quiet:#}");

    // The control: without the reading rule, the same line leaves all of it behind.
    let control = fixture.call("shell_execute", json!({"command": unread(LINE)}));
    assert!(control["data"]["stderr"].as_str().unwrap().contains("the monitor ran"), "{control:#}");
    assert_eq!(left(&fixture).len(), 6, "{:?}", left(&fixture));
    let listed = fixture.data("shell_execute", json!({"command": unread("ls ~/.npm")}));
    assert_eq!(listed["stdout"], "canary\n", "{listed:#}");
}

#[test]
fn a_reading_command_in_the_background_sees_a_read_only_workspace() {
    let fixture = fixture("");
    let mut server = Server::start(&fixture, &[]);
    let id = server.background(LINE, false);
    let read = json!({"action": "read", "session_id": id, "regex": "the monitor ran", "wait": 60});
    let told = server.data("shell_session", read);
    assert!(told["content"].as_str().unwrap().contains("the monitor ran"), "{told:#}");
    server.end();
    assert_eq!(left(&fixture), Vec::<&str>::new());
}

#[test]
fn a_reading_command_has_no_way_out_to_hosts_that_the_profile_lists() {
    let fixture = fixture("    allowed_hosts: ['example.com']\n");
    std::fs::write(
        fixture.workspace().join("monitor"),
        "env | grep -ci _proxy >&2; echo 'the monitor ran' >&2\n",
    )
    .unwrap();
    let result = fixture.call("shell_execute", json!({"command": LINE}));
    assert_ran_as_reader(&result);
    assert!(result["data"]["stderr"].as_str().unwrap().starts_with("0\n"), "{result:#}");
    let words = result["meta"]["sandbox"].to_string();
    assert!(words.contains("network:none"), "{words}");
    // The control: other commands have a network.
    let control = fixture.call("shell_execute", json!({"command": unread(LINE)}));
    assert!(!control["data"]["stderr"].as_str().unwrap().starts_with("0\n"), "{control:#}");
    let words = control["meta"]["sandbox"].to_string();
    assert!(words.contains("network:allowed_hosts"), "{words}");
}

#[test]
fn a_redirection_to_a_listed_path_is_kept_because_such_a_line_does_more_than_read() {
    let fixture = fixture("");
    for (line, path) in [("cat plain > copy", "copy"), ("cat plain; sort -o sorted plain", "sorted")] {
        let result = fixture.call("shell_execute", json!({"command": line}));
        assert_eq!(result["meta"]["changes"]["state"], "committed", "{result:#}");
        assert!(result["meta"]["rule"].as_str().unwrap().starts_with("allowed_write_paths"), "{result:#}");
        assert_eq!(fixture.read(path), "plain\n");
    }
}
