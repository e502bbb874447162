//! Settings that a server takes at its start only. A later change of them takes effect at the next start.

use std::collections::BTreeMap;
use std::path::PathBuf;

use dialects::{CatalogueKind, Dialect};
use policy::{Limits, Policy};

use crate::config::{Elicitation, EmbeddingsPlace, GmailPlace, LinearPlace, VaultPlace};
use crate::identity::OAuth;
use crate::models::ModelsPlace;
use crate::notify::QuestionHandling;
use crate::own_projects::OwnProject;
use crate::traces::Collector;

/// The values of these settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct AtStart {
    pub(crate) dialect: Dialect,
    pub(crate) catalogue: Option<CatalogueKind>,
    pub(crate) databases: Option<BTreeMap<String, PathBuf>>,
    pub(crate) elicitation: Option<Elicitation>,
    pub(crate) approvals: Option<QuestionHandling>,
    pub(crate) oauth: Option<OAuth>,
    pub(crate) traces: Option<Collector>,
    pub(crate) environment_secrets: Option<BTreeMap<String, Vec<String>>>,
    pub(crate) linear: Option<LinearPlace>,
    pub(crate) gmail: Option<GmailPlace>,
    pub(crate) vault: Option<VaultPlace>,
    pub(crate) embeddings: Option<EmbeddingsPlace>,
    pub(crate) models: Option<ModelsPlace>,
    pub(crate) mcp_servers: serde_json::Map<String, serde_json::Value>,
    pub(crate) toolchains: Option<Vec<PathBuf>>,
    pub(crate) own_projects: Option<BTreeMap<String, OwnProject>>,
}

/// Limits of a profile that a server takes at its start only.
const LIMITS: [&str; 8] = [
    "commands",
    "commands_waiting",
    "commands_in_all",
    "answer_bytes_in_all",
    "sessions",
    "session_idle_seconds",
    "session_seconds",
    "home_bytes",
];

impl AtStart {
    /// Returns the names of the settings that have another value in `other`.
    pub(crate) fn differing(&self, other: &Self) -> Vec<&'static str> {
        let Self {
            dialect,
            catalogue,
            databases,
            elicitation,
            approvals,
            oauth,
            traces,
            environment_secrets,
            linear,
            gmail,
            vault,
            embeddings,
            models,
            mcp_servers,
            toolchains,
            own_projects,
        } = self;
        [
            ("dialect", *dialect != other.dialect),
            ("catalogue", *catalogue != other.catalogue),
            ("databases", *databases != other.databases),
            ("elicitation", *elicitation != other.elicitation),
            ("approvals", *approvals != other.approvals),
            ("oauth", *oauth != other.oauth),
            ("traces", *traces != other.traces),
            ("environment_secrets", *environment_secrets != other.environment_secrets),
            ("linear", *linear != other.linear),
            ("gmail", *gmail != other.gmail),
            ("vault", *vault != other.vault),
            ("embeddings", *embeddings != other.embeddings),
            ("models", *models != other.models),
            ("mcp_servers", *mcp_servers != other.mcp_servers),
            ("toolchains", *toolchains != other.toolchains),
            ("self", *own_projects != other.own_projects),
        ]
        .into_iter()
        .filter_map(|(name, differs)| differs.then_some(name))
        .collect()
    }
}

/// Returns the limits of the policy that a server takes at its start only.
pub(crate) fn limits(policy: &Policy) -> Vec<(&'static str, u64)> {
    let mut named = policy.limits_over(Limits::default()).named();
    named.retain(|(name, _)| LIMITS.contains(name));
    named
}
