//! `llm_call`: asks a model of language, chosen by the type of the task.

use std::sync::Arc;
use std::time::Instant;

use llm::{ChatRequest, Message, Part, Role, Route, TaskType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::{
    Class, Context, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool, ToolError,
};

use crate::embedding;
use crate::models::{Candidate, Models};
use crate::routing::{candidates, failed, router, tried};

/// Maximum number of messages in a prompt.
const MOST_MESSAGES: usize = 1_000;

/// The `llm_call` tool.
pub struct LlmCall(pub(crate) Arc<Models>);

/// Arguments of `llm_call`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Text, or messages `{"role": "user" or "assistant", "content": TEXT}`; for `embedding`, a text.
    prompt: Value,
    /// Type of the task, by which the model is chosen. `embedding` returns the vector of the prompt.
    #[serde(default)]
    task_type: Task,
    /// `PROVIDER/MODEL` to ask instead, without a fallback.
    #[serde(default)]
    model: Option<String>,
    /// Maximum number of tokens of the answer, thinking included.
    #[serde(default)]
    #[schemars(range(min = 1))]
    max_tokens: Option<u32>,
    /// Randomness.
    #[serde(default)]
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f64>,
    /// Instructions above the prompt.
    #[serde(default)]
    system_prompt: Option<String>,
}

// The variants have no doc comments: without them the schema is a plain list of names, which every
// provider accepts.
/// Type of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Task {
    Planning,
    Coding,
    Analysis,
    #[default]
    Simple,
    Embedding,
}

/// Result of `llm_call`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Text of the answer; for `embedding`, the vector as a JSON array.
    response: String,
    /// Model that answered, as `PROVIDER/MODEL`; for `embedding`, the name of the model.
    model_used: String,
    /// Tokens of the request and of the answer.
    tokens_used: Tokens,
    /// Cost of the answer in US dollars; absent if the price is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_estimate: Option<f64>,
    /// True if the answer ends at a limit, or the vector leaves out the end of the prompt.
    truncated: bool,
    /// Models that failed before, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tried: Vec<String>,
}

/// Tokens of an answer.
#[derive(Debug, Serialize, JsonSchema)]
struct Tokens {
    /// Tokens of the request.
    input: u64,
    /// Tokens of the answer.
    output: u64,
}

impl Tool for LlmCall {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "llm_call",
        title: "Ask a language model",
        description: "Ask a language model that the user configured or your client offers. The prompt leaves this machine unless the model runs here.",
        example: Example {
            files: &[],
            arguments: r#"{"prompt": "Say hello.", "task_type": "simple"}"#,
            result: r#"{"response": "Hello.", "model_used": "local/small", "tokens_used": {"input": 12, "output": 3}}"#,
        },
        level: Level::Safe,
        class: Class { reads_only: false, destructive: false, idempotent: false, open_world: true },
        timeout: Timeout::fixed(600),
        lane: Lane::Read,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        args.request()?;
        if args.task_type == Task::Embedding {
            args.text()?;
            embedding::model(&self.0)?;
            // The model is part of the runtime, like that of knowledge_search and memory.
            return Ok(Plan::of(Vec::new()));
        }
        let candidates = self.candidates(args)?;
        let (effects, login) = Models::effects(&candidates);
        Ok(Plan { login, ..Plan::of(effects) })
    }

    fn preview(&self, _context: &Context, args: &Args) -> Option<String> {
        let request = args.request().ok()?;
        let texts = request.system.into_iter().chain(request.messages.into_iter().flat_map(|message| {
            message
                .parts
                .into_iter()
                .filter_map(|part| if let Part::Text(text) = part { Some(text) } else { None })
        }));
        Some(texts.collect::<Vec<_>>().join("\n\n"))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let request = args.request()?;
        if args.task_type == Task::Embedding {
            args.warn_of_unused(context);
            let made = embedding::embed(context, &self.0, args.text()?, args.model.as_deref())?;
            return Ok(Output {
                response: made.json,
                model_used: made.model,
                tokens_used: Tokens { input: made.tokens, output: 0 },
                cost_estimate: made.cost,
                truncated: made.is_cut,
                tried: Vec::new(),
            });
        }
        let candidates = self.candidates(&args)?;
        let deadline = Instant::now() + context.timeout;
        let task = args.task_type.of_llm();
        let budget = self.0.budget(context, &context.session.0)?;
        let mut router = router(context, &candidates, deadline)?;
        (router.ledger, router.reserve) = (Some(budget.ledger), budget.shared);
        let route = Route { deadline: Some(deadline), account: budget.account, ..Route::of(task) };
        // A call returns the answer as a whole.
        let answer = router.chat(&route, &request, &mut |_: llm::Delta<'_>| {}, &context.stop).await;
        let routed = answer.map_err(|error| failed(&error))?;
        for field in &routed.response.omitted {
            context.warn(format!("{} does not take `{field}`, which was left out", routed.model));
        }
        Ok(Output {
            response: routed.response.text(),
            tokens_used: Tokens { input: routed.response.usage.input, output: routed.response.usage.output },
            cost_estimate: routed.cost.map(llm::Usd::dollars),
            truncated: matches!(routed.response.finish, llm::Finish::MaxTokens | llm::Finish::ContextFull),
            tried: tried(&routed.tried),
            model_used: routed.model,
        })
    }
}

impl LlmCall {
    fn candidates(&self, args: &Args) -> Result<Vec<Candidate<'_>>, ToolError> {
        candidates(&self.0, args.task_type.of_llm(), args.model.as_deref())
    }
}

impl Args {
    /// Returns the text of an embedding.
    fn text(&self) -> Result<&str, ToolError> {
        let text = self.prompt.as_str().ok_or_else(|| {
            ToolError::validation("prompt", "is an array of messages, which have no vector")
                .hint("give one text as `prompt`, and call once for each text")
        })?;
        if text.trim().is_empty() {
            return Err(ToolError::validation("prompt", "has no text"));
        }
        Ok(text)
    }

    /// Warns about arguments that a vector does not depend on.
    fn warn_of_unused(&self, context: &Context) {
        let given = [
            ("max_tokens", self.max_tokens.is_some()),
            ("temperature", self.temperature.is_some()),
            ("system_prompt", self.system_prompt.is_some()),
        ];
        for (name, _) in given.iter().filter(|(_, is_given)| *is_given) {
            context.warn(format!("a vector does not depend on `{name}`, which was left out"));
        }
    }

    fn request(&self) -> Result<ChatRequest, ToolError> {
        let wrong = || {
            ToolError::validation("prompt", "is neither a text nor an array of messages")
                .hint("a message is {\"role\": \"user\", \"content\": \"text\"}; `assistant` and `system` are the other roles")
        };
        let mut request = ChatRequest {
            system: self.system_prompt.clone(),
            temperature: self.temperature,
            max_tokens: self.max_tokens,
            ..ChatRequest::default()
        };
        let mut add = |role, text: &str| {
            request.messages.push(Message { role, parts: vec![Part::Text(text.to_owned())] });
        };
        match &self.prompt {
            Value::String(text) => add(Role::User, text),
            Value::Array(messages) if messages.len() <= MOST_MESSAGES => {
                let mut systems: Vec<String> = self.system_prompt.iter().cloned().collect();
                for message in messages {
                    let content = message["content"].as_str().ok_or_else(wrong)?;
                    match message["role"].as_str() {
                        Some("user") => add(Role::User, content),
                        Some("assistant") => add(Role::Assistant, content),
                        Some("system") => systems.push(content.to_owned()),
                        _ => return Err(wrong()),
                    }
                }
                request.system = Some(systems.join("\n\n")).filter(|text| !text.is_empty());
            }
            _ => return Err(wrong()),
        }
        if request.messages.is_empty() {
            return Err(ToolError::validation("prompt", "has no message"));
        }
        Ok(request)
    }
}

impl Task {
    fn of_llm(self) -> TaskType {
        match self {
            Self::Planning => TaskType::Planning,
            Self::Coding => TaskType::Coding,
            Self::Analysis => TaskType::Analysis,
            Self::Simple => TaskType::Simple,
            Self::Embedding => TaskType::Embedding,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use llm::{Limit, Routes, Usd, WireFormat};
    use serde_json::json;
    use spending::{SharedLimits, SpendingBook};
    use testkit::web::{Reply, Server};
    use tool::{Code, Effect, ErasedTool};

    use super::*;
    use crate::tests::{hello, local, runtime, workspace};
    use crate::{ModelLimits, ModelProvider, ModelSource};

    fn ask(models: &Arc<Models>, arguments: Value) -> Result<Value, ToolError> {
        let folder = tempfile::tempdir().unwrap();
        let workspace = workspace(runtime(folder.path()));
        let tokio =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let _entered = tokio.enter();
        testkit::run_in(ErasedTool::tool(LlmCall(models.clone())).as_ref(), &workspace.context(), arguments)
    }

    /// Returns models of two servers, the first preferred, under a limit for each call.
    fn two(first: &Server, second: &Server, call: Limit) -> Arc<Models> {
        let provider = |server: &Server| -> ModelSource {
            ModelProvider::new(WireFormat::OpenAiCompatible, Some(server.url("")), None).unwrap().into()
        };
        let providers = [("a".to_owned(), provider(first)), ("b".to_owned(), provider(second))].into();
        let routes = Routes { usual: vec!["a/one".to_owned(), "b/two".to_owned()], ..Routes::default() };
        Arc::new(Models::new(providers, routes, ModelLimits { call, ..ModelLimits::default() }).unwrap())
    }

    #[test]
    fn the_prompt_arrives_as_messages_and_the_answer_has_the_fields_of_the_source() {
        let server = Server::http(|_| hello());
        let prompt =
            json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]);
        let answer = ask(
            &local(&server.url("/v1"), None),
            json!({"prompt": prompt, "temperature": 0.5, "max_tokens": 50, "system_prompt": "You greet.", "task_type": "coding"}),
        );
        let expected = json!({"response": "Hello.", "model_used": "local/small",
            "tokens_used": {"input": 12, "output": 3}, "truncated": false});
        assert_eq!(answer.unwrap(), expected, "no cost, because the price is unknown");
        let seen = server.seen();
        assert_eq!((seen.len(), seen[0].path.as_str()), (1, "/v1/chat/completions"));
        let body: Value = serde_json::from_slice(&seen[0].body).unwrap();
        assert_eq!(body["model"], "small");
        assert_eq!(body["messages"][0], json!({"role": "system", "content": "You greet.\n\nBe brief."}));
        assert_eq!(body["messages"][1]["role"], "user");
    }

    #[test]
    fn a_model_that_is_not_there_is_followed_by_the_next_and_both_are_told() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let broken = Server::http(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Reply::of(
                404,
                &[],
                r#"{"error": {"message": "there is no such model", "code": "model_not_found"}}"#,
            )
        });
        let good = Server::http(|_| hello());
        let unlimited = two(&broken, &good, Limit::default());
        let answer = ask(&unlimited, json!({"prompt": "Hello?", "model": "b/two"})).unwrap();
        assert_eq!((&answer["model_used"], asked.load(Ordering::SeqCst)), (&json!("b/two"), 0));
        let overloaded = Server::http(|_| Reply::of(429, &[("retry-after", "600")], "{}"));
        let answer = ask(&two(&overloaded, &good, Limit::default()), json!({"prompt": "Hello?"})).unwrap();
        assert_eq!(answer["model_used"], "b/two");
        assert!(answer["tried"][0].as_str().unwrap().starts_with("a/one: "), "{answer}");
    }

    #[test]
    fn refuses_what_is_no_prompt_no_model_or_over_budget_and_sends_nothing() {
        let server = Server::http(|_| hello());
        let models = local(&server.url(""), None);
        for (arguments, code, told) in [
            (json!({"prompt": 7}), Code::Validation, "`prompt`"),
            (json!({"prompt": []}), Code::Validation, "no message"),
            (json!({"prompt": [{"role": "robot", "content": "a"}]}), Code::Validation, "`prompt`"),
            (json!({"prompt": [{"role": "user", "content": 1}]}), Code::Validation, "`prompt`"),
            (json!({"prompt": "a", "task_type": "embedding"}), Code::Unavailable, "vectors"),
            (json!({"prompt": "a", "task_type": "poetry"}), Code::Validation, "poetry"),
            (json!({"prompt": "a", "temperature": 9}), Code::Validation, "temperature"),
        ] {
            let error = ask(&models, arguments.clone()).unwrap_err();
            assert_eq!(error.code, code, "{arguments}: {}", error.message);
            assert!(error.message.contains(told), "{arguments}: {}", error.message);
        }
        let none = ask(&Arc::default(), json!({"prompt": "a"})).unwrap_err();
        assert_eq!(none.code, Code::Unavailable, "{}", none.message);
        let tokens = Limit { tokens: Some(10), money: None };
        let over = ask(&two(&server, &server, tokens), json!({"prompt": "a", "max_tokens": 50})).unwrap_err();
        assert_eq!(over.code, Code::Quota, "{}", over.message);
        let money = Limit { money: Usd::parse("1"), tokens: None };
        let unpriced =
            ask(&two(&server, &server, money), json!({"prompt": "a", "max_tokens": 50})).unwrap_err();
        assert!(unpriced.message.contains("price"), "{}", unpriced.message);
        assert_eq!(server.seen().len(), 0);
    }

    #[test]
    fn a_session_spends_its_budget_over_all_of_its_calls() {
        let server = Server::http(|_| hello());
        let provider = ModelProvider::new(WireFormat::OpenAiCompatible, Some(server.url("")), None).unwrap();
        let session = Limit { tokens: Some(3_500), money: None };
        let limits = ModelLimits { session, ..ModelLimits::default() };
        let models = Arc::new(
            Models::new([("a".to_owned(), provider.into())].into(), Routes::default(), limits).unwrap(),
        );
        let arguments = json!({"prompt": "a", "model": "a/one", "max_tokens": 1_500});
        let mut asked = 0;
        let refused = loop {
            match ask(&models, arguments.clone()) {
                Ok(_) => asked += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.code, Code::Quota, "{}", refused.message);
        // Each call takes 15 tokens, and the next one must fit with its worst case.
        assert!((1..150).contains(&asked), "{asked}: {}", refused.message);
        assert_eq!(server.seen().len(), asked);
    }

    #[test]
    fn a_limit_of_the_day_is_kept_in_the_store_or_nothing_is_sent() {
        let server = Server::http(|_| hello());
        let provider = ModelProvider::new(WireFormat::OpenAiCompatible, Some(server.url("")), None).unwrap();
        let day = Limit { tokens: Some(4_000), money: None };
        let shared = SharedLimits { day, ..SharedLimits::default() };
        let limits = ModelLimits { shared, ..ModelLimits::default() };
        let new = || {
            let providers = [("a".to_owned(), provider.clone().into())].into();
            Arc::new(Models::new(providers, Routes::default(), limits).unwrap())
        };
        let arguments = |most: u32| json!({"prompt": "a", "model": "a/one", "max_tokens": most});
        let without = ask(&new(), arguments(10)).unwrap_err();
        assert_eq!((without.code, server.seen().len()), (Code::Unavailable, 0), "{}", without.message);
        let folder = tempfile::tempdir().unwrap();
        let ask = |most: u32| {
            let runtime = runtime(&folder.path().join("jobs"));
            let store = Arc::new(store_sqlite::SqliteStore::open(folder.path()).unwrap());
            let book = Arc::new(SpendingBook::new(store, "/w".into(), None));
            let workspace = workspace(runtime).with_service(book.clone());
            let tokio =
                tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            let _entered = tokio.enter();
            let context = workspace.context();
            let tool = ErasedTool::tool(LlmCall(new()));
            let answer = testkit::run_in(tool.as_ref(), &context, arguments(most));
            let spent = book.accounts(context.clock.now()).unwrap().map(|account| account.spent.tokens);
            (answer, spent)
        };
        assert!(ask(1_500).0.is_ok());
        // Another process, which is another `Models`, has what this one left.
        let (answer, spent) = ask(1_500);
        assert!(answer.is_ok());
        assert_eq!(spent, [30, 30]);
        let (refused, spent) = ask(3_950);
        let refused = refused.unwrap_err();
        assert_eq!((refused.code, server.seen().len(), spent), (Code::Quota, 2, [30, 30]));
        assert!(refused.message.contains("has 3970 left"), "{}", refused.message);
    }

    #[test]
    fn a_plan_names_every_host_and_key_that_may_be_asked() {
        let place = Place::at("/w".into());
        let tool = LlmCall(local("https://models.example.com/v1", Some("model_key")));
        let args: Args = serde_json::from_value(json!({"prompt": "a"})).unwrap();
        let plan = tool.plan(&args, &place).unwrap();
        let host = "models.example.com".to_owned();
        let connect = Effect::Connect {
            host: host.clone(),
            port: 443,
            method: Some("POST".to_owned()),
            only_asks: true,
        };
        assert_eq!(plan.effects, [connect, Effect::UseSecret { name: "model_key".to_owned(), host }]);
        assert_eq!(plan.login, ["model_key"]);
    }
}
