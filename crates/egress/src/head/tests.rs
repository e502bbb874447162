//! Tests of the parsing of request heads.

use super::*;

fn parsed(text: &str) -> Result<Head, Refusal> {
    let mut client = PeekedStream::of(text.as_bytes());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(read(&mut client)).map(Option::unwrap)
}

#[test]
fn requests_are_read_in_all_their_forms() {
    let host = |name: &str| Host::parse(name).unwrap();
    let head = parsed("CONNECT A.example.:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n").unwrap();
    assert_eq!(head.target, Target::Connect(host("a.example"), 443));
    assert_eq!(head.host().unwrap(), Some((host("a.example"), Some(443))));
    let head = parsed("GET http://a.example:81/x?y HTTP/1.1\r\nHost: a.example:81\r\n\r\n").unwrap();
    assert_eq!(head.target, Target::Absolute(host("a.example"), 81, "/x?y".to_owned()));
    let head = parsed("POST /x HTTP/1.1\r\nHost: [::1]:8\r\nContent-Length: 12\r\n\r\n").unwrap();
    assert_eq!((head.target, head.framing), (Target::Path("/x".to_owned()), Framing::Length(12)));
    let head = parsed("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n").unwrap();
    assert_eq!(head.framing, Framing::Chunked);
}

#[test]
fn what_two_parsers_could_read_differently_is_refused() {
    for (request, why) in [
        ("GET / HTTP/1.1\nHost: a\n\n", "line feed"),
        ("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", "line feed"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", "carriage return"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", "second line"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", "NUL"),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", "not a valid request"),
        ("GET / HTTP/1.1\r\n\r\n", "0 Host headers"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "2 Host headers"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "2 Host headers"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "twice"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n", "twice"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\n", "not a number"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\n", "not a number"),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "not chunked"),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n", "twice"),
        ("GET / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "obsolete form"),
        ("GET http://user@a/ HTTP/1.1\r\nHost: a\r\n\r\n", "user information"),
        ("GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT"),
        ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "scheme"),
        ("CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", "no port"),
        ("CONNECT a:0 HTTP/1.1\r\nHost: a\r\n\r\n", "port"),
        ("CONNECT 0x7f.1:443 HTTP/1.1\r\nHost: a\r\n\r\n", "127.0.0.1"),
    ] {
        let refusal = parsed(request).map(|head| format!("{head:?}")).unwrap_err();
        assert_eq!(refusal.status, 400, "{request:?}");
        assert!(refusal.reason.contains(why), "{request:?}: {}", refusal.reason);
    }
    let refusal = parsed(&format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(70_000))).unwrap_err();
    assert!(refusal.reason.contains("65536 bytes"), "{}", refusal.reason);
}
