//! Validity of all requests by Google's discovery document of Gmail.
//!
//! Every request, and every answer of the test server, is checked against the server's part of the
//! document. If `HANDFAST_GMAIL_DISCOVERY` names a file with the published document, they are
//! checked against that too.

use crate::fakes::gmail::Discovery;
use serde_json::json;
use testkit::web::Request;

use crate::gmail::Fixture;

fn published() -> Option<Discovery> {
    let path = std::env::var_os("HANDFAST_GMAIL_DISCOVERY")?;
    Some(Discovery::parse(&std::fs::read_to_string(path).unwrap()))
}

#[test]
fn every_request_and_every_answer_is_good_by_the_document() {
    let fixture = Fixture::new();
    fixture.log_in(&["https://mail.google.com/"], 3_600);
    fixture.workspace.write("a.txt", "12345");
    let id = fixture.server.deliver(
        "Subject: s\r\nContent-Type: multipart/mixed; boundary=xx\r\n\r\n--xx\r\n\r\nText.\r\n--xx\r\n\
         Content-Type: image/png\r\nContent-Disposition: attachment; filename=p.png\r\n\r\nxx\r\n--xx--\r\n",
    );
    for (tool, arguments) in [
        ("gmail_search", json!({"query": "s ü & = + # from:x"})),
        ("gmail_search", json!({"query": "", "max_results": 1})),
        ("gmail_search", json!({"query": "", "page_token": "page-1"})),
        ("gmail_read", json!({"id": id, "save_to": "in"})),
        ("gmail_read", json!({"thread_id": id})),
        ("gmail_read", json!({"query": "text"})),
        (
            "gmail_send",
            json!({"to": "a@example.com", "subject": "s", "body": "b", "attachments": ["a.txt"], "reply_to_id": id}),
        ),
        ("gmail_send", json!({"to": "a@example.com", "subject": "ü", "body": "b", "html": "<b>"})),
    ] {
        fixture.data(tool, arguments);
    }
    let requests: Vec<Request> =
        fixture.server.server.seen().into_iter().filter(|request| request.path != "/token").collect();
    let mut documents = vec![Discovery::own()];
    documents.extend(published());
    for document in &documents {
        let mut methods = Vec::new();
        for request in &requests {
            methods.push(
                document.asked(request).unwrap_or_else(|fault| panic!("{}: {fault}", request.path)).method,
            );
        }
        for method in ["list", "get", "attachments.get", "send"] {
            assert!(methods.contains(&format!("gmail.users.messages.{method}")), "nothing asks for {method}");
        }
        assert!(methods.contains(&"gmail.users.threads.get".to_owned()));
    }
    let request = |method: &str, path: &str| Request {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
    };
    for (method, path) in [
        ("GET", "/gmail/v1/users/me/messages?shoeSize=47"),
        ("GET", "/gmail/v1/users/me/messages?maxResults=many"),
        ("GET", "/gmail/v1/users/me/messages?q=a&q=b"),
        ("GET", "/gmail/v1/users/me/messages/1?format=long"),
        ("GET", "/gmail/v1/users/me/shoes"),
        ("DELETE", "/gmail/v1/users/me/messages"),
        ("POST", "/upload/gmail/v1/users/me/messages/send?uploadType=simple"),
    ] {
        for document in &documents {
            assert!(document.asked(&request(method, path)).is_err(), "{method} {path} passes");
        }
    }
    for document in &documents {
        let fault = |answer| document.answer_fault("gmail.users.messages.get", &answer);
        assert_eq!(
            fault(json!({"id": "1", "internalDate": "7", "payload": {"parts": [{"body": {"size": 1}}]}})),
            None
        );
        for answer in [json!({"id": 1}), json!({"shoeSize": 47}), json!({"internalDate": "soon"}), json!([])]
        {
            assert!(fault(answer.clone()).is_some(), "{answer} passes");
        }
    }
}

#[test]
fn the_part_of_the_document_is_a_part_of_the_published_one() {
    let own = Discovery::own();
    let published = published().unwrap_or_else(Discovery::own);
    assert_eq!(own.beyond(&published), Vec::<String>::new());
    let other =
        Discovery::parse(r#"{"methods": {}, "schemas": {"Profile": {"type": "object"}}, "parameters": {}}"#);
    let found = own.beyond(&other);
    for what in ["gmail.users.messages.send", "schemas.Profile.properties"] {
        assert!(found.iter().any(|found| found.contains(what)), "{what} in {found:?}");
    }
}
