//! The command line as people use it: help, `status`, `doctor`, and the pager.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use super::screen::Terminal;
use crate::harness::Fixture;

#[test]
fn help_lists_every_command_once_under_its_purpose_in_at_most_100_columns() {
    let fixture = Fixture::new();
    let help = fixture.run(&["--help"]).stdout;
    let pages = fixture.outside().join("pages");
    std::fs::create_dir(&pages).unwrap();
    fixture.run(&["man-pages", pages.to_str().unwrap()]);
    let commands: Vec<String> = std::fs::read_dir(&pages)
        .unwrap()
        .filter_map(|page| {
            let name = page.unwrap().file_name().into_string().unwrap();
            let name = name.strip_prefix("handfast-")?.strip_suffix(".1")?.to_owned();
            (!name.contains('-')).then_some(name)
        })
        .collect();
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let lines = help.lines().filter(|line| line.starts_with(&format!("  {command} ")));
        assert_eq!(lines.count(), 1, "{command}: {help}");
        let own = fixture.run(&[&command, "--help"]).stdout;
        let widest = own.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= 100, "{command}: {widest}");
    }
    let short = fixture.run(&["-h"]).stdout;
    for line in help.lines().chain(short.lines()) {
        assert!(line.chars().count() <= 100, "{line}");
    }
    assert!(fixture.run(&["serve", "--help"]).stdout.contains("handfast up"));
}

#[test]
fn status_names_rules_servers_questions_and_the_vault() {
    let fixture = Fixture::new().with_vault();
    let status = || fixture.run(&["status", "--json"]).json();
    let none = status();
    assert_eq!((&none["servers"], &none["questions"]), (&json!([]), &json!([])));
    assert_eq!(none["vault"], json!({"state": "missing"}));
    assert_eq!((&none["profile"], &none["mode"]), (&json!("normal"), &json!("smart_auto")));

    fixture.store("KEY", "a value of the vault");
    let arguments = json!({"command": "curl -s http://example.invalid", "timeout": 5});
    fixture.run(&["call", "shell_execute", &arguments.to_string()]);
    let mut server = fixture.command();
    let mut server = server.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    writeln!(server.stdin.as_mut().unwrap(), "{ping}").unwrap();
    lines.next().unwrap().unwrap();
    let found = status();
    let served = &found["servers"][0];
    assert_eq!(served["process"], json!(server.id()), "{found:#}");
    assert_eq!(served["workspace"], json!(fixture.workspace()));
    assert!(served["started_by"].is_string(), "{found:#}");
    assert_eq!(found["vault"], json!({"state": "open", "secrets": 1, "logins": 0}));
    let text = fixture.run(&["status"]).stdout;
    assert!(text.contains(&format!("process {}", server.id())) && text.contains("open: 1 secrets"), "{text}");
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(status()["servers"], json!([]), "a killed server is not listed");
    assert_eq!(fixture.run(&["status", "--mode", "nonsense"]).code, 2);
}

#[test]
fn doctor_begins_with_its_verdict_and_fits_100_columns() {
    let fixture = Fixture::new();
    let run = fixture.run(&["doctor"]);
    let first = run.stdout.lines().next().unwrap();
    let holds = first.starts_with("Everything that Handfast promises holds here");
    assert!(holds == (run.code == 0) && (holds || first.contains("not hold here")), "{}", run.stdout);
    for line in run.stdout.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let subjects = ["State and configuration", "Files", "Network", "Isolation of commands", "Limits"];
    for subject in subjects {
        assert!(run.stdout.contains(&format!("\n{subject}\n")), "{}", run.stdout);
    }
    assert!(!run.stdout.contains("Further tests"), "each test has a subject: {}", run.stdout);
    let findings = fixture.run(&["doctor", "--json"]).json();
    for finding in findings.as_array().unwrap() {
        let name = finding["name"].as_str().unwrap();
        let lines = run.stdout.lines().filter(|line| line.split_whitespace().nth(1) == Some(name));
        assert_eq!(lines.count(), 1, "{name}");
    }
}

#[test]
fn a_long_listing_goes_through_the_pager_and_a_short_one_does_not() {
    let fixture = Fixture::new();
    let pager = [("PAGER", "sed 's/^/paged: /'")];
    let long = Terminal::start_with(&fixture, (10, 120), &pager, &["tools"]);
    long.shows("paged: ");
    assert_eq!(long.ends(), 0);
    let short = Terminal::start_with(&fixture, (80, 120), &pager, &["tools"]);
    let shown = short.shows("tool_call ");
    assert!(!shown.contains("paged: "), "{shown}");
    assert_eq!(short.ends(), 0);
    // A pager that does not exist does not hide the listing, and an empty variable means none.
    for variable in ["no-such-pager", "", "cat"] {
        let plain = Terminal::start_with(&fixture, (10, 120), &[("HANDFAST_PAGER", variable)], &["tools"]);
        plain.shows("tool_call ");
        assert_eq!(plain.ends(), 0);
    }
    // In a pipe there is no pager.
    let piped = fixture.run_with(&[("PAGER", "sed 's/^/paged: /'")], &["tools"]);
    assert!(piped.code == 0 && !piped.stdout.contains("paged: "), "{}", piped.stdout);
}

#[test]
fn every_listing_can_be_json() {
    let fixture = Fixture::new().with_vault();
    for listing in [
        &["status"][..],
        &["tools"],
        &["log"],
        &["audit", "list"],
        &["approvals", "list"],
        &["approvals", "leases"],
        &["changes", "list"],
        &["checkpoints", "list"],
        &["policy", "show"],
        &["policy", "suggest"],
        &["policy", "test"],
        &["vault", "list"],
        &["doctor"],
    ] {
        let run = fixture.run(&[listing, &["--json"]].concat());
        assert!([0, 1].contains(&run.code), "{listing:?}: {}", run.stderr);
        for line in run.stdout.lines() {
            serde_json::from_str::<Value>(line)
                .unwrap_or_else(|error| panic!("{listing:?}: {error}: {line}"));
        }
    }
}
