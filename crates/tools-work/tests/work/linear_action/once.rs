//! Objects are not created twice, whatever happens to the answers.

use crate::fakes::linear::Trouble;
use serde_json::json;
use tool::{Code, EffectState};

use crate::linear_action::{Fixture, within};

#[test]
fn an_answer_that_is_lost_makes_no_second_issue() {
    for (trouble, mutations) in [
        (vec![Trouble::LosesAnswer], 1),
        (vec![Trouble::Gateway(502)], 1),
        (vec![Trouble::LosesQuestion], 2),
        (vec![Trouble::LosesQuestion, Trouble::LosesAnswer], 2),
        (
            vec![
                Trouble::Refuses(500, "internal error", "INTERNAL_SERVER_ERROR", "oops"),
                Trouble::LosesQuestion,
            ],
            2,
        ),
    ] {
        for (action, params) in [
            ("create_issue", json!({"team": "ENG", "title": "Once"})),
            ("create_comment", json!({"issue": "ENG-1", "body": "Once."})),
        ] {
            let fixture = Fixture::new();
            fixture.server.with_issue("There");
            let is_question = matches!(trouble[0], Trouble::Refuses(..));
            fixture.server.trouble(trouble.clone());
            let made = fixture.call(action, params).unwrap_or_else(|error| panic!("{trouble:?}: {error}"));
            assert_eq!(made["created"], true, "{trouble:?}");
            let is_issue = action == "create_issue";
            let there = (fixture.server.issues().len(), fixture.server.comments().len());
            assert_eq!(there, if is_issue { (2, 0) } else { (1, 1) }, "{trouble:?}");
            assert!(is_question || fixture.server.mutations() == mutations, "{trouble:?}");
        }
    }
}

#[test]
fn the_same_idempotency_key_makes_one_issue_over_several_calls() {
    let fixture = Fixture::new();
    fixture.server.with_issue("There");
    let issue = json!({"team": "ENG", "title": "Once", "idempotency_key": "deploy-17"});
    let first = fixture.call("create_issue", issue.clone()).unwrap();
    let again = fixture.call("create_issue", issue.clone()).unwrap();
    assert_eq!((&first["created"], &again["created"]), (&json!(true), &json!(false)));
    assert_eq!(first["issue"], again["issue"]);
    let mut elsewhere = issue.clone();
    elsewhere["team"] = json!("OPS");
    assert_eq!(fixture.call("create_issue", elsewhere).unwrap()["created"], true);
    let mut other = issue;
    other["title"] = json!("Another");
    let error = fixture.error("create_issue", other);
    assert_eq!((error.code, error.effect), (Code::Conflict, EffectState::None));
    assert!(error.message.contains("ENG-2 \"Once\""), "{}", error.message);
    let comment = json!({"issue": "ENG-1", "body": "b", "idempotency_key": "deploy-17"});
    for created in [true, false] {
        assert_eq!(fixture.call("create_comment", comment.clone()).unwrap()["created"], created);
    }
    assert_eq!((fixture.server.issues().len(), fixture.server.comments().len()), (3, 1));
    // Without a key, two calls create two issues.
    for _ in 0..2 {
        fixture.call("create_issue", json!({"team": "ENG", "title": "Once"})).unwrap();
    }
    assert_eq!(fixture.server.issues().len(), 5);
}

#[test]
fn a_call_that_ends_without_an_answer_says_that_it_may_have_changed_something() {
    let fixture = Fixture::new();
    fixture.server.trouble([Trouble::Hangs]);
    let arguments =
        json!({"action": "create_issue", "params": {"team": "ENG", "title": "T", "idempotency_key": "k"}});
    let error = fixture.call_in(&within(&fixture, 1.0), arguments.clone()).unwrap_err();
    assert_eq!((error.code, error.effect), (Code::Timeout, EffectState::Maybe), "{error:?}");
    assert!(error.data.unwrap()["id"].is_string());
    assert!(error.hint.unwrap().contains("idempotency_key"));
    assert_eq!(fixture.call_in(&fixture.context(), arguments).unwrap()["created"], true);
    assert_eq!(fixture.server.issues().len(), 1);
    // A call that only reads changes nothing, even if it fails.
    let unread = Fixture::new();
    unread.server.trouble(vec![Trouble::Refuses(503, "internal error", "", "busy"); 3]);
    let error = unread.error("list_issues", json!({}));
    assert_eq!((error.code, error.effect), (Code::Runtime, EffectState::None));
    assert_eq!(unread.server.questions().len(), 3);
}

#[test]
fn a_call_that_is_stopped_ends_at_once() {
    let fixture = Fixture::new();
    fixture.server.trouble([Trouble::Hangs]);
    let context = within(&fixture, 60.0);
    let stop = context.stop.clone();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            while fixture.server.mutations() == 0 {
                std::thread::yield_now();
            }
            stop.request(tool::StopReason::Cancelled);
        });
        let arguments = json!({"action": "create_issue", "params": {"team": "ENG", "title": "T"}});
        fixture.call_in(&context, arguments).unwrap_err()
    });
    assert_eq!((error.code, error.effect), (Code::Cancelled, EffectState::Maybe));
}

#[test]
fn a_change_whose_answer_is_lost_is_made_again() {
    let fixture = Fixture::new();
    fixture.server.with_issue("There");
    fixture.server.trouble([Trouble::LosesAnswer]);
    let changed = fixture.call("update_issue", json!({"issue": "ENG-1", "add_labels": ["Bug"]})).unwrap();
    assert_eq!(changed["issue"]["labels"].as_array().unwrap().len(), 1, "{changed:#}");
    assert_eq!(fixture.server.mutations(), 2);
}
