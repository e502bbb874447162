//! Shared state of the connections of one network.

use std::error::Error as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fetch::address::Host;
use fetch::dial::{DialError, dial};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::dns::Addresses;
use crate::refusal::Refusal;
use crate::slots::Slot;
use crate::{Gate, GateEvent, Verdict, Way};

/// Maximum time to establish a connection.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of further server connections for the requests of one network.
const FURTHER: usize = 64;

/// Maximum number of long beginnings of bodies that are in memory.
const BEGINNINGS: usize = 16;

/// Part of a TLS connection that the proxy opens: nothing, or its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsInspection {
    Nothing,
    Requests,
}

/// The gate of a network, with the addresses of its names.
pub(crate) struct Session<G> {
    pub(crate) gate: Arc<G>,
    pub(crate) addresses: Addresses,
    /// Permits for server connections besides the one that each program connection may have.
    pub(crate) further: Arc<Semaphore>,
    /// Permits for long beginnings of bodies that are judged.
    pub(crate) beginnings: Arc<Semaphore>,
}

impl<G: Gate> Session<G> {
    pub(crate) fn of(gate: Arc<G>) -> Self {
        let (further, beginnings) = (Arc::new(Semaphore::new(FURTHER)), Arc::new(Semaphore::new(BEGINNINGS)));
        Self { gate, addresses: Addresses::default(), further, beginnings }
    }

    /// Asks the gate whether the host may be reached, and whether the connection is to be opened.
    ///
    /// # Errors
    /// The refusal, which has been recorded.
    pub(crate) async fn judge(
        &self,
        host: &Host,
        port: u16,
        way: Way,
        place: &Arc<Slot>,
    ) -> Result<TlsInspection, Refusal> {
        // A connection that is held counts as active, so that it does not end in favour of another.
        let _working = place.work();
        match self.gate.judge(host, port, place.peer).await {
            Verdict::Through => Ok(TlsInspection::Nothing),
            Verdict::Opened => Ok(TlsInspection::Requests),
            Verdict::Refused(reason) => Err(self.refuse(host.to_string(), port, way, reason).await),
        }
    }

    /// Connects to the host, which was judged before.
    ///
    /// # Errors
    /// The reason why there is no connection.
    pub(crate) async fn open(&self, host: &Host, port: u16, way: Way) -> Result<TcpStream, Refusal> {
        let met = GateEvent { host: host.to_string(), port, way, refused: None };
        let permission = self.gate.permission(host, port);
        let deadline = Instant::now() + TIMEOUT;
        let (noted, dialled) =
            tokio::join!(self.gate.note(met), dial(self.gate.resolver(), host, port, &permission, deadline));
        if let Err(error) = noted {
            let reason = format!("the connection could not be recorded, so it was not used: {error}");
            return Err(Refusal::unreachable(reason));
        }
        match dialled {
            Ok(stream) => Ok(stream),
            Err(error @ DialError::NotPublic { address, .. }) => {
                let reason = format!("{error}; to allow it, list {address} itself");
                Err(self.refuse(host.to_string(), port, way, reason).await)
            }
            Err(error) => {
                let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                Err(Refusal::unreachable(format!("{error}{cause}")))
            }
        }
    }

    /// Records a refusal. A failure to record it does not change the refusal.
    pub(crate) async fn refuse(&self, host: String, port: u16, way: Way, reason: String) -> Refusal {
        let _unwritten = self.gate.note(GateEvent { host, port, way, refused: Some(reason.clone()) }).await;
        Refusal::denied(reason)
    }
}
