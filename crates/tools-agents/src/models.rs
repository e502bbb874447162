//! The models of a runtime, as the user has configured them.

use std::collections::BTreeMap;
use std::sync::Arc;

use fetch::address::Target;
use llm::{
    ANY_MODEL, Account, Ledger, Limit, ModelInfo, Reserve, Routes, SampledModel, Scope, TaskType, WireFormat,
    known,
};
use memory::OpenModel;
use parking_lot::Mutex;
use spending::{SharedLimits, SpendingBook};
use tool::{Context, Effect, ToolError};
use tool_support::{EndpointError, endpoint};

/// Character between the name of a provider and the name of its model.
const SEPARATOR: char = '/';

/// Name of the caller's program as a provider, if nothing is configured.
const CALLER: &str = "client";

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

/// Source of models.
#[derive(Debug, Clone)]
pub enum ModelSource {
    /// Server of a provider.
    Server(ModelProvider),
    /// Program that makes the call, if it offers a model.
    Caller,
}

impl From<ModelProvider> for ModelSource {
    fn from(provider: ModelProvider) -> Self {
        Self::Server(provider)
    }
}

impl ModelSource {
    fn server(&self) -> Option<&ModelProvider> {
        match self {
            Self::Server(provider) => Some(provider),
            Self::Caller => None,
        }
    }

    fn info(&self, model: &str) -> ModelInfo {
        match self {
            Self::Server(provider) => known(provider.wire, model),
            Self::Caller => SampledModel::info_of(model),
        }
    }
}

/// The model that makes vectors.
#[derive(Clone)]
pub struct Embeddings {
    /// Function that opens the model.
    pub opens: OpenModel,
    /// True if the model runs on this machine, so that it costs nothing.
    pub is_local: bool,
}

/// Limits on what models cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelLimits {
    /// Limit of one call, over all models that it asks.
    pub call: Limit,
    /// Limit of one session.
    pub session: Limit,
    /// Limits of the day and of the project, which all processes of a state share.
    pub shared: SharedLimits,
}

/// Budgets of a call.
pub(crate) struct CallBudget {
    /// Budgets of this process.
    pub(crate) ledger: Arc<Mutex<Ledger>>,
    /// Account of the call in this process.
    pub(crate) account: Account,
    /// Budgets of all processes; `None` if neither the day nor the project has a limit.
    pub(crate) shared: Option<Arc<dyn Reserve>>,
}

/// A model that a call may ask.
pub(crate) struct Candidate<'a> {
    /// Name in calls, such as `anthropic/claude-sonnet-5`.
    pub(crate) name: String,
    pub(crate) source: &'a ModelSource,
    pub(crate) info: ModelInfo,
}

/// The models of a runtime.
#[derive(Default)]
pub struct Models {
    providers: BTreeMap<String, ModelSource>,
    routes: Routes,
    limits: ModelLimits,
    ledger: Arc<Mutex<Ledger>>,
    embeddings: Option<Embeddings>,
}

impl Models {
    /// Creates the models. Routes name them as `provider/model`.
    ///
    /// # Errors
    /// A text about the first route that names no provider.
    pub fn new(
        providers: BTreeMap<String, ModelSource>,
        routes: Routes,
        limits: ModelLimits,
    ) -> Result<Self, String> {
        let models = Self { providers, routes, limits, ledger: Arc::default(), embeddings: None };
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

    /// Sets the model that makes vectors.
    #[must_use]
    pub fn with_embeddings(self, embeddings: Option<Embeddings>) -> Self {
        Self { embeddings, ..self }
    }

    /// Returns the model that makes vectors.
    pub(crate) fn embeddings(&self) -> Option<&Embeddings> {
        self.embeddings.as_ref()
    }

    /// Returns true if any budget of a call limits money.
    pub(crate) fn limit_money(&self) -> bool {
        let ModelLimits { call, session, shared } = self.limits;
        [call, session, shared.day, shared.project].iter().any(|limit| limit.money.is_some())
    }

    /// Returns true if a model can be asked without the program of a caller.
    pub fn has_servers(&self) -> bool {
        self.providers.values().any(|source| source.server().is_some())
    }

    /// Returns the models for a type of task, the preferred one first, or the one that is named. The model of the
    /// caller's program can always be named, unless a provider has its name.
    pub(crate) fn candidates(
        &self,
        task: TaskType,
        named: Option<&str>,
    ) -> Result<Vec<Candidate<'_>>, String> {
        let of_caller = Self::of_caller();
        if named == Some(of_caller.name.as_str()) && !self.providers.contains_key(CALLER) {
            return Ok(vec![of_caller]);
        }
        if self.providers.is_empty() {
            return match named {
                None => Ok(vec![of_caller]),
                Some(named) => Err(format!("{named} is no PROVIDER/MODEL; no provider is configured")),
            };
        }
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
        let servers = || candidates.iter().filter_map(|candidate| candidate.source.server());
        for effect in servers().flat_map(ModelProvider::effects) {
            if !effects.contains(&effect) {
                effects.push(effect);
            }
        }
        let keys = servers().filter_map(|provider| provider.key.clone()).collect();
        (effects, keys)
    }

    /// Opens the account of an agent with its limit. Requests that name the agent are paid from it too.
    pub fn open_account(&self, agent: &str, limit: Limit) {
        self.ledger.lock().open(Scope::Agent(agent.to_owned()), limit, llm::Amount::default());
    }

    /// Returns the limits of the day and of the project.
    pub fn shared_limits(&self) -> SharedLimits {
        self.limits.shared
    }

    /// Returns the budgets of a call of this session. Sessions have accounts only if they have a limit.
    ///
    /// # Errors
    /// `EUNAVAILABLE` if there is a limit of the day or of the project, and this runtime has no
    /// [`SpendingBook`] to keep it.
    pub(crate) fn budget(&self, context: &Context, session: &str) -> Result<CallBudget, ToolError> {
        let (ledger, call) = (self.ledger.clone(), self.limits.call);
        let mut scopes = Vec::new();
        if self.limits.session != Limit::default() {
            let scope = Scope::Session(session.to_owned());
            let mut ledger = ledger.lock();
            if !ledger.is_open(&scope) {
                ledger.open(scope.clone(), self.limits.session, llm::Amount::default());
            }
            scopes.push(scope);
        }
        let shared = match self.limits.shared {
            limits if limits.is_none() => None,
            limits => {
                let book = context.service::<SpendingBook>()?;
                Some(book.of_call(limits, &context.call.0, context.clock.clone(), context.timeout))
            }
        };
        Ok(CallBudget { ledger, account: Account { scopes, call }, shared })
    }

    /// Returns the model of the caller's program, which is asked if nothing is configured.
    fn of_caller() -> Candidate<'static> {
        let name = format!("{CALLER}{SEPARATOR}{ANY_MODEL}");
        Candidate { name, source: &ModelSource::Caller, info: SampledModel::info_of(ANY_MODEL) }
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
        let ((provider, source), model) = split.or_else(single)?;
        if model.is_empty() {
            return None;
        }
        let name = format!("{provider}{SEPARATOR}{model}");
        Some(Candidate { name, source, info: source.info(model) })
    }
}
