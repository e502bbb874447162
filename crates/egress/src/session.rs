//! What the connections of one network have in common.

use std::error::Error as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fetch::address::Host;
use fetch::dial::{DialError, dial};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::answer::Refusal;
use crate::names::Addresses;
use crate::{Gate, Met, Verdict, Way};

/// How long a connection may take to be made.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many further connections to servers the requests of one network may have at a time.
const FURTHER: usize = 64;

/// What is touched of a connection by TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    Nothing,
    Requests,
}

/// The gate of a network, and the addresses that its names have.
pub(crate) struct Session<G> {
    pub(crate) gate: Arc<G>,
    pub(crate) addresses: Addresses,
    /// Connections to servers beside the one that each connection of a program may have.
    pub(crate) further: Arc<Semaphore>,
}

impl<G: Gate> Session<G> {
    pub(crate) fn of(gate: Arc<G>) -> Self {
        Self { gate, addresses: Addresses::default(), further: Arc::new(Semaphore::new(FURTHER)) }
    }

    /// Asks whether the host may be reached, and whether the connection is to be opened.
    ///
    /// # Errors
    /// Why not. It is written down then.
    pub(crate) async fn judge(&self, host: &Host, port: u16, way: Way) -> Result<Touch, Refusal> {
        match self.gate.judge(host, port) {
            Verdict::Through => Ok(Touch::Nothing),
            Verdict::Opened => Ok(Touch::Requests),
            Verdict::Refused(reason) => Err(self.refuse(host.to_string(), port, way, reason).await),
        }
    }

    /// A connection to the host, which was judged.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn open(&self, host: &Host, port: u16, way: Way) -> Result<TcpStream, Refusal> {
        let met = Met { host: host.to_string(), port, way, refused: None };
        let permission = self.gate.permission(host, port);
        let deadline = Instant::now() + PATIENCE;
        let (noted, dialled) =
            tokio::join!(self.gate.note(met), dial(self.gate.resolver(), host, port, &permission, deadline));
        if let Err(error) = noted {
            let reason = format!("the connection could not be written down, so it was not used: {error}");
            return Err(Refusal::unreachable(reason));
        }
        match dialled {
            Ok(stream) => Ok(stream),
            Err(error @ DialError::NotPublic { address, .. }) => {
                let reason = format!("{error}; list {address} itself if it is meant");
                Err(self.refuse(host.to_string(), port, way, reason).await)
            }
            Err(error) => {
                let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                Err(Refusal::unreachable(format!("{error}{cause}")))
            }
        }
    }

    /// Writes down what was refused. That it cannot be written changes nothing about it.
    pub(crate) async fn refuse(&self, host: String, port: u16, way: Way, reason: String) -> Refusal {
        let _unwritten = self.gate.note(Met { host, port, way, refused: Some(reason.clone()) }).await;
        Refusal::denied(reason)
    }
}
