//! The answer to a request, on its way back.

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
use crate::answer::Refusal;

/// How long a server may take for its answer, or the next part of it.
pub(crate) const ANSWERED: Duration = Duration::from_mins(10);

/// Whether the connection can have another request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Another,
    None,
}

/// What counts between two neighbours alone (RFC 9110, section 7.6.1), beside what the header `Connection` names.
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
    // Who names these would have the next one read another request.
    let kept = |name: &HeaderName| *name == HOST || *name == CONTENT_LENGTH;
    for name in named.into_iter().filter(|name| !kept(name)).chain(others).chain(OF_ONE_CONNECTION) {
        headers.remove(name);
    }
}

pub(crate) fn says_close(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("close"))
}

/// Why an exchange did not come to its end.
#[derive(Debug)]
pub(crate) enum Broken {
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

/// Whom an answer is for.
pub(crate) struct To<'a> {
    pub(crate) method: &'a Method,
    pub(crate) version: Version,
    /// Whether the connection is to end with it.
    pub(crate) closes: bool,
    /// Set when the answer has begun, so that no other can take its place.
    pub(crate) begun: &'a AtomicBool,
}

/// Passes an answer on, with secrets covered where that is wanted.
pub(crate) async fn respond(
    response: Response<Incoming>,
    to: To<'_>,
    cover: Option<Box<dyn Cover>>,
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<Next, Broken> {
    let (parts, body) = response.into_parts();
    let (status, mut headers) = (parts.status, parts.headers);
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Refusal::unreachable("the server speaks another protocol than it was asked for").into());
    }
    without_those_of_the_connection(&mut headers);
    let mut looking = None;
    if let Some(cover) = cover {
        looking = Some(Looking::of(&mut headers, cover)?);
    }
    let has_body = has_body(to.method, status);
    // What covers changes lengths.
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
    let mut out = Out { writer, chunked, gathered: BytesMut::new() };
    let passed = pass_on(status, &headers, body, looking, &mut out).await;
    passed.map_err(Broken::Off)?;
    Ok(if closes { Next::None } else { Next::Another })
}

/// Whether an answer of this status to this method has a body.
pub(crate) fn has_body(method: &Method, status: StatusCode) -> bool {
    *method != Method::HEAD && !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// What looks an answer through for secrets.
pub(crate) struct Looking {
    decoder: Decoder,
    cover: Box<dyn Cover>,
}

/// Bytes of a compressed body that are looked at at once: little, because of each a thousand may come.
const AT_ONCE: usize = 1024;

impl Looking {
    /// For the answer with these headers, which are covered, and say no more how the body was encoded.
    pub(crate) fn of(headers: &mut HeaderMap, cover: Box<dyn Cover>) -> Result<Self, Refusal> {
        *headers = covered(std::mem::take(headers), cover.as_ref());
        Ok(Self { decoder: decoder(headers)?, cover })
    }

    /// What can be shown of the next bytes, of which as many are taken as may be looked at at once.
    pub(crate) fn some(&mut self, part: &mut Bytes) -> io::Result<Vec<u8>> {
        if self.decoder.is_plain() {
            return Ok(self.cover.part(&std::mem::take(part), false));
        }
        let some = part.split_to(part.len().min(AT_ONCE));
        let plain = self.decoder.push(&some).map_err(io::Error::other)?;
        Ok(self.cover.part(&plain, false))
    }

    /// The rest, and these trailers as they can be shown.
    pub(crate) fn rest(mut self, trailers: HeaderMap) -> io::Result<(Vec<u8>, HeaderMap)> {
        let plain = self.decoder.finish().map_err(io::Error::other)?;
        let rest = self.cover.part(&plain, true);
        Ok((rest, covered(trailers, self.cover.as_ref())))
    }

    /// Puts what can be shown of this part behind what is there already, and gives it on wherever that is much.
    async fn part(&mut self, mut part: Bytes, out: &mut Out<'_, impl AsyncWrite + Unpin>) -> io::Result<()> {
        while !part.is_empty() {
            out.add(&self.some(&mut part)?).await?;
        }
        Ok(())
    }
}

/// What makes a body readable, which then says no more that it was not.
fn decoder(headers: &mut HeaderMap) -> Result<Decoder, Refusal> {
    let said = headers.get_all(CONTENT_ENCODING).iter().map(|value| value.to_str().unwrap_or("?"));
    let decoder = Decoder::new(&said.collect::<Vec<_>>().join(","), u64::MAX).map_err(|error| {
        Refusal::unreachable(format!(
            "the answer of the server cannot be looked through for secrets: {error}"
        ))
    })?;
    if !decoder.is_plain() {
        headers.remove(CONTENT_ENCODING);
    }
    Ok(decoder)
}

/// Bytes that are given on at once where more has come already.
const GATHERED: usize = 64 * 1024;
/// Bytes of the line before a chunk: eight digits and its end.
const SIZE: usize = 10;

/// Where an answer goes.
struct Out<'a, W> {
    writer: &'a mut W,
    chunked: bool,
    /// What waits for more, with room for the line before it.
    gathered: BytesMut,
}

impl<W: AsyncWrite + Unpin> Out<'_, W> {
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

    /// Sends what waits, so that the client has it.
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
        // By TLS it may still wait to be encrypted.
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
    mut looking: Option<Looking>,
    out: &mut Out<'_, impl AsyncWrite + Unpin>,
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
                // Nobody waits for what may come later.
                out.give().await?;
                timeout(ANSWERED, body.frame()).await.map_err(|_| io::ErrorKind::TimedOut)?
            }
        };
        let Some(frame) = frame else { break };
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                // What came before it broke off is the client's.
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

/// The next frame, or the end, where it is there already or comes with what was received.
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
        // The connection to the server is read by a task of its own.
        tokio::task::yield_now().await;
    }
    None
}

/// The headers with every secret covered. What cannot be read is left out.
fn covered(headers: HeaderMap, cover: &dyn Cover) -> HeaderMap {
    let mut kept = HeaderMap::new();
    let mut last = None;
    for (name, value) in headers {
        // Further values of a header come without its name.
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
