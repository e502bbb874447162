//! Tests of approvals through the engine: races, drift, and the scope of one answer.

mod drift;
mod world;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::{Grant, Scope};
use jiff::SignedDuration;
use serde_json::json;
use store_api::Presence as _;
use store_sqlite::SqliteStore;
use tool::{CallResult, Code, SessionId};

use world::{Patient, World, arguments, asked, block, call, code, grant, nobody, request};

#[test]
fn the_environment_of_commands_is_a_part_of_the_plan() {
    let world = World::new();
    let engine = world.engine(&[("A", "1")]);
    let id = asked(&engine, arguments());
    block(engine.grant(&id, &grant(Scope::Once))).unwrap();
    let result = call(&world.engine(&[("A", "2")]), arguments(), nobody());
    assert_eq!(code(&result), Some(Code::Permission), "{:?}", result.error());
    assert!(result.error().unwrap().message.contains("environment"));
}

#[test]
fn every_argument_that_differs_is_another_question() {
    let world = World::new();
    let engine = world.engine(&[]);
    let id = asked(&engine, arguments());
    block(engine.grant(&id, &grant(Scope::Once))).unwrap();
    for (field, value) in
        [("command", "tool x && sh b.sh"), ("directory", "sub"), ("path", "other"), ("note", "m")]
    {
        let mut other = arguments();
        other[field] = json!(value);
        assert_ne!(asked(&engine, other), id, "{field}");
    }
    assert_eq!(world.runs(), 0);
    // The control: the same call passes once, in another process too.
    let restarted = world.engine(&[]);
    let result = call(&restarted, arguments(), nobody());
    assert!(result.ok(), "{:?}", result.error());
    assert_ne!(asked(&restarted, arguments()), id);
    assert_eq!(world.runs(), 1);
}

#[test]
fn of_two_calls_at_once_one_uses_the_approval() {
    let world = World::new();
    let (one, two) = (world.engine(&[]), world.engine(&[]));
    for round in 1..=5 {
        let id = asked(&one, arguments());
        block(one.grant(&id, &grant(Scope::Once))).unwrap();
        let results: Vec<CallResult> = std::thread::scope(|scope| {
            let calls =
                [&one, &two, &one, &two].map(|engine| scope.spawn(|| call(engine, arguments(), nobody())));
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        assert_eq!(results.iter().filter(|result| result.ok()).count(), 1);
        assert_eq!(world.runs(), round);
    }
}

#[test]
fn an_answer_from_elsewhere_takes_the_question_back_and_a_session_is_covered() {
    let world = World::new();
    let (serving, answering) = (world.engine(&[]), world.engine(&[]));
    let asker = Arc::new(Patient::default());
    let result = block(async {
        let call = tokio::spawn({
            let (serving, request) = (serving.clone(), request(arguments(), asker.clone()));
            async move { serving.call(request).await }
        });
        let approvals = answering.approvals();
        let waiting = loop {
            if let Some(asked) = approvals.list(true).unwrap().pop() {
                break asked;
            }
            tokio::task::yield_now().await;
        };
        while asker.asked.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        answering.grant(&waiting.question.id, &grant(Scope::Session)).await.unwrap();
        call.await.unwrap()
    });
    assert!(result.ok(), "{:?}", result.error());
    assert_eq!(result.meta.approved_by.as_deref(), Some("a test"));
    assert_eq!((asker.asked.load(Ordering::SeqCst), asker.taken_back.load(Ordering::SeqCst)), (1, 1));
    // Other arguments with the same effects: a session's approval covers effects.
    let mut again = arguments();
    again["note"] = json!("m");
    assert!(call(&serving, again.clone(), asker.clone()).ok());
    assert_eq!(asker.asked.load(Ordering::SeqCst), 1);
    let mut elsewhere = request(again, nobody());
    elsewhere.principal.session = SessionId("s2".to_owned());
    assert_eq!(code(&block(serving.call(elsewhere))), Some(Code::Approval), "another session is asked");
}

#[test]
fn what_was_allowed_for_a_time_ends_at_that_time() {
    let world = World::new();
    let engine = world.engine(&[]);
    let minutes = Duration::from_mins(10);
    let (before, instant) = (SignedDuration::from_secs(599), SignedDuration::from_secs(1));
    for scope in [Scope::Session, Scope::Project] {
        let id = asked(&engine, arguments());
        block(engine.grant(&id, &Grant { lasts: Some(minutes), ..grant(scope) })).unwrap();
        let mut again = arguments();
        again["note"] = json!("m");
        world.clock.advance(before);
        // The control: the approval is valid until its end, in this process and in another one.
        for engine in [&engine, &world.engine(&[])] {
            let result = call(engine, again.clone(), nobody());
            assert!(result.ok(), "{scope:?}: {:?}", result.error());
        }
        world.clock.advance(instant);
        asked(&engine, again.clone());
        asked(&world.engine(&[]), again);
        // The approval of the original call itself has expired as well.
        assert_ne!(asked(&engine, arguments()), id, "{scope:?}");
    }
    let runs = world.runs();
    let id = asked(&engine, arguments());
    block(engine.grant(&id, &Grant { lasts: Some(minutes), ..grant(Scope::Once) })).unwrap();
    world.clock.advance(before + instant);
    assert_ne!(asked(&engine, arguments()), id, "an answer that nobody used has ended too");
    assert_eq!(world.runs(), runs);
}

#[test]
fn a_call_waits_while_somebody_looks_at_the_questions_and_not_longer() {
    let world = World::new();
    let engine = world.engine(&[]);
    let store = SqliteStore::open(&world.folder.path().join("state")).unwrap();
    let attention = store.pay_attention(None).unwrap();
    let result = block(async {
        let call = tokio::spawn({
            let (engine, request) = (engine.clone(), request(arguments(), nobody()));
            async move { engine.call(request).await }
        });
        while engine.approvals().list(true).unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert!(!call.is_finished());
        drop(attention);
        call.await.unwrap()
    });
    assert_eq!(code(&result), Some(Code::Approval));
}
