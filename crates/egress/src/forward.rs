//! Requests of HTTP, one after the other: each is read, judged and written anew.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fetch::address::Host;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::ahead::Ahead;
use crate::answer::Refusal;
use crate::body::Reading;
use crate::head::{self, Framing, Head, Target};
use crate::hello::PATIENCE;
use crate::serve::Door;
use crate::session::Session;
use crate::upload::Upload;
use crate::{Gate, Way};

/// How long a connection waits for its next request.
const KEPT: Duration = Duration::from_secs(60);
/// How long a server may take for its answer, or the next part of it.
const ANSWERED: Duration = Duration::from_secs(600);

/// Where the requests of a connection may go.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) door: Door,
    /// What the connection itself was asked for: a host, or for one that came to an address perhaps that address.
    pub(crate) meant: Option<(Host, u16)>,
}

/// A connection to a server.
struct Upstream {
    host: Host,
    port: u16,
    sender: SendRequest<Upload>,
}

/// Whether the connection can have another request.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Another,
    None,
}

/// Carries requests until the connection ends. The first may have been read already, and the connection to where they go be there.
pub(crate) async fn serve<G: Gate, S: AsyncRead + AsyncWrite + Unpin>(
    session: &Session<G>,
    client: Ahead<S>,
    mut first: Option<Head>,
    server: Option<TcpStream>,
    scope: Scope,
) -> io::Result<()> {
    let Ahead { bytes, stream } = client;
    let (reader, mut writer) = split(stream);
    let mut reader = Ahead { bytes, stream: reader };
    let mut upstream = match (server, &scope.meant) {
        (Some(server), Some((host, port))) => Some(Upstream::of(server, host.clone(), *port).await?),
        _ => None,
    };
    let mut patience = PATIENCE;
    loop {
        let head = match first.take() {
            Some(head) => Ok(Some(head)),
            None => match timeout(patience, head::read(&mut reader)).await {
                Err(_) if reader.bytes.is_empty() => Ok(None),
                Err(_) => Err(Refusal::late("the request did not come in time")),
                Ok(head) => head,
            },
        };
        let exchanged = match head {
            Ok(None) => return writer.shutdown().await,
            Ok(Some(head)) => exchange(session, &scope, head, &mut reader, &mut writer, &mut upstream).await,
            Err(refusal) => Err(Broken::Refused(refusal)),
        };
        match exchanged {
            Ok(Next::Another) => patience = KEPT,
            Ok(Next::None) => return writer.shutdown().await,
            Err(Broken::Refused(refusal)) => return refusal.send(&mut writer).await,
            Err(Broken::Off(error)) => return Err(error),
        }
    }
}

/// Why an exchange did not come to its end.
#[derive(Debug)]
enum Broken {
    /// Nothing was answered yet.
    Refused(Refusal),
    /// The answer has begun, so all that is left is to break off.
    Off(io::Error),
}

impl From<Refusal> for Broken {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

async fn exchange<G: Gate>(
    session: &Session<G>,
    scope: &Scope,
    head: Head,
    reader: &mut Ahead<impl AsyncRead + Unpin>,
    writer: &mut (impl AsyncWrite + Unpin),
    upstream: &mut Option<Upstream>,
) -> Result<Next, Broken> {
    let (host, port, path) = match place(scope, &head) {
        Ok(place) => place,
        Err((at, refusal)) => {
            if let Some((host, port)) = at {
                session.refuse(host.to_string(), port, Way::Http, refusal.reason.clone()).await;
            }
            return Err(refusal.into());
        }
    };
    session.judge(&host, port, Way::Http).await?;
    let is_there = |there: &Upstream| there.host == host && there.port == port && !there.sender.is_closed();
    let server = match upstream.take().filter(is_there) {
        Some(there) => upstream.insert(there),
        None => {
            let stream = session.open(&host, port, Way::Http).await?;
            let made = Upstream::of(stream, host.clone(), port).await;
            upstream.insert(made.map_err(|error| Refusal::unreachable(error.to_string()))?)
        }
    };
    let expects = head.headers.get(EXPECT).is_some();
    let closes = head.version == Version::HTTP_10 || says_close(&head.headers);
    let length = match head.framing {
        Framing::Length(length) => Some(length),
        Framing::Chunked => None,
    };
    let (sender, upload) = Upload::of(length);
    let (method, version, framing) = (head.method.clone(), head.version, head.framing);
    let request = request(head, &host, port, &path, upload)?;
    if expects && framing != Framing::Length(0) {
        writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.map_err(Broken::Off)?;
    }
    let begun = AtomicBool::new(false);
    let uploading = async {
        let mut reading = Reading::of(framing);
        while let Some(part) = reading.next(reader).await? {
            // A server that wants no more of it has said why, or is gone.
            if sender.send(Ok(part)).await.is_err() {
                return Ok(false);
            }
        }
        drop(sender);
        Ok::<_, Refusal>(true)
    };
    let answering = async {
        let unreachable =
            |error: hyper::Error| Refusal::unreachable(format!("{host} gave no answer: {error}"));
        let response = timeout(ANSWERED, server.sender.send_request(request))
            .await
            .map_err(|_| Refusal::unreachable(format!("{host} gave no answer in time")))?
            .map_err(unreachable)?;
        begun.store(true, Ordering::Relaxed);
        respond(response, &method, version, closes, writer).await.map_err(Broken::Off)
    };
    tokio::pin!(uploading, answering);
    let mut uploaded = None;
    let next = loop {
        tokio::select! {
            ended = &mut uploading, if uploaded.is_none() => match ended {
                Ok(whole) => uploaded = Some(whole),
                Err(refusal) if begun.load(Ordering::Relaxed) => return Err(Broken::Off(io::Error::other(refusal.reason))),
                Err(refusal) => return Err(refusal.into()),
            },
            answered = &mut answering => break answered?,
        }
    };
    // Of a body that nobody wanted to its end, the rest would be taken for a request.
    Ok(if uploaded == Some(true) { next } else { Next::None })
}

/// Where a request goes, and the path that is asked for there; or what it was for, and why it goes nowhere.
#[expect(clippy::type_complexity, reason = "said once, in the line above")]
fn place(scope: &Scope, head: &Head) -> Result<(Host, u16, String), (Option<(Host, u16)>, Refusal)> {
    let nowhere = |refusal| (None, refusal);
    let named = head.host().map_err(nowhere)?;
    let (host, port, path) = match &head.target {
        Target::Connect(..) => {
            return Err(nowhere(Refusal::malformed(
                "CONNECT is only taken as the first request of a connection",
            )));
        }
        Target::Absolute(host, port, path) => (host.clone(), *port, path.clone()),
        Target::Path(path) => match (&scope.meant, &named) {
            (None, _) => return Err(nowhere(Refusal::malformed("a proxy is asked for a whole URL"))),
            (Some((_, port)), Some((named, _))) => (named.clone(), *port, path.clone()),
            (Some((host, port)), None) => (host.clone(), *port, path.clone()),
        },
    };
    let refuse = |reason| Err((Some((host.clone(), port)), Refusal::denied(reason)));
    if let Some((named, its_port)) = &named
        && (*named != host || its_port.unwrap_or(80) != port && its_port.is_some())
    {
        return refuse(format!("the request is for {host}:{port} and its header Host names another"));
    }
    match &scope.meant {
        // A program may connect to an address that it has from elsewhere; the name is looked up anew, so the address counts for
        // nothing. Asked for by CONNECT it is what counts.
        Some((Host::Address(_), _)) if scope.door == Door::Everywhere => {}
        Some((meant, at)) if *meant != host || *at != port => {
            return refuse(format!("the connection is to {meant}:{at} and its request for {host}:{port}"));
        }
        _ => {}
    }
    Ok((host, port, path))
}

/// What counts between two neighbours alone (RFC 9110, section 7.6.1), beside what the header `Connection` names.
const OF_ONE_CONNECTION: [HeaderName; 6] = [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, EXPECT];

fn without_those_of_the_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let others = ["keep-alive", "proxy-connection", "proxy-authorization"].map(HeaderName::from_static);
    // Who names these would have the next one read another request.
    let kept = |name: &HeaderName| *name == HOST || *name == CONTENT_LENGTH;
    for name in named.into_iter().filter(|name| !kept(name)).chain(others).chain(OF_ONE_CONNECTION) {
        headers.remove(name);
    }
}

fn says_close(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("close"))
}

fn request(
    mut head: Head,
    host: &Host,
    port: u16,
    path: &str,
    body: Upload,
) -> Result<Request<Upload>, Refusal> {
    without_those_of_the_connection(&mut head.headers);
    let bracketed = match host {
        Host::Address(std::net::IpAddr::V6(address)) => format!("[{address}]"),
        host => host.to_string(),
    };
    let authority = if port == 80 { bracketed } else { format!("{bracketed}:{port}") };
    let authority =
        HeaderValue::from_str(&authority).map_err(|_| Refusal::malformed("the host cannot be named"))?;
    head.headers.insert(HOST, authority);
    let mut request = Request::new(body);
    *request.method_mut() = head.method;
    *request.uri_mut() = path
        .parse::<Uri>()
        .map_err(|error| Refusal::malformed(format!("the path of the request cannot be read: {error}")))?;
    *request.headers_mut() = head.headers;
    Ok(request)
}

async fn respond(
    response: Response<Incoming>,
    method: &Method,
    version: Version,
    closes: bool,
    writer: &mut (impl AsyncWrite + Unpin),
) -> io::Result<Next> {
    let (parts, mut body) = response.into_parts();
    let status = parts.status;
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(io::Error::other("the server speaks another protocol than it was asked for"));
    }
    let mut headers = parts.headers;
    without_those_of_the_connection(&mut headers);
    let has_body =
        *method != Method::HEAD && !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = body.size_hint().exact();
    let chunked = has_body && length.is_none() && version == Version::HTTP_11;
    if has_body {
        headers.remove(CONTENT_LENGTH);
        match length {
            Some(length) => drop(headers.insert(CONTENT_LENGTH, length.into())),
            None if chunked => {
                headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
            None => {}
        }
    }
    let closes = closes || has_body && length.is_none() && !chunked;
    if closes {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let mut head =
        format!("HTTP/1.1 {} {}\r\n", status.as_str(), status.canonical_reason().unwrap_or("-")).into_bytes();
    for (name, value) in &headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    head.extend_from_slice(b"\r\n");
    writer.write_all(&head).await?;
    while let Some(frame) = timeout(ANSWERED, body.frame()).await.map_err(|_| io::ErrorKind::TimedOut)? {
        let Ok(data) = frame.map_err(io::Error::other)?.into_data() else { continue };
        write_part(&data, chunked, writer).await?;
    }
    if chunked {
        writer.write_all(b"0\r\n\r\n").await?;
    }
    writer.flush().await?;
    Ok(if closes { Next::None } else { Next::Another })
}

async fn write_part(data: &Bytes, chunked: bool, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    if data.is_empty() {
        return Ok(());
    }
    if chunked {
        writer.write_all(format!("{:x}\r\n", data.len()).as_bytes()).await?;
    }
    writer.write_all(data).await?;
    if chunked {
        writer.write_all(b"\r\n").await?;
    }
    Ok(())
}

impl Upstream {
    async fn of(stream: TcpStream, host: Host, port: u16) -> io::Result<Self> {
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // It ends with its sender, and what breaks it is told there.
        drop(tokio::spawn(connection));
        Ok(Self { host, port, sender })
    }
}
