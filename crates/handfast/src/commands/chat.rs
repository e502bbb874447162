//! `handfast chat`: a conversation with an agent on the terminal.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agents::{AgentDefinition, Conversation, Inbox, TurnEnd, TurnReport};
use engine::Engine;
use llm::{Message, Usage, Usd};
use store_api::AgentState;
use tokio::task::AbortHandle;
use tool::{BoxFuture, Stop, StopReason, UndoRequest};

use super::checkpoints::{action, refused};
use super::run::{ChosenAgent, Unstored};
use super::{Failure, tokio_runtime};
use crate::agent_runtime::{AgentRecord, AgentRuntime, MainAgent, ReadyAgent, stored_text, turn};
use crate::chat::{Events, Facts, Need, Questions, Queue, Screen, Spent, State, Wish, has_colours};
use crate::cli::Global;
use crate::cli_agents::ChatArgs;
use crate::compose::{Composed, RuntimeOptions, compose};
use crate::host_environment::HostEnvironment;
use crate::report::{covered, note, warn};

/// Time that a turn has to end before the program ends without it.
const FAREWELL: Duration = Duration::from_secs(5);

pub(super) fn run(global: &Global, arguments: &ChatArgs) -> Result<ExitCode, Failure> {
    if global.no_input || !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return Err(Failure::usage(
            "a chat needs a terminal for its input and its output; use `handfast run` for a task without one",
        ));
    }
    let composed = compose(RuntimeOptions::once(global))?;
    let runtime = tokio_runtime()?;
    let ended = runtime.block_on(talk(&composed, arguments));
    runtime.shutdown_timeout(Duration::ZERO);
    composed.store.close()?;
    let code = ended?;
    if let Err(error) = composed.engine.prune_briefly() {
        warn(&format!("cannot remove old checkpoints and outputs: {error}"));
    }
    composed.close_traces();
    Ok(ExitCode::from(code))
}

async fn talk(composed: &Composed, arguments: &ChatArgs) -> Result<u8, Failure> {
    let parts = composed.agents();
    let chosen = ChosenAgent::of(composed, &parts, &arguments.which, "").await?;
    let budget = budget_of(chosen.definition());
    let (questions, queue) = (Arc::new(Questions::default()), Arc::new(Queue::default()));
    let (ready, unstored) = chosen.prepared(composed, &parts, questions.clone()).await?;
    let facts = Facts { model: ready.model_name.clone(), agent: unstored.row.name.clone(), budget };
    let colours = has_colours(&HostEnvironment::of_this_process());
    let mut state = State::new(facts, questions, queue.clone(), colours);
    // A conversation that nobody has begun is not stored, so that `--continue` finds the one before it.
    let (agent, unstored) = match unstored.earlier {
        Some(_) => (Some(Agent::open(unstored, composed, &parts, &ready).await?), None),
        None => (None, Some(unstored)),
    };
    let workspace = tool::path_text(&composed.workspace);
    match &agent {
        Some(agent) => {
            state.restore(&agent.conversation.messages());
            state.note(&format!("the conversation goes on in {workspace}"));
        }
        None => state.note(&format!("a new conversation in {workspace}; /help lists commands and keys")),
    }
    let events = Arc::new(Events::default());
    let screen = match Screen::open(state, events.clone()) {
        Ok(screen) => screen,
        Err(error) => {
            if let Some(agent) = agent {
                agent.end(false).await;
            }
            return Err(error.into());
        }
    };
    let mut chat =
        Chat { composed, parts, ready, queue, events, screen, agent, unstored, undone: Vec::new() };
    let ended = chat.live().await;
    let spent = chat.screen.state.spent();
    let Chat { screen, agent, .. } = chat;
    drop(screen);
    let was_used = agent.is_some();
    if let Some(agent) = agent {
        agent.end(matches!(ended, Ok(0))).await;
    }
    composed.engine.shutdown().await;
    if was_used {
        note(&farewell(spent));
    }
    ended
}

/// The durable part of the agent, while this process holds it.
struct Agent {
    record: Arc<AgentRecord>,
    /// The agent in the tree of those that it starts.
    main: MainAgent,
    conversation: Conversation,
    /// Requested if another process has taken the agent.
    lost: Stop,
    renewal: AbortHandle,
    /// Last text of the agent, for the row.
    outcome: TurnEnd,
}

impl Agent {
    async fn open(
        unstored: Unstored,
        composed: &Composed,
        parts: &AgentRuntime,
        ready: &ReadyAgent,
    ) -> Result<Self, Failure> {
        let task = unstored.row.task.clone();
        let (record, conversation) = unstored.open(composed).await?;
        let (record, lost) = (Arc::new(record), Stop::default());
        let main = parts.as_main(&composed.tree, ready, &record.id, &task, &lost)?;
        let kept = (record.clone(), lost.clone());
        let renewal = tokio::spawn(async move { kept.0.keep(&kept.1).await }).abort_handle();
        let outcome = TurnEnd::Answer(conversation.last_answer().unwrap_or_default());
        Ok(Self { record, main, conversation, lost, renewal, outcome })
    }

    /// Records the end of the conversation for now.
    async fn end(self, is_done: bool) {
        self.main.end().await;
        self.renewal.abort();
        let state = if is_done { AgentState::Done } else { AgentState::Stopped };
        let report = TurnReport {
            end: self.outcome,
            usage: Usage::default(),
            cost: Usd::ZERO,
            cost_is_partial: false,
            steps: 0,
            calls: 0,
        };
        if let Err(failure) = self.record.ended(&report, state).await {
            warn(&format!("cannot record the end of the conversation: {}", failure.error));
        }
    }
}

/// A chat that is open.
struct Chat<'a> {
    composed: &'a Composed,
    parts: AgentRuntime,
    ready: ReadyAgent,
    queue: Arc<Queue>,
    events: Arc<Events>,
    screen: Screen,
    agent: Option<Agent>,
    /// The agent before its first message.
    unstored: Option<Unstored>,
    /// Changes that the user has undone, and that the agent does not know of.
    undone: Vec<String>,
}

/// End of a turn, and of the chat if it ends with it.
struct TurnOver {
    report: Option<TurnReport>,
    code: Option<u8>,
}

impl Chat<'_> {
    /// Talks until the user ends it. Returns the exit code.
    async fn live(&mut self) -> Result<u8, Failure> {
        let mut next = None;
        loop {
            let message = match next.take() {
                Some(message) => message,
                None => match self.screen.next().await? {
                    Need::Ended(code) => return Ok(code),
                    Need::Wish(Wish::End) => return Ok(0),
                    Need::Wish(Wish::Send(message)) => message,
                    Need::Wish(wish) => {
                        self.carry_out(wish).await;
                        continue;
                    }
                },
            };
            let over = self.turn(message).await?;
            if let Some(report) = &over.report {
                next = self.screen.state.turn_ends(report);
            }
            if let Some(code) = over.code {
                return Ok(code);
            }
        }
    }

    /// Carries out a wish that begins no turn.
    async fn carry_out(&mut self, wish: Wish) {
        match wish {
            Wish::Model(name) => switch(&self.ready, &self.parts, &mut self.screen.state, &name).await,
            Wish::Undo => match undo(&self.composed.engine).await {
                Ok(Some((what, told))) => {
                    self.screen.state.note(&told);
                    self.undone.push(what);
                }
                Ok(None) => self.screen.state.note("there is no change in this workspace that is not undone"),
                Err(failure) => self.screen.state.error(&failure.error.to_string()),
            },
            Wish::Send(_) | Wish::Stop | Wish::End => {}
        }
    }

    /// Runs a turn while the screen lives.
    async fn turn(&mut self, message: String) -> Result<TurnOver, Failure> {
        if let Some(mut unstored) = self.unstored.take() {
            unstored.row.task = stored_text(&message);
            self.agent = Some(Agent::open(unstored, self.composed, &self.parts, &self.ready).await?);
        }
        let Some(agent) = &mut self.agent else { return Err(Failure::from("there is no agent")) };
        self.screen.state.turn_begins(&message, Instant::now());
        let undone = std::mem::take(&mut self.undone).into_iter();
        let undone: String =
            undone.map(|what| format!("[The user has undone this change: {what}]\n")).collect();
        let stop = Stop::default();
        let stopped = stop.clone();
        agent.lost.on_request(move |reason| stopped.request(reason));
        agent.record.working().await;
        let over = {
            let message = Message::user(covered(&format!("{undone}{message}")).into_owned());
            let inbox = Arrivals { queue: &self.queue, main: &agent.main };
            let turn = turn(&self.ready, &*agent.record, &inbox, self.events.clone(), stop.clone());
            let (events, conversation) = (&self.events, &mut agent.conversation);
            let working = async {
                let mut report = turn.run(conversation, Some(message)).await;
                // Results of agents below may change the answer.
                while matches!(report.end, TurnEnd::Answer(_)) && stop.requested().is_none() {
                    events.waits();
                    let goes_on = tokio::select! {
                        has_mail = inbox.main.awaits_messages(&stop) => has_mail,
                        () = inbox.queue.arrives() => true,
                    };
                    if !goes_on {
                        break;
                    }
                    report = turn.run(conversation, None).await.after(&report);
                }
                report
            };
            tokio::pin!(working);
            let mut code = None;
            let mut is_over = Box::pin(tokio::time::sleep(Duration::MAX));
            loop {
                let need = tokio::select! {
                    report = &mut working => break TurnOver { report: Some(report), code },
                    () = &mut is_over => break TurnOver { report: None, code },
                    need = self.screen.next() => need?,
                };
                match need {
                    Need::Wish(Wish::Model(name)) => {
                        switch(&self.ready, &self.parts, &mut self.screen.state, &name).await;
                    }
                    Need::Wish(Wish::Stop) => {
                        stop.request(StopReason::Cancelled);
                        self.composed.tree.stop_below(&agent.record.id);
                    }
                    Need::Wish(Wish::Send(_) | Wish::Undo) => {}
                    // A second end does not wait for the first one.
                    Need::Wish(Wish::End) | Need::Ended(_) if code.is_some() => {
                        break TurnOver { report: None, code };
                    }
                    Need::Wish(Wish::End) => code = Some(0),
                    Need::Ended(signal) => code = Some(signal),
                }
                if code.is_some() {
                    stop.request(StopReason::Cancelled);
                    is_over.as_mut().reset(tokio::time::Instant::now() + FAREWELL);
                }
            }
        };
        self.screen.take_events();
        if let Some(report) = &over.report {
            agent.outcome = report.end.clone();
            // A turn that has failed does not end the conversation.
            if let Err(failure) = agent.record.ended(report, AgentState::Idle).await {
                self.screen.state.error(&format!("cannot record the end of the turn: {}", failure.error));
            }
        }
        Ok(over)
    }
}

/// Asks another model from now on, if there is one of this name that can do what the agent needs.
async fn switch(ready: &ReadyAgent, parts: &AgentRuntime, state: &mut State, name: &str) {
    let model = &ready.model;
    let (name, _) = match model.preferred(Some(name)) {
        Ok(found) => found,
        Err(error) => return state.error(&error.message),
    };
    // The provider can be bound to a profile, which holds in addition from now on.
    if let Err(failure) = model.identity.bind(parts, &name).await {
        return state.error(&failure.error.to_string());
    }
    *model.named.lock() = Some(name.clone());
    state.set_model(name);
}

/// Arrivals for the agent: messages of agents, and what the user types.
struct Arrivals<'a> {
    queue: &'a Queue,
    main: &'a MainAgent,
}

impl Inbox for Arrivals<'_> {
    fn take(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async move {
            let mut messages = self.main.mailbox.take().await;
            messages.extend(self.queue.take().await);
            messages
        })
    }
}

/// Returns the budget of an agent in words.
fn budget_of(definition: &AgentDefinition) -> String {
    let money = definition.budget_usd.map(|dollars| format!("{dollars:.2} USD"));
    let tokens = definition.budget_tokens.map(|tokens| format!("{tokens} tokens"));
    money.into_iter().chain(tokens).collect::<Vec<_>>().join(", ")
}

/// Undoes the newest change. Returns what it was, and a text about it.
async fn undo(engine: &Engine) -> Result<Option<(String, String)>, Failure> {
    let Some(last) = engine.last_change().map_err(|error| refused(&error))? else { return Ok(None) };
    let what = action(&last);
    let request =
        UndoRequest { checkpoint: last.summary.id, and_later: false, paths: Vec::new(), force: Vec::new() };
    let undone = engine.undo(&request).await.map_err(|error| refused(&error))?;
    let notes: String = undone.notes.iter().map(|line| format!("\n{line}")).collect();
    Ok(Some(match undone.checkpoint {
        Some(id) => (what.clone(), format!("undone: {what}; `handfast undo {id}` undoes this{notes}")),
        None => (what, format!("there was nothing to undo{notes}")),
    }))
}

/// Returns the line after the end.
fn farewell(spent: Spent) -> String {
    let cost = if spent.cost > Usd::ZERO {
        let least = if spent.is_partial { "at least " } else { "" };
        format!(", {least}{:.4} US dollars", spent.cost.dollars())
    } else {
        String::new()
    };
    format!(
        "`handfast chat --continue` goes on; {} requests to the model, {} calls, {} tokens in, {} out{cost}",
        spent.steps, spent.calls, spent.usage.input, spent.usage.output
    )
}
