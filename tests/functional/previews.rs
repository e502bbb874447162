//! Previews in questions: the difference that a call makes, shown in every place where a human may
//! answer.

use serde_json::{Value, json};

use crate::functional::screen::Terminal;
use crate::harness::{Fixture, unread};
use crate::http::Up;
use crate::server::Server;

/// A call that is asked about, and changes `two` in `a.txt` into `2`.
struct Case {
    name: &'static str,
    tool: &'static str,
    arguments: Value,
    /// Further options of the program.
    options: &'static [&'static str],
    /// True if the question comes before the call runs.
    beforehand: bool,
}

fn cases(fixture: &Fixture) -> Vec<Case> {
    let sed = "sed -i s/two/2/ a.txt";
    let changed =
        fixture.call("file_write", json!({"path": "a.txt", "content": "one\ntwo\n", "backup": false}));
    let done = changed["meta"]["checkpoint"].as_str().unwrap().to_owned();
    let dry = fixture.call("shell_execute", json!({"command": sed, "dry_run": true}));
    let aside = dry["meta"]["changes"]["id"].as_str().unwrap_or_else(|| panic!("{dry:#}")).to_owned();
    let case = |name, tool, arguments| Case { name, tool, arguments, options: &[], beforehand: true };
    vec![
        case("write", "file_write", json!({"path": "a.txt", "content": "one\n2\n", "backup": false})),
        case("edit", "file_edit", json!({"path": "a.txt", "edits": [{"old_text": "two", "new_text": "2"}]})),
        case(
            "patch",
            "file_patch",
            json!({"patch": "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"}),
        ),
        case("restore", "checkpoint_restore", json!({"id": done})),
        case("apply", "shell_execute", json!({"command": sed, "apply": aside})),
        Case {
            options: &["--mode", "full_auto"],
            beforehand: false,
            ..case("held", "shell_execute", json!({"command": unread(&format!("{sed}; echo x > .envrc"))}))
        },
    ]
}

/// Builds a fixture whose file was `2` before its last change, and whose user is asked, in forms too.
fn fixture() -> Fixture {
    let fixture = Fixture::with_files(&[("a.txt", "one\n2\n")]).asking();
    let file = fixture.home().join(".config/handfast/config.yaml");
    let said = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("elicitation: trusted\n{said}")).unwrap();
    fixture
}

#[test]
fn a_question_about_a_command_shows_what_its_dry_run_came_to_as_long_as_that_stands() {
    let fixture = Fixture::with_files(&[("sub/a.txt", "one\ntwo\n")]).asking();
    let command = |line: &str, directory: &str| json!({"command": line, "working_directory": directory});
    let sed = "sed -i s/two/2/ a.txt";
    let mut dry = command(sed, "sub");
    dry["dry_run"] = json!(true);
    let tried = fixture.call("shell_execute", dry);
    let aside = tried["meta"]["changes"]["id"].as_str().unwrap_or_else(|| panic!("{tried:#}"));
    let asked = |arguments: Value| {
        let asked = fixture.run(&["call", "shell_execute", &arguments.to_string()]).json();
        let id = asked["error"]["approval_id"].as_str().unwrap_or_else(|| panic!("{asked:#}"));
        fixture.run(&["approvals", "show", id]).stdout
    };
    let shown = asked(command(sed, "sub"));
    assert!(shown.contains(aside) && shown.contains("-two") && shown.contains("+2"), "{shown}");
    assert_eq!(fixture.read("sub/a.txt"), "one\ntwo\n");
    // The dry run's changes are not shown for another command or in another directory.
    assert!(!asked(command("sed -i s/two/3/ a.txt", "sub")).contains(aside));
    assert!(!asked(command(sed, ".")).contains(aside));
    // The file changed after the dry run.
    fixture.write("sub/a.txt", "one\ntwo\nthree\n");
    let changed = asked(json!({"command": sed, "working_directory": "sub", "timeout": 7}));
    assert!(!changed.contains(aside) && !changed.contains("-two"), "{changed}");
}

#[test]
fn the_difference_is_shown_wherever_a_call_may_be_answered() {
    let fixture = fixture();
    for Case { name, tool, arguments, options, beforehand } in cases(&fixture) {
        let text = arguments.to_string();
        let with = |more: &[&str]| fixture.run(&[options, more].concat());
        if beforehand {
            let checked = with(&["check", tool, &text]).json();
            assert_eq!(checked["decision"], "check", "{name}: {checked:#}");
            let shown = checked["preview"].as_str().unwrap_or_default();
            assert!(shown.contains("\n-two\n+2\n"), "{name}: {checked:#}");
        }

        let asked = with(&["call", tool, &text]).json();
        let id = asked["error"]["approval_id"].as_str().unwrap_or_else(|| panic!("{name}: {asked:#}"));
        let shown = fixture.run(&["approvals", "show", id]).stdout;
        assert!(shown.contains("\n    -two\n    +2\n"), "{name}: {shown}");
        let mut screen = Terminal::start(&fixture, (50, 100), &["approvals"]);
        screen.until(name, |shown| shown.contains("    -two") && shown.contains("    +2"));
        screen.press("q");
        assert_eq!(screen.ends(), 0);
        assert_eq!(fixture.run(&["approvals", "deny", id]).code, 0);
        // The next identical call reports a denied call, but not denied changes.
        if beforehand {
            assert_eq!(with(&["call", tool, &text]).json()["error"]["code"], "EPERMISSION", "{name}");
        }

        let call = [options, &["call", tool, &text]].concat();
        let mut terminal = Terminal::start(&fixture, (60, 120), &call);
        let shown = terminal.shows("Allow it?");
        assert!(shown.contains("    -two\n    +2\n"), "{name}: {shown}");
        terminal.press("n\r");
        assert_eq!(terminal.ends(), 3, "{name}");

        let mut server = Server::with_forms(&fixture, options);
        let (question, answer) = server.asked(tool, arguments, "deny");
        assert!(question.contains("\n  | -two\n  | +2\n"), "{name}: {question}");
        assert_eq!(answer["_meta"]["handfast/error"]["code"], "EPERMISSION", "{name}: {answer:#}");
        server.end();
        assert_eq!(fixture.read("a.txt"), "one\ntwo\n", "{name}: nobody has said yes");
    }
}

#[test]
fn what_is_approved_is_what_was_shown() {
    for case in 0..6 {
        let fixture = fixture();
        let Case { name, tool, arguments, options, .. } = cases(&fixture).swap_remove(case);
        let text = arguments.to_string();
        let call = [options, &["call", tool, &text]].concat();
        let asked = fixture.run(&call).json();
        let id = asked["error"]["approval_id"].as_str().unwrap_or_else(|| panic!("{name}: {asked:#}"));
        let approved = fixture.run(&["approvals", "approve", id]);
        assert_eq!(approved.code, 0, "{name}: {}", approved.stderr);
        if name != "held" {
            let result = fixture.run(&call).json();
            assert_eq!(result["ok"], true, "{name}: {result:#}");
        }
        assert_eq!(fixture.read("a.txt"), "one\n2\n", "{name}");
        assert_eq!(fixture.workspace().join(".envrc").exists(), name == "held");
    }
}

/// Returns the question about a write of this text, as `approvals show` prints it.
fn shown(fixture: &Fixture, content: &str) -> String {
    let arguments = json!({"path": "a.txt", "content": content, "backup": false}).to_string();
    let output =
        fixture.command().env("DEPLOY_TOKEN", TOKEN).args(["call", "file_write", &arguments]).output();
    let asked: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let id = asked["error"]["approval_id"].as_str().unwrap_or_else(|| panic!("{asked:#}"));
    fixture.run(&["approvals", "show", id]).stdout
}

const TOKEN: &str = "tok-5f2b8c1e9d";

#[test]
fn a_difference_is_bounded_covers_secrets_and_hides_nothing() {
    let fixture = fixture();
    let lines: String = (0..1_000).map(|line| format!("line {line}\n")).collect();
    let long = shown(&fixture, &lines);
    assert!(long.contains("    +line 390\n") && !long.contains("line 500"), "{long}");
    // The difference adds 1,000 lines, removes two, and has three header lines. The preview shows
    // 400 of them.
    assert!(long.contains("    ... 605 more lines\n"), "{long}");
    let wide = shown(&fixture, &"x".repeat(100_000));
    assert!(wide.len() < 3_000 && wide.contains("more characters]"), "{wide}");

    let secret = shown(&fixture, &format!("token: {TOKEN}\nplain\n"));
    assert!(secret.contains("    +token: ") && secret.contains("    +plain\n"), "{secret}");
    assert!(!secret.contains(TOKEN), "{secret}");

    let hostile = shown(&fixture, "a\u{202e}b\u{1b}[8mc\u{200b}\n\tindented\r\n");
    assert!(
        hostile.contains("    +a\\u{202e}b\\u{1b}[8mc\\u{200b}\n    +\u{2192}   indented\\r\n"),
        "{hostile}"
    );
    let arguments = json!({"path": "a.txt", "content": "a\u{202e}b\u{9b}8m\n", "backup": false}).to_string();
    let terminal = Terminal::start(&fixture, (60, 120), &["check", "file_write", &arguments]);
    terminal.shows("+a\\u202eb\\u009b8m\\n");
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn nothing_is_shown_that_may_not_be_read_before_the_answer() {
    let fixture = fixture();
    let outside = fixture.outside().join("notes");
    std::fs::write(&outside, "private words\n").unwrap();
    for (tool, arguments) in [
        ("file_edit", json!({"path": outside, "edits": [{"old_text": "private", "new_text": "public"}]})),
        ("file_write", json!({"path": outside, "content": "public\n", "backup": false})),
    ] {
        let checked = fixture.run(&["check", tool, &arguments.to_string()]).json();
        assert_eq!(checked["decision"], "check", "{checked:#}");
        let shown = checked["preview"].as_str().unwrap();
        assert!(shown.contains("+public") && !shown.contains("words"), "{checked:#}");
    }
}

#[test]
fn an_agent_that_asks_what_would_be_decided_is_shown_no_content() {
    let fixture = Fixture::with_files(&[("a.txt", "private\ntwo\n")]);
    let up = Up::start(&fixture, &["--mode", "ask_always"]);
    let arguments = json!({"path": "a.txt", "edits": [{"old_text": "two", "new_text": "2"}]});
    let body = json!({"tool": "file_edit", "arguments": arguments});
    let of_agent = up.post(&up.agent, "/v1/check", &body);
    assert_eq!(of_agent.json()["decision"], "check");
    assert!(!of_agent.json().to_string().contains("private"), "{:#}", of_agent.json());
    // The control: the user is shown the content.
    let of_user = fixture.run(&["--mode", "ask_always", "check", "file_edit", &arguments.to_string()]).json();
    assert!(of_user["preview"].as_str().unwrap().contains("private"), "{of_user:#}");
    up.end();
}

#[test]
fn changes_that_do_not_lie_aside_are_not_asked_about() {
    let fixture = fixture();
    let arguments = json!({"command": "true", "apply": "nothing"});
    let result = fixture.run(&["call", "shell_execute", &arguments.to_string()]).json();
    assert_eq!(result["error"]["code"], "ENOTFOUND", "{result:#}");
    assert_eq!(fixture.run(&["approvals", "list", "--json"]).json(), json!([]));
}
