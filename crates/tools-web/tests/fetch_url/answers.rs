//! Responses: bodies, failures, pages.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::web::{Reply, Server};
use tool::{Code, EffectState, StopReason};

use crate::Fixture;

#[test]
fn bodies_are_decoded_and_bounded_however_they_come() {
    let gzip = |content: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    };
    let (small, bomb) = (gzip("gr\u{fc}n".as_bytes()), gzip(&vec![0; 16 * 1024 * 1024]));
    let server = Server::http(move |request| match request.path.as_str() {
        "/small" => Reply::of(200, &[("content-encoding", "gzip"), ("content-type", "text/plain")], &small),
        "/bomb" => Reply::of(200, &[("content-encoding", "gzip")], &bomb),
        "/endless" => Reply::endless(""),
        "/chunks" => Reply::endless("transfer-encoding: chunked\r\n"),
        "/announced" => Reply::raw("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n"),
        "/binary" => Reply::of(200, &[], b"\x00\x01"),
        "/lies" => Reply::of(200, &[("content-encoding", "br")], "plain"),
        "/twice" => Reply::of(200, &[("content-encoding", "gzip"), ("content-encoding", "gzip")], "x"),
        _ => Reply::status(204),
    });
    let fixture = Fixture::new();
    let fetch =
        |path: &str| fixture.fetch(json!({"url": server.url(path), "max_bytes": 100_000, "timeout": 20}));
    assert_eq!(fetch("/small").unwrap()["data"], "gr\u{fc}n");
    assert!(server.seen()[0].header("accept-encoding").contains("zstd"));
    assert_eq!(fetch("/binary").unwrap()["data"], "AAE=");
    assert_eq!(fetch("/none").unwrap()["data"], "");
    for path in ["/bomb", "/endless", "/announced"] {
        let error = fetch(path).unwrap_err();
        assert_eq!(error.code, Code::Quota, "{path}: {error:?}");
    }
    for path in ["/lies", "/twice", "/chunks"] {
        let error = fetch(path).unwrap_err();
        assert_eq!(error.code, Code::Runtime, "{path}: {error:?}");
    }
    // A response to HEAD has no body, so the length that it announces cannot exceed a limit.
    let head = fixture.fetch(json!({"url": server.url("/announced"), "method": "HEAD"})).unwrap();
    assert_eq!((&head["data"], &head["headers"]["content-length"]), (&json!(""), &json!("99999999999")));
}

#[test]
fn a_server_that_says_nothing_ends_with_the_deadline_and_a_cancelled_call_at_once() {
    let server = Server::http(|request| match request.path.as_str() {
        "/head" => Reply::hanging("HTTP/1.1 200 OK\r\nx: "),
        _ => Reply::hanging("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"),
    });
    let fixture = Fixture::new();
    for (path, method, effect) in [
        ("/head", "GET", EffectState::None),
        ("/body", "GET", EffectState::None),
        ("/head", "POST", EffectState::Maybe),
    ] {
        let error =
            fixture.fetch(json!({"url": server.url(path), "method": method, "timeout": 0.2})).unwrap_err();
        assert_eq!((error.code, error.effect), (Code::Timeout, effect), "{path} {method}");
    }
    let context = fixture.workspace.context();
    let stop = context.stop.clone();
    let asked = server.seen().len();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while server.seen().len() == asked {
                std::thread::yield_now();
            }
            stop.request(StopReason::Cancelled);
        });
        let began = Instant::now();
        let error = fixture.fetch_in(&context, json!({"url": server.url("/body")})).unwrap_err();
        assert_eq!((error.code, began.elapsed() < Duration::from_secs(20)), (Code::Cancelled, true));
    });
}

#[test]
fn only_what_reads_is_tried_again() {
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    let server =
        Server::http(move |request| match (request.path.as_str(), counted.fetch_add(1, Ordering::SeqCst)) {
            ("/broken", 0) => Reply::raw(""),
            ("/busy", 0) => Reply::of(503, &[("retry-after", "0")], ""),
            ("/never", _) => Reply::of(503, &[("retry-after", "3600")], ""),
            _ => Reply::json("1"),
        });
    let fixture = Fixture::new();
    let fetch = |path: &str, method: &str| {
        tries.store(0, Ordering::SeqCst);
        (fixture.fetch(json!({"url": server.url(path), "method": method})), tries.load(Ordering::SeqCst))
    };
    for path in ["/broken", "/busy"] {
        let (answer, tries) = fetch(path, "GET");
        assert_eq!((answer.unwrap()["data"].clone(), tries), (json!(1), 2), "{path}");
    }
    let (answer, tries) = fetch("/never", "GET");
    assert_eq!((answer.unwrap()["status"].clone(), tries), (json!(503), 1));
    let (answer, tries) = fetch("/busy", "POST");
    assert_eq!((answer.unwrap()["status"].clone(), tries), (json!(503), 1));
    let (answer, tries) = fetch("/broken", "POST");
    let error = answer.unwrap_err();
    assert_eq!((error.code, error.effect, tries), (Code::Runtime, EffectState::Maybe, 1), "{error:?}");
}

#[test]
fn a_page_is_converted_where_it_is_one() {
    let server = Server::http(|request| match request.path.as_str() {
        "/page" => {
            Reply::of(200, &[("content-type", "text/html; charset=utf-8")], "<h1>T</h1><p>a <b>b</b></p>")
        }
        _ => Reply::of(200, &[("content-type", "text/plain")], "<b>as it is</b>"),
    });
    let fixture = Fixture::new();
    for (path, format, expected) in [
        ("/page", "raw", "<h1>T</h1><p>a <b>b</b></p>"),
        ("/page", "text", "T\na b\n"),
        ("/page", "markdown", "# T\n\na **b**"),
        ("/text", "markdown", "<b>as it is</b>"),
    ] {
        let answer = fixture.fetch(json!({"url": server.url(path), "format": format})).unwrap();
        assert_eq!(answer["data"], expected, "{path} {format}");
    }
}
