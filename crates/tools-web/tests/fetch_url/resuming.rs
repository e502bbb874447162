//! Downloads that are interrupted and resumed within their call.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use testkit::web::{Reply, Request, Server};
use tool::Code;

use crate::Fixture;

/// Returns bytes that differ at every position, for each seed.
fn content(seed: u32) -> Vec<u8> {
    (0..786_432_u32).flat_map(|number| (number ^ seed << 24).to_le_bytes()).collect()
}

const CUT: usize = 2 * 1024 * 1024;

fn whole(tag: &str, body: &[u8]) -> Reply {
    Reply::of(200, &[("etag", tag)], body)
}

/// Returns the beginning of the body, and closes the connection after it.
fn begun(tag: &str, body: &[u8]) -> Reply {
    let head = format!("HTTP/1.1 200 OK\r\netag: {tag}\r\ncontent-length: {}\r\n\r\n", body.len());
    Reply::raw([head.as_bytes(), &body[..CUT]].concat()).closing()
}

/// Returns the bytes after those that the request has.
fn rest(request: &Request, tag: &str, body: &[u8]) -> Reply {
    let from = start(request);
    let range = format!("bytes {from}-{}/{}", body.len() - 1, body.len());
    Reply::of(206, &[("etag", tag), ("content-range", &range)], &body[from..])
}

fn start(request: &Request) -> usize {
    let range = request.header("range").strip_prefix("bytes=").unwrap_or_default();
    range.trim_end_matches('-').parse().unwrap_or_default()
}

/// Starts a server that interrupts its first answer, and then answers with `then`.
fn breaking(body: Vec<u8>, then: impl Fn(&Request, &[u8]) -> Reply + Send + Sync + 'static) -> Server {
    let asked = AtomicUsize::new(0);
    Server::http(move |request| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => begun("\"one\"", &body),
        _ => then(request, &body),
    })
}

#[test]
fn nothing_is_mixed_whatever_a_server_answers() {
    type Then = fn(&Request, &[u8]) -> Reply;
    let answers: [(&str, Then); 10] = [
        ("another body", |_, _| whole("\"two\"", &content(2))),
        ("no word about which", |_, _| Reply::of(200, &[], content(2))),
        ("416", |_, body| Reply::of(416, &[("content-range", &format!("bytes */{}", body.len()))], "")),
        ("304", |_, _| Reply::status(304)),
        ("another tag", |request, _| rest(request, "\"two\"", &content(2))),
        ("a weak tag", |request, body| rest(request, "W/\"one\"", body)),
        ("another place in it", |request, body| {
            let range = format!("bytes {}-{}/{}", start(request) - 1, body.len() - 1, body.len());
            Reply::of(206, &[("content-range", &range)], &body[start(request) - 1..])
        }),
        ("another length", |request, body| {
            let range = format!("bytes {}-{}/{}", start(request), body.len(), body.len() + 1);
            Reply::of(206, &[("content-range", &range)], [&body[start(request)..], b"x"].concat())
        }),
        ("several parts", |_, _| {
            Reply::of(206, &[("content-type", "multipart/byteranges; boundary=b")], "--b\r\n\r\nx\r\n--b--")
        }),
        ("a compressed part", |request, body| {
            let range = format!("bytes {}-{}/{}", start(request), body.len() - 1, body.len());
            let bytes = &body[start(request)..];
            Reply::of(206, &[("content-range", &range), ("content-encoding", "gzip")], bytes)
        }),
    ];
    for (what, then) in answers {
        // A request without a range gets the newest body.
        let server = breaking(content(1), move |request, body| match request.header("range") {
            "" => whole("\"two\"", &content(2)),
            _ => then(request, body),
        });
        let fixture = Fixture::new();
        let saved = fixture.fetch(json!({"url": server.url("/f"), "save_to": "f"}));
        match saved {
            Ok(saved) => {
                assert!(std::fs::read(fixture.workspace.at("f")).unwrap() == content(2), "{what}");
                assert_eq!(saved["size_bytes"], content(2).len(), "{what}");
            }
            Err(_) => assert!(!fixture.workspace.exists("f"), "{what}"),
        }
    }
}

#[test]
fn what_broke_off_goes_on_where_it_was() {
    let body = content(1);
    let server = breaking(body.clone(), |request, body| rest(request, "\"one\"", body));
    let fixture = Fixture::new();
    let saved = fixture.fetch(json!({"url": server.url("/f"), "save_to": "f"})).unwrap();
    assert!(std::fs::read(fixture.workspace.at("f")).unwrap() == body);
    assert_eq!((&saved["status"], &saved["size_bytes"]), (&json!(200), &json!(body.len())));
    let asked = server.seen().pop().unwrap();
    assert_eq!(start(&asked), CUT);
    assert_eq!((asked.header("if-range"), asked.header("accept-encoding")), ("\"one\"", "identity"));
}

#[test]
fn a_part_that_the_caller_asks_for_is_one_of_nothing_else() {
    let server = Server::http(|request| {
        assert_eq!(request.header("range"), "bytes=1000-1999");
        Reply::raw(
            "HTTP/1.1 206 OK\r\netag: \"one\"\r\ncontent-range: bytes 1000-1999/9000\r\ncontent-length: 1000\r\n\r\nabc",
        )
    });
    let fixture = Fixture::new();
    let arguments = json!({"url": server.url("/f"), "save_to": "f", "headers": {"Range": "bytes=1000-1999"}});
    let error = fixture.fetch(arguments).unwrap_err();
    assert_eq!(error.code, Code::Runtime);
    assert_eq!(server.seen().len(), 1);
    assert!(!fixture.workspace.exists("f"));
}

#[test]
fn a_server_that_gives_a_little_at_a_time_is_asked_until_all_is_there() {
    let body = content(1);
    let served = body.clone();
    let server = Server::http(move |request| match request.header("range") {
        "" => {
            let head = format!("HTTP/1.1 200 OK\r\netag: \"a\"\r\ncontent-length: {}\r\n\r\n", served.len());
            Reply::raw([head.as_bytes(), &served[..1000]].concat())
        }
        _ => {
            let from = start(request);
            let to = (from + 1024 * 1024).min(served.len());
            let range = format!("bytes {from}-{}/{}", to - 1, served.len());
            Reply::of(206, &[("content-range", &range)], &served[from..to])
        }
    });
    let fixture = Fixture::new();
    let saved = fixture.fetch(json!({"url": server.url("/f"), "save_to": "f"})).unwrap();
    assert!(std::fs::read(fixture.workspace.at("f")).unwrap() == body);
    assert_eq!(saved["size_bytes"], body.len());
}
