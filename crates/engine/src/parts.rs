//! The parts of an engine.

use std::path::PathBuf;
use std::sync::Arc;

use database::Databases;
use memory::OpenModel;
use policy::Policy;
use sandbox::SessionLimits;
use store_api::Store;
use tool::{Catalogue, Clock, Place, ResourcePool, Services, Timer};
use vault::Vault;

use crate::{AgentFeed, CellSetup, Program, Redactor, Registry, Summarizer, TokioTimer, Tracer};

/// The parts of an engine.
pub struct Parts {
    /// Workspace of the calls.
    pub place: Place,
    /// Policy that decides on calls.
    pub policy: Arc<Policy>,
    /// Storage for everything durable.
    pub store: Arc<dyn Store>,
    /// Registry of the tools.
    pub registry: Arc<Registry>,
    /// Descriptions of the same tools, for the tool that lists them.
    pub catalogue: Catalogue,
    /// Wall clock.
    pub clock: Arc<dyn Clock>,
    /// Timer of the engine's own waits: [`TokioTimer`], or one that a test drives.
    pub timer: Arc<dyn Timer>,
    /// Settings that all cells share.
    pub cell: CellSetup,
    /// Secrets to cover, in addition to those of the vault.
    pub redactor: Redactor,
    /// Vault with the secrets that calls may use and nobody sees, if there is one.
    pub vault: Option<Arc<Vault>>,
    /// Databases of the workspace, if calls may change them.
    pub databases: Option<Arc<Databases>>,
    /// Function that opens the model for searching memories by meaning, if one is set up.
    pub embeddings: Option<OpenModel>,
    /// Limits on commands that outlive their calls. `None` if this runtime ends with a call.
    pub sessions: Option<SessionLimits>,
    /// Recipient of traces of calls.
    pub tracer: Option<Arc<dyn Tracer>>,
    /// Summarizer of the output of commands. Without it, callers get the output unchanged.
    pub summarizer: Option<Arc<dyn Summarizer>>,
    /// Folder, private to the user, for pictures of what questions are about. Without it, there are none.
    pub question_pictures: Option<PathBuf>,
    /// Name of the user whom this process runs as, for the audit.
    pub user: Option<String>,
    /// Services for tools that the engine itself does not use.
    pub services: Services,
    /// Resources of the composer that outlive calls, besides those of the engine. Each pool is told
    /// when an owner ends.
    pub resources: Vec<Arc<dyn ResourcePool>>,
    /// Agents of the composer, for doors that show them.
    pub agents: Option<Arc<dyn AgentFeed>>,
    /// Commands by which the user reaches this state.
    pub program: Program,
}

impl Parts {
    /// Builds the parts of an engine that has nothing optional: no secrets, no background commands, no
    /// memories by meaning, and nobody who gets its traces.
    pub fn new(
        place: Place,
        policy: Arc<Policy>,
        store: Arc<dyn Store>,
        registry: Registry,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            place,
            policy,
            store,
            registry: Arc::new(registry),
            catalogue: Catalogue::default(),
            clock,
            timer: Arc::new(TokioTimer),
            cell: CellSetup::default(),
            redactor: Redactor::default(),
            vault: None,
            databases: None,
            embeddings: None,
            sessions: None,
            tracer: None,
            summarizer: None,
            question_pictures: None,
            user: None,
            services: Services::default(),
            resources: Vec::new(),
            agents: None,
            program: Program::default(),
        }
    }
}
