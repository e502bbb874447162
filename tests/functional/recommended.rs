//! The configurations that the documentation recommends, taken from its pages.

use serde_json::{Value, json};

use crate::harness::{Fixture, repository};

/// Builds a fixture whose user has the `sandbox_config` of a page.
fn with_the_configuration_of(page: &str) -> Fixture {
    let text = std::fs::read_to_string(repository().join("docs").join(page)).unwrap();
    assert!(!text.contains("full_auto"), "{page} recommends a mode that asks about nothing");
    let block: Vec<&str> = text
        .lines()
        .skip_while(|line| line.trim() != "sandbox_config:")
        .take_while(|line| line.starts_with("    "))
        .filter_map(|line| line.get(4..))
        .collect();
    assert!(block.len() > 2, "{page}: {block:?}");
    let fixture = Fixture::new();
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.yaml"), block.join("\n")).unwrap();
    fixture
}

fn decides(fixture: &Fixture, cases: &[(&str, Value, &str)]) {
    for (tool, arguments, expected) in cases {
        let checked = fixture.run(&["check", tool, &arguments.to_string()]);
        assert_eq!(checked.json()["decision"], **expected, "{tool} {arguments}: {}", checked.stdout);
    }
}

#[test]
fn the_configuration_for_linear_lets_an_agent_list_and_asks_about_the_rest() {
    let list = json!({"action": "list_issues", "params": {"team": "ENG"}});
    let params = json!({"team": "ENG", "title": "T"});
    let create = json!({"action": "create_issue", "params": params});
    let tried = json!({"action": "create_issue", "params": params, "dry_run": true});
    let cases = [
        ("linear_action", list.clone(), "pass"),
        ("linear_action", tried, "pass"),
        ("linear_action", create, "check"),
        ("fetch_url", json!({"url": "https://example.com/"}), "check"),
    ];
    decides(&with_the_configuration_of("LINEAR.md"), &cases);
    // The control: without the configuration, each of them is asked about.
    decides(&Fixture::new(), &[("linear_action", list, "check")]);
}

#[test]
fn the_configuration_for_gmail_lets_an_agent_search_and_asks_about_the_rest() {
    let search = json!({"query": "is:unread"});
    let send = json!({"to": "ada@example.com", "subject": "s", "body": "b"});
    let cases = [
        ("gmail_search", search.clone(), "pass"),
        ("gmail_read", json!({"id": "18c2f0a1b2c3d4e5"}), "check"),
        ("gmail_send", send, "check"),
    ];
    let fixture = with_the_configuration_of("GMAIL.md");
    decides(&fixture, &cases);
    let checked = fixture.run(&["check", "gmail_search", &search.to_string()]).json();
    assert_eq!(checked["level"], "safe", "{checked:#}");
    decides(&Fixture::new(), &[("gmail_search", search, "check")]);
}
