//! Requests of tools to servers that anybody may have named: each connection goes to an address that was checked, and is used again
//! only by who may reach it.
//!
//! It follows no redirection and tries nothing twice: whoever asks decides on both. It knows no policy and no tool.

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

/// Bytes of the head of an answer at most.
const LARGEST_HEAD: usize = 128 * 1024;
/// Bytes that a server may send of one stream of HTTP/2 before they are read.
const STREAM_WINDOW: u32 = 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// No connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// No encryption: the server's certificate is not good, or it speaks no TLS.
    #[error("no encrypted connection to {host}: {reason}")]
    Tls {
        /// The host.
        host: String,
        /// What is wrong.
        reason: String,
    },
    /// The certificates of this system cannot be read.
    #[error("the certificates that this system trusts cannot be read: {reason}")]
    Authorities {
        /// Why.
        reason: String,
    },
    /// The deadline passed.
    #[error("{host} did not answer in time")]
    Late {
        /// The host.
        host: String,
        /// Whether the request may have reached the server.
        sent: bool,
    },
    /// What came is no HTTP, or the connection broke off.
    #[error("the exchange with {host} failed: {reason}")]
    Broken {
        /// The host.
        host: String,
        /// What went wrong.
        reason: String,
        /// Whether the request may have reached the server.
        sent: bool,
    },
}

impl WebError {
    /// Whether the server may have done what it was asked for.
    pub fn may_have_acted(&self) -> bool {
        matches!(self, Self::Late { sent: true, .. } | Self::Broken { sent: true, .. })
    }

    /// Whether the same may go well a moment later.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Broken { .. } | Self::Dial(DialError::Unreachable { .. }))
    }
}

/// A request.
#[derive(Clone)]
pub struct Ask {
    /// Where to.
    pub target: Target,
    /// The method.
    pub method: Method,
    /// The headers, without those that are about the connection and the body's length.
    pub headers: HeaderMap,
    /// The body; empty where there is none.
    pub body: Bytes,
    /// Which addresses may be dialled.
    pub permission: Permission,
    /// Until when the answer's head must be there, and its body.
    pub deadline: Instant,
}

/// An answer, its body still on the way.
pub struct Answer {
    /// The status.
    pub status: u16,
    /// What stands behind it: the server's own words, or the usual ones where it sent none.
    pub reason: String,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
    host: String,
    deadline: Instant,
    /// Gives the connection back when the body has ended.
    back: Option<pool::Back>,
}

impl Answer {
    /// The value of a header, where it is text and there is exactly one.
    pub fn header(&self, name: header::HeaderName) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    }

    /// The next piece of the body; none at its end.
    ///
    /// # Errors
    /// [`WebError::Late`], [`WebError::Broken`] where it breaks off.
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

/// The client of a runtime. Its connections stay open for a while after their use.
///
/// Needs a tokio runtime with time and input around each request, the same for all of them.
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
    /// A client that trusts the authorities of this system, and these.
    pub fn trusting(authorities: Vec<CertificateDer<'static>>) -> Self {
        Self { authorities, routes: HashMap::new(), tls: OnceLock::new(), pool: Arc::default() }
    }

    /// The same, which reaches this host and port at this address, without looking the name up. The address is checked as any other.
    #[must_use]
    pub fn connecting(mut self, host: Host, port: u16, to: SocketAddr) -> Self {
        self.routes.insert((host, port), to);
        self
    }

    /// The answer to a request.
    ///
    /// # Errors
    /// [`WebError`]. That a server refuses is an answer.
    pub async fn send(&self, ask: Ask) -> Result<Answer, WebError> {
        let Ask { target, method, headers, body, permission, deadline } = ask;
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
                        back: Some(pool::Back::new(&self.pool, &target, sender, peer)),
                    });
                }
                // The server closed a connection that was open for later; nothing of the request has left.
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

    /// Encrypts where the target wants it, and begins HTTP in the version that the server chose.
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
        // How a connection ends is told to the request that is on it.
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
            let first = found.errors.first().map_or("there are none".to_owned(), ToString::to_string);
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

/// Waits, for tools, which know no async runtime.
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

/// The answer, or the error and, where it has certainly not left, the request.
type Sent = Result<Response<Incoming>, (hyper::Error, Option<Request<Full<Bytes>>>)>;

/// What a request begins with, in both versions.
struct Line {
    uri: Uri,
    path: Uri,
    host: HeaderValue,
}

async fn send_on(sender: &mut Sender, line: &Line, mut request: Request<Full<Bytes>>) -> Sent {
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
