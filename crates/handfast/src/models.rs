//! The models of language that the user configures, by their providers.

use std::collections::BTreeMap;
use std::sync::Arc;

use llm::{Limit, Routes, TaskType, Usd, WireFormat};
use schemars::JsonSchema;
use serde::Deserialize;
use spending::SharedLimits;
use tools_agents::{Embeddings, ModelLimits, ModelProvider, ModelSource, Models};

use crate::failure::Failure;

/// Models for `llm_call`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelsPlace {
    /// Providers by the names that models are called with, as `NAME/MODEL`.
    #[schemars(extend("examples" = [{"anthropic": {"api": "anthropic", "key": "anthropic_key"}}]))]
    pub(crate) providers: BTreeMap<String, ProviderPlace>,
    /// Models for a type of task (`planning`, `coding`, `analysis`, `simple`), the preferred one first, and
    /// under `usual` those for all other types.
    #[serde(default)]
    #[schemars(extend("x-default" = "none", "examples" = [{"usual": ["anthropic/claude-sonnet-5"], "simple": ["local/small"]}]))]
    pub(crate) routes: BTreeMap<String, Vec<String>>,
    /// Limits on what they cost.
    #[schemars(extend("x-default" = "none", "examples" = [{"call_usd": 0.5, "session_usd": 5}]))]
    pub(crate) budget: Option<BudgetPlace>,
}

/// A provider of models.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProviderPlace {
    /// Interface of the provider.
    #[schemars(extend("examples" = ["anthropic"]))]
    pub(crate) api: Api,
    /// Address before the path of a request: https, or http on this machine.
    #[schemars(extend("x-default" = "that of the provider's own service", "examples" = ["http://127.0.0.1:11434"]))]
    pub(crate) url: Option<String>,
    /// Name of the key in the vault, if the provider needs one.
    #[schemars(extend("x-default" = "none", "examples" = ["anthropic_key"]))]
    pub(crate) key: Option<String>,
}

/// An interface of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Api {
    /// Chat completions of `api.openai.com`.
    Openai,
    /// Chat completions of another server.
    OpenaiCompatible,
    /// Messages of Anthropic.
    Anthropic,
    /// `generateContent` of Gemini.
    Gemini,
    /// Chat of Ollama.
    Ollama,
    /// Model of the MCP client that makes the call, by sampling.
    Client,
}

/// Limits on what models cost. The most that a call can cost is reserved before it is sent.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BudgetPlace {
    /// US dollars of one call.
    #[schemars(extend("x-default" = "none", "examples" = [0.5]))]
    pub(crate) call_usd: Option<f64>,
    /// Tokens of one call, of request and answer.
    #[schemars(extend("x-default" = "none", "examples" = [100_000]))]
    pub(crate) call_tokens: Option<u64>,
    /// US dollars of one session.
    #[schemars(extend("x-default" = "none", "examples" = [5]))]
    pub(crate) session_usd: Option<f64>,
    /// Tokens of one session.
    #[schemars(extend("x-default" = "none", "examples" = [2_000_000]))]
    pub(crate) session_tokens: Option<u64>,
    /// US dollars of one day, of all processes of a state together.
    #[schemars(extend("x-default" = "none", "examples" = [10]))]
    pub(crate) day_usd: Option<f64>,
    /// Tokens of one day.
    #[schemars(extend("x-default" = "none", "examples" = [5_000_000]))]
    pub(crate) day_tokens: Option<u64>,
    /// US dollars of one workspace, over all time.
    #[schemars(extend("x-default" = "none", "examples" = [100]))]
    pub(crate) project_usd: Option<f64>,
    /// Tokens of one workspace, over all time.
    #[schemars(extend("x-default" = "none", "examples" = [50_000_000]))]
    pub(crate) project_tokens: Option<u64>,
}

impl ProviderPlace {
    fn source(self) -> Result<ModelSource, String> {
        let wire = match self.api {
            Api::Openai => WireFormat::OpenAi,
            Api::OpenaiCompatible => WireFormat::OpenAiCompatible,
            Api::Anthropic => WireFormat::Anthropic,
            Api::Gemini => WireFormat::Gemini,
            Api::Ollama => WireFormat::Ollama,
            Api::Client if self.url.is_none() && self.key.is_none() => return Ok(ModelSource::Caller),
            Api::Client => return Err("a client's own model has neither `url` nor `key`".to_owned()),
        };
        ModelProvider::new(wire, self.url, self.key).map(ModelSource::Server)
    }
}

/// Creates the models of a configuration.
///
/// # Errors
/// If a provider, a route or a limit is none.
pub(crate) fn models(
    place: Option<ModelsPlace>,
    embeddings: Option<Embeddings>,
) -> Result<Arc<Models>, Failure> {
    let Some(place) = place else { return Ok(Arc::new(Models::default().with_embeddings(embeddings))) };
    let mut providers = BTreeMap::new();
    for (name, provider) in place.providers {
        let provider = provider
            .source()
            .map_err(|problem| Failure::usage(format!("`models.providers.{name}`: {problem}")))?;
        if name.is_empty() || name.contains('/') {
            return Err(Failure::usage(format!(
                "`models.providers`: the name `{name}` is empty or has a slash"
            )));
        }
        providers.insert(name, provider);
    }
    let mut routes = Routes::default();
    for (task, models) in place.routes {
        match TaskType::of_word(&task) {
            Some(TaskType::Embedding) => {
                return Err(Failure::usage("`models.routes.embedding`: vectors are those of `embeddings`"));
            }
            Some(task) => drop(routes.by_task.insert(task, models)),
            None if task == "usual" => routes.usual = models,
            None => {
                return Err(Failure::usage(format!(
                    "`models.routes.{task}` is no type of task; types are planning, coding, analysis, simple and usual"
                )));
            }
        }
    }
    let budget = place.budget.unwrap_or_default();
    let limit = |name: &str, dollars: Option<f64>, tokens| {
        let money = dollars.map(|dollars| money(name, dollars)).transpose()?;
        Ok::<_, Failure>(Limit { money, tokens })
    };
    let limits = ModelLimits {
        call: limit("call_usd", budget.call_usd, budget.call_tokens)?,
        session: limit("session_usd", budget.session_usd, budget.session_tokens)?,
        shared: SharedLimits {
            day: limit("day_usd", budget.day_usd, budget.day_tokens)?,
            project: limit("project_usd", budget.project_usd, budget.project_tokens)?,
        },
    };
    let models = Models::new(providers, routes, limits)
        .map_err(|problem| Failure::usage(format!("`models.routes`: {problem}")))?;
    Ok(Arc::new(models.with_embeddings(embeddings)))
}

fn money(name: &str, dollars: f64) -> Result<Usd, Failure> {
    let parsed =
        (dollars.is_finite() && dollars >= 0.0).then(|| Usd::parse(&format!("{dollars:.6}"))).flatten();
    parsed.ok_or_else(|| Failure::usage(format!("`models.budget.{name}`: {dollars} is no amount of dollars")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Arc<Models>, String> {
        let place = serde_json::from_str(text).unwrap();
        models(Some(place), None).map_err(|failure| failure.error.to_string())
    }

    #[test]
    fn what_is_no_provider_route_or_limit_is_named() {
        let local = r#""local": {"api": "ollama"}"#;
        assert!(
            read(&format!(r#"{{"providers": {{{local}}}, "routes": {{"usual": ["local/small"]}}}}"#)).is_ok()
        );
        for (text, told) in [
            (
                r#"{"providers": {"a": {"api": "openai_compatible"}}}"#.to_owned(),
                "models.providers.a`: `url`",
            ),
            (
                r#"{"providers": {"a": {"api": "openai", "url": "http://api.example.com"}}}"#.to_owned(),
                "use https",
            ),
            (r#"{"providers": {"a/b": {"api": "openai"}}}"#.to_owned(), "slash"),
            (r#"{"providers": {"a": {"api": "client", "key": "k"}}}"#.to_owned(), "neither `url` nor `key`"),
            (
                format!(r#"{{"providers": {{{local}}}, "routes": {{"thinking": []}}}}"#),
                "models.routes.thinking",
            ),
            (format!(r#"{{"providers": {{{local}}}, "routes": {{"embedding": []}}}}"#), "embeddings"),
            (
                format!(
                    r#"{{"providers": {{{local}, "b": {{"api": "openai"}}}}, "routes": {{"usual": ["x/small"]}}}}"#
                ),
                "x/small",
            ),
            (format!(r#"{{"providers": {{{local}}}, "budget": {{"call_usd": -1}}}}"#), "call_usd"),
            (format!(r#"{{"providers": {{{local}}}, "budget": {{"day_usd": -1}}}}"#), "day_usd"),
            (format!(r#"{{"providers": {{{local}}}, "budget": {{"project_usd": 1e30}}}}"#), "project_usd"),
        ] {
            let problem = read(&text).err().unwrap();
            assert!(problem.contains(told), "{text}: {problem}");
        }
    }
}
