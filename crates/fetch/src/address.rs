//! Hosts and URLs in the single form in which they are judged, resolved and dialled; and the
//! classification of public addresses.
//!
//! A text that two programs could read differently is refused, not repaired. Examples are an
//! address in decimal, octal or hexadecimal, user information, a percent sign or a backslash in a
//! host, and control characters anywhere. A non-ASCII name becomes its DNS form (`xn--…`), so that
//! a look-alike is visible as a different name.
//!
//! This module resolves no names.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::Url;

mod public;

pub use public::is_public;

/// Maximum length of a host name in DNS (RFC 1035, section 2.3.4), without its final dot.
const LONGEST_NAME: usize = 253;
/// Maximum length of a label, the part of a name between dots (RFC 1035, section 2.3.4).
const LONGEST_LABEL: usize = 63;
/// Maximum length of a URL, in bytes. Servers and proxies accept this much; RFC 9110, section 4.1,
/// asks for 8,000.
pub const LONGEST_URL: usize = 16 * 1024;

/// Reason why a host or a URL is refused. Never contains user information, which may be a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Empty host.
    #[error("has no host")]
    Empty,
    /// Control character, space or NUL.
    #[error("has the character {character:?}, which is not allowed in a URL")]
    Character {
        /// First offending character.
        character: char,
    },
    /// User information (`user@host`), which can make one host look like another.
    #[error("has user information before `@`; put credentials into a header")]
    UserInformation,
    /// IPv4 address that is not written as four decimal numbers.
    #[error("has an unusual spelling of the address {address}")]
    Spelling {
        /// Address that the URL standard reads from the text.
        address: Ipv4Addr,
    },
    /// Text that is neither a DNS name nor an address.
    #[error("has the host {host:?}, which is neither a host name nor an address")]
    Host {
        /// Beginning of the host, as given.
        host: String,
    },
    /// Scheme other than `http` and `https`.
    #[error("has a scheme other than `http` and `https`")]
    Scheme,
    /// Text that is not a URL for another reason.
    #[error("is not a URL: {reason}")]
    Url {
        /// Explanation of the URL parser.
        reason: String,
    },
    /// URL longer than [`LONGEST_URL`].
    #[error("is longer than {LONGEST_URL} bytes")]
    Long,
}

/// A host in normal form.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A DNS name: ASCII, lower case, without its final dot.
    Name(String),
    /// An IP address. An IPv4-mapped IPv6 address (`::ffff:1.2.3.4`) is stored as IPv4.
    Address(IpAddr),
}

impl Host {
    /// Parses a host as a URL spells it, with or without the brackets of an IPv6 address.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        if text.is_empty() {
            return Err(AddressError::Empty);
        }
        plain_characters(text)?;
        if text.contains('@') {
            return Err(AddressError::UserInformation);
        }
        let wrong = || AddressError::Host { host: text.chars().take(LONGEST_NAME).collect() };
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse::<Ipv6Addr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        if bare.is_some() || text.contains(['%', ':', '[', ']', '\\', '/', '?', '#']) {
            return Err(wrong());
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        let name = match url::Host::parse(text).map_err(|_| wrong())? {
            url::Host::Domain(name) => name,
            url::Host::Ipv4(address) => return Err(AddressError::Spelling { address }),
            url::Host::Ipv6(_) => return Err(wrong()),
        };
        let name = name.strip_suffix('.').unwrap_or(&name);
        let is_label = |label: &str| {
            let plain =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
            (1..=LONGEST_LABEL).contains(&label.len()) && label.bytes().all(plain) && !label.starts_with('-')
        };
        // Some programs read a name whose last label begins like a hexadecimal number as an address.
        let is_number_to_some = name.rsplit('.').next().is_some_and(|last| last.starts_with("0x"));
        if name.len() > LONGEST_NAME || is_number_to_some || !name.split('.').all(is_label) {
            return Err(wrong());
        }
        Ok(Self::Name(name.to_owned()))
    }

    /// Returns true if the name means this machine by RFC 6761.
    pub fn is_localhost(&self) -> bool {
        matches!(self, Self::Name(name) if name == "localhost" || name.ends_with(".localhost"))
    }
}

/// Writes the host without brackets.
impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(address) => address.fmt(formatter),
        }
    }
}

/// An HTTP or HTTPS URL that has exactly one reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
    host: Host,
    port: u16,
}

impl Target {
    /// Parses an absolute URL and drops its fragment, which is never sent.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let as_sent = checked(text)?;
        let url = Url::parse(as_sent).map_err(unreadable)?;
        let written = as_sent.split_once("://").map(|(_, rest)| rest);
        Self::of(url, written.ok_or_else(|| unreadable("`//` is missing after its scheme"))?)
    }

    /// Resolves the `Location` of a response from this target.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn join(&self, location: &str) -> Result<Self, AddressError> {
        let as_sent = checked(location)?;
        let scheme = as_sent.split_once(':').filter(|(scheme, _)| is_scheme(scheme));
        if scheme.is_some() {
            return Self::parse(location);
        }
        let url = self.url.join(as_sent).map_err(unreadable)?;
        match as_sent.strip_prefix("//") {
            Some(written) => Self::of(url, written),
            None => Ok(Self { url: without_fragment(url), ..self.clone() }),
        }
    }

    /// Checks that `written`, the text from the authority on, begins with the host of `url`.
    fn of(url: Url, written: &str) -> Result<Self, AddressError> {
        if !["http", "https"].contains(&url.scheme()) {
            return Err(AddressError::Scheme);
        }
        let authority = written.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') || !url.username().is_empty() || url.password().is_some() {
            return Err(AddressError::UserInformation);
        }
        let host = match authority.rfind(']') {
            Some(end) => authority.get(..=end).unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        let host = Host::parse(host)?;
        let port = url.port_or_known_default().filter(|port| *port != 0);
        let port = port.ok_or_else(|| unreadable("its port is invalid"))?;
        Ok(Self { url: without_fragment(url), host, port })
    }

    /// Returns the host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the TCP port; the default port of the scheme if the URL names none.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns true for `https`.
    pub fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Returns this target with another query, percent-encoded as required.
    #[must_use]
    pub fn with_query(&self, query: &str) -> Self {
        let mut url = self.url.clone();
        url.set_query(Some(query));
        Self { url, ..self.clone() }
    }

    /// Returns the path and the query as they are sent.
    pub fn path_and_query(&self) -> &str {
        &self.url[url::Position::BeforePath..url::Position::AfterQuery]
    }

    /// Returns the host and port as written in the `Host` header, without the default port of the scheme.
    pub fn authority(&self) -> String {
        let host = match &self.host {
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            host => host.to_string(),
        };
        let own = if self.is_tls() { 443 } else { 80 };
        if self.port == own { host } else { format!("{host}:{}", self.port) }
    }

    /// Returns true if scheme, host and port are equal, so that credentials for one target may go
    /// to the other.
    pub fn has_origin_of(&self, other: &Self) -> bool {
        (self.is_tls(), &self.host, self.port) == (other.is_tls(), &other.host, other.port)
    }
}

/// Writes the URL in normal form.
impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}{}", self.url.scheme(), self.authority(), self.path_and_query())
    }
}

/// Returns the text if no URL parser would drop or change one of its characters.
fn checked(text: &str) -> Result<&str, AddressError> {
    if text.len() > LONGEST_URL {
        return Err(AddressError::Long);
    }
    plain_characters(text)?;
    // The URL standard reads a backslash as a slash; other parsers do not.
    let before_query = text.split(['?', '#']).next().unwrap_or_default();
    if before_query.contains('\\') {
        return Err(AddressError::Character { character: '\\' });
    }
    Ok(text)
}

fn plain_characters(text: &str) -> Result<(), AddressError> {
    let bad = |character: &char| character.is_control() || character.is_whitespace();
    text.chars().find(bad).map_or(Ok(()), |character| Err(AddressError::Character { character }))
}

fn is_scheme(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    text.bytes().all(plain) && text.starts_with(|first: char| first.is_ascii_alphabetic())
}

fn without_fragment(mut url: Url) -> Url {
    url.set_fragment(None);
    url
}

fn unreadable(reason: impl fmt::Display) -> AddressError {
    AddressError::Url { reason: reason.to_string() }
}

#[cfg(test)]
mod tests;
