//! Tests of opened HTTP/2 connections: the rules of HTTP/1.1, for concurrent requests.

mod hostile;
mod judged;

use std::convert::Infallible;
use std::io::{Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Poll};

use base64::Engine as _;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, StreamOwned};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::opened::{COVERED, FOREIGN, HOST, PLACEHOLDER, SECRET, World, gzip, request};

/// A body that is supplied frame by frame.
struct Said(Receiver<Frame<Bytes>>);

impl Said {
    fn by_hand() -> (Sender<Frame<Bytes>>, Self) {
        let (sender, frames) = tokio::sync::mpsc::channel(1000);
        (sender, Self(frames))
    }

    fn of(frames: impl IntoIterator<Item = Frame<Bytes>>) -> Self {
        let (sender, said) = Self::by_hand();
        frames.into_iter().for_each(|frame| sender.try_send(frame).unwrap());
        said
    }
}

impl Body for Said {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|frame| frame.map(Ok))
    }
}

/// A request as the server received it: request line, headers and body.
#[derive(Debug, Clone, Default)]
struct Asked {
    line: String,
    headers: HeaderMap,
    body: String,
    whole: bool,
}

type Log = Arc<Mutex<Vec<Asked>>>;

/// Starts a server that speaks only HTTP/2 and responds with `answer`.
fn speaking(
    config: &Arc<ServerConfig>,
    log: Log,
    answer: impl Fn(&Asked) -> Response<Said> + Send + Sync + 'static,
) -> u16 {
    let mut config = ServerConfig::clone(config);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    let (acceptor, answer) = (TlsAcceptor::from(Arc::new(config)), Arc::new(answer));
    std::thread::spawn(move || {
        runtime().block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, answer, log) = (acceptor.clone(), answer.clone(), log.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                        let (answer, log) = (answer.clone(), log.clone());
                        async move {
                            let asked = read(request, &log).await;
                            Ok::<_, Infallible>(answer(&asked))
                        }
                    });
                    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _gone = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
    });
    port
}

/// Reads a request and logs it, beginning with its head.
async fn read(request: Request<Incoming>, log: &Log) -> Asked {
    let (parts, mut body) = request.into_parts();
    let line = format!("{} {}", parts.method, parts.uri);
    let mut asked = Asked { line, headers: parts.headers, ..Asked::default() };
    let at = log.lock().len();
    log.lock().push(asked.clone());
    loop {
        let frame = body.frame().await;
        let ends = !matches!(frame, Some(Ok(_)));
        asked.whole = frame.is_none();
        if let Some(Ok(frame)) = frame
            && let Ok(data) = frame.into_data()
        {
            asked.body.push_str(std::str::from_utf8(&data).unwrap());
        }
        log.lock()[at] = asked.clone();
        if ends {
            return asked;
        }
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn world(answer: impl Fn(&Asked) -> Response<Said> + Send + Sync + 'static) -> (World, Log) {
    let log = Log::default();
    let logging = log.clone();
    (World::around(move |config| speaking(&config, logging, answer)), log)
}

fn echoing() -> (World, Log) {
    world(|asked| {
        let body = Some(asked.body.clone()).filter(|body| !body.is_empty());
        let mut said = Response::new(Said::of(body.map(|body| Frame::data(body.into()))));
        for value in asked.headers.get_all("x-key") {
            said.headers_mut().append("x-echo", value.clone());
        }
        said
    })
}

impl World {
    /// Connects through the proxy and offers HTTP/2.
    async fn tls(&self) -> TlsStream<TcpStream> {
        let mut stream = TcpStream::connect(self.proxy).await.unwrap();
        let connect = format!("CONNECT {HOST}:{0} HTTP/1.1\r\nHost: {HOST}:{0}\r\n\r\n", self.port);
        stream.write_all(connect.as_bytes()).await.unwrap();
        stream.read_exact(&mut [0; 39]).await.unwrap();
        let config = Arc::new(self.offering());
        let name = ServerName::try_from(HOST).unwrap();
        let stream = TlsConnector::from(config).connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        stream
    }

    fn offering(&self) -> ClientConfig {
        let mut config = ClientConfig::clone(&self.client);
        config.alpn_protocols = vec![b"h2".to_vec()];
        config
    }

    async fn speak<B: Body<Data = Bytes> + Send + Unpin + 'static>(&self) -> SendRequest<B>
    where
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (sender, connection) =
            handshake(TokioExecutor::new(), TokioIo::new(self.tls().await)).await.unwrap();
        drop(tokio::spawn(connection));
        sender
    }

    fn uri(&self, path: &str) -> String {
        format!("https://{HOST}:{}{path}", self.port)
    }

    /// Sends one request and returns status, headers, body and trailers.
    fn one(&self, request: Request<Said>) -> (u16, HeaderMap, String, HeaderMap) {
        runtime().block_on(async {
            let answer = self.speak().await.send_request(request).await.unwrap();
            let (parts, body) = answer.into_parts();
            let body = body.collect().await.unwrap();
            let trailers = body.trailers().cloned().unwrap_or_default();
            let body = String::from_utf8(body.to_bytes().to_vec()).unwrap();
            (parts.status.as_u16(), parts.headers, body, trailers)
        })
    }

    fn get(&self, path: &str) -> hyper::http::request::Builder {
        Request::get(self.uri(path))
    }
}

fn empty() -> Said {
    Said::of([])
}

#[test]
fn a_placeholder_is_swapped_in_its_places_alone_however_the_frames_part_it() {
    let (world, log) = echoing();
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("me:{PLACEHOLDER}"));
    let swapped = base64::engine::general_purpose::STANDARD.encode(format!("me:{SECRET}"));
    let body = format!("<{PLACEHOLDER}{PLACEHOLDER}handfast_secret_>");
    let frames = body.as_bytes().chunks(7).map(|part| Frame::data(Bytes::copy_from_slice(part)));
    let request = Request::post(world.uri(&format!("/?key={PLACEHOLDER}")))
        .header("x-key", PLACEHOLDER)
        .header("authorization", format!("Basic {basic}"))
        .header("cookie", "a=1")
        .header("cookie", format!("b={PLACEHOLDER}"))
        .header("te", "trailers")
        .header("accept-encoding", "gzip")
        .header("range", "bytes=0-1")
        .body(Said::of(frames));
    let (status, headers, said, _) = world.one(request.unwrap());
    let asked = log.lock()[0].clone();
    assert_eq!(status, 200);
    assert_eq!(asked.line, format!("POST https://{HOST}:{}/?key={SECRET}", world.port));
    assert_eq!(asked.body, format!("<{SECRET}{SECRET}handfast_secret_>"));
    let sent = |name: &str| asked.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(sent("authorization"), Some(format!("Basic {swapped}")));
    assert_eq!(sent("cookie"), Some(format!("a=1; b={SECRET}")));
    assert_eq!(
        (sent("te").as_deref(), sent("accept-encoding").as_deref()),
        (Some("trailers"), Some("identity"))
    );
    assert_eq!((sent("range"), sent("host")), (None, None));
    assert_eq!(headers["x-echo"], COVERED);
    assert_eq!(said, format!("<{COVERED}{COVERED}handfast_secret_>"));
}

#[test]
fn a_value_that_comes_back_is_covered_across_frames_compressed_and_in_trailers() {
    for compressed in [false, true] {
        let (world, _log) = world(move |_| {
            let body = format!("one {SECRET} two");
            let bytes = if compressed { gzip(body.as_bytes()) } else { body.into_bytes() };
            let mut frames: Vec<_> =
                bytes.iter().map(|byte| Frame::data(Bytes::copy_from_slice(&[*byte]))).collect();
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            trailers.insert("x-late", HeaderValue::from_static(SECRET));
            frames.push(Frame::trailers(trailers));
            let mut said = Response::new(Said::of(frames));
            said.headers_mut().insert("x-echo", HeaderValue::from_static(SECRET));
            if compressed {
                said.headers_mut().insert("content-encoding", HeaderValue::from_static("gzip"));
            }
            said
        });
        let (status, headers, said, trailers) = world.one(world.get("/").body(empty()).unwrap());
        assert_eq!((status, said), (200, format!("one {COVERED} two")));
        assert_eq!(
            (&headers["x-echo"], headers.get("content-encoding")),
            (&HeaderValue::from_static(COVERED), None)
        );
        assert_eq!(
            (&trailers["grpc-status"], &trailers["x-late"]),
            (&HeaderValue::from_static("0"), &HeaderValue::from_static(COVERED))
        );
    }
}

#[test]
fn what_a_server_of_the_older_version_says_is_passed_on_in_the_newer() {
    let answer = format!(
        "HTTP/1.1 201 Made\r\nConnection: close\r\nX-Echo: {SECRET}\r\nContent-Length: 25\r\n\r\n{SECRET}"
    );
    let (world, received) = World::answering(answer);
    let request = Request::post(world.uri("/a"))
        .header("x-key", PLACEHOLDER)
        .body(Said::of([Frame::data("body".into())]));
    let (status, headers, said, _) = world.one(request.unwrap());
    assert_eq!((status, said.as_str(), headers["x-echo"].to_str().unwrap()), (201, COVERED, COVERED));
    let got = received.recv().unwrap().to_lowercase();
    assert!(
        got.starts_with("post /a http/1.1\r\n") && got.contains(&format!("x-key: {SECRET}\r\n")),
        "{got}"
    );
    assert!(
        got.contains(&format!("host: {HOST}:{}\r\n", world.port)) && got.contains("4\r\nbody\r\n0\r\n\r\n"),
        "{got}"
    );
}

#[test]
fn what_is_refused_is_explained_written_down_and_reaches_no_server() {
    let (world, log) = echoing();
    let other = || Request::get(format!("https://other.test:{}/", world.port));
    let key = |value: &str| world.get("/").header("x-key", value).body(empty()).unwrap();
    let posted = Request::post(world.uri("/")).body(Said::of([
        Frame::data(Bytes::copy_from_slice(&FOREIGN.as_bytes()[..20])),
        Frame::data(Bytes::copy_from_slice(&FOREIGN.as_bytes()[20..])),
    ]));
    let name = format!("x-{PLACEHOLDER}");
    for (request, status, why, is_noted) in [
        (key(FOREIGN), 403, "does not belong to this session", true),
        (
            world.get(&format!("/?key={FOREIGN}")).body(empty()).unwrap(),
            403,
            "does not belong to this session",
            true,
        ),
        (posted.unwrap(), 403, "does not belong to this session", true),
        (world.get(&format!("/{PLACEHOLDER}")).body(empty()).unwrap(), 403, "the path of a URL", true),
        (world.get("/").header(name, "1").body(empty()).unwrap(), 403, "the name of a header", true),
        (other().body(empty()).unwrap(), 403, "its request is for other.test", true),
        (Request::get(format!("https://{HOST}:1/")).body(empty()).unwrap(), 403, "names another", true),
        (world.get("/").header("host", "other.test").body(empty()).unwrap(), 400, "names two hosts", false),
        (
            Request::get(format!("http://{HOST}:{}/", world.port)).body(empty()).unwrap(),
            400,
            "the scheme of the request differs",
            false,
        ),
        (
            Request::get(format!("https://me:x@{HOST}:{}/", world.port)).body(empty()).unwrap(),
            400,
            "names no host",
            false,
        ),
    ] {
        let before = world.refusals().len();
        let (got, _, said, _) = world.one(request);
        assert_eq!(got, status, "{why}: {said}");
        assert!(said.starts_with("handfast: ") && said.contains(why), "{why}: {said}");
        assert_eq!(world.refusals().len() - before, usize::from(is_noted), "{why}");
    }
    assert!(log.lock().iter().all(|asked| !asked.whole || !asked.body.contains("handfast_secret_")));
    assert!(log.lock().iter().all(|asked| !asked.headers.contains_key("x-key")));
}

#[test]
fn each_event_of_a_stream_arrives_before_the_next_one_is_sent() {
    let (sender, said) = Said::by_hand();
    let said = Mutex::new(Some(said));
    let (world, _log) = world(move |_| Response::new(said.lock().take().unwrap()));
    runtime().block_on(async {
        let request = world.get("/events").body(empty()).unwrap();
        let mut body = world.speak().await.send_request(request).await.unwrap().into_body();
        for number in 0..5 {
            let event = format!("data: {number} {SECRET} s\n\n");
            sender.send(Frame::data(event.replace(COVERED, SECRET).into())).await.unwrap();
            let mut all = String::new();
            while !all.ends_with(" s\n\n") {
                let frame = body.frame().await.unwrap().unwrap();
                all.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
            }
            assert_eq!(all, format!("data: {number} {COVERED} s\n\n"));
        }
        drop(sender);
        assert!(body.collect().await.unwrap().to_bytes().is_empty());
    });
}

#[test]
fn many_requests_at_once_are_all_answered_by_either_version() {
    let (world, _log) = echoing();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let older = World::before(move |mut stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        while !request(&mut stream).is_empty() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").unwrap();
            stream.flush().unwrap();
        }
    });
    for world in [&world, &older] {
        runtime().block_on(async {
            let sender = world.speak().await;
            let mut answers = tokio::task::JoinSet::new();
            for number in 0..300 {
                let request = world.get(&format!("/{number}")).body(empty()).unwrap();
                let mut sender = sender.clone();
                answers.spawn(async move {
                    let answer = sender.send_request(request).await.unwrap();
                    let status = answer.status().as_u16();
                    answer.into_body().collect().await.unwrap();
                    status
                });
            }
            assert!(answers.join_all().await.iter().all(|status| *status == 200));
        });
    }
    assert!(connections.load(Ordering::SeqCst) >= 2, "more than one at a time");
}

#[test]
fn one_connection_of_the_older_version_serves_requests_that_come_one_by_one() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let world = World::before(move |mut stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        while !request(&mut stream).is_empty() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").unwrap();
            stream.flush().unwrap();
        }
    });
    runtime().block_on(async {
        let mut sender = world.speak().await;
        for _ in 0..5 {
            let answer = sender.send_request(world.get("/").body(empty()).unwrap()).await.unwrap();
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "hi");
        }
    });
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[test]
fn a_bomb_is_passed_on_as_it_unfolds_and_ends_with_who_asked_for_it() {
    let bomb = gzip(&vec![b'0'; 4 << 20]);
    let (sender, ended) = channel();
    let sender = Mutex::new(sender);
    let world = World::before(move |mut stream| {
        request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n").unwrap();
        while stream.write_all(&bomb).is_ok() {}
        sender.lock().send(true).unwrap();
    });
    runtime().block_on(async {
        let mut sender = world.speak().await;
        let mut body = sender.send_request(world.get("/").body(empty()).unwrap()).await.unwrap().into_body();
        let mut read = 0;
        while read < 16 << 20 {
            read += body.frame().await.unwrap().unwrap().data_ref().unwrap().len();
        }
        drop(body);
        // The connection stays open: this request alone ends.
        assert!(tokio::task::spawn_blocking(move || ended.recv().unwrap()).await.unwrap());
        assert!(!sender.is_closed());
    });
}

#[test]
fn whoever_offers_the_older_version_alone_gets_that() {
    let (world, received) = World::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    let mut config = ClientConfig::clone(&world.client);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut stream = std::net::TcpStream::connect(world.proxy).unwrap();
    let connect = format!("CONNECT {HOST}:{0} HTTP/1.1\r\nHost: {HOST}:{0}\r\n\r\n", world.port);
    stream.write_all(connect.as_bytes()).unwrap();
    stream.read_exact(&mut [0; 39]).unwrap();
    let tls = ClientConnection::new(Arc::new(config), ServerName::try_from(HOST).unwrap()).unwrap();
    let mut stream = StreamOwned::new(tls, stream);
    let said = format!("GET / HTTP/1.1\r\nHost: {HOST}:{}\r\nConnection: close\r\n\r\n", world.port);
    stream.write_all(said.as_bytes()).unwrap();
    let mut all = Vec::new();
    let _reset = stream.read_to_end(&mut all);
    assert!(String::from_utf8_lossy(&all).starts_with("HTTP/1.1 200 "));
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert!(received.recv().unwrap().starts_with("GET / HTTP/1.1"));
}
