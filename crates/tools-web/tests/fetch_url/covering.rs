//! Secrets that a server sends back.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use testkit::web::{Reply, Server};
use tool::Code;

use crate::{Fixture, MARKED, Rules, SECRET};

/// Returns a body of three megabytes with the secret at many places, also across borders of pieces.
fn body() -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < 3 * 1024 * 1024 {
        body.resize(body.len() + 1000 + body.len() % 77, b'.');
        body.extend_from_slice(SECRET.as_bytes());
    }
    body
}

fn covered(body: &[u8]) -> String {
    String::from_utf8(body.to_vec()).unwrap().replace(SECRET, "[SECRET:API_KEY]")
}

#[test]
fn a_secret_that_comes_back_is_covered_in_the_file_in_whatever_pieces_it_comes() {
    let body = body();
    let served = body.clone();
    let server = Server::http(move |request| match request.path.as_str() {
        "/at-once" => Reply::of(200, &[], &served),
        // The chunks split each secret at a different place.
        _ => {
            let mut bytes = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
            for piece in served[..200_000].chunks(13) {
                bytes.extend(format!("{:x}\r\n", piece.len()).into_bytes());
                bytes.extend(piece);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n\r\n");
            Reply::raw(bytes)
        }
    });
    let fixture = Fixture::new();
    for (path, whole) in [("/at-once", &body[..]), ("/in-pieces", &body[..200_000])] {
        let context = fixture.workspace.context();
        let saved = fixture.fetch_in(&context, json!({"url": server.url(path), "save_to": "f"})).unwrap();
        assert!(fixture.workspace.read("f") == covered(whole), "{path}");
        assert_eq!(saved["size_bytes"], whole.len());
        assert!(context.take_warnings()[0].contains("are redacted in the file"));
    }
}

#[test]
fn a_secret_in_which_a_body_breaks_off_is_covered_when_the_rest_comes() {
    let body = body();
    let cut =
        (2 * 1024 * 1024..body.len()).find(|at| body[..*at].ends_with(&SECRET.as_bytes()[..9])).unwrap();
    let (served, asked) = (body.clone(), AtomicUsize::new(0));
    let server = Server::http(move |request| {
        let range = format!("bytes {cut}-{}/{}", served.len() - 1, served.len());
        if asked.fetch_add(1, Ordering::SeqCst) == 0 {
            let head = format!("HTTP/1.1 200 OK\r\netag: \"a\"\r\ncontent-length: {}\r\n\r\n", served.len());
            return Reply::raw([head.as_bytes(), &served[..cut]].concat()).closing();
        }
        assert_eq!(request.header("range"), format!("bytes={cut}-"));
        Reply::of(206, &[("etag", "\"a\""), ("content-range", &range)], &served[cut..])
    });
    let fixture = Fixture::new();
    let saved = fixture.fetch(json!({"url": server.url("/f"), "save_to": "f"})).unwrap();
    assert_eq!(saved["size_bytes"], body.len());
    assert!(fixture.workspace.read("f") == covered(&body));
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn a_secret_is_in_no_page_whatever_its_format_makes_of_it() {
    let href = "/x?a=";
    let page = format!(
        "<html><body><p>{MARKED}</p><p>sk_test_<b>*0123*</b>_[456]</p><a href='{href}{MARKED}'>l</a><i>{SECRET}</i></body></html>"
    );
    let whole =
        format!("<html><body><p>{MARKED}</p><a title='{MARKED}' href='{href}{SECRET}'>l</a></body></html>");
    let served = (page.clone(), whole.clone());
    let server = Server::http(move |request| {
        let page = if request.path == "/split" { &served.0 } else { &served.1 };
        Reply::of(200, &[("content-type", "text/html")], page)
    });
    let fixture = Fixture::new();
    let shown = |path: &str, format: &str| {
        let answer = fixture.fetch(json!({"url": server.url(path), "format": format})).unwrap();
        answer["data"].as_str().unwrap().to_owned()
    };
    for path in ["/split", "/whole"] {
        let markdown = shown(path, "markdown");
        assert!(markdown.contains("SECRET:"), "{markdown}");
        let read = markdown.replace(['\\', '*'], "");
        assert!(!read.contains(&MARKED.replace('*', "")) && !read.contains(SECRET), "{markdown}");
    }
    // The engine covers secrets in a raw answer.
    assert_eq!(shown("/whole", "raw"), whole);
}

#[test]
fn a_redirection_that_holds_a_secret_leads_to_no_other_origin() {
    let far = Server::http(|_| Reply::of(200, &[], "far"));
    let to = far.url("/");
    let server = Server::http(move |request| match request.path.as_str() {
        "/away" => Reply::redirect(302, &format!("{to}?key={SECRET}")),
        "/plain" => Reply::redirect(302, &to),
        "/here" => Reply::redirect(302, &format!("/there?key={SECRET}")),
        _ => Reply::of(200, &[], "here"),
    });
    let fixture = Fixture::new();
    let refused = fixture.fetch(json!({"url": server.url("/away")})).unwrap_err();
    assert_eq!(refused.code, Code::Permission);
    assert!(refused.message.contains("the URL has a secret"), "{}", refused.message);
    assert!(far.seen().is_empty());
    for (path, said) in [("/plain", "far"), ("/here", "here")] {
        assert_eq!(fixture.fetch(json!({"url": server.url(path)})).unwrap()["data"], said);
    }
}

#[test]
fn a_secret_goes_to_a_public_address_over_tls_alone() {
    let fixture = Fixture::with(Rules { any: true, ..Rules::default() }, fetch::web::Web::default());
    let with = |url: &str, more: Value| {
        let mut arguments = json!({"url": url});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fixture.fetch(arguments)
    };
    // Documentation addresses are not public, and these addresses are never dialled.
    for url in ["http://1.1.1.1/", "http://[2606:4700::1111]:8080/"] {
        let refused = with(url, json!({"headers": {"Authorization": "$LITERAL"}})).unwrap_err();
        assert_eq!(refused.code, Code::Permission, "{refused:?}");
        assert!(refused.message.contains("where http is not private"), "{}", refused.message);
        assert!(refused.hint.unwrap().contains("use https"));
    }
    let server = Server::http(|_| Reply::of(200, &[], "here"));
    let url = server.url("/").replace("127.0.0.1", "localhost");
    let answer = with(&url, json!({"headers": {"Authorization": "$API_KEY"}})).unwrap();
    assert_eq!(answer["data"], "here");
    assert_eq!(server.seen()[0].header("authorization"), SECRET);
}

#[test]
fn with_a_secret_no_part_of_an_answer_is_asked_for() {
    let fixture = Fixture::new();
    for name in ["Range", "if-range"] {
        let headers = json!({"Authorization": "$API_KEY", name: "bytes=0-9"});
        let refused = fixture.fetch(json!({"url": "https://a.example/", "headers": headers})).unwrap_err();
        assert_eq!(refused.code, Code::Validation);
        assert!(refused.hint.unwrap().contains("omit Range"));
    }
}
