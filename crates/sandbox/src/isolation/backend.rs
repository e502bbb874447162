//! The seam between cells and the mechanisms that isolate them, and the live parts of a runtime
//! that cells stand on.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::cell::Cell;
use crate::cell_processes::CellProcesses;
use crate::egress_listener::EgressListeners;
use crate::error::SandboxError;
use crate::hint::not_offered;
use crate::home::KeptHome;
use crate::late_mask::LateMasks;
use crate::limits::ProcessTotal;
use crate::network::{Network, SessionNetwork};
use crate::spawner::Spawner;
use crate::spec::{CellSpec, Command};
use crate::streams::Streams;

/// A mechanism that isolates commands.
///
/// INVARIANT: a backend either gives what a [`CellSpec`] asks for and its abilities name, or fails
/// before the command starts. What it cannot give otherwise, the cell's enforcement names.
pub(crate) trait Backend: fmt::Debug + Send + Sync {
    /// Returns the value of `isolation` in a profile that chooses this backend alone.
    fn name(&self) -> &'static str;

    /// Returns the abilities of the backend's cells, on a machine that offers the backend.
    fn abilities(&self) -> Abilities;

    /// Starts a cell. A failure inside of the cell is the error of a later
    /// [`next_event`](Cell::next_event).
    ///
    /// The backend connects the host's [`LateMasks`] to the cell with
    /// [`LateMasks::begin`], before the command starts, or reports in the cell's enforcement that
    /// it covers no file late.
    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn Cell>, SandboxError>;

    /// Prepares a waiting cell for a call with the same specification. Returns true if there is
    /// one now.
    fn make_ready(&self, _spec: &CellSpec, _host: &CellHost) -> Result<bool, SandboxError> {
        Ok(false)
    }

    /// Makes a network that the cells of a session share.
    fn make_network(&self) -> Result<SessionNetwork, SandboxError> {
        Err(self.has_no_network())
    }

    /// Opens the listeners of egress at these ports, in the network that the cells of `host` share.
    /// Returns `None` if they share none.
    fn open_listeners(
        &self,
        _host: &CellHost,
        _ports: &[u16],
    ) -> Result<Option<EgressListeners>, SandboxError> {
        Err(self.has_no_network())
    }

    /// Makes the error of a backend whose cells have no network.
    fn has_no_network(&self) -> SandboxError {
        not_offered(&format!("the isolation `{}` has no network", self.name()), OTHER_ISOLATION)
    }
}

/// Advice for a profile whose choice is not enough.
const OTHER_ISOLATION: &str = "set `isolation: auto` or `isolation: namespaces` in the profile";

/// Abilities of a backend's cells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Abilities {
    /// True if a cell can isolate the changes of the workspace in an overlay.
    pub(crate) overlay: bool,
    /// True if cells can share a network with egress.
    pub(crate) network: bool,
    /// True if a cell lacks nothing, as a strict caller demands.
    pub(crate) full: bool,
}

/// Input for the start of a cell.
#[derive(Clone, Copy)]
pub(crate) struct StartRequest<'a> {
    pub(crate) spec: &'a CellSpec,
    pub(crate) host: &'a CellHost,
    pub(crate) command: &'a Command,
    pub(crate) streams: Streams,
}

/// The live parts of a runtime that a cell stands on, next to its plain [`CellSpec`].
///
/// The default is a cell that depends on no other: with a home, a network and a process count of
/// its own.
#[derive(Clone, Debug, Default)]
pub struct CellHost {
    /// Isolation of the cell.
    pub isolation: Isolation,
    /// Storage that keeps the caches of the home from one cell to the next. Without it, or if it
    /// cannot be shown, the caches are in memory like the rest.
    pub kept_home: Option<Arc<KeptHome>>,
    /// Handle that covers further files while the command runs; a separate one for each cell.
    pub late_masks: Option<Arc<LateMasks>>,
    /// Counter of the processes that [`Limits::process_count`](crate::Limits::process_count) counts
    /// together. Without it, each cell counts alone.
    pub process_total: Option<Arc<ProcessTotal>>,
    /// Spawner that provides waiting cells. Without it, or if it has no suitable cell, this process
    /// makes the cell.
    pub spawner: Option<Arc<Spawner>>,
    /// Network of the cell, instead of the spawner's. The spawner's cells wait in its own network,
    /// so none of them is used.
    pub network: Option<SessionNetwork>,
    /// True if connections at the [`EgressListeners`] of the shared network are accepted.
    pub has_egress: bool,
    /// Record of the cells of one call, so that a connection can be traced to the call.
    pub processes: Option<Arc<CellProcesses>>,
}

impl CellHost {
    /// Prepares a waiting cell of the spawner for a call with the same `spec`. Ends the cell that
    /// was prepared before. Returns true if a prepared cell exists now. Blocks for some
    /// milliseconds.
    ///
    /// # Errors
    /// Returns an error if a path of `spec` cannot be shown, or the cell fails.
    pub fn make_ready(&self, spec: &CellSpec) -> Result<bool, SandboxError> {
        self.isolation.preferred.make_ready(spec, self)
    }

    /// Opens the listeners of egress at these ports, in the network that the cells share. Call it
    /// once for each network. Returns `None` if the cells share no network.
    ///
    /// # Errors
    /// Returns an error if a port is taken or this machine refuses.
    pub fn open_listeners(&self, ports: &[u16]) -> Result<Option<EgressListeners>, SandboxError> {
        self.isolation.preferred.open_listeners(self, ports)
    }

    /// Returns the caches of the home, if the command may change them.
    pub(crate) fn shared_home(&self, spec: &CellSpec) -> Option<&Arc<KeptHome>> {
        self.kept_home.as_ref().filter(|_| !spec.reads_only)
    }

    /// Returns the network that the cell shares with others. A spawner's network belongs to all
    /// cells that name the spawner, including those that it did not make.
    pub(crate) fn shared_network(&self) -> Option<&Network> {
        let of_spawner = || self.spawner.as_ref().and_then(|spawner| spawner.network());
        self.network.as_ref().map(SessionNetwork::network).or_else(of_spawner)
    }
}

/// A profile's choice of the isolation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IsolationChoice {
    /// The strongest isolation that the machine offers for each cell.
    #[default]
    Auto,
    /// Namespaces that this program makes.
    Namespaces,
    /// Namespaces that the system's bwrap makes.
    Bubblewrap,
    /// Landlock and a system call filter alone.
    Landlock,
}

impl IsolationChoice {
    /// Returns the choice of this name in a profile.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "auto" => Self::Auto,
            "namespaces" => Self::Namespaces,
            "bubblewrap" => Self::Bubblewrap,
            "landlock" => Self::Landlock,
            _ => return None,
        })
    }
}

/// The isolation that a profile has chosen: a preferred backend, and lesser ones for cells that the
/// preferred one cannot make on this machine.
#[derive(Clone, Debug)]
pub struct Isolation {
    preferred: Arc<dyn Backend>,
    lesser: Vec<Arc<dyn Backend>>,
    /// True if the profile names the backend.
    chosen: bool,
    /// True if this machine offers the preferred backend, once that was tested.
    pub(super) offered: Arc<OnceLock<bool>>,
}

impl Isolation {
    /// Tries the backends in turn for each cell.
    pub(super) fn in_order(preferred: Arc<dyn Backend>, lesser: Vec<Arc<dyn Backend>>) -> Self {
        Self { preferred, lesser, chosen: false, offered: Arc::default() }
    }

    /// Uses one backend for each cell, or refuses.
    pub(super) fn only(backend: Arc<dyn Backend>) -> Self {
        Self { chosen: true, ..Self::in_order(backend, Vec::new()) }
    }

    /// Returns true if a [`Spawner`] is of use for cells.
    pub fn uses_spawner(&self) -> bool {
        self.preferred.abilities().network
    }

    /// Returns the same isolation without the lesser backends.
    pub(super) fn preferred_alone(&self) -> Self {
        Self::in_order(self.preferred.clone(), Vec::new())
    }

    /// Returns the abilities of the preferred backend, on a machine that offers it.
    pub(super) fn abilities(&self) -> Abilities {
        self.preferred.abilities()
    }

    /// Makes a network that the cells of a session share.
    ///
    /// # Errors
    /// Returns an error if the isolation or this machine refuses one.
    pub fn make_network(&self) -> Result<SessionNetwork, SandboxError> {
        self.preferred.make_network()
    }

    /// Makes `attempt` with the preferred backend. If the machine does not offer that, makes it with
    /// the next one that can give what `spec` asks for.
    ///
    /// INVARIANT: after an attempt that fails with [`SandboxError::Unavailable`], the command has
    /// not started.
    pub(crate) fn in_turn<T>(
        &self,
        spec: &CellSpec,
        mut attempt: impl FnMut(&dyn Backend) -> Result<T, SandboxError>,
    ) -> Result<T, SandboxError> {
        suits(&*self.preferred, spec)?;
        let mut made = attempt(&*self.preferred);
        for backend in &self.lesser {
            made = match made {
                Err(refused @ SandboxError::Unavailable { .. }) if suits(&**backend, spec).is_ok() => {
                    attempt(&**backend).map_err(|also| both(refused, also))
                }
                other => return other,
            };
        }
        made.map_err(|error| if self.chosen { self.name_choice(error) } else { error })
    }

    /// Adds to an error of a chosen backend what its user can do.
    fn name_choice(&self, error: SandboxError) -> SandboxError {
        match error {
            SandboxError::Unavailable { what, hint, source } => SandboxError::Unavailable {
                what: format!("the profile has `isolation: {}`, and {what}", self.preferred.name()),
                hint: format!("{hint}; or set `isolation: auto` in the profile"),
                source,
            },
            other => other,
        }
    }
}

/// Checks that cells of the backend can give what `spec` asks for.
fn suits(backend: &dyn Backend, spec: &CellSpec) -> Result<(), SandboxError> {
    let (abilities, name) = (backend.abilities(), backend.name());
    if spec.strict && !abilities.full {
        let what =
            format!("the profile is strict, and cells with `isolation: {name}` confine less than full ones");
        return Err(not_offered(&what, &format!("{OTHER_ISOLATION}, or `strict: false`")));
    }
    if spec.overlay.is_some() && !abilities.overlay {
        return Err(SandboxError::Overlay {
            workspace: spec.workspace.clone(),
            reason: format!("cells with `isolation: {name}` have no overlay"),
            source: std::io::ErrorKind::Unsupported.into(),
        });
    }
    Ok(())
}

/// Combines the errors of two backends that this machine does not offer. The advice is that for the
/// stronger one.
fn both(refused: SandboxError, also: SandboxError) -> SandboxError {
    match (refused, also) {
        (SandboxError::Unavailable { what, hint, source }, SandboxError::Unavailable { what: also, .. }) => {
            SandboxError::Unavailable { what: format!("{what}, and {also}"), hint, source }
        }
        (_, also) => also,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Overlay;

    /// A backend that this machine does not offer.
    #[derive(Debug)]
    struct Missing(&'static str, Abilities);

    impl Backend for Missing {
        fn name(&self) -> &'static str {
            self.0
        }

        fn abilities(&self) -> Abilities {
            self.1
        }

        fn start(&self, _: &StartRequest<'_>) -> Result<Box<dyn Cell>, SandboxError> {
            Err(not_offered(&format!("{} is missing", self.0), &format!("install {}", self.0)))
        }
    }

    fn strong() -> Arc<dyn Backend> {
        Arc::new(Missing("strong", Abilities { overlay: true, network: true, full: true }))
    }

    fn weak(name: &'static str) -> Arc<dyn Backend> {
        Arc::new(Missing(name, Abilities::default()))
    }

    /// Returns the names of the backends that are tried for this cell, and the error.
    fn tried(isolation: &Isolation, spec: &CellSpec) -> (Vec<&'static str>, SandboxError) {
        let (host, mut names) = (CellHost::default(), Vec::new());
        let program = crate::spec::Program::Argv(Vec::new());
        let command = Command { program, working_directory: "/".into() };
        let error = isolation.in_turn(spec, |backend| {
            names.push(backend.name());
            backend.start(&StartRequest { spec, host: &host, command: &command, streams: Streams::Captured })
        });
        (names, error.err().unwrap())
    }

    #[test]
    fn lesser_backends_follow_in_turn_and_the_error_has_the_advice_for_the_strongest() {
        let isolation = Isolation::in_order(strong(), vec![weak("weak"), weak("weaker")]);
        let (names, error) = tried(&isolation, &CellSpec::default());
        assert_eq!(names, ["strong", "weak", "weaker"]);
        let SandboxError::Unavailable { what, hint, .. } = error else { panic!("{error:?}") };
        assert_eq!(what, "strong is missing, and weak is missing, and weaker is missing");
        assert_eq!(hint, "install strong");
    }

    #[test]
    fn a_strict_cell_and_one_with_an_overlay_are_left_to_backends_that_can_give_them() {
        let isolation = Isolation::in_order(strong(), vec![weak("weak")]);
        let overlay = Some(Overlay { upper: "/u".into(), work: "/w".into() });
        for spec in [
            CellSpec { strict: true, ..CellSpec::default() },
            CellSpec { overlay: overlay.clone(), ..CellSpec::default() },
        ] {
            assert_eq!(tried(&isolation, &spec).0, ["strong"]);
        }
        // A chosen one that cannot give them is not even tried.
        let only = Isolation::only(weak("weak"));
        let (names, error) = tried(&only, &CellSpec { overlay, ..CellSpec::default() });
        assert!(names.is_empty() && matches!(error, SandboxError::Overlay { .. }), "{error:?}");
        let (names, error) = tried(&only, &CellSpec { strict: true, ..CellSpec::default() });
        assert!(names.is_empty() && matches!(error, SandboxError::Unavailable { .. }), "{error:?}");
    }

    #[test]
    fn a_chosen_backend_is_named_in_its_refusal_with_the_way_out() {
        let (names, error) = tried(&Isolation::only(weak("weak")), &CellSpec::default());
        assert_eq!(names, ["weak"]);
        let SandboxError::Unavailable { what, hint, .. } = error else { panic!("{error:?}") };
        assert_eq!(what, "the profile has `isolation: weak`, and weak is missing");
        assert_eq!(hint, "install weak; or set `isolation: auto` in the profile");
    }
}
