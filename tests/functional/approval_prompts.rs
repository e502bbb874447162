//! The exact words that `handfast approvals` prints and asks on a terminal.

use serde_json::json;

use crate::functional::screen::Terminal;
use crate::harness::Fixture;

/// Makes a question that waits for an answer, and returns its id.
fn waiting(fixture: &Fixture) -> String {
    let arguments = json!({"path": "docs/a.txt", "content": "one\n"}).to_string();
    let result = fixture.run(&["call", "file_write", &arguments]).json();
    result["error"]["approval_id"].as_str().unwrap().to_owned()
}

fn state(fixture: &Fixture, id: &str) -> String {
    fixture.run(&["approvals", "show", id, "--json"]).json()["state"].as_str().unwrap().to_owned()
}

/// Returns the words of a transcript, without the parts that vary between runs.
fn words(fixture: &Fixture, shown: &str) -> String {
    let shown = shown.replace(fixture.workspace().to_str().unwrap(), "WORKSPACE");
    let line = |line: &str| match (line.find(", asked "), line.find(" by session ")) {
        (Some(asked), Some(_)) => format!("{}, asked THEN by session ID", &line[..asked]),
        _ => line.trim_end().to_owned(),
    };
    shown.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn show_says_all_that_there_is_to_know_before_an_answer() {
    let fixture = Fixture::new().asking();
    let id = waiting(&fixture);
    let shown = fixture.run(&["approvals", "show", &id]).stdout;
    insta::assert_snapshot!(words(&fixture, &shown), @r"
    file_write (moderate)  call ended
    in WORKSPACE, asked THEN by session ID

      write docs/a.txt
    because in mode smart_auto, calls of level moderate are asked about
    rule mode: smart_auto (profile normal, built in)

        --- /dev/null
        +++ b/docs/a.txt
        @@ -0,0 +1 @@
        +one

    its call has ended; after an approval, the same call passes once when it is made again
    the approval can be for
      once: this call only
      project, for 30 days: `file_write` again with exactly these effects, as long as the programs and scripts do not change, in this workspace: write docs/a.txt
    ");
}

#[test]
fn a_yes_for_more_than_once_says_what_it_covers_and_asks_again() {
    let fixture = Fixture::new().asking();
    let id = waiting(&fixture);
    let approve = ["approvals", "approve", &id, "--scope", "project", "--ttl", "1h"];

    let mut terminal = Terminal::start(&fixture, (24, 100), &approve);
    let shown = terminal.shows("[y/N]");
    insta::assert_snapshot!(words(&fixture, shown.trim()), @r"
    project, for 1 hour: `file_write` again with exactly these effects, as long as the programs and scripts do not change, in this workspace: write docs/a.txt
    Allow this? [y/N]
    ");
    terminal.press("\r");
    assert_eq!(terminal.ends(), 1, "no answer is no yes");
    assert_eq!(state(&fixture, &id), "waiting");

    let mut terminal = Terminal::start(&fixture, (24, 100), &approve);
    terminal.shows("[y/N]");
    terminal.press("y\r");
    assert_eq!(terminal.ends(), 0);
    assert_eq!(state(&fixture, &id), "approved");
}

#[test]
fn a_yes_at_the_terminal_covers_the_file_that_the_question_named() {
    for mode in ["ask_always", "smart_auto"] {
        let fixture = Fixture::with_files(&[("plain", "x\n")]).asking();
        let run = serde_json::json!({"command": "cat plain > .envrc"}).to_string();
        let call = ["--mode", mode, "call", "shell_execute", &run];
        let mut terminal = Terminal::start(&fixture, (40, 200), &call);
        terminal.shows(".envrc is a run-later file");
        terminal.shows("Allow it?");
        terminal.press("y\r");
        assert_eq!(terminal.ends(), 0, "{mode}");
        assert_eq!(fixture.read(".envrc"), "x\n", "{mode}");
        let asked = fixture.run(&["approvals", "list", "--all", "--json"]).json();
        assert_eq!(asked.as_array().unwrap().len(), 1, "{mode}: {asked:#}");
    }
}

#[test]
fn the_question_of_a_call_shows_what_it_would_do_and_how_far_each_answer_reaches() {
    let fixture = Fixture::with_files(&[("docs/a.txt", "one\ntwo\n")]).asking();
    let arguments =
        serde_json::json!({"path": "docs/a.txt", "edits": [{"old_text": "two", "new_text": "2"}]})
            .to_string();
    let mut terminal = Terminal::start(&fixture, (40, 200), &["call", "file_edit", &arguments]);
    let shown = terminal.shows("Allow it?");
    insta::assert_snapshot!(words(&fixture, shown.trim()), @r"
    file_edit asks for approval (moderate)
      read docs/a.txt
      write docs/a.txt
        --- a/docs/a.txt
        +++ b/docs/a.txt
        @@ -1,2 +1,2 @@
         one
        -two
        +2
    because in mode smart_auto, calls of level moderate are asked about
      [p] for 30 days: `file_edit` again with exactly these effects, as long as the programs and scripts do not change, in this workspace: read docs/a.txt; write docs/a.txt
    Allow it? [y] yes, once  [p] project  [n] no  (or type a reason for no)
    ");
    terminal.press("n\r");
    assert_eq!(terminal.ends(), 3);

    let run = serde_json::json!({"command": "cd docs && r''m a.txt | head -n 1"}).to_string();
    let mut terminal = Terminal::start(&fixture, (40, 200), &["call", "shell_execute", &run]);
    let shown = terminal.shows("Allow it?");
    insta::assert_snapshot!(words(&fixture, shown.trim()), @r"
    shell_execute asks for approval (destructive)
      run in .: cd docs && r''m a.txt | head -n 1
        parsed, it runs:
          cd docs
          rm a.txt
          head -n 1
    because in mode smart_auto, calls of level destructive are asked about
      [p] for 30 days: `shell_execute` again with exactly these effects, as long as the programs and scripts do not change, in this workspace: run in .: cd docs && r''m a.txt | head -n 1
    Allow it? [y] yes, once  [p] project  [n] no  (or type a reason for no)
    ");
    terminal.press("y\r");
    assert_eq!(terminal.ends(), 0);
    assert!(!fixture.workspace().join("docs/a.txt").exists());
}
