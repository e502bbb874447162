//! `handfast log` and a bare `handfast undo`: what happened, in words, and how it is taken back.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::functional::screen::Terminal;
use crate::harness::{Fixture, program};

/// Returns the actions and outcomes of the log, newest first.
fn logged(fixture: &Fixture, arguments: &[&str]) -> Vec<String> {
    entries(fixture, arguments)
        .iter()
        .map(|entry| {
            let actions: Vec<_> =
                entry["actions"].as_array().unwrap().iter().map(|action| action.as_str().unwrap()).collect();
            let kind = entry["kind"].as_str().unwrap();
            let about = if kind == "call" { actions.join(", ") } else { kind.to_owned() };
            format!("{about}: {}", entry["outcome"].as_str().unwrap())
        })
        .collect()
}

fn entries(fixture: &Fixture, arguments: &[&str]) -> Vec<Value> {
    let run = fixture.run(&[&["log", "--json"], arguments].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns a text in which times, ids, durations and the workspace are replaced.
fn steady(fixture: &Fixture, text: &str) -> String {
    let text = text.replace(fixture.workspace().to_str().unwrap(), "WORKSPACE");
    let is_hex = |word: &str| word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_time = |word: &str| word.len() == 8 && word.matches(':').count() == 2;
    let word = |word: &str| match word {
        word if is_time(word) => "TIME".to_owned(),
        word if is_hex(word.trim_end_matches(':')) => word.replace(word.trim_end_matches(':'), "ID"),
        word if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) => "N".to_owned(),
        other => other.to_owned(),
    };
    let line = |line: &str| {
        let is_day = line.contains(", 20") && line.contains('(');
        if is_day { "DAY".to_owned() } else { line.split(' ').map(word).collect::<Vec<_>>().join(" ") }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_log_tells_calls_decisions_changes_and_questions_the_newest_first() {
    let fixture = Fixture::with_files(&[(".env", "x"), ("old", "1")]).asking();
    fixture.call("file_write", json!({"path": "a.txt", "content": "one\n"}));
    fixture.call("shell_execute", json!({"command": "mkdir src; touch src/a src/b src/c src/d; rm old"}));
    fixture.call("shell_execute", json!({"command": "exit 3"}));
    fixture.run(&["call", "file_read", r#"{"path": ".env"}"#]);
    let asked = fixture.run(&["call", "file_write", r#"{"path": "b.txt", "content": "b"}"#]).json();
    let approval = asked["error"]["approval_id"].as_str().unwrap();
    assert_eq!(fixture.run(&["approvals", "deny", &approval[approval.len() - 8..]]).code, 0);
    let shown = fixture.run(&["log"]);
    insta::assert_snapshot!(steady(&fixture, &shown.stdout), @r"
    DAY
      TIME  ID  answer no about ID by the user, with handfast approvals
      TIME  ID  write b.txt: EAPPROVAL
                file_write through cli, N ms
                asked by mode: smart_auto (profile normal, built in)
      TIME  ID  question about ID
      TIME  ID  read .env: EPERMISSION
                file_read through cli, N ms
                denied by deny_read_paths: .env (profile normal, built in)
      TIME  ID  run exit 3: ok, exit code N
                shell_execute through cli, N ms
      TIME  ID  run mkdir src; touch src/a src/b src/c src/d; rm old: ok
                shell_execute through cli, N ms
                asked by mode: smart_auto (profile normal, built in)
                approved by --yes on the command line
                removed old, created src, src/a and N more
      TIME  ID  write a.txt: ok
                file_write through cli, N ms
                asked by mode: smart_auto (profile normal, built in)
                approved by --yes on the command line
                created a.txt
    ");
    // Reading the log is recorded, and is not what happened here.
    assert!(fixture.run(&["audit", "list", "--tool", "audit_read"]).stdout.contains("audit_read"));
    assert_eq!(fixture.run(&["audit", "verify"]).code, 0);
}

#[test]
fn the_log_is_filtered_by_word_path_outcome_tool_time_and_workspace() {
    let fixture = Fixture::with_files(&[(".env", "x")]);
    fixture.call("file_write", json!({"path": "src/a.txt", "content": "one\n"}));
    fixture.call("shell_execute", json!({"command": "mkdir lib; touch lib/made"}));
    fixture.call("shell_execute", json!({"command": "test -f Missing"}));
    fixture.run(&["call", "file_read", r#"{"path": ".env"}"#]);
    let (write, make, test, read) = (
        "write src/a.txt: ok",
        "run mkdir lib; touch lib/made: ok",
        "run test -f Missing: ok",
        "read .env: EPERMISSION",
    );
    for (arguments, expected) in [
        (&[][..], &[read, test, make, write][..]),
        (&["--limit", "2"], &[read, test]),
        (&["missing"], &[test]),
        (&["touch", "MADE"], &[make]),
        (&["touch", "missing"], &[]),
        (&["m%e"], &[]),
        (&["--path", "src"], &[write]),
        // The plan of the command does not name the file.
        (&["--path", "lib/made"], &[make]),
        (&["--path", "li"], &[]),
        (&["--outcome", "failed"], &[read, test]),
        (&["--outcome", "EPERMISSION"], &[read]),
        (&["--outcome", "ok"], &[make, write]),
        (&["--tool", "file_read"], &[read]),
        (&["--since", "1h", "--path", "lib"], &[make]),
        (&["--until", "1h"], &[]),
        (&["--since", "now"], &[]),
        (&["--outcome", "failed", "--tool", "shell_execute"], &[test]),
    ] {
        assert_eq!(logged(&fixture, arguments), expected, "{arguments:?}");
    }
    let other = fixture.outside().join("other");
    std::fs::create_dir(&other).unwrap();
    let there = |arguments: &[&str]| {
        let mut command = Command::new(program());
        command.args(["--workspace", other.to_str().unwrap(), "--state", fixture.state().to_str().unwrap()]);
        command.args(arguments).env("HOME", fixture.home()).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    there(&["call", "file_write", r#"{"path": "x", "content": ""}"#]);
    let shown = there(&["log"]);
    assert!(shown.contains("write x: ok") && !shown.contains("lib"), "{shown}");
    assert_eq!(logged(&fixture, &[]).len(), 4);
    assert_eq!(logged(&fixture, &["--all-workspaces"]).len(), 5);
    for wrong in [
        &["log", "--since", "tomorrow"][..],
        &["log", "--all-workspaces", "--path", "a"],
        &["log", &"a".repeat(60_000)],
    ] {
        assert_eq!(fixture.run(wrong).code, 2, "{wrong:?}");
    }
}

#[test]
fn the_end_of_an_id_is_enough_everywhere_and_a_shared_one_is_refused() {
    let fixture = Fixture::with_files(&[("a", "before\n")]);
    let changed = fixture.call("file_write", json!({"path": "a", "content": "after\n"}));
    let id = changed["meta"]["checkpoint"].as_str().unwrap();
    let end = &id[id.len() - 8..];
    assert!(fixture.run(&["checkpoints", "list"]).stdout.contains(&format!("  {end}  write a")));
    for command in [&["checkpoints", "show", end][..], &["checkpoints", "diff", end], &["audit", "show", end]]
    {
        let run = fixture.run(command);
        assert_eq!(run.code, 0, "{command:?}: {}", run.stderr);
    }
    // Three characters could be the end of too many.
    assert_eq!(fixture.run(&["checkpoints", "show", &id[id.len() - 3..]]).code, 2);
    fixture.call("file_write", json!({"path": "b", "content": ""}));
    // All ids of a day have this beginning.
    let several = fixture.run(&["checkpoints", "show", &id[..4]]);
    assert!(several.code == 2 && several.stderr.contains("matches several"), "{}", several.stderr);
    let undone = fixture.run(&["undo", "--since", end]);
    assert_eq!(undone.code, 0, "{}", undone.stderr);
    assert_eq!(fixture.read("a"), "before\n");
    assert!(!fixture.workspace().join("b").exists());
    let error = fixture.error("checkpoint_restore", json!({"id": "ffffffff"}));
    assert_eq!(error["code"], "ENOTFOUND");
}

#[test]
fn a_bare_undo_lists_the_newest_changes_and_undoes_what_is_chosen_alone() {
    let fixture = Fixture::with_files(&[("a", "before\n")]);
    fixture.data("file_write", json!({"path": "a", "content": "after\n"}));
    fixture.data("shell_execute", json!({"command": "touch b c"}));
    // Without a terminal there is no choice.
    let piped = fixture.run(&["undo"]);
    assert_eq!(piped.code, 2);
    assert!(piped.stdout.contains("run touch b c") && piped.stdout.contains("b, c"), "{}", piped.stdout);
    assert!(piped.stderr.contains("--last"), "{}", piped.stderr);
    assert_eq!(fixture.run(&["undo", "--json"]).json().as_array().unwrap().len(), 2);

    let mut terminal = Terminal::start(&fixture, (24, 160), &["undo"]);
    terminal.shows("Undo which? [1-2, an id, or Enter for none]");
    terminal.press("7\r");
    terminal.shows("`7` is none of these changes");
    terminal.press("\r");
    terminal.shows("nothing was undone");
    assert_eq!(fixture.read("a"), "after\n");

    let mut terminal = Terminal::start(&fixture, (24, 160), &["undo"]);
    terminal.shows("Undo which?");
    terminal.press("2\r");
    terminal.shows("undone: write a");
    assert_eq!(fixture.read("a"), "before\n");
    assert!(fixture.workspace().join("b").exists());

    // The newest change that is in force is no undo.
    let last = fixture.run(&["undo", "--last"]);
    assert!(last.stdout.contains("undone: run touch b c\n2 paths were restored"), "{}", last.stdout);
    assert!(!fixture.workspace().join("b").exists());
    let none = fixture.run(&["undo", "--last"]);
    assert!(none.code == 0 && none.stderr.contains("no change in this workspace"), "{}", none.stderr);
    for wrong in [&["undo", "--last", "--since", "1h"][..], &["undo", "abcd", "--last"]] {
        assert_eq!(fixture.run(wrong).code, 2, "{wrong:?}");
    }
}

#[test]
fn a_call_that_was_killed_is_in_the_log_as_unfinished() {
    let fixture = Fixture::new();
    let arguments = json!({"command": "touch started; sleep 60"}).to_string();
    let mut call = fixture.command().args(["call", "shell_execute", &arguments]).spawn().unwrap();
    crate::harness::eventually("the call is recorded", || {
        !entries(&fixture, &["--outcome", "unfinished"]).is_empty()
    });
    call.kill().unwrap();
    call.wait().unwrap();
    assert_eq!(logged(&fixture, &["sleep"]), ["run touch started; sleep 60: unfinished"]);
    assert_eq!(logged(&fixture, &["--outcome", "failed"]), Vec::<String>::new());
}
