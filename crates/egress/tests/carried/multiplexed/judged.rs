//! Requests that the gate judges by the beginning of their bodies, in HTTP/2.

use super::*;
use crate::opened::judged::judging;

#[test]
fn a_body_is_judged_by_its_beginning_and_arrives_whole_with_the_secret() {
    let (world, log) = echoing();
    let seen = judging(&world);
    let body = format!("{PLACEHOLDER}{}{PLACEHOLDER}", "a".repeat(300_000));
    let frames = body.as_bytes().chunks(5_000).map(|part| Frame::data(Bytes::copy_from_slice(part)));
    let request = Request::post(world.uri("/a")).header("x-key", PLACEHOLDER).body(Said::of(frames)).unwrap();
    let (status, headers, _, _) = world.one(request);
    assert_eq!((status, &headers["x-echo"]), (200, &HeaderValue::from_static(COVERED)));
    assert!(log.lock()[0].body == body.replace(PLACEHOLDER, SECRET));
    let last = seen.lock().pop().unwrap();
    assert!(body.as_bytes().starts_with(&last.body) && !last.is_whole);
    assert_eq!((last.head.method.as_str(), last.head.target.as_str()), ("POST", "/a"));
}

#[test]
fn a_refused_request_reaches_no_server_and_the_others_of_its_connection_go_on() {
    let (world, log) = echoing();
    judging(&world);
    runtime().block_on(async {
        let mut speaking = world.speak::<Said>().await;
        for (words, status, kind) in [
            ("writes ", 403, "text/plain; charset=utf-8"),
            ("own answer ", 200, "application/x-own"),
            ("reads ", 200, ""),
        ] {
            let parts = std::iter::once(words.to_owned()).chain((0..100).map(|_| "a".repeat(10_000)));
            let frames = parts.map(|part| Frame::data(part.into()));
            let request = Request::post(world.uri("/a")).body(Said::of(frames)).unwrap();
            let answer = speaking.send_request(request).await.unwrap();
            assert_eq!(answer.status(), status, "{words}");
            let said_kind = answer.headers().get("content-type").map_or("", |kind| kind.to_str().unwrap());
            assert_eq!(said_kind, kind, "{words}");
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let expected: &[u8] = match words {
                "writes " => b"handfast: that writes\n",
                "own answer " => b"0000",
                _ => &body,
            };
            assert_eq!(body, expected);
        }
    });
    assert_eq!(log.lock().len(), 1);
    assert!(log.lock()[0].body.starts_with("reads aaa"));
}

#[test]
fn a_refusal_ends_no_stream_whose_body_is_still_to_come() {
    let (world, _log) = echoing();
    judging(&world);
    runtime().block_on(async {
        let mut speaking = world.speak::<Said>().await;
        let (sender, body) = Said::by_hand();
        sender.try_send(Frame::data(format!("writes {}", "a".repeat(100_000)).into())).unwrap();
        let answer = speaking.send_request(Request::post(world.uri("/a")).body(body).unwrap()).await.unwrap();
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(text, "handfast: that writes\n");
        // A reset of the stream would arrive before the next answer. Some clients lose the refusal then.
        let next = speaking.send_request(Request::get(world.uri("/b")).body(empty()).unwrap()).await.unwrap();
        assert_eq!(next.status(), 200);
        assert!(!sender.is_closed(), "the stream was reset");
    });
}
