//! Egress proxy of a network of cells: accepts the connections of commands, has each one judged,
//! and forwards the allowed ones.
//!
//! Some programs know of a proxy (`CONNECT`, requests with an absolute URL); the others connect to
//! an address. For the latter, the proxy's name server assigns an address to every allowed name.
//! The address has a meaning only inside the network. No name query leaves the machine.
//!
//! Decisions are made by name. The requested name, the name in the TLS hello and the name in each
//! request must be equal. The proxy resolves the name once, checks the addresses, and dials only
//! these. Traffic other than TLS and HTTP is refused.
//!
//! TLS passes through unchanged, except for hosts that a secret is bound to. For these hosts, the
//! proxy opens the connection with a certificate that only the cells of the session trust. On the
//! way out, placeholders are swapped for the values of secrets; on the way back, these values are
//! redacted. HTTP is parsed and rewritten request by request, so that no server behind the proxy
//! reads a different request. An opened connection may use HTTP/2 on either side.
//!
//! This crate knows no policy and no tools: a [`Gate`] decides on each destination. The proxy runs
//! on its own thread.

mod authority;
mod begun;
mod body;
mod dns;
mod forward;
mod head;
mod judging;
mod multiplexed;
mod peek;
mod refusal;
mod relay;
mod respond;
mod serve;
mod session;
mod slots;
mod sni;
mod substitute;
mod upload;
mod upstream;

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fetch::address::Host;
use fetch::dial::{Permission, Resolve};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

pub use authority::{Authority, Trust};
pub use begun::{BegunRequest, RequestHead, RequestRefusal, RequestVerdict};
pub use substitute::{Position, Secret, placeholder};

/// Returns the environment variables that point programs to the proxy, which listens on
/// `127.0.0.1`. Connections among programs on the loopback device bypass the proxy.
pub fn variables(proxy_port: u16) -> impl Iterator<Item = (&'static str, String)> {
    let proxy = format!("http://127.0.0.1:{proxy_port}");
    // Programs agree neither on the case nor on the full set of names.
    let proxies =
        ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"].map(|name| (name, proxy.clone()));
    let without = ["NO_PROXY", "no_proxy"].map(|name| (name, "localhost,127.0.0.1,::1".to_owned()));
    proxies.into_iter().chain(without)
}

/// The decisions for one network of cells.
pub trait Gate: Send + Sync + 'static {
    /// Resolver of host names.
    type Resolver: Resolve + Sync;

    /// Decides whether the host may be reached at this port. Called for every connection, and for
    /// every HTTP request. The connection is held until the decision.
    fn judge(&self, host: &Host, port: u16, peer: Peer) -> impl Future<Output = Verdict> + Send;

    /// Returns true if the name of the host gets an address in the cells.
    fn knows(&self, host: &Host) -> bool;

    /// Returns the permission for the addresses that the host may resolve to, besides public ones.
    fn permission(&self, host: &Host, port: u16) -> Permission;

    /// Returns the resolver of host names.
    fn resolver(&self) -> &Self::Resolver;

    /// Records a decision. An allowed connection proceeds only if this succeeds.
    fn note(&self, met: GateEvent) -> impl Future<Output = io::Result<()>> + Send;

    /// Returns the issuer of certificates for opened connections. Without an issuer, no connection
    /// is opened.
    fn authority(&self) -> Option<&Authority> {
        None
    }

    /// Returns the value for a placeholder that is to be sent now to this host, at this position.
    /// The use is recorded before this returns the value.
    ///
    /// # Errors
    /// The reason why the placeholder is not swapped: a sentence for the client.
    fn swap(
        &self,
        _placeholder: &str,
        _host: &Host,
        _place: Position,
    ) -> impl Future<Output = Result<Secret, String>> + Send {
        async { Err("this session has no secrets".to_owned()) }
    }

    /// Returns true if each request to the host on an opened connection is judged by
    /// [`Gate::judge_request`].
    fn judges_requests(&self, _host: &Host) -> bool {
        false
    }

    /// Decides on a request to a host that may be reached, before secrets are put into the request.
    /// The request is held until the decision, which the gate records.
    fn judge_request(
        &self,
        _host: &Host,
        _port: u16,
        _peer: Peer,
        _request: BegunRequest,
    ) -> impl Future<Output = RequestVerdict> + Send {
        async { RequestVerdict::Passed }
    }

    /// Returns true if a body may contain a secret of the host. A swap there changes the length of
    /// the body.
    fn swaps_bodies(&self, _host: &Host) -> bool {
        false
    }

    /// Returns the redactor for one response of an opened host.
    fn cover(&self) -> Box<dyn Cover> {
        Box::new(NoRedaction)
    }
}

/// Redacts secrets in one response.
pub trait Cover: Send {
    /// Takes the next part of the body and returns the redacted bytes that are safe to pass on.
    /// `ended` marks the last part.
    fn part(&mut self, part: &[u8], ended: bool) -> Vec<u8>;

    /// Returns the header value with all secrets redacted; `None` if it contains none.
    fn text(&self, text: &str) -> Option<String>;
}

/// Redactor of a session without secrets.
struct NoRedaction;

impl Cover for NoRedaction {
    fn part(&mut self, part: &[u8], _ended: bool) -> Vec<u8> {
        part.to_vec()
    }

    fn text(&self, _text: &str) -> Option<String> {
        None
    }
}

/// The program's end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Number of the connection, unique in its network.
    pub number: u64,
    /// Address of the program's socket.
    pub client: SocketAddr,
    /// Address that the program connected to.
    pub server: SocketAddr,
}

/// Decision of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The connection passes through unchanged.
    Through,
    /// The connection is opened, because a secret is bound to the host.
    Opened,
    /// The connection is refused. The value is a sentence for the client.
    Refused(String),
}

/// A decision on a connection, or a name query that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateEvent {
    /// Host in normal form, or as requested if the text is not a host.
    pub host: String,
    /// Port; 0 for a name query.
    pub port: u16,
    /// Kind of the request.
    pub way: Way,
    /// Reason of the refusal; `None` if the connection was allowed.
    pub refused: Option<String>,
}

/// Kind of request for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `CONNECT`.
    Connect,
    /// TLS to an address.
    Tls,
    /// HTTP request.
    Http,
    /// Name query.
    Name,
    /// Placeholder of a secret.
    Secret,
    /// Another protocol.
    Other,
}

impl Way {
    /// Returns the kind as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Http => "http",
            Self::Name => "name",
            Self::Secret => "secret",
            Self::Other => "other",
        }
    }
}

/// Listening sockets in a network of cells.
#[derive(Debug)]
pub struct Listeners {
    /// Socket for programs that know of a proxy.
    pub proxy: TcpListener,
    /// Sockets for the other programs, on all addresses. The local address of a connection is its
    /// intended destination.
    pub everywhere: Vec<TcpListener>,
    /// Socket for name queries (RFC 1035, over UDP), on all addresses.
    pub names: UdpSocket,
}

/// Maximum wait at the end of the thread for work that cannot be interrupted.
const LEFT_FOR: Duration = Duration::from_millis(100);

/// The thread that carries the connections. The thread and the connections end when this is
/// dropped, which waits for them.
#[derive(Debug)]
pub struct Carrier {
    handle: Handle,
    /// Sender whose drop ends the thread.
    ends: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Carrier {
    /// Starts the thread.
    ///
    /// # Errors
    /// An error if the system refuses a thread or an event queue.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (ends, ended) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("egress".to_owned()).spawn(move || {
            // The sender is only ever dropped, never used.
            let _dropped = runtime.block_on(ended);
            // A name that is being resolved by the system cannot be interrupted, and is not waited
            // for. Idle threads end at once.
            runtime.shutdown_timeout(LEFT_FOR);
        })?;
        Ok(Self { handle, ends: Some(ends), thread: Some(thread) })
    }

    /// Serves the connections of a network until the returned value is dropped.
    ///
    /// # Errors
    /// An error if a socket cannot be registered for events.
    pub fn serve<G: Gate>(&self, listeners: Listeners, gate: Arc<G>) -> io::Result<ServedNetwork> {
        let _inside = self.handle.enter();
        let serving = serve::Open::of(listeners)?;
        Ok(ServedNetwork(self.handle.spawn(serving.run(gate)).abort_handle()))
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.ends.take();
        // The system has printed the message of a panic.
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

/// A network that is being served. Its connections end when this is dropped.
#[derive(Debug)]
pub struct ServedNetwork(AbortHandle);

impl Drop for ServedNetwork {
    fn drop(&mut self) {
        self.0.abort();
    }
}
