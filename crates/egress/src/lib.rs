//! The way out of a network of cells: a proxy that takes the connections of commands, has each judged, and carries those that may
//! go on.
//!
//! Programs come in two ways: some know of a proxy (`CONNECT`, requests with a whole URL), the others connect to an address. For
//! those every name that may be reached has an address of this proxy's, which means nothing elsewhere, and no question about a
//! name leaves the machine. Either way it is the name that counts: the one that was asked for, that of the TLS hello and that of
//! each request must be the same, it is looked up once, and what was looked up and checked is dialled.
//! What is neither TLS nor HTTP goes nowhere.
//!
//! TLS goes through untouched, but for hosts that a secret belongs to: there the connection is opened, with a certificate that only
//! the cells of the session trust, what stands for the secret in the cell is swapped for its value, and in what comes back the value is
//! covered. HTTP is read request by request, and written anew, so that nobody behind this proxy reads another
//! request than it did. An opened connection may be one of HTTP/2 on either side.
//!
//! This crate knows no policy and no tools: a [`Gate`] says what may go where. It runs on a thread of its own.

mod ahead;
mod answer;
mod authority;
mod body;
mod forward;
mod head;
mod hello;
mod multiplexed;
mod names;
mod places;
mod relay;
mod respond;
mod serve;
mod session;
mod swap;
mod upload;
mod upstream;

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::thread;

use fetch::address::Host;
use fetch::dial::{Permission, Resolve};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

pub use authority::{Authority, Trust};
pub use swap::{Place, Secret, placeholder};

/// The environment by which programs know of the proxy, which listens on `127.0.0.1`. What they serve each other there does not
/// go through it.
pub fn variables(proxy_port: u16) -> impl Iterator<Item = (&'static str, String)> {
    let proxy = format!("http://127.0.0.1:{proxy_port}");
    // Programs agree neither on the case nor on all of the names.
    let proxies =
        ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"].map(|name| (name, proxy.clone()));
    let without = ["NO_PROXY", "no_proxy"].map(|name| (name, "localhost,127.0.0.1,::1".to_owned()));
    proxies.into_iter().chain(without)
}

/// What decides for one network of cells.
pub trait Gate: Send + Sync + 'static {
    /// What finds the addresses of names.
    type Resolver: Resolve + Sync;

    /// Whether the host may be reached at this port. Asked for every connection, and for every request of HTTP.
    fn judge(&self, host: &Host, port: u16) -> Verdict;

    /// Whether the host may be reached at any port, so that its name has an address in the cells.
    fn knows(&self, host: &Host) -> bool;

    /// Which addresses beside the public ones the host may lead to.
    fn permission(&self, host: &Host, port: u16) -> Permission;

    /// What finds the addresses of names.
    fn resolver(&self) -> &Self::Resolver;

    /// Writes down what was decided. What was allowed goes on when this has ended well, and not otherwise.
    fn note(&self, met: Met) -> impl Future<Output = io::Result<()>> + Send;

    /// What opened connections have their certificates from. Without one none is opened.
    fn authority(&self) -> Option<&Authority> {
        None
    }

    /// The value that this placeholder stands for, to be sent to this host, in this place, now. It is written down before this ends
    /// well.
    ///
    /// # Errors
    /// Why it is not swapped: a sentence for who tried.
    fn swap(
        &self,
        _placeholder: &str,
        _host: &Host,
        _place: Place,
    ) -> impl Future<Output = Result<Secret, String>> + Send {
        async { Err("this session has no secrets".to_owned()) }
    }

    /// Whether a secret of the host may stand in a body, which changes the length of that.
    fn swaps_bodies(&self, _host: &Host) -> bool {
        false
    }

    /// What covers secrets in one answer of an opened host.
    fn cover(&self) -> Box<dyn Cover> {
        Box::new(Nothing)
    }
}

/// Covers secrets in what comes back.
pub trait Cover: Send {
    /// What of the body can be shown, now that this part of it has come, or it has ended.
    fn part(&mut self, part: &[u8], ended: bool) -> Vec<u8>;

    /// The value of a header with all secrets covered; none where there is none in it.
    fn text(&self, text: &str) -> Option<String>;
}

/// Where there are no secrets.
struct Nothing;

impl Cover for Nothing {
    fn part(&mut self, part: &[u8], _ended: bool) -> Vec<u8> {
        part.to_vec()
    }

    fn text(&self, _text: &str) -> Option<String> {
        None
    }
}

/// What a gate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It goes through untouched.
    Through,
    /// It is opened, because a secret belongs to the host.
    Opened,
    /// It does not, and why: a sentence for who tried.
    Refused(String),
}

/// A connection that was decided on, or a question for a name that was not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Met {
    /// The host, as it was understood, or as it was asked for where that was no host.
    pub host: String,
    /// The port; zero for a question for a name.
    pub port: u16,
    /// How it was asked for.
    pub way: Way,
    /// Why it was refused; none where it was not.
    pub refused: Option<String>,
}

/// How a connection was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `CONNECT`.
    Connect,
    /// TLS to an address.
    Tls,
    /// A request of HTTP.
    Http,
    /// A question for a name.
    Name,
    /// A placeholder of a secret.
    Secret,
    /// Something else.
    Other,
}

impl Way {
    /// As a word.
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

/// Sockets that listen in a network of cells.
#[derive(Debug)]
pub struct Listeners {
    /// For programs that know of a proxy.
    pub proxy: TcpListener,
    /// For those that do not: every address. The local address of a connection is the one that was meant.
    pub everywhere: Vec<TcpListener>,
    /// For questions about names (RFC 1035, over UDP), at every address.
    pub names: UdpSocket,
}

/// The thread that carries the connections. They end when it is dropped.
#[derive(Debug)]
pub struct Carrier {
    handle: Handle,
    _ends: oneshot::Sender<()>,
}

impl Carrier {
    /// Starts it.
    ///
    /// # Errors
    /// Where the system refuses a thread, or what it waits with.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (ends, ended) = oneshot::channel::<()>();
        thread::Builder::new().name("egress".to_owned()).spawn(move || {
            // It is dropped and never sent.
            let _dropped = runtime.block_on(ended);
        })?;
        Ok(Self { handle, _ends: ends })
    }

    /// Takes the connections of a network until what this gives is dropped.
    ///
    /// # Errors
    /// Where a socket cannot be waited for.
    pub fn serve<G: Gate>(&self, listeners: Listeners, gate: Arc<G>) -> io::Result<Serving> {
        let _inside = self.handle.enter();
        let serving = serve::Open::of(listeners)?;
        Ok(Serving(self.handle.spawn(serving.run(gate)).abort_handle()))
    }
}

/// A network whose connections are taken. They end when it is dropped.
#[derive(Debug)]
pub struct Serving(AbortHandle);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}
