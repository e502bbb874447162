//! Gmail through the whole program: login in a browser, decisions about mail, and the destinations
//! of tokens.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use crate::fakes::gmail::{ACCOUNT, CLIENT_ID, CLIENT_SECRET, Gmail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::harness::{Fixture, Run};

/// Returns a profile that allows requests to the server, with further lines.
pub(crate) fn listed(beside: &str) -> String {
    format!(
        "sandbox_config:\n  normal:\n    allowed_hosts: [localhost]\n    allowed_secrets: [\"* at localhost\"]\n    {beside}\n"
    )
}

/// Builds a fixture with a vault. The user's configuration names this server as Gmail and Google,
/// and contains further lines.
fn configured(gmail: &Gmail, beside: &str) -> Fixture {
    let fixture = Fixture::new().with_vault();
    let folder = fixture.home().join(".config/handfast");
    fs::create_dir_all(&folder).unwrap();
    let url = |path: &str| gmail.server.url(path);
    let text = format!(
        "gmail:\n  endpoint: {}\n  authorization: {}\n  token: {}\n  revocation: {}\n{beside}",
        url(""),
        url("/auth"),
        url("/token"),
        url("/revoke")
    );
    fs::write(folder.join("config.yaml"), text).unwrap();
    let client = json!({"installed": {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}});
    fs::write(fixture.outside().join("client.json"), client.to_string()).unwrap();
    fixture
}

/// Builds the fixture of [`configured`] and logs in.
pub(crate) fn logged_in(gmail: &Gmail, beside: &str) -> Fixture {
    let fixture = configured(gmail, beside);
    let run = log_in(&fixture, gmail, true);
    assert_eq!(run.code, 0, "{}", run.stderr);
    fixture
}

/// A login that waits for its browser.
struct Waiting {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// Address that the user opens.
    address: String,
}

impl Waiting {
    fn begin(fixture: &Fixture, options: &[&str]) -> Self {
        let mut command = fixture.command();
        command.args(["login", "gmail"]).args(options);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut address = String::new();
        stdout.read_line(&mut address).unwrap();
        Self { child, stdout, address: address.trim_end().to_owned() }
    }

    fn end(mut self) -> Run {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        Run { code: self.child.wait().unwrap().code().unwrap_or(-1), stdout: rest, stderr }
    }
}

/// Requests a URL as a browser does, and returns the status of the response.
fn visit(url: &str) -> u16 {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    request(host, &format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
}

fn request(host: &str, text: &str) -> u16 {
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

fn client(fixture: &Fixture) -> String {
    fixture.outside().join("client.json").to_str().unwrap().to_owned()
}

fn log_in(fixture: &Fixture, gmail: &Gmail, says_yes: bool) -> Run {
    let waiting = Waiting::begin(fixture, &["--client", &client(fixture), "--wait", "1m"]);
    let back = gmail.consent(&waiting.address, says_yes).unwrap();
    assert_eq!(visit(&back), 200);
    waiting.end()
}

/// Returns true if any file below a folder contains this text.
fn lies_in(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().map(Result::unwrap).any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return lies_in(&path, text);
        }
        fs::read(&path).is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
    })
}

fn outcome(answer: &Value) -> &str {
    if answer["ok"] == true { "ok" } else { answer["error"]["code"].as_str().unwrap() }
}

fn send() -> String {
    json!({"to": "Grace Hopper <grace@example.com>", "bcc": ["eve@example.com"], "subject": "Notes",
           "body": "Seen by who is asked.", "attachments": ["a.txt"]})
    .to_string()
}

#[test]
fn an_agent_reads_and_answers_mail_with_a_login_that_nobody_sees() {
    let gmail = Gmail::new();
    let fixture = configured(&gmail, &listed("mode: full_auto"));
    let login = log_in(&fixture, &gmail, true);
    assert_eq!((login.code, login.stdout.as_str()), (0, ""), "{}", login.stderr);
    assert!(login.stderr.contains(ACCOUNT), "{}", login.stderr);
    let secrets = fixture.run(&["vault", "list", "--json"]).json();
    let of = |name: &str| secrets.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone();
    assert_eq!(of("gmail_access_token")["places"], json!(["header"]));
    assert_eq!(of("gmail_refresh_token")["places"], json!(["body"]));
    assert_eq!(of("gmail_login")["hosts"], json!([]));
    let found = fixture.run(&["call", "gmail_search", r#"{"query": "compiler"}"#]);
    let first = found.json()["data"]["results"][0].clone();
    assert_eq!(first["subject"], "The compiler", "{}", found.stdout);
    let authorization = gmail.server.seen().last().unwrap().header("authorization").to_owned();
    let token = authorization.strip_prefix("Bearer ").unwrap();
    // A mail contains the token, and the result redacts it like any other secret.
    gmail.deliver(format!(
        "From: e@example.com\r\nTo: ada@example.com\r\nSubject: {token}\r\n\r\n{token} {CLIENT_SECRET}\r\n"
    ));
    let echoed = fixture.run(&["call", "gmail_read", r#"{"query": "from:e"}"#]);
    let mail = &echoed.json()["data"]["messages"][0];
    assert_eq!(mail["subject"], "[SECRET:gmail_access_token]", "{}", echoed.stdout);
    assert_eq!(mail["body"], "[SECRET:gmail_access_token] [SECRET:gmail_client_secret]\n");
    let answer = json!({"to": "grace@example.com", "body": "Indeed.", "reply_to_id": first["id"]});
    let sent = fixture.run(&["call", "gmail_send", &answer.to_string()]);
    assert_eq!(sent.json()["data"]["thread_id"], first["thread_id"], "{}", sent.stdout);
    assert!(gmail.sent()[0].contains("From: <ada@example.com>"), "{:?}", gmail.sent());
    let audit = fixture.run(&["audit", "list", "--json"]).stdout;
    assert!(
        audit.contains("gmail_login") && audit.contains("gmail_send") && audit.contains(ACCOUNT),
        "{audit}"
    );
    for secret in [token, CLIENT_SECRET, "1//refresh"] {
        assert!(!lies_in(&fixture.state(), secret), "{secret} lies in the state folder");
        for said in [&login.stderr, &found.stdout, &echoed.stdout, &echoed.stderr, &sent.stdout, &audit] {
            assert!(!said.contains(secret), "{said}");
        }
    }
}

#[test]
fn a_login_takes_one_answer_and_lets_everybody_else_wait() {
    let gmail = Gmail::new();
    let fixture = configured(&gmail, "");
    let waiting = Waiting::begin(&fixture, &["--client", &client(&fixture)]);
    let back = gmail.consent(&waiting.address, true).unwrap();
    let (base, query) = back.split_once('?').unwrap();
    let host = base.strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
    let (state, code) = query.split_once('&').unwrap();
    for url in [
        format!("{base}favicon.ico"),
        base.to_owned(),
        format!("{base}?{code}"),
        format!("{base}?state={}&{code}", "x".repeat(43)),
        format!("{base}?{state}&{state}&{code}"),
        format!("{base}?error=access_denied"),
    ] {
        assert_eq!(visit(&url), 404, "{url}");
    }
    // A page that reaches this server by another host name, and a form.
    assert_eq!(request(&host, &format!("GET /?{query} HTTP/1.1\r\nHost: evil.example\r\n\r\n")), 404);
    assert_eq!(request(&host, &format!("POST /?{query} HTTP/1.1\r\nHost: {host}\r\n\r\n")), 404);
    drop(TcpStream::connect(&host).unwrap());
    assert!(!gmail.is_logged_in());
    assert_eq!(visit(&back), 200);
    let run = waiting.end();
    assert_eq!(run.code, 0, "{}", run.stderr);
    // A second login takes the client of the first.
    let again = Waiting::begin(&fixture, &["--account", "ada@example.com"]);
    assert!(again.address.contains("login_hint=ada%40example.com"), "{}", again.address);
    let denied = gmail.consent(&again.address, false).unwrap();
    assert_eq!(visit(&denied), 200);
    let denied = again.end();
    assert!(denied.code == 1 && denied.stderr.contains("access_denied"), "{}", denied.stderr);
    assert!(gmail.is_logged_in(), "what was there before stays");
}

#[test]
fn a_login_ends_with_its_time_and_with_ctrl_c_and_says_what_is_missing() {
    let gmail = Gmail::new();
    let fixture = configured(&gmail, "");
    let without = fixture.run(&["login", "gmail"]);
    assert!(without.code == 2 && without.stderr.contains("--client"), "{}", without.stderr);
    fs::write(fixture.outside().join("web.json"), r#"{"web": {"client_id": "x"}}"#).unwrap();
    let web =
        fixture.run(&["login", "gmail", "--client", fixture.outside().join("web.json").to_str().unwrap()]);
    assert!(web.code == 2 && web.stderr.contains("Desktop app"), "{}", web.stderr);
    let late = Waiting::begin(&fixture, &["--client", &client(&fixture), "--wait", "1s"]).end();
    assert!(late.code == 1 && late.stderr.contains("--wait"), "{}", late.stderr);
    let stopped = Waiting::begin(&fixture, &["--client", &client(&fixture)]);
    kill(Pid::from_raw(stopped.child.id().cast_signed()), Signal::SIGINT).unwrap();
    let stopped = stopped.end();
    assert!(stopped.code == 130 && stopped.stderr.contains("nobody was logged in"), "{}", stopped.stderr);
    let wrong = Waiting::begin(&fixture, &["--client-id", CLIENT_ID]);
    let back = gmail.consent(&wrong.address, true).unwrap();
    visit(&back);
    let wrong = wrong.end();
    assert!(wrong.code == 1 && wrong.stderr.contains("invalid_client"), "{}", wrong.stderr);
    assert_eq!(fixture.run(&["vault", "list", "--json"]).stdout.trim(), "[]");
    let nobody = fixture.run(&["call", "--yes", "gmail_search", r#"{"query": "a"}"#]).json();
    assert_eq!(outcome(&nobody), "EUNAVAILABLE", "{nobody:#}");
    assert!(nobody["error"]["hint"].as_str().unwrap().contains(" login gmail`"));
}

#[test]
fn a_logout_takes_the_login_back_and_the_next_one_knows_the_client() {
    let gmail = Gmail::new();
    let fixture = logged_in(&gmail, "");
    assert!(gmail.is_logged_in());
    let out = fixture.run(&["logout", "gmail"]);
    assert!(out.code == 0 && out.stderr.contains("logged out"), "{}", out.stderr);
    assert!(!gmail.is_logged_in());
    let names = |fixture: &Fixture| fixture.run(&["vault", "list"]).stdout;
    assert!(!names(&fixture).contains("token") && names(&fixture).contains("gmail_client_secret"));
    let waiting = Waiting::begin(&fixture, &[]);
    visit(&gmail.consent(&waiting.address, true).unwrap());
    assert_eq!(waiting.end().code, 0);
    // A token that Google does not revoke is deleted here all the same.
    gmail.revoke();
    let out = fixture.run(&["logout", "gmail", "--forget-client"]);
    assert_eq!((out.code, names(&fixture).as_str()), (0, ""), "{}", out.stderr);
    let again = fixture.run(&["logout", "gmail"]);
    assert!(again.code == 0 && again.stderr.contains("there was no login"), "{}", again.stderr);
}

#[test]
fn nothing_is_sent_before_somebody_is_asked_who_sees_everybody_and_everything() {
    let gmail = Gmail::new();
    for (profile, expected) in [
        (listed("mode: smart_auto"), "EAPPROVAL"),
        (String::new(), "EAPPROVAL"),
        (
            "sandbox_config:\n  normal:\n    deny_hosts: [localhost]\n    mode: full_auto\n".to_owned(),
            "EPERMISSION",
        ),
        (listed("mode: full_auto\n    deny_read_paths: [\"a.txt\"]"), "EPERMISSION"),
    ] {
        let fixture = logged_in(&gmail, &profile);
        fixture.write("a.txt", "12345");
        let before = gmail.sends();
        let answer = fixture.run(&["call", "gmail_send", &send()]).json();
        assert_eq!(outcome(&answer), expected, "{profile}: {answer:#}");
        assert_eq!(gmail.sends(), before);
        let Some(id) = answer["error"]["approval_id"].as_str() else { continue };
        let shown = fixture.run(&["approvals", "show", id]).stdout;
        for part in [
            "To: Grace Hopper <grace@example.com>",
            "Bcc: eve@example.com",
            "Subject: Notes",
            "Attachment: a.txt (5 bytes)",
            "Seen by who is asked.",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        if !profile.is_empty() {
            assert_eq!(fixture.run(&["approvals", "approve", id]).code, 0);
            assert_eq!(outcome(&fixture.run(&["call", "gmail_send", &send()]).json()), "ok");
            assert_eq!(gmail.sends(), before + 1);
        }
    }
}

#[test]
fn a_yes_for_the_session_is_one_to_those_who_were_shown_and_to_nobody_else() {
    let gmail = Gmail::new();
    let fixture = logged_in(&gmail, &listed("mode: smart_auto"));
    let library = fixture.library();
    let mail = |to: Value, cc: Value, body: &str| json!({"to": to, "cc": cc, "subject": "s", "body": body});
    let asked = |arguments: Value| {
        let answer = library.call("gmail_send", arguments);
        assert_eq!(outcome(&answer), "EAPPROVAL", "{answer:#}");
        answer["error"]["approval_id"].as_str().unwrap().to_owned()
    };
    let sends = |arguments: Value| {
        let answer = library.call("gmail_send", arguments);
        assert_eq!(outcome(&answer), "ok", "{answer:#}");
    };
    let id = asked(mail(json!("Ada <ada@example.com>"), json!(["b@example.com"]), "one"));
    let shown = fixture.run(&["approvals", "show", &id]).stdout;
    assert!(shown.contains("send mail to ada@example.com"), "{shown}");
    let yes = fixture.run(&["approvals", "approve", &id, "--scope", "session"]);
    assert_eq!(yes.code, 0, "{}", yes.stderr);
    sends(mail(json!("ada@example.com"), json!(["b@example.com"]), "two"));
    sends(mail(json!(["b@EXAMPLE.com"]), json!(["Countess <ada@Example.com>"]), "three"));
    asked(mail(json!("eve@example.com"), json!([]), "one"));
    asked(mail(json!("ada@example.com"), json!([]), "one"));
    asked(mail(json!("ada@example.com"), json!(["b@example.com", "eve@example.com"]), "one"));
    let mut hidden = mail(json!("ada@example.com"), json!(["b@example.com"]), "one");
    hidden["bcc"] = json!(["eve@example.com"]);
    asked(hidden);
    assert_eq!(gmail.sends(), 2);
}

#[test]
fn attachments_become_files_that_can_be_undone_and_a_denied_folder_gets_none() {
    let gmail = Gmail::new();
    let id = gmail.deliver(
        "From: e@example.com\r\nSubject: s\r\nContent-Type: multipart/mixed; boundary=xx\r\n\r\n--xx\r\n\r\nText.\r\n--xx\r\n\
         Content-Type: image/png\r\nContent-Disposition: attachment; filename=p.png\r\n\r\npixels\r\n--xx--\r\n",
    );
    let fixture = logged_in(&gmail, &listed("mode: full_auto\n    deny_write_paths: [\"closed/**\"]"));
    let read = |folder: &str| {
        fixture.run(&["call", "gmail_read", &json!({"id": id, "save_to": folder}).to_string()]).json()
    };
    let saved = read("in");
    assert_eq!(saved["data"]["messages"][0]["attachments"][0]["saved_to"], "in/p.png", "{saved:#}");
    assert_eq!(fixture.read("in/p.png").trim_end(), "pixels");
    let checkpoint = saved["meta"]["checkpoint"].as_str().unwrap();
    assert_eq!(fixture.run(&["undo", checkpoint]).code, 0);
    assert!(!fixture.workspace().join("in/p.png").exists());
    let denied = read("closed");
    assert_eq!(outcome(&denied), "EPERMISSION", "{denied:#}");
    assert!(!fixture.workspace().join("closed/p.png").exists());
}

#[test]
fn a_dry_run_of_the_whole_program_sends_nothing() {
    let gmail = Gmail::new();
    let fixture = logged_in(&gmail, &listed("mode: full_auto"));
    fixture.write("a.txt", "12345");
    let tried = fixture.run(&["--dry-run", "call", "gmail_send", &send()]).json();
    assert_eq!(tried["data"]["would_send"]["bcc"][0], "eve@example.com", "{tried:#}");
    assert_eq!(gmail.sends(), 0);
}

#[test]
fn where_gmail_is_stands_in_the_users_configuration_alone() {
    let fixture = Fixture::new();
    fixture.write(
        "handfast.yaml",
        "gmail:\n  endpoint: https://evil.example/\n  token: https://evil.example/t\n",
    );
    let checked = fixture.run(&["check", "gmail_search", r#"{"query": "a"}"#]);
    let said = checked.stdout.clone() + &checked.stderr;
    assert!(said.contains("gmail.googleapis.com") && !checked.stdout.contains("evil.example"), "{said}");
    let folder = fixture.home().join(".config/handfast");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), "gmail:\n  token: http://google.example/token\n").unwrap();
    let refused = fixture.run(&["check", "gmail_search", r#"{"query": "a"}"#]);
    assert!(refused.code == 2 && refused.stderr.contains("`gmail.token`"), "{}", refused.stderr);
}
