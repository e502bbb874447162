//! `fetch_url` through the whole program: decisions about hosts, redirects and addresses, and the
//! destinations of secrets.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::web::{Authority, Reply, Server};

use crate::harness::Fixture;
use crate::http::Up;

const SECRET: &str = "sk-live-0123456789abcdef";

/// Builds a fixture whose user has this configuration of the profile `normal`.
fn with_profile(profile: &str) -> Fixture {
    let fixture = Fixture::new();
    let folder = fixture.home().join(".config/handfast");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), format!("sandbox_config:\n  normal:\n    {profile}\n")).unwrap();
    fixture
}

/// Makes a call with nobody to ask.
fn fetch(fixture: &Fixture, arguments: &Value) -> Value {
    fixture.run(&["call", "fetch_url", &arguments.to_string()]).json()
}

fn code(answer: &Value) -> &str {
    if answer["ok"] == true { "ok" } else { answer["error"]["code"].as_str().unwrap() }
}

fn greeting() -> Server {
    Server::http(|request| Reply::json(&json!({"method": request.method, "path": request.path}).to_string()))
}

#[test]
fn reading_from_a_listed_host_passes_and_everything_else_is_asked_about_or_denied() {
    let server = greeting();
    let fixture = with_profile("allowed_hosts: [localhost]\n    deny_hosts: [\"*.denied.example\"]");
    for (url, method, expected) in [
        (server.url("/"), "GET", "ok"),
        (server.url("/"), "HEAD", "ok"),
        (server.url("/"), "POST", "EAPPROVAL"),
        (server.url("/"), "DELETE", "EAPPROVAL"),
        (format!("http://127.0.0.1:{}/", server.address.port()), "GET", "EAPPROVAL"),
        ("http://other.example/".to_owned(), "GET", "EAPPROVAL"),
        ("http://A.denied.example./".to_owned(), "GET", "EPERMISSION"),
        ("http://denied.ex\u{430}mple/".to_owned(), "GET", "EAPPROVAL"),
        ("http://0x7f.1/".to_owned(), "GET", "EVALIDATION"),
    ] {
        let answer = fetch(&fixture, &json!({"url": url, "method": method}));
        assert_eq!(code(&answer), expected, "{method} {url}: {answer:#}");
    }
    let methods: Vec<String> = server.seen().into_iter().map(|request| request.method).collect();
    assert_eq!(methods, ["GET", "HEAD"]);
    // The question shows the address, so an approval reaches it.
    let asked = json!({"url": format!("http://127.0.0.1:{}/yes", server.address.port()), "method": "POST"});
    assert_eq!(fixture.data("fetch_url", asked)["data"], json!({"method": "POST", "path": "/yes"}));
}

#[test]
fn a_wildcard_and_a_yes_to_a_name_reach_no_private_address() {
    let server = greeting();
    let wide = with_profile("allowed_hosts: [\"*\"]");
    for host in ["127.0.0.1", "localhost", "[::ffff:7f00:1]"] {
        let url = format!("http://{host}:{}/", server.address.port());
        assert_eq!(code(&fetch(&wide, &json!({"url": url}))), "EPERMISSION", "{host}");
    }
    let denied = with_profile("allowed_hosts: [localhost]\n    deny_hosts: [127.0.0.1, \"::1\"]");
    assert_eq!(code(&fetch(&denied, &json!({"url": server.url("/")}))), "EPERMISSION");
    assert!(server.seen().is_empty());
    let named = with_profile(&format!("allowed_hosts: [\"*\", \"127.0.0.1:{}\"]", server.address.port()));
    let url = format!("http://127.0.0.1:{}/", server.address.port());
    assert_eq!(code(&fetch(&named, &json!({"url": url}))), "ok");
}

#[test]
fn each_redirection_is_decided_on_and_leads_nowhere_that_the_call_may_not_go() {
    let far = greeting();
    let port = far.address.port();
    let near = Server::http(move |request| match request.path.as_str() {
        "/unlisted" => Reply::redirect(302, &format!("http://127.0.0.1:{port}/")),
        "/metadata" => Reply::redirect(302, "http://169.254.169.254/latest/"),
        "/denied" => Reply::redirect(302, "http://denied.example/"),
        "/listed" => Reply::redirect(302, &format!("http://localhost:{port}/there")),
        "/posted" => Reply::redirect(307, &format!("http://localhost:{port}/there")),
        _ => Reply::json("1"),
    });
    let fixture = with_profile("allowed_hosts: [localhost]\n    deny_hosts: [denied.example]");
    for path in ["/unlisted", "/metadata", "/denied"] {
        let answer = fetch(&fixture, &json!({"url": near.url(path)}));
        assert_eq!(code(&answer), "EPERMISSION", "{path}: {answer:#}");
        assert_eq!(answer["error"]["data"], Value::Null);
        assert_eq!(answer["data"]["status"], 302, "{answer:#}");
    }
    assert!(far.seen().is_empty());
    let listed = fetch(&fixture, &json!({"url": near.url("/listed")}));
    assert_eq!(listed["data"]["url"], format!("http://localhost:{port}/there"), "{listed:#}");
    // An approval of one request does not cover a redirect to another host that changes something.
    let posted = fixture.error("fetch_url", json!({"url": near.url("/posted"), "method": "POST"}));
    assert_eq!((posted["code"].as_str(), posted["effect"].as_str()), (Some("EPERMISSION"), Some("maybe")));
    assert_eq!(far.seen().len(), 1);
}

#[test]
fn a_redirection_off_this_machine_is_in_the_audit_before_it_is_followed() {
    let near = Server::http(|request| match request.path.as_str() {
        "/away" => Reply::redirect(302, "http://elsewhere.invalid/there"),
        "/here" => Reply::redirect(302, "/there"),
        _ => Reply::json("1"),
    });
    let fixture = with_profile("allowed_hosts: [localhost, elsewhere.invalid]");
    for (path, expected) in
        [("/away", vec!["intent", "intent", "outcome"]), ("/here", vec!["intent", "outcome"])]
    {
        let answer = fetch(&fixture, &json!({"url": near.url(path)}));
        assert_eq!(answer["ok"] == true, path == "/here", "{answer:#}");
        let id = answer["meta"]["call_id"].as_str().unwrap();
        let rows = fixture.run(&["audit", "show", id, "--json"]).json();
        let kinds: Vec<_> =
            rows.as_array().unwrap().iter().map(|row| row["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, expected, "{rows:#}");
        if path == "/away" {
            assert_eq!(rows[1]["plan"]["effects"][0]["host"], "elsewhere.invalid", "{rows:#}");
        }
    }
}

#[test]
fn a_secret_reaches_its_host_and_nothing_that_handfast_shows_or_keeps() {
    let server = Server::http(|request| {
        let key = request.header("authorization").to_owned();
        Reply::of(
            200,
            &[("content-type", "application/json"), ("x-echo", &key)],
            json!({"echo": key}).to_string(),
        )
    });
    let fixture = with_profile("allowed_hosts: [localhost]\n    allowed_secrets: [\"API_KEY at localhost\"]")
        .with_vault();
    let stored =
        fixture.run_with_input(&["vault", "set", "API_KEY", "--host", "localhost"], SECRET.as_bytes());
    assert_eq!(stored.code, 0, "{}", stored.stderr);
    // A secret that the agent puts into the URL is redacted as well.
    let url = server.url(&format!("/?key={SECRET}"));
    let arguments = json!({"url": url, "headers": {"Authorization": "Bearer $API_KEY"}});
    let answer = fixture.run(&["call", "fetch_url", &arguments.to_string()]);
    let said = answer.json();
    assert_eq!(said["data"]["data"], json!({"echo": "Bearer [SECRET:API_KEY]"}), "{said:#}");
    assert_eq!(said["data"]["headers"]["x-echo"], "Bearer [SECRET:API_KEY]");
    assert_eq!(server.seen()[0].header("authorization"), format!("Bearer {SECRET}"));
    let audit = fixture.run(&["audit", "list", "--json"]).stdout;
    assert!(audit.contains("fetch_url") && audit.contains("/?key=[SECRET:API_KEY]"), "{audit}");
    for (what, bytes) in [
        ("the answer", [answer.stdout, answer.stderr].concat().into_bytes()),
        ("the audit", audit.into_bytes()),
        ("the state", everything_below(&fixture.state())),
    ] {
        assert!(!bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()), "{what}");
    }
    let elsewhere =
        json!({"url": format!("http://127.0.0.1:{}/", server.address.port()), "headers": {"X": "$API_KEY"}});
    assert_eq!(fixture.error("fetch_url", elsewhere)["code"], "EPERMISSION");
    assert_eq!(server.seen().len(), 1);
}

fn everything_below(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            bytes.extend(everything_below(&path));
        } else if path.is_file() {
            bytes.extend(fs::read(&path).unwrap());
        }
    }
    bytes
}

#[test]
fn a_body_that_was_saved_can_be_undone() {
    let server = Server::http(|_| Reply::of(200, &[], "new content"));
    let fixture = Fixture::with_files(&[("f", "old content")]);
    let answer = fixture.call("fetch_url", json!({"url": server.url("/"), "save_to": "f"}));
    assert_eq!((answer["data"]["saved_to"].as_str(), fixture.read("f").as_str()), (Some("f"), "new content"));
    let checkpoint = answer["meta"]["checkpoint"].as_str().unwrap_or_else(|| panic!("{answer:#}"));
    assert_eq!(fixture.run(&["undo", checkpoint]).code, 0);
    assert_eq!(fixture.read("f"), "old content");
}

#[test]
fn a_server_over_tls_is_believed_where_the_system_trusts_its_authority() {
    let authority = Authority::new();
    let server = Server::https(&authority, "localhost", |_| Reply::json("true"));
    let fixture = with_profile("allowed_hosts: [localhost]");
    let file = fixture.outside().join("authority.pem");
    authority.write(&file);
    let url = format!("https://localhost:{}/", server.address.port());
    let ask = |trusted: &Path| {
        let arguments = json!({"url": url}).to_string();
        let mut command = fixture.command();
        let output = command.env("SSL_CERT_FILE", trusted).args(["call", "fetch_url", &arguments]);
        let output = output.stdin(Stdio::null()).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let answer = ask(&file);
    assert_eq!(answer["data"]["data"], true, "{answer:#}");
    let other = fixture.outside().join("other.pem");
    Authority::new().write(&other);
    assert_eq!(code(&ask(&other)), "EUNAVAILABLE");
}

#[test]
fn over_mcp_a_client_reads_the_answer_as_a_record() {
    let server = Server::http(|_| Reply::of(200, &[("content-type", "text/html")], "<h1>One</h1><p>two</p>"));
    let fixture = with_profile("allowed_hosts: [localhost]");
    let mut mcp = crate::server::Server::start(&fixture, &["--catalogue", "full"]);
    let page = mcp.data("fetch_url", json!({"url": server.url("/"), "format": "markdown"}));
    assert_eq!((&page["data"], &page["data_kind"]), (&json!("# One\n\ntwo"), &json!("text")), "{page:#}");
}

#[test]
fn over_http_connections_are_used_again_and_a_call_that_is_given_up_ends() {
    let server = Server::http(|request| match request.path.as_str() {
        "/slow" => Reply::hanging("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"),
        _ => Reply::json("[1, 2]"),
    });
    let fixture = with_profile("allowed_hosts: [localhost]");
    let up = Up::start(&fixture, &[]);
    for _ in 0..3 {
        let answer = up.call("fetch_url", json!({"url": server.url("/")}));
        assert_eq!(answer["data"]["data"], json!([1, 2]), "{answer:#}");
    }
    let late = up.call("fetch_url", json!({"url": server.url("/slow"), "timeout": 0.3}));
    assert_eq!(code(&late), "ETIMEOUT", "{late:#}");
    let unlisted = up.call("fetch_url", json!({"url": "http://[::1]:9/"}));
    assert_eq!(code(&unlisted), "EAPPROVAL", "{unlisted:#}");
}
