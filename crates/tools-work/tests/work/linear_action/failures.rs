//! Linear's errors, with the advice for callers.

use crate::fakes::linear::{KEY, Trouble};
use serde_json::{Value, json};
use tool::{Code, EffectState, Retry};

use crate::linear_action::{Fixture, Rules, within};

fn create() -> Value {
    json!({"team": "ENG", "title": "T"})
}

#[test]
fn a_key_that_is_not_taken_or_not_for_this_host_is_refused_with_what_to_do() {
    let wrong = Fixture::with("lin_api_wrong0123456789", "localhost", Rules { may_dial: true });
    let error = wrong.error("create_issue", create());
    assert_eq!((error.code, error.effect), (Code::Permission, EffectState::None));
    assert!(error.hint.unwrap().contains("handfast vault set linear_api_key"));
    assert!(!error.message.contains("lin_api"), "{}", error.message);
    let elsewhere = Fixture::with(KEY, "api.linear.app", Rules { may_dial: true });
    assert_eq!(elsewhere.error("list_issues", json!({})).code, Code::Permission);
    assert!(elsewhere.server.questions().is_empty(), "nothing leaves without its secret");
    let denied = Fixture::with(KEY, "localhost", Rules { may_dial: false });
    assert_eq!(denied.error("list_issues", json!({})).code, Code::Permission);
    assert!(denied.server.questions().is_empty());
    let oauth = Fixture::with(&KEY.replace("api", "oauth"), "localhost", Rules { may_dial: true });
    assert_eq!(oauth.call("list_issues", json!({})).unwrap()["issues"], json!([]));
    assert!(oauth.server.server.seen()[0].header("authorization").starts_with("Bearer lin_oauth_"));
}

#[test]
fn a_name_that_is_unknown_or_of_several_is_refused_with_the_candidates() {
    let fixture = Fixture::new();
    fixture.server.with_issue("There");
    let with = |name: &str, value: Value| {
        let mut params = create();
        params[name] = value;
        params
    };
    for (params, code, field, candidate) in [
        (with("team", json!("NO")), Code::NotFound, "params.team", "OPS"),
        (with("state", json!("Shipped")), Code::NotFound, "params.state", "In Progress"),
        (with("assignee", json!("nobody")), Code::NotFound, "params.assignee", "ada@example.com"),
        (with("assignee", json!("grace")), Code::NotFound, "params.assignee", "ada@example.com"),
        (
            with("assignee", json!("Alan Turing")),
            Code::Conflict,
            "params.assignee",
            "alan.turing@example.com",
        ),
        (with("labels", json!(["Pager"])), Code::NotFound, "params.labels", "Speed"),
        (with("labels", json!(["Area"])), Code::NotFound, "params.labels", "Bug"),
        (with("team", json!("00000009-0000-4000-8000-000000000001")), Code::NotFound, "params.team", "ENG"),
    ] {
        let error = fixture.error("create_issue", params.clone());
        assert_eq!((error.code, error.effect), (code, EffectState::None), "{params}: {}", error.message);
        assert!(error.message.contains(field), "{}", error.message);
        assert!(error.hint.unwrap().contains(candidate), "{params}");
        assert!(!error.data.unwrap()["candidates"].as_array().unwrap().is_empty());
    }
    for (action, params) in [
        ("update_issue", json!({"issue": "ENG-99", "priority": 1})),
        ("create_comment", json!({"issue": "ENG-99", "body": "b"})),
    ] {
        assert_eq!(fixture.error(action, params).code, Code::NotFound);
    }
    assert_eq!(fixture.server.mutations(), 0);
}

#[test]
fn a_limit_is_waited_for_where_there_is_time_and_else_says_when() {
    let fixture = Fixture::new();
    let now = fixture.context().clock.now().as_millisecond();
    fixture.server.trouble([Trouble::Limited(now + 50), Trouble::Limited(now + 50)]);
    assert_eq!(fixture.call("create_issue", create()).unwrap()["created"], true);
    for (trouble, retry) in [
        (Trouble::Limited(now + 3_600_000), Retry::AfterMs(3_600_000)),
        (Trouble::LimitedForUnknown, Retry::Never),
    ] {
        let limited = Fixture::new();
        limited.server.trouble([trouble.clone()]);
        let error = limited.error("create_issue", create());
        assert_eq!(
            (error.code, error.retry, error.effect),
            (Code::Quota, retry, EffectState::None),
            "{trouble:?}"
        );
        assert!(error.hint.unwrap().contains("try again"));
        assert_eq!(limited.server.questions().len(), 1);
    }
    // A delay that exceeds the call's time is not started.
    let short = Fixture::new();
    short.server.trouble([Trouble::Limited(now + 3_000)]);
    let arguments = json!({"action": "list_issues"});
    assert_eq!(short.call_in(&within(&short, 4.0), arguments).unwrap_err().code, Code::Quota);
}

#[test]
fn a_question_that_is_too_complex_says_which_parameter_makes_it_so() {
    let fixture = Fixture::new();
    // The largest page that a call can request is within Linear's limit.
    fixture.call("list_issues", json!({"limit": 100})).unwrap();
    fixture.server.bound_complexity(500.0);
    let error = fixture.error("list_issues", json!({"limit": 100}));
    assert_eq!(error.code, Code::Validation);
    assert!(error.message.starts_with("`params.limit`"), "{}", error.message);
    fixture.call("list_issues", json!({"limit": 10})).unwrap();
}

#[test]
fn what_linear_says_against_the_input_comes_back() {
    let fixture = Fixture::new();
    let error = fixture.error("list_issues", json!({"cursor": "no cursor"}));
    assert_eq!(error.code, Code::Validation);
    assert!(error.message.contains("the cursor is not valid"), "{}", error.message);
    fixture.server.trouble([Trouble::Refuses(403, "forbidden", "FORBIDDEN", "read-only key")]);
    let error = fixture.error("create_issue", create());
    assert_eq!(error.code, Code::Permission);
    assert!(error.message.contains("read-only key"), "{}", error.message);
}

#[test]
fn no_text_of_a_caller_becomes_a_part_of_a_document() {
    let fixture = Fixture::new();
    let text = "\"}) { issueDelete(id: \"x\") { success } } # \u{202e}\\u0022 $input";
    let made =
        fixture.call("create_issue", json!({"team": "ENG", "title": text, "description": text})).unwrap();
    assert_eq!((&made["issue"]["title"], &made["issue"]["description"]), (&json!(text), &json!(text)));
    assert_eq!(fixture.sent()["input"]["title"], text);
    let documents: Vec<String> =
        fixture.server.questions().into_iter().map(|(document, _)| document).collect();
    assert!(documents.iter().all(|document| tools_work::queries::ALL.contains(&document.as_str())));
    assert_eq!(fixture.error("list_issues", json!({"team": text})).code, Code::NotFound);
}
