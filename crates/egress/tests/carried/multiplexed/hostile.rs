//! Tests of clients that break off, flood, or speak another protocol.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::mpsc::channel;

use hyper::Request;
use hyper::body::Frame;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use super::{Said, echoing, empty, runtime};
use crate::opened::{HOST, World};

#[test]
fn a_body_that_breaks_off_is_no_whole_one_for_any_server() {
    let (sender, got) = channel();
    let sender = Mutex::new(sender);
    let older = World::before(move |mut stream| {
        let (mut all, mut bytes) = (String::new(), [0; 1000]);
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            all.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
            sender.lock().send((all.clone(), false)).unwrap();
        }
        sender.lock().send((all, true)).unwrap();
    });
    let (world, log) = echoing();
    let has_some = || log.lock().first().is_some_and(|asked| asked.body == "some");
    let begin = |world: &World| {
        let runtime = runtime();
        let (part, body) = Said::by_hand();
        part.try_send(Frame::data("some".into())).unwrap();
        let mut sender = runtime.block_on(world.speak());
        let request = Request::post(world.uri("/")).body(body).unwrap();
        let answer = runtime.spawn(async move { drop(sender.send_request(request).await) });
        (runtime, answer, part)
    };
    let (runtime, answer, _part) = begin(&older);
    runtime.block_on(async {
        let begun = tokio::task::spawn_blocking(move || {
            while !got.recv().unwrap().0.contains("some") {}
            got
        });
        // The client disconnects midway.
        let got = begun.await.unwrap();
        answer.abort();
        let ended = tokio::task::spawn_blocking(move || got.iter().find(|(_, ended)| *ended).unwrap().0);
        let all = ended.await.unwrap();
        assert!(!all.contains("0\r\n\r\n"), "{all}");
    });
    let (runtime, answer, _part) = begin(&world);
    runtime.block_on(async {
        while !has_some() {
            tokio::task::yield_now().await;
        }
        answer.abort();
    });
    drop(runtime);
    // The server connection ended, and its request with it.
    assert!(!log.lock()[0].whole);
}

#[test]
fn heads_are_bounded() {
    let (world, log) = echoing();
    let large = world.get("/").header("x-large", "x".repeat(80 * 1024)).body(empty()).unwrap();
    let many = (0..200).fold(world.get("/"), |request, number| request.header(format!("x-{number}"), "1"));
    for request in [large, many.body(empty()).unwrap()] {
        let status = runtime().block_on(async {
            let answer = world.speak().await.send_request(request).await;
            answer.map_or(0, |answer| answer.status().as_u16())
        });
        assert!([0, 400, 431].contains(&status), "{status}");
    }
    assert!(log.lock().is_empty());
}

/// Builds a frame (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Builds the connection preface and a SETTINGS frame.
fn preface() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[])].concat()
}

/// Builds a head without compression: literal fields without an index (RFC 7541, section 6.2.2).
fn fields(all: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    all.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

/// Sends `first` and then repeated bytes on a connection that negotiated HTTP/2, until the proxy closes it.
fn has_enough_of(world: &World, first: &[u8], mut again: impl FnMut(u32) -> Vec<u8>) {
    let mut stream = std::net::TcpStream::connect(world.proxy).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let connect = format!("CONNECT {HOST}:{0} HTTP/1.1\r\nHost: {HOST}:{0}\r\n\r\n", world.port);
    stream.write_all(connect.as_bytes()).unwrap();
    stream.read_exact(&mut [0; 39]).unwrap();
    let tls = ClientConnection::new(Arc::new(world.offering()), ServerName::try_from(HOST).unwrap()).unwrap();
    let mut stream = StreamOwned::new(tls, stream);
    stream.write_all(first).unwrap();
    for number in 0..200_000 {
        if stream.write_all(&again(number)).and_then(|()| stream.flush()).is_err() {
            return;
        }
    }
    panic!("it takes everything");
}

#[test]
fn who_floods_or_speaks_otherwise_is_let_go_and_others_are_served() {
    let (world, _log) = echoing();
    let authority = format!("{HOST}:{}", world.port);
    let head =
        fields(&[(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", &authority)]);
    // Not HTTP/2 at all; a head without end; requests that are cancelled at once; heads within heads.
    has_enough_of(&world, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", |_| vec![b'x'; 1000]);
    has_enough_of(&world, &[preface(), frame(1, 0, 1, &head)].concat(), |_| {
        frame(9, 0, 1, &fields(&[("x-a", "b")]))
    });
    has_enough_of(&world, &preface(), |number| {
        let stream = number * 2 + 1;
        [frame(1, 5, stream, &head), frame(3, 0, stream, &8_u32.to_be_bytes())].concat()
    });
    has_enough_of(&world, &preface(), |_| frame(1, 4, 2, &head));
    has_enough_of(&world, &preface(), |_| frame(0, 0, 1, b"data of no request"));
    let (status, ..) = world.one(world.get("/").body(empty()).unwrap());
    assert_eq!(status, 200);
}
