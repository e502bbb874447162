//! Successful calls: searches, messages, conversations, and files in both directions.

use serde_json::{Value, json};
use testkit::{DenyNames, TestSecrets, Workspace, assert_contains};
use tool::{Code, EffectState};
use tools_work::oauth;

use crate::gmail::{Fixture, subjects, to_grace};

const WITH_FILES: &str = "From: =?utf-8?q?J=C3=BCrgen?= <j@example.com>\r\nTo: ada@example.com, b@example.com\r\nCc: c@example.com\r\n\
    Subject: =?iso-8859-1?Q?Gr=FC=DFe?=\r\nMessage-ID: <f-1@example.com>\r\nMIME-Version: 1.0\r\n\
    Content-Type: multipart/mixed; boundary=xx\r\n\r\n--xx\r\nContent-Type: multipart/alternative; boundary=yy\r\n\r\n\
    --yy\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nSch=F6n.\r\n\
    --yy\r\nContent-Type: text/html\r\n\r\n<p>Sch&ouml;n.</p>\r\n--yy--\r\n\
    --xx\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename*=UTF-8''B%C3%A9.pdf\r\n\
    Content-Transfer-Encoding: base64\r\n\r\nAAECAw==\r\n\
    --xx\r\nContent-Type: text/plain; name=\"../../.envrc\"\r\nContent-Disposition: attachment; filename=\"../../.envrc\"\r\n\r\nevil\r\n\
    --xx--\r\n";

#[test]
fn a_search_finds_over_pages_and_says_where_it_goes_on() {
    let fixture = Fixture::new();
    for number in 1..=7 {
        let from = if number % 2 == 0 { "alan@example.com" } else { "grace@example.com" };
        fixture.server.deliver(format!(
            "From: {from}\r\nTo: ada@example.com\r\nSubject: N{number}\r\n\r\nBody's <b>\r\n"
        ));
    }
    fixture.server.bound_pages(3);
    let all = fixture.data("gmail_search", json!({"query": "", "max_results": 100}));
    assert_eq!(subjects(&all), ["N7", "N6", "N5", "N4", "N3", "N2", "N1", "The compiler"]);
    assert!(all.get("next_page_token").is_none() && all["label"].as_str().unwrap().starts_with("data:"));
    assert_contains(
        &all["results"][0],
        &json!({"from": "grace@example.com", "to": "ada@example.com", "snippet": "Body's <b>",
                "labels": ["INBOX", "UNREAD"], "date": "2026-03-01T00:07:00Z"}),
    );
    let mut found = Vec::new();
    let mut arguments = json!({"query": "from:alan", "max_results": 2});
    loop {
        let page = fixture.data("gmail_search", arguments.clone());
        found.extend(subjects(&page).into_iter().map(str::to_owned));
        let Some(next) = page.get("next_page_token") else { break };
        arguments["page_token"] = next.clone();
    }
    assert_eq!(found, ["N6", "N4", "N2"]);
    assert_eq!(fixture.data("gmail_search", json!({"query": "no such word"}))["results"], json!([]));
    let requests = fixture.server.server.seen();
    assert!(requests.iter().all(|request| request.header("authorization").starts_with("Bearer ya29.")));
}

#[test]
fn a_message_is_read_with_its_letters_and_what_came_with_it() {
    let fixture = Fixture::new();
    let id = fixture.server.deliver(WITH_FILES);
    let read = fixture.data("gmail_read", json!({"id": id, "include_html": true}));
    assert_contains(
        &read["messages"][0],
        &json!({
            "id": id, "from": "Jürgen <j@example.com>", "to": "ada@example.com, b@example.com", "cc": "c@example.com",
            "subject": "Grüße", "body": "Schön.",
            "attachments": [
                {"name": "Bé.pdf", "mime_type": "application/pdf", "size_bytes": 4},
                {"name": "../../.envrc", "mime_type": "text/plain", "size_bytes": 4},
            ],
        }),
    );
    assert!(read["messages"][0]["html"].as_str().unwrap().contains("<p>"), "{read:#}");
    let bare = fixture.data("gmail_read", json!({"query": "subject:gr", "include_body": false}));
    assert_eq!(bare["messages"][0]["body"], "");
    assert!(bare["messages"][0].get("html").is_none());
}

#[test]
fn attachments_are_saved_under_names_that_stay_in_their_folder_and_nothing_is_written_over() {
    let fixture = Fixture::new();
    let id = fixture.server.deliver(WITH_FILES);
    fixture.workspace.write("in/Bé.pdf", "mine");
    let saved = fixture.data("gmail_read", json!({"id": id, "save_to": "in"}));
    let at =
        |number: usize| saved["messages"][0]["attachments"][number]["saved_to"].as_str().unwrap().to_owned();
    assert_eq!((at(0), at(1)), ("in/Bé (2).pdf".to_owned(), "in/_envrc".to_owned()));
    assert_eq!(std::fs::read(fixture.workspace.at("in/Bé (2).pdf")).unwrap(), [0, 1, 2, 3]);
    assert_eq!(fixture.workspace.read("in/Bé.pdf"), "mine");
    assert_eq!(fixture.workspace.names("in"), ["Bé (2).pdf", "Bé.pdf", "_envrc"]);
    let deep = fixture.data("gmail_read", json!({"id": id, "save_to": "new/folder"}));
    assert_eq!(deep["messages"][0]["attachments"][0]["saved_to"], "new/folder/Bé.pdf");
    fixture.workspace.link("away", "../outside");
    for folder in ["../outside", "/tmp", "away", "in/Bé.pdf"] {
        let error = fixture.error("gmail_read", json!({"id": id, "save_to": folder}));
        assert!([Code::Permission, Code::Validation].contains(&error.code), "{folder}: {error:?}");
    }
    assert!(fixture.workspace.names("../outside").is_empty());
}

#[test]
fn a_secret_in_an_attachment_is_covered_in_the_file() {
    let fixture =
        Fixture::in_workspace(Workspace::new().covering(TestSecrets::of(&[("KEY", "evil-0123456789")])));
    fixture.log_in(&oauth::SCOPES, 3_600);
    let id = fixture.server.deliver(WITH_FILES.replace("\r\nevil\r\n", "\r\nkey: evil-0123456789\r\n"));
    fixture.data("gmail_read", json!({"id": id, "save_to": "in"}));
    assert_eq!(fixture.workspace.read("in/_envrc"), "key: [SECRET:KEY]");
    assert_eq!(std::fs::read(fixture.workspace.at("in/Bé.pdf")).unwrap(), [0, 1, 2, 3]);
}

#[test]
fn a_message_is_sent_with_files_to_everybody_and_arrives_as_it_was_meant() {
    let fixture = Fixture::new();
    fixture.workspace.write("d/Bé.txt", "one\ntwo\n");
    let sent = fixture.data(
        "gmail_send",
        json!({
            "to": ["Jürgen <j@example.com>", "b@example.com"], "cc": ["c@example.com"], "bcc": ["d@example.com"],
            "subject": "Grüße aus Köln", "body": "Schön.\n", "html": "<p>Schön.</p>", "attachments": ["d/Bé.txt"],
        }),
    );
    assert_eq!((&sent["sent"], fixture.server.sends()), (&json!(true), 1));
    let id = sent["message_id"].as_str().unwrap();
    fixture.log_in(&["https://mail.google.com/"], 3_600);
    let read = fixture.data("gmail_read", json!({"id": id, "save_to": "back"}));
    assert_contains(
        &read["messages"][0],
        &json!({
            "from": "<ada@example.com>", "to": "Jürgen <j@example.com>, <b@example.com>", "cc": "<c@example.com>",
            "subject": "Grüße aus Köln", "body": "Schön.\n", "labels": ["SENT"],
            "attachments": [{"name": "Bé.txt", "mime_type": "text/plain", "saved_to": "back/Bé.txt"}],
        }),
    );
    assert_eq!(fixture.workspace.read("back/Bé.txt"), "one\ntwo\n");
    let raw = &fixture.server.sent()[0];
    assert!(raw.contains("Bcc: <d@example.com>") && raw.contains("@example.com>\r\nDate: "), "{raw}");
    assert!(raw.is_ascii() || raw.contains("Content-Transfer-Encoding: 8bit"), "{raw}");
}

#[test]
fn an_answer_goes_on_with_its_conversation() {
    let fixture = Fixture::new();
    fixture.log_in(&["https://mail.google.com/"], 3_600);
    let first = fixture.data("gmail_search", json!({"query": "compiler"}))["results"][0].clone();
    let answer = |subject: Value| json!({"to": "grace@example.com", "body": "Indeed.", "subject": subject, "reply_to_id": first["id"]});
    let sent = fixture.data("gmail_send", answer(Value::Null));
    assert_eq!(sent["thread_id"], first["thread_id"]);
    let raw = fixture.server.sent().pop().unwrap();
    for line in [
        "Subject: Re: The compiler\r\n",
        "In-Reply-To: <a-0@example.com>\r\n",
        "References: <a-0@example.com>\r\n",
    ] {
        assert!(raw.contains(line), "{line}: {raw}");
    }
    // A reply to a reply names both messages.
    let again =
        json!({"to": "grace@example.com", "body": "Yes.", "subject": "", "reply_to_id": sent["message_id"]});
    let again = fixture.data("gmail_send", again);
    assert_eq!(again["thread_id"], first["thread_id"]);
    let raw = fixture.server.sent().pop().unwrap();
    assert!(
        raw.contains("References: <a-0@example.com>") && raw.contains("Subject: Re: The compiler\r\n"),
        "{raw}"
    );
    let elsewhere = fixture.data("gmail_send", answer(json!("Something else")));
    assert_ne!(elsewhere["thread_id"], first["thread_id"]);
    let whole = fixture.data("gmail_read", json!({"thread_id": first["thread_id"]}));
    assert_eq!(subjects(&whole), ["The compiler", "Re: The compiler", "Re: The compiler"]);
    let newest = fixture.data("gmail_read", json!({"thread_id": first["thread_id"], "max_results": 1}));
    assert_eq!(newest["messages"][0]["body"], "Yes.\n".trim_end());
    let sends = fixture.server.sends();
    let gone = fixture.error(
        "gmail_send",
        json!({"to": "a@example.com", "subject": "s", "body": "b", "reply_to_id": "18cffff"}),
    );
    assert_eq!((gone.code, gone.effect), (Code::NotFound, EffectState::None));
    assert!(gone.message.contains("`reply_to_id`"), "{}", gone.message);
    assert_eq!(fixture.server.sends(), sends);
}

#[test]
fn a_dry_run_shows_the_message_and_sends_nothing() {
    let fixture = Fixture::new();
    fixture.workspace.write("a.txt", "12345");
    let mut arguments = to_grace();
    arguments["attachments"] = json!(["a.txt"]);
    arguments["dry_run"] = json!(true);
    let tried = fixture.data("gmail_send", arguments);
    assert_contains(
        &tried,
        &json!({
            "sent": false,
            "would_send": {"from": "ada@example.com", "to": ["Grace Hopper <grace@example.com>"], "subject": "Notes",
                           "attachments": [{"name": "a.txt", "mime_type": "text/plain", "size_bytes": 5}]},
        }),
    );
    assert_eq!(fixture.server.sends(), 0);
}

#[test]
fn a_file_that_is_denied_missing_or_too_large_is_refused_before_anything_is_asked() {
    let workspace = Workspace::new().guarded(DenyNames { read: &[".env"], write: &[] });
    workspace.write(".env", "KEY=secret");
    workspace.folder("folder");
    workspace.sparse("large.bin", 40_000_000);
    workspace.link("out", "../outside");
    let fixture = Fixture::in_workspace(workspace);
    for (path, code, named) in [
        (".env", Code::Permission, ".env"),
        ("gone.txt", Code::NotFound, "gone.txt"),
        ("folder", Code::Validation, "folder"),
        ("large.bin", Code::Validation, "36700160"),
        ("out/x", Code::Permission, "out"),
        ("/etc/passwd", Code::Permission, "passwd"),
    ] {
        let mut arguments = to_grace();
        arguments["attachments"] = json!([path]);
        let error = fixture.error("gmail_send", arguments);
        assert_eq!((error.code, error.effect), (code, EffectState::None), "{path}: {}", error.message);
        assert!(error.message.contains(named), "{path}: {}", error.message);
    }
    assert!(fixture.server.server.seen().is_empty());
}
