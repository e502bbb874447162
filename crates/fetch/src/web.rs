//! HTTP requests of tools to arbitrary servers. Each connection goes to a checked address, and is
//! reused only by requests that may dial that address.
//!
//! The client follows no redirection and retries nothing: the caller decides on both. The client
//! knows no policy and no tool.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::HeaderValue;
use hyper::{HeaderMap, Method, Request, Response, Uri, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio::time::timeout_at;
use tokio_rustls::TlsConnector;

use crate::address::{Host, Target};
use crate::dial::{DialError, Permission, System, dial};
use crate::web::pool::{Pool, Sender};

mod pool;

/// Maximum size of a response head, in bytes.
const LARGEST_HEAD: usize = 128 * 1024;
/// Flow-control window of one HTTP/2 stream: bytes that a server may send before they are read.
const STREAM_WINDOW: u32 = 1024 * 1024;

/// Reason why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// Connecting failed.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// TLS failed: the server's certificate is invalid, or the server does not speak TLS.
    #[error("no encrypted connection to {host}: {reason}")]
    Tls {
        /// Requested host.
        host: String,
        /// Description of the failure.
        reason: String,
    },
    /// The certificates of this system cannot be read.
    #[error("the trusted certificates of the system cannot be read: {reason}")]
    Authorities {
        /// Error of the certificate store.
        reason: String,
    },
    /// The deadline passed.
    #[error("{host} did not answer in time")]
    Late {
        /// Requested host.
        host: String,
        /// True if the request may have reached the server.
        sent: bool,
    },
    /// The server's data is not HTTP, or the connection broke off.
    #[error("the exchange with {host} failed: {reason}")]
    Broken {
        /// Requested host.
        host: String,
        /// Description of the failure.
        reason: String,
        /// True if the request may have reached the server.
        sent: bool,
    },
}

impl WebError {
    /// Returns true if the server may have processed the request.
    pub fn may_have_acted(&self) -> bool {
        matches!(self, Self::Late { sent: true, .. } | Self::Broken { sent: true, .. })
    }

    /// Returns true if a retry of the request may succeed a moment later.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Broken { .. } | Self::Dial(DialError::Unreachable { .. }))
    }
}

/// A request.
#[derive(Clone)]
pub struct WebRequest {
    /// URL of the request.
    pub target: Target,
    /// HTTP method.
    pub method: Method,
    /// Headers, without those about the connection and the length of the body.
    pub headers: HeaderMap,
    /// Body; empty if the request has none.
    pub body: Bytes,
    /// Addresses that may be dialled.
    pub permission: Permission,
    /// Time by which the head and the body of the response must have arrived.
    pub deadline: Instant,
}

/// A response whose body is still in transit.
pub struct Answer {
    /// HTTP status code.
    pub status: u16,
    /// Reason phrase: the server's own, or the standard phrase if the server sent none.
    pub reason: String,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
    host: String,
    deadline: Instant,
    /// Returns the connection to the pool at the end of the body.
    back: Option<pool::BorrowedConnection>,
}

impl Answer {
    /// Returns the value of a header that occurs exactly once and is text.
    pub fn header(&self, name: header::HeaderName) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    }

    /// Returns the next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// [`WebError::Late`]; [`WebError::Broken`] if the body breaks off.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, WebError> {
        loop {
            let late = |_| WebError::Late { host: self.host.clone(), sent: true };
            let frame = timeout_at(self.deadline.into(), self.body.frame()).await.map_err(late)?;
            match frame {
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data() {
                        return Ok(Some(piece));
                    }
                }
                Some(Err(error)) => return Err(broken(&self.host, &error, true)),
                None => {
                    if let Some(back) = self.back.take() {
                        back.give();
                    }
                    return Ok(None);
                }
            }
        }
    }
}

/// The HTTP client of a runtime, with a pool of open connections.
///
/// Needs a tokio runtime with time and I/O around each request, the same runtime for all requests.
pub struct Web {
    authorities: Vec<CertificateDer<'static>>,
    routes: HashMap<(Host, u16), SocketAddr>,
    tls: OnceLock<TlsConnector>,
    pool: Arc<Pool>,
}

impl Default for Web {
    fn default() -> Self {
        Self::trusting(Vec::new())
    }
}

impl Web {
    /// Creates a client that trusts the authorities of this system and `authorities`.
    pub fn trusting(authorities: Vec<CertificateDer<'static>>) -> Self {
        Self { authorities, routes: HashMap::new(), tls: OnceLock::new(), pool: Arc::default() }
    }

    /// Routes connections for this host and port to `to`, without a name look-up. The address is
    /// checked like any other.
    #[must_use]
    pub fn connecting(mut self, host: Host, port: u16, to: SocketAddr) -> Self {
        self.routes.insert((host, port), to);
        self
    }

    /// Sends a request and returns the response.
    ///
    /// # Errors
    /// [`WebError`]. A refusal by the server is a response.
    pub async fn send(&self, ask: WebRequest) -> Result<Answer, WebError> {
        let WebRequest { target, method, headers, body, permission, deadline } = ask;
        let host = target.host().to_string();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        let late = |sent| WebError::Late { host: host.clone(), sent };
        let unsendable = |error: &(dyn std::error::Error + 'static)| broken(&host, error, false);
        let line = Line {
            uri: target.to_string().parse().map_err(|error| unsendable(&error))?,
            path: target.path_and_query().parse().map_err(|error| unsendable(&error))?,
            host: target.authority().parse().map_err(|error| unsendable(&error))?,
        };
        loop {
            let (mut sender, peer, is_new) = match self.pool.take(&target, &permission).await {
                Some((sender, peer)) => (sender, peer, false),
                None => {
                    let (sender, peer) = self.connect(&target, &permission, deadline).await?;
                    (sender, peer, true)
                }
            };
            let sending = timeout_at(deadline.into(), send_on(&mut sender, &line, request)).await;
            match sending.map_err(|_| late(true))? {
                Ok(answer) => {
                    let (head, body) = answer.into_parts();
                    let own = head.extensions.get::<hyper::ext::ReasonPhrase>();
                    let own = own.map(|reason| String::from_utf8_lossy(reason.as_bytes()).into_owned());
                    let usual = || head.status.canonical_reason().unwrap_or_default().to_owned();
                    return Ok(Answer {
                        status: head.status.as_u16(),
                        reason: own.unwrap_or_else(usual),
                        headers: head.headers,
                        body,
                        host,
                        deadline,
                        back: Some(pool::BorrowedConnection::new(&self.pool, &target, sender, peer)),
                    });
                }
                // The server closed a pooled connection before any part of the request was sent, so
                // a retry is safe.
                Err((_, Some(unsent))) if !is_new => request = unsent,
                Err((error, unsent)) => return Err(broken(&host, &error, unsent.is_none())),
            }
        }
    }

    async fn connect(
        &self,
        target: &Target,
        permission: &Permission,
        deadline: Instant,
    ) -> Result<(Sender, IpAddr), WebError> {
        let host = target.host();
        let late = |_| WebError::Late { host: host.to_string(), sent: false };
        let stream = match self.routes.get(&(host.clone(), target.port())) {
            Some(to) => dial(&System, &Host::Address(to.ip()), to.port(), permission, deadline).await?,
            None => dial(&System, host, target.port(), permission, deadline).await?,
        };
        let peer = stream.peer_addr().map_err(|error| broken(&host.to_string(), &error, false))?.ip();
        let shaking = timeout_at(deadline.into(), self.shake(target, stream));
        Ok((shaking.await.map_err(late)??, peer))
    }

    /// Performs the TLS handshake if the target needs one, and starts HTTP in the version that the
    /// server chose.
    async fn shake(&self, target: &Target, stream: TcpStream) -> Result<Sender, WebError> {
        let host = target.host();
        let failed = |error: hyper::Error| broken(&host.to_string(), &error, false);
        if !target.is_tls() {
            return begin_http1(stream).await.map_err(failed);
        }
        let wrong = |error: io::Error| WebError::Tls { host: host.to_string(), reason: crate::chain(&error) };
        let name = match host {
            Host::Name(name) => {
                ServerName::try_from(name.clone()).map_err(|error| wrong(io::Error::other(error)))?
            }
            Host::Address(address) => ServerName::from(*address),
        };
        let stream = self.tls()?.connect(name, stream).await.map_err(wrong)?;
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return begin_http1(stream).await.map_err(failed);
        }
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .initial_stream_window_size(STREAM_WINDOW)
            .max_header_list_size(u32::try_from(LARGEST_HEAD).unwrap_or(u32::MAX));
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(failed)?;
        // The request on a connection gets the error with which the connection ends.
        tokio::spawn(async { drop(connection.await) });
        Ok(Sender::Http2(sender))
    }

    fn tls(&self) -> Result<TlsConnector, WebError> {
        if let Some(made) = self.tls.get() {
            return Ok(made.clone());
        }
        let failed = |reason: String| WebError::Authorities { reason };
        let mut roots = rustls::RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        for authority in &self.authorities {
            roots.add(authority.clone()).map_err(|error| failed(error.to_string()))?;
        }
        if roots.is_empty() {
            let first = found.errors.first().map_or("none were found".to_owned(), ToString::to_string);
            return Err(failed(first));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(self.tls.get_or_init(|| TlsConnector::from(Arc::new(config))).clone())
    }
}

/// Sleeps for `time`. For tools, which know no async runtime.
pub async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

async fn begin_http1<S>(stream: S) -> hyper::Result<Sender>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    let (sender, connection) = builder.max_buf_size(LARGEST_HEAD).handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async { drop(connection.await) });
    Ok(Sender::Http1(sender))
}

/// The response, or the error, with the request if it has certainly not been sent.
type SendOutcome = Result<Response<Incoming>, (hyper::Error, Option<Request<Full<Bytes>>>)>;

/// Request line and host, for both HTTP versions.
struct Line {
    uri: Uri,
    path: Uri,
    host: HeaderValue,
}

async fn send_on(sender: &mut Sender, line: &Line, mut request: Request<Full<Bytes>>) -> SendOutcome {
    match sender {
        Sender::Http1(sender) => {
            request.uri_mut().clone_from(&line.path);
            request.headers_mut().insert(header::HOST, line.host.clone());
            sender.try_send_request(request).await.map_err(taken_apart)
        }
        Sender::Http2(sender) => {
            request.uri_mut().clone_from(&line.uri);
            request.headers_mut().remove(header::HOST);
            sender.try_send_request(request).await.map_err(taken_apart)
        }
    }
}

fn taken_apart<T>(mut error: hyper::client::conn::TrySendError<T>) -> (hyper::Error, Option<T>) {
    let message = error.take_message();
    (error.into_error(), message)
}

fn broken(host: &str, error: &(dyn std::error::Error + 'static), sent: bool) -> WebError {
    WebError::Broken { host: host.to_owned(), reason: crate::chain(error), sent }
}
