//! The way of a request to the configured models, shared by the tools that ask them.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

use fetch::address::Target;
use fetch::web::Web;
use llm::{
    Attempt, AttemptError, Capability, Limits, Model, ModelError, ModelInfo, Provider, RemoteModel,
    RouteError, RouteFault, Router, Routes, SampledModel, TaskType,
};
use tool::{CallerModel, Code, Context, OfferedModel, StopReason, ToolError};
use tool_support::{RequestPart, permission, secret};
use vault::SecretBytes;

use crate::model_transport::{CallTransport, WebTimer};
use crate::models::{Candidate, ModelProvider, ModelSource, Models};

impl Models {
    /// Returns name and facts of the model that a type of task asks first, or of the one that is named, among
    /// those with the needed abilities. `offered` is the model of the caller's program.
    ///
    /// # Errors
    /// `EUNAVAILABLE` if there is none, `EVALIDATION` if the name is none of a model, or no model has the
    /// abilities.
    pub fn preferred(
        &self,
        task: TaskType,
        named: Option<&str>,
        offered: Option<&dyn CallerModel>,
        needs: &[Capability],
    ) -> Result<(String, ModelInfo), ToolError> {
        let mut lacking = None;
        for mut candidate in candidates(self, task, named)? {
            if matches!(candidate.source, ModelSource::Caller) {
                let Some(offered) = offered else { continue };
                candidate.info.tools = offered.calls_tools();
            }
            let missing = candidate.info.missing(needs);
            if missing.is_empty() {
                return Ok((candidate.name, candidate.info));
            }
            lacking = lacking.or(Some((candidate.name, missing)));
        }
        let (name, missing) = lacking.ok_or_else(not_offered)?;
        let words: Vec<&str> = missing.iter().map(|ability| ability.word()).collect();
        Err(ToolError::validation("model", format!("{name} cannot do {}", words.join(", "))))
    }
}

/// Returns the models for a type of task, or the one that is named.
///
/// # Errors
/// `EUNAVAILABLE` if there is none, `EVALIDATION` if the name is none of a model.
pub(crate) fn candidates<'a>(
    models: &'a Models,
    task: TaskType,
    named: Option<&str>,
) -> Result<Vec<Candidate<'a>>, ToolError> {
    if task == TaskType::Embedding {
        return Err(ToolError::validation("task_type", "no chat model makes vectors")
            .hint("knowledge_search and memory search by meaning"));
    }
    let found = models.candidates(task, named);
    let found = found.map_err(|problem| ToolError::validation("model", problem))?;
    if found.is_empty() {
        let message = format!("no model is configured for `{}`", task.word());
        return Err(ToolError::new(Code::Unavailable, message)
            .hint("name one with `model`, or the user adds a route: docs/MODELS.md"));
    }
    Ok(found)
}

/// Returns the error of a caller whose program offers no model, where no other model may be asked.
fn not_offered() -> ToolError {
    ToolError::new(Code::Unavailable, "no language model is configured, and the calling program offers none")
        .hint("the user adds `models` to the configuration: docs/MODELS.md")
}

/// Returns a router over the candidates of one call, in their order. A candidate whose key is not there, or
/// that the caller's program does not offer, is left out if there are others.
pub(crate) fn router(
    context: &Context,
    candidates: &[Candidate<'_>],
    deadline: Instant,
) -> Result<Router, ToolError> {
    let web = context.service::<Web>()?;
    let mut models: BTreeMap<String, Arc<dyn Model>> = BTreeMap::new();
    let mut usual = Vec::new();
    for candidate in candidates {
        let name = &candidate.name;
        let model: Arc<dyn Model> = match Access::of(context, candidate.source) {
            Ok(Access::Server(provider, key)) => {
                Arc::new(remote(context, &web, candidate, (provider, key), deadline)?)
            }
            Ok(Access::Caller(offered)) => Arc::new(SampledModel::new(offered, &candidate.info.name)),
            Err(error) if candidates.len() > 1 => {
                context.warn(format!("{name} was not asked: {}", error.message));
                continue;
            }
            Err(error) => return Err(error),
        };
        usual.push(name.clone());
        models.insert(name.clone(), model);
    }
    let routes = Routes { usual, ..Routes::default() };
    let random = || RandomState::new().build_hasher().finish();
    Ok(Router::new(models, routes, Arc::new(WebTimer), Arc::new(random)))
}

/// Key or offer that a request to a model needs.
enum Access<'a> {
    Server(&'a ModelProvider, Option<SecretBytes>),
    Caller(Arc<dyn CallerModel>),
}

impl<'a> Access<'a> {
    fn of(context: &Context, source: &'a ModelSource) -> Result<Self, ToolError> {
        match source {
            ModelSource::Server(provider) => {
                let key = provider.key.as_ref();
                let key = key.map(|key| secret(context, key, &provider.host(), RequestPart::Header));
                Ok(Self::Server(provider, key.transpose()?))
            }
            ModelSource::Caller => {
                let offered = context.service::<OfferedModel>().map_err(|_| not_offered())?;
                Ok(Self::Caller(offered.0.clone()))
            }
        }
    }
}

fn remote(
    context: &Context,
    web: &Arc<Web>,
    candidate: &Candidate<'_>,
    (provider, key): (&ModelProvider, Option<SecretBytes>),
    deadline: Instant,
) -> Result<RemoteModel, ToolError> {
    let target = Target::parse(&provider.base)
        .map_err(|error| ToolError::internal("the address of a provider is no URL").because(error))?;
    let permission = permission(context, &target, key.is_some())?;
    let whole = deadline.saturating_duration_since(Instant::now());
    let provider = Provider {
        base: provider.base.clone(),
        wire: provider.wire,
        transport: Arc::new(CallTransport { web: web.clone(), permission, key, deadline }),
        timer: Arc::new(WebTimer),
        limits: Limits { whole, idle: whole.min(Limits::default().idle), ..Limits::default() },
    };
    Ok(RemoteModel::new(Arc::new(provider), candidate.info.clone()))
}

pub(crate) fn tried(attempts: &[Attempt]) -> Vec<String> {
    attempts.iter().map(|Attempt { model, error }| format!("{model}: {error}")).collect()
}

/// Converts the failure of all models.
pub(crate) fn failed(error: &RouteError) -> ToolError {
    let message = error.to_string();
    let last = error.tried.last().map(|attempt| &attempt.error);
    let of_model = |error: &ModelError| match error {
        ModelError::RateLimited { .. } | ModelError::NoCredit { .. } => Code::Quota,
        ModelError::Auth { .. } => Code::Permission,
        ModelError::Invalid { .. } | ModelError::ContextTooLong { .. } => Code::Validation,
        ModelError::Overloaded { .. } | ModelError::Unreachable { .. } => Code::Unavailable,
        _ => Code::Runtime,
    };
    let code = match (&error.fault, last) {
        (RouteFault::Cancelled(StopReason::Cancelled), _) => Code::Cancelled,
        (RouteFault::Cancelled(_), _) => Code::Timeout,
        (RouteFault::Late(_), _) | (_, Some(AttemptError::Budget(_))) => Code::Quota,
        (_, Some(AttemptError::Model(error))) => of_model(error),
        _ => Code::Runtime,
    };
    ToolError::new(code, message).because(error.clone())
}
