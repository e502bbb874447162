//! The answer to a request, on its way back.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
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
    mut cover: Option<Box<dyn Cover>>,
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<Next, Broken> {
    let (parts, body) = response.into_parts();
    let (status, mut headers) = (parts.status, parts.headers);
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Refusal::unreachable("the server speaks another protocol than it was asked for").into());
    }
    without_those_of_the_connection(&mut headers);
    if let Some(cover) = &cover {
        let identity = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
        if headers.get_all(CONTENT_ENCODING).iter().any(|value| !identity(value)) {
            let reason = "the server compresses its answer although it was asked not to, so that it cannot be looked through for secrets";
            return Err(Refusal::unreachable(reason).into());
        }
        headers = covered(headers, cover.as_ref());
    }
    let has_body =
        *to.method != Method::HEAD && !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    // What covers changes lengths.
    let length = body.size_hint().exact().filter(|length| cover.is_none() || *length == 0);
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
    let passed = pass_on(status, &headers, body, chunked, &mut cover, writer).await;
    passed.map_err(Broken::Off)?;
    Ok(if closes { Next::None } else { Next::Another })
}

async fn pass_on(
    status: StatusCode,
    headers: &HeaderMap,
    mut body: Incoming,
    chunked: bool,
    cover: &mut Option<Box<dyn Cover>>,
    writer: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let mut head =
        format!("HTTP/1.1 {} {}\r\n", status.as_str(), status.canonical_reason().unwrap_or("-")).into_bytes();
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    head.extend_from_slice(b"\r\n");
    writer.write_all(&head).await?;
    while let Some(frame) = timeout(ANSWERED, body.frame()).await.map_err(|_| io::ErrorKind::TimedOut)? {
        let Ok(data) = frame.map_err(io::Error::other)?.into_data() else { continue };
        match cover {
            Some(cover) => write_part(&cover.part(&data, false), chunked, writer).await?,
            None => write_part(&data, chunked, writer).await?,
        }
    }
    if let Some(cover) = cover {
        write_part(&cover.part(&[], true), chunked, writer).await?;
    }
    if chunked {
        writer.write_all(b"0\r\n\r\n").await?;
    }
    writer.flush().await
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

async fn write_part(data: &[u8], chunked: bool, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
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
