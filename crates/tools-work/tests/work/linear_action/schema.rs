//! Validity of all documents by Linear's schema.
//!
//! Every document, with every kind of variables, is checked against the test server's part of the
//! schema. If `HANDFAST_LINEAR_SCHEMA` names a file with the published schema, they are checked
//! against that too.

use crate::fakes::linear::Schema;
use serde_json::{Value, json};
use tools_work::queries;

use crate::linear_action::Fixture;

fn published() -> Option<Schema> {
    let path = std::env::var_os("HANDFAST_LINEAR_SCHEMA")?;
    Some(Schema::parse(&std::fs::read_to_string(path).unwrap(), "the published schema"))
}

#[test]
fn every_question_is_good_by_the_schema() {
    let fixture = Fixture::new();
    let all = json!({
        "team": "ENG", "title": "T", "description": "d", "priority": 2, "state": "Todo", "assignee": "me", "labels": ["Bug"],
        "due_date": "2026-04-01", "estimate": 3, "idempotency_key": "k",
    });
    for (action, params) in [
        ("create_issue", all.clone()),
        ("create_issue", all),
        (
            "update_issue",
            json!({
                "issue": "ENG-1", "team": "Operations", "title": "T", "description": "d", "priority": 0, "state": "Todo",
                "assignee": "alan@example.com", "add_labels": ["Docs"], "remove_labels": ["Bug"], "due_date": "2026-04-01",
                "estimate": 1, "parent": "ENG-1",
            }),
        ),
        ("update_issue", json!({"issue": "OPS-1", "assignee": "none", "labels": []})),
        (
            "list_issues",
            json!({
                "team": "ENG", "state": "Todo", "assignee": "me", "labels": ["Bug"], "priority": 2, "query": "slow",
                "updated_after": "2026-02-28", "order_by": "updated", "include_archived": true,
            }),
        ),
        ("list_issues", json!({"assignee": "none"})),
        ("list_issues", json!({"assignee": "00000002-0000-4000-8000-000000000003"})),
        ("create_comment", json!({"issue": "ENG-1", "body": "b", "idempotency_key": "k"})),
        ("create_comment", json!({"issue": "ENG-1", "body": "b", "idempotency_key": "k"})),
        (
            "create_comment",
            json!({"issue": "ENG-1", "body": "b", "reply_to": "00000006-0000-4000-8000-000000000001"}),
        ),
    ] {
        // Some calls are refused because of the server's data. Only the documents that they send
        // matter here.
        let _ = fixture.call(action, params);
    }
    let questions = fixture.server.questions();
    for document in queries::ALL {
        assert!(questions.iter().any(|(sent, _)| sent == document), "nothing sends {document}");
    }
    let mut schemas = vec![Schema::own()];
    schemas.extend(published());
    for (document, variables) in &questions {
        for schema in &schemas {
            assert_eq!(schema.fault(document, variables), None, "{document} {variables:#}");
        }
    }
    for (document, variables) in [
        ("query { viewer { shoeSize } }", json!({})),
        (queries::TEAMS, json!({"filter": {"shoeSize": {"eq": 47}}, "first": 1})),
        (queries::TEAMS, json!({"filter": {}, "first": "many"})),
        (queries::CREATE_ISSUE, json!({"input": {"title": "without a team"}})),
        (queries::ISSUE, Value::Null),
    ] {
        for schema in &schemas {
            assert!(schema.fault(document, &variables).is_some(), "{document} {variables} passes");
        }
    }
}

#[test]
fn the_part_of_the_schema_is_a_part_of_the_published_one() {
    let own = Schema::own();
    let published = published().unwrap_or_else(Schema::own);
    assert_eq!(own.beyond(&published), Vec::<String>::new());
    let other = "type Query { viewer: String issues: Int } input IssueCreateInput { id: Int! new: Int! }";
    let found = own.beyond(&Schema::parse(other, "another schema"));
    for what in
        ["Query.viewer: User!", "IssueCreateInput.id: String", "IssueCreateInput.new is missing", "Mutation"]
    {
        assert!(found.iter().any(|found| found == what), "{what} in {found:?}");
    }
}
