//! A single HTTP/2 request: judged, rewritten and sent, with its response passed back.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::header::{
    CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderValue, TE, TRANSFER_ENCODING,
};
use hyper::http::request;
use hyper::{Method, Request, Response, StatusCode, Version};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::passed::RedactedBody;
use super::{Active, Activity, Connection};
use crate::body::TIMEOUT;
use crate::forward::{self, LINGERING, WHOLE};
use crate::head::{Framing, Head, MAX_HEADERS, Target};
use crate::judging::{Beginning, Judging};
use crate::refusal::Refusal;
use crate::respond::{ANSWERED, ResponseRedactor, has_body, without_those_of_the_connection};
use crate::substitute::{self, HostSubstitution};
use crate::upload::{Upload, Uploader};
use crate::upstream;
use crate::{Gate, Way};

/// Returns the response to a request. If the request is refused, the response is the proxy's own.
pub(super) async fn answer<G: Gate>(
    connection: Arc<Connection<G>>,
    request: Request<Incoming>,
) -> Response<RedactedBody> {
    let mut active = Active::begin(&connection.activity);
    match exchange(&connection, request).await {
        Ok(mut answer) => {
            active.answered();
            answer.body_mut().holds(active);
            answer
        }
        Err(refusal) => {
            active.answered();
            let (kind, text) = refusal.content();
            let mut answer = Response::new(RedactedBody::of_text(text));
            *answer.status_mut() = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_GATEWAY);
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            answer
        }
    }
}

async fn exchange<G: Gate>(
    connection: &Arc<Connection<G>>,
    request: Request<Incoming>,
) -> Result<Response<RedactedBody>, Refusal> {
    let Connection { session, scope, .. } = connection.as_ref();
    let _working = scope.place.work();
    let (parts, body) = request.into_parts();
    let mut reading = Reading { beginning: None, body: Some(body), activity: connection.activity.clone() };
    let mut head = head(parts, reading.length())?;
    let (host, port, mut path) = match forward::place(scope, &head) {
        Ok(place) => place,
        Err((at, refusal)) => {
            if let Some((host, port)) = at {
                session.refuse(host.to_string(), port, Way::Http, refusal.reason.clone()).await;
            }
            return Err(refusal);
        }
    };
    session.judge(&host, port, Way::Http, &scope.place).await?;
    let wants_trailers = head.headers.get(TE).is_some_and(|value| value.as_bytes() == b"trailers");
    if session.gate.judges_requests(&host) {
        without_those_of_the_connection(&mut head.headers);
        let mut judging = Judging::of(session, (&host, port, scope.place.peer), &head, &path);
        loop {
            match judging.needs().await {
                Ok(None) => break,
                Ok(Some(wanted)) => {
                    while !judging.has(wanted) {
                        judging.add(reading.next().await?);
                    }
                }
                Err(refusal) => {
                    if refusal.answer.is_some() {
                        while let Ok(Some(_)) = reading.next().await {}
                    }
                    return Err(refusal);
                }
            }
        }
        reading.beginning = Some(judging.finish()).filter(|beginning| !beginning.bytes.is_empty());
    }
    let swapping = HostSubstitution { session, host: &host, port, opened: true };
    swapping.head(&head.method, &mut head.headers, &mut path).await?;
    let mut swapped = substitute::Body::of(&head.headers);
    let swaps = session.gate.swaps_bodies(&host);
    let (length, whole) = match head.framing {
        Framing::Length(length) if swaps && (1..=WHOLE).contains(&length) => {
            let _place = connection.whole_bodies.acquire().await;
            let mut whole = BytesMut::new();
            while let Some(part) = reading.next().await? {
                whole.extend_from_slice(&swapped.next(part, &swapping).await?);
            }
            whole.extend_from_slice(
                &std::mem::replace(&mut swapped, substitute::Body::of(&head.headers)).rest(),
            );
            (Some(whole.len() as u64), Some(whole.freeze()))
        }
        Framing::Length(length) if !swaps || length == 0 => (Some(length), None),
        Framing::Length(_) | Framing::Chunked => (None, None),
    };
    let (sender, upload) = Upload::of(length);
    let method = head.method.clone();
    let mut request = forward::request(head, scope, &host, port, &path, length, upload)?;
    let (mut upstream, back) = connection.servers.take(session, &host, port).await?.parts();
    if wants_trailers && matches!(upstream.sender, upstream::Sender::Http2(_)) {
        request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
    }
    let (failing, mut failed) = oneshot::channel::<Refusal>();
    let uploading = {
        let (connection, host) = (connection.clone(), host.clone());
        connection.tasks.clone().spawn(async move {
            let swapping = HostSubstitution { session: &connection.session, host: &host, port, opened: true };
            if let Some(whole) = whole {
                // If no receiver takes the body, the response tells why.
                sender.send(whole).await;
            }
            match send_on(&mut reading, swapped, &swapping, &sender).await {
                Ok(()) => sender.end(),
                Err(refusal) => drop(failing.send(refusal)),
            }
        })
    };
    let mut passed = RedactedBody::uploading(uploading);
    let mut is_uploaded = false;
    let response = {
        let sending = timeout(ANSWERED, upstream.send(request));
        tokio::pin!(sending);
        loop {
            tokio::select! {
                biased;
                ended = &mut failed, if !is_uploaded => match ended {
                    Ok(refusal) => return Err(refusal),
                    Err(_) => is_uploaded = true,
                },
                response = &mut sending => break response,
            }
        }
    };
    let response = response
        .map_err(|_| Refusal::unreachable(format!("{host} did not respond in time")))?
        .map_err(|error| Refusal::unreachable(format!("{host} did not respond: {error}")))?;
    let (mut parts, body) = response.into_parts();
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Refusal::unreachable("the server uses another protocol than requested"));
    }
    without_those_of_the_connection(&mut parts.headers);
    let looking = ResponseRedactor::of(&mut parts.headers, session.gate.cover())?;
    if has_body(&method, parts.status) && body.size_hint().exact() != Some(0) {
        // Redaction changes the length.
        parts.headers.remove(CONTENT_LENGTH);
    }
    let failed = Some(failed).filter(|_| !is_uploaded);
    passed.begin(body, looking, failed, back.map(|back| (back, upstream)));
    parts.version = Version::HTTP_2;
    Ok(Response::from_parts(parts, passed))
}

/// Reads the request as strictly as an HTTP/1.1 request: ambiguous constructs are refused.
fn head(parts: request::Parts, length: Option<u64>) -> Result<Head, Refusal> {
    let mut headers = parts.headers;
    if headers.len() > MAX_HEADERS {
        return Err(Refusal::malformed(format!("the request has more than {MAX_HEADERS} headers")));
    }
    if parts.method == Method::CONNECT {
        return Err(Refusal::malformed("CONNECT is only accepted as the first request of a connection"));
    }
    if parts.uri.scheme_str().is_some_and(|scheme| scheme != "https") {
        return Err(Refusal::malformed("the scheme of the request differs from its connection"));
    }
    if headers.contains_key(TRANSFER_ENCODING) {
        return Err(Refusal::malformed(
            "the request marks the end of its body in the form of another HTTP version",
        ));
    }
    let named = headers.get_all(HOST).iter().count();
    match parts.uri.authority() {
        None if named == 1 => {}
        None => {
            return Err(Refusal::malformed(format!("the request has {named} host names instead of one")));
        }
        Some(authority) => {
            // RFC 9113, section 8.3.1: if both are present, they must be equal.
            if headers
                .get_all(HOST)
                .iter()
                .any(|host| !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()))
            {
                return Err(Refusal::malformed("the request names two hosts"));
            }
            let authority = HeaderValue::from_str(authority.as_str());
            headers.insert(HOST, authority.map_err(|_| Refusal::malformed("the request names no host"))?);
        }
    }
    joined_cookies(&mut headers)?;
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    let is_path = path.starts_with('/') || path == "*" && parts.method == Method::OPTIONS;
    if !is_path {
        return Err(Refusal::malformed("the request has no path"));
    }
    let framing = match length {
        Some(length) => Framing::Length(length),
        None => Framing::Chunked,
    };
    let target = Target::Path(path.to_owned());
    Ok(Head { method: parts.method, version: Version::HTTP_11, target, headers, framing })
}

/// Joins cookies into one header, as HTTP/1.1 requires (RFC 9113, section 8.2.3).
fn joined_cookies(headers: &mut HeaderMap) -> Result<(), Refusal> {
    let crumbs: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if crumbs.len() < 2 {
        return Ok(());
    }
    let joined = HeaderValue::from_bytes(&crumbs.join(&b"; "[..]));
    headers.insert(COOKIE, joined.map_err(|_| Refusal::malformed("the cookies cannot be combined"))?);
    Ok(())
}

/// The body of a request as it arrives.
struct Reading {
    /// Bytes that were read before, to judge the request.
    beginning: Option<Beginning>,
    /// The rest, until this is dropped.
    body: Option<Incoming>,
    activity: Arc<Activity>,
}

impl Drop for Reading {
    /// Reads on for a moment. If the body were dropped while the client sends it, the stream would be
    /// reset, and the client might lose the response.
    fn drop(&mut self) {
        let Some(mut body) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // A client that goes on sending loses the response.
            runtime.spawn(timeout(LINGERING, async move { while let Some(Ok(_)) = body.frame().await {} }));
        }
    }
}

impl Reading {
    /// Returns the length of the body, if the request states it.
    fn length(&self) -> Option<u64> {
        self.body.as_ref().and_then(|body| body.size_hint().exact())
    }

    /// Returns the next part of the body; `None` at its end. Trailers are dropped.
    async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        if let Some(beginning) = self.beginning.take() {
            return Ok(Some(beginning.bytes));
        }
        loop {
            let Some(body) = &mut self.body else { return Ok(None) };
            match timeout(TIMEOUT, body.frame()).await {
                Err(_) => return Err(Refusal::late("the body of the request did not arrive in time")),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => {
                    return Err(Refusal::malformed(format!(
                        "the body of the request cannot be read: {error}"
                    )));
                }
                Ok(Some(Ok(frame))) => {
                    self.activity.moves();
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

async fn send_on<G: Gate>(
    reading: &mut Reading,
    mut body: substitute::Body,
    swapping: &HostSubstitution<'_, G>,
    to: &Uploader,
) -> Result<(), Refusal> {
    while let Some(part) = reading.next().await? {
        let part = body.next(part, swapping).await?;
        // A server that accepts no more has already answered, or has closed the connection.
        if !part.is_empty() && !to.send(part).await {
            return Ok(());
        }
    }
    let rest = body.rest();
    if !rest.is_empty() {
        to.send(rest).await;
    }
    Ok(())
}
