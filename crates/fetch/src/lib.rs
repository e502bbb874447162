//! What goes out to other servers.
//!
//! [`Client`] is for what Handfast itself asks, because its user's configuration names the server: the keys of an identity provider,
//! and to take traces. No tool comes that way. It follows no redirection, which could lead to where nothing is encrypted, and waits as
//! long as it is let: whoever asks bounds the time.
//!
//! [`web::Web`] is for what tools ask of any server, on addresses that were checked ([`address`], [`dial`]), with bodies that are
//! bounded ([`decode`]).

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

/// A larger answer is an error, in bytes, unless whoever asks expects one.
const LARGEST: usize = 1024 * 1024;

/// A client for one URL. Needs a tokio runtime around its requests.
pub struct Client {
    url: Uri,
    pooled: Pooled<HttpsConnector<HttpConnector>, Full<Bytes>>,
    largest: usize,
}

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    /// The status of HTTP.
    pub status: u16,
    /// What it says of when to ask again, in seconds.
    pub retry_after: Option<u64>,
    /// The body.
    pub body: Vec<u8>,
}

impl Client {
    /// A client that trusts the certificates of this system.
    ///
    /// # Errors
    /// Where it is needed for this URL and they cannot be read.
    pub fn new(url: Uri) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        // Certificates take a megabyte of memory.
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

    /// The same, taking answers of up to so many bytes in place of a megabyte.
    #[must_use]
    pub fn taking(mut self, largest: usize) -> Self {
        self.largest = largest;
        self
    }

    /// Where it asks.
    pub fn url(&self) -> &Uri {
        &self.url
    }

    /// Asks for what is there.
    ///
    /// # Errors
    /// Where there is no answer, or one that is too large. That the server refuses is an answer.
    pub async fn get(&self) -> io::Result<Answer> {
        self.ask(Request::new(Full::default())).await
    }

    /// Sends something.
    ///
    /// # Errors
    /// As [`Client::get`].
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

/// A header's name and value as they are sent; none where they cannot stand in a head. No log shows the value.
pub fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::try_from(name).ok()?;
    let mut value = HeaderValue::try_from(value).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

/// What went wrong, down to its cause: the client's own words say only that the connection failed.
fn chain(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        said = cause.to_string();
        source = cause.source();
    }
    said
}
