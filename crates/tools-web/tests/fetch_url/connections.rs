//! Targets of connections, and leftover bytes on them.

use fetch::address::Host;
use fetch::web::Web;
use serde_json::json;
use testkit::web::{Authority, Reply, Server};
use tool::Code;

use crate::{Fixture, Rules, SECRET, echo};

#[test]
fn a_certificate_has_to_be_of_the_host_and_of_a_trusted_authority() {
    let (trusted, other) = (Authority::new(), Authority::new());
    let good = Server::https(&trusted, "a.example", echo);
    let wrong_name = Server::https(&trusted, "b.example", echo);
    let unknown = Server::https(&other, "a.example", echo);
    let plain = Server::http(echo);
    let fetch = |server: &Server| {
        let host = Host::parse("a.example").unwrap();
        let web = Web::trusting(vec![trusted.certificate()]).connecting(host, 443, server.address);
        Fixture::with(Rules::default(), web)
            .fetch(json!({"url": "https://a.example/", "headers": {"Authorization": "$API_KEY"}}))
    };
    assert_eq!(fetch(&good).unwrap()["data"]["headers"]["authorization"], SECRET);
    for server in [&wrong_name, &unknown, &plain] {
        let error = fetch(server).unwrap_err();
        assert_eq!(error.code, Code::Unavailable, "{error:?}");
        assert!(server.seen().iter().all(|request| !format!("{request:?}").contains(SECRET)));
    }
}

#[test]
fn connections_are_used_again_and_a_smuggled_answer_is_not_the_next_one() {
    let server = Server::http(|request| match request.path.as_str() {
        // A second answer after the first, for the next request on this connection.
        "/smuggled" => {
            let mut reply = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec();
            reply.extend(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil");
            Reply::hanging(reply)
        }
        "/both" => Reply::raw(
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ),
        "/two-lengths" => Reply::raw("HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 4\r\n\r\nevil"),
        _ => Reply::json("\"good\""),
    });
    let fixture = Fixture::new();
    let fetch = |path: &str| fixture.fetch(json!({"url": server.url(path), "timeout": 20}));
    assert_eq!(fetch("/smuggled").unwrap()["data"], "ok");
    assert_eq!(fetch("/next").unwrap()["data"], "good");
    assert_eq!(fetch("/both").unwrap()["data"], "ok");
    assert_eq!(fetch("/two-lengths").unwrap_err().code, Code::Runtime);
    assert_eq!(fetch("/next").unwrap()["data"], "good");
}
