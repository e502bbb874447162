//! Requests, and the hosts that receive them.

use std::sync::Arc;

use fetch::web::Web;
use serde_json::{Value, json};
use testkit::web::{Reply, Server};
use tool::{Code, Context, EffectState};
use tool_support::EnvironmentSecrets;
use vault::{HostRule, RequestPart, RequestParts, SecretBytes};

use crate::{Fixture, Rules, SECRET, echo, vault};

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
    // The server answers a call that may dial it.
    assert!(Fixture::new().fetch(json!({"url": server.url("/")})).is_ok());
}

/// Creates a fixture whose secret is allowed in the query and in the body, but not in headers.
fn beyond_headers() -> (Fixture, tempfile::TempDir, Context) {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new();
    let mut context = fixture.workspace.context();
    let value = "a&b \"\\0123456789";
    let vault = vault(folder.path(), RequestParts::of(&[RequestPart::Query, RequestPart::Body]));
    let hosts = Some(HostRule::parse_all(["localhost"]).unwrap());
    let places = Some(RequestParts::of(&[RequestPart::Query, RequestPart::Body]));
    let change = vault::Change { hosts, places, ..vault::Change::named("ODD").unwrap() };
    vault.set(&change, value.as_bytes(), jiff::Timestamp::UNIX_EPOCH).unwrap();
    context.services.insert(vault);
    (fixture, folder, context)
}

#[test]
fn a_secret_that_is_listed_goes_into_the_query_and_the_body_as_each_is_written() {
    let server = Server::http(echo);
    let (fixture, _folder, context) = beyond_headers();
    let send = |arguments: Value| fixture.fetch_in(&context, arguments).unwrap();
    let url = server.url("/x?$filter=a&key=$ODD&$ODDER=${ODD}");
    let sent = send(json!({"url": url, "secrets": ["ODD"]}));
    let odd = "a%26b%20%22%5C0123456789";
    assert_eq!(sent["data"]["path"], format!("/x?$filter=a&key={odd}&$ODDER={odd}"));
    // The result shows the URL as it was given.
    assert!(sent["url"].as_str().unwrap().contains("key=$ODD&"), "{}", sent["url"]);
    let post = |body: Value, kind: Option<&str>| {
        let headers = kind.map_or(json!({}), |kind| json!({"Content-Type": kind}));
        let arguments = json!({
            "url": server.url("/"), "method": "POST", "headers": headers, "body": body, "secrets": ["ODD", "API_KEY"]
        });
        send(arguments)["data"]["body"].as_str().unwrap().to_owned()
    };
    let json = post(json!({"a": ["$ODD"], "$ODD": "$$API_KEY $OTHER"}), None);
    let parsed: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(parsed, json!({"a": ["a&b \"\\0123456789"], "$ODD": format!("${SECRET} $OTHER")}));
    assert_eq!(post(json!("$ODD$API_KEY"), None), format!("a&b \"\\0123456789{SECRET}"));
    let form = post(json!("k=$ODD&l=$API_KEY"), Some("application/x-www-form-urlencoded"));
    assert_eq!(form, format!("k={odd}&l={SECRET}"));
    let written = post(json!("{\"k\": \"$ODD\", \"l\": \"$API_KEY\"}"), Some("application/ld+json; a=b"));
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap()["k"], "a&b \"\\0123456789");
    // A name that is not listed is literal text.
    let plain = send(json!({"url": server.url("/?k=$ODD"), "method": "POST", "body": "$API_KEY"}));
    assert_eq!((&plain["data"]["path"], &plain["data"]["body"]), (&json!("/?k=$ODD"), &json!("$API_KEY")));
}

#[test]
fn a_secret_beyond_headers_is_refused_where_it_does_not_belong_and_nothing_is_sent() {
    let server = Server::http(echo);
    let fixture = Fixture::new();
    for (arguments, code, said) in [
        // The vault allows the secret in headers only.
        (json!({"url": server.url("/?k=$API_KEY")}), Code::Permission, "in the query"),
        (
            json!({"url": server.url("/"), "method": "POST", "body": {"k": "$API_KEY"}}),
            Code::Permission,
            "in the body",
        ),
        (json!({"url": server.url("/$API_KEY")}), Code::Validation, "in the path"),
        (json!({"url": server.url("/?k=$API_KEYS")}), Code::Validation, "neither in the query"),
    ] {
        let mut arguments = arguments;
        arguments["secrets"] = json!(["API_KEY"]);
        let error = fixture.fetch(arguments.clone()).unwrap_err();
        assert_eq!(error.code, code, "{arguments}: {error:?}");
        assert!(error.message.contains(said), "{arguments}: {}", error.message);
        assert!(!format!("{error:?}").contains(SECRET));
    }
    assert!(server.seen().is_empty());
}

#[test]
fn a_body_with_a_secret_follows_no_redirection_to_another_origin() {
    let other = Server::http(echo);
    let to = other.url("/stolen?k=$API_KEY");
    let server = Server::http(move |request| match request.path.as_str() {
        "/away" => Reply::redirect(307, &to),
        "/here" => Reply::redirect(308, "/echo?k=$API_KEY"),
        _ => echo(request),
    });
    let (fixture, _folder, context) = beyond_headers();
    let post = |path: &str| {
        let arguments =
            json!({"url": server.url(path), "method": "POST", "body": "$API_KEY", "secrets": ["API_KEY"]});
        fixture.fetch_in(&context, arguments)
    };
    let error = post("/away").unwrap_err();
    assert_eq!((error.code, error.effect), (Code::Permission, EffectState::Maybe));
    assert!(error.message.contains("the body has a secret"), "{}", error.message);
    assert!(other.seen().is_empty());
    // The URL of a redirection is the server's own text, so it contains no placeholder.
    let here = post("/here").unwrap();
    assert_eq!((&here["data"]["path"], &here["data"]["body"]), (&json!("/echo?k=$API_KEY"), &json!(SECRET)));
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
        (server.url("/"), "$OTHER_KEY", "is not stored"),
    ] {
        let error = fixture.fetch(json!({"url": url, "headers": {"X": header}})).unwrap_err();
        assert_eq!(error.code, Code::Permission);
        assert!(error.message.contains(said), "{}", error.message);
        assert!(!format!("{error:?}").contains(SECRET));
    }
    let folder = tempfile::tempdir().unwrap();
    let only_body = vault(folder.path(), RequestParts::of(&[RequestPart::Body]));
    let mut context = fixture.workspace.context();
    context.services.insert(only_body);
    let error = fixture
        .fetch_in(&context, json!({"url": server.url("/"), "headers": {"X": "$API_KEY"}}))
        .unwrap_err();
    assert_eq!(error.code, Code::Permission);
    assert_eq!(server.seen().len(), 1, "what is refused sends nothing");
}

#[test]
fn a_variable_that_is_listed_goes_to_its_hosts_before_the_vault_is_asked() {
    let server = Server::http(echo);
    let fixture = Fixture::new();
    let entry = |hosts: &[&str]| {
        let hosts = HostRule::parse_all(hosts.iter().copied()).unwrap();
        ("API_KEY".to_owned(), SecretBytes::copy_of(b"from-the-environment"), hosts)
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
    assert!(moved["data"]["headers"].get("content-type").is_none(), "{moved}");
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
        ("http://0x7f.1/", "spelling of the address 127.0.0.1"),
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
