//! HTTP/1 requests, one after the other: each is read, judged and rewritten.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use fetch::address::Host;
use hyper::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderValue, IF_RANGE, RANGE, UPGRADE,
};
use hyper::{Request, Uri, Version};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::body::BegunBody;
use crate::head::{self, Framing, Head, Target};
use crate::judging::Judging;
use crate::peek::PeekedStream;
use crate::refusal::Refusal;
use crate::respond::{self, ANSWERED, ConnectionState, ExchangeFailure};
use crate::serve::EntryPoint;
use crate::session::Session;
use crate::slots::{KEPT, Slot};
use crate::sni::TIMEOUT;
use crate::substitute::{self, HostSubstitution};
use crate::upload::{Upload, Uploader};
use crate::upstream::Upstream;
use crate::{Gate, Way};

/// Maximum length of a body that is buffered when it may contain a placeholder, in bytes. A
/// buffered body is sent with its length, because some servers accept no other.
pub(crate) const WHOLE: u64 = 1024 * 1024;

/// Time for which a client may go on sending after a refusal.
pub(crate) const LINGERING: Duration = Duration::from_secs(2);

/// Limits on the destinations of a connection's requests.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) door: EntryPoint,
    /// Host and port that the connection itself was opened for. For a connection to an address, the
    /// host may be that address.
    pub(crate) meant: Option<(Host, u16)>,
    /// True if this is a TLS connection that the proxy opened.
    pub(crate) opened: bool,
    pub(crate) place: Arc<Slot>,
}

impl Scope {
    /// Creates the scope of a connection that is not opened.
    pub(crate) fn of(door: EntryPoint, meant: Option<(Host, u16)>, place: &Arc<Slot>) -> Self {
        Self { door, meant, opened: false, place: place.clone() }
    }

    /// Returns the port that the `Host` header may omit.
    fn own_port(&self) -> u16 {
        if self.opened { 443 } else { 80 }
    }
}

/// Forwards requests until the connection ends. `first` is a request that was already read,
/// `server` an existing connection to its destination.
pub(crate) async fn serve<G: Gate, S: AsyncRead + AsyncWrite + Unpin>(
    session: &Session<G>,
    client: PeekedStream<S>,
    mut first: Option<Head>,
    server: Option<TcpStream>,
    scope: Scope,
) -> io::Result<()> {
    let PeekedStream { bytes, stream } = client;
    let (reader, mut writer) = split(stream);
    let mut reader = PeekedStream { bytes, stream: reader };
    let mut upstream = match (server, &scope.meant) {
        (Some(server), Some((host, port))) => Some(Upstream::plain(server, host.clone(), *port).await?),
        _ => None,
    };
    let mut patience = TIMEOUT;
    let mut has_body = false;
    loop {
        let head = match first.take() {
            Some(head) => Ok(Some(head)),
            None => match timeout(patience, head::read(&mut reader)).await {
                Err(_) if reader.bytes.is_empty() => Ok(None),
                Err(_) => Err(Refusal::late("the request did not arrive in time")),
                Ok(head) => head,
            },
        };
        let exchanged = match head {
            Ok(None) => return writer.shutdown().await,
            Ok(Some(head)) => {
                has_body = head.framing != Framing::Length(0);
                exchange(session, &scope, head, &mut reader, &mut writer, &mut upstream).await
            }
            Err(refusal) => Err(ExchangeFailure::Refused(refusal)),
        };
        match exchanged {
            Ok(ConnectionState::Another) => patience = KEPT,
            Ok(ConnectionState::None) => return writer.shutdown().await,
            Err(ExchangeFailure::Refused(refusal)) => {
                refusal.send(&mut writer).await?;
                if has_body {
                    linger(&mut reader).await;
                }
                return Ok(());
            }
            Err(ExchangeFailure::Off(error)) => return Err(error),
        }
    }
}

/// Reads on for a moment. If the connection were closed while the client sends a body, the client
/// might lose the response.
async fn linger(reader: &mut PeekedStream<impl AsyncRead + Unpin>) {
    let discarding = async {
        while let Ok(1..) = reader.fill().await {
            reader.bytes.clear();
        }
    };
    // A client that goes on sending loses the response.
    let _late = timeout(LINGERING, discarding).await;
}

async fn exchange<G: Gate>(
    session: &Session<G>,
    scope: &Scope,
    head: Head,
    reader: &mut PeekedStream<impl AsyncRead + Unpin>,
    writer: &mut (impl AsyncWrite + Unpin),
    upstream: &mut Option<Upstream>,
) -> Result<ConnectionState, ExchangeFailure> {
    let _working = scope.place.work();
    let (host, port, path) = match place(scope, &head) {
        Ok(place) => place,
        Err((at, refusal)) => {
            if let Some((host, port)) = at {
                session.refuse(host.to_string(), port, Way::Http, refusal.reason.clone()).await;
            }
            return Err(refusal.into());
        }
    };
    session.judge(&host, port, Way::Http, &scope.place).await?;
    if scope.opened && asks_for_another_protocol(&head.headers) {
        let reason = format!(
            "a secret belongs to {host}, so its traffic is searched for secrets, which is impossible \
             for a WebSocket; use ordinary requests"
        );
        return Err(session.refuse(host.to_string(), port, Way::Http, reason).await.into());
    }
    let mut head = head;
    let mut path = path;
    let mut reading = BegunBody::of(head.framing);
    let mut expects = head.headers.contains_key(EXPECT) && head.framing != Framing::Length(0);
    let closes = head.version == Version::HTTP_10 || respond::says_close(&head.headers);
    if scope.opened && session.gate.judges_requests(&host) {
        respond::without_those_of_the_connection(&mut head.headers);
        let mut judging = Judging::of(session, (&host, port, scope.place.peer), &head, &path);
        loop {
            match judging.needs().await {
                Ok(None) => break,
                Ok(Some(wanted)) => {
                    if std::mem::take(&mut expects) {
                        go_on(writer).await?;
                    }
                    while !judging.has(wanted) {
                        judging.add(reading.next(reader).await?);
                    }
                }
                Err(refusal) => {
                    if refusal.answer.is_some() {
                        reading.discard(reader).await;
                    }
                    return Err(refusal.into());
                }
            }
        }
        reading.put_back(judging.finish());
    }
    let swapping = HostSubstitution { session, host: &host, port, opened: scope.opened };
    swapping.head(&head.method, &mut head.headers, &mut path).await?;
    let is_there = |there: &Upstream| there.is_to(&host, port) && !there.is_closed();
    let server = match upstream.take().filter(is_there) {
        Some(there) => upstream.insert(there),
        None => upstream.insert(open(session, scope, &host, port).await?),
    };
    if expects {
        go_on(writer).await?;
    }
    let mut body = substitute::Body::of(&head.headers);
    let swaps = scope.opened && session.gate.swaps_bodies(&host);
    let (length, whole) = match head.framing {
        Framing::Length(length) if swaps && (1..=WHOLE).contains(&length) => {
            let mut whole = BytesMut::new();
            while let Some(part) = reading.next(reader).await? {
                whole.extend_from_slice(&body.next(part, &swapping).await?);
            }
            whole
                .extend_from_slice(&std::mem::replace(&mut body, substitute::Body::of(&head.headers)).rest());
            (Some(whole.len() as u64), Some(whole.freeze()))
        }
        Framing::Length(length) if !swaps || length == 0 => (Some(length), None),
        Framing::Length(_) | Framing::Chunked => (None, None),
    };
    let (sender, upload) = Upload::of(length);
    let (method, version) = (head.method.clone(), head.version);
    let request = request(head, scope, &host, port, &path, length, upload)?;
    let begun = AtomicBool::new(false);
    let uploading = async {
        if let Some(whole) = whole {
            // If no receiver takes the body, the response tells why.
            sender.send(whole).await;
        }
        // On a refusal, the sender is dropped without an end, so that the server does not take the
        // part for the whole.
        let is_taken = send_on(&mut reading, reader, body, &swapping, &sender).await?;
        sender.end();
        Ok::<_, Refusal>(is_taken)
    };
    let answering = async {
        let unreachable = |error: io::Error| Refusal::unreachable(format!("{host} did not respond: {error}"));
        let response = timeout(ANSWERED, server.send(request))
            .await
            .map_err(|_| Refusal::unreachable(format!("{host} did not respond in time")))?
            .map_err(unreachable)?;
        let cover = scope.opened.then(|| session.gate.cover());
        let to = respond::AnsweredRequest { method: &method, version, closes, begun: &begun };
        respond::respond(response, to, cover, writer).await
    };
    tokio::pin!(uploading, answering);
    let mut uploaded = None;
    let next = loop {
        tokio::select! {
            ended = &mut uploading, if uploaded.is_none() => match ended {
                Ok(whole) => uploaded = Some(whole),
                Err(refusal) if begun.load(Ordering::Relaxed) => return Err(ExchangeFailure::Off(io::Error::other(refusal.reason))),
                Err(refusal) => return Err(refusal.into()),
            },
            answered = &mut answering => break answered?,
        }
    };
    // If the body was not read to its end, its rest would be read as a request: close the connection.
    Ok(if uploaded == Some(true) { next } else { ConnectionState::None })
}

/// Tells a client that waits with its body to send it.
async fn go_on(writer: &mut (impl AsyncWrite + Unpin)) -> Result<(), ExchangeFailure> {
    writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.map_err(ExchangeFailure::Off)?;
    // Written bytes may still wait for encryption by TLS.
    writer.flush().await.map_err(ExchangeFailure::Off)
}

/// Returns true if the request asks for the WebSocket protocol (RFC 6455). Servers may ignore
/// offers of other protocols.
fn asks_for_another_protocol(headers: &HeaderMap) -> bool {
    let values = headers.get_all(UPGRADE).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|name| name.trim().eq_ignore_ascii_case("websocket"))
}

/// Forwards a body as it arrives. Returns true if all of it was accepted.
async fn send_on<G: Gate>(
    reading: &mut BegunBody,
    reader: &mut PeekedStream<impl AsyncRead + Unpin>,
    mut body: substitute::Body,
    swapping: &HostSubstitution<'_, G>,
    to: &Uploader,
) -> Result<bool, Refusal> {
    while let Some(part) = reading.next(reader).await? {
        let part = body.next(part, swapping).await?;
        // A server that accepts no more has already answered, or has closed the connection.
        if !part.is_empty() && !to.send(part).await {
            return Ok(false);
        }
    }
    let rest = body.rest();
    Ok(rest.is_empty() || to.send(rest).await)
}

/// Connects to the destination of the requests.
async fn open<G: Gate>(
    session: &Session<G>,
    scope: &Scope,
    host: &Host,
    port: u16,
) -> Result<Upstream, Refusal> {
    let stream = session.open(host, port, Way::Http).await?;
    let made = match session.gate.authority().filter(|_| scope.opened) {
        Some(authority) => Upstream::by_tls(stream, host.clone(), port, authority.servers()).await,
        None if scope.opened => Err(io::ErrorKind::Unsupported.into()),
        None => Upstream::plain(stream, host.clone(), port).await,
    };
    made.map_err(|error| Refusal::unreachable(format!("cannot connect to {host}: {error}")))
}

/// Returns the destination of a request, and the path to request there. If the request is refused,
/// returns its destination (if known) and the reason.
#[expect(clippy::type_complexity, reason = "said once, in the line above")]
pub(crate) fn place(
    scope: &Scope,
    head: &Head,
) -> Result<(Host, u16, String), (Option<(Host, u16)>, Refusal)> {
    let nowhere = |refusal| (None, refusal);
    let named = head.host().map_err(nowhere)?;
    let (host, port, path) = match &head.target {
        Target::Connect(..) => {
            return Err(nowhere(Refusal::malformed(
                "CONNECT is only accepted as the first request of a connection",
            )));
        }
        Target::Absolute(host, port, path) => (host.clone(), *port, path.clone()),
        Target::Path(path) => match (&scope.meant, &named) {
            (None, _) => return Err(nowhere(Refusal::malformed("a request to a proxy needs a full URL"))),
            (Some((_, port)), Some((named, _))) => (named.clone(), *port, path.clone()),
            (Some((host, port)), None) => (host.clone(), *port, path.clone()),
        },
    };
    let refuse = |reason| Err((Some((host.clone(), port)), Refusal::denied(reason)));
    if let Some((named, its_port)) = &named
        && (*named != host || its_port.is_some_and(|its_port| its_port != port))
    {
        return refuse(format!("the request is for {host}:{port}, but its header Host names another host"));
    }
    match &scope.meant {
        // A program may connect to an address that it has from elsewhere. The name is resolved
        // anew, so this address is ignored. An address that was requested by CONNECT is binding.
        Some((Host::Address(_), _)) if scope.door == EntryPoint::Everywhere => {}
        Some((meant, at)) if *meant != host || *at != port => {
            return refuse(format!(
                "the connection is to {meant}:{at}, but its request is for {host}:{port}"
            ));
        }
        _ => {}
    }
    Ok((host, port, path))
}

pub(crate) fn request(
    mut head: Head,
    scope: &Scope,
    host: &Host,
    port: u16,
    path: &str,
    length: Option<u64>,
    body: Upload,
) -> Result<Request<Upload>, Refusal> {
    respond::without_those_of_the_connection(&mut head.headers);
    let bracketed = match host {
        Host::Address(std::net::IpAddr::V6(address)) => format!("[{address}]"),
        host => host.to_string(),
    };
    let authority = if port == scope.own_port() { bracketed } else { format!("{bracketed}:{port}") };
    let authority =
        HeaderValue::from_str(&authority).map_err(|_| Refusal::malformed("the host cannot be named"))?;
    head.headers.insert(HOST, authority);
    match length {
        Some(length) if head.headers.contains_key(CONTENT_LENGTH) => {
            head.headers.insert(CONTENT_LENGTH, length.into());
        }
        _ => drop(head.headers.remove(CONTENT_LENGTH)),
    }
    if scope.opened {
        // The response is searched for secrets, so it must be uncompressed, and complete: parts of
        // a value are not recognized.
        head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        head.headers.remove(RANGE);
        head.headers.remove(IF_RANGE);
    }
    let mut request = Request::new(body);
    *request.method_mut() = head.method;
    *request.uri_mut() = path
        .parse::<Uri>()
        .map_err(|error| Refusal::malformed(format!("the path of the request cannot be read: {error}")))?;
    *request.headers_mut() = head.headers;
    Ok(request)
}
