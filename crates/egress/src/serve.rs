//! Accepts connections and determines the protocol of each.

use std::io;
use std::sync::Arc;

use fetch::address::Host;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::authority::HTTP2;
use crate::forward::{self, Scope};
use crate::head::{self, Target};
use crate::peek::PeekedStream;
use crate::refusal::Refusal;
use crate::session::{Session, TlsInspection};
use crate::slots::{Client, Slots};
use crate::sni::{self, ACCESS_DENIED, HANDSHAKE, TIMEOUT};
use crate::{Gate, Listeners, Way, dns, multiplexed, relay};

/// Maximum number of connections of one network. One more ends the connection that was idle for longest.
const MOST: usize = 512;

/// Send buffer of an opened connection, in bytes: large enough for everything that is written at a time.
const ENCRYPTED: usize = 128 * 1024;

/// Listeners registered for events.
pub(crate) struct Open {
    proxy: TcpListener,
    everywhere: Vec<TcpListener>,
    names: UdpSocket,
}

impl Open {
    pub(crate) fn of(listeners: Listeners) -> io::Result<Self> {
        let open = |listener: std::net::TcpListener| {
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        };
        listeners.names.set_nonblocking(true)?;
        Ok(Self {
            proxy: open(listeners.proxy)?,
            everywhere: listeners.everywhere.into_iter().map(open).collect::<io::Result<_>>()?,
            names: UdpSocket::from_std(listeners.names)?,
        })
    }

    /// Accepts connections while this future is polled. The connections end with it.
    pub(crate) async fn run<G: Gate>(self, gate: Arc<G>) {
        self.run_within(gate, MOST).await;
    }

    async fn run_within<G: Gate>(self, gate: Arc<G>, most: usize) {
        let session = Arc::new(Session::of(gate));
        let places = Slots::new(most);
        let mut listening = JoinSet::new();
        for (listener, door) in std::iter::once((self.proxy, EntryPoint::Proxy))
            .chain(self.everywhere.into_iter().map(|listener| (listener, EntryPoint::Everywhere)))
        {
            listening.spawn(take(session.clone(), places.clone(), listener, door));
        }
        let names = self.names;
        listening.spawn(async move { dns::answer(&session, &names).await });
        // A listener ends only if its socket fails; the others continue.
        while listening.join_next().await.is_some() {}
    }
}

/// Entry through which a connection came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryPoint {
    Proxy,
    Everywhere,
}

async fn take<G: Gate>(
    session: Arc<Session<G>>,
    places: Arc<Slots>,
    listener: TcpListener,
    door: EntryPoint,
) -> io::Result<()> {
    let mut carried = JoinSet::new();
    loop {
        let (stream, client, server) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, client)) => match stream.local_addr() {
                    Ok(server) => (stream, client, server),
                    Err(_) => continue,
                },
                // The client has gone, or the process has no free descriptor. Both are temporary.
                Err(_) => {
                    tokio::task::yield_now().await;
                    continue;
                }
            },
            Some(_) = carried.join_next(), if !carried.is_empty() => continue,
        };
        let (session, held) = (session.clone(), places.enter(client, server).await);
        carried.spawn(async move {
            let place = held.place.clone();
            let client = Client { stream, place: place.clone() };
            tokio::select! {
                // The client was already informed of a failure, as far as it was still connected.
                _broken = carry(&session, client, door) => {}
                () = place.is_wanted_back() => {}
            }
            drop(held);
        });
    }
}

async fn carry<G: Gate>(session: &Arc<Session<G>>, client: Client, door: EntryPoint) -> io::Result<()> {
    client.stream.set_nodelay(true)?;
    let meant = client.stream.local_addr()?;
    let mut client = PeekedStream::of(client);
    match timeout(TIMEOUT, client.fill()).await {
        Ok(Ok(count)) if count > 0 => {}
        _ => return Ok(()),
    }
    if door == EntryPoint::Proxy {
        return proxy(session, client).await;
    }
    let host = session.addresses.meant(meant.ip());
    let port = meant.port();
    if client.bytes.first() == Some(&HANDSHAKE) {
        return tls(session, client, host, port).await;
    }
    let scope = Scope::of(door, Some((host, port)), &client.stream.place);
    forward::serve(session, client, None, None, scope).await
}

/// Serves a program that knows of the proxy.
async fn proxy<G: Gate>(session: &Arc<Session<G>>, mut client: PeekedStream<Client>) -> io::Result<()> {
    let head = match timeout(TIMEOUT, head::read(&mut client)).await {
        Ok(Ok(Some(head))) => head,
        Ok(Ok(None)) => return Ok(()),
        Ok(Err(refusal)) => return refusal.send(&mut client).await,
        Err(_) => return Refusal::late("the request did not arrive in time").send(&mut client).await,
    };
    let Target::Connect(host, port) = &head.target else {
        let scope = Scope::of(EntryPoint::Proxy, None, &client.stream.place);
        return forward::serve(session, client, Some(head), None, scope).await;
    };
    let (host, port) = (host.clone(), *port);
    if let Some((named, _)) = head.host().ok().flatten().filter(|(named, _)| *named != host) {
        let reason = format!("the request is for {host}, but its header Host names {named}");
        return session.refuse(host.to_string(), port, Way::Connect, reason).await.send(&mut client).await;
    }
    if head.framing != head::Framing::Length(0) {
        return Refusal::malformed("CONNECT has a body").send(&mut client).await;
    }
    let server = match session.judge(&host, port, Way::Connect, &client.stream.place).await {
        // Requests are judged one by one; the first one makes the connection.
        Ok(TlsInspection::Requests) => Ok(None),
        Ok(TlsInspection::Nothing) => session.open(&host, port, Way::Connect).await.map(Some),
        Err(refusal) => Err(refusal),
    };
    let server = match server {
        Ok(server) => server,
        Err(refusal) => return refusal.send(&mut client).await,
    };
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    if client.bytes.is_empty() {
        match timeout(TIMEOUT, client.fill()).await {
            Ok(Ok(count)) if count > 0 => {}
            Ok(_) => return Ok(()),
            Err(_) => {
                let reason = "the client sent nothing within ten seconds: only TLS and HTTP work here, \
                     where the client speaks first";
                session.refuse(host.to_string(), port, Way::Other, reason.to_owned()).await;
                return Ok(());
            }
        }
    }
    if client.bytes.first() != Some(&HANDSHAKE) {
        let scope = Scope::of(EntryPoint::Proxy, Some((host, port)), &client.stream.place);
        return forward::serve(session, client, None, server, scope).await;
    }
    match (same_name(&mut client, &host).await, server) {
        (Ok(()), Some(server)) => relay::join(client, server).await,
        (Ok(()), None) => opened(session, client, host, port, EntryPoint::Proxy).await,
        (Err(reason), _) => refuse_tls(session, client, &host, port, reason).await,
    }
}

/// Serves a program that connected to an address and speaks TLS.
async fn tls<G: Gate>(
    session: &Arc<Session<G>>,
    mut client: PeekedStream<Client>,
    meant: Host,
    port: u16,
) -> io::Result<()> {
    let named = match sni::read(&mut client).await {
        Ok(named) => named,
        Err(reason) => return refuse_tls(session, client, &meant, port, reason).await,
    };
    let host = match (named.as_deref().map(Host::parse), &meant) {
        (None, _) => meant,
        (Some(Ok(named)), Host::Name(name)) if named != meant => {
            let reason = format!("the connection is to {name}, but its TLS hello names {named}");
            return refuse_tls(session, client, &meant, port, reason).await;
        }
        (Some(Ok(named)), _) => named,
        (Some(Err(error)), _) => return refuse_tls(session, client, &meant, port, error.to_string()).await,
    };
    let server = match session.judge(&host, port, Way::Tls, &client.stream.place).await {
        Ok(TlsInspection::Requests) => {
            return opened(session, client, host, port, EntryPoint::Everywhere).await;
        }
        Ok(TlsInspection::Nothing) => session.open(&host, port, Way::Tls).await,
        Err(refusal) => Err(refusal),
    };
    match server {
        Ok(server) => relay::join(client, server).await,
        Err(_) => alert(client).await,
    }
}

/// Serves an opened connection: the proxy poses as the intended server, with a certificate of the
/// session's authority, which the program trusts.
async fn opened<G: Gate>(
    session: &Arc<Session<G>>,
    client: PeekedStream<Client>,
    host: Host,
    port: u16,
    door: EntryPoint,
) -> io::Result<()> {
    let Some(authority) = session.gate.authority() else { return alert(client).await };
    let acceptor = TlsAcceptor::from(authority.in_place_of(&host)?);
    let more = |session: &mut rustls::ServerConnection| session.set_buffer_limit(Some(ENCRYPTED));
    let place = client.stream.place.clone();
    let shaken = timeout(TIMEOUT, acceptor.accept_with(client, more)).await;
    match shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok(client) => {
            let scope = Scope { opened: true, ..Scope::of(door, Some((host, port)), &place) };
            if client.get_ref().1.alpn_protocol() == Some(HTTP2) {
                return multiplexed::serve(session.clone(), client, scope).await;
            }
            forward::serve(session, PeekedStream::of(client), None, None, scope).await
        }
        Err(error) => {
            let reason = format!(
                "a secret belongs to {host}, so its TLS connections are intercepted, which the program \
                 refused: {error}; the certificates to trust are in the file in SSL_CERT_FILE"
            );
            session.refuse(host.to_string(), port, Way::Tls, reason).await;
            Err(error)
        }
    }
}

/// Checks that the hello names the host of the connection. For a connection to an address, the name
/// may be missing.
async fn same_name(client: &mut PeekedStream<Client>, host: &Host) -> Result<(), String> {
    match (sni::read(client).await?, host) {
        (None, Host::Address(_)) => Ok(()),
        (None, Host::Name(_)) => Err(format!("the connection is to {host}, but its TLS hello names no host")),
        (Some(named), _) if Host::parse(&named).is_ok_and(|named| named == *host) => Ok(()),
        (Some(named), _) => Err(format!("the connection is to {host}, but its TLS hello names {named}")),
    }
}

async fn refuse_tls<G: Gate>(
    session: &Arc<Session<G>>,
    client: PeekedStream<Client>,
    host: &Host,
    port: u16,
    reason: String,
) -> io::Result<()> {
    session.refuse(host.to_string(), port, Way::Tls, reason).await;
    alert(client).await
}

async fn alert(mut client: PeekedStream<Client>) -> io::Result<()> {
    client.write_all(&ACCESS_DENIED).await?;
    client.shutdown().await
}

#[cfg(test)]
mod tests;
