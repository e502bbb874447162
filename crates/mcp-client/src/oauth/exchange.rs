//! Requests of a login, within bounds.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tool::Timer;
use url::{Host, Url};

use crate::error::line;
use crate::http::{HttpMethod, HttpRequest, HttpTransport};

/// Maximum length of a document or an answer of an authorization server, in bytes.
const LONGEST_DOCUMENT: usize = 256 * 1024;

/// Maximum length of a URL, in bytes.
const LONGEST_URL: usize = 4 * 1024;

/// Time for one request.
const TIME: Duration = Duration::from_secs(30);

/// Access to the network for a login.
#[derive(Clone, Copy)]
pub struct Reach<'a> {
    /// Sender of the requests. It must add no credentials of the server.
    pub transport: &'a dyn HttpTransport,
    /// Clock.
    pub timer: &'a dyn Timer,
}

/// Failure of a login.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OAuthError {
    /// A URL is no URL, or does not use TLS.
    #[error("{what} is {url:?}, which is no URL with TLS (or of this machine)")]
    Url {
        /// Purpose of the URL.
        what: &'static str,
        /// URL, cleaned and cut.
        url: String,
    },
    /// A request failed.
    #[error("{url} cannot be reached: {message}")]
    Unreachable {
        /// URL of the request, cleaned and cut.
        url: String,
        /// Message of the transport.
        message: String,
    },
    /// A document is missing or has no valid form.
    #[error("{what} is not valid: {problem}")]
    Document {
        /// Kind of document.
        what: &'static str,
        /// Problem, in words.
        problem: String,
    },
    /// No document was found at any of its places.
    #[error("the server names no authorization server ({tried} places tried)")]
    NotFound {
        /// Number of places.
        tried: usize,
    },
    /// The metadata speaks for another resource than this server.
    #[error("its metadata is about {found:?}, and not about this server")]
    OtherResource {
        /// Resource in the metadata, cleaned and cut.
        found: String,
    },
    /// An issuer differs from the one that was expected, so somebody may have exchanged servers.
    #[error("the issuer is {found:?}, and not {expected:?}")]
    OtherIssuer {
        /// Expected issuer.
        expected: String,
        /// Issuer that was found, cleaned and cut; empty if it is missing.
        found: String,
    },
    /// The authorization server does not support PKCE with S256.
    #[error("the authorization server does not support PKCE with S256")]
    NoPkce,
    /// No client is known at the authorization server, and it registers none.
    #[error("the authorization server knows no client of ours, and registers none by itself")]
    NoIdentity,
    /// The redirection does not belong to this login.
    #[error("the redirection does not belong to this login: {problem}")]
    Redirection {
        /// Problem, in words.
        problem: &'static str,
    },
    /// The authorization server refuses.
    #[error("the authorization server refuses: {error} {description}")]
    Refused {
        /// Code of the error (RFC 6749, section 5.2), cleaned and cut.
        error: String,
        /// Description, cleaned and cut.
        description: String,
    },
}

/// Checks a URL that a server or a configuration names.
pub(super) fn checked_url(what: &'static str, text: &str) -> Result<Url, OAuthError> {
    let bad = || OAuthError::Url { what, url: line(text) };
    let url = Url::parse(text).ok().filter(|_| text.len() <= LONGEST_URL).ok_or_else(bad)?;
    let is_local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => return Err(bad()),
    };
    let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    let is_safe = url.scheme() == "https" || url.scheme() == "http" && is_local;
    if is_plain && is_safe { Ok(url) } else { Err(bad()) }
}

/// Status and body of an answer; the body is null unless it is JSON within its bound.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl Reach<'_> {
    pub(super) async fn get(self, url: &str) -> Result<Reply, OAuthError> {
        self.ask(HttpMethod::Get, url, Vec::new(), Bytes::new()).await
    }

    pub(super) async fn post(
        self,
        url: &str,
        headers: Vec<(String, String)>,
        body: String,
    ) -> Result<Reply, OAuthError> {
        self.ask(HttpMethod::Post, url, headers, body.into()).await
    }

    async fn ask(
        self,
        method: HttpMethod,
        url: &str,
        mut headers: Vec<(String, String)>,
        body: Bytes,
    ) -> Result<Reply, OAuthError> {
        headers.push(("accept".to_owned(), "application/json".to_owned()));
        let request = HttpRequest { method, url: url.to_owned(), headers, body };
        let unreachable = |message: &str| OAuthError::Unreachable { url: line(url), message: line(message) };
        let exchange = async {
            let mut answer =
                self.transport.send(request).await.map_err(|failure| unreachable(&failure.message))?;
            let body =
                answer.read(LONGEST_DOCUMENT).await.map_err(|failure| unreachable(&failure.message))?;
            let body = body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or(Value::Null);
            Ok(Reply { status: answer.status, body })
        };
        tokio::select! {
            biased;
            reply = exchange => reply,
            () = self.timer.sleep(TIME) => Err(unreachable("it did not answer in time")),
        }
    }
}

/// Returns the refusal in an answer of an authorization server.
pub(super) fn refusal(reply: &Reply) -> OAuthError {
    let field = |name: &str| line(reply.body.get(name).and_then(Value::as_str).unwrap_or_default());
    let error = field("error");
    let error = if error.is_empty() { format!("HTTP {}", reply.status) } else { error };
    OAuthError::Refused { error, description: field("error_description") }
}

/// Returns the texts of a list in a document, bounded.
pub(super) fn texts(document: &Value, field: &str) -> Vec<String> {
    let listed = document.get(field).and_then(Value::as_array);
    let texts = listed.into_iter().flatten().filter_map(Value::as_str);
    texts.filter(|text| text.len() <= LONGEST_URL).take(100).map(ToOwned::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_use_tls_or_stay_on_this_machine() {
        for good in ["https://a.example/x", "http://localhost:1/", "http://127.0.0.1/a", "http://[::1]/"] {
            assert!(checked_url("x", good).is_ok(), "{good}");
        }
        for bad in [
            "http://a.example/",
            "http://localhost.example/",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "https://user@a.example/",
            "https://a.example/#x",
            "https://",
            "",
        ] {
            assert!(checked_url("x", bad).is_err(), "{bad}");
        }
    }
}
