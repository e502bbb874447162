//! Tests of connections that are opened because a secret is bound to their host: swapped
//! placeholders, redacted responses, and refusals.

pub(crate) mod judged;

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use base64::Engine as _;
use egress::{
    Authority, BegunRequest, Carrier, Cover, Gate, GateEvent, Listeners, Peer, Position, RequestVerdict,
    Secret, ServedNetwork, Trust, Verdict,
};
use fetch::address::Host;
use fetch::dial::{Permission, Resolve};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::support::{connect, server};

pub(crate) const HOST: &str = "own.test";
pub(crate) const SECRET: &str = "sk-live-0123456789-abcdef";
pub(crate) const COVERED: &str = "[SECRET:key]";
pub(crate) const PLACEHOLDER: &str = "handfast_secret_00112233445566778899aabbccddeeff";
/// Placeholder of another session.
pub(crate) const FOREIGN: &str = "handfast_secret_ffffffffffffffffffffffffffffffff";

pub(crate) type ByTls<C> = StreamOwned<C, TcpStream>;

pub(crate) struct Opening {
    authority: Authority,
    met: Mutex<Vec<GateEvent>>,
    /// Judge of requests, if they are judged.
    pub(crate) judge: Mutex<Option<Judge>>,
}

pub(crate) type Judge = Box<dyn Fn(&BegunRequest) -> RequestVerdict + Send>;

pub(crate) struct Here;

impl Resolve for Here {
    async fn addresses(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec![IpAddr::from([127, 0, 0, 1])])
    }
}

impl Gate for Opening {
    type Resolver = Here;

    async fn judge(&self, _host: &Host, _port: u16, _peer: Peer) -> Verdict {
        Verdict::Opened
    }

    fn knows(&self, _host: &Host) -> bool {
        true
    }

    fn permission(&self, _host: &Host, _port: u16) -> Permission {
        Permission::to(|address| address.is_loopback())
    }

    fn resolver(&self) -> &Here {
        &Here
    }

    async fn note(&self, met: GateEvent) -> io::Result<()> {
        self.met.lock().push(met);
        Ok(())
    }

    fn authority(&self) -> Option<&Authority> {
        Some(&self.authority)
    }

    async fn swap(&self, placeholder: &str, _host: &Host, _place: Position) -> Result<Secret, String> {
        if placeholder == PLACEHOLDER {
            return Ok(Secret::of(SECRET.as_bytes()));
        }
        Err("the request contains a placeholder of a secret that does not belong to this session".to_owned())
    }

    fn judges_requests(&self, _host: &Host) -> bool {
        self.judge.lock().is_some()
    }

    async fn judge_request(
        &self,
        _host: &Host,
        _port: u16,
        _peer: Peer,
        request: BegunRequest,
    ) -> RequestVerdict {
        self.judge.lock().as_ref().map_or(RequestVerdict::Passed, |judge| judge(&request))
    }

    fn swaps_bodies(&self, _host: &Host) -> bool {
        true
    }

    fn cover(&self) -> Box<dyn Cover> {
        Box::new(Covering(String::new()))
    }
}

/// Redacts one value in text, and holds back a possible beginning of it.
struct Covering(String);

impl Cover for Covering {
    fn part(&mut self, part: &[u8], ended: bool) -> Vec<u8> {
        self.0.push_str(std::str::from_utf8(part).unwrap());
        let text = self.0.replace(SECRET, COVERED);
        let begun = (1..SECRET.len()).rev().find(|length| text.ends_with(&SECRET[..*length]));
        let (shown, held) = text.split_at(text.len() - begun.filter(|_| !ended).unwrap_or(0));
        held.clone_into(&mut self.0);
        shown.as_bytes().to_vec()
    }

    fn text(&self, text: &str) -> Option<String> {
        text.contains(SECRET).then(|| text.replace(SECRET, COVERED))
    }
}

pub(crate) struct World {
    pub(crate) gate: Arc<Opening>,
    pub(crate) proxy: std::net::SocketAddr,
    pub(crate) port: u16,
    pub(crate) client: Arc<ClientConfig>,
    _serving: ServedNetwork,
    _carrier: Carrier,
}

impl World {
    /// Starts a proxy in front of a TLS server whose connections `handle` serves.
    pub(crate) fn before(handle: impl Fn(ByTls<ServerConnection>) + Send + Sync + 'static) -> Self {
        Self::around(|config| {
            server(move |stream| {
                handle(StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream));
            })
        })
    }

    /// Starts a proxy in front of the server that `start` starts. `start` returns the server's port.
    pub(crate) fn around(start: impl FnOnce(Arc<ServerConfig>) -> u16) -> Self {
        let mut parameters = CertificateParams::new(Vec::<String>::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec![HOST.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            );
        let port = start(Arc::new(config.unwrap()));
        let trust = Trust::of(CertificateDer::from(issuer.der().to_vec()));
        let authority = Authority::make(&trust).unwrap();
        let gate = Arc::new(Opening { authority, met: Mutex::default(), judge: Mutex::default() });
        let mut roots = RootCertStore::empty();
        for trusted in CertificateDer::pem_slice_iter(gate.authority.bundle().as_bytes()) {
            roots.add(trusted.unwrap()).unwrap();
        }
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = proxy.local_addr().unwrap();
        let carrier = Carrier::start().unwrap();
        let names = UdpSocket::bind("127.0.0.1:0").unwrap();
        let listeners = Listeners { proxy, everywhere: Vec::new(), names };
        let serving = carrier.serve(listeners, gate.clone()).unwrap();
        Self { gate, proxy: at, port, client: Arc::new(client), _serving: serving, _carrier: carrier }
    }

    /// Starts a server that answers each connection with these bytes. Also returns the received requests.
    pub(crate) fn answering(answer: impl Into<Vec<u8>>) -> (Self, Receiver<String>) {
        let answer = answer.into();
        let (sender, received) = channel();
        let sender = Mutex::new(sender);
        let world = Self::before(move |mut stream| {
            let said = request(&mut stream);
            sender.lock().send(said).unwrap();
            stream.write_all(&answer).unwrap();
            stream.conn.send_close_notify();
            let _gone = stream.flush();
        });
        (world, received)
    }

    fn tunnel(&self) -> ByTls<ClientConnection> {
        let mut stream = connect(self.proxy);
        let connect = format!("CONNECT {HOST}:{0} HTTP/1.1\r\nHost: {HOST}:{0}\r\n\r\n", self.port);
        stream.write_all(connect.as_bytes()).unwrap();
        let mut answer = [0; 39];
        stream.read_exact(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"));
        let name = ServerName::try_from(HOST).unwrap();
        StreamOwned::new(ClientConnection::new(self.client.clone(), name).unwrap(), stream)
    }

    fn head(&self, line: &str, headers: &str) -> String {
        format!("{line} HTTP/1.1\r\nHost: {HOST}:{}\r\nConnection: close\r\n{headers}\r\n", self.port)
    }

    /// Sends `said` and returns the whole response.
    fn ask(&self, said: &str) -> String {
        let mut stream = self.tunnel();
        stream.write_all(said.as_bytes()).unwrap();
        rest(&mut stream)
    }

    pub(crate) fn refusals(&self) -> Vec<String> {
        self.gate.met.lock().iter().filter_map(|met| met.refused.clone()).collect()
    }
}

/// Reads a head and the body that it announces.
pub(crate) fn request(stream: &mut impl Read) -> String {
    let mut said = String::new();
    let mut bytes = [0; 4096];
    loop {
        let whole = said.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head.to_lowercase().lines().find_map(|line| {
                line.strip_prefix("content-length: ").map(|length| length.parse::<usize>().unwrap())
            });
            let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
            if chunked { body.ends_with("0\r\n\r\n") } else { body.len() >= length.unwrap_or(0) }
        });
        if whole {
            return said;
        }
        match stream.read(&mut bytes) {
            Ok(count @ 1..) => said.push_str(std::str::from_utf8(&bytes[..count]).unwrap()),
            _ => return said,
        }
    }
}

fn rest(stream: &mut impl Read) -> String {
    let mut all = Vec::new();
    // A connection may be reset after its response.
    let _reset = stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

pub(crate) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn an_answer_that_is_compressed_is_looked_through_and_passed_on_readable() {
    let body = format!("{{\"echo\": \"{SECRET}\"}}");
    for (name, bytes) in [("gzip", gzip(body.as_bytes())), ("DEFLATE", deflate(body.as_bytes()))] {
        let mut answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: {name}\r\nX-Echo: {SECRET}\r\nContent-Length: {}\r\n\r\n",
            bytes.len()
        )
        .into_bytes();
        answer.extend_from_slice(&bytes);
        let (world, received) = World::answering(answer);
        let said = world.ask(&world.head("GET /", "Accept-Encoding: gzip, br\r\n"));
        assert!(said.contains(&format!("{{\"echo\": \"{COVERED}\"}}")), "{name}: {said}");
        assert!(said.contains(&format!("x-echo: {COVERED}\r\n")), "{said}");
        assert!(!said.contains(SECRET) && !said.to_lowercase().contains("content-encoding"), "{said}");
        // The request did not ask for compression.
        assert!(received.recv().unwrap().to_lowercase().contains("accept-encoding: identity"));
    }
}

#[test]
fn an_answer_that_cannot_be_looked_through_goes_nowhere() {
    for encoding in ["compress", "gzip, gzip", "aes128gcm"] {
        let answer =
            format!("HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: 4\r\n\r\nabcd");
        let (world, _received) = World::answering(answer);
        let said = world.ask(&world.head("GET /", ""));
        assert!(said.starts_with("HTTP/1.1 502 "), "{encoding}: {said}");
        assert!(said.contains("cannot be searched for secrets"), "{said}");
    }
    let (world, _received) =
        World::answering("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\nno gzip...");
    let said = world.ask(&world.head("GET /", ""));
    assert!(!said.contains("no gzip") && !said.ends_with("0\r\n\r\n"), "it breaks off: {said}");
}

#[test]
fn a_bomb_is_passed_on_as_it_unfolds_and_ends_with_who_asked_for_it() {
    let bomb = gzip(&vec![b'0'; 4 << 20]);
    let (sender, ended) = channel();
    let sender: Mutex<Sender<bool>> = Mutex::new(sender);
    let world = World::before(move |mut stream| {
        request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n").unwrap();
        // Members of one stream, one after the other, without end.
        while stream.write_all(&bomb).is_ok() {}
        sender.lock().send(true).unwrap();
    });
    let mut stream = world.tunnel();
    stream.write_all(world.head("GET /", "").as_bytes()).unwrap();
    // The body has no end, so a proxy that waits for the end would never pass anything on.
    let mut part = vec![0; 1 << 20];
    let mut read = 0;
    while read < 16 << 20 {
        read += stream.read(&mut part).unwrap();
    }
    drop(stream);
    assert!(ended.recv().unwrap(), "the server is told that nobody listens any more");
}

#[test]
fn each_event_of_a_stream_arrives_before_the_next_one_is_sent() {
    for compressed in [false, true] {
        let (next, wanted) = channel::<()>();
        let wanted = Mutex::new(wanted);
        let world = World::before(move |mut stream| {
            request(&mut stream);
            let coded = if compressed { "Content-Encoding: gzip\r\n" } else { "" };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{coded}\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            for number in 0..5 {
                let event = format!("data: {number} {SECRET} s\n\n");
                if compressed {
                    encoder.write_all(event.as_bytes()).unwrap();
                    encoder.flush().unwrap();
                    stream.write_all(&std::mem::take(encoder.get_mut())).unwrap();
                } else {
                    stream.write_all(event.as_bytes()).unwrap();
                }
                stream.flush().unwrap();
                // The next event is sent only after this one has arrived, so a delayed event fails
                // the test.
                wanted.lock().recv().unwrap();
            }
        });
        let mut stream = world.tunnel();
        stream.write_all(world.head("GET /events", "").as_bytes()).unwrap();
        let mut all = String::new();
        let mut bytes = [0; 4096];
        for number in 0..5 {
            let event = format!("data: {number} {COVERED} s\n\n");
            while !all.contains(&event) {
                let count = stream.read(&mut bytes).unwrap();
                all.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
            }
            next.send(()).unwrap();
        }
    }
}

#[test]
fn a_part_that_is_asked_for_comes_as_the_whole() {
    let (world, received) =
        World::answering(format!("HTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\n{SECRET}"));
    let said = world.ask(&world.head("GET /", "Range: bytes=0-9\r\nIf-Range: \"x\"\r\n"));
    // A part of a value is not recognized, so servers are never asked for ranges (RFC 9110, section
    // 14.2, permits ignoring them).
    assert!(said.starts_with("HTTP/1.1 200 ") && said.contains(COVERED), "{said}");
    assert!(!received.recv().unwrap().to_lowercase().contains("range"));
}

#[test]
fn a_websocket_is_refused_with_the_reason() {
    let (world, _received) = World::answering("");
    let said = world.ask(&format!(
        "GET /ws HTTP/1.1\r\nHost: {HOST}:{}\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n",
        world.port
    ));
    assert!(said.starts_with("HTTP/1.1 403 ") && said.contains("impossible for a WebSocket"), "{said}");
    assert!(world.refusals()[0].contains("WebSocket"), "{:?}", world.refusals());
}

#[test]
fn a_placeholder_is_swapped_wherever_the_writes_part_it() {
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("me:{PLACEHOLDER}"));
    let swapped = base64::engine::general_purpose::STANDARD.encode(format!("me:{SECRET}"));
    let (world, received) = World::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let body = format!("<{PLACEHOLDER}{PLACEHOLDER}handfast_secret_>");
    let chunks: String = body.as_bytes().chunks(7).fold(String::new(), |all, part| {
        format!("{all}{:x}\r\n{}\r\n", part.len(), String::from_utf8_lossy(part))
    });
    let with = |framing: &str, body: &str| {
        let headers = format!("X-Key: {PLACEHOLDER}\r\nAuthorization: Basic {basic}\r\n{framing}\r\n");
        format!("{}{body}", world.head("POST /", &headers))
    };
    let length = format!("Content-Length: {}", body.len());
    for said in [with(&length, &body), with("Transfer-Encoding: chunked", &format!("{chunks}0\r\n\r\n"))] {
        let mut stream = world.tunnel();
        // Write each byte in a separate record.
        for byte in said.as_bytes() {
            stream.write_all(&[*byte]).unwrap();
        }
        assert!(rest(&mut stream).starts_with("HTTP/1.1 200 "));
        let got = received.recv().unwrap();
        let sent: String = got.split_once("\r\n\r\n").unwrap().1.to_owned();
        let plain: String = if got.to_lowercase().contains("chunked") {
            sent.split("\r\n").skip(1).step_by(2).collect()
        } else {
            sent
        };
        assert_eq!(plain, format!("<{SECRET}{SECRET}handfast_secret_>"), "{got}");
        let got = got.to_lowercase();
        assert!(got.contains(&format!("x-key: {SECRET}\r\n")), "{got}");
        assert!(got.contains(&format!("basic {}\r\n", swapped.to_lowercase())), "{got}");
    }
}

#[test]
fn the_placeholder_of_another_session_goes_nowhere() {
    let (world, received) = World::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("me:{FOREIGN}"));
    for said in [
        world.head("GET /", &format!("X-Key: {FOREIGN}\r\n")),
        world.head("GET /", &format!("Authorization: Basic {basic}\r\n")),
        world.head(&format!("GET /?key={FOREIGN}"), ""),
        format!("{}{FOREIGN}", world.head("POST /", "Content-Length: 48\r\n")),
        format!("{}30\r\n{FOREIGN}\r\n0\r\n\r\n", world.head("POST /", "Transfer-Encoding: chunked\r\n")),
    ] {
        let answer = world.ask(&said);
        assert!(
            answer.starts_with("HTTP/1.1 403 ") && answer.contains("does not belong to this session"),
            "{answer}"
        );
    }
    assert!(received.try_iter().all(|got| !got.contains("handfast_secret_")));
    assert_eq!(world.refusals().len(), 5);
}

#[test]
fn a_placeholder_as_the_method_goes_nowhere() {
    let (world, received) = World::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    for method in [PLACEHOLDER, FOREIGN, &format!("X{PLACEHOLDER}")] {
        let answer = world.ask(&world.head(&format!("{method} /"), ""));
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("is in the method"), "{answer}");
    }
    let plain = world.ask(&world.head("BREW /", ""));
    assert!(plain.starts_with("HTTP/1.1 200 "), "{plain}");
    assert_eq!(received.try_iter().filter(|got| got.contains("handfast_secret_")).count(), 0);
    assert_eq!(world.refusals().len(), 3);
}

#[test]
fn each_half_of_an_opened_connection_ends_by_itself() {
    let (world, received) = World::answering("HTTP/1.0 200 OK\r\n\r\nuntil the end");
    let mut stream = world.tunnel();
    stream.write_all(world.head("GET /", "").as_bytes()).unwrap();
    // The client closes its half, in TLS and in TCP.
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    stream.sock.shutdown(Shutdown::Write).unwrap();
    let said = rest(&mut stream);
    assert!(said.contains("until the end") && said.ends_with("0\r\n\r\n"), "{said}");
    assert!(received.recv().unwrap().starts_with("GET / "));
}
