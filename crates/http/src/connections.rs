//! Connections: taken in, bounded in number, and let go in order.

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

use crate::HttpError;
use crate::patient::{Pace, Patient};
use crate::service::{self, Shared};

/// Connections that the kernel keeps waiting to be taken in.
const BACKLOG: u32 = 1024;

/// How long calls that were stopped have for their answers.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long is waited where no connection can be taken in, for example because this process has too many files open.
const RESPITE: Duration = Duration::from_millis(100);

/// Bytes that a request's head may have.
const LONGEST_HEAD: usize = 64 * 1024;

/// What a connection too many is told.
const FULL: &str = r#"{"ok":false,"error":{"code":"EQUOTA","message":"too many connections are open","effect":"none","retry":{"after_ms":1000}}}"#;

/// A listening socket.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Listens. Needs a tokio runtime around it.
    ///
    /// # Errors
    /// [`HttpError::Listen`] where another program listens there, or this user may not.
    pub fn bind(address: SocketAddr) -> Result<Self, HttpError> {
        let failed = |source| HttpError::Listen { address, source };
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let socket = socket.map_err(failed)?;
        // A port whose last connections still close is free.
        socket.set_reuseaddr(true).map_err(failed)?;
        socket.bind(address).map_err(failed)?;
        let socket = socket.listen(BACKLOG).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// Where it listens, with the port that was given.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Takes connections in until `stop` is done, then lets those that are there end.
pub(crate) async fn accept<T>(listener: Listener, shared: Arc<Shared>, stop: impl Future<Output = T>) -> T {
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
                        (shared.options.on_warning)(&format!("cannot take a connection in: {error}"));
                        tokio::time::sleep(RESPITE).await;
                    }
                }
            },
        }
    };
    shared.stopping.send_replace(true);
    drop(listener);
    // Whoever waits for a next request is let go at once, whoever has one runs on.
    drop(drain);
    let all = async { while open.join_next().await.is_some() {} };
    let ended_by_themselves = tokio::time::timeout(shared.options.drain, all).await.is_ok();
    shared.engine.shutdown().await;
    if !ended_by_themselves {
        // What was stopped gets its answers; whoever does not take them is left.
        let _ = tokio::time::timeout(FAREWELL, async { while open.join_next().await.is_some() {} }).await;
        open.shutdown().await;
    }
    stopped
}

/// The next connection. Nothing is lost where this future is dropped.
async fn next(listener: &Listener) -> io::Result<TcpStream> {
    let (stream, _) = listener.socket.accept().await?;
    // Without it a small answer waits for the client's delayed acknowledgement, up to 40 ms. Where it cannot be set, answers come late.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

async fn serve(
    stream: TcpStream,
    shared: Arc<Shared>,
    mut draining: watch::Receiver<()>,
    _place: OwnedSemaphorePermit,
) {
    let patience = shared.options.patience;
    let pace = Pace::default();
    let of_answers = pace.clone();
    let service = service_fn(move |request| {
        let (answer, pace) = (service::answer(shared.clone(), request), of_answers.clone());
        async move { answer.await.map(|reply| reply.map(|answer| answer.at(pace))) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(LONGEST_HEAD)
        // A client that closes its side is gone: its call is cancelled.
        .half_close(false)
        .serve_connection(TokioIo::new(Patient::new(stream, patience, pace)), service);
    tokio::pin!(connection);
    // How a connection ends, its client knows; nobody else is told of every one that breaks.
    tokio::select! {
        _ = connection.as_mut() => {}
        _ = draining.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// Says to a client that there are too many, where it takes that at once.
fn refuse(stream: &TcpStream) {
    let length = FULL.len();
    let whole = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{FULL}"
    );
    let _ = stream.try_write(whole.as_bytes());
}

/// Whether a connection broke before it was taken in.
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
