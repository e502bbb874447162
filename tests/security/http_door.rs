//! Access to the HTTP door: permitted and refused requests, through the real program.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::http::{Response, Up, bearer, read};
use crate::shown::data_of;

fn write_call(path: &str) -> Vec<u8> {
    json!({"tool": "file_write", "arguments": {"path": path, "content": "x"}}).to_string().into_bytes()
}

fn codes(response: &Response) -> (u16, String) {
    (response.status, response.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
}

fn code(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[test]
fn a_web_page_reaches_nothing_even_with_the_token() {
    let fixture = Fixture::new();
    let up = Up::start(&fixture, &["--mode", "full_auto"]);
    let (own, token) = (format!("origin: http://{}", up.address), bearer(&up.agent));
    let evil_host = "host: evil.example".to_owned();
    let rebound = format!("host: evil.example:{}", up.address.port());
    let cases: [(&str, Vec<&str>); 6] = [
        ("foreign origin", vec!["origin: http://evil.example"]),
        ("another port's origin", vec!["origin: http://127.0.0.1:3000"]),
        ("no origin at all for a browser", vec!["sec-fetch-site: cross-site"]),
        ("opaque origin", vec!["origin: null"]),
        ("foreign host", vec![&evil_host]),
        ("rebound host", vec![&rebound, "origin: http://evil.example"]),
    ];
    for (number, (what, headers)) in cases.iter().enumerate() {
        let file = format!("{number}.txt");
        for path in ["/v1/call", "/mcp"] {
            let headers: Vec<&str> =
                headers.iter().copied().chain([token.as_str(), "content-type: application/json"]).collect();
            let response = up.request("POST", path, &headers, &write_call(&file));
            assert_eq!(codes(&response), code(403, "EPERMISSION"), "{what} {path}");
        }
        for path in ["/healthz", "/v1/tools", "/metrics"] {
            assert_eq!(up.request("GET", path, headers, b"").status, 403, "{what} {path}");
        }
        assert!(!fixture.workspace().join(file).exists(), "{what}");
    }
    // The control: the same call without an origin, and from the server's own page.
    for (file, headers) in [("own.txt", vec![token.as_str(), &own]), ("none.txt", vec![token.as_str()])] {
        assert_eq!(up.request("POST", "/v1/call", &headers, &write_call(file)).json()["ok"], true);
        assert_eq!(fixture.read(file), "x");
    }
}

#[test]
fn without_its_token_nobody_gets_anything_and_no_token_is_good_for_all() {
    let fixture = Fixture::new();
    let up = Up::start(&fixture, &["--mode", "full_auto"]);
    let agent = bearer(&up.agent);
    let forged = [
        String::new(),
        bearer("hf_agent_0000"),
        bearer(&up.agent[..up.agent.len() - 1]),
        bearer(&format!("{}0", up.agent)),
        bearer(&up.agent.to_uppercase()),
        agent.replace("Bearer", "Basic"),
        format!("{agent}\r\n{}", bearer("x")),
    ];
    let routes = [
        ("POST", "/v1/call"),
        ("POST", "/v1/check"),
        ("GET", "/v1/tools"),
        ("GET", "/v1/audit"),
        ("GET", "/v1/audit/x"),
        ("GET", "/v1/approvals"),
        ("POST", "/v1/approvals/x/approve"),
        ("POST", "/v1/approvals/x/deny"),
        ("GET", "/v1/leases"),
        ("DELETE", "/v1/leases/x"),
        ("GET", "/v1/events"),
        ("GET", "/v1/openapi.json"),
        ("GET", "/metrics"),
        ("POST", "/mcp"),
        ("DELETE", "/mcp"),
    ];
    for header in &forged {
        for (method, path) in routes {
            let headers: Vec<&str> =
                Some(header.as_str()).filter(|header| !header.is_empty()).into_iter().collect();
            let response = up.request(method, path, &headers, &write_call("a.txt"));
            assert_eq!(codes(&response), code(401, "EPERMISSION"), "{method} {path} {header}");
            assert!(response.header("www-authenticate").is_some());
        }
    }
    assert!(!fixture.workspace().join("a.txt").exists());
    for (method, path) in routes {
        let good = [&up.agent, &up.user, &up.observer].map(|token| {
            // An endless stream is not awaited.
            if path == "/v1/events" && *token == up.user {
                return true;
            }
            up.request(method, path, &[&bearer(token)], b"").status != 403
        });
        assert_ne!(good, [true; 3], "{method} {path}");
        assert_ne!(good, [false; 3], "{method} {path}");
    }
    // The control.
    assert_eq!(up.request("POST", "/v1/call", &[&agent], &write_call("a.txt")).json()["ok"], true);
}

#[test]
fn who_asks_cannot_answer_and_who_answers_cannot_ask() {
    let fixture = Fixture::new().asking();
    let up = Up::start(&fixture, &[]);
    let asked = up.call("file_write", json!({"path": "a.txt", "content": "x"}));
    assert_eq!(asked["error"]["code"], "EAPPROVAL", "{asked:#}");
    let id = asked["error"]["approval_id"].as_str().unwrap().to_owned();
    let yes = format!("/v1/approvals/{id}/approve");
    for token in [&up.agent, &up.observer] {
        assert_eq!(up.post(token, &yes, &json!({})).status, 403);
    }
    assert_eq!(up.post(&up.user, "/v1/call", &json!({"tool": "file_list"})).status, 403);
    assert_eq!(up.call("file_write", json!({"path": "a.txt", "content": "x"}))["ok"], false);
    // The control: the user's token approves, for this one call.
    let approved = up.post(&up.user, &yes, &json!({}));
    assert_eq!(approved.status, 200, "{approved:?}");
    assert_eq!(up.call("file_write", json!({"path": "a.txt", "content": "x"}))["ok"], true);
    assert_eq!(up.post(&up.user, &yes, &json!({})).status, 409);
    // No tool reaches the tokens either.
    for name in ["user", "agent"] {
        let file = fixture.state().join(format!("http/{name}.key"));
        let read = up.call("file_read", json!({"path": file}));
        assert_eq!(read["error"]["code"], "EPERMISSION", "{read:#}");
        let line = format!("cat {}", file.display());
        let token = std::fs::read_to_string(&file).unwrap();
        assert!(!up.call("shell_execute", json!({"command": line})).to_string().contains(token.trim()));
    }
}

#[test]
fn bodies_that_are_too_long_or_no_json_are_answered_and_nothing_is_done() {
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    let up = Up::start(&fixture, &["--mode", "full_auto"]);
    let token = bearer(&up.agent);
    let kind = "content-type: application/json";
    let huge = json!({"tool": "file_write", "arguments": {"path": "b.txt", "content": "x".repeat(40 << 20)}});
    let large = json!({"tool": "file_write", "arguments": {"path": "c.txt", "content": "x".repeat(5 << 20)}});
    for path in ["/v1/call", "/mcp"] {
        let response = up.request("POST", path, &[&token, kind], huge.to_string().as_bytes());
        assert_eq!(codes(&response), code(413, "EVALIDATION"), "{path}");
    }
    let endless = format!(
        "POST /v1/call HTTP/1.1\r\nhost: {}\r\n{token}\r\ncontent-length: 99999999999\r\n\r\n{{",
        up.address
    );
    assert_eq!(up.raw(endless.as_bytes()).status, 413);
    assert!(!fixture.workspace().join("b.txt").exists());
    let written = up.request("POST", "/v1/call", &[&token], large.to_string().as_bytes()).json();
    assert_eq!(written["data"]["size_bytes"], 5 << 20, "{}", written["error"]);
    for body in [&b"{"[..], b"", b"[]", b"\xff", b"{\"tool\": \"\\ud800\"}", b"{\"tool\": \"file_list\"} x"] {
        let response = up.request("POST", "/v1/call", &[&token], body);
        assert_eq!(codes(&response), code(400, "EVALIDATION"), "{body:?}");
    }
    assert_eq!(up.request("POST", "/mcp", &[&token, "content-type: text/plain"], b"{}").status, 415);
    assert_eq!(up.request("POST", "/mcp", &[&token, kind, "accept: text/html"], b"{}").status, 406);
    assert_eq!(up.request("POST", "/mcp", &[&token, kind], b"{").status, 400);
    assert_eq!(up.request("PUT", "/v1/call", &[&token], b"{}").status, 405);
    assert_eq!(up.request("GET", "/v1/nothing", &[&token], b"").status, 404);
    for raw in
        ["nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "POST /v1/call HTTP/1.1\r\ncontent-length: x\r\n\r\n"]
    {
        let status = up.raw(raw.as_bytes()).status;
        assert!((400..500).contains(&status), "{raw:?}: {status}");
    }
    let no_host = format!("GET /healthz HTTP/1.1\r\n{token}\r\nconnection: close\r\n\r\n");
    assert_eq!(up.raw(no_host.as_bytes()).status, 400);
    let long_head = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(1 << 20));
    assert_eq!(up.raw(long_head.as_bytes()).status, 431);
    assert_eq!(up.request("GET", "/healthz", &[], b"").status, 200, "and it goes on");
}

#[test]
fn a_client_that_goes_away_ends_its_command_and_the_audit_has_it() {
    let fixture = Fixture::new();
    let up = Up::start(&fixture, &["--mode", "full_auto"]);
    let call = json!({"tool": "shell_execute", "arguments": {"command": "exec sleep 4242"}}).to_string();
    let streams = ["", "accept: text/event-stream\r\n"].map(|accept| {
        let mut stream = up.connect();
        let head = format!(
            "POST /v1/call HTTP/1.1\r\nhost: {}\r\n{}\r\n{accept}content-length: {}\r\n\r\n",
            up.address,
            bearer(&up.agent),
            call.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(call.as_bytes()).unwrap();
        stream
    });
    let rows = || {
        let listed = fixture.run(&["audit", "list", "--json"]).stdout;
        let rows: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        rows.iter().map(|row| row["outcome"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // The control: both run.
    while rows() != ["unfinished", "unfinished"] {}
    drop(streams);
    while rows() != ["ECANCELLED", "ECANCELLED"] {}
}

#[test]
fn two_sessions_of_one_server_reach_each_others_commands_in_no_way() {
    let fixture = Fixture::new();
    let up = Up::start(&fixture, &["--mode", "full_auto"]);
    let post = |session: &str, message: Value| {
        let headers = [&bearer(&up.agent), "content-type: application/json", session];
        let response = up.request("POST", "/mcp", &headers, message.to_string().as_bytes());
        (response.header("mcp-session-id").map(str::to_owned), response.json())
    };
    let sessions = [(); 3].map(|()| {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        format!("mcp-session-id: {}", post("x: y", hello).0.unwrap())
    });
    let call = |session: &str, tool: &str, arguments: Value| {
        let params = json!({"name": tool, "arguments": arguments});
        post(session, json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})).1["result"].take()
    };
    let serve = "python3 -u -c 'import socket\ns = socket.create_server((\"127.0.0.1\", 18123))\nprint(\"ready\")\nwhile True: s.accept()[0].sendall(b\"SECRET\")'";
    let fetch = json!({"command": "python3 -c 'import socket\ntry:\n    print(socket.create_connection((\"127.0.0.1\", 18123), 5).recv(100))\nexcept OSError as e:\n    print(type(e).__name__)'"});
    let said =
        |session: &str| call(session, "shell_execute", fetch.clone())["content"][0]["text"].to_string();
    // The first session has the network of the prepared cells, and the second one its own. Both
    // serve on the same port.
    for (number, session) in sessions.iter().enumerate().take(2) {
        assert!(said(session).contains("ConnectionRefusedError"), "session {number}");
        let started = call(session, "shell_execute", json!({"command": serve, "background": true}));
        let id = data_of("shell_execute", &started)["session_id"].clone();
        let wait = json!({"action": "read", "session_id": id, "regex": "^ready$", "wait": 60});
        call(session, "shell_session", wait);
        // The control: the server is reached from its own session.
        assert!(said(session).contains("SECRET"), "session {number}: {started:#}");
        let call = started["_meta"]["handfast/meta"]["call_id"].as_str().unwrap();
        let recorded = fixture.run(&["audit", "show", call]).stdout;
        assert!(recorded.contains("network:allowed_hosts"), "{recorded}");
    }
    assert!(said(&sessions[2]).contains("ConnectionRefusedError"));
    // A session does not see the commands or the output of another.
    let list = |session: &str| {
        let listed = call(session, "shell_session", json!({"action": "list"}));
        listed["content"][0]["text"].as_str().unwrap().matches("\"running\"").count()
    };
    assert_eq!([0, 1, 2].map(|number| list(&sessions[number])), [1, 1, 0]);
}

/// Counts the mount namespaces of the machine in which this folder has an entry that satisfies
/// `has`. The function lists folders, because an overlay caches the absence of a name.
fn views_with(folder: &Path, has: impl Fn(&OsStr) -> bool) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let seeing = processes.filter(|process| {
        let listed = std::fs::read_dir(process.join("root").join(folder.strip_prefix("/").unwrap()));
        listed.into_iter().flatten().flatten().any(|entry| has(&entry.file_name()))
    });
    let namespaces: BTreeSet<_> =
        seeing.filter_map(|process| std::fs::read_link(process.join("ns/mnt")).ok()).collect();
    namespaces.len()
}

#[test]
fn what_a_command_of_one_session_changes_shows_in_no_cell_that_waits_for_another() {
    let fixture = Fixture::with_files(&[("before", "x")]);
    let up = Up::start(&fixture, &["--mode", "full_auto"]);
    let post = |session: &str, message: Value| {
        let headers = [&bearer(&up.agent), "content-type: application/json", session];
        let response = up.request("POST", "/mcp", &headers, message.to_string().as_bytes());
        (response.header("mcp-session-id").map(str::to_owned), response.json())
    };
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let session = format!("mcp-session-id: {}", post("x: y", hello).0.unwrap());
    for name in ["one", "two"] {
        // This call belongs to the first session, and the MCP calls to another one. After its
        // response, the server prepares a cell that shows the workspace.
        up.call("shell_execute", json!({"command": "true"}));
        while views_with(&fixture.workspace(), |name| name == "before") < 2 {}
        let file = fixture.workspace().join(name);
        let line = format!("echo x > {name}; sleep 3");
        let params = json!({"name": "shell_execute", "arguments": {"command": line}});
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        std::thread::scope(|scope| {
            let running = scope.spawn(|| post(&session, call));
            let seen = loop {
                match views_with(&fixture.workspace(), |found| found == name) {
                    0 => assert!(!running.is_finished()),
                    seen => break seen,
                }
            };
            assert_eq!(seen, 1, "{name}");
            assert!(!file.exists());
            running.join().unwrap();
        });
        assert!(file.exists());
    }
}

#[test]
fn slow_clients_are_given_up_and_a_thousand_idle_ones_keep_nobody_out() {
    let fixture = Fixture::new();
    let up = Up::with(&fixture, &[], &["--patience", "1s"]);
    let token = bearer(&up.agent);
    let half_a_head = || {
        let mut stream = up.connect();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: loc").unwrap();
        stream
    };
    let idle: Vec<TcpStream> = (0..1000).map(|_| up.connect()).collect();
    let slow: Vec<TcpStream> = (0..10).map(|_| half_a_head()).collect();
    assert_eq!(up.request("GET", "/healthz", &[], b"").status, 200);
    let mut body = up.connect();
    let head =
        format!("POST /v1/call HTTP/1.1\r\nhost: {}\r\n{token}\r\ncontent-length: 100\r\n\r\n{{", up.address);
    body.write_all(head.as_bytes()).unwrap();
    assert_eq!(read(body).status, 408);
    for mut stream in slow.into_iter().chain(idle) {
        // The server closes the connection: no more bytes come, and the read does not wait.
        let mut rest = Vec::new();
        let _ended = stream.read_to_end(&mut rest);
        assert!(rest.len() < 1_000, "{}", String::from_utf8_lossy(&rest));
    }
    assert_eq!(up.request("GET", "/healthz", &[], b"").status, 200);
}

#[test]
fn ten_thousand_connections_keep_out_nobody_who_was_there() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let files = limit.maximum.unwrap_or(u64::MAX).min(12_000);
    rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit { current: Some(files), ..limit },
    )
    .unwrap();
    let many = usize::try_from(files).unwrap().saturating_sub(1_000).min(10_000);
    assert!(many > 1_000, "this machine gives a process {files} files");
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    let up = Up::with(&fixture, &[], &["--patience", "60s"]);
    let call = json!({"tool": "file_read", "arguments": {"path": "a.txt"}}).to_string();
    let head = format!("POST /v1/call HTTP/1.1\r\nhost: {}\r\n{}\r\n", up.address, bearer(&up.agent));
    let one = format!("{head}content-length: {}\r\n\r\n{call}", call.len());
    let mut first = up.connect();
    let mut answered = || {
        first.write_all(one.as_bytes()).unwrap();
        let mut answer = vec![0; 4096];
        let length = first.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..length]).starts_with("HTTP/1.1 200")
    };
    assert!(answered());
    let before = up.resident();
    let held: Vec<TcpStream> = (0..many).map(|_| up.connect()).collect();
    assert!(answered(), "with {} connections beside it", held.len());
    let grown = up.resident().saturating_sub(before);
    assert!(grown < 256 << 20, "{many} idle connections take {grown} bytes");
    drop(held);
    // Places become free again.
    while up.request("GET", "/healthz", &[], b"").status != 200 {}
    assert!(answered());
}

#[test]
fn a_connection_too_many_is_told_so() {
    let fixture = Fixture::new();
    let mut command = std::process::Command::new("sh");
    let program = fixture.command();
    // A small limit of open files: at first the server uses a sixteenth of them for connections.
    command
        .args(["-c", "ulimit -n 256; exec \"$0\" \"$@\""])
        .arg(program.get_program())
        .args(program.get_args());
    command.env_clear().envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(["up", "--listen", "127.0.0.1:0", "--json"]).current_dir(fixture.workspace());
    let up = Up::of(command);
    let mut held: Vec<TcpStream> = Vec::new();
    let refused = loop {
        let mut stream = up.connect();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut begun = [0; 12];
        match stream.read_exact(&mut begun) {
            Ok(()) => break String::from_utf8_lossy(&begun).into_owned(),
            Err(_) => held.push(stream),
        }
        assert!(held.len() < 200, "nobody was refused");
    };
    assert_eq!(refused, "HTTP/1.1 503");
    drop(held);
    // Places become free again.
    while up.request("GET", "/healthz", &[], b"").status != 200 {}
}

#[test]
fn what_a_404_refers_to_is_there_for_its_caller() {
    let fixture = Fixture::new();
    let up = Up::start(&fixture, &[]);
    let mut referred = Vec::new();
    for token in [&up.agent, &up.user, &up.observer, "none-that-is-known", ""] {
        let header = bearer(token);
        let headers: Vec<&str> = if token.is_empty() { Vec::new() } else { vec![&header] };
        for nothing in ["/", "/v1/nothing", "/v1/approvals/a/b/c"] {
            let missing = up.request("GET", nothing, &headers, b"");
            assert_eq!(missing.status, 404, "{missing:?}");
            let hint = missing.json()["error"]["hint"].as_str().unwrap().to_owned();
            for path in hint.split([' ', '`', ',', ';']).filter(|word| word.starts_with('/')) {
                let found = up.request("GET", path, &headers, b"");
                assert_eq!(found.status, 200, "{hint}: {found:?}");
                referred.push(path.to_owned());
            }
        }
    }
    referred.dedup();
    assert_eq!(referred, ["/v1/openapi.json", "/metrics", "/healthz"]);
}
