//! HTTP clients for requests to other servers.
//!
//! [`Client`] serves requests of Handfast itself to servers from the user's configuration: the keys
//! of an identity provider, and the collector of traces. No tool uses it. The client follows no
//! redirection, which could lead to an unencrypted server, and has no timeout: callers bound the
//! time.
//!
//! [`web::Web`] serves requests of tools to any server. Its addresses are checked ([`address`],
//! [`dial`]) and its bodies bounded ([`decode`]).

pub mod address;
pub mod decode;
pub mod dial;
pub mod web;

use std::io;
use std::sync::Arc;

use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pooled;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

pub use hyper::body::Bytes;
pub use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG,
    HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
    LAST_MODIFIED, LOCATION, RANGE, RETRY_AFTER, USER_AGENT,
};
pub use hyper::{HeaderMap, Method, Uri};
pub use rustls::pki_types::CertificateDer;

/// Default maximum size of a response body, in bytes. A larger body is an error unless the caller
/// raises the limit.
const LARGEST: usize = 1024 * 1024;

/// A client for one URL. Its requests need a tokio runtime.
pub struct Client {
    url: Uri,
    pooled: Pooled<HttpsConnector<HttpConnector>, Full<Bytes>>,
    largest: usize,
}

/// A response, with its whole body.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status code.
    pub status: u16,
    /// Value of `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// Body of the response.
    pub body: Vec<u8>,
}

impl Client {
    /// Creates a client that trusts the certificates of this system.
    ///
    /// # Errors
    /// An error if the URL needs the system's certificates and they cannot be read.
    pub fn new(url: Uri) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        // Load certificates for https only: they take a megabyte of memory.
        let tls = if url.scheme_str() == Some("https") {
            tls.with_native_roots()?
        } else {
            tls.with_root_certificates(rustls::RootCertStore::empty())
        };
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls.with_no_client_auth())
            .https_or_http()
            .enable_http1()
            .build();
        let pooled = Pooled::builder(TokioExecutor::new()).build(connector);
        Ok(Self { url, pooled, largest: LARGEST })
    }

    /// Raises or lowers the maximum size of a response body, in bytes. The default is one megabyte.
    #[must_use]
    pub fn taking(mut self, largest: usize) -> Self {
        self.largest = largest;
        self
    }

    /// Returns the URL of this client.
    pub fn url(&self) -> &Uri {
        &self.url
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// An error if no response arrives, or if its body is too large. A refusal by the server is a response.
    pub async fn get(&self) -> io::Result<Answer> {
        self.ask(Request::new(Full::default())).await
    }

    /// Sends a POST request.
    ///
    /// # Errors
    /// The errors of [`Client::get`].
    pub async fn post(
        &self,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        body: Vec<u8>,
    ) -> io::Result<Answer> {
        let mut request = Request::new(Full::from(body));
        *request.method_mut() = Method::POST;
        request.headers_mut().extend(headers);
        self.ask(request).await
    }

    async fn ask(&self, mut request: Request<Full<Bytes>>) -> io::Result<Answer> {
        request.uri_mut().clone_from(&self.url);
        let answer = self.pooled.request(request).await.map_err(|error| io::Error::other(chain(&error)))?;
        let retry_after = answer.headers().get(hyper::header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let status = answer.status().as_u16();
        let body =
            Limited::new(answer.into_body(), self.largest).collect().await.map_err(io::Error::other)?;
        Ok(Answer { status, retry_after, body: body.to_bytes().to_vec() })
    }
}

/// Parses the name and value of a header; `None` if HTTP permits them in no header. The value is
/// marked sensitive, so that no log shows it.
pub fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::try_from(name).ok()?;
    let mut value = HeaderValue::try_from(value).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

/// Returns the message of the innermost cause. The client's own message says only that the
/// connection failed.
fn chain(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        said = cause.to_string();
        source = cause.source();
    }
    said
}
