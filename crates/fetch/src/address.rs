//! Hosts and URLs in the one form in which they are judged, looked up and dialled; and which addresses belong to the public
//! internet.
//!
//! What is written in a way that two programs could read differently is refused and not repaired: an address in decimal, octal or
//! hexadecimal, user information, a percent sign or a backslash in a host, control characters anywhere. A name of other letters than
//! ASCII becomes the name that DNS knows (`xn--…`), so that a look-alike is seen as what it is.
//!
//! Nothing is looked up here.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::Url;

mod public;

pub use public::is_public;

/// The longest host name that DNS takes (RFC 1035, section 2.3.4), without its final dot.
const LONGEST_NAME: usize = 253;
/// The longest part of a name between dots (RFC 1035, section 2.3.4).
const LONGEST_LABEL: usize = 63;
/// Bytes of a URL at most: what servers and proxies take (RFC 9110, section 4.1, asks for 8,000).
pub const LONGEST_URL: usize = 16 * 1024;

/// Why a host or a URL is refused. Never holds user information, which may be a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// No host at all.
    #[error("there is no host")]
    Empty,
    /// A control character, a space or a NUL.
    #[error("it holds the character {character:?}, which no address has")]
    Character {
        /// The first one.
        character: char,
    },
    /// `user@host`, by which a host looks like another one.
    #[error("it holds user information before an `@`; credentials go into a header")]
    UserInformation,
    /// An IPv4 address that is not written as four decimal numbers.
    #[error("it spells the address {address} in another way than {address}")]
    Spelling {
        /// What the URL standard reads it as.
        address: Ipv4Addr,
    },
    /// No name that DNS takes and no address.
    #[error("{host:?} is no host name and no address")]
    Host {
        /// As it was given, its beginning.
        host: String,
    },
    /// Neither `http` nor `https`.
    #[error("its scheme is not `http` and not `https`")]
    Scheme,
    /// No URL for another reason.
    #[error("it is no URL: {reason}")]
    Url {
        /// Why.
        reason: String,
    },
    /// Beyond [`LONGEST_URL`].
    #[error("it is longer than {LONGEST_URL} bytes")]
    Long,
}

/// A host in its one form.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A name as DNS has it: ASCII, lower case, without its final dot.
    Name(String),
    /// An address. An IPv4 address that was written inside an IPv6 one (`::ffff:1.2.3.4`) is one of IPv4.
    Address(IpAddr),
}

impl Host {
    /// Reads a host as a URL spells it, with or without the brackets of an IPv6 address.
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
        // What begins like a hexadecimal number is read as an address by some, and as a name by others.
        let is_number_to_some = name.rsplit('.').next().is_some_and(|last| last.starts_with("0x"));
        if name.len() > LONGEST_NAME || is_number_to_some || !name.split('.').all(is_label) {
            return Err(wrong());
        }
        Ok(Self::Name(name.to_owned()))
    }

    /// Whether this is a name that by RFC 6761 means this machine.
    pub fn is_localhost(&self) -> bool {
        matches!(self, Self::Name(name) if name == "localhost" || name.ends_with(".localhost"))
    }
}

/// Without brackets.
impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(address) => address.fmt(formatter),
        }
    }
}

/// A URL of HTTP that was understood in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
    host: Host,
    port: u16,
}

impl Target {
    /// Reads an absolute URL. Its fragment, which is never sent, is left out.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let as_sent = checked(text)?;
        let url = Url::parse(as_sent).map_err(unreadable)?;
        let written = as_sent.split_once("://").map(|(_, rest)| rest);
        Self::of(url, written.ok_or_else(|| unreadable("`//` is missing behind its scheme"))?)
    }

    /// Where a `Location` of an answer of this target leads.
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

    /// Checks that `url` has the host that `written`, the text from its authority on, begins with.
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
        let port = port.ok_or_else(|| unreadable("its port is none"))?;
        Ok(Self { url: without_fragment(url), host, port })
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The TCP port, that of the scheme where none is named.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it is encrypted.
    pub fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The same with another query, which is percent-encoded as far as it has to be.
    #[must_use]
    pub fn with_query(&self, query: &str) -> Self {
        let mut url = self.url.clone();
        url.set_query(Some(query));
        Self { url, ..self.clone() }
    }

    /// The path with its query, as it is sent.
    pub fn path_and_query(&self) -> &str {
        &self.url[url::Position::BeforePath..url::Position::AfterQuery]
    }

    /// The host with its port as it stands in the header `Host`: without a port that is the scheme's own.
    pub fn authority(&self) -> String {
        let host = match &self.host {
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            host => host.to_string(),
        };
        let own = if self.is_tls() { 443 } else { 80 };
        if self.port == own { host } else { format!("{host}:{}", self.port) }
    }

    /// Whether credentials that were meant for one may go to the other: scheme, host and port are the same.
    pub fn has_origin_of(&self, other: &Self) -> bool {
        (self.is_tls(), &self.host, self.port) == (other.is_tls(), &other.host, other.port)
    }
}

/// In its one form.
impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}{}", self.url.scheme(), self.authority(), self.path_and_query())
    }
}

/// The text, where no parser would drop or turn one of its characters.
fn checked(text: &str) -> Result<&str, AddressError> {
    if text.len() > LONGEST_URL {
        return Err(AddressError::Long);
    }
    plain_characters(text)?;
    // The URL standard takes a backslash for a slash, and other readers do not.
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
