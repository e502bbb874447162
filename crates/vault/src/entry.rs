//! Metadata of a secret: its name, the hosts and request parts that it may be sent to, and its
//! expiry.

use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ForgeLogin, Result, VaultError};

/// Minimum number of characters of a value. A shorter value would match unrelated text, and
/// redacting those matches would reveal the value.
pub const LEAST_CHARACTERS: usize = 12;
/// Maximum number of bytes of a value: more than any key, certificate or token has.
pub const MAX_BYTES: usize = 64 * 1024;
/// Maximum number of characters of a name.
const LONGEST_NAME: usize = 100;
/// Maximum number of bytes of a DNS host name (RFC 1035, section 2.3.4), without its final dot.
const LONGEST_HOST: usize = 253;

/// The name of a secret: at most 100 letters, digits and `_.-`, not beginning with `-` or `.`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(String);

/// Returns true if a secret can have this name.
pub fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    name.len() <= LONGEST_NAME && name.bytes().all(plain) && !name.starts_with(['-', '.']) && !name.is_empty()
}

impl Name {
    /// Parses a name.
    ///
    /// # Errors
    /// [`VaultError::Name`] for an invalid name.
    pub fn parse(name: &str) -> Result<Self> {
        if is_name(name) { Ok(Self(name.to_owned())) } else { Err(VaultError::Name) }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = VaultError;

    fn try_from(name: String) -> Result<Self> {
        Self::parse(&name)
    }
}

/// A host that a secret may be sent to: `api.example.com`, or `*.example.com` for every host below
/// `example.com`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostRule {
    below: bool,
    host: String,
}

impl HostRule {
    /// Parses a rule; letter case and a final dot are ignored.
    ///
    /// # Errors
    /// [`VaultError::Host`] for a text that is neither a host name nor an address, and for a
    /// wildcard over a whole top-level domain.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || VaultError::Host { host: text.chars().take(LONGEST_HOST).collect() };
        let (below, host) = text.strip_prefix("*.").map_or((false, text), |rest| (true, rest));
        let host = normal_host(host).ok_or_else(wrong)?;
        if below && (!host.contains('.') || host.parse::<IpAddr>().is_ok()) {
            return Err(wrong());
        }
        Ok(Self { below, host })
    }

    /// Parses several rules.
    ///
    /// # Errors
    /// Returns the errors of [`HostRule::parse`].
    pub fn parse_all<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Vec<Self>> {
        texts.into_iter().map(Self::parse).collect()
    }

    /// Returns the host if the rule names a single one.
    pub fn single_host(&self) -> Option<&str> {
        (!self.below).then_some(self.host.as_str())
    }

    /// Returns true if the secret may be sent to this host. No rule matches an invalid host name.
    pub fn matches(&self, host: &str) -> bool {
        let Some(host) = normal_host(host) else { return false };
        if !self.below {
            return host == self.host;
        }
        host.strip_suffix(self.host.as_str())
            .is_some_and(|rest| rest.ends_with('.') && host.parse::<IpAddr>().is_err())
    }
}

impl TryFrom<String> for HostRule {
    type Error = VaultError;

    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl From<HostRule> for String {
    fn from(rule: HostRule) -> Self {
        format!("{}{}", if rule.below { "*." } else { "" }, rule.host)
    }
}

/// Normalizes a host for comparison, or returns `None` if it is invalid. Names that are not ASCII
/// are refused and must be given in the form `xn--` in which they are sent: a lookalike of a known
/// host may be another host.
fn normal_host(host: &str) -> Option<String> {
    if let Ok(address) = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Some(address.to_canonical().to_string());
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=63).contains(&label.len()) && label.bytes().all(plain) && !label.starts_with('-')
    };
    // Some parsers read a name whose last label is a number as an address, in ways that differ (the
    // URL standard, section 3.5).
    let last_is_number = host
        .rsplit('.')
        .next()
        .is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x"));
    (host.len() <= LONGEST_HOST && !last_is_number && host.split('.').all(label)).then_some(host)
}

/// A part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPart {
    /// The value of a header.
    Header,
    /// The query of the URL, which servers write into their logs.
    Query,
    /// The body.
    Body,
}

impl RequestPart {
    /// Returns the name that options and messages use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Query => "query",
            Self::Body => "body",
        }
    }
}

/// The parts of a request in which a secret may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestParts {
    /// True if the secret may stand in the value of a header.
    pub header: bool,
    /// True if the secret may stand in the query of the URL.
    pub query: bool,
    /// True if the secret may stand in the body.
    pub body: bool,
}

impl Default for RequestParts {
    /// Allows headers alone.
    fn default() -> Self {
        Self { header: true, query: false, body: false }
    }
}

impl RequestParts {
    /// Allows exactly these positions.
    pub fn of(positions: &[RequestPart]) -> Self {
        let has = |position| positions.contains(&position);
        Self {
            header: has(RequestPart::Header),
            query: has(RequestPart::Query),
            body: has(RequestPart::Body),
        }
    }

    /// Returns true if this position is allowed.
    pub fn has(self, position: RequestPart) -> bool {
        match position {
            RequestPart::Header => self.header,
            RequestPart::Query => self.query,
            RequestPart::Body => self.body,
        }
    }

    /// Returns the names of the allowed positions.
    pub fn names(self) -> Vec<&'static str> {
        let all = [RequestPart::Header, RequestPart::Query, RequestPart::Body];
        all.into_iter().filter(|position| self.has(*position)).map(RequestPart::as_str).collect()
    }
}

/// A secret without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Name of the secret.
    pub name: Name,
    /// Hosts that the secret may be sent to. An empty list allows no host.
    pub hosts: Vec<HostRule>,
    /// Parts of a request in which the secret may stand.
    pub places: RequestParts,
    /// Time from which the secret is refused as expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Time at which the value was stored.
    pub set_at: Timestamp,
    /// Time of the last use, accurate to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
    /// Login at a git forge, if the secret is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<ForgeLogin>,
    /// Names of fields of pages, besides those for passwords, into which a browser types the secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
}

/// Metadata to store with a value. A field that is `None` keeps its old value, or takes its default
/// for a new secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Name of the secret.
    pub name: Name,
    /// Hosts that the secret may be sent to; default: no host.
    pub hosts: Option<Vec<HostRule>>,
    /// Parts of a request in which the secret may stand; default: headers.
    pub places: Option<RequestParts>,
    /// Time from which the secret is refused as expired; default: never. A new value without an
    /// expiry never expires, even if the old value had one.
    pub expires_at: Option<Timestamp>,
    /// Login at a git forge; default: none.
    pub login: Option<ForgeLogin>,
    /// Names of fields of pages for the secret; default: none.
    pub fields: Option<Vec<String>>,
}

impl Change {
    /// Builds a change that sets the value alone.
    ///
    /// # Errors
    /// [`VaultError::Name`] for an invalid name.
    pub fn named(name: &str) -> Result<Self> {
        Ok(Self {
            name: Name::parse(name)?,
            hosts: None,
            places: None,
            expires_at: None,
            login: None,
            fields: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_belongs_to_a_rule_whatever_its_spelling_and_no_other_does() {
        let rule = |text: &str| HostRule::parse(text).unwrap();
        for (text, host, expected) in [
            ("api.example.com", "api.example.com", true),
            ("API.example.com.", "api.EXAMPLE.com", true),
            ("api.example.com", "api.example.com.", true),
            ("api.example.com", "x.api.example.com", false),
            ("api.example.com", "api.example.com.evil.example", false),
            ("api.example.com", "user@api.example.com", false),
            ("api.example.com", "api.example.com:443", false),
            ("api.example.com", "api.ex\u{430}mple.com", false),
            ("api.example.com", "api.example.com\0", false),
            ("api.example.com", "api.example.com..", false),
            ("*.example.com", "a.b.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", "badexample.com", false),
            ("*.example.com", ".example.com", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
            ("127.0.0.1", "0x7f.1", false),
            ("::1", "[0:0::1]", true),
            ("localhost", "localhost", true),
        ] {
            assert_eq!(rule(text).matches(host), expected, "{text} {host}");
        }
        for wrong in [
            "",
            "*",
            "*.com",
            "*.1.2.3.4",
            "a b",
            "http://a.example",
            "a/b",
            "1.2.3",
            "a..b",
            "\u{430}.example",
        ] {
            assert!(matches!(HostRule::parse(wrong), Err(VaultError::Host { .. })), "{wrong}");
        }
    }

    #[test]
    fn names_are_plain() {
        for name in ["telegram_bot_token", "github.com", "A-1", "_x"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "-x", ".x", "a b", "a]", "ä", "a\n", &"x".repeat(101)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
