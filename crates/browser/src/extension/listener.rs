//! The listener on this machine.
//!
//! Any page and any program may connect to a loopback port, so a connection costs little until it is
//! admitted: a bounded number at a time, with bounded messages and little time. A page is refused by its
//! `Origin`, which no page can forge, and by its `Host` if a name of its own leads here.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{HeaderMap, StatusCode, header};

use crate::extension::admission::{ADMISSION, Expected, admit, strict};
use crate::extension::pairing::{self, PairingCode, PairingProblem};
use crate::extension::{ORIGIN, PATH};

/// Number of connections that may be unadmitted at a time. Others are dropped at once.
const UNADMITTED: usize = 16;

/// Number of attempts to bind an address in use, and the time between them.
const ATTEMPTS: u32 = 20;
const AGAIN: Duration = Duration::from_millis(50);

/// An admitted connection, with a number of its own.
pub(super) type Admitted = (u64, WebSocketStream<TcpStream>);

/// A listener on both loopback addresses. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    tasks: Vec<JoinHandle<()>>,
    port: u16,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Listener {
    /// Listens on a port, for the extension that is expected. Admitted connections go into the channel.
    ///
    /// # Errors
    /// The error of the system, if the port is in use.
    pub(super) async fn start(
        port: u16,
        expected: Expected,
        admitted: mpsc::Sender<Admitted>,
    ) -> io::Result<Self> {
        let four = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let port = four.local_addr()?.port();
        let six = match bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).await {
            Ok(six) => Some(six),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
            // A machine without IPv6.
            Err(_) => None,
        };
        let door = Arc::new(Door {
            expected,
            admitted,
            places: Arc::new(Semaphore::new(UNADMITTED)),
            last: AtomicU64::new(0),
        });
        let accepting = |listener: TcpListener| tokio::spawn(accept(listener, Arc::clone(&door)));
        let tasks = std::iter::once(four).chain(six).map(accepting).collect();
        Ok(Self { tasks, port })
    }

    /// Returns the port.
    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

/// Binds an address. A listener that was just dropped closes its socket a moment later, so an address in
/// use is tried again for a while.
async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let mut attempts = 1;
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && attempts < ATTEMPTS => {
                attempts += 1;
                tokio::time::sleep(AGAIN).await;
            }
            bound => return bound,
        }
    }
}

struct Door {
    expected: Expected,
    admitted: mpsc::Sender<Admitted>,
    places: Arc<Semaphore>,
    last: AtomicU64,
}

async fn accept(listener: TcpListener, door: Arc<Door>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptor is free: others may free one.
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        let Ok(place) = Arc::clone(&door.places).try_acquire_owned() else { continue };
        let door = Arc::clone(&door);
        tokio::spawn(async move {
            let admitted = tokio::time::timeout(ADMISSION, door.let_in(stream)).await.ok().flatten();
            drop(place);
            if let Some(socket) = admitted {
                let number = door.last.fetch_add(1, Ordering::Relaxed) + 1;
                // Whoever wanted it may be gone.
                let _ = door.admitted.send((number, socket)).await;
            }
        });
    }
}

impl Door {
    async fn let_in(&self, stream: TcpStream) -> Option<WebSocketStream<TcpStream>> {
        stream.set_nodelay(true).ok()?;
        let socket = tokio_tungstenite::accept_hdr_async_with_config(stream, check, Some(strict()));
        admit(socket.await.ok()?, &self.expected).await.ok()
    }
}

/// Checks the head of a request. The answer to a refused one says nothing.
fn check(request: &Request, response: Response) -> Result<Response, ErrorResponse> {
    let is_fine = request.uri().path() == PATH
        && request.uri().query().is_none()
        && one(request.headers(), header::HOST.as_str()).is_some_and(is_loopback)
        && one(request.headers(), header::ORIGIN.as_str()) == Some(ORIGIN);
    if is_fine {
        return Ok(response);
    }
    let mut refused = ErrorResponse::new(None);
    *refused.status_mut() = StatusCode::FORBIDDEN;
    Err(refused)
}

/// Returns a header that is there exactly once.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

/// Returns true if a `Host` names this machine: a loopback literal, or `localhost`.
fn is_loopback(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    };
    let is_port = |port: &str| !port.is_empty() && port.parse::<u16>().is_ok();
    port.is_none_or(is_port) && matches!(name, "127.0.0.1" | "[::1]" | "localhost")
}

/// Waits until the user has typed the code into the extension, and keeps the key of the pairing in the
/// state folder.
///
/// # Errors
/// [`PairingProblem`]: a browser is paired already, the port is in use, or the code was not entered.
pub async fn pair(port: u16, code: Arc<PairingCode>, state: &Path) -> Result<(), PairingProblem> {
    if pairing::is_paired(state) {
        return Err(PairingProblem::Paired);
    }
    let (sender, mut admitted) = mpsc::channel(1);
    let expected = Expected::New { code: Arc::clone(&code), state: Arc::from(state) };
    let _listener = Listener::start(port, expected, sender)
        .await
        .map_err(|source| PairingProblem::Port { port, source })?;
    let left = code.valid_until().saturating_duration_since(Instant::now());
    if tokio::time::timeout(left, admitted.recv()).await.is_ok_and(|admitted| admitted.is_some()) {
        return Ok(());
    }
    let why = if code.is_spent() {
        "the code was entered wrongly too often"
    } else {
        "the code was not entered within two minutes"
    };
    Err(PairingProblem::Ended { why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_loopback_literal_or_localhost() {
        for host in ["127.0.0.1:7600", "127.0.0.1", "[::1]:7600", "[::1]", "localhost:7600", "localhost"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "evil.example:7600",
            "127.0.0.1.evil.example",
            "localhost.evil.example:7600",
            "127.0.0.2",
            "0.0.0.0:7600",
            "[::1]x",
            "[::2]:7600",
            "127.0.0.1:",
            "127.0.0.1:x",
            "evil.example@127.0.0.1",
            "",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
