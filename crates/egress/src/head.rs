//! Strict parsing of request heads. Constructs that parsers are known to read differently are
//! refused, so that no other parser reads another request from the same bytes.

use std::fmt::Write as _;

use fetch::address::Host;
use hyper::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::{Method, Version};
use tokio::io::AsyncRead;

use crate::peek::PeekedStream;
use crate::refusal::Refusal;

/// Maximum size of a head, in bytes and in headers: several times what the largest servers accept.
pub(crate) const LARGEST: usize = 64 * 1024;
pub(crate) const MAX_HEADERS: usize = 128;

/// A request without its body.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) method: Method,
    pub(crate) version: Version,
    pub(crate) target: Target,
    pub(crate) headers: HeaderMap,
    pub(crate) framing: Framing,
}

/// Target of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `CONNECT host:port`.
    Connect(Host, u16),
    /// Absolute HTTP URL: host, port, and path with query.
    Absolute(Host, u16, String),
    /// A path with its query, or `*`.
    Path(String),
}

/// End of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// The body has a fixed length in bytes.
    Length(u64),
    /// The body ends with an empty chunk.
    Chunked,
}

impl Head {
    /// Returns the host of the `Host` header, and its port if the header names one.
    pub(crate) fn host(&self) -> Result<Option<(Host, Option<u16>)>, Refusal> {
        let Some(value) = self.headers.get(HOST) else { return Ok(None) };
        let text = value.to_str().map_err(|_| Refusal::malformed("the header Host is not text"))?;
        authority(text).map(Some)
    }
}

/// Reads a head. Returns `None` if the connection ends before its first byte.
///
/// # Errors
/// The reason why the head is refused.
pub(crate) async fn read(client: &mut PeekedStream<impl AsyncRead + Unpin>) -> Result<Option<Head>, Refusal> {
    let mut looked_at = 0_usize;
    loop {
        // The end of the head may span two reads.
        let from = looked_at.saturating_sub(3);
        let rest = client.bytes.get(from..).unwrap_or_default();
        if let Some(end) = memchr::memmem::find(rest, b"\r\n\r\n") {
            let head = client.bytes.split_to(from + end + 4);
            plain_lines(&head, true)?;
            return parse(&head).map(Some);
        }
        plain_lines(&client.bytes, false)?;
        looked_at = client.bytes.len();
        if looked_at >= LARGEST {
            return Err(Refusal::malformed(format!("the head of the request has more than {LARGEST} bytes")));
        }
        match client.fill().await {
            Ok(0) if looked_at == 0 => return Ok(None),
            Ok(0) => return Err(Refusal::malformed("the request ends in its head")),
            Ok(_) => {}
            Err(error) => return Err(Refusal::malformed(format!("the request cannot be read: {error}"))),
        }
    }
}

/// Refuses line ends and continuation lines that only some parsers recognize.
fn plain_lines(head: &[u8], whole: bool) -> Result<(), Refusal> {
    for at in memchr::memchr3_iter(b'\n', b'\r', 0, head) {
        let (before, after) = (at.checked_sub(1).and_then(|before| head.get(before)), head.get(at + 1));
        match head.get(at) {
            Some(b'\n') if before != Some(&b'\r') => {
                return Err(Refusal::malformed("a line of the request ends with only a line feed"));
            }
            Some(b'\n') if after.is_some_and(|after| b" \t".contains(after)) => {
                return Err(Refusal::malformed("a header of the request continues on a second line"));
            }
            Some(b'\r') if after.map_or(whole, |after| *after != b'\n') => {
                return Err(Refusal::malformed("the request has a carriage return in a line"));
            }
            Some(0) => return Err(Refusal::malformed("the request has a NUL byte in its head")),
            _ => {}
        }
    }
    Ok(())
}

fn parse(bytes: &[u8]) -> Result<Head, Refusal> {
    let mut space = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut space);
    let parsed =
        request.parse(bytes).map_err(|error| Refusal::malformed(format!("not a valid request: {error}")))?;
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(Refusal::malformed("not a valid request"));
    };
    if parsed.is_partial() {
        return Err(Refusal::malformed("not a valid request"));
    }
    let method =
        Method::from_bytes(method.as_bytes()).map_err(|_| Refusal::malformed("not an HTTP method"))?;
    let version = if version == 1 { Version::HTTP_11 } else { Version::HTTP_10 };
    let mut headers = HeaderMap::new();
    for header in request.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes())
            .map_err(|_| Refusal::malformed("a header has no name"))?;
        let value = HeaderValue::from_bytes(header.value)
            .map_err(|_| Refusal::malformed(format!("the header {name} has an invalid value")))?;
        headers.append(name, value);
    }
    let framing = framing(&headers, version)?;
    let hosts = headers.get_all(HOST).iter().count();
    if hosts > 1 || hosts == 0 && version == Version::HTTP_11 {
        return Err(Refusal::malformed(format!("the request has {hosts} Host headers instead of one")));
    }
    Ok(Head { target: read_target(&method, target)?, method, version, headers, framing })
}

fn read_target(method: &Method, target: &str) -> Result<Target, Refusal> {
    if *method == Method::CONNECT {
        return match authority(target)? {
            (host, Some(port)) => Ok(Target::Connect(host, port)),
            (_, None) => Err(Refusal::malformed("CONNECT names no port")),
        };
    }
    if target.starts_with('/') || target == "*" && *method == Method::OPTIONS {
        return Ok(Target::Path(target.to_owned()));
    }
    let url = fetch::address::Target::parse(target)
        .map_err(|error| Refusal::malformed(format!("the URL of the request cannot be read: {error}")))?;
    if url.is_tls() {
        return Err(Refusal::malformed("an https URL needs CONNECT, so that it is encrypted end to end"));
    }
    Ok(Target::Absolute(url.host().clone(), url.port(), url.path_and_query().to_owned()))
}

/// Parses `host` or `host:port`.
fn authority(text: &str) -> Result<(Host, Option<u16>), Refusal> {
    let wrong = |why: String| Refusal::malformed(format!("{text:?} names no host: {why}"));
    let after_brackets = text.rfind(']').map_or(0, |end| end + 1);
    let colon = text.get(after_brackets..).and_then(|rest| rest.find(':')).map(|at| at + after_brackets);
    let (host, port) = match colon {
        None => (text, None),
        Some(at) => {
            let digits = text.get(at + 1..).unwrap_or_default();
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            let port = digits.parse::<u16>().ok().filter(|port| plain && *port != 0);
            let port = port.ok_or_else(|| wrong("its port is invalid".to_owned()))?;
            (text.get(..at).unwrap_or_default(), Some(port))
        }
    };
    Ok((Host::parse(host).map_err(|error| wrong(error.to_string()))?, port))
}

fn framing(headers: &HeaderMap, version: Version) -> Result<Framing, Refusal> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    match ((lengths.next(), lengths.next()), (encodings.next(), encodings.next())) {
        ((None, _), (None, _)) => Ok(Framing::Length(0)),
        ((Some(length), None), (None, _)) => {
            let digits = length.as_bytes();
            let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
            let plain = digits.iter().all(u8::is_ascii_digit);
            let number = number.filter(|_| plain);
            number.map(Framing::Length).ok_or_else(|| Refusal::malformed("Content-Length is not a number"))
        }
        ((None, _), (Some(encoding), None)) if version == Version::HTTP_11 => {
            if encoding.as_bytes().eq_ignore_ascii_case(b"chunked") {
                return Ok(Framing::Chunked);
            }
            Err(Refusal::malformed("Transfer-Encoding is not chunked"))
        }
        (lengths, encodings) => {
            let mut said = String::from("the end of the request body is given twice or in an obsolete form");
            if lengths.0.is_some() && encodings.0.is_some() {
                // Writing into a string cannot fail.
                let _ = write!(said, " (Content-Length and Transfer-Encoding)");
            }
            Err(Refusal::malformed(said))
        }
    }
}

#[cfg(test)]
mod tests;
