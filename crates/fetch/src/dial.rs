//! Connections to hosts: a name is resolved once, every resulting address is checked, and only
//! these addresses are dialled.
//!
//! A name that resolves to both public and private addresses is refused as a whole. Otherwise the
//! owner of the name would decide which of them is reached. A second look-up for the connection
//! would permit DNS rebinding.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};

use crate::address::{Host, is_public};

/// Delay before the next address is tried in parallel (RFC 8305, section 5).
const NEXT_AFTER: Duration = Duration::from_millis(250);
/// Maximum number of addresses of a name that are dialled. Further addresses are checked and not dialled.
const MAX_DIALLED: usize = 8;

/// Reason why no connection was made.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name does not resolve.
    #[error("the host name {host} cannot be resolved")]
    Unknown {
        /// Name that was looked up.
        host: String,
        /// Error of the resolver.
        #[source]
        source: io::Error,
    },
    /// The host is, or resolves to, an address that the policy denies, or a non-public address
    /// without permission.
    #[error("{host} resolves to {address}, which is not on the public internet, or is denied")]
    NotPublic {
        /// Requested host.
        host: String,
        /// First refused address.
        address: IpAddr,
    },
    /// The host is, or resolves to, a public address, and the request must not be sent there unencrypted.
    #[error("{host} resolves to {address} on the public internet, where http is not private")]
    Readable {
        /// Requested host.
        host: String,
        /// First refused address.
        address: IpAddr,
    },
    /// All connection attempts failed.
    #[error("{host} cannot be reached at {address}")]
    Unreachable {
        /// Requested host.
        host: String,
        /// Address that failed last.
        address: SocketAddr,
        /// Error of the last attempt.
        #[source]
        source: io::Error,
    },
    /// The deadline passed.
    #[error("{host} did not accept the connection in time")]
    Late {
        /// Requested host.
        host: String,
    },
}

/// A resolver of host names.
pub trait Resolve: Send + Sync {
    /// Returns all addresses of the name, in order of preference.
    fn addresses(&self, name: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send;
}

/// The system's resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl Resolve for System {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        // Not every system resolves these names as RFC 6761, section 6.3, wants it.
        if Host::Name(name.to_owned()).is_localhost() {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        // Pass the name without a final dot: a final dot would prevent a match in the hosts file.
        // If the system's search domains change the name, the resulting addresses are checked as
        // well.
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect())
    }
}

/// The addresses that may be dialled. Built by the code that asked the policy, for one host and port.
#[derive(Clone)]
pub struct Permission {
    judge: Arc<dyn Fn(IpAddr) -> Option<bool> + Send + Sync>,
    never_public: bool,
}

impl Permission {
    /// Permits the addresses of the public internet.
    pub fn public_only() -> Self {
        Self::judged(|_| None)
    }

    /// Permits the public internet and the addresses for which `permitted` returns true.
    /// `permitted` receives addresses in canonical form: an IPv4-mapped IPv6 address arrives as
    /// IPv4.
    pub fn to(permitted: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self::judged(move |address| permitted(address).then_some(true))
    }

    /// Permits addresses as `judge` decides. If `judge` returns `None`, public addresses are
    /// permitted and others are not.
    pub fn judged(judge: impl Fn(IpAddr) -> Option<bool> + Send + Sync + 'static) -> Self {
        Self { judge: Arc::new(judge), never_public: false }
    }

    /// Removes the addresses of the public internet, for data that must not be readable in transit.
    #[must_use]
    pub fn never_public(self) -> Self {
        Self { never_public: true, ..self }
    }

    /// Returns true if the address may be dialled.
    pub fn covers(&self, address: IpAddr) -> bool {
        let is_public = is_public(address.to_canonical());
        (self.judge)(address.to_canonical()).unwrap_or(is_public) && !(self.never_public && is_public)
    }

    fn refusal(&self, host: &Host, address: IpAddr) -> DialError {
        let host = host.to_string();
        if self.never_public && is_public(address.to_canonical()) {
            return DialError::Readable { host, address };
        }
        DialError::NotPublic { host, address }
    }
}

/// Returns the addresses of the host, if all of them may be dialled.
///
/// # Errors
/// [`DialError::Unknown`], [`DialError::NotPublic`], [`DialError::Readable`], [`DialError::Late`].
pub async fn addresses(
    resolver: &impl Resolve,
    host: &Host,
    permission: &Permission,
    deadline: Instant,
) -> Result<Vec<IpAddr>, DialError> {
    let found = match host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => {
            let found = timeout_at(deadline.into(), resolver.addresses(name)).await;
            let unknown = |source| DialError::Unknown { host: name.clone(), source };
            let found = found.map_err(|_| DialError::Late { host: name.clone() })?.map_err(unknown)?;
            if found.is_empty() {
                return Err(unknown(io::Error::from(io::ErrorKind::NotFound)));
            }
            found
        }
    };
    match found.iter().find(|address| !permission.covers(**address)) {
        Some(address) => Err(permission.refusal(host, *address)),
        None => Ok(found),
    }
}

/// Connects to the host, with Nagle's algorithm disabled. Needs a tokio runtime with time and I/O.
///
/// Addresses are tried in the resolver's order, alternating between the two families. The next
/// attempt starts as soon as the last one fails, or after a quarter of a second. The first
/// connection wins.
///
/// # Errors
/// [`DialError`].
pub async fn dial(
    resolver: &impl Resolve,
    host: &Host,
    port: u16,
    permission: &Permission,
    deadline: Instant,
) -> Result<TcpStream, DialError> {
    let found = addresses(resolver, host, permission, deadline).await?;
    let mut waiting = by_turns(found).into_iter().map(|address| SocketAddr::new(address, port));
    let late = || DialError::Late { host: host.to_string() };
    let mut tried = JoinSet::new();
    let mut failed = None;
    let mut next_at = Instant::now();
    loop {
        if Instant::now() >= next_at || tried.is_empty() {
            match waiting.next() {
                Some(address) => {
                    tried.spawn(async move { (address, TcpStream::connect(address).await) });
                    next_at = Instant::now() + NEXT_AFTER;
                }
                None => next_at = deadline,
            }
        }
        tokio::select! {
            ended = tried.join_next() => match ended {
                Some(Ok((_, Ok(stream)))) if stream.set_nodelay(true).is_ok() => return Ok(stream),
                Some(Ok((address, Ok(_)))) => failed = Some((address, io::Error::from(io::ErrorKind::NotConnected))),
                Some(Ok((address, Err(error)))) => failed = Some((address, error)),
                Some(Err(error)) => return Err(unreachable(host, port, None, io::Error::other(error))),
                None => {
                    let (address, error) = failed.unzip();
                    let error = error.unwrap_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable));
                    return Err(unreachable(host, port, address, error));
                }
            },
            () = sleep_until(next_at.min(deadline).into()) => {
                if Instant::now() >= deadline {
                    return Err(late());
                }
            }
        }
    }
}

fn unreachable(host: &Host, port: u16, address: Option<SocketAddr>, source: io::Error) -> DialError {
    let nowhere = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), port);
    DialError::Unreachable { host: host.to_string(), address: address.unwrap_or(nowhere), source }
}

/// Alternates the address families, starting with that of the first address, so that an unreachable
/// family causes little delay.
fn by_turns(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let first_is_v6 = addresses.first().is_some_and(IpAddr::is_ipv6);
    let (one, other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let mut others = other.into_iter();
    let mut ordered = Vec::new();
    for address in one {
        ordered.push(address);
        ordered.extend(others.next());
    }
    ordered.extend(others);
    ordered.truncate(MAX_DIALLED);
    ordered
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::net::TcpListener;

    use super::*;

    /// A resolver that returns scripted answers in order and counts the questions.
    struct Scripted {
        answers: Vec<Vec<&'static str>>,
        asked: AtomicUsize,
    }

    impl Scripted {
        fn of(answers: &[&[&'static str]]) -> Self {
            Self {
                answers: answers.iter().map(|answer| answer.to_vec()).collect(),
                asked: AtomicUsize::new(0),
            }
        }
    }

    impl Resolve for Scripted {
        async fn addresses(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
            let time = self.asked.fetch_add(1, Ordering::SeqCst).min(self.answers.len() - 1);
            Ok(self.answers[time].iter().map(|text| text.parse().unwrap()).collect())
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    fn name(text: &str) -> Host {
        Host::parse(text).unwrap()
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    #[test]
    fn a_name_is_looked_up_once_and_the_checked_address_is_dialled() {
        run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            // A DNS rebinding attacker would redirect the connection with the second answer.
            let resolver = Scripted::of(&[&["127.0.0.1"], &["127.0.0.2"]]);
            let permission = Permission::to(|address| address.is_loopback());
            let stream = dial(&resolver, &name("a.example"), port, &permission, soon()).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap().ip().to_string(), "127.0.0.1");
            assert_eq!(resolver.asked.load(Ordering::SeqCst), 1);
        });
    }

    #[test]
    fn a_name_that_leads_to_a_private_address_is_refused_also_where_a_public_one_stands_beside_it() {
        run(async {
            for answers in [
                &["127.0.0.1"][..],
                &["8.8.8.8", "10.0.0.1"],
                &["2606:4700::1111", "::ffff:169.254.169.254"],
                &["64:ff9b::7f00:1"],
                &["fd00::1", "8.8.8.8"],
            ] {
                let resolver = Scripted::of(&[answers]);
                let permission = Permission::public_only();
                let found = addresses(&resolver, &name("a.example"), &permission, soon()).await;
                assert!(matches!(found, Err(DialError::NotPublic { .. })), "{answers:?}: {found:?}");
            }
            let resolver = Scripted::of(&[&["8.8.8.8", "2606:4700::1111"]]);
            let found = addresses(&resolver, &name("a.example"), &Permission::public_only(), soon()).await;
            assert_eq!(found.unwrap().len(), 2);
        });
    }

    #[test]
    fn an_address_that_is_not_public_needs_a_permission_of_its_own() {
        run(async {
            let host = name("[::ffff:10.1.2.3]");
            let only = Permission::to(|address| address == IpAddr::from([10, 1, 2, 3]));
            assert!(addresses(&System, &host, &only, soon()).await.is_ok());
            assert!(addresses(&System, &name("10.1.2.4"), &only, soon()).await.is_err());
        });
    }

    #[test]
    fn what_nobody_may_read_on_the_way_goes_to_no_public_address() {
        run(async {
            for (answers, goes) in [
                (&["8.8.8.8"][..], false),
                (&["::ffff:8.8.8.8"], false),
                (&["127.0.0.1", "2606:4700::1111"], false),
                (&["127.0.0.1"], true),
                (&["10.0.0.1"], true),
            ] {
                let resolver = Scripted::of(&[answers]);
                let permission = Permission::to(|_| true).never_public();
                let found = addresses(&resolver, &name("a.example"), &permission, soon()).await;
                assert_eq!(found.is_ok(), goes, "{answers:?}");
                assert!(goes || matches!(found, Err(DialError::Readable { .. })), "{answers:?}: {found:?}");
            }
            let unnamed = Permission::public_only().never_public();
            let found = addresses(&System, &name("10.0.0.1"), &unnamed, soon()).await;
            assert!(matches!(found, Err(DialError::NotPublic { .. })), "{found:?}");
        });
    }

    #[test]
    fn an_address_that_does_not_answer_gives_way_to_the_next() {
        run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let resolver = Scripted::of(&[&["127.0.0.3", "127.0.0.2", "127.0.0.1"]]);
            let permission = Permission::to(|address| address.is_loopback());
            let stream = dial(&resolver, &name("a.example"), port, &permission, soon()).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap().ip().to_string(), "127.0.0.1");
            drop(listener);
            let error = dial(&resolver, &name("a.example"), port, &permission, soon()).await.unwrap_err();
            assert!(matches!(error, DialError::Unreachable { .. }), "{error:?}");
        });
    }

    #[test]
    fn a_resolver_that_does_not_answer_ends_with_the_deadline() {
        struct Silent;
        impl Resolve for Silent {
            async fn addresses(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
                std::future::pending().await
            }
        }
        let found = run(dial(&Silent, &name("a.example"), 1, &Permission::public_only(), Instant::now()));
        assert!(matches!(found, Err(DialError::Late { .. })), "{found:?}");
    }

    #[test]
    fn families_take_turns() {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        assert_eq!(
            by_turns(parse(&["::1", "::2", "::3", "1.1.1.1"])),
            parse(&["::1", "1.1.1.1", "::2", "::3"])
        );
        assert_eq!(by_turns(vec![IpAddr::from([1, 1, 1, 1]); 20]).len(), MAX_DIALLED);
    }
}
