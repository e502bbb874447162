//! The models of a runtime, as the user has configured them.

use std::collections::BTreeMap;
use std::sync::Arc;

use fetch::address::Target;
use llm::{Account, Ledger, Limit, ModelInfo, Routes, Scope, TaskType, WireFormat, known};
use parking_lot::Mutex;
use tool::Effect;
use tool_support::{EndpointError, endpoint};

/// Character between the name of a provider and the name of its model.
const SEPARATOR: char = '/';

/// Provider of models.
#[derive(Debug, Clone)]
pub struct ModelProvider {
    /// Wire format.
    pub wire: WireFormat,
    /// Address before the path of a request: https, or http on this machine.
    pub base: String,
    /// Name of the key in the vault, if the provider needs one.
    pub key: Option<String>,
    target: Target,
}

impl ModelProvider {
    /// Creates a provider. Without `base`, the address is that of the provider's own service.
    ///
    /// # Errors
    /// A text about what is wrong with the address.
    pub fn new(wire: WireFormat, base: Option<String>, key: Option<String>) -> Result<Self, String> {
        let base = base.or_else(|| wire.usual_base().map(str::to_owned));
        let base = base.ok_or("`url` is missing: servers of this kind have no common address")?;
        let target = endpoint(&base).map_err(|error: EndpointError| format!("`url`: {error}"))?;
        Ok(Self { wire, base, key, target })
    }

    /// Returns the host that requests go to.
    pub(crate) fn host(&self) -> String {
        self.target.host().to_string()
    }

    /// Returns the effects of a request: it asks for data, with the key of the provider.
    fn effects(&self) -> Vec<Effect> {
        let host = self.host();
        let connect = Effect::Connect {
            host: host.clone(),
            port: self.target.port(),
            method: Some("POST".to_owned()),
            only_asks: true,
        };
        let key = self.key.iter().map(|name| Effect::UseSecret { name: name.clone(), host: host.clone() });
        [connect].into_iter().chain(key).collect()
    }
}

/// Limits on what models cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelLimits {
    /// Limit of one call, over all models that it asks.
    pub call: Limit,
    /// Limit of one session.
    pub session: Limit,
}

/// A model that a call may ask.
pub(crate) struct Candidate<'a> {
    /// Name in calls, such as `anthropic/claude-sonnet-5`.
    pub(crate) name: String,
    pub(crate) provider: &'a ModelProvider,
    pub(crate) info: ModelInfo,
}

/// The models of a runtime.
#[derive(Default)]
pub struct Models {
    providers: BTreeMap<String, ModelProvider>,
    routes: Routes,
    limits: ModelLimits,
    ledger: Arc<Mutex<Ledger>>,
}

impl Models {
    /// Creates the models. Routes name them as `provider/model`.
    ///
    /// # Errors
    /// A text about the first route that names no provider.
    pub fn new(
        providers: BTreeMap<String, ModelProvider>,
        routes: Routes,
        limits: ModelLimits,
    ) -> Result<Self, String> {
        let models = Self { providers, routes, limits, ledger: Arc::default() };
        for task in TaskType::ALL {
            for name in models.routes.of(task) {
                models.candidate(name).ok_or_else(|| {
                    format!(
                        "the route `{}` names {name}, which is no PROVIDER/MODEL of a provider",
                        task.word()
                    )
                })?;
            }
        }
        Ok(models)
    }

    /// Returns true if a call can name a model.
    pub(crate) fn is_configured(&self) -> bool {
        !self.providers.is_empty()
    }

    /// Returns the models for a type of task, the preferred one first, or the one that is named.
    pub(crate) fn candidates(
        &self,
        task: TaskType,
        named: Option<&str>,
    ) -> Result<Vec<Candidate<'_>>, String> {
        if let Some(named) = named {
            let candidate = self.candidate(named).ok_or_else(|| {
                let known: Vec<&str> = self.providers.keys().map(String::as_str).collect();
                format!("{named} is no PROVIDER/MODEL; providers are {}", known.join(", "))
            })?;
            return Ok(vec![candidate]);
        }
        Ok(self.routes.of(task).iter().filter_map(|name| self.candidate(name)).collect())
    }

    /// Returns the effects of asking these models, and the keys among the effects.
    pub(crate) fn effects(candidates: &[Candidate<'_>]) -> (Vec<Effect>, Vec<String>) {
        let mut effects = Vec::new();
        for effect in candidates.iter().flat_map(|candidate| candidate.provider.effects()) {
            if !effects.contains(&effect) {
                effects.push(effect);
            }
        }
        let keys = candidates.iter().filter_map(|candidate| candidate.provider.key.clone());
        (effects, keys.collect())
    }

    /// Returns the budgets, and the account of a call. Sessions have accounts only if they have a limit.
    pub(crate) fn budget(&self, session: &str) -> (Arc<Mutex<Ledger>>, Account) {
        let call = self.limits.call;
        if self.limits.session == Limit::default() {
            return (self.ledger.clone(), Account { scopes: Vec::new(), call });
        }
        let scope = Scope::Session(session.to_owned());
        let mut ledger = self.ledger.lock();
        if !ledger.is_open(&scope) {
            ledger.open(scope.clone(), self.limits.session, llm::Amount::default());
        }
        (self.ledger.clone(), Account { scopes: vec![scope], call })
    }

    /// Returns the model of a name. A single provider need not be named.
    fn candidate(&self, name: &str) -> Option<Candidate<'_>> {
        let split = name
            .split_once(SEPARATOR)
            .and_then(|(provider, model)| Some((self.providers.get_key_value(provider)?, model)));
        let single = || match self.providers.len() {
            1 => Some((self.providers.first_key_value()?, name)),
            _ => None,
        };
        let ((provider, found), model) = split.or_else(single)?;
        if model.is_empty() {
            return None;
        }
        let name = format!("{provider}{SEPARATOR}{model}");
        Some(Candidate { name, provider: found, info: known(found.wire, model) })
    }
}
