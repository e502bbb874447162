//! Placeholders, which represent secrets in the cells. The proxy swaps a placeholder for its value
//! on the way out, only for the secret's hosts and at its permitted positions. A request with a
//! placeholder elsewhere is refused.

use std::io;
use std::ops::{Deref, Range};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes, BytesMut};
use fetch::address::Host;
use hyper::Method;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::refusal::Refusal;
use crate::session::Session;
use crate::{Gate, Way};

/// Prefix of every placeholder. Neither the prefix nor the digits need escaping in URLs, JSON,
/// forms or shells.
const PREFIX: &[u8] = b"handfast_secret_";
/// Random hexadecimal digits after the prefix: 128 bits.
const DIGITS: usize = 32;
const LENGTH: usize = PREFIX.len() + DIGITS;

/// Position of a placeholder in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The value of a header, also within the base64 of `Basic`.
    Header,
    /// The query of the URL.
    Query,
    /// The body.
    Body,
}

/// The value of a secret, in memory of any kind.
pub struct Secret(Box<dyn Deref<Target = [u8]> + Send + Sync>);

impl Secret {
    /// Wraps a value.
    pub fn of(value: impl Deref<Target = [u8]> + Send + Sync + 'static) -> Self {
        Self(Box::new(value))
    }
}

/// Creates a new, unguessable placeholder.
///
/// # Errors
/// An error if the system has no randomness.
pub fn placeholder() -> io::Result<String> {
    let mut chance = [0_u8; DIGITS / 2];
    getrandom::fill(&mut chance).map_err(io::Error::other)?;
    let digits: String = chance.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{}{digits}", String::from_utf8_lossy(PREFIX)))
}

/// Finds the first complete placeholder.
fn find(bytes: &[u8]) -> Option<Range<usize>> {
    memchr::memmem::find_iter(bytes, PREFIX).find_map(|at| {
        let digits = bytes.get(at + PREFIX.len()..at + LENGTH)?;
        digits.iter().all(u8::is_ascii_hexdigit).then_some(at..at + LENGTH)
    })
}

/// Escaping of a value at its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escaping {
    AsItIs,
    Percent,
    Json,
}

impl Escaping {
    fn write(self, value: &[u8], to: &mut Vec<u8>) {
        for byte in value {
            let plain = match self {
                Self::AsItIs => true,
                Self::Percent => byte.is_ascii_alphanumeric() || b"-._~".contains(byte),
                Self::Json => *byte >= 0x20 && !b"\"\\".contains(byte),
            };
            if plain {
                to.push(*byte);
                continue;
            }
            let escaped = if self == Self::Json { format!("\\u{byte:04x}") } else { format!("%{byte:02X}") };
            to.extend_from_slice(escaped.as_bytes());
        }
    }
}

/// Swapping in the requests to one host.
pub(crate) struct HostSubstitution<'a, G> {
    pub(crate) session: &'a Session<G>,
    pub(crate) host: &'a Host,
    pub(crate) port: u16,
    /// True if the connection is opened. On other connections a placeholder is refused.
    pub(crate) opened: bool,
}

impl<G: Gate> HostSubstitution<'_, G> {
    async fn value(&self, placeholder: &[u8], place: Position) -> Result<Secret, Refusal> {
        let text = String::from_utf8_lossy(placeholder);
        let swapped = if self.opened {
            self.session.gate.swap(&text, self.host, place).await
        } else {
            Err("the request contains the placeholder of a secret, which is replaced only on TLS \
                 connections to the hosts of that secret"
                .to_owned())
        };
        match swapped {
            Ok(secret) => Ok(secret),
            Err(reason) => {
                Err(self.session.refuse(self.host.to_string(), self.port, Way::Secret, reason).await)
            }
        }
    }

    /// Returns the bytes with every placeholder swapped; `None` if there is no placeholder.
    async fn swap(
        &self,
        bytes: &[u8],
        place: Position,
        written: Escaping,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let mut swapped = Vec::new();
        let mut rest = bytes;
        while let Some(at) = find(rest) {
            let value = self.value(&rest[at.clone()], place).await?;
            swapped.extend_from_slice(&rest[..at.start]);
            written.write(&value.0, &mut swapped);
            rest = &rest[at.end..];
        }
        if rest.len() == bytes.len() {
            return Ok(None);
        }
        swapped.extend_from_slice(rest);
        Ok(Some(swapped))
    }

    /// Swaps the placeholders in the headers and in the query.
    pub(crate) async fn head(
        &self,
        method: &Method,
        headers: &mut HeaderMap,
        path: &mut String,
    ) -> Result<(), Refusal> {
        if find(method.as_str().as_bytes()).is_some() {
            return Err(self.misplaced("the method").await);
        }
        if find(self.host.to_string().as_bytes()).is_some() {
            return Err(self.misplaced("the name of a host").await);
        }
        let (before, query) =
            path.split_once('?').map_or((path.as_str(), None), |(path, query)| (path, Some(query)));
        if find(before.as_bytes()).is_some() {
            return Err(self.misplaced("the path of a URL").await);
        }
        if let Some(query) = query
            && let Some(swapped) = self.swap(query.as_bytes(), Position::Query, Escaping::Percent).await?
        {
            *path = format!("{before}?{}", String::from_utf8_lossy(&swapped));
        }
        let mut changed: Vec<(HeaderName, Vec<HeaderValue>)> = Vec::new();
        for name in headers.keys() {
            if find(name.as_str().as_bytes()).is_some() {
                return Err(self.misplaced("the name of a header").await);
            }
            let mut values = Vec::new();
            let mut any = false;
            for value in headers.get_all(name) {
                let swapped = match self.swap(value.as_bytes(), Position::Header, Escaping::AsItIs).await? {
                    None if *name == AUTHORIZATION => self.basic(value.as_bytes()).await?,
                    swapped => swapped,
                };
                any |= swapped.is_some();
                values.push(match swapped {
                    None => value.clone(),
                    Some(swapped) => {
                        let mut value = HeaderValue::from_bytes(&swapped).map_err(|_| {
                            Refusal::denied(
                                "the value of the secret has characters that are invalid in headers",
                            )
                        })?;
                        value.set_sensitive(true);
                        value
                    }
                });
            }
            if any {
                changed.push((name.clone(), values));
            }
        }
        for (name, values) in changed {
            headers.remove(&name);
            for value in values {
                headers.append(name.clone(), value);
            }
        }
        Ok(())
    }

    async fn misplaced(&self, place: &str) -> Refusal {
        let reason = format!("the placeholder of a secret is in {place}, where none is replaced");
        self.session.refuse(self.host.to_string(), self.port, Way::Secret, reason).await
    }

    /// Swaps the placeholders within `Basic` credentials (RFC 7617).
    async fn basic(&self, value: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
        let Some((scheme, encoded)) = value.split_at_checked(6) else { return Ok(None) };
        if !scheme.eq_ignore_ascii_case(b"basic ") {
            return Ok(None);
        }
        let Ok(plain) = STANDARD.decode(encoded.trim_ascii()) else { return Ok(None) };
        let swapped = self.swap(&plain, Position::Header, Escaping::AsItIs).await?;
        Ok(swapped.map(|swapped| [b"Basic ", STANDARD.encode(swapped).as_bytes()].concat()))
    }
}

/// An outgoing body. Bytes that may be the beginning of a placeholder are held back.
pub(crate) struct Body {
    held: BytesMut,
    written: Escaping,
}

impl Body {
    /// Creates a body with the escaping for the content type in `headers`.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let written = match kind.as_str() {
            "application/x-www-form-urlencoded" => Escaping::Percent,
            kind if kind.ends_with("json") => Escaping::Json,
            _ => Escaping::AsItIs,
        };
        Self { held: BytesMut::new(), written }
    }
    /// Takes the next part and returns the bytes that can be sent.
    pub(crate) async fn next<G: Gate>(
        &mut self,
        part: Bytes,
        swapping: &HostSubstitution<'_, G>,
    ) -> Result<Bytes, Refusal> {
        if self.held.is_empty() && memchr::memmem::find(&part, PREFIX).is_none() && begun(&part) == 0 {
            return Ok(part);
        }
        self.held.extend_from_slice(&part);
        let mut out = Vec::new();
        loop {
            let Some(at) = memchr::memmem::find(&self.held, PREFIX) else {
                let settled = self.held.len() - begun(&self.held);
                out.extend_from_slice(&self.held.split_to(settled));
                return Ok(out.into());
            };
            out.extend_from_slice(&self.held.split_to(at));
            if self.held.len() < LENGTH {
                return Ok(out.into());
            }
            if find(&self.held).is_none_or(|found| found.start != 0) {
                out.extend_from_slice(&self.held.split_to(PREFIX.len()));
                continue;
            }
            let value = swapping.value(&self.held[..LENGTH], Position::Body).await?;
            self.written.write(&value.0, &mut out);
            self.held.advance(LENGTH);
        }
    }

    /// Returns the bytes held back, at the end of the body.
    pub(crate) fn rest(self) -> Bytes {
        self.held.freeze()
    }
}

/// Returns how many bytes at the end may be the beginning of [`PREFIX`].
fn begun(bytes: &[u8]) -> usize {
    (1..PREFIX.len()).rev().find(|length| bytes.ends_with(&PREFIX[..*length])).unwrap_or(0)
}
