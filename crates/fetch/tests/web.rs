//! Tests of the client against real HTTP/2 and HTTP/1.1 servers.

#![allow(clippy::unwrap_used, reason = "a test program")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fetch::address::{Host, Target};
use fetch::dial::{DialError, Permission};
use fetch::web::{Web, WebError, WebRequest};
use fetch::{Bytes, HeaderMap, HeaderValue, Method};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use testkit::web::Authority;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Responds with the version, URI, host and body of the request.
async fn said(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let version = request.version();
    let uri = request.uri().to_string();
    let host = request.headers().get("host").map(|host| host.to_str().unwrap().to_owned());
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8_lossy(&body);
    Ok(Response::new(Full::new(format!("{version:?} {uri} {host:?} {body}").into())))
}

/// Starts a server that offers these protocols. Returns its address and the count of its connections.
async fn serve(authority: &Authority, protocols: &[&[u8]]) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, taken) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let mut config = authority.server("a.example");
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let (acceptor, counted) = (TlsAcceptor::from(Arc::new(config)), taken.clone());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let stream = TokioIo::new(stream);
                if is_http2 {
                    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    drop(server.serve_connection(stream, service_fn(said)).await);
                } else {
                    let server = hyper::server::conn::http1::Builder::new();
                    drop(server.serve_connection(stream, service_fn(said)).await);
                }
            });
        }
    });
    (address, taken)
}

fn ask(url: &str, permission: &Permission) -> WebRequest {
    WebRequest {
        target: Target::parse(url).unwrap(),
        method: Method::POST,
        headers: HeaderMap::from_iter([(fetch::USER_AGENT, HeaderValue::from_static("test"))]),
        body: Bytes::from_static(b"body"),
        permission: permission.clone(),
        deadline: Instant::now() + Duration::from_secs(20),
    }
}

async fn text(web: &Web, url: &str, permission: &Permission) -> Result<String, WebError> {
    let mut answer = web.send(ask(url, permission)).await?;
    let mut body = Vec::new();
    while let Some(piece) = answer.piece().await? {
        body.extend_from_slice(&piece);
    }
    Ok(String::from_utf8(body).unwrap())
}

fn here() -> Permission {
    Permission::to(|address| address.is_loopback())
}

#[tokio::test]
async fn a_server_is_spoken_to_in_the_version_that_it_chooses_on_one_connection() {
    let authority = Authority::new();
    for (protocols, version, host) in [
        (&[b"h2".as_slice(), b"http/1.1"][..], Version::HTTP_2, "None"),
        (&[b"http/1.1".as_slice()][..], Version::HTTP_11, "Some(\"a.example\")"),
        (&[][..], Version::HTTP_11, "Some(\"a.example\")"),
    ] {
        let (address, taken) = serve(&authority, protocols).await;
        let name = Host::parse("a.example").unwrap();
        let web = Web::trusting(vec![authority.certificate()]).connecting(name, 443, address);
        let uri = if version == Version::HTTP_2 { "https://a.example/p?q" } else { "/p?q" };
        for _ in 0..5 {
            let said = text(&web, "https://A.example./p?q#f", &here()).await.unwrap();
            assert_eq!(said, format!("{version:?} {uri} {host} body"));
        }
        assert_eq!(taken.load(Ordering::SeqCst), 1, "{version:?}");
    }
}

#[tokio::test]
async fn an_open_connection_is_not_used_by_who_may_not_dial_its_address() {
    let authority = Authority::new();
    let (address, taken) = serve(&authority, &[b"h2"]).await;
    let name = Host::parse("a.example").unwrap();
    let web = Web::trusting(vec![authority.certificate()]).connecting(name, 443, address);
    assert!(text(&web, "https://a.example/", &here()).await.is_ok());
    let refused = text(&web, "https://a.example/", &Permission::public_only()).await;
    assert!(matches!(refused, Err(WebError::Dial(DialError::NotPublic { .. }))), "{refused:?}");
    assert!(text(&web, "https://a.example/", &here()).await.is_ok());
    assert_eq!(taken.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn requests_at_once_share_a_connection_of_http2_once_it_is_there() {
    let authority = Authority::new();
    let (address, taken) = serve(&authority, &[b"h2"]).await;
    let name = Host::parse("a.example").unwrap();
    let web = Arc::new(Web::trusting(vec![authority.certificate()]).connecting(name, 443, address));
    text(&web, "https://a.example/first", &here()).await.unwrap();
    let all: Vec<_> = (0..50)
        .map(|number| {
            let web = web.clone();
            tokio::spawn(async move { text(&web, &format!("https://a.example/{number}"), &here()).await })
        })
        .collect();
    for (number, one) in all.into_iter().enumerate() {
        assert!(one.await.unwrap().unwrap().contains(&format!("/{number} ")));
    }
    assert!(taken.load(Ordering::SeqCst) <= 50);
    let before = taken.load(Ordering::SeqCst);
    text(&web, "https://a.example/last", &here()).await.unwrap();
    assert_eq!(taken.load(Ordering::SeqCst), before);
}
