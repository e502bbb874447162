//! Answers that reach beyond one call: what a beginning of commands of the project covers, and which rules
//! the earlier answers suggest.

use serde_json::{Value, json};

use crate::harness::Fixture;

/// Makes a repository with a first commit.
fn repository() -> Fixture {
    let fixture = Fixture::with_files(&[("a", "1\n")]).asking();
    for line in ["git init -q", "git add a", "git -c user.name=a -c user.email=a@b.c commit -qm first"] {
        fixture.data("shell_execute", json!({"command": line}));
    }
    fixture.write(".git/config", "[user]\n\tname = a\n\temail = a@b.c\n");
    fixture
}

fn call(fixture: &Fixture, line: &str) -> Value {
    let arguments = json!({"command": line}).to_string();
    fixture.run(&["call", "shell_execute", &arguments]).json()
}

#[test]
fn a_yes_to_a_beginning_of_git_covers_its_calls_here_that_can_be_undone_and_no_others() {
    let fixture = repository();
    let commit = "git commit --allow-empty -m second";
    let asked = call(&fixture, commit);
    let id = asked["error"]["approval_id"].as_str().unwrap_or_else(|| panic!("{asked:#}"));
    let shown = fixture.run(&["approvals", "show", id]).stdout;
    assert!(
        shown.contains(
            "project, for 30 days: every command that begins with `git commit`, with any further arguments, \
             as long as all that it changes can be undone, in this workspace; of the last"
        ),
        "{shown}"
    );
    let always = fixture.run(&["approvals", "approve", id, "--scope", "always", "--pattern", "git commit"]);
    assert!(always.code == 2 && always.stderr.contains("use --scope project"), "{}", always.stderr);
    assert_eq!(fixture.run(&["approvals", "approve", id, "--scope", "project"]).code, 0);
    assert_eq!(call(&fixture, commit)["ok"], true);
    let third = call(&fixture, "git commit --allow-empty -m third");
    assert_eq!(third["ok"], true, "{third:#}");
    for line in ["git push", "git commit --allow-empty -m x; touch b", "git reset --hard HEAD~1"] {
        assert_eq!(call(&fixture, line)["error"]["code"], "EAPPROVAL", "{line}");
    }
    // A background command writes into the workspace directly, so its changes cannot be undone.
    let arguments = json!({"command": commit, "background": true}).to_string();
    let background = fixture.run(&["call", "shell_execute", &arguments]).json();
    assert_eq!(background["error"]["code"], "EAPPROVAL", "{background:#}");
}

#[test]
fn a_typed_pattern_is_shown_with_what_it_would_have_covered_before_it_is_given() {
    let fixture = repository();
    let asked = call(&fixture, "git tag one");
    let id = asked["error"]["approval_id"].as_str().unwrap();
    let preview = ["approvals", "approve", id, "--scope", "project", "--pattern", "git *", "--preview"];
    let shown = fixture.run(&preview).stdout;
    assert!(
        shown.contains("begins with `git`")
            && shown.contains("it would have covered 4, 4 of them asked about"),
        "{shown}"
    );
    assert!(shown.contains("`git tag one`") && shown.contains("`git add a`"), "{shown}");
    for refused in ["bash", "python3 *", "gh *", "env", "deno run"] {
        let run = fixture.run(&["approvals", "approve", id, "--scope", "project", "--pattern", refused]);
        assert_eq!(run.code, 2, "{refused}: {}{}", run.stdout, run.stderr);
    }
    assert_eq!(call(&fixture, "git tag one")["error"]["code"], "EAPPROVAL", "a preview allows nothing");
}

#[test]
fn rules_are_suggested_by_what_was_approved_one_by_one() {
    let fixture = Fixture::new().asking();
    assert!(fixture.run(&["policy", "suggest"]).stderr.contains("no entry of a list"));
    for path in ["docs/a.md", "docs/b.md"] {
        fixture.data("file_write", json!({"path": path, "content": "x"}));
    }
    fixture.data("shell_execute", json!({"command": "touch made"}));
    // A call that nobody approved suggests nothing.
    fixture.run(&["call", "file_write", r#"{"path": "refused.txt", "content": "x"}"#]);
    let suggested = fixture.run(&["policy", "suggest", "--json"]).json();
    let entries: Vec<_> =
        suggested.as_array().unwrap().iter().map(|one| one["entry"].as_str().unwrap()).collect();
    assert!(entries.contains(&"./docs/a.md") && !entries.contains(&"./refused.txt"), "{suggested:#}");
    let shown = fixture.run(&["policy", "suggest"]);
    assert!(shown.stdout.contains("allowed_write_paths:\n"), "{}", shown.stdout);
    // The suggestion is a configuration, with which the same calls pass.
    let yaml = shown.stdout.replace("  normal:\n", "  normal:\n    undoable: table\n");
    std::fs::write(fixture.home().join(".config/handfast/config.yaml"), yaml).unwrap();
    let again = fixture.run(&["call", "file_write", r#"{"path": "docs/a.md", "content": "y"}"#]).json();
    assert_eq!(again["ok"], true, "{again:#}");
    let other = fixture.run(&["call", "file_write", r#"{"path": "refused.txt", "content": "x"}"#]).json();
    assert_eq!(other["error"]["code"], "EAPPROVAL", "{other:#}");
}
