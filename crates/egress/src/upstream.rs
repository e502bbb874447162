//! Connections to servers, for requests.

use std::io;

use fetch::address::Host;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::authority::Authority;
use crate::hello::PATIENCE;
use crate::upload::Upload;

/// A connection to a server.
pub(crate) struct Upstream {
    pub(crate) host: Host,
    pub(crate) port: u16,
    pub(crate) sender: SendRequest<Upload>,
}

impl Upstream {
    pub(crate) async fn plain(stream: TcpStream, host: Host, port: u16) -> io::Result<Self> {
        Self::over(stream, host, port).await
    }

    /// By TLS, to a server whose certificate is for this host.
    pub(crate) async fn by_tls(
        stream: TcpStream,
        host: Host,
        port: u16,
        authority: &Authority,
    ) -> io::Result<Self> {
        let name = match &host {
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(io::Error::other)?,
            Host::Address(address) => ServerName::from(*address),
        };
        let connector = TlsConnector::from(authority.servers());
        let stream = timeout(PATIENCE, connector.connect(name, stream))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        Self::over(stream, host, port).await
    }

    async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        host: Host,
        port: u16,
    ) -> io::Result<Self> {
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // It ends with its sender, and what breaks it is told there.
        drop(tokio::spawn(connection));
        Ok(Self { host, port, sender })
    }
}
