//! Tests of streams that a client resumes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::apart::{NONE, answers, endpoint, open, request, within};
use crate::endpoint::Sessions;
use crate::fake::{Fake, modern_meta, settle};
use crate::headers::SingleHeader;
use crate::resumable_stream::{Event, Follower};

/// Makes a call whose response is a stream.
async fn begin(endpoint: &Sessions, session: &str, tool: &str) -> Follower {
    let params = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": "p"}});
    let body = request(7, "tools/call", params);
    answers(endpoint, &within(session), &body).await.follow(None).unwrap_or_else(|_| panic!("no stream"))
}

fn said(event: &Event) -> Value {
    serde_json::from_slice(&event.text).unwrap()
}

fn stopped(fake: &Arc<Fake>) -> usize {
    fake.stopped.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn who_comes_back_hears_on_from_there_and_the_call_has_gone_on() {
    let fake = Fake::new();
    let endpoint = endpoint(&fake);
    let session = open(&endpoint, json!({})).await;
    let mut follower = begin(&endpoint, &session, "gate").await;
    // Progress is reported while the call runs.
    let first = follower.next().await.unwrap();
    assert_eq!(said(&first)["method"], "notifications/progress");
    let second = follower.next().await.unwrap();
    drop(follower);
    tokio::time::sleep(Duration::from_secs(50)).await;
    fake.gate.notify_one();
    settle().await;
    let mut again = endpoint.resume(SingleHeader::Is(&session), &first.id).unwrap();
    let next = again.next().await.unwrap();
    assert_eq!((&next.id, said(&next)), (&second.id, said(&second)), "what may have been lost comes again");
    let mut last = next;
    while !last.is_answer {
        last = again.next().await.unwrap();
    }
    assert_eq!(said(&last)["result"]["structuredContent"], json!({"passed": true}));
    assert!(again.next().await.is_none());
    drop(again);
    // The response may have been lost as well.
    let before: u64 = last.id.split_once('-').unwrap().1.parse().unwrap();
    let id = format!("{}-{}", last.id.split_once('-').unwrap().0, before - 1);
    let mut once_more = endpoint.resume(SingleHeader::Is(&session), &id).unwrap();
    assert_eq!(said(&once_more.next().await.unwrap()), said(&last));
    drop(once_more);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(endpoint.resume(SingleHeader::Is(&session), &id).is_err(), "nobody came back");
    assert_eq!(stopped(&fake), 0);
}

#[tokio::test(start_paused = true)]
async fn who_stays_away_for_a_minute_has_given_the_call_up() {
    let fake = Fake::new();
    let endpoint = endpoint(&fake);
    let session = open(&endpoint, json!({})).await;
    let follower = begin(&endpoint, &session, "wait").await;
    let id = follower.begin();
    settle().await;
    drop(follower);
    tokio::time::sleep(Duration::from_secs(59)).await;
    let follower = endpoint.resume(SingleHeader::Is(&session), &id).unwrap();
    // The call continues while a client follows it.
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(stopped(&fake), 0);
    drop(follower);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(stopped(&fake), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_that_of_its_session_and_of_who_came_last() {
    let fake = Fake::new();
    let endpoint = endpoint(&fake);
    let (session, other) = (open(&endpoint, json!({})).await, open(&endpoint, json!({})).await);
    let mut follower = begin(&endpoint, &session, "gate").await;
    let id = follower.begin();
    let refused = |session: SingleHeader<'_>, id: &str| {
        endpoint.resume(session, id).map(drop).map_err(|refused| refused.status)
    };
    assert_eq!(refused(SingleHeader::Is(&other), &id), Err(400));
    assert_eq!(refused(SingleHeader::Is("nobody"), &id), Err(404));
    assert_eq!(refused(SingleHeader::Absent, &id), Err(400));
    for bad in [
        "",
        "-",
        "1",
        "1-",
        "-0",
        "a-0",
        "1-99",
        "2-0",
        "1-0-0",
        "18446744073709551616-0",
        "1-18446744073709551615",
    ] {
        assert_eq!(refused(SingleHeader::Is(&session), bad), Err(400), "{bad:?}");
    }
    let mut later = endpoint.resume(SingleHeader::Is(&session), &id).unwrap();
    while follower.next().await.is_some() {}
    drop(follower);
    fake.gate.notify_one();
    loop {
        let event = later.next().await.unwrap();
        if event.is_answer {
            break;
        }
    }
    // A message of the revision without sessions cannot be resumed.
    let meta = modern_meta(&json!({}));
    let body = request(1, "server/discover", json!({"_meta": meta}));
    let headers = crate::Headers {
        version: SingleHeader::Is("2026-07-28"),
        method: SingleHeader::Is("server/discover"),
        ..NONE
    };
    assert!(answers(&endpoint, &headers, &body).await.follow(None).is_err());
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_of_a_stream_is_bounded() {
    let fake = Fake::new();
    let endpoint = endpoint(&fake);
    let session = open(&endpoint, json!({})).await;
    let mut follower = begin(&endpoint, &session, "wait").await;
    let id = follower.begin();
    let mut last = follower.next().await.unwrap().id;
    for _ in 0..300 {
        last = follower.next().await.unwrap().id;
    }
    drop(follower);
    assert!(endpoint.resume(SingleHeader::Is(&session), &id).is_err(), "the beginning is gone");
    assert!(endpoint.resume(SingleHeader::Is(&session), &last).is_ok());
    endpoint.end(&session).await;
    settle().await;
    assert_eq!((stopped(&fake), fake.outstanding()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn who_takes_messages_too_slowly_gets_those_that_are_there_under_their_own_ids() {
    let fake = Fake::new();
    let endpoint = endpoint(&fake);
    let session = open(&endpoint, json!({})).await;
    let mut follower = begin(&endpoint, &session, "gate").await;
    // Progress is reported every five seconds, and 240 messages are stored.
    tokio::time::sleep(Duration::from_mins(25)).await;
    let (first, second) = (follower.next().await.unwrap(), follower.next().await.unwrap());
    assert!(
        said(&first)["params"]["progress"].as_f64().unwrap() > 5.0,
        "nothing was dropped: {}",
        said(&first)
    );
    drop(follower);
    let mut again = endpoint.resume(SingleHeader::Is(&session), &first.id).unwrap();
    let next = again.next().await.unwrap();
    assert_eq!((&next.id, said(&next)), (&second.id, said(&second)), "the id of one message names another");
    fake.gate.notify_one();
    let (mut taken, mut last) = (2, next);
    while !last.is_answer {
        last = again.next().await.unwrap();
        taken += 1;
    }
    assert_eq!(taken, 240 + 1, "what was kept, each once, and the answer");
    assert!(again.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_no_request_is_kept_for_who_comes_back() {
    let fake = Fake::new();
    let endpoint = endpoint(&fake);
    let session = open(&endpoint, json!({})).await;
    let here = within(&session);
    let watch = request(2, "resources/subscribe", json!({"uri": "handfast://checkpoints"}));
    assert!(answers(&endpoint, &here, &watch).await.next().await.unwrap().is_answer);
    // Each change is reported under its own id.
    let change = async || {
        let body = request(3, "tools/call", json!({"name": "change", "arguments": {}}));
        assert!(answers(&endpoint, &here, &body).await.next().await.unwrap().is_answer);
        settle().await;
    };
    let mut heard = endpoint.hear(SingleHeader::Is(&session)).unwrap();
    assert!(heard.stands());
    let begin = heard.begin();
    change().await;
    let first = heard.next().await.unwrap();
    assert_eq!(said(&first)["method"], "notifications/resources/updated", "{}", said(&first));
    drop(heard);
    // Notices sent during an absence are available after it, however long it lasts.
    change().await;
    change().await;
    tokio::time::sleep(Duration::from_mins(90)).await;
    let mut again = endpoint.resume(SingleHeader::Is(&session), &first.id).unwrap();
    let (second, third) = (again.next().await.unwrap(), again.next().await.unwrap());
    let mut ids = vec![begin.clone(), first.id.clone(), second.id, third.id];
    ids.dedup();
    assert_eq!(ids.len(), 4, "{ids:?}");
    // A followed session stays open. Idle sessions are ended after a day, when another one is opened.
    tokio::time::sleep(Duration::from_hours(30)).await;
    open(&endpoint, json!({})).await;
    change().await;
    let fourth = again.next().await.unwrap();
    // Beyond the limit, the newest notices are available.
    drop(again);
    for _ in 0..300 {
        change().await;
    }
    let mut late = endpoint.resume(SingleHeader::Is(&session), &fourth.id).unwrap();
    let mut kept = 0;
    while tokio::time::timeout(Duration::from_secs(1), late.next()).await.is_ok_and(|event| event.is_some()) {
        kept += 1;
    }
    assert_eq!(kept, 240);
    // A new standing stream replaces the old one, which can no longer be resumed.
    let anew = endpoint.hear(SingleHeader::Is(&session)).unwrap();
    assert!(late.next().await.is_none());
    assert_eq!(endpoint.resume(SingleHeader::Is(&session), &fourth.id).map(drop).unwrap_err().status, 400);
    drop(anew);
    tokio::time::sleep(Duration::from_hours(30)).await;
    open(&endpoint, json!({})).await;
    assert_eq!(
        endpoint.hear(SingleHeader::Is(&session)).map(drop).unwrap_err().status,
        404,
        "nobody heard it"
    );
}
