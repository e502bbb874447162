//! Gmail through the doors that agents use: MCP over stdio and over HTTP, and calls over HTTP.

use crate::fakes::gmail::Gmail;
use serde_json::{Value, json};

use crate::functional::gmail::{listed, logged_in};
use crate::functional::mcp_over_http;
use crate::harness::Fixture;
use crate::http::Up;
use crate::server::Server;

fn send() -> Value {
    json!({"to": "Grace Hopper <grace@example.com>", "bcc": ["eve@example.com"], "subject": "Notes",
           "body": "Seen by who is asked.", "attachments": ["a.txt"]})
}

/// Texts that a question about the mail must show.
const SHOWN: [&str; 5] = [
    "To: Grace Hopper <grace@example.com>",
    "Bcc: eve@example.com",
    "Subject: Notes",
    "Attachment: a.txt (5 bytes)",
    "Seen by who is asked.",
];

fn world() -> (Gmail, Fixture) {
    let gmail = Gmail::new();
    let fixture = logged_in(&gmail, &listed("mode: smart_auto"));
    fixture.write("a.txt", "12345");
    (gmail, fixture)
}

/// Returns the token of the latest request to Gmail.
fn token(gmail: &Gmail) -> String {
    let seen = gmail.server.seen();
    let asked = seen.iter().rev().find(|asked| asked.header("authorization").starts_with("Bearer "));
    asked.unwrap().header("authorization").trim_start_matches("Bearer ").to_owned()
}

#[test]
fn a_client_of_mcp_reads_mail_and_its_user_sees_what_is_to_be_sent() {
    let (gmail, fixture) = world();
    let mut server = Server::with_forms(&fixture, &[]);
    let found = server.data("gmail_search", json!({"query": "compiler"}));
    assert_eq!(found["results"][0]["subject"], "The compiler", "{found:#}");
    // The access token expires. The next call renews it, unnoticed by the client.
    gmail.forget_access();
    let renewed = gmail.renewals();
    let id = found["results"][0]["id"].as_str().unwrap();
    // Reading a mail marks it as read, so the user is asked.
    let (question, read) = server.asked("gmail_read", json!({"id": id}), "allow once");
    assert!(question.contains("gmail_read") && question.contains("gmail_access_token"), "{question}");
    assert!(read["isError"] != true && read.to_string().contains("The compiler"), "{read:#}");
    assert_eq!(gmail.renewals(), renewed + 1);
    // A mail contains the token, and the client's result does not.
    let token = token(&gmail);
    gmail.deliver(format!(
        "From: e@example.com\r\nTo: ada@example.com\r\nSubject: {token}\r\n\r\nx {token} y\r\n"
    ));
    let echoed = server.call("gmail_search", json!({"query": "from:e"})).to_string();
    assert!(echoed.contains("[SECRET:gmail_access_token]") && !echoed.contains(&token), "{echoed}");
    for (choice, sent) in [("deny", 0), ("allow once", 1)] {
        // The next identical call reports a denial, so each round sends another subject.
        let mut mail = send();
        mail["subject"] = json!(format!("Notes to {choice}"));
        let (question, result) = server.asked("gmail_send", mail, choice);
        for part in SHOWN {
            assert!(question.contains(part), "{part} in {question}");
        }
        assert_eq!((result["isError"] == true, gmail.sends()), (sent == 0, sent), "{choice}: {result:#}");
    }
    assert!(gmail.sent()[0].contains("Subject: Notes to allow once"));
    server.end();
}

#[test]
fn over_http_mail_is_read_at_once_and_sent_when_the_user_has_answered() {
    let (gmail, fixture) = world();
    let up = Up::start(&fixture, &[]);
    let found = up.call("gmail_search", json!({"query": "compiler"}));
    assert_eq!(found["data"]["results"][0]["subject"], "The compiler", "{found:#}");
    let asked = up.call("gmail_send", send());
    assert_eq!(asked["error"]["code"], "EAPPROVAL", "{asked:#}");
    assert_eq!(gmail.sends(), 0);
    let id = asked["error"]["approval_id"].as_str().unwrap();
    let path = format!("/v1/approvals/{id}");
    let shown = up.get(&up.user, &path).json().to_string();
    for part in SHOWN {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    // The agent's own token cannot approve.
    let (yes, once) = (format!("{path}/approve"), json!({"scope": "once"}));
    assert_eq!(up.post(&up.agent, &yes, &once).status, 403);
    assert_eq!(up.call("gmail_send", send())["error"]["code"], "EAPPROVAL");
    let answered = up.post(&up.user, &yes, &once);
    assert_eq!(answered.status, 200, "{answered:?}");
    // The approval covers exactly that mail. Another mail is a new question.
    let mut other = send();
    other["bcc"] = json!(["mallory@example.com"]);
    assert_eq!(up.call("gmail_send", other)["error"]["code"], "EAPPROVAL");
    let sent = up.call("gmail_send", send());
    assert_eq!((sent["ok"].as_bool(), gmail.sends()), (Some(true), 1), "{sent:#}");
    assert_eq!(up.call("gmail_send", send())["error"]["code"], "EAPPROVAL", "once is once");
    let token = token(&gmail);
    gmail.deliver(format!("From: e@example.com\r\nTo: ada@example.com\r\nSubject: {token}\r\n\r\nx\r\n"));
    // Both doors of this port redact the token.
    let plain = up.call("gmail_search", json!({"query": "from:e"})).to_string();
    let session = mcp_over_http::open(&up, "2025-11-25");
    let message = mcp_over_http::call(2, "gmail_search", json!({"query": "from:e"}));
    let by_mcp = mcp_over_http::post(&up, &[&session], &message).json().to_string();
    for echoed in [plain, by_mcp] {
        assert!(echoed.contains("[SECRET:gmail_access_token]") && !echoed.contains(&token), "{echoed}");
    }
    let message = mcp_over_http::call(3, "gmail_send", send());
    let asked = mcp_over_http::post(&up, &[&session], &message).json().to_string();
    assert!(asked.contains("EAPPROVAL") && gmail.sends() == 1, "{asked}");
    up.end();
}

#[test]
fn a_login_that_was_taken_back_is_said_through_every_door() {
    let (gmail, fixture) = world();
    let up = Up::start(&fixture, &[]);
    let mut server = Server::start(&fixture, &[]);
    gmail.forget_access();
    gmail.revoke();
    let over_http = up.call("gmail_search", json!({"query": "a"}));
    assert_eq!(over_http["error"]["code"], "EPERMISSION", "{over_http:#}");
    assert!(over_http["error"]["hint"].as_str().unwrap().contains(" login gmail`"), "{over_http:#}");
    let over_mcp = server.call("gmail_search", json!({"query": "a"}));
    assert_eq!(over_mcp["isError"], true, "{over_mcp:#}");
    let said = over_mcp.to_string();
    assert!(said.contains("EPERMISSION") && said.contains(" login gmail`"), "{said}");
    server.end();
}
