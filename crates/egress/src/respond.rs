//! HTTP/1 responses on their way back to the program.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use fetch::decode::Decoder;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::{Method, Response, StatusCode, Version};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::Cover;
use crate::refusal::Refusal;

/// Maximum wait for a response, and for each further part of it.
pub(crate) const ANSWERED: Duration = Duration::from_mins(10);

/// State of the connection after a response: open for another request, or not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    Another,
    None,
}

/// Hop-by-hop headers (RFC 9110, section 7.6.1), in addition to those that the `Connection` header names.
const OF_ONE_CONNECTION: [HeaderName; 6] = [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, EXPECT];

pub(crate) fn without_those_of_the_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let others = ["keep-alive", "proxy-connection", "proxy-authorization"].map(HeaderName::from_static);
    // `Connection` must not remove these two: without them the next server would read a different request.
    let kept = |name: &HeaderName| *name == HOST || *name == CONTENT_LENGTH;
    for name in named.into_iter().filter(|name| !kept(name)).chain(others).chain(OF_ONE_CONNECTION) {
        headers.remove(name);
    }
}

pub(crate) fn says_close(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("close"))
}

/// Failure of an exchange.
#[derive(Debug)]
pub(crate) enum ExchangeFailure {
    /// The response has not begun, so the refusal is sent as the response.
    Refused(Refusal),
    /// The response has begun, so the connection can only be closed.
    Off(io::Error),
}

impl From<Refusal> for ExchangeFailure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The request that a response answers.
pub(crate) struct AnsweredRequest<'a> {
    pub(crate) method: &'a Method,
    pub(crate) version: Version,
    /// True if the connection is to close after the response.
    pub(crate) closes: bool,
    /// Set when the response begins, so that no second response is sent.
    pub(crate) begun: &'a AtomicBool,
}

/// Passes a response on, redacted if `cover` is given.
pub(crate) async fn respond(
    response: Response<Incoming>,
    to: AnsweredRequest<'_>,
    cover: Option<Box<dyn Cover>>,
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<ConnectionState, ExchangeFailure> {
    let (parts, body) = response.into_parts();
    let (status, mut headers) = (parts.status, parts.headers);
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Refusal::unreachable("the server uses another protocol than requested").into());
    }
    without_those_of_the_connection(&mut headers);
    let mut looking = None;
    if let Some(cover) = cover {
        looking = Some(ResponseRedactor::of(&mut headers, cover)?);
    }
    let has_body = has_body(to.method, status);
    // Redaction changes the length.
    let length = body.size_hint().exact().filter(|length| looking.is_none() || *length == 0);
    let chunked = has_body && length.is_none() && to.version == Version::HTTP_11;
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
    let closes = to.closes || has_body && length.is_none() && !chunked;
    if closes {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    to.begun.store(true, Ordering::Relaxed);
    let mut out = ResponseSink { writer, chunked, gathered: BytesMut::new() };
    let passed = pass_on(status, &headers, body, looking, &mut out).await;
    passed.map_err(ExchangeFailure::Off)?;
    Ok(if closes { ConnectionState::None } else { ConnectionState::Another })
}

/// Returns true if a response with this status to this method has a body.
pub(crate) fn has_body(method: &Method, status: StatusCode) -> bool {
    *method != Method::HEAD && !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Decodes and redacts a response.
pub(crate) struct ResponseRedactor {
    decoder: Decoder,
    cover: Box<dyn Cover>,
}

/// Bytes of a compressed body that are decoded at a time: few, because each may expand a thousandfold.
const AT_ONCE: usize = 1024;

impl ResponseRedactor {
    /// Prepares for the response with these headers: redacts the headers and removes the content encoding.
    pub(crate) fn of(headers: &mut HeaderMap, cover: Box<dyn Cover>) -> Result<Self, Refusal> {
        *headers = covered(std::mem::take(headers), cover.as_ref());
        Ok(Self { decoder: decoder(headers)?, cover })
    }

    /// Consumes at most one step of `part` and returns the redacted bytes that are safe to pass on.
    pub(crate) fn some(&mut self, part: &mut Bytes) -> io::Result<Vec<u8>> {
        if self.decoder.is_plain() {
            return Ok(self.cover.part(&std::mem::take(part), false));
        }
        let some = part.split_to(part.len().min(AT_ONCE));
        let plain = self.decoder.push(&some).map_err(io::Error::other)?;
        Ok(self.cover.part(&plain, false))
    }

    /// Returns the remaining redacted bytes, and the redacted trailers.
    pub(crate) fn rest(mut self, trailers: HeaderMap) -> io::Result<(Vec<u8>, HeaderMap)> {
        let plain = self.decoder.finish().map_err(io::Error::other)?;
        let rest = self.cover.part(&plain, true);
        Ok((rest, covered(trailers, self.cover.as_ref())))
    }

    /// Redacts `part` and appends it to the output.
    async fn part(
        &mut self,
        mut part: Bytes,
        out: &mut ResponseSink<'_, impl AsyncWrite + Unpin>,
    ) -> io::Result<()> {
        while !part.is_empty() {
            out.add(&self.some(&mut part)?).await?;
        }
        Ok(())
    }
}

/// Returns a decoder for the body and removes the header of its encoding.
fn decoder(headers: &mut HeaderMap) -> Result<Decoder, Refusal> {
    let said = headers.get_all(CONTENT_ENCODING).iter().map(|value| value.to_str().unwrap_or("?"));
    let decoder = Decoder::new(&said.collect::<Vec<_>>().join(","), u64::MAX).map_err(|error| {
        Refusal::unreachable(format!("the server's response cannot be searched for secrets: {error}"))
    })?;
    if !decoder.is_plain() {
        headers.remove(CONTENT_ENCODING);
    }
    Ok(decoder)
}

/// Bytes that are collected before they are written.
const GATHERED: usize = 64 * 1024;
/// Length of the line before a chunk, in bytes: eight digits and the line end.
const SIZE: usize = 10;

/// Destination of a response.
struct ResponseSink<'a, W> {
    writer: &'a mut W,
    chunked: bool,
    /// Collected bytes, preceded by room for the chunk's size line.
    gathered: BytesMut,
}

impl<W: AsyncWrite + Unpin> ResponseSink<'_, W> {
    async fn add(&mut self, data: &[u8]) -> io::Result<()> {
        for some in data.chunks(GATHERED) {
            if self.gathered.is_empty() {
                self.gathered.reserve(GATHERED + AT_ONCE);
                self.gathered.extend_from_slice(&[b'0'; SIZE]);
            }
            self.gathered.extend_from_slice(some);
            if self.gathered.len() >= GATHERED {
                self.give().await?;
            }
        }
        Ok(())
    }

    /// Writes the collected bytes.
    async fn give(&mut self) -> io::Result<()> {
        let mut gathered = std::mem::take(&mut self.gathered);
        let Some(length) = gathered.len().checked_sub(SIZE).filter(|length| *length > 0) else {
            return Ok(());
        };
        if self.chunked {
            gathered[..SIZE].copy_from_slice(format!("{length:08x}\r\n").as_bytes());
            gathered.extend_from_slice(b"\r\n");
        } else {
            gathered.advance(SIZE);
        }
        self.writer.write_all(&gathered).await?;
        // Flush, because written bytes may still wait for encryption by TLS.
        self.writer.flush().await?;
        gathered.clear();
        self.gathered = gathered;
        Ok(())
    }
}

async fn pass_on(
    status: StatusCode,
    headers: &HeaderMap,
    mut body: Incoming,
    mut looking: Option<ResponseRedactor>,
    out: &mut ResponseSink<'_, impl AsyncWrite + Unpin>,
) -> io::Result<()> {
    let mut head =
        format!("HTTP/1.1 {} {}\r\n", status.as_str(), status.canonical_reason().unwrap_or("-")).into_bytes();
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    head.extend_from_slice(b"\r\n");
    out.writer.write_all(&head).await?;
    loop {
        let frame = match there(&mut body).await {
            Some(frame) => frame,
            None => {
                // Flush before the wait for later data.
                out.give().await?;
                timeout(ANSWERED, body.frame()).await.map_err(|_| io::ErrorKind::TimedOut)?
            }
        };
        let Some(frame) = frame else { break };
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                // Pass on the data that arrived before the failure.
                out.give().await?;
                return Err(io::Error::other(error));
            }
        };
        let Ok(data) = frame.into_data() else { continue };
        match &mut looking {
            Some(looking) => looking.part(data, out).await?,
            None => out.add(&data).await?,
        }
    }
    if let Some(looking) = looking {
        out.add(&looking.rest(HeaderMap::new())?.0).await?;
    }
    out.give().await?;
    if out.chunked {
        out.writer.write_all(b"0\r\n\r\n").await?;
    }
    out.writer.flush().await
}

/// Returns the next frame, or the end, if it is available without a wait.
async fn there(body: &mut Incoming) -> Option<Option<hyper::Result<Frame<Bytes>>>> {
    for is_second in [false, true] {
        let look = |context: &mut Context<'_>| match Pin::new(&mut *body).poll_frame(context) {
            Poll::Ready(frame) => Poll::Ready(Some(frame)),
            Poll::Pending => Poll::Ready(None),
        };
        let frame = poll_fn(look).await;
        if frame.is_some() || is_second {
            return frame;
        }
        // A separate task reads from the server connection; let it run.
        tokio::task::yield_now().await;
    }
    None
}

/// Redacts every header. Headers that are not text are dropped.
fn covered(headers: HeaderMap, cover: &dyn Cover) -> HeaderMap {
    let mut kept = HeaderMap::new();
    let mut last = None;
    for (name, value) in headers {
        // The map yields further values of a header without its name.
        last = name.or(last);
        let (Some(name), Ok(text)) = (&last, std::str::from_utf8(value.as_bytes())) else { continue };
        if cover.text(name.as_str()).is_some() {
            continue;
        }
        let shown = cover.text(text).map_or(Ok(value.clone()), HeaderValue::try_from);
        if let Ok(shown) = shown {
            kept.append(name.clone(), shown);
        }
    }
    kept
}
