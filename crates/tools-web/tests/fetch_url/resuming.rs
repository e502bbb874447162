//! Downloads that broke off and go on in a later call.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fetch::part::Parts;
use serde_json::{Value, json};
use testkit::web::{Reply, Request, Server};
use tool::{Code, Context, Progress, Stop, StopReason, ToolError};

use crate::{Fixture, SECRET};

/// Bytes that are no part of one another.
fn content(seed: u32) -> Vec<u8> {
    (0..786_432_u32).flat_map(|number| (number ^ seed << 24).to_le_bytes()).collect()
}

const CUT: usize = 2 * 1024 * 1024;

fn whole(tag: &str, body: &[u8]) -> Reply {
    Reply::of(200, &[("etag", tag)], body)
}

/// The beginning of it, and nothing more.
fn begun(tag: &str, body: &[u8]) -> Reply {
    let head = format!("HTTP/1.1 200 OK\r\netag: {tag}\r\ncontent-length: {}\r\n\r\n", body.len());
    Reply::hanging([head.as_bytes(), &body[..CUT]].concat())
}

/// What follows the bytes that the request says are there.
fn rest(request: &Request, tag: &str, body: &[u8]) -> Reply {
    let from = start(request);
    let range = format!("bytes {from}-{}/{}", body.len() - 1, body.len());
    Reply::of(206, &[("etag", tag), ("content-range", &range)], &body[from..])
}

fn start(request: &Request) -> usize {
    let range = request.header("range").strip_prefix("bytes=").unwrap_or_default();
    range.trim_end_matches('-').parse().unwrap_or_default()
}

/// A fixture whose parts are kept in a folder.
struct World {
    fixture: Fixture,
    state: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self { fixture: Fixture::new(), state: tempfile::tempdir().unwrap() }
    }

    fn context(&self) -> Context {
        let mut context = self.fixture.workspace.context();
        context.services.insert(Arc::new(Parts::in_folder(self.state.path().join("downloads"))));
        context
    }

    fn save(&self, url: &str) -> Result<Value, ToolError> {
        self.fixture.fetch_in(&self.context(), json!({"url": url, "save_to": "f"}))
    }

    /// A call that is cancelled when a megabyte has come.
    fn cut(&self, arguments: Value) -> ToolError {
        let mut context = self.context();
        context.progress = Arc::new(Cancelling(context.stop.clone()));
        self.fixture.fetch_in(&context, arguments).unwrap_err()
    }

    fn cut_off(&self, url: &str) {
        let error = self.cut(json!({"url": url, "save_to": "f"}));
        assert_eq!(error.code, Code::Cancelled, "{error:?}");
        assert!(error.hint.unwrap().contains("the same call goes on from there"));
        assert!(self.fixture.workspace.names("").is_empty(), "nothing of it is in the workspace");
        assert!(!self.kept().is_empty());
    }

    fn kept(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.state.path().join("downloads")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn saved(&self) -> Vec<u8> {
        std::fs::read(self.fixture.workspace.at("f")).unwrap()
    }
}

struct Cancelling(Stop);

impl Progress for Cancelling {
    fn report(&self, _done: u64, _total: Option<u64>, _message: &str) {
        self.0.request(StopReason::Cancelled);
    }
}

/// A server that breaks off the first time, and says this afterwards.
fn breaking(body: Vec<u8>, then: impl Fn(&Request, &[u8]) -> Reply + Send + Sync + 'static) -> Server {
    let asked = AtomicUsize::new(0);
    Server::http(move |request| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => begun("\"one\"", &body),
        _ => then(request, &body),
    })
}

#[test]
fn what_broke_off_goes_on_in_the_next_call_and_leaves_nothing() {
    let body = content(1);
    let server = breaking(body.clone(), |request, body| rest(request, "\"one\"", body));
    let world = World::new();
    world.cut_off(&server.url("/f"));
    let saved = world.save(&server.url("/f")).unwrap();
    assert!(world.saved() == body);
    let asked = server.seen().pop().unwrap();
    let from = start(&asked);
    assert!(from >= 1024 * 1024, "{asked:?}");
    assert_eq!((asked.header("if-range"), asked.header("accept-encoding")), ("\"one\"", "identity"));
    assert_eq!((&saved["resumed_from"], &saved["size_bytes"]), (&json!(from), &json!(body.len())));
    assert_eq!((&saved["status"], &saved["saved_to"]), (&json!(206), &json!("f")));
    assert!(world.kept().is_empty(), "{:?}", world.kept());
}

#[test]
fn what_a_timeout_cut_goes_on_too() {
    let body = content(1);
    let server = breaking(body.clone(), |request, body| rest(request, "\"one\"", body));
    let world = World::new();
    let mut context = world.context();
    context.timeout = std::time::Duration::from_secs(2);
    let arguments = json!({"url": server.url("/f"), "save_to": "f"});
    let error = world.fixture.fetch_in(&context, arguments).unwrap_err();
    assert_eq!(error.code, Code::Timeout);
    assert!(error.hint.unwrap().contains("are kept for a day"));
    assert!(world.save(&server.url("/f")).unwrap()["resumed_from"].as_u64() > Some(0));
    assert!(world.saved() == body);
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
        // To who asks for no part it gives the newest.
        let server = breaking(content(1), move |request, body| match request.header("range") {
            "" => whole("\"two\"", &content(2)),
            _ => then(request, body),
        });
        let world = World::new();
        world.cut_off(&server.url("/f"));
        let saved = world.save(&server.url("/f")).unwrap();
        assert!(world.saved() == content(2), "{what}");
        assert_eq!((&saved["status"], &saved["resumed_from"]), (&json!(200), &Value::Null), "{what}");
        assert!(world.kept().is_empty(), "{what}");
    }
}

#[test]
fn a_part_that_was_changed_meanwhile_is_not_used() {
    for extension in ["part", "note"] {
        let body = content(1);
        let server = breaking(body.clone(), |request, body| match request.header("range") {
            "" => whole("\"one\"", body),
            _ => rest(request, "\"one\"", body),
        });
        let world = World::new();
        world.cut_off(&server.url("/f"));
        let path = world.kept().into_iter().find(|path| path.extension().unwrap() == extension).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(world.save(&server.url("/f")).unwrap().get("resumed_from").is_none());
        assert!(world.saved() == body, "{extension}");
        if extension == "part" {
            assert_eq!(server.seen()[1].header("range"), "");
        }
    }
}

#[test]
fn what_is_all_there_is_asked_about_and_not_fetched_again() {
    let body = content(1);
    let served = body.clone();
    let server = Server::http(move |request| match request.header("if-none-match") {
        "\"one\"" => Reply::of(304, &[("etag", "\"one\"")], ""),
        _ => whole("\"one\"", &served),
    });
    let world = World::new();
    let in_the_way = world.fixture.workspace.at("f");
    let mut context = world.context();
    context.progress = Arc::new(Blocking(in_the_way.clone()));
    let arguments = json!({"url": server.url("/f"), "save_to": "f"});
    let error = world.fixture.fetch_in(&context, arguments).unwrap_err();
    assert_eq!(error.code, Code::Conflict);
    assert!(error.hint.unwrap().contains(&format!("{} bytes of it are kept", body.len())));
    std::fs::remove_dir(&in_the_way).unwrap();
    let saved = world.save(&server.url("/f")).unwrap();
    assert!(world.saved() == body);
    assert_eq!((&saved["status"], &saved["resumed_from"]), (&json!(304), &json!(body.len())));
    assert_eq!(server.seen().len(), 2);
}

/// Puts a folder where the file is to be, while it comes.
struct Blocking(PathBuf);

impl Progress for Blocking {
    fn report(&self, _done: u64, _total: Option<u64>, _message: &str) {
        let _there = std::fs::create_dir(&self.0);
    }
}

#[test]
fn a_part_that_the_caller_asks_for_is_one_of_nothing_else() {
    let server = Server::http(|request| {
        assert_eq!(request.header("range"), "bytes=1000-1999");
        Reply::raw(
            "HTTP/1.1 206 OK\r\netag: \"one\"\r\ncontent-range: bytes 1000-1999/9000\r\ncontent-length: 1000\r\n\r\nabc",
        )
    });
    let world = World::new();
    let arguments = json!({"url": server.url("/f"), "save_to": "f", "headers": {"Range": "bytes=1000-1999"}});
    let error = world.fixture.fetch_in(&world.context(), arguments).unwrap_err();
    assert_eq!(error.code, Code::Runtime);
    assert_eq!(server.seen().len(), 1);
    assert!(!world.fixture.workspace.exists("f") && world.kept().is_empty());
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
    let world = World::new();
    let saved = world.save(&server.url("/f")).unwrap();
    assert!(world.saved() == body, "{} bytes", world.saved().len());
    assert_eq!(saved["size_bytes"], body.len());
}

#[test]
fn a_part_belongs_to_the_place_where_it_came_from() {
    let asked = Arc::new(AtomicUsize::new(0));
    let far = Server::http(|request| match (request.path.split('?').next().unwrap(), start(request)) {
        ("/a", 0) if request.path.ends_with("first") => begun("\"same\"", &content(1)),
        ("/a", 0) => whole("\"same\"", &content(1)),
        ("/a", _) => rest(request, "\"same\"", &content(1)),
        (_, 0) => whole("\"same\"", &content(2)),
        (_, _) => rest(request, "\"same\"", &content(2)),
    });
    let signed = far.url("/");
    let counted = asked.clone();
    let near = Server::http(move |_| {
        let to = ["a?first", "a?second", "b?third"][counted.fetch_add(1, Ordering::SeqCst)];
        Reply::redirect(302, &format!("{signed}{to}"))
    });
    for (skipped, expected) in [(0, content(1)), (1, content(2))] {
        asked.store(0, Ordering::SeqCst);
        let world = World::new();
        let arguments =
            json!({"url": near.url("/f"), "save_to": "f", "headers": {"Authorization": "Bearer $API_KEY"}});
        assert_eq!(world.cut(arguments.clone()).code, Code::Cancelled);
        asked.fetch_add(skipped, Ordering::SeqCst);
        let saved = world.fixture.fetch_in(&world.context(), arguments).unwrap();
        assert!(world.saved() == expected, "{skipped}");
        assert_eq!(saved["resumed_from"].is_u64(), skipped == 0);
    }
    // The credential stays with the first origin, on the way on as on the first.
    assert!(near.seen().iter().all(|request| request.header("authorization").ends_with(SECRET)));
    assert!(far.seen().iter().all(|request| request.header("authorization").is_empty()));
    assert!(far.seen().iter().any(|request| !request.header("range").is_empty()));
}

#[test]
fn only_the_same_call_goes_on() {
    let server = breaking(content(1), |_, body| whole("\"one\"", body));
    let world = World::new();
    world.cut_off(&server.url("/f"));
    for arguments in [
        json!({"url": server.url("/f?x"), "save_to": "f"}),
        json!({"url": server.url("/f"), "save_to": "g"}),
        json!({"url": server.url("/f"), "save_to": "f", "headers": {"Accept-Language": "de"}}),
    ] {
        world.fixture.fetch_in(&world.context(), arguments.clone()).unwrap();
        assert_eq!(server.seen().pop().unwrap().header("range"), "", "{arguments}");
    }
    assert_eq!(world.kept().len(), 2, "what broke off is still there");
}

#[test]
fn what_tells_nothing_apart_or_is_small_or_too_large_is_not_kept() {
    let head = |headers: &str, length: usize| {
        format!("HTTP/1.1 200 OK\r\n{headers}content-length: {length}\r\n\r\n")
    };
    let changed = "last-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let later = format!("{changed}date: Sun, 06 Nov 1994 08:50:37 GMT\r\n");
    let at_once = format!("{changed}date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    for (headers, kept) in [
        ("etag: \"a\"\r\n", true),
        (later.as_str(), true),
        (at_once.as_str(), false),
        (changed, false),
        ("etag: W/\"a\"\r\n", false),
        ("etag: a\r\n", false),
        ("etag: \"a\"\r\netag: \"b\"\r\n", false),
        ("", false),
    ] {
        let bytes = [head(headers, CUT * 2).into_bytes(), vec![0; CUT]].concat();
        let server = Server::http(move |_| Reply::hanging(&bytes));
        let world = World::new();
        world.cut(json!({"url": server.url("/f"), "save_to": "f"}));
        assert_eq!(!world.kept().is_empty(), kept, "{headers}");
    }
    let server = Server::http(move |request| match request.path.as_str() {
        "/small" => Reply::raw([head("etag: \"a\"\r\n", 1000).as_bytes(), b"abc"].concat()),
        _ => Reply::endless("etag: \"a\"\r\n"),
    });
    let world = World::new();
    for (path, code) in [("/small", Code::Runtime), ("/endless", Code::Quota)] {
        let arguments = json!({"url": server.url(path), "save_to": "f", "max_bytes": 3_000_000});
        let error = world.fixture.fetch_in(&world.context(), arguments).unwrap_err();
        assert_eq!(error.code, code, "{path}: {error:?}");
        assert!(world.kept().is_empty(), "{path}");
    }
}
