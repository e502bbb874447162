//! Cost of the proxy, for `cargo run --release -p egress --example carry_speed`.
//!
//! The program compares a proxied connection, including its audit row, with a plain relay on this
//! machine. It measures the time to connect, the throughput, and HTTP over TLS, passed through and
//! opened. The measurements alternate, so that a busy machine affects all of them.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "the figures are this program's only result"
)]

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use egress::{Authority, Carrier, Gate, GateEvent, Listeners, Peer, Trust, Verdict};
use fetch::address::Host;
use fetch::dial::{Permission, Resolve};
use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use store_api::{AuditRow, Durability, Kind, Store as _};
use store_sqlite::SqliteStore;

const CONNECTIONS: usize = 2_000;
/// Bytes transferred per round: in plain text, and over TLS.
const LENGTH: usize = 512 << 20;
const LENGTH_BY_TLS: usize = 256 << 20;
const ROUNDS: usize = 5;
/// Bytes per read and per write.
const PART: usize = 128 * 1024;

const THROUGH: &str = "through.test";
const OPENED: &str = "opened.test";

/// A gate that allows everything, opens the connections to one host, and writes an audit row per
/// connection as the engine's gate does.
struct All {
    authority: Authority,
    store: SqliteStore,
}

struct Here;

impl Resolve for Here {
    async fn addresses(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }
}

impl Gate for All {
    type Resolver = Here;

    async fn judge(&self, host: &Host, _port: u16, _peer: Peer) -> Verdict {
        if host.to_string() == OPENED { Verdict::Opened } else { Verdict::Through }
    }

    fn knows(&self, _host: &Host) -> bool {
        true
    }

    fn permission(&self, _host: &Host, _port: u16) -> Permission {
        Permission::to(|_| true)
    }

    fn resolver(&self) -> &Here {
        &Here
    }

    async fn note(&self, met: GateEvent) -> io::Result<()> {
        let mut row = AuditRow::new(
            Kind::Call,
            Timestamp::UNIX_EPOCH,
            "0123456789ab0123456789",
            "cell",
            "handfast",
            "cell_connect",
        );
        row.session = Some("0123456789ab".to_owned());
        let GateEvent { host, port, way, .. } = met;
        let way = way.as_str();
        row.plan = Some(format!(
            r#"{{"arguments":{{"way":"{way}"}},"effects":[{{"effect":"connect","host":"{host}","port":{port}}}]}}"#
        ));
        let durability = Durability::Committed;
        self.store.audit().append(row, durability).await.map(drop).map_err(io::Error::other)
    }

    fn authority(&self) -> Option<&Authority> {
        Some(&self.authority)
    }
}

fn main() {
    let mut parameters = CertificateParams::new(Vec::<String>::new()).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
    let by_tls = server_by_tls(&issuer);
    let plain = listen(answer);
    let trust = Trust::of(CertificateDer::from(issuer.der().to_vec()));
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    let gate = Arc::new(All { authority: Authority::make(&trust).unwrap(), store });
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(gate.authority.bundle().as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let client = Arc::new(
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth(),
    );
    let listening = || TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = listening();
    let at = proxy.local_addr().unwrap();
    let names = UdpSocket::bind("127.0.0.1:0").unwrap();
    let carrier = Carrier::start().unwrap();
    let listeners = Listeners { proxy, everywhere: Vec::new(), names };
    let _serving = carrier.serve(listeners, gate).unwrap();
    let (plain_relay, relay_by_tls) = (relay(plain), relay(by_tls));

    let hello = hello(&client);
    let (mut direct, mut carried) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        direct.push(timed(|| drop(greeted(TcpStream::connect(plain_relay).unwrap(), &hello))));
        carried.push(timed(|| drop(greeted(tunnel(at, THROUGH, plain.port()), &hello))));
    }
    let (direct, carried) = (middle(direct), middle(carried));
    println!(
        "a connection with its first answer, p50: {direct:.0?} by a plain relay, {carried:.0?} by the proxy and with its audit row: {:.0?} more",
        carried.saturating_sub(direct)
    );
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        times[0].push(timed(|| all(greeted(TcpStream::connect(plain_relay).unwrap(), &hello))));
        times[1].push(timed(|| all(greeted(tunnel(at, THROUGH, plain.port()), &hello))));
        times[2].push(timed(|| get(TcpStream::connect(relay_by_tls).unwrap(), THROUGH, &client)));
        times[3].push(timed(|| get(tunnel(at, OPENED, by_tls.port()), OPENED, &client)));
    }
    let [relayed, passed, through, opened] = times.map(|times| middle(times).as_secs_f64());
    let speed = |bytes: usize, seconds: f64| bytes as f64 / seconds / 1e9;
    let (relayed, passed) = (speed(LENGTH, relayed), speed(LENGTH, passed));
    println!(
        "bytes: {relayed:.2} GB/s by a plain relay, {passed:.2} by the proxy: {:.2} of it",
        passed / relayed
    );
    let (through, opened) = (speed(LENGTH_BY_TLS, through), speed(LENGTH_BY_TLS, opened));
    println!(
        "an answer by TLS: {through:.2} GB/s by a plain relay, {opened:.2} opened: {:.2} of it, {:.2} of bytes passed on",
        opened / through,
        opened / passed
    );
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn listen(handle: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let handle = handle.clone();
            stream.set_nodelay(true).unwrap();
            // A client closes the connection when it has what it wants.
            thread::spawn(move || drop(handle(stream)));
        }
    });
    at
}

/// Answers the first request with one byte, and the next one with the whole length.
fn answer(mut stream: TcpStream) -> io::Result<()> {
    let mut said = [0; 4096];
    if stream.read(&mut said)? == 0 {
        return Ok(());
    }
    stream.write_all(b"1")?;
    if stream.read(&mut said)? == 0 {
        return Ok(());
    }
    let part = vec![0; PART];
    (0..LENGTH / PART).try_for_each(|_| stream.write_all(&part))
}

fn server_by_tls(issuer: &CertifiedIssuer<'_, KeyPair>) -> SocketAddr {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(vec![THROUGH.to_owned(), OPENED.to_owned()]).unwrap();
    parameters.distinguished_name.push(DnType::CommonName, "a server");
    let certificate = parameters.signed_by(&key, issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        );
    let config = Arc::new(config.unwrap());
    listen(move |stream| {
        let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
        let mut said = [0; 4096];
        let _request = stream.read(&mut said)?;
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {LENGTH_BY_TLS}\r\n\r\n")?;
        let part = vec![0; PART];
        (0..LENGTH_BY_TLS / PART).try_for_each(|_| stream.write_all(&part))?;
        stream.flush()
    })
}

/// Minimal relay, on one thread like the proxy.
fn relay(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((mut client, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut server = tokio::net::TcpStream::connect(to).await.unwrap();
                    client.set_nodelay(true).unwrap();
                    server.set_nodelay(true).unwrap();
                    tokio::io::copy_bidirectional_with_sizes(&mut client, &mut server, PART, PART).await
                });
            }
        });
    });
    at
}

fn tunnel(proxy: SocketAddr, host: &str, port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(proxy).unwrap();
    stream.set_nodelay(true).unwrap();
    let request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = [0; 39];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    stream
}

fn hello(client: &Arc<ClientConfig>) -> Vec<u8> {
    let mut connection =
        ClientConnection::new(client.clone(), ServerName::try_from(THROUGH).unwrap()).unwrap();
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).unwrap();
    bytes
}

fn greeted(mut stream: TcpStream, hello: &[u8]) -> TcpStream {
    stream.write_all(hello).unwrap();
    stream.read_exact(&mut [0]).unwrap();
    stream
}

fn all(mut stream: TcpStream) {
    stream.write_all(b"all").unwrap();
    let mut part = vec![0; PART];
    let mut left = LENGTH;
    while left > 0 {
        left -= stream.read(&mut part).unwrap();
    }
}

fn get(stream: TcpStream, host: &'static str, client: &Arc<ClientConfig>) {
    let name = ServerName::try_from(host).unwrap();
    let mut stream = StreamOwned::new(ClientConnection::new(client.clone(), name).unwrap(), stream);
    // Write in one piece: the server reads once, and unread bytes would reset the connection when
    // the server closes it.
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
    let mut part = vec![0; PART];
    let mut read = 0;
    while read < LENGTH_BY_TLS {
        read += stream.read(&mut part).unwrap();
    }
}
