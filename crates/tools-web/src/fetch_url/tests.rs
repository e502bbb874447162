use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use fetch::address::Host;
use fetch::web::Web;
use serde_json::json;
use testkit::web::{Authority, Reply, Request, Server};
use testkit::{DenyNames, Workspace, run_in};
use tool::{Code, EffectState, Erased, Hosts, StopReason};
use vault::{Change, HostRule, Keys, Locked, Places, Position, Vault};

use super::*;
use crate::EnvironmentSecrets;

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// What a policy would say: this machine may be dialled unless told otherwise, and these hosts may not be redirected to.
#[derive(Default)]
pub(crate) struct Rules {
    pub(crate) only_public: bool,
    pub(crate) denied: Vec<&'static str>,
}

impl Hosts for Rules {
    fn may_also(&self, _level: Level, effects: &[Effect]) -> Result<(), ToolError> {
        let denied = effects.iter().find_map(|effect| match effect {
            Effect::Connect { host, .. } => self.denied.iter().find(|denied| *denied == host),
            _ => None,
        });
        denied.map_or(Ok(()), |host| Err(ToolError::new(Code::Permission, format!("{host} is denied"))))
    }

    fn may_dial(&self, _host: &str, address: IpAddr, _port: u16) -> Option<bool> {
        (!self.only_public && address.is_loopback()).then_some(true)
    }
}

const SECRET: &str = "sk-live-0123456789";

/// A vault with one secret, for `localhost` alone and in headers alone.
fn vault(folder: &std::path::Path, places: Places) -> Arc<Vault> {
    let key_file = folder.join("key");
    vault::make_key_file(&key_file).unwrap();
    let vault = Vault::new(folder.join("vault"), Keys { key_file: Some(key_file), ..Keys::default() });
    let hosts = Some(HostRule::parse_all(["localhost", "a.example"]).unwrap());
    let change = Change { hosts, places: Some(places), ..Change::named("API_KEY").unwrap() };
    vault.set(&change, SECRET.as_bytes(), jiff::Timestamp::UNIX_EPOCH).unwrap();
    Arc::new(vault)
}

struct Fixture {
    runtime: tokio::runtime::Runtime,
    folder: tempfile::TempDir,
    workspace: Workspace,
}

impl Fixture {
    fn new() -> Self {
        Self::with(Rules::default(), Web::default())
    }

    fn with(rules: Rules, web: Web) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rules: Arc<dyn Hosts> = Arc::new(rules);
        let vault = vault(folder.path(), Places::default());
        let workspace =
            Workspace::new().with_service(Arc::new(rules)).with_service(Arc::new(web)).with_service(vault);
        Self { runtime: runtime(), folder, workspace }
    }

    fn fetch(&self, arguments: Value) -> Result<Value, ToolError> {
        let mut context = self.workspace.context();
        if let Some(seconds) = arguments["timeout"].as_f64() {
            context.timeout = Duration::from_secs_f64(seconds);
        }
        self.fetch_in(&context, arguments)
    }

    fn fetch_in(&self, context: &Context, arguments: Value) -> Result<Value, ToolError> {
        let _entered = self.runtime.enter();
        run_in(Erased::tool(FetchUrl).as_ref(), context, arguments)
    }
}

/// What the request was, as JSON.
fn echo(request: &Request) -> Reply {
    let headers: BTreeMap<_, _> = request.headers.iter().cloned().collect();
    let body = String::from_utf8_lossy(&request.body);
    let said = json!({"method": request.method, "path": request.path, "headers": headers, "body": body});
    Reply::json(&said.to_string())
}

#[test]
fn a_request_goes_out_as_it_was_given_and_its_answer_comes_back() {
    let server = Server::http(echo);
    let fixture = Fixture::new();
    let arguments = json!({"url": server.url("/a?b=c#d"), "method": "POST", "headers": {"X-One": "1"}, "body": {"k": [1]}});
    let answer = fixture.fetch(arguments).unwrap();
    assert_eq!(
        (&answer["status"], &answer["status_text"], &answer["data_kind"]),
        (&json!(200), &json!("OK"), &json!("json"))
    );
    assert_eq!(answer["headers"]["content-type"], "application/json");
    let data = &answer["data"];
    assert_eq!(
        (&data["method"], &data["path"], &data["body"]),
        (&json!("POST"), &json!("/a?b=c"), &json!("{\"k\":[1]}"))
    );
    assert_eq!(
        (&data["headers"]["x-one"], &data["headers"]["content-type"]),
        (&json!("1"), &json!("application/json"))
    );
    assert_eq!(data["headers"]["host"], format!("localhost:{}", server.address.port()));
    let text = fixture.fetch(json!({"url": server.url("/"), "method": "PUT", "body": "a b"})).unwrap();
    assert_eq!(
        (&text["data"]["body"], &text["data"]["headers"]["content-type"]),
        (&json!("a b"), &json!("text/plain; charset=utf-8"))
    );
    assert!(answer.get("redirected_from").is_none());
}

#[test]
fn the_plan_names_host_method_secrets_and_file_in_one_form() {
    let place = Workspace::new().place();
    let plan =
        |arguments: Value| Erased::tool(FetchUrl).prepare(arguments, &place).map(|prepared| prepared.plan);
    let connect = |host: &str, port, method: &str| Effect::Connect {
        host: host.to_owned(),
        port,
        method: Some(method.to_owned()),
    };
    let all = json!({
        "url": "https://API.Example.com./x", "headers": {"Authorization": "Bearer $b$a$a"}, "save_to": "d/f"
    });
    let secret = |name: &str| Effect::UseSecret { name: name.to_owned(), host: "api.example.com".to_owned() };
    let all = plan(all).unwrap();
    assert_eq!(
        all.effects,
        [
            connect("api.example.com", 443, "GET"),
            secret("a"),
            secret("b"),
            Effect::Write { path: place.workspace.join("d/f") }
        ]
    );
    for (method, level) in [
        ("GET", Level::Safe),
        ("HEAD", Level::Safe),
        ("POST", Level::Moderate),
        ("PUT", Level::Moderate),
        ("PATCH", Level::Moderate),
        ("DELETE", Level::Destructive),
    ] {
        let plan = plan(json!({"url": "http://[::FFFF:127.0.0.1]:81", "method": method})).unwrap();
        assert_eq!((plan.level, plan.effects), (Some(level), vec![connect("127.0.0.1", 81, method)]));
    }
}

#[test]
fn what_could_be_read_in_two_ways_is_refused_before_anything_is_looked_up() {
    let fixture = Fixture::new();
    for (arguments, field) in [
        (json!({"url": "https://user:passw0rd@localhost/"}), "url"),
        (json!({"url": "http://127.1/"}), "url"),
        (json!({"url": "http://2130706433/"}), "url"),
        (json!({"url": "http://0177.0.0.1/"}), "url"),
        (json!({"url": "http://0x7f000001/"}), "url"),
        (json!({"url": "http://local\u{0}host/"}), "url"),
        (json!({"url": "http://localhost/\r\nHost: b"}), "url"),
        (json!({"url": "http://localhost\\@evil.example/"}), "url"),
        (json!({"url": "file:///etc/passwd"}), "url"),
        (json!({"url": "http://localhost/", "headers": {"Host": "b"}}), "headers.Host"),
        (
            json!({"url": "http://localhost/", "headers": {"Transfer-Encoding": "chunked"}}),
            "headers.Transfer-Encoding",
        ),
        (json!({"url": "http://localhost/", "headers": {"X": "a\r\nB: c"}}), "headers.X"),
        (json!({"url": "http://localhost/", "body": "x"}), "body"),
    ] {
        let error = fixture.fetch(arguments.clone()).unwrap_err();
        assert_eq!(error.code, Code::Validation, "{arguments}");
        assert!(error.message.starts_with(&format!("`{field}`")), "{}", error.message);
        assert!(!error.message.contains("passw0rd"), "{}", error.message);
    }
}

#[test]
fn an_address_that_is_not_public_is_refused_in_every_spelling_and_nothing_is_sent() {
    let server = Server::http(echo);
    let fixture = Fixture::with(Rules { only_public: true, ..Rules::default() }, Web::default());
    let port = server.address.port();
    for host in [
        "localhost",
        "LOCALHOST.",
        "127.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "0.0.0.0",
        "[::]",
        "169.254.169.254",
        "10.0.0.1",
        "100.64.0.1",
        "[fe80::1]",
        "[fd00:ec2::254]",
    ] {
        let error = fixture.fetch(json!({"url": format!("http://{host}:{port}/")})).unwrap_err();
        assert_eq!(error.code, Code::Permission, "{host}: {error:?}");
        assert!(error.hint.unwrap().contains("allowed_hosts"), "{host}");
    }
    assert!(server.seen().is_empty());
    // The same server answers who may dial it.
    assert!(Fixture::new().fetch(json!({"url": server.url("/")})).is_ok());
}

#[test]
fn a_secret_goes_to_its_host_and_nowhere_else() {
    let server = Server::http(echo);
    let fixture = Fixture::new();
    let headers = json!({"Authorization": "Bearer $API_KEY", "X-Two": "${API_KEY}/$$5"});
    let sent = fixture.fetch(json!({"url": server.url("/"), "headers": headers})).unwrap();
    let got = &sent["data"]["headers"];
    assert_eq!(got["authorization"], format!("Bearer {SECRET}"));
    assert_eq!(got["x-two"], format!("{SECRET}/$5"));
    for (url, header, said) in [
        (format!("http://127.0.0.1:{}/", server.address.port()), "$API_KEY", "may not be sent to 127.0.0.1"),
        (server.url("/"), "$OTHER_KEY", "bound to nothing"),
    ] {
        let error = fixture.fetch(json!({"url": url, "headers": {"X": header}})).unwrap_err();
        assert_eq!(error.code, Code::Permission);
        assert!(error.message.contains(said), "{}", error.message);
        assert!(!format!("{error:?}").contains(SECRET));
    }
    let folder = tempfile::tempdir().unwrap();
    let only_body = vault(folder.path(), Places::of(&[Position::Body]));
    let mut context = fixture.workspace.context();
    context.services.insert(only_body);
    let error = fixture
        .fetch_in(&context, json!({"url": server.url("/"), "headers": {"X": "$API_KEY"}}))
        .unwrap_err();
    assert_eq!(error.code, Code::Permission);
    assert_eq!(server.seen().len(), 1, "what is refused sends nothing");
    assert!(fixture.folder.path().exists());
}

#[test]
fn a_variable_that_is_listed_goes_to_its_hosts_before_the_vault_is_asked() {
    let server = Server::http(echo);
    let fixture = Fixture::new();
    let entry = |hosts: &[&str]| {
        let hosts = HostRule::parse_all(hosts.iter().copied()).unwrap();
        ("API_KEY".to_owned(), Locked::copy_of(b"from-the-environment"), hosts)
    };
    let with = |hosts: &[&str]| {
        let mut context = fixture.workspace.context();
        context.services.insert(Arc::new(EnvironmentSecrets::new([entry(hosts)])));
        fixture.fetch_in(&context, json!({"url": server.url("/"), "headers": {"Authorization": "$API_KEY"}}))
    };
    assert_eq!(with(&["localhost"]).unwrap()["data"]["headers"]["authorization"], "from-the-environment");
    let error = with(&["api.linear.app"]).unwrap_err();
    assert_eq!(
        (error.code, error.message.contains("may not be sent to localhost")),
        (Code::Permission, true)
    );
}

#[test]
fn a_redirection_is_followed_and_credentials_stay_behind() {
    let far = Server::http(echo);
    let url = format!("http://127.0.0.1:{}/far", far.address.port());
    let near = Server::http(move |request| match request.path.as_str() {
        "/here" => Reply::redirect(302, "/there"),
        "/away" => Reply::redirect(307, &url),
        "/loop" => Reply::redirect(302, "/loop"),
        "/moved" => Reply::redirect(303, "/there"),
        _ => echo(request),
    });
    let fixture = Fixture::new();
    let headers = json!({
        "Authorization": "$API_KEY", "X-Key": "mine", "Cookie": "a=b", "Accept": "text/x", "Accept-Language": "$API_KEY"
    });
    let fetch = |path: &str, method: &str| {
        let mut arguments = json!({"url": near.url(path), "headers": headers, "method": method});
        if method == "POST" {
            arguments["body"] = json!("content");
        }
        fixture.fetch(arguments)
    };
    let here = fetch("/here", "GET").unwrap();
    assert_eq!(
        (&here["url"], &here["redirected_from"]),
        (&json!(near.url("/there")), &json!([near.url("/here")]))
    );
    assert_eq!(here["data"]["headers"]["authorization"], SECRET);
    let away = fetch("/away", "POST").unwrap();
    let got = &away["data"];
    assert_eq!((&got["method"], &got["body"]), (&json!("POST"), &json!("content")));
    assert_eq!(got["headers"]["accept"], "text/x");
    for header in ["authorization", "x-key", "cookie", "accept-language"] {
        assert!(got["headers"].get(header).is_none(), "{header}: {got}");
    }
    let moved = fetch("/moved", "POST").unwrap();
    assert_eq!((&moved["data"]["method"], &moved["data"]["body"]), (&json!("GET"), &json!("")));
    let error = fetch("/loop", "GET").unwrap_err();
    assert_eq!((error.code, error.message.contains("more than 10 times")), (Code::Runtime, true));
    let not = fixture.fetch(json!({"url": near.url("/here"), "follow_redirects": false})).unwrap();
    assert_eq!((&not["status"], &not["headers"]["location"]), (&json!(302), &json!("/there")));
}

#[test]
fn a_redirection_to_what_is_denied_private_or_no_url_is_refused() {
    let rules = Rules { denied: vec!["denied.example"], ..Rules::default() };
    let fixture = Fixture::with(rules, Web::default());
    for (to, said) in [
        ("http://denied.example/token=s3cr3t", "denied.example"),
        ("http://169.254.169.254/latest/meta-data/", "169.254.169.254"),
        ("http://10.0.0.1/", "10.0.0.1"),
        ("http://user@localhost/", "user information"),
        ("http://0x7f.1/", "spells"),
        ("file:///etc/passwd", "scheme"),
    ] {
        let server = Server::http(move |_| Reply::redirect(301, to));
        let error = fixture.fetch(json!({"url": server.url("/")})).unwrap_err();
        assert_eq!(error.code, Code::Permission, "{to}: {error:?}");
        assert!(error.message.contains(said), "{to}: {}", error.message);
        assert!(!error.message.contains("s3cr3t"), "{}", error.message);
    }
    let server = Server::http(|_| Reply::redirect(307, "http://denied.example/"));
    let error = fixture.fetch(json!({"url": server.url("/"), "method": "POST"})).unwrap_err();
    assert_eq!(error.effect, EffectState::Maybe, "the first server has had the request");
}

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
    // What HEAD announces is not there to be too much.
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
fn a_file_is_whole_or_not_there_and_goes_on_where_it_broke_off() {
    let content: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let served = content.clone();
    let server = Server::http(move |request| {
        let tagged = |head: &str| format!("HTTP/1.1 {head}\r\netag: \"one\"\r\ncontent-length: ");
        match (request.path.as_str(), request.header("range")) {
            ("/missing", _) => Reply::of(404, &[], "no such file"),
            ("/breaks", "") => {
                let mut bytes = format!("{}{}\r\n\r\n", tagged("200 OK"), served.len()).into_bytes();
                bytes.extend(&served[..300_000]);
                Reply::raw(bytes)
            }
            ("/breaks", range) => {
                assert_eq!(request.header("if-range"), "\"one\"");
                let from: usize = range.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap();
                let range = format!("bytes {from}-{}/{}", served.len() - 1, served.len());
                Reply::of(206, &[("content-range", range.as_str())], &served[from..])
            }
            ("/cut", _) => Reply::raw("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc"),
            _ => Reply::of(200, &[], &served),
        }
    });
    let fixture = Fixture::new();
    fixture.workspace.write("kept", "old");
    let save =
        |path: &str, to: &str| fixture.fetch(json!({"url": server.url(path), "save_to": to, "timeout": 20}));
    for (path, to) in [("/whole", "d/e/whole"), ("/breaks", "resumed")] {
        let saved = save(path, to).unwrap();
        assert_eq!((&saved["saved_to"], &saved["size_bytes"]), (&json!(to), &json!(content.len())));
        assert!(saved.get("data").is_none());
        assert_eq!(std::fs::File::open(fixture.workspace.at(to)).unwrap().metadata().unwrap().len(), 800_000);
    }
    assert!(server.seen().iter().all(|request| request.header("accept-encoding") == "identity"));
    let missing = save("/missing", "kept").unwrap();
    assert_eq!((&missing["status"], &missing["data"]), (&json!(404), &json!("no such file")));
    assert_eq!(save("/cut", "kept").unwrap_err().code, Code::Runtime);
    assert_eq!(save("/cut", "new/folder/f").unwrap_err().code, Code::Runtime);
    let small = json!({"url": server.url("/whole"), "save_to": "kept", "max_bytes": 1000});
    assert_eq!(fixture.fetch(small).unwrap_err().code, Code::Quota);
    assert_eq!((fixture.workspace.read("kept"), fixture.workspace.exists("new")), ("old".to_owned(), false));
}

#[test]
fn a_file_that_may_not_be_written_is_refused() {
    let server = Server::http(echo);
    let fixture = Fixture::new();
    let guarded = Workspace::new().guarded(DenyNames { write: &["locked"], read: &[] });
    let mut context = fixture.workspace.context();
    context.place = guarded.place();
    context.services.insert(Arc::new(guarded.roots()));
    for to in ["locked", "../outside/f"] {
        let arguments = json!({"url": server.url("/"), "save_to": to});
        assert_eq!(fixture.fetch_in(&context, arguments).unwrap_err().code, Code::Permission, "{to}");
    }
    assert!(!guarded.exists("locked"));
}

#[test]
fn a_certificate_has_to_be_of_the_host_and_of_a_trusted_authority() {
    let (trusted, other) = (Authority::new(), Authority::new());
    let good = Server::https(&trusted, "a.example", echo);
    let wrong_name = Server::https(&trusted, "b.example", echo);
    let unknown = Server::https(&other, "a.example", echo);
    let plain = Server::http(echo);
    let fetch = |server: &Server| {
        let host = Host::parse("a.example").unwrap();
        let web = Web::trusting(vec![trusted.certificate()]).connecting(host, 443, server.address);
        Fixture::with(Rules::default(), web)
            .fetch(json!({"url": "https://a.example/", "headers": {"Authorization": "$API_KEY"}}))
    };
    assert_eq!(fetch(&good).unwrap()["data"]["headers"]["authorization"], SECRET);
    for server in [&wrong_name, &unknown, &plain] {
        let error = fetch(server).unwrap_err();
        assert_eq!(error.code, Code::Unavailable, "{error:?}");
        assert!(server.seen().iter().all(|request| !format!("{request:?}").contains(SECRET)));
    }
}

#[test]
fn connections_are_used_again_and_a_smuggled_answer_is_not_the_next_one() {
    let server = Server::http(|request| match request.path.as_str() {
        // A second answer behind the first, for whoever asks next on this connection.
        "/smuggled" => {
            let mut reply = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec();
            reply.extend(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil");
            Reply::hanging(reply)
        }
        "/both" => Reply::raw(
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ),
        "/two-lengths" => Reply::raw("HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 4\r\n\r\nevil"),
        _ => Reply::json("\"good\""),
    });
    let fixture = Fixture::new();
    let fetch = |path: &str| fixture.fetch(json!({"url": server.url(path), "timeout": 20}));
    assert_eq!(fetch("/smuggled").unwrap()["data"], "ok");
    assert_eq!(fetch("/next").unwrap()["data"], "good");
    assert_eq!(fetch("/both").unwrap()["data"], "ok");
    assert_eq!(fetch("/two-lengths").unwrap_err().code, Code::Runtime);
    assert_eq!(fetch("/next").unwrap()["data"], "good");
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
