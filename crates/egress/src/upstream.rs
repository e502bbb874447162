//! Connections to servers, for forwarded requests.

use std::io;
use std::sync::Arc;

use fetch::address::Host;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::HOST;
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::authority::HTTP2;
use crate::sni::TIMEOUT;
use crate::upload::Upload;

/// HTTP/2 flow-control windows: bytes that a server may send of one response before they are passed
/// on, and of all responses on its connection.
const WINDOW: u32 = 256 * 1024;
const WINDOW_OF_ALL: u32 = 1024 * 1024;
/// Maximum size of a response head, in bytes.
const LARGEST_HEAD: u32 = 128 * 1024;

/// A connection to a server.
pub(crate) struct Upstream {
    pub(crate) host: Host,
    pub(crate) port: u16,
    pub(crate) sender: Sender,
}

/// Sending half of a connection.
pub(crate) enum Sender {
    /// One request after the other.
    Http1(http1::SendRequest<Upload>),
    /// Concurrent requests.
    Http2(http2::SendRequest<Upload>),
}

impl Upstream {
    pub(crate) async fn plain(stream: TcpStream, host: Host, port: u16) -> io::Result<Self> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // The connection task ends with its sender, which also receives its errors.
        drop(tokio::spawn(connection));
        Ok(Self { host, port, sender: Sender::Http1(sender) })
    }

    /// Connects over TLS to a server with a certificate for this host. The server chooses one of
    /// the protocols in `config`.
    pub(crate) async fn by_tls(
        stream: TcpStream,
        host: Host,
        port: u16,
        config: Arc<ClientConfig>,
    ) -> io::Result<Self> {
        let name = match &host {
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(io::Error::other)?,
            Host::Address(address) => ServerName::from(*address),
        };
        let stream = timeout(TIMEOUT, TlsConnector::from(config).connect(name, stream))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        if stream.get_ref().1.alpn_protocol() != Some(HTTP2) {
            let (sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
            drop(tokio::spawn(connection));
            return Ok(Self { host, port, sender: Sender::Http1(sender) });
        }
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW_OF_ALL)
            .max_header_list_size(LARGEST_HEAD);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        drop(tokio::spawn(connection));
        Ok(Self { host, port, sender: Sender::Http2(sender) })
    }

    pub(crate) fn is_to(&self, host: &Host, port: u16) -> bool {
        self.host == *host && self.port == port
    }

    pub(crate) fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        }
    }

    /// Returns a handle to this connection for one more request, if it allows several at a time.
    pub(crate) fn shared(&self) -> Option<Self> {
        let Sender::Http2(sender) = &self.sender else { return None };
        let sender = Sender::Http2(sender.clone());
        Some(Self { host: self.host.clone(), port: self.port, sender }).filter(|shared| !shared.is_closed())
    }

    pub(crate) async fn send(&mut self, mut request: Request<Upload>) -> io::Result<Response<Incoming>> {
        let answer = match &mut self.sender {
            Sender::Http1(sender) => sender.send_request(request).await,
            Sender::Http2(sender) => {
                // RFC 9113, section 8.3.1: `:authority` replaces the `Host` header.
                let authority = request.headers_mut().remove(HOST);
                let authority = authority.as_ref().and_then(|value| value.to_str().ok()).unwrap_or_default();
                let uri = Uri::builder().scheme("https").authority(authority);
                let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
                *request.uri_mut() = uri.path_and_query(path).build().map_err(io::Error::other)?;
                sender.send_request(request).await
            }
        };
        answer.map_err(io::Error::other)
    }
}
