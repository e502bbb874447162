//! Tests of questions to the client's user, in both forms of the protocol.

use serde_json::{Value, json};

use crate::Elicitation;
use crate::fake::{Client, Fake, modern_meta, settle};
use crate::question::READING_TIME;

/// Connects a client of a revision with a handshake that shows forms.
async fn with_forms(change: impl FnOnce(&mut crate::Options)) -> Client {
    let mut client = Client::with(&Fake::new(), change);
    client.shake_hands("2025-11-25", json!({"elicitation": {}})).await;
    client
}

fn error_code(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["handfast/error"]["code"]
}

async fn asked(client: &mut Client, arguments: Value) -> Value {
    client.start(json!(1), "ask", arguments).await;
    let question = client.next().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    question
}

#[tokio::test(start_paused = true)]
async fn a_form_is_shown_and_the_choice_counts() {
    for (content, expected) in [
        (json!({"decision": "allow once"}), json!({"allowed": "once", "by": "the user of tester 9"})),
        (
            json!({"decision": "allow for this session"}),
            json!({"allowed": "session", "by": "the user of tester 9"}),
        ),
    ] {
        let mut client = with_forms(|_| {}).await;
        let question = asked(&mut client, json!({"path": "a"})).await;
        let params = &question["params"];
        assert!(params["message"].as_str().unwrap().contains("write \"a\""), "{params}");
        assert_eq!(
            params["requestedSchema"]["properties"]["decision"]["enum"],
            json!(["allow once", "allow for this session", "deny"])
        );
        let result = json!({"action": "accept", "content": content});
        client.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": result})).await;
        assert_eq!(client.next().await["result"]["structuredContent"], expected);
    }
}

#[tokio::test(start_paused = true)]
async fn everything_but_a_choice_is_no_yes() {
    for (result, code) in [
        (json!({"action": "accept", "content": {"decision": "deny"}}), "EPERMISSION"),
        // The clock is paused, so no user can have read the form yet.
        (json!({"action": "decline"}), "EAPPROVAL"),
        (json!({"action": "cancel"}), "EAPPROVAL"),
        (json!({"action": "accept"}), "EAPPROVAL"),
        (json!({"action": "accept", "content": {"decision": "allow"}}), "EAPPROVAL"),
        (json!({"yes": true}), "EAPPROVAL"),
        (json!({}), "EAPPROVAL"),
    ] {
        let mut client = with_forms(|_| {}).await;
        let question = asked(&mut client, json!({})).await;
        client.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": result})).await;
        let answer = client.next().await;
        assert_eq!(error_code(&answer), code, "{result}: {answer}");
    }
    let mut client = with_forms(|_| {}).await;
    let question = asked(&mut client, json!({})).await;
    let error = json!({"code": -32601, "message": "no forms after all"});
    client.send(json!({"jsonrpc": "2.0", "id": question["id"], "error": error})).await;
    assert_eq!(error_code(&client.next().await), "EAPPROVAL");
}

#[tokio::test(start_paused = true)]
async fn a_decline_counts_once_a_person_can_have_read_the_form_and_before_leaves_the_question_open() {
    let a_moment = std::time::Duration::from_millis(12);
    for (after, code) in [(a_moment, "EAPPROVAL"), (READING_TIME, "EPERMISSION")] {
        let mut client = with_forms(|_| {}).await;
        let question = asked(&mut client, json!({})).await;
        tokio::time::advance(after).await;
        let declined = json!({"action": "decline"});
        client.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": declined})).await;
        let answer = client.next().await;
        assert_eq!(error_code(&answer), code, "{after:?}: {answer}");
        let open = &answer["result"]["_meta"]["handfast/error"]["approval_id"];
        assert_eq!(*open == "a1", code == "EAPPROVAL", "{after:?}: {answer}");

        // Repeat the call with the answer: the same rule applies.
        let mut client = Client::of(&Fake::new());
        let asked = modern(&mut client, json!({"path": "a"}), json!({})).await;
        tokio::time::advance(after).await;
        let repeated = json!({"requestState": asked["result"]["requestState"], "inputResponses": {"approval": declined}});
        let answer = modern(&mut client, json!({"path": "a"}), repeated).await;
        assert_eq!(error_code(&answer), code, "{after:?}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_shows_no_forms_gets_the_error_with_the_way_out() {
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}})] {
        let mut client = Client::of(&Fake::new());
        client.shake_hands("2025-11-25", capabilities).await;
        client.start(json!(1), "ask", json!({})).await;
        let answer = client.next().await;
        assert_eq!(error_code(&answer), "EAPPROVAL", "{answer}");
        assert_eq!(answer["result"]["_meta"]["handfast/error"]["approval_id"], "a1");
        assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("does not support forms"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_critical_call_is_asked_in_a_form_only_where_the_user_trusts_forms() {
    let critical = || json!({"critical": true});
    let mut client = with_forms(|_| {}).await;
    client.start(json!(1), "ask", critical()).await;
    assert_eq!(error_code(&client.next().await), "EAPPROVAL");
    let mut client = with_forms(|options| options.elicitation = Elicitation::Trusted).await;
    let question = asked(&mut client, critical()).await;
    let choices = &question["params"]["requestedSchema"]["properties"]["decision"]["enum"];
    assert_eq!(*choices, json!(["allow once", "deny"]));
}

#[tokio::test(start_paused = true)]
async fn a_question_nobody_answers_ends_and_is_taken_back() {
    let mut client = with_forms(|_| {}).await;
    let question = asked(&mut client, json!({})).await;
    let taken_back = client.next().await;
    assert_eq!(taken_back["method"], "notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], question["id"]);
    let answer = client.next().await;
    assert_eq!(error_code(&answer), "EAPPROVAL");
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("600 seconds"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_taken_back_when_its_call_is_cancelled() {
    let mut client = with_forms(|_| {}).await;
    let question = asked(&mut client, json!({})).await;
    let cancelled = json!({"requestId": 1});
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})).await;
    let taken_back = client.next().await;
    assert_eq!(taken_back["params"]["requestId"], question["id"]);
    let (rest, _) = client.close().await;
    assert_eq!(rest, Vec::<String>::new(), "a cancelled request gets no answer");
}

#[tokio::test(start_paused = true)]
async fn an_open_question_does_not_hold_up_the_end() {
    let mut client = with_forms(|_| {}).await;
    asked(&mut client, json!({})).await;
    settle().await;
    let before = tokio::time::Instant::now();
    client.close().await.1.unwrap();
    assert!(before.elapsed().as_secs() < 2, "of the test's own clock");
}

/// Makes a call of revision 2026-07-28, with further parameters.
async fn modern(client: &mut Client, arguments: Value, more: Value) -> Value {
    let mut params =
        json!({"name": "ask", "arguments": arguments, "_meta": modern_meta(&json!({"elicitation": {}}))});
    if let Value::Object(more) = more {
        params.as_object_mut().unwrap().extend(more);
    }
    client.ask(json!(1), "tools/call", params).await
}

fn allowed(state: &Value) -> Value {
    let response = json!({"action": "accept", "content": {"decision": "allow once"}});
    json!({"requestState": state, "inputResponses": {"approval": response}})
}

#[tokio::test(start_paused = true)]
async fn a_modern_call_ends_with_the_question_and_is_repeated_with_the_answer() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    let asked = modern(&mut client, json!({"path": "a"}), json!({})).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let question = &asked["result"]["inputRequests"]["approval"];
    assert_eq!(question["method"], "elicitation/create");
    assert!(question["params"]["message"].as_str().unwrap().contains("write \"a\""));
    assert_eq!(fake.outstanding(), 0);
    let state = asked["result"]["requestState"].clone();
    let answer = modern(&mut client, json!({"path": "a"}), allowed(&state)).await;
    assert_eq!(answer["result"]["structuredContent"]["allowed"], "once", "{answer}");
    assert_eq!(answer["result"]["resultType"], "complete");

    let replayed = modern(&mut client, json!({"path": "a"}), allowed(&state)).await;
    assert_eq!(replayed["error"]["code"], -32602, "a state is good for one use: {replayed}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_one_plan_is_no_answer_to_another() {
    let mut client = Client::of(&Fake::new());
    let asked = modern(&mut client, json!({"path": "a"}), json!({})).await;
    let state = &asked["result"]["requestState"];
    let other = modern(&mut client, json!({"path": "b"}), allowed(state)).await;
    assert_eq!(error_code(&other), "EPERMISSION", "{other}");
}

#[tokio::test(start_paused = true)]
async fn a_forged_or_foreign_state_is_an_error() {
    let mut client = Client::of(&Fake::new());
    let asked = modern(&mut client, json!({}), json!({})).await;
    let ours = asked["result"]["requestState"].as_str().unwrap().to_owned();
    let mut elsewhere = Client::of(&Fake::new());
    let asked = modern(&mut elsewhere, json!({}), json!({})).await;
    let foreign = asked["result"]["requestState"].clone();
    for state in [foreign, json!("x"), json!(""), json!(format!("{ours}x")), json!(7)] {
        let answer = modern(&mut client, json!({}), allowed(&state)).await;
        assert_eq!(answer["error"]["code"], -32602, "{state}: {answer}");
    }
    for more in [
        json!({"requestState": ours}),
        json!({"inputResponses": {"approval": {"action": "accept"}}}),
        json!({"requestState": ours, "inputResponses": {}}),
        json!({"requestState": ours, "inputResponses": {"approval": "yes"}}),
    ] {
        let answer = modern(&mut client, json!({}), more.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{more}: {answer}");
    }
    let answer = modern(&mut client, json!({}), allowed(&json!(ours))).await;
    assert_eq!(
        answer["result"]["structuredContent"]["allowed"], "once",
        "the true one still works: {answer}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_that_cannot_or_may_not_show_the_form_gets_the_error() {
    let mut client = Client::of(&Fake::new());
    let critical = modern(&mut client, json!({"critical": true}), json!({})).await;
    assert_eq!(error_code(&critical), "EAPPROVAL", "{critical}");
    let bare = json!({"_meta": modern_meta(&json!({}))});
    let answer = modern(&mut client, json!({}), bare).await;
    assert_eq!(error_code(&answer), "EAPPROVAL", "{answer}");
    assert_eq!(answer["result"]["resultType"], "complete");
}
