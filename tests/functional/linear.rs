//! `linear_action` through the whole program: policy decisions, the destinations of its key, and an
//! agent that works with it.

use std::fs;

use crate::fakes::linear::{KEY, Linear};
use serde_json::{Value, json};

use crate::harness::Fixture;

/// Configures the fixture's user to use this server as Linear, with further lines.
pub(crate) fn configured(fixture: Fixture, linear: &Linear, beside: &str) -> Fixture {
    let folder = fixture.home().join(".config/handfast");
    fs::create_dir_all(&folder).unwrap();
    let text = format!("linear:\n  endpoint: {}\n{beside}", linear.endpoint());
    fs::write(folder.join("config.yaml"), text).unwrap();
    fixture
}

/// Builds the fixture of [`configured`] with a vault that contains the key.
pub(crate) fn with_key(linear: &Linear, beside: &str) -> Fixture {
    let fixture = configured(Fixture::new().with_vault(), linear, beside);
    let stored =
        fixture.run_with_input(&["vault", "set", "linear_api_key", "--host", "localhost"], KEY.as_bytes());
    assert_eq!(stored.code, 0, "{}", stored.stderr);
    fixture
}

/// Returns a profile that allows requests to the server, with further lines.
fn listed(beside: &str) -> String {
    format!(
        "sandbox_config:\n  normal:\n    allowed_hosts: [localhost]\n    allowed_secrets: [\"* at localhost\"]\n    {beside}\n"
    )
}

fn action(action: &str, params: Value) -> String {
    json!({"action": action, "params": params}).to_string()
}

fn outcome(answer: &Value) -> &str {
    if answer["ok"] == true { "ok" } else { answer["error"]["code"].as_str().unwrap() }
}

#[test]
fn an_agent_makes_an_issue_and_assigns_it_to_itself() {
    let linear = Linear::new();
    let fixture = with_key(&linear, &listed("mode: full_auto"));
    let call = |arguments: String| fixture.run(&["call", "linear_action", &arguments]);
    let made = call(action("create_issue", json!({"team": "ENG", "title": "Pages load slowly"})));
    assert_eq!(made.json()["data"]["issue"]["identifier"], "ENG-1", "{}", made.stdout);
    assert!(made.json()["data"]["issue"].get("assignee").is_none());
    let assigned =
        call(action("update_issue", json!({"issue": "ENG-1", "assignee": "me", "state": "In Progress"})));
    assert_eq!(
        assigned.json()["data"]["issue"]["assignee"]["email"],
        "ada@example.com",
        "{}",
        assigned.stdout
    );
    let mine = call(action("list_issues", json!({"assignee": "me"})));
    assert_eq!(mine.json()["data"]["issues"][0]["state"]["name"], "In Progress", "{}", mine.stdout);
    let echoed = call(action("create_comment", json!({"issue": "ENG-1", "body": format!("It is {KEY}.")})));
    assert_eq!(
        echoed.json()["data"]["comment"]["body"],
        "It is [SECRET:linear_api_key].",
        "{}",
        echoed.stdout
    );
    assert!(linear.server.seen().iter().all(|request| request.header("authorization") == KEY));
    let audit = fixture.run(&["audit", "list", "--json"]).stdout;
    assert!(audit.contains("linear_action") && audit.contains("Pages load slowly"), "{audit}");
    for said in [made.stdout, made.stderr, assigned.stdout, mine.stdout, echoed.stdout, echoed.stderr, audit]
    {
        assert!(!said.contains(KEY), "{said}");
    }
}

#[test]
fn the_key_is_not_used_before_somebody_is_asked_and_a_denied_host_gets_nothing() {
    let linear = Linear::new();
    linear.with_issue("There");
    let create =
        action("create_issue", json!({"team": "ENG", "title": "T", "description": "Seen by who is asked."}));
    let list = action("list_issues", json!({}));
    let (asking, trusting) = (listed("mode: smart_auto"), listed("mode: full_auto"));
    for (profile, arguments, expected) in [
        (trusting.as_str(), &list, "ok"),
        (asking.as_str(), &create, "EAPPROVAL"),
        // Listing only reads, so a listed host with a listed secret needs no approval.
        (asking.as_str(), &list, "ok"),
        ("", &list, "EAPPROVAL"),
        ("sandbox_config:\n  normal:\n    deny_hosts: [localhost]\n", &list, "EPERMISSION"),
        (
            "sandbox_config:\n  normal:\n    deny_hosts: [localhost]\n    mode: full_auto\n",
            &create,
            "EPERMISSION",
        ),
    ] {
        let fixture = with_key(&linear, profile);
        let asked = linear.questions().len();
        let answer = fixture.run(&["call", "linear_action", arguments]).json();
        assert_eq!(outcome(&answer), expected, "{profile} {arguments}: {answer:#}");
        assert_eq!(linear.questions().len() > asked, expected == "ok");
        if expected == "EAPPROVAL" && *arguments == create {
            let id = answer["error"]["approval_id"].as_str().unwrap();
            let shown = fixture.run(&["approvals", "show", id]).stdout;
            assert!(shown.contains("team: ENG") && shown.contains("Seen by who is asked."), "{shown}");
        }
    }
    assert_eq!(linear.issues().len(), 1);
}

#[test]
fn a_dry_run_of_the_whole_program_changes_nothing_in_linear() {
    let linear = Linear::new();
    let fixture = with_key(&linear, &listed("mode: full_auto"));
    let create = action("create_issue", json!({"team": "ENG", "title": "T"}));
    let tried = fixture.run(&["--dry-run", "call", "linear_action", &create]).json();
    assert_eq!(tried["data"]["would_send"]["variables"]["input"]["title"], "T", "{tried:#}");
    assert_eq!((linear.issues().len(), linear.mutations()), (0, 0));
}

#[test]
fn where_linear_is_stands_in_the_users_configuration_alone() {
    let fixture = Fixture::new();
    fixture.write("handfast.yaml", "linear:\n  endpoint: https://evil.example/graphql\n");
    let list = action("list_issues", json!({}));
    let checked = fixture.run(&["check", "linear_action", &list]);
    let said = checked.stdout.clone() + &checked.stderr;
    assert!(said.contains("api.linear.app") && !checked.stdout.contains("evil.example"), "{said}");
    let folder = fixture.home().join(".config/handfast");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), "linear:\n  endpoint: http://linear.example/graphql\n").unwrap();
    let refused = fixture.run(&["check", "linear_action", &list]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("`linear.endpoint`"), "{}", refused.stderr);
}

#[test]
fn in_the_dialect_of_sluagh_the_key_may_be_that_of_the_environment() {
    let linear = Linear::new();
    let fixture =
        configured(Fixture::new(), &linear, "environment_secrets:\n  LINEAR_API_KEY: [localhost]\n");
    let call = |params: Value| {
        let mut command = fixture.command();
        command.env("LINEAR_API_KEY", KEY);
        let arguments = action("create_issue", params);
        let arguments = ["--dialect", "sluagh", "call", "--yes", "linear_action", &arguments];
        let output = command.args(arguments).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let made = call(json!({"title": "T", "teamId": "ENG", "dueDate": "2026-04-01"}));
    assert_eq!(made["data"]["issue"]["due_date"], "2026-04-01", "{made:#}");
    assert_eq!(linear.server.seen()[0].header("authorization"), KEY);
    let tried = call(json!({"title": "T", "teamId": "ENG", "dryRun": true}));
    assert!(tried["data"]["wouldSend"]["query"].is_string(), "{tried:#}");
    let twice = call(json!({"title": "T", "teamId": "ENG", "team": "OPS"}));
    assert_eq!(outcome(&twice), "EVALIDATION", "{twice:#}");
    assert_eq!(linear.issues().len(), 1);
}
