//! The way of a request to the configured models, shared by the tools that ask them.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

use fetch::address::Target;
use fetch::web::Web;
use llm::{
    Attempt, AttemptError, Limits, Model, ModelError, ModelInfo, Provider, RemoteModel, RouteError,
    RouteFault, Router, Routes, TaskType,
};
use tool::{Code, Context, StopReason, ToolError};
use tool_support::{RequestPart, permission, secret};

use crate::model_transport::{CallTransport, WebTimer};
use crate::models::{Candidate, Models};

impl Models {
    /// Returns the facts about the model that a type of task asks first, or about the one that is named.
    ///
    /// # Errors
    /// `EUNAVAILABLE` if there is none, `EVALIDATION` if the name is none of a model.
    pub fn preferred(&self, task: TaskType, named: Option<&str>) -> Result<(String, ModelInfo), ToolError> {
        let first = candidates(self, task, named)?.into_iter().next();
        let first = first.ok_or_else(|| ToolError::internal("there is no candidate"))?;
        Ok((first.name, first.info))
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
    if !models.is_configured() {
        return Err(ToolError::new(Code::Unavailable, "no language model is configured")
            .hint("the user adds `models` to the configuration: docs/MODELS.md"));
    }
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

/// Returns a router over the candidates of one call, in their order. A candidate whose key is not there is
/// left out if there are others.
pub(crate) fn router(
    context: &Context,
    candidates: &[Candidate<'_>],
    deadline: Instant,
) -> Result<Router, ToolError> {
    let web = context.service::<Web>()?;
    let mut models: BTreeMap<String, Arc<dyn Model>> = BTreeMap::new();
    let mut usual = Vec::new();
    for Candidate { name, provider, info } in candidates {
        let key = provider.key.as_ref();
        let key = key.map(|key| secret(context, key, &provider.host(), RequestPart::Header)).transpose();
        let key = match key {
            Ok(key) => key,
            Err(error) if candidates.len() > 1 => {
                context.warn(format!("{name} was not asked: {}", error.message));
                continue;
            }
            Err(error) => return Err(error),
        };
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
        usual.push(name.clone());
        models.insert(name.clone(), Arc::new(RemoteModel::new(Arc::new(provider), info.clone())));
    }
    let routes = Routes { usual, ..Routes::default() };
    let random = || RandomState::new().build_hasher().finish();
    Ok(Router::new(models, routes, Arc::new(WebTimer), Arc::new(random)))
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
