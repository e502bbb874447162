//! The tools for agents over the trees of this process.

use std::sync::Arc;
use std::time::Duration;

use agents::AgentDefinition;
use engine::{Allowance, Ceiling, Door, Internal};
use llm::Capability;
use policy::{Origin, ProfileSource, Source, Trust};
use serde_json::Value;
use store_api::{AgentRow, Priority};
use tool::{BoxFuture, Code, Context, SessionId, Stop, ToolError};
use tools_agents::{
    AgentHost, AgentMail, AgentMessage, AgentOverview, AskedAgent, CreatedAgent, ListedAgent, MAIN_AGENT,
    SwitchedModel, WantedAgent,
};

use crate::agent_runtime::asker::ParentQuestions;
use crate::agent_runtime::child::Child;
use crate::agent_runtime::mailbox::{Letter, Mailbox, Post};
use crate::agent_runtime::record::{AgentRecord, new_id, new_row, stored_text};
use crate::agent_runtime::runtime::AgentRuntime;
use crate::agent_runtime::start::AgentPlan;
use crate::agent_runtime::tree::{
    AgentTree, DEEPEST, LiveAgent, ParentAnswer, begun, caller, envelope, now, shown_address,
};
use crate::failure::Failure;

/// Time within which a message must be read.
const VALID: Duration = Duration::from_mins(10);

/// The tree as the tools know it.
pub(crate) struct Host(pub(crate) Arc<AgentTree>);

impl AgentHost for Host {
    fn create<'a>(
        &'a self,
        context: &'a Context,
        wanted: WantedAgent,
    ) -> BoxFuture<'a, Result<CreatedAgent, ToolError>> {
        Box::pin(self.created(context, wanted))
    }

    fn ask<'a>(
        &'a self,
        context: &'a Context,
        message: AgentMessage,
    ) -> BoxFuture<'a, Result<AskedAgent, ToolError>> {
        Box::pin(self.asked(context, message))
    }

    fn switch<'a>(
        &'a self,
        context: &'a Context,
        model: &'a str,
    ) -> BoxFuture<'a, Result<SwitchedModel, ToolError>> {
        Box::pin(self.switched(context, model))
    }

    fn list<'a>(
        &'a self,
        context: &'a Context,
        wait: Duration,
    ) -> BoxFuture<'a, Result<AgentOverview, ToolError>> {
        Box::pin(self.listed(context, wait))
    }
}

/// Converts a failure to prepare an agent.
fn wrong(failure: &Failure) -> ToolError {
    let code = if failure.exit_code == 2 { Code::Validation } else { Code::Runtime };
    ToolError::new(code, failure.error.to_string())
}

impl Host {
    async fn created(&self, context: &Context, wanted: WantedAgent) -> Result<CreatedAgent, ToolError> {
        let tree = &self.0;
        let parts = tree.runtime()?;
        let above = caller(&parts.engine, context)?;
        let parent = tree.agent(&context.session.0);
        let root = tree.root_of(&context.session);
        let depth = parent.as_ref().map_or(0, |parent| parent.depth) + 1;
        if depth > DEEPEST {
            let message = format!("an agent below {DEEPEST} others starts no further one");
            return Err(ToolError::new(Code::Quota, message).hint("do the work yourself, or report it"));
        }
        let mut caps = vec![Capability::Tools];
        for word in &wanted.caps {
            let known = Capability::of_word(word);
            let words = || Capability::ALL.map(Capability::word).join(", ");
            caps.push(known.ok_or_else(|| {
                ToolError::validation("require_caps", format!("`{word}` is none of {}", words()))
            })?);
        }
        let id = new_id();
        let mut ceiling = Ceiling::default();
        if let Some(config) = wanted.sandbox_config {
            ceiling = ceiling.with_policy(self.narrowed(&parts, config).await?);
        }
        let above_ceiling = above.ceiling().clone();
        let mut principal = above.on_behalf(SessionId(id.clone()), &ceiling);
        principal = principal.spending(&id, Allowance::default(), now());
        principal.door = Door::Internal(Internal::Agent);
        principal.parent = Some(context.call.clone());
        let own_memory = || format!("on behalf {id}").into();
        principal.memory = Some(if wanted.shared_memory { above.memory_name() } else { own_memory() });
        let human = tree.human_of(&root);
        principal.asker = human.clone();
        let (session, accounts) = match &parent {
            Some(parent) => (parent.model.session.clone(), parent.model.accounts.clone()),
            None => (root.clone(), Vec::new()),
        };
        let questions = ParentQuestions {
            tree: tree.clone(),
            engine: parts.engine.clone(),
            agent: id.clone(),
            above: above_ceiling,
            human,
            one: Arc::default(),
        };
        let plan = AgentPlan {
            id: id.clone(),
            definition: AgentDefinition {
                caps,
                instructions: INSTRUCTIONS.to_owned(),
                ..AgentDefinition::default()
            },
            model: wanted.model,
            max_steps: None,
            session,
            accounts,
            questions: Some(questions),
        };
        let ready = parts.ready(plan, principal).await.map_err(|failure| wrong(&failure))?;
        let model = ready.model_name.clone();
        let live = Arc::new(LiveAgent {
            id: id.clone(),
            parent: context.session.0.clone(),
            root: root.clone(),
            depth,
            task: wanted.task.clone(),
            since: now(),
            identity: ready.model.identity.clone(),
            model: ready.model.clone(),
            stop: Stop::default(),
            status: begun(),
        });
        let running = tree.add(live.clone())?;
        let row = AgentRow {
            parent: Some(context.session.0.clone()),
            task: stored_text(&wanted.task),
            model: model.clone(),
            created_by: context.call.0.clone(),
            ..new_row(&id, &parts.workspace, &format!("process {}", std::process::id()))
        };
        let record =
            AgentRecord::create(parts.store.clone(), row).await.map_err(|failure| wrong(&failure))?;
        let mailbox = Mailbox::new(Post::of(&parts, tree), id.clone(), root.clone());
        tokio::spawn(Child { live, ready, record, mailbox, running }.live());
        Ok(CreatedAgent { id, model })
    }

    /// Compiles the rules that a caller gives its agent. They are those of a file that nobody trusts: each can
    /// narrow the rules in force, and none can widen them.
    async fn narrowed(&self, parts: &AgentRuntime, config: Value) -> Result<Arc<policy::Policy>, ToolError> {
        let invalid = |problem: String| ToolError::validation("sandbox_config", problem);
        let config = rules_of(config).map_err(invalid)?;
        let profile = parts.engine.profile_now();
        let profiles = [(profile.clone(), config)].into();
        let source = Source::new(Origin::Ceiling, Trust::Untrusted, profiles);
        let (reload, store) = (parts.reload.clone(), parts.store.clone());
        let compiled =
            tokio::task::spawn_blocking(move || reload.policy_with(store.as_ref(), &profile, Some(source)));
        let compiled = compiled.await.map_err(|_| ToolError::internal("the rules were not compiled"))?;
        Ok(Arc::new(compiled.map_err(|failure| invalid(failure.error.to_string()))?))
    }

    async fn asked(&self, context: &Context, message: AgentMessage) -> Result<AskedAgent, ToolError> {
        let tree = &self.0;
        let parts = tree.runtime()?;
        let (own, root) = (context.session.0.clone(), tree.root_of(&context.session));
        let to = self.address(&parts, &message.to, &root).await?;
        if to == own {
            return Err(ToolError::validation("agent_id", "an agent cannot ask itself"));
        }
        let kind = check_envelope(&message.text)?;
        let is_below = tree.agent(&to).is_some_and(|agent| agent.parent == own);
        if is_below && (kind.as_deref() == Some(RESPONSE) || tree.has_question(&to)) {
            return self.answered_question(&parts, &own, &root, &to, &message.text).await;
        }
        if kind.as_deref() == Some(RESPONSE) {
            return Err(ToolError::new(Code::NotFound, "this agent has no open approval_request")
                .hint("agent_list shows the messages to you"));
        }
        if kind.as_deref() == Some(RESULT)
            && let Some(agent) = tree.agent(&own)
        {
            agent.status.lock().has_reported = true;
        }
        let is_main = to == root;
        let is_request = kind.as_deref() == Some(REQUEST);
        let letter = |valid| Letter {
            from: own.clone(),
            to: to.clone(),
            text: message.text.clone(),
            priority: if message.is_urgent { Priority::High } else { Priority::Standard },
            valid,
        };
        if is_main && is_request {
            let _waiting = tree.wait_for(&own, &to, &root)?;
            let answer = tree.open_question(&own);
            Post::of(&parts, &self.0).send(letter(Some(VALID))).await?;
            let answer = tokio::time::timeout(context.timeout.min(VALID), answer).await;
            tree.forget_question(&own);
            let Ok(Ok(answer)) = answer else {
                return Err(ToolError::new(Code::Timeout, "the main agent gave no answer in time")
                    .hint("go on without the permission, or ask later"));
            };
            let status = if answer.is_approved { "approved" } else { "denied" };
            return self.with_mail(&parts, &own, &root, status, answer.reason).await;
        }
        if is_main {
            Post::of(&parts, &self.0).send(letter(None)).await?;
            return self.with_mail(&parts, &own, &root, "delivered", None).await;
        }
        let _waiting = tree.wait_for(&own, &to, &root)?;
        let wake = tree.wake_of(&own);
        let mail = Post::of(&parts, &self.0).send(letter(Some(VALID))).await?;
        let timeout = tokio::time::sleep(context.timeout.saturating_sub(Duration::from_secs(1)));
        tokio::pin!(timeout);
        let answer = loop {
            let rung = wake.notified();
            if let Some(answer) = Post::of(&parts, &self.0).take_answer(mail, &own).await? {
                break answer;
            }
            if tree.agent(&to).is_none_or(|agent| !agent.status.lock().state.is_open()) {
                return Err(has_ended(&to, None));
            }
            context.stop.check()?;
            tokio::select! {
                () = rung => {}
                // A bell may have rung for the loop of the caller instead, and the receiver may end.
                () = tokio::time::sleep(Duration::from_millis(200)) => {}
                () = &mut timeout => {
                    return Err(ToolError::new(Code::Timeout, "the agent has not answered yet")
                        .hint("its answer comes as a message later"));
                }
            }
        };
        self.with_mail(&parts, &own, &root, "answered", Some(answer)).await
    }

    /// Returns the address of an agent of the caller's tree.
    async fn address(&self, parts: &AgentRuntime, id: &str, root: &str) -> Result<String, ToolError> {
        if id == MAIN_AGENT {
            return Ok(root.to_owned());
        }
        let of_tree = self.0.of_tree(root);
        if let Some(agent) = of_tree.iter().find(|agent| agent.id == id) {
            let status = agent.status.lock().clone();
            if status.state.is_open() {
                return Ok(id.to_owned());
            }
            return Err(has_ended(id, status.outcome.as_deref()));
        }
        let (store, wanted) = (parts.store.clone(), id.to_owned());
        let row = crate::agent_runtime::record::blocking(move || store.agents().find(&wanted)).await;
        if let Ok(Some(row)) = row
            && row.workspace == parts.workspace
            && !row.state.is_open()
        {
            return Err(has_ended(id, row.outcome.as_deref()));
        }
        let known: Vec<&str> = of_tree.iter().map(|agent| agent.id.as_str()).collect();
        let hint = match tool::nearest(id, known.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None => "agent_list shows the agents that you can ask; 0 is the main agent".to_owned(),
        };
        Err(ToolError::new(Code::NotFound, format!("there is no agent {id} in your tree")).hint(hint))
    }

    /// Answers the open question of an agent below the caller.
    async fn answered_question(
        &self,
        parts: &AgentRuntime,
        own: &str,
        root: &str,
        to: &str,
        text: &str,
    ) -> Result<AskedAgent, ToolError> {
        let (is_approved, reason) = decision_of(text).ok_or_else(|| {
            ToolError::validation("message", "the agent waits for a decision about its approval_request")
                .hint("answer with {\"type\": \"approval_response\", \"approved\": true} or false, and a `reason`")
        })?;
        let by = format!("agent {}", shown_address(own, root));
        let sent = self
            .0
            .take_question(to)
            .map(|question| question.send(ParentAnswer { is_approved, by, reason }).is_ok());
        if sent != Some(true) {
            return Err(ToolError::new(Code::NotFound, "this agent has no open approval_request any more")
                .hint("a human may have answered it"));
        }
        self.with_mail(parts, own, root, if is_approved { "approved" } else { "denied" }, None).await
    }

    /// Returns an outcome with the messages for the caller. The loop of an agent of this process takes its
    /// messages itself.
    async fn with_mail(
        &self,
        parts: &AgentRuntime,
        own: &str,
        root: &str,
        status: &'static str,
        answer: Option<String>,
    ) -> Result<AskedAgent, ToolError> {
        let messages = self.mail_of(parts, own, root).await?;
        Ok(AskedAgent { status, answer, messages })
    }

    async fn mail_of(
        &self,
        parts: &AgentRuntime,
        own: &str,
        root: &str,
    ) -> Result<Vec<AgentMail>, ToolError> {
        if self.0.has_loop(own) {
            return Ok(Vec::new());
        }
        let rows = Post::of(parts, &self.0).take_all(own).await?;
        let mail = rows
            .into_iter()
            .map(|row| AgentMail { from: shown_address(&row.from, root).to_owned(), text: row.body });
        Ok(mail.collect())
    }

    async fn switched(&self, context: &Context, model: &str) -> Result<SwitchedModel, ToolError> {
        let tree = &self.0;
        let Some(agent) = tree.agent(&context.session.0) else {
            return Err(ToolError::new(
                Code::Unavailable,
                "your model is chosen by your client, and not here",
            )
            .hint("create_agent starts an agent with another model"));
        };
        let parts = tree.runtime()?;
        let own = agent.model.clone();
        let (name, _) = own.preferred(Some(model))?;
        let profile = agent.identity.bind(&parts, &name).await.map_err(|failure| wrong(&failure))?;
        let before = own.named.lock().replace(name.clone());
        let before = before.map_or_else(|| own.preferred(None).map(|(name, _)| name), Ok)?;
        Ok(SwitchedModel { model: name, before, profile })
    }

    async fn listed(&self, context: &Context, wait: Duration) -> Result<AgentOverview, ToolError> {
        let tree = &self.0;
        let parts = tree.runtime()?;
        let (own, root) = (context.session.0.clone(), tree.root_of(&context.session));
        let wake = tree.wake_of(&own);
        let until = tokio::time::sleep(wait);
        tokio::pin!(until);
        let mail = loop {
            let rung = wake.notified();
            // An agent sends its messages before it no longer works.
            let works = tree.works_below(&root);
            let mail = self.mail_of(&parts, &own, &root).await?;
            if !mail.is_empty() || !works || wait.is_zero() || tree.has_loop(&own) {
                break mail;
            }
            context.stop.check()?;
            tokio::select! {
                () = rung => {}
                () = tokio::time::sleep(Duration::from_millis(500)) => {}
                () = &mut until => break Vec::new(),
            }
        };
        let shown = tree.of_tree(&root).into_iter().filter(|agent| agent.id != root).map(|agent| {
            let status = agent.status.lock().clone();
            ListedAgent {
                id: agent.id.clone(),
                parent: shown_address(&agent.parent, &root).to_owned(),
                state: status.state.as_str(),
                task: stored_text(&agent.task),
                model: agent.model_name(),
                outcome: status.outcome,
            }
        });
        Ok(AgentOverview { agents: shown.collect(), messages: mail })
    }
}

/// Instructions of an agent that another one has started.
const INSTRUCTIONS: &str = "Another agent has given you the task. Your last answer is its result. Ask the main agent (agent_id 0) with ask_agent only about what you cannot find out yourself.";

/// Type of the envelope by which an agent asks for a permission.
const REQUEST: &str = "approval_request";
/// Type of the envelope that answers it.
const RESPONSE: &str = "approval_response";
/// Type of the envelope with the result of a task.
const RESULT: &str = "task_result";

fn has_ended(id: &str, outcome: Option<&str>) -> ToolError {
    let outcome = outcome.map(|outcome| format!(": {outcome}")).unwrap_or_default();
    ToolError::new(Code::Conflict, format!("the agent {id} has ended{outcome}"))
        .hint("start another one with create_agent")
}

/// Checks an envelope of a known type, and returns the type.
fn check_envelope(text: &str) -> Result<Option<String>, ToolError> {
    let Some((kind, value)) = envelope(text) else { return Ok(None) };
    let wrong =
        |what: &str| Err(ToolError::validation("message", format!("the envelope `{kind}` needs {what}")));
    match kind.as_str() {
        REQUEST => {
            let is_right =
                value["action"].is_string() && value["params"].is_object() && value["reason"].is_string();
            if !is_right {
                return wrong("`action` and `reason` as texts and `params` as an object");
            }
        }
        RESULT => {
            let data = &value["data"];
            let files = data["files_generated"].as_array();
            let is_right = value["status"].is_string()
                && data["summary"].is_string()
                && files.is_some_and(|files| files.iter().all(Value::is_string));
            if !is_right {
                return wrong("`status`, and `data` with `summary` and the array `files_generated`");
            }
        }
        _ => {}
    }
    Ok(Some(kind))
}

/// Returns the decision in an answer to a request, and its reason.
fn decision_of(text: &str) -> Option<(bool, Option<String>)> {
    if let Some((kind, value)) = envelope(text) {
        let is_approved = value["approved"].as_bool().filter(|_| kind == RESPONSE)?;
        return Some((is_approved, value["reason"].as_str().map(str::to_owned)));
    }
    match text.trim().to_lowercase().as_str() {
        "approve" | "approved" | "yes" => Some((true, None)),
        "deny" | "denied" | "no" => Some((false, None)),
        _ => None,
    }
}

/// Returns the rules in a `sandbox_config`: a profile, or one profile under its name, as the source has it.
fn rules_of(config: Value) -> Result<ProfileSource, String> {
    let mut config = config;
    if let Some(fields) = config.as_object()
        && fields.len() == 1
        && let Some((_, only)) = fields.iter().next()
        && only.is_object()
        && serde_json::from_value::<ProfileSource>(config.clone()).is_err()
    {
        config = only.clone();
    }
    serde_json::from_value(config).map_err(|error| error.to_string())
}
