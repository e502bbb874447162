//! Local web servers, also with certificates of an authority that only a test knows. Their answers
//! are bytes, so that they can be as wrong as those of real servers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// An authority that signs server certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// Makes an authority with a new key.
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// Returns the authority's own certificate, for clients that shall trust it.
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }

    /// Writes the authority's certificate to a file, for a program that reads it from
    /// `SSL_CERT_FILE`.
    pub fn write(&self, path: &Path) {
        std::fs::write(path, self.certificate.pem()).expect("a certificate written by the test");
    }

    /// Returns the TLS configuration of a server for this name.
    pub fn server(&self, name: &str) -> ServerConfig {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("versions of TLS").with_no_client_auth();
        config
            .with_single_cert(vec![certificate.der().clone()], key.into())
            .expect("a certificate with its key")
    }
}

/// A received request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Method of the request.
    pub method: String,
    /// Path with its query.
    pub path: String,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body of the request.
    pub body: Vec<u8>,
}

impl Request {
    /// Returns the value of a header, or an empty string if the header is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(named, _)| named == name).map_or("", |(_, value)| value)
    }
}

/// An answer: its bytes, and what the server does after them.
#[derive(Debug, Clone)]
pub struct Reply {
    bytes: Vec<u8>,
    then: Then,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The next request is read.
    Keep,
    /// The connection is closed.
    Close,
    /// The connection stays open, without further data, until the client closes it.
    Hang,
    /// A piece of the body repeats until the client closes the connection.
    Repeat,
}

impl Reply {
    /// Builds a whole answer with these headers.
    pub fn of(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut bytes = format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n", body.len()).into_bytes();
        for (name, value) in headers {
            bytes.extend(format!("{name}: {value}\r\n").bytes());
        }
        bytes.extend(b"\r\n");
        bytes.extend(body);
        Self { bytes, then: Then::Keep }
    }

    /// Builds an answer with status 200 and a JSON body.
    pub fn json(body: &str) -> Self {
        let mut reply = Self::of(200, &[("content-type", "application/json")], body);
        let usual = String::from_utf8_lossy(&reply.bytes).replacen("200 Said", "200 OK", 1);
        reply.bytes = usual.into_bytes();
        reply
    }

    /// Builds an answer with this status and without a body.
    pub fn status(status: u16) -> Self {
        Self::of(status, &[], "")
    }

    /// Builds a redirection.
    pub fn redirect(status: u16, to: &str) -> Self {
        Self::of(status, &[("location", to)], "")
    }

    /// Sends exactly these bytes, then closes the connection.
    pub fn raw(bytes: impl AsRef<[u8]>) -> Self {
        Self { bytes: bytes.as_ref().to_vec(), then: Then::Close }
    }

    /// Sends exactly these bytes, then nothing more.
    pub fn hanging(bytes: impl AsRef<[u8]>) -> Self {
        Self { bytes: bytes.as_ref().to_vec(), then: Then::Hang }
    }

    /// Sends a head with these headers, then a body without end.
    pub fn endless(headers: &str) -> Self {
        let head = format!("HTTP/1.1 200 OK\r\n{headers}\r\n");
        Self { bytes: head.into_bytes(), then: Then::Repeat }
    }

    /// Returns the same answer, after which the connection is closed.
    #[must_use]
    pub fn closing(mut self) -> Self {
        self.then = Then::Close;
        self
    }
}

/// A server on a port of its own, which runs until the test process ends.
pub struct Server {
    /// Address that the server listens on.
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
}

type Answering = dyn Fn(&Request) -> Reply + Send + Sync;

impl Server {
    /// Starts a server without encryption.
    pub fn http(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(None, Arc::new(answer))
    }

    /// Starts a server with a certificate for this name.
    pub fn https(
        authority: &Authority,
        name: &str,
        answer: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start(Some(Arc::new(authority.server(name))), Arc::new(answer))
    }

    /// Returns the requests so far.
    pub fn seen(&self) -> Vec<Request> {
        self.seen.lock().clone()
    }

    /// Returns a URL of the server with the host `localhost`.
    pub fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.address.port())
    }

    fn start(tls: Option<Arc<ServerConfig>>, answer: Arc<Answering>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let seen: Arc<Mutex<Vec<Request>>> = Arc::default();
        let all = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (tls, answer, seen) = (tls.clone(), answer.clone(), all.clone());
                std::thread::spawn(move || {
                    // A client that closes the connection ends the thread.
                    let _ = match tls {
                        None => serve(stream, answer.as_ref(), &seen),
                        Some(config) => ServerConnection::new(config)
                            .map_err(io::Error::other)
                            .and_then(|tls| serve(StreamOwned::new(tls, stream), answer.as_ref(), &seen)),
                    };
                });
            }
        });
        Self { address, seen }
    }
}

/// A connection, with or without encryption.
trait Wire: Read + Write {
    fn tcp(&self) -> &TcpStream;
}

impl Wire for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Wire for StreamOwned<ServerConnection, TcpStream> {
    fn tcp(&self) -> &TcpStream {
        &self.sock
    }
}

fn serve(wire: impl Wire, answer: &Answering, seen: &Mutex<Vec<Request>>) -> io::Result<()> {
    wire.tcp().set_nodelay(true)?;
    let mut wire = BufReader::new(wire);
    while let Some(request) = read(&mut wire)? {
        seen.lock().push(request.clone());
        let reply = answer(&request);
        let out = wire.get_mut();
        out.write_all(&reply.bytes)?;
        out.flush()?;
        match reply.then {
            Then::Keep => {}
            Then::Close => return out.tcp().shutdown(std::net::Shutdown::Both),
            Then::Hang => return io::copy(&mut wire, &mut io::sink()).map(drop),
            Then::Repeat => loop {
                wire.get_mut().write_all(&[b'x'; 16 * 1024])?;
            },
        }
    }
    Ok(())
}

fn read(wire: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if wire.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        wire.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request { method, path, headers, body: Vec::new() };
    let length = request.header("content-length").parse().unwrap_or(0);
    wire.take(length).read_to_end(&mut request.body)?;
    Ok(Some(request))
}
