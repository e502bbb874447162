//! Requests with a fault at a random place, over HTTP and over standard input. Each is answered in
//! time with a status or an error that belongs to it, and reveals nothing denied. The server
//! continues afterwards.
//!
//! The requests are the same in each run. `HANDFAST_FUZZ_REQUESTS=100000` tries more of them, by hand.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::http::{Response, Up, bearer};
use crate::server::Server;

/// Content of files that no response may contain.
const CANARY: &str = "canary-5f1c07";
/// Content of files that responses may contain.
const SEEN: &str = "seen-80d2b4";

/// Odd parts of a path or a query.
const ODD_PARTS: [&str; 10] = ["/", "..", "%2f", "%00", "?", "&limit=-1", "//", "%", "*", "é"];

struct Dice(TestRng);

impl Dice {
    fn new() -> Self {
        Self(TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]))
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.0.next_u64() % end.max(1) as u64).unwrap()
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// Returns the number of requests to try.
fn tries(unless_told: usize) -> usize {
    let told = std::env::var("HANDFAST_FUZZ_REQUESTS").ok();
    told.map_or(unless_told, |count| count.parse().unwrap())
}

/// Makes a workspace with readable content, and with the canary in files that no request may read.
fn prepared() -> Fixture {
    let fixture = Fixture::with_files(&[("a.txt", SEEN), ("src/b.rs", "fn b() {}\n"), (".env", CANARY)]);
    std::fs::write(fixture.outside().join("secret.txt"), CANARY).unwrap();
    fixture
}

/// Returns an odd value.
fn odd(dice: &mut Dice, fixture: &Fixture) -> Value {
    let outside = fixture.outside().join("secret.txt");
    match dice.below(24) {
        0 => Value::Null,
        1 => true.into(),
        2 => (-1).into(),
        3 => json!(1.5),
        4 => json!(1e308),
        5 => 9_007_199_254_740_993_u64.into(),
        6 => u64::MAX.into(),
        7 => i64::MIN.into(),
        8 => "".into(),
        9 => "\0".into(),
        10 => "../../../../../../etc/passwd".into(),
        11 => outside.to_str().unwrap().into(),
        12 => ".env".into(),
        13 => "./src/../.env".into(),
        14 => "x".repeat(70_000).into(),
        15 => "\u{202e}\u{feff}\u{1b}[2J".into(),
        16 => json!({}),
        17 => json!([]),
        18 => (0..200).fold(json!("deep"), |inner, _| json!([inner])),
        19 => json!({"": {"a": [null]}, "\n": 0}),
        20 => "file_read".into(),
        21 => "2026-07-28".into(),
        22 => "%2e%2e/%00".into(),
        _ => "\r\ncontent-length: 0\r\n\r\n".into(),
    }
}

/// Returns the number of values in the tree, itself included.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.values().map(size).sum::<usize>(),
        _ => 0,
    }
}

/// Returns the value at an index of the tree, counted depth first.
fn at<'a>(value: &'a mut Value, place: &mut usize) -> Option<&'a mut Value> {
    if *place == 0 {
        return Some(value);
    }
    *place -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| at(item, place)),
        Value::Object(fields) => fields.values_mut().find_map(|field| at(field, place)),
        _ => None,
    }
}

/// Returns the value with a fault at a random place.
fn mutated(dice: &mut Dice, fixture: &Fixture, value: &Value) -> Value {
    let mut value = value.clone();
    let mut place = dice.below(size(&value));
    let odd = odd(dice, fixture);
    let Some(chosen) = at(&mut value, &mut place) else { return odd };
    match (dice.below(4), chosen) {
        (0, Value::Object(fields)) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            if let Some(name) = names.get(dice.below(names.len())) {
                fields.remove(name);
            }
        }
        (1, Value::Object(fields)) => {
            fields.insert(dice.one_of(&["path", "dry_run", "colour", "", "_meta"]).to_string(), odd);
        }
        (2, Value::Array(items)) => items.push(odd),
        (_, chosen) => *chosen = odd,
    }
    value
}

/// Returns the bytes with a fault at a random place.
fn spoiled(dice: &mut Dice, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..=dice.below(3) {
        let place = dice.below(bytes.len());
        match dice.below(4) {
            0 => bytes.truncate(place),
            1 => bytes.insert(place, *dice.one_of(&[0, b'"', b'\n', b'\r', b'{', b'\\', 0xff, b':'])),
            2 if !bytes.is_empty() => drop(bytes.remove(place)),
            _ => bytes.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 1 << dice.below(8)),
        }
    }
    bytes
}

struct Seed {
    method: &'static str,
    path: &'static str,
    headers: Vec<String>,
    body: Value,
}

fn post(path: &'static str, body: Value) -> Seed {
    Seed { method: "POST", path, headers: vec!["content-type: application/json".to_owned()], body }
}

fn get(path: &'static str) -> Seed {
    Seed { method: "GET", path, headers: Vec::new(), body: Value::Null }
}

/// Returns valid MCP messages.
fn messages() -> Vec<Value> {
    let of =
        |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let client = json!({"name": "t", "version": "1"});
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": client,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    vec![
        of("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})),
        of("tools/list", json!({})),
        of("tools/list", json!({"_meta": meta})),
        of("tools/call", json!({"name": "file_read", "arguments": {"path": "a.txt"}})),
        of("tools/call", json!({"_meta": meta, "name": "file_read", "arguments": {"path": "a.txt"}})),
        of(
            "tools/call",
            json!({"_meta": meta, "name": "file_list", "arguments": {"path": "src", "depth": 2}}),
        ),
        of("resources/list", json!({"cursor": "x"})),
        of("resources/read", json!({"uri": "file:///a.txt"})),
        of("prompts/get", json!({"name": "review", "arguments": {"checkpoint": "0"}})),
        of(
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "checkpoint", "value": "0"}}),
        ),
        of("logging/setLevel", json!({"level": "warning"})),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "x"}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"action": "accept", "content": {"decision": "once"}}}),
    ]
}

fn seeds() -> Vec<Seed> {
    let read = json!({"path": "a.txt", "max_bytes": 100});
    let mut seeds = vec![
        post("/v1/call", json!({"tool": "file_read", "arguments": read})),
        post("/v1/call", json!({"tool": "file_search", "arguments": {"path": ".", "pattern": "b"}})),
        post("/v1/call", json!({"tool": "file_write", "arguments": {"path": "new.txt", "content": "x"}})),
        post(
            "/v1/call",
            json!({"tool": "file_edit", "arguments": {"path": "src/b.rs", "edits": [{"old_text": "b", "new_text": "b"}], "dry_run": true}}),
        ),
        post(
            "/v1/check",
            json!({"tool": "shell_execute", "arguments": {"command": "cat .env | head -n 1", "timeout": 5}}),
        ),
        post("/v1/approvals/0/approve", json!({"scope": "once"})),
        get("/v1/tools?dialect=msc"),
        get("/v1/audit?limit=5&tool=file_read"),
        get("/v1/audit/0"),
        get("/metrics"),
        get("/healthz"),
    ];
    for message in messages() {
        let mut seed = post("/mcp", message);
        seed.headers.push("accept: application/json, text/event-stream".to_owned());
        if let Some(name) =
            seed.body["params"]["_meta"].is_object().then(|| seed.body["params"]["name"].clone())
        {
            let method = seed.body["method"].as_str().unwrap().to_owned();
            seed.headers
                .extend(["mcp-protocol-version: 2026-07-28".to_owned(), format!("mcp-method: {method}")]);
            seed.headers.extend(name.as_str().map(|name| format!("mcp-name: {name}")));
        }
        seeds.push(seed);
    }
    seeds
}

/// Builds a request with a fault in its values, its head, its path, or its bytes.
fn request(dice: &mut Dice, fixture: &Fixture, up: &Up, seed: &Seed) -> Vec<u8> {
    let mut headers = seed.headers.clone();
    headers.extend([format!("host: {}", up.address), bearer(&up.agent)]);
    let (mut method, mut path, mut body) = (seed.method, seed.path.to_owned(), seed.body.clone());
    let kind = dice.below(20);
    match kind {
        0..=12 if !body.is_null() => body = mutated(dice, fixture, &body),
        13 => drop(headers.remove(dice.below(headers.len()))),
        14 => headers.push(dice.one_of(&headers).clone()),
        15 => {
            let place = dice.below(headers.len());
            let name = headers[place].split(':').next().unwrap().to_owned();
            let value = dice.one_of(&[
                "",
                "x",
                "*/*",
                "2025-06-18",
                "Bearer",
                "chunked",
                "1, 2",
                "\u{7f}",
                "localhost:1",
            ]);
            headers[place] = format!("{name}: {value}");
        }
        16 => method = *dice.one_of(&["PUT", "DELETE", "OPTIONS", "HEAD", "get", "POST", "TRACE", "CONNECT"]),
        _ => {
            let place = dice.below(path.len());
            path.insert_str(place, ODD_PARTS[dice.below(ODD_PARTS.len())]);
        }
    }
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let length = if dice.below(200) == 0 { body.len() / 2 } else { body.len() };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nconnection: close\r\n{}\r\ncontent-length: {length}\r\n\r\n",
        headers.join("\r\n")
    );
    let whole = [head.into_bytes(), body].concat();
    if kind == 19 && dice.below(4) == 0 { spoiled(dice, whole) } else { whole }
}

/// Asserts the properties that every response must have.
fn hold(sent: &[u8], response: &Response, denied: &[&str]) {
    let sent = String::from_utf8_lossy(sent);
    let sent: String = sent.chars().take(1_000).collect();
    assert!((200..600).contains(&response.status), "{} to {sent}", response.status);
    assert_ne!(response.status, 500, "{sent}: {}", response.body);
    for word in denied.iter().chain(&["EINTERNAL", "panicked"]) {
        assert!(!response.body.contains(word), "{word} in the answer to {sent}: {}", response.body);
    }
    let kind = response.header("content-type").unwrap_or_default();
    if kind.starts_with("application/json") && !response.body.is_empty() {
        response.json();
    }
    // Invalid HTTP is answered by hyper, without a body, and not by Handfast.
    if response.status >= 400 && ![400, 414, 431].contains(&response.status) && !sent.starts_with("HEAD") {
        assert!(!response.body.is_empty(), "a bare {} to {sent}", response.status);
    }
}

#[test]
fn whatever_is_wrong_with_a_request_over_http_it_is_answered_and_nothing_leaks() {
    let fixture = prepared();
    let said = fixture.outside().join("stderr.txt");
    let mut command = fixture.command();
    command.args(["up", "--listen", "127.0.0.1:0", "--json", "--patience", "1s"]);
    command.stderr(File::create(&said).unwrap());
    let up = Up::of(command);
    let (seeds, mut dice) = (seeds(), Dice::new());
    // The control: each request is understood in its original form, or waits for something that
    // does not exist.
    for seed in &seeds {
        let kind = bearer(&up.agent);
        let headers: Vec<&str> = seed.headers.iter().map(String::as_str).chain([kind.as_str()]).collect();
        let body = if seed.body.is_null() { String::new() } else { seed.body.to_string() };
        let response = up.request(seed.method, seed.path, &headers, body.as_bytes());
        assert!(response.status < 500, "{} {}: {response:?}", seed.method, seed.path);
        hold(seed.path.as_bytes(), &response, &[CANARY, &up.user]);
        if seed.body["arguments"]["max_bytes"] == 100 {
            assert!(response.body.contains(SEEN), "an answer that has it is told: {response:?}");
        }
    }
    let before = std::fs::read_dir(fixture.outside()).unwrap().count();
    let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
    for _ in 0..tries(1_500) {
        let seed = dice.one_of(&seeds);
        let sent = request(&mut dice, &fixture, &up, seed);
        let mut stream = up.connect();
        // The server may refuse the request before it has read all of it.
        let _ = stream.write_all(&sent);
        let Some(response) = crate::http::read_if_any(stream) else { continue };
        hold(&sent, &response, &[CANARY, &up.user, &up.observer]);
        *statuses.entry(response.status).or_default() += 1;
    }
    // The requests reach the tools as well as the checks that refuse them.
    assert!(statuses.contains_key(&200) && statuses.contains_key(&400) && statuses.len() > 6, "{statuses:?}");
    assert_eq!(up.call("file_read", json!({"path": "a.txt"}))["data"]["content"], SEEN);
    assert_eq!(std::fs::read_dir(fixture.outside()).unwrap().count(), before);
    assert_eq!(std::fs::read_to_string(fixture.outside().join("secret.txt")).unwrap(), CANARY);
    let said = std::fs::read_to_string(said).unwrap();
    assert!(!said.contains("panicked"), "{said}");
    drop(up);
    assert_eq!(fixture.run(&["audit", "verify"]).code, 0);
    let listed = fixture.run(&["audit", "list", "--json"]).stdout;
    assert!(!listed.contains("\"unfinished\""), "a call whose end nobody knows: {listed}");
}

#[test]
fn whatever_is_wrong_with_a_line_of_mcp_the_next_is_answered() {
    let fixture = prepared();
    let said = fixture.outside().join("stderr.txt");
    let mut command = fixture.command();
    command.stderr(File::create(&said).unwrap());
    let mut server = Server::of(command);
    let (messages, mut dice) = (messages(), Dice::new());
    for _ in 0..tries(1_000) {
        let message = dice.one_of(&messages).clone();
        let mut line = mutated(&mut dice, &fixture, &message).to_string().into_bytes();
        if dice.below(10) == 0 {
            line = spoiled(&mut dice, line);
        }
        line.push(b'\n');
        let answers = server.answers_to(&line);
        for word in [CANARY, "EINTERNAL", "panicked"] {
            assert!(!answers.contains(word), "{word} in {answers} to {}", String::from_utf8_lossy(&line));
        }
    }
    assert_eq!(server.data("file_read", json!({"path": "a.txt"}))["content"], SEEN);
    server.end();
    let said = std::fs::read_to_string(said).unwrap();
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!(fixture.run(&["audit", "verify"]).code, 0);
}
