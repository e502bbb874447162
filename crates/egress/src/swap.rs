//! Placeholders: what stands for secrets in the cells, and is swapped for them on the way out, at their hosts and in their places
//! alone. Anywhere else a request with one goes nowhere.

use std::io;
use std::ops::{Deref, Range};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes, BytesMut};
use fetch::address::Host;
use hyper::Method;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::answer::Refusal;
use crate::session::Session;
use crate::{Gate, Way};

/// What every placeholder begins with. It needs no escaping in URLs, JSON, forms and shells, and nor does what follows.
const PREFIX: &[u8] = b"handfast_secret_";
/// Hexadecimal digits of chance behind it: 128 bits.
const DIGITS: usize = 32;
const LENGTH: usize = PREFIX.len() + DIGITS;

/// Where in a request a placeholder stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the value of a header, also within the base64 of `Basic`.
    Header,
    /// In the query of the URL.
    Query,
    /// In the body.
    Body,
}

/// The value of a secret, in whatever memory it is kept.
pub struct Secret(Box<dyn Deref<Target = [u8]> + Send + Sync>);

impl Secret {
    /// Of a value.
    pub fn of(value: impl Deref<Target = [u8]> + Send + Sync + 'static) -> Self {
        Self(Box::new(value))
    }
}

/// A new placeholder, that nobody can guess.
///
/// # Errors
/// Where the system has no chance to give.
pub fn placeholder() -> io::Result<String> {
    let mut chance = [0_u8; DIGITS / 2];
    getrandom::fill(&mut chance).map_err(io::Error::other)?;
    let digits: String = chance.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{}{digits}", String::from_utf8_lossy(PREFIX)))
}

/// The first whole placeholder.
fn find(bytes: &[u8]) -> Option<Range<usize>> {
    memchr::memmem::find_iter(bytes, PREFIX).find_map(|at| {
        let digits = bytes.get(at + PREFIX.len()..at + LENGTH)?;
        digits.iter().all(u8::is_ascii_hexdigit).then_some(at..at + LENGTH)
    })
}

/// How a value is written where it is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    AsItIs,
    Percent,
    Json,
}

impl Written {
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

/// What is swapped in the requests to one host.
pub(crate) struct Swapping<'a, G> {
    pub(crate) session: &'a Session<G>,
    pub(crate) host: &'a Host,
    pub(crate) port: u16,
    /// Whether the connection is one that is opened. On others a placeholder is refused.
    pub(crate) opened: bool,
}

impl<G: Gate> Swapping<'_, G> {
    async fn value(&self, placeholder: &[u8], place: Place) -> Result<Secret, Refusal> {
        let text = String::from_utf8_lossy(placeholder);
        let swapped = if self.opened {
            self.session.gate.swap(&text, self.host, place).await
        } else {
            Err("the request holds the placeholder of a secret, which is swapped only on connections by TLS to the hosts of \
                 that secret"
                .to_owned())
        };
        match swapped {
            Ok(secret) => Ok(secret),
            Err(reason) => {
                Err(self.session.refuse(self.host.to_string(), self.port, Way::Secret, reason).await)
            }
        }
    }

    /// The bytes with every placeholder swapped; none where there is none in them.
    async fn swap(&self, bytes: &[u8], place: Place, written: Written) -> Result<Option<Vec<u8>>, Refusal> {
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

    /// Swaps what stands in the headers and the query.
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
            && let Some(swapped) = self.swap(query.as_bytes(), Place::Query, Written::Percent).await?
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
                let swapped = match self.swap(value.as_bytes(), Place::Header, Written::AsItIs).await? {
                    None if *name == AUTHORIZATION => self.basic(value.as_bytes()).await?,
                    swapped => swapped,
                };
                any |= swapped.is_some();
                values.push(match swapped {
                    None => value.clone(),
                    Some(swapped) => {
                        let mut value = HeaderValue::from_bytes(&swapped).map_err(|_| {
                            Refusal::denied("the value of the secret has characters that no header may have")
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
        let reason = format!("the placeholder of a secret stands in {place}, where none is ever swapped");
        self.session.refuse(self.host.to_string(), self.port, Way::Secret, reason).await
    }

    /// The same within a user and password (RFC 7617).
    async fn basic(&self, value: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
        let Some((scheme, encoded)) = value.split_at_checked(6) else { return Ok(None) };
        if !scheme.eq_ignore_ascii_case(b"basic ") {
            return Ok(None);
        }
        let Ok(plain) = STANDARD.decode(encoded.trim_ascii()) else { return Ok(None) };
        let swapped = self.swap(&plain, Place::Header, Written::AsItIs).await?;
        Ok(swapped.map(|swapped| [b"Basic ", STANDARD.encode(swapped).as_bytes()].concat()))
    }
}

/// A body on its way out, of which what may be the beginning of a placeholder is held back.
pub(crate) struct Body {
    held: BytesMut,
    written: Written,
}

impl Body {
    /// One of the kind that the headers say.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let written = match kind.as_str() {
            "application/x-www-form-urlencoded" => Written::Percent,
            kind if kind.ends_with("json") => Written::Json,
            _ => Written::AsItIs,
        };
        Self { held: BytesMut::new(), written }
    }
    /// What can go on, now that this part has come.
    pub(crate) async fn next<G: Gate>(
        &mut self,
        part: Bytes,
        swapping: &Swapping<'_, G>,
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
            let value = swapping.value(&self.held[..LENGTH], Place::Body).await?;
            self.written.write(&value.0, &mut out);
            self.held.advance(LENGTH);
        }
    }

    /// What was held back, now that nothing comes any more.
    pub(crate) fn rest(self) -> Bytes {
        self.held.freeze()
    }
}

/// How many bytes at the end may be the beginning of a placeholder's beginning.
fn begun(bytes: &[u8]) -> usize {
    (1..PREFIX.len()).rev().find(|length| bytes.ends_with(&PREFIX[..*length])).unwrap_or(0)
}
