//! Requests that the gate judges by the beginning of their bodies, in HTTP/1.1.

use std::io::{Read, Write};
use std::sync::Arc;

use egress::{BegunRequest, RequestRefusal, RequestVerdict};
use parking_lot::Mutex;

use super::{PLACEHOLDER, SECRET, World, rest};

/// Bytes of a body that the judge always wants to see.
const SEEN: usize = 100_000;

/// Judges by words in the first bytes of a body, and keeps what it was shown last.
pub(crate) fn judging(world: &World) -> Arc<Mutex<Vec<BegunRequest>>> {
    let seen = Arc::<Mutex<Vec<BegunRequest>>>::default();
    let keeping = seen.clone();
    let judge = move |request: &BegunRequest| {
        keeping.lock().push(request.clone());
        if request.body.len() < SEEN && !request.is_whole {
            return RequestVerdict::NeedsMore(SEEN);
        }
        let has = |word: &str| String::from_utf8_lossy(&request.body).contains(word);
        let refused =
            |answer| RequestVerdict::Refused(RequestRefusal { reason: "that writes".to_owned(), answer });
        match request.head.target.as_str() {
            "/endless" => RequestVerdict::NeedsMore(request.body.len() + 1),
            "/greedy" => RequestVerdict::NeedsMore(usize::MAX),
            _ if has("own answer") => refused(Some(("application/x-own", b"0000".to_vec()))),
            _ if has("writes") => refused(None),
            _ => RequestVerdict::Passed,
        }
    };
    *world.gate.judge.lock() = Some(Box::new(judge));
    seen
}

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_body_is_shown_with_its_placeholders_and_arrives_whole_with_the_secret() {
    let (world, received) = World::answering(ANSWER);
    let seen = judging(&world);
    // One placeholder is in the part that is judged, one across its end, and one after it.
    let body =
        format!("{PLACEHOLDER}{}{PLACEHOLDER}{}{PLACEHOLDER}", "a".repeat(SEEN - 60), "b".repeat(SEEN));
    let expected = body.replace(PLACEHOLDER, SECRET);
    let mut stream = world.tunnel();
    let headers = format!(
        "Authorization: Bearer {PLACEHOLDER}\r\nContent-Length: {}\r\nExpect: 100-continue\r\n",
        body.len()
    );
    stream.write_all(world.head("POST /a", &headers).as_bytes()).unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).unwrap();
    assert!(rest(&mut stream).contains("\r\nok\r\n"));
    let said = received.recv().unwrap();
    assert!(said.ends_with(&format!("\r\n\r\n{expected}")) && said.contains(&format!("Bearer {SECRET}")));
    let last = seen.lock().pop().unwrap();
    assert!(body.as_bytes().starts_with(&last.body) && last.body.len() >= SEEN && !last.is_whole);
    assert_eq!(last.head.length, Some(body.len() as u64));
    let authorization = last.head.headers.iter().find(|(name, _)| name == "authorization").unwrap();
    assert_eq!(authorization.1, format!("Bearer {PLACEHOLDER}").into_bytes());

    let (world, received) = World::answering(ANSWER);
    let seen = judging(&world);
    let chunked = format!("5\r\nhello\r\n30\r\n{PLACEHOLDER}\r\n0\r\n\r\n");
    assert!(
        world
            .ask(&(world.head("POST /a", "Transfer-Encoding: chunked\r\n") + &chunked))
            .contains("\r\nok\r\n")
    );
    let said = received.recv().unwrap();
    assert!(said.contains("hello") && said.contains(SECRET), "{said}");
    let last = seen.lock().pop().unwrap();
    assert_eq!(
        (last.body, last.is_whole, last.head.length),
        (format!("hello{PLACEHOLDER}").into(), true, None)
    );
}

#[test]
fn a_refused_request_reaches_no_server_and_its_client_gets_the_answer_while_it_still_sends() {
    let (world, received) = World::answering(ANSWER);
    judging(&world);
    let body = format!("this writes {}", "a".repeat(8 * 1024 * 1024));
    for (said, answer) in [
        (body.clone(), "HTTP/1.1 403 Forbidden"),
        (format!("{body} but with its own answer"), "HTTP/1.1 403 Forbidden"),
        (format!("own answer {body}"), "HTTP/1.1 200 OK"),
    ] {
        let length = format!("Content-Length: {}\r\n", said.len());
        let answered = world.ask(&(world.head("POST /a", &length) + &said));
        assert!(answered.starts_with(answer), "{answered}");
        if answer.contains("200") {
            assert!(
                answered.contains("Content-Type: application/x-own\r\n")
                    && answered.ends_with("\r\n\r\n0000"),
                "{answered}"
            );
        } else {
            assert!(answered.ends_with("handfast: that writes\n"), "{answered}");
        }
    }
    for target in ["/endless", "/greedy"] {
        let answered = world.ask(&world.head(&format!("GET {target}"), ""));
        assert!(answered.contains("403 Forbidden") && answered.contains("was not judged"), "{answered}");
    }
    assert!(received.try_recv().is_err());
    // The control: the same server answers a request that passes.
    assert!(world.ask(&world.head("GET /a", "")).contains("\r\nok\r\n"));
    assert!(received.recv().is_ok());
}

#[test]
fn headers_that_the_server_will_not_get_are_not_shown() {
    let (world, received) = World::answering(ANSWER);
    let seen = judging(&world);
    let head = format!(
        "GET /a HTTP/1.1\r\nHost: {}:{}\r\nConnection: close, x-kind\r\nX-Kind: a\r\nX-Other: b\r\n\r\n",
        super::HOST,
        world.port
    );
    assert!(world.ask(&head).contains("\r\nok\r\n"));
    let said = received.recv().unwrap().to_lowercase();
    let last = seen.lock().pop().unwrap();
    let shown = |name: &str| last.head.headers.iter().any(|(key, _)| key == name);
    assert!(said.contains("x-other") && !said.contains("x-kind"), "{said}");
    assert!(shown("x-other") && !shown("x-kind"));
    assert!(last.is_whole && last.head.length == Some(0));
}
