//! Connections: accepted, limited in number, and closed in order on shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::JoinSet;

use crate::error::HttpError;
use crate::service;
use crate::state::ServerState;
use crate::write_timeout::{WriteDeadline, WriteTimeout};

/// Maximum number of connections that wait in the kernel to be accepted.
const BACKLOG: u32 = 1024;

/// Time that stopped calls have to send their responses.
const FAREWELL: Duration = Duration::from_secs(2);

/// Pause after a failed `accept`, for example because this process has too many open files.
const RESPITE: Duration = Duration::from_millis(100);

/// Maximum size of a request head, in bytes.
const LONGEST_HEAD: usize = 64 * 1024;

/// Response to a connection beyond the limit.
const FULL: &str = r#"{"ok":false,"error":{"code":"EQUOTA","message":"too many connections are open","effect":"none","retry":{"after_ms":1000}}}"#;

/// A listening socket.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds the address and listens. Needs a tokio runtime.
    ///
    /// # Errors
    /// [`HttpError::Listen`] if the address is in use, or this user may not bind it.
    pub fn bind(address: SocketAddr) -> Result<Self, HttpError> {
        let failed = |source| HttpError::Listen { address, source };
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let socket = socket.map_err(failed)?;
        // Allows a port whose last connections are still closing.
        socket.set_reuseaddr(true).map_err(failed)?;
        socket.bind(address).map_err(failed)?;
        let socket = socket.listen(BACKLOG).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// Returns the bound address, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Accepts connections until `stop` is ready, then waits for the end of the open ones.
pub(crate) async fn accept<T>(
    listener: Listener,
    shared: Arc<ServerState>,
    stop: impl Future<Output = T>,
) -> T {
    let (drain, draining) = watch::channel(());
    let mut open = JoinSet::new();
    tokio::pin!(stop);
    let stopped = loop {
        tokio::select! {
            biased;
            stopped = &mut stop => break stopped,
            Some(_) = open.join_next(), if !open.is_empty() => {}
            accepted = next(&listener) => match accepted {
                Ok(stream) => match shared.places.clone().try_acquire_owned() {
                    Ok(place) => {
                        open.spawn(serve(stream, shared.clone(), draining.clone(), place));
                    }
                    Err(_) => refuse(&stream),
                },
                Err(error) => {
                    if !is_of_the_client(&error) {
                        (shared.options.on_warning)(&format!("cannot accept a connection: {error}"));
                        tokio::time::sleep(RESPITE).await;
                    }
                }
            },
        }
    };
    shared.stopping.send_replace(true);
    drop(listener);
    // Close idle connections now; active requests continue.
    drop(drain);
    let all = async { while open.join_next().await.is_some() {} };
    let ended_by_themselves = tokio::time::timeout(shared.options.drain, all).await.is_ok();
    shared.engine.shutdown().await;
    if !ended_by_themselves {
        // Stopped calls send their responses. Connections that do not take them are dropped.
        let _ = tokio::time::timeout(FAREWELL, async { while open.join_next().await.is_some() {} }).await;
        open.shutdown().await;
    }
    stopped
}

/// Accepts the next connection. Cancel-safe.
async fn next(listener: &Listener) -> io::Result<TcpStream> {
    let (stream, _) = listener.socket.accept().await?;
    // Without TCP_NODELAY a small response waits for the client's delayed acknowledgement, up to 40
    // ms. A failure here only causes that delay.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

async fn serve(
    stream: TcpStream,
    shared: Arc<ServerState>,
    mut draining: watch::Receiver<()>,
    _place: OwnedSemaphorePermit,
) {
    let patience = shared.options.patience;
    let pace = WriteDeadline::default();
    let of_answers = pace.clone();
    let service = service_fn(move |request| {
        let (answer, pace) = (service::answer(shared.clone(), request), of_answers.clone());
        async move { answer.await.map(|reply| reply.map(|answer| answer.at(pace))) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(LONGEST_HEAD)
        // A client that closes its writing side has gone: its call is cancelled.
        .half_close(false)
        .serve_connection(TokioIo::new(WriteTimeout::new(stream, patience, pace)), service);
    tokio::pin!(connection);
    // The client knows how its connection ended; failures of single connections are not reported.
    tokio::select! {
        _ = connection.as_mut() => {}
        _ = draining.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// Sends a refusal to a connection beyond the limit, if that does not block.
fn refuse(stream: &TcpStream) {
    let length = FULL.len();
    let whole = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{FULL}"
    );
    let _ = stream.try_write(whole.as_bytes());
}

/// Returns true if a connection broke before it was accepted.
fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_that_are_taken_in_send_small_answers_at_once() {
        let listener = Listener::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let client = TcpStream::connect(listener.address()).await.unwrap();
        let taken_in = next(&listener).await.unwrap();
        assert_eq!(taken_in.peer_addr().unwrap(), client.local_addr().unwrap());
        assert!(taken_in.nodelay().unwrap());
        assert!(!client.nodelay().unwrap(), "the control: the system does not set it");
    }
}
