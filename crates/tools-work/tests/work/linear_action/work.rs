//! Successful calls: each action, with names and ids, pages, and dry runs.

use serde_json::{Value, json};
use testkit::assert_contains;

use crate::linear_action::Fixture;

#[test]
fn an_issue_is_made_with_everything_that_can_be_named_and_changed_again() {
    let fixture = Fixture::new();
    let parent = fixture.server.with_issue("All of it");
    let made = fixture
        .call(
            "create_issue",
            json!({
                "team": "engineering", "title": "Pages load slowly", "description": "Since *Monday*.", "priority": 2,
                "state": "in progress", "assignee": "me", "labels": ["bug", "Speed"], "due_date": "2026-04-01",
                "estimate": 3, "parent": parent,
            }),
        )
        .unwrap();
    assert_contains(
        &made,
        &json!({
            "created": true,
            "issue": {
                "identifier": "ENG-2", "title": "Pages load slowly", "description": "Since *Monday*.",
                "state": {"name": "In Progress", "type": "started"}, "team": {"key": "ENG"},
                "assignee": {"display_name": "ada", "email": "ada@example.com"}, "priority": 2, "priority_label": "High",
                "labels": [{"name": "Bug"}, {"name": "Speed"}], "due_date": "2026-04-01", "estimate": 3.0,
                "parent": {"identifier": "ENG-1"},
            },
        }),
    );
    let changed = fixture.call(
        "update_issue",
        json!({
            "issue": "ENG-2", "assignee": "none", "state": "Done", "add_labels": ["Docs"], "remove_labels": ["Bug"],
            "title": "Pages load",
        }),
    );
    let changed = changed.unwrap();
    assert_contains(
        &changed,
        &json!({"issue": {"title": "Pages load", "state": {"name": "Done"}, "labels": [{"name": "Speed"}, {"name": "Docs"}]}}),
    );
    assert!(changed["issue"].get("assignee").is_none(), "{changed:#}");
    let moved =
        fixture.call("update_issue", json!({"issue": "ENG-2", "team": "OPS", "state": "Todo"})).unwrap();
    assert_contains(&moved, &json!({"issue": {"team": {"key": "OPS"}, "state": {"name": "Todo"}}}));
}

#[test]
fn an_id_stands_for_a_name_everywhere() {
    let fixture = Fixture::new();
    let first =
        fixture.call("create_issue", json!({"team": "ENG", "title": "One"})).unwrap()["issue"].clone();
    let made = fixture
        .call(
            "create_issue",
            json!({
                "team": first["team"]["id"], "title": "Two", "state": first["state"]["id"],
                "assignee": "00000002-0000-4000-8000-000000000003", "labels": ["00000004-0000-4000-8000-000000000001"],
                "parent": first["id"],
            }),
        )
        .unwrap();
    assert_contains(
        &made["issue"],
        &json!({"assignee": {"display_name": "alan2"}, "labels": [{"name": "Bug"}], "parent": {"identifier": "ENG-1"}}),
    );
    let comment = fixture.call("create_comment", json!({"issue": first["id"], "body": "Seen."})).unwrap();
    assert_contains(
        &comment,
        &json!({"created": true, "comment": {"body": "Seen.", "user": {"name": "Ada Lovelace"}, "issue": {"identifier": "ENG-1"}}}),
    );
    let answer = json!({"issue": "ENG-1", "body": "Done.", "reply_to": comment["comment"]["id"]});
    fixture.call("create_comment", answer).unwrap();
    assert_eq!(fixture.server.comments()[1]["parentId"], comment["comment"]["id"]);
}

#[test]
fn a_list_is_filtered_and_comes_in_pages() {
    let fixture = Fixture::new();
    for title in ["One slow page", "Two", "Three", "Four", "Five"] {
        fixture.server.with_issue(title);
    }
    let change = |issue: &str, mut params: Value| {
        params["issue"] = json!(issue);
        fixture.call("update_issue", params).unwrap();
    };
    change("ENG-1", json!({"assignee": "me", "labels": ["Bug", "Speed"], "priority": 1}));
    change("ENG-2", json!({"assignee": "grace@example.com".replace("grace", "alan"), "labels": ["Bug"]}));
    change("ENG-3", json!({"state": "Done", "description": "It was SLOW."}));
    fixture.call("create_issue", json!({"team": "OPS", "title": "Elsewhere"})).unwrap();
    let titles = |params: Value| -> Vec<String> {
        let answer = fixture.call("list_issues", params).unwrap();
        let issues = answer["issues"].as_array().unwrap().iter();
        issues.map(|issue| issue["title"].as_str().unwrap().to_owned()).collect()
    };
    for (params, expected) in [
        (json!({"team": "ops"}), vec!["Elsewhere"]),
        (json!({"assignee": "me"}), vec!["One slow page"]),
        (json!({"assignee": "alan"}), vec!["Two"]),
        (json!({"assignee": "none", "team": "ENG"}), vec!["Five", "Four", "Three"]),
        (json!({"labels": ["bug"]}), vec!["Two", "One slow page"]),
        (json!({"labels": ["bug", "speed"]}), vec!["One slow page"]),
        (json!({"state": "done"}), vec!["Three"]),
        (json!({"state": "completed"}), vec!["Three"]),
        (json!({"priority": 1}), vec!["One slow page"]),
        (json!({"query": "slow"}), vec!["Three", "One slow page"]),
        (json!({"query": "slow", "priority": 0}), vec!["Three"]),
        (json!({"updated_after": "2026-03-02"}), vec![]),
        (
            json!({"updated_after": "2026-03-01T00:00:08Z", "team": "ENG", "order_by": "updated"}),
            vec!["Three"],
        ),
        (json!({"labels": ["no such label"]}), vec![]),
    ] {
        assert_eq!(titles(params.clone()), expected, "{params}");
    }
    let mut seen = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let mut params = json!({"limit": 4});
        if cursor.is_string() {
            params["cursor"] = cursor;
        }
        let page = fixture.call("list_issues", params).unwrap();
        seen.push(page["issues"].as_array().unwrap().len());
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, [4, 2]);
}

#[test]
fn a_dry_run_looks_names_up_and_sends_no_mutation() {
    let fixture = Fixture::new();
    fixture.server.with_issue("There");
    for (action, params, part) in [
        (
            "create_issue",
            json!({"team": "ENG", "title": "T", "assignee": "me", "state": "Todo"}),
            json!({"input": {
                "title": "T", "teamId": "00000001-0000-4000-8000-000000000001",
                "assigneeId": "00000002-0000-4000-8000-000000000001", "stateId": "00000003-0000-4000-8000-000000000002",
            }}),
        ),
        ("update_issue", json!({"issue": "ENG-1", "priority": 1}), json!({"input": {"priority": 1}})),
        ("create_comment", json!({"issue": "ENG-1", "body": "b"}), json!({"input": {"body": "b"}})),
    ] {
        let arguments = json!({"action": action, "params": params, "dry_run": true});
        let tried = fixture.call_in(&fixture.context(), arguments).unwrap();
        assert_contains(&tried["would_send"]["variables"], &part);
        assert!(tried["would_send"]["query"].is_string() && tried.get("issue").is_none(), "{tried:#}");
    }
    assert_eq!((fixture.server.mutations(), fixture.server.issues().len()), (0, 1));
    let arguments = json!({"action": "list_issues", "dry_run": true});
    let listed = fixture.call_in(&fixture.context(), arguments).unwrap();
    assert_eq!(listed["issues"].as_array().unwrap().len(), 1);
    // An unknown name is detected before any mutation.
    let arguments =
        json!({"action": "create_issue", "params": {"team": "NO", "title": "T"}, "dry_run": true});
    assert!(fixture.call_in(&fixture.context(), arguments).is_err());
}
