//! The part of a runtime that agents need.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};

use dialects::{CatalogueKind, Dialect};
use engine::Engine;
use store_api::Store;
use tools_agents::{ModelTurns, Models};

use crate::agent_runtime::files::AgentFiles;
use crate::agent_runtime::offered::OfferedTools;
use crate::reload::Reload;

/// The part of a runtime that agents need.
#[derive(Clone)]
pub(crate) struct AgentRuntime {
    pub(crate) engine: Arc<Engine>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) models: Arc<Models>,
    pub(crate) turns: Arc<ModelTurns>,
    pub(crate) dialect: Dialect,
    pub(crate) catalogue: CatalogueKind,
    pub(crate) workspace: PathBuf,
    pub(crate) files: AgentFiles,
    pub(crate) reload: Reload,
    /// Tools of agents that name none, after the first use.
    pub(crate) offered: Arc<OnceLock<Arc<OfferedTools>>>,
}

/// Runtime of agents without a hold on the engine, for a part that the engine keeps alive.
pub(crate) struct AgentParts {
    engine: Weak<Engine>,
    make: Box<dyn Fn(Arc<Engine>) -> AgentRuntime + Send + Sync>,
}

impl AgentParts {
    /// Returns the part of a runtime that is being composed.
    pub(crate) fn new(runtime: &AgentRuntime) -> Self {
        let engine = Arc::downgrade(&runtime.engine);
        let AgentRuntime {
            store, models, turns, dialect, catalogue, workspace, files, reload, offered, ..
        } = runtime.clone();
        let make = move |engine| AgentRuntime {
            engine,
            store: store.clone(),
            models: models.clone(),
            turns: turns.clone(),
            dialect,
            catalogue,
            workspace: workspace.clone(),
            files: files.clone(),
            reload: reload.clone(),
            offered: offered.clone(),
        };
        Self { engine, make: Box::new(make) }
    }

    /// Returns the runtime, unless it has ended.
    pub(crate) fn runtime(&self) -> Option<AgentRuntime> {
        self.engine.upgrade().map(|engine| (self.make)(engine))
    }
}
