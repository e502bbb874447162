//! Tests of slow connections, on a clock that advances while all tasks are idle.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use fetch::dial::{Permission, Resolve};
use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::*;
use crate::{GateEvent, Peer, Verdict};

struct AllowAll {
    refused: Mutex<Vec<String>>,
}

struct LocalResolver;

impl Resolve for LocalResolver {
    async fn addresses(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }
}

impl Gate for AllowAll {
    type Resolver = LocalResolver;

    async fn judge(&self, _host: &Host, _port: u16, _peer: Peer) -> Verdict {
        Verdict::Through
    }

    fn knows(&self, _host: &Host) -> bool {
        true
    }

    fn permission(&self, _host: &Host, _port: u16) -> Permission {
        Permission::to(|_| true)
    }

    fn resolver(&self) -> &LocalResolver {
        &LocalResolver
    }

    async fn note(&self, met: GateEvent) -> io::Result<()> {
        self.refused.lock().extend(met.refused);
        Ok(())
    }
}

/// Runs `work` with a proxy that takes `most` connections at a time, on the paused clock.
fn beside<T, F: Future<Output = T>>(most: usize, work: impl FnOnce(Arc<AllowAll>, SocketAddr) -> F) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let listen = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (proxy, everywhere) = (listen(), vec![listen()]);
        let at = proxy.local_addr().unwrap();
        let names = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let open = Open::of(Listeners { proxy, everywhere, names }).unwrap();
        let gate = Arc::new(AllowAll { refused: Mutex::default() });
        let serving = tokio::spawn(open.run_within(gate.clone(), most));
        let done = work(gate, at).await;
        serving.abort();
        done
    })
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    // A connection may be reset after its response.
    let _reset = stream.read_to_end(&mut all).await;
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn who_sends_a_byte_now_and_then_has_ten_seconds_for_the_head_of_a_request() {
    beside(8, |_, at| async move {
        let began = Instant::now();
        let mut stream = TcpStream::connect(at).await.unwrap();
        let (mut reading, mut writing) = stream.split();
        let slowly = async {
            for byte in std::iter::repeat(b"GET http://a.test/ HTTP/1.1\r\nX: ").flatten() {
                sleep(Duration::from_secs(3)).await;
                if writing.write_all(&[*byte]).await.is_err() {
                    return;
                }
            }
        };
        let mut answer = Vec::new();
        tokio::select! {
            () = slowly => {}
            _ended = reading.read_to_end(&mut answer) => {}
        }
        assert!(String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 408 "), "{answer:?}");
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    });
}

#[test]
fn who_says_nothing_is_let_go_and_so_is_a_hello_that_does_not_end() {
    beside(8, |gate, at| async move {
        let began = Instant::now();
        let mut silent = TcpStream::connect(at).await.unwrap();
        assert_eq!(rest(&mut silent).await, "");
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        let mut half = TcpStream::connect(at).await.unwrap();
        let connect = format!("CONNECT a.test:{port} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        half.write_all(connect.as_bytes()).await.unwrap();
        // The beginning of a TLS record of 512 bytes.
        half.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
        let answer = rest(&mut half).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
        assert!(gate.refused.lock()[0].contains("did not arrive in time"));
        assert!(began.elapsed() < Duration::from_mins(1));
    });
}

#[test]
fn a_body_that_stops_coming_ends_its_connection() {
    beside(8, |_, at| async move {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        let mut stream = TcpStream::connect(at).await.unwrap();
        let head = format!(
            "POST http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\nContent-Length: 100\r\n\r\nsome"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let (mut taken, _) = server.accept().await.unwrap();
        assert!(rest(&mut stream).await.starts_with("HTTP/1.1 408 "));
        // The server must not take the part for the whole: its connection ends before the body does.
        assert!(rest(&mut taken).await.ends_with("some"));
    });
}

#[test]
fn a_tunnel_in_which_nothing_moves_ends() {
    beside(8, |_, at| async move {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        let mut stream = TcpStream::connect(at).await.unwrap();
        let connect = format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
        stream.write_all(connect.as_bytes()).await.unwrap();
        stream.write_all(&hello()).await.unwrap();
        let (mut taken, _) = server.accept().await.unwrap();
        taken.read_exact(&mut [0]).await.unwrap();
        let began = Instant::now();
        assert!(rest(&mut stream).await.starts_with("HTTP/1.1 200 "));
        assert!((Duration::from_mins(9)..Duration::from_mins(21)).contains(&began.elapsed()));
    });
}

/// Builds a TLS hello without a host name.
fn hello() -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = rustls::pki_types::ServerName::from(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// Sends a request that is refused at once.
async fn ask(mut stream: TcpStream) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await.unwrap();
    rest(&mut stream).await
}

#[test]
fn hundreds_of_half_open_connections_keep_out_nobody_and_the_oldest_of_them_go() {
    beside(20, |_, at| async move {
        let began = Instant::now();
        let mut half_open = Vec::new();
        for _ in 0..100 {
            let mut stream = TcpStream::connect(at).await.unwrap();
            // A request that has begun and does not continue.
            stream.write_all(b"G").await.unwrap();
            half_open.push(stream);
        }
        let answer = ask(TcpStream::connect(at).await.unwrap()).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("full URL"), "{answer}");
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        // The first connections were closed without a response; the last ones are still open.
        assert_eq!(rest(&mut half_open[0]).await, "");
        let mut last = half_open.pop().unwrap();
        last.write_all(b"ET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await.unwrap();
        assert!(rest(&mut last).await.starts_with("HTTP/1.1 400 "));
    });
}

#[test]
fn what_works_is_not_let_go_for_one_more_until_nothing_has_moved_for_a_minute() {
    beside(2, |_, at| async move {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        let mut tunnels = Vec::new();
        for _ in 0..2 {
            let mut stream = TcpStream::connect(at).await.unwrap();
            let connect = format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
            stream.write_all(connect.as_bytes()).await.unwrap();
            stream.write_all(&hello()).await.unwrap();
            let (mut taken, _) = server.accept().await.unwrap();
            taken.read_exact(&mut [0]).await.unwrap();
            tunnels.push((stream, taken));
        }
        let began = Instant::now();
        let third = tokio::spawn(ask(TcpStream::connect(at).await.unwrap()));
        sleep(Duration::from_secs(30)).await;
        assert!(!third.is_finished());
        tunnels[0].1.write_all(b"it moves").await.unwrap();
        assert!(third.await.unwrap().starts_with("HTTP/1.1 400 "));
        assert!((Duration::from_secs(55)..Duration::from_secs(80)).contains(&began.elapsed()));
        // The tunnel with traffic continues.
        tunnels[0].1.write_all(b" still").await.unwrap();
        let mut said = vec![0; "HTTP/1.1 200 Connection established\r\n\r\nit moves still".len()];
        tunnels[0].0.read_exact(&mut said).await.unwrap();
        assert!(said.ends_with(b"it moves still"));
        let mut rest = Vec::new();
        let _reset = tunnels[1].0.read_to_end(&mut rest).await;
        assert_eq!(rest, b"HTTP/1.1 200 Connection established\r\n\r\n");
    });
}
