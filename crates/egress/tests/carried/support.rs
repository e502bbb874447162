//! A proxy on the loopback device, servers behind it, and a gate that records its decisions.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use egress::{Carrier, Gate, GateEvent, Listeners, Peer, ServedNetwork, Verdict};
use fetch::address::Host;
use fetch::dial::{Permission, Resolve};
use parking_lot::Mutex;

/// Gate that allows hosts by name, all of which resolve to `127.0.0.1`.
pub(crate) struct Allowing {
    pub(crate) hosts: Vec<&'static str>,
    pub(crate) private: bool,
    pub(crate) met: Mutex<Vec<GateEvent>>,
    pub(crate) resolver: Here,
}

pub(crate) struct Here {
    pub(crate) asked: Mutex<Vec<String>>,
}

impl Resolve for Here {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().push(name.to_owned());
        Ok(vec![IpAddr::from([127, 0, 0, 1])])
    }
}

impl Gate for Allowing {
    type Resolver = Here;

    async fn judge(&self, host: &Host, _port: u16, _peer: Peer) -> Verdict {
        if self.knows(host) {
            return Verdict::Through;
        }
        Verdict::Refused(format!("{host} is not listed"))
    }

    fn knows(&self, host: &Host) -> bool {
        self.hosts.contains(&host.to_string().as_str())
    }

    fn permission(&self, _host: &Host, _port: u16) -> Permission {
        let private = self.private;
        Permission::to(move |address| private && address.is_loopback())
    }

    fn resolver(&self) -> &Here {
        &self.resolver
    }

    async fn note(&self, met: GateEvent) -> io::Result<()> {
        self.met.lock().push(met);
        Ok(())
    }
}

/// A proxy with its listening addresses.
pub(crate) struct World {
    pub(crate) gate: Arc<Allowing>,
    pub(crate) proxy: SocketAddr,
    pub(crate) everywhere: SocketAddr,
    pub(crate) names: SocketAddr,
    _serving: ServedNetwork,
    _carrier: Carrier,
}

impl World {
    pub(crate) fn allowing(hosts: &[&'static str]) -> Self {
        Self::of(hosts, true)
    }

    pub(crate) fn of(hosts: &[&'static str], private: bool) -> Self {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (proxy, everywhere) = (listen(), listen());
        let names = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = (proxy.local_addr().unwrap(), everywhere.local_addr().unwrap(), names.local_addr().unwrap());
        let resolver = Here { asked: Mutex::default() };
        let gate = Arc::new(Allowing { hosts: hosts.to_vec(), private, met: Mutex::default(), resolver });
        let carrier = Carrier::start().unwrap();
        let listeners = Listeners { proxy, everywhere: vec![everywhere], names };
        let serving = carrier.serve(listeners, gate.clone()).unwrap();
        Self { gate, proxy: at.0, everywhere: at.1, names: at.2, _serving: serving, _carrier: carrier }
    }

    /// Sends `said` to the proxy, closes that half, and returns the whole response.
    pub(crate) fn ask(&self, said: &str) -> String {
        ask(self.proxy, said.as_bytes())
    }

    /// Returns the reasons of the refusals, in order.
    pub(crate) fn refusals(&self) -> Vec<String> {
        self.gate.met.lock().iter().filter_map(|met| met.refused.clone()).collect()
    }

    /// Returns the allowed hosts, in order.
    pub(crate) fn allowed(&self) -> Vec<String> {
        let met = self.gate.met.lock();
        met.iter().filter(|met| met.refused.is_none()).map(|met| met.host.clone()).collect()
    }
}

pub(crate) fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

pub(crate) fn ask(to: SocketAddr, said: &[u8]) -> String {
    let mut stream = connect(to);
    stream.write_all(said).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    // A connection may be reset after its response.
    let _reset = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Starts a server that handles each connection on its own thread.
pub(crate) fn server(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let handle = handle.clone();
            thread::spawn(move || handle(stream));
        }
    });
    port
}

/// Starts a server that records its input and answers every head with "hello".
pub(crate) fn recording() -> (u16, Arc<Mutex<String>>) {
    let kept = Arc::new(Mutex::new(String::new()));
    let keeping = kept.clone();
    let port = server(move |mut stream| {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            let ends = text.ends_with("\r\n\r\n") || text.ends_with("body");
            keeping.lock().push_str(&text);
            if ends && stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").is_err() {
                return;
            }
        }
    });
    (port, kept)
}
