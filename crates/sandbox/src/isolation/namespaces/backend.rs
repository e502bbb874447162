//! The backend of full cells.

use super::launch::{launch_now, waiting};
use super::prewarm;
use crate::egress_listener::{self, EgressListeners};
use crate::error::SandboxError;
use crate::isolation::backend::{Abilities, Backend, CellHost, StartRequest};
use crate::isolation::cell::Cell;
use crate::network::SessionNetwork;
use crate::spec::CellSpec;

/// The backend of full cells.
#[derive(Debug)]
pub(crate) struct Namespaces;

impl Backend for Namespaces {
    fn name(&self) -> &'static str {
        "namespaces"
    }

    fn abilities(&self) -> Abilities {
        Abilities { overlay: true, network: true, full: true }
    }

    /// A spawner without a ready cell is no failure, for any reason: the cell is then made here.
    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn Cell>, SandboxError> {
        let spawner = waiting(request.host);
        let ready = spawner.and_then(|spawner| spawner.take_ready(request.spec.overlay.as_ref()));
        let launched = ready.map(|ready| prewarm::launch(ready, request)).transpose()?.flatten();
        let cell = launched.map_or_else(|| launch_now(request), Ok)?;
        Ok(Box::new(cell))
    }

    fn make_ready(&self, spec: &CellSpec, host: &CellHost) -> Result<bool, SandboxError> {
        prewarm::make_ready(spec, host)
    }

    fn make_network(&self) -> Result<SessionNetwork, SandboxError> {
        SessionNetwork::make()
    }

    fn open_listeners(
        &self,
        host: &CellHost,
        ports: &[u16],
    ) -> Result<Option<EgressListeners>, SandboxError> {
        host.shared_network().map(|network| egress_listener::open(network, ports)).transpose()
    }
}
