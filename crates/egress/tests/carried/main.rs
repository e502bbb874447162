//! Tests of the proxy's traffic, allowed and refused. All bytes are written by hand.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, in its helpers too")]

mod multiplexed;
mod opened;
mod support;

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use egress::Way;
use rustls::pki_types::ServerName;
use support::{World, ask, connect, recording, server};

/// Builds a TLS hello with this name; a hello for an address has no name.
fn hello(name: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// Splits the hello into records of one byte each.
fn in_tiny_records(hello: &[u8]) -> Vec<u8> {
    hello[5..].iter().flat_map(|byte| [22, 3, 1, 0, 1, *byte]).collect()
}

/// Starts a server that reports the length of its input and the first byte.
fn echo() -> u16 {
    server(|mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(format!("{} bytes, first {}", all.len(), all[0]).as_bytes()).unwrap();
    })
}

fn tunnel(world: &World, host: &str, port: u16, through: &[u8]) -> String {
    let mut said = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n").into_bytes();
    said.extend_from_slice(through);
    ask(world.proxy, &said)
}

#[test]
fn tls_goes_through_untouched_and_each_half_ends_by_itself() {
    let world = World::allowing(&["a.test"]);
    let port = echo();
    for hello in [hello("a.test"), in_tiny_records(&hello("a.test")), hello("A.test")] {
        let answer = tunnel(&world, "a.test", port, &hello);
        let expected = format!("HTTP/1.1 200 Connection established\r\n\r\n{} bytes, first 22", hello.len());
        // The server answers only after the client's half is closed, which the proxy passes on.
        assert_eq!(answer, expected);
    }
    assert_eq!(world.allowed(), ["a.test"; 3]);
    assert_eq!(*world.gate.resolver.asked.lock(), ["a.test"; 3], "looked up once for each");
}

#[test]
fn connect_and_the_name_in_the_hello_must_be_one() {
    let world = World::allowing(&["a.test", "b.test", "127.0.0.1"]);
    let port = echo();
    for (host, named, why) in [
        ("a.test", "b.test", "names b.test"),
        ("a.test", "127.0.0.1", "names no host"),
        ("127.0.0.1", "a.test", "names a.test"),
    ] {
        for hello in [hello(named), in_tiny_records(&hello(named))] {
            let answer = tunnel(&world, host, port, &hello);
            assert!(!answer.contains("bytes, first"), "{host} {named}: {answer}");
            assert!(world.refusals().last().unwrap().contains(why), "{:?}", world.refusals());
        }
    }
    assert!(tunnel(&world, "127.0.0.1", port, &hello("127.0.0.1")).contains("first 22"));
}

#[test]
fn what_is_not_listed_is_refused_with_a_line_of_text() {
    let world = World::allowing(&["a.test"]);
    let port = echo();
    for host in ["b.test", "a.test.evil.test", "xn--80ak6aa92e.test", "[::1]", "127.0.0.1"] {
        let answer = tunnel(&world, host, port, b"");
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{host}: {answer}");
        assert!(answer.contains("\r\n\r\nhandfast: ") && answer.ends_with("is not listed\n"), "{answer}");
    }
    // Look-alikes, and other spellings of addresses, match no listed host.
    for host in ["\u{430}.test", "user@a.test", "0x7f000001", "2130706433", "a.test%00", "a.test\0"] {
        let answer = tunnel(&world, host, port, b"");
        assert!(!answer.contains("200") && !answer.is_empty(), "{host:?}: {answer}");
    }
    assert!(world.allowed().is_empty());
    assert!(tunnel(&world, "A.TEST.", port, &hello("a.test")).contains("first 22"));
}

#[test]
fn an_address_has_one_form_in_brackets_too_and_a_zone_is_none() {
    let world = World::allowing(&["127.0.0.1"]);
    let port = echo();
    // An IPv4-mapped IPv6 address is the IPv4 address, both for the lists and for the dialler.
    for host in ["127.0.0.1", "[::ffff:127.0.0.1]", "[::FFFF:7f00:1]"] {
        let answer = tunnel(&world, host, port, &hello("127.0.0.1"));
        assert!(answer.contains("first 22"), "{host}: {answer}");
    }
    assert_eq!(world.allowed(), ["127.0.0.1"; 3]);
    for host in ["[::1]", "[::]", "[fe80::1]", "[64:ff9b::7f00:1]", "[::127.0.0.1]"] {
        let answer = tunnel(&world, host, port, &hello("127.0.0.1"));
        assert!(answer.starts_with("HTTP/1.1 403 "), "{host}: {answer}");
    }
    // The zone of an address has a meaning on one machine only.
    for host in [
        "[fe80::1%25lo]",
        "[fe80::1%lo]",
        "[::ffff:127.0.0.1%25lo]",
        "::1",
        "[::1",
        "[127.0.0.1]",
        "[]",
        "[v1.a]",
    ] {
        let answer = tunnel(&world, host, port, &hello("127.0.0.1"));
        assert!(answer.starts_with("HTTP/1.1 400 "), "{host}: {answer}");
    }
    let (port, _kept) = recording();
    let plain = format!("GET http://[::ffff:127.0.0.1]:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    assert!(world.ask(&plain).ends_with("hello"));
    assert_eq!(world.allowed().len(), 4);
}

#[test]
fn an_endless_answer_ends_with_who_wanted_it() {
    let world = World::allowing(&["a.test"]);
    let (sender, ended) = std::sync::mpsc::channel();
    let sender = parking_lot::Mutex::new(sender);
    let port = server(move |mut stream| {
        let _head = stream.read(&mut [0; 1024]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        let part = vec![b'x'; 65_536];
        while stream.write_all(&part).is_ok() {}
        sender.lock().send(()).unwrap();
    });
    let mut stream = connect(world.proxy);
    let said = format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n");
    stream.write_all(said.as_bytes()).unwrap();
    let mut part = vec![0; 65536];
    let mut read = 0;
    while read < 10 << 20 {
        read += stream.read(&mut part).unwrap();
    }
    drop(stream);
    ended.recv_timeout(Duration::from_secs(20)).unwrap();
}

#[test]
fn a_name_that_leads_into_a_private_network_is_not_dialled() {
    let world = World::of(&["a.test"], false);
    let (port, kept) = recording();
    let answer = tunnel(&world, "a.test", port, &hello("a.test"));
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("127.0.0.1"), "{answer}");
    assert_eq!(*kept.lock(), "");
    assert!(world.refusals()[0].contains("not on the public internet"));
}

#[test]
fn a_program_that_knows_no_proxy_is_carried_by_the_name_in_its_hello_or_request() {
    let world = World::allowing(&["a.test"]);
    // No server listens at this port: the refusal shows the destination.
    let answer = ask(world.everywhere, &hello("b.test"));
    assert_eq!(answer.as_bytes()[0], 21, "an alert");
    assert!(world.refusals()[0].contains("b.test is not listed"));
    let port = world.everywhere.port();
    let answer = ask(world.everywhere, b"GET / HTTP/1.1\r\nHost: b.test\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400 ") || answer.starts_with("HTTP/1.1 403 "), "{answer}");
    let named = format!("GET / HTTP/1.1\r\nHost: b.test:{port}\r\n\r\n");
    assert!(ask(world.everywhere, named.as_bytes()).contains("b.test is not listed"));
    let other = format!("GET / HTTP/1.1\r\nHost: a.test:{}\r\n\r\n", port ^ 1);
    assert!(ask(world.everywhere, other.as_bytes()).contains("names another"));
    assert!(world.allowed().is_empty());
}

#[test]
fn requests_of_one_connection_are_judged_one_by_one() {
    let world = World::allowing(&["a.test"]);
    let (port, kept) = recording();
    let request = |host: &str| format!("GET http://{host}:{port}/x HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
    let answer = world.ask(&format!("{}{}{}", request("a.test"), request("a.test"), request("b.test")));
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 2, "{answer}");
    assert!(
        answer.contains("HTTP/1.1 403 Forbidden") && answer.ends_with("b.test is not listed\n"),
        "{answer}"
    );
    let kept = kept.lock().clone();
    assert_eq!(kept.matches("GET /x HTTP/1.1\r\n").count(), 2, "{kept}");
    assert_eq!(world.allowed().len(), 1, "both went over one connection");
}

#[test]
fn the_url_the_header_and_the_tunnel_must_name_one_host() {
    let world = World::allowing(&["a.test", "b.test"]);
    let (port, kept) = recording();
    let answer = world.ask(&format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: b.test:{port}\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    let through = format!("GET / HTTP/1.1\r\nHost: b.test:{port}\r\n\r\n");
    let answer = tunnel(&world, "a.test", port, through.as_bytes());
    assert!(answer.contains("HTTP/1.1 403 "), "{answer}");
    let answer = world.ask(&format!("CONNECT a.test:{port} HTTP/1.1\r\nHost: b.test:{port}\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert_eq!(*kept.lock(), "");
    let through = format!("GET / HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n");
    assert!(tunnel(&world, "a.test", port, through.as_bytes()).ends_with("hello"));
    assert!(kept.lock().starts_with("GET / HTTP/1.1\r\n"));
}

#[test]
fn nothing_that_two_parsers_read_differently_gets_to_a_server() {
    let world = World::allowing(&["a.test"]);
    let (port, kept) = recording();
    let url = format!("http://a.test:{port}/");
    let host = format!("Host: a.test:{port}\r\n");
    for request in [
        format!("POST {url} HTTP/1.1\r\n{host}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\nbody"),
        format!("GET {url} HTTP/1.1\r\n{host}{host}\r\n"),
        format!("GET {url} HTTP/1.1\n{host}\n"),
        format!("GET {url} HTTP/1.1\r\n{host}X: y\r\n z\r\n\r\n"),
        format!("POST {url} HTTP/1.1\r\n{host}Transfer-Encoding: xchunked\r\n\r\nbody"),
    ] {
        let answer = world.ask(&request);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{request:?}: {answer}");
    }
    assert_eq!(*kept.lock(), "");
    for body in ["zz\r\nbody", "4\nbody\r\n0\r\n\r\n", "4\r\nbodyX\r\n0\r\n\r\n", "-4\r\nbody", "0x4\r\nbody"]
    {
        let head = format!("POST {url} HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n");
        let answer = world.ask(&format!("{head}{body}"));
        assert!(!answer.contains("200 OK"), "{body:?}: {answer}");
    }
    let head = format!("POST {url} HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n");
    let answer = world.ask(&format!("{head}4;x=y\r\nbody\r\n0\r\nTrailer: t\r\n\r\n"));
    assert!(answer.ends_with("hello"), "{answer}");
}

#[test]
fn headers_that_count_between_neighbours_stay_with_them() {
    let world = World::allowing(&["a.test"]);
    let (port, kept) = recording();
    let answer = world.ask(&format!(
        "GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\nConnection: close, X-Mine, Host\r\nX-Mine: 1\r\n\
         Proxy-Authorization: Basic eDp5\r\nUpgrade: websocket\r\nX-Kept: 2\r\n\r\n"
    ));
    assert!(answer.contains("connection: close\r\n") && answer.ends_with("hello"), "{answer}");
    let kept = kept.lock().to_lowercase();
    for gone in ["x-mine", "proxy-authorization", "upgrade", "connection"] {
        assert!(!kept.contains(gone), "{gone} in {kept}");
    }
    assert!(kept.contains("x-kept: 2") && kept.contains(&format!("host: a.test:{port}")), "{kept}");
}

#[test]
fn what_is_neither_tls_nor_http_goes_nowhere() {
    let world = World::allowing(&["a.test"]);
    let (port, kept) = recording();
    let answer = tunnel(&world, "a.test", port, b"SSH-2.0-OpenSSH_9.0\r\n");
    assert!(answer.contains("HTTP/1.1 400 "), "{answer}");
    assert_eq!(*kept.lock(), "");
}

#[test]
fn a_body_is_carried_in_both_directions_whatever_its_length() {
    const LENGTH: usize = 3_000_000;
    let world = World::allowing(&["a.test"]);
    let port = server(|mut stream| {
        let mut all = Vec::new();
        let mut bytes = vec![0; 65536];
        while !all.ends_with(b"\r\n0\r\n\r\n") {
            let count = stream.read(&mut bytes).unwrap();
            all.extend_from_slice(&bytes[..count]);
        }
        let sent = String::from_utf8_lossy(&all).matches('~').count();
        let head = format!("HTTP/1.1 200 OK\r\nX-Sent: {sent}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&vec![b'd'; LENGTH]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
    });
    let mut request = format!(
        "PUT http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\nTransfer-Encoding: chunked\r\n\r\n{LENGTH:x}\r\n"
    );
    request.push_str(&"~".repeat(LENGTH));
    request.push_str("\r\n0\r\n\r\n");
    let answer = world.ask(&request);
    assert!(answer.contains(&format!("x-sent: {LENGTH}")), "{}", &answer[..200]);
    assert!(answer.matches('d').count() >= LENGTH);
    assert!(answer.ends_with("0\r\n\r\n"), "it is known that it came whole");
}

#[test]
fn an_answer_that_breaks_off_is_not_taken_for_whole() {
    let world = World::allowing(&["a.test"]);
    let port = server(|mut stream| {
        let mut bytes = [0; 1024];
        let _head = stream.read(&mut bytes).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n").unwrap();
    });
    let answer = world.ask(&format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n"));
    assert!(answer.contains("hello") && !answer.ends_with("0\r\n\r\n"), "{answer}");
}

/// Builds a name query for this record type.
fn question(name: &str, kind: u8) -> Vec<u8> {
    let mut bytes = vec![7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.extend_from_slice(&[0, 0, kind, 0, 1]);
    bytes
}

fn look_up(world: &World, question: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.connect(world.names).unwrap();
    socket.send(question).unwrap();
    let mut bytes = [0; 512];
    let count = socket.recv(&mut bytes).unwrap();
    bytes[..count].to_vec()
}

#[test]
fn names_that_are_listed_have_an_address_and_no_question_leaves() {
    let world = World::allowing(&["a.test", "b.test"]);
    let address = |answer: &[u8]| IpAddr::from(<[u8; 4]>::try_from(&answer[answer.len() - 4..]).unwrap());
    let first = look_up(&world, &question("a.test", 1));
    assert_eq!(&first[..4], [7, 9, 0x85, 0x80]);
    assert_eq!(address(&first).to_string(), "198.18.0.1");
    assert_eq!(address(&look_up(&world, &question("b.test", 1))).to_string(), "198.18.0.2");
    assert_eq!(address(&look_up(&world, &question("A.tEst", 1))).to_string(), "198.18.0.1");
    let of_version_six = look_up(&world, &question("a.test", 28));
    assert_eq!((of_version_six[3] & 15, of_version_six[7]), (0, 0), "it exists and has no such record");
    for name in ["c.test", "exfiltrated-0123456789.a.test", "test"] {
        let answer = look_up(&world, &question(name, 1));
        assert_eq!((answer[3] & 15, answer[7]), (3, 0), "{name}");
    }
    assert!(world.gate.resolver.asked.lock().is_empty());
    let met = world.gate.met.lock().clone();
    assert!(met.iter().all(|met| met.way == Way::Name && met.refused.is_some()), "{met:?}");
    assert_eq!(met.len(), 3);
}

#[test]
fn what_is_no_question_gets_no_answer_and_the_next_one_does() {
    let world = World::allowing(&["a.test"]);
    let good = question("a.test", 1);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.connect(world.names).unwrap();
    let mut endless = good[..12].to_vec();
    endless.extend_from_slice(&[0xc0, 12]);
    let mut several = good.clone();
    several[5] = 2;
    for bad in [&b""[..], &good[..11], &good[..good.len() - 1], &endless, &several, &[255; 512]] {
        socket.send(bad).unwrap();
    }
    socket.send(&good).unwrap();
    let mut bytes = [0; 512];
    let count = socket.recv(&mut bytes).unwrap();
    assert_eq!(bytes[..count][count - 4..], [198, 18, 0, 1]);
}

#[test]
fn nothing_listens_when_what_served_it_is_gone() {
    let world = World::allowing(&["a.test"]);
    let port = echo();
    let mut open = connect(world.proxy);
    open.write_all(format!("CONNECT a.test:{port} HTTP/1.1\r\nHost: a.test\r\n\r\n").as_bytes()).unwrap();
    open.write_all(&hello("a.test")).unwrap();
    let mut bytes = [0; 39];
    open.read_exact(&mut bytes).unwrap();
    drop(world);
    // Open connections end with the server.
    let mut rest = Vec::new();
    let _reset = open.read_to_end(&mut rest);
    assert_eq!(rest, b"");
}
