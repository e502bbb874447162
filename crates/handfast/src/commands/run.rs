//! `handfast run`: an agent carries out a task.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agents::{AgentDefinition, AgentEvent, Conversation, Observer, TurnEnd, TurnReport};
use engine::{Asker, Door, Internal, Principal};
use llm::{Delta, Message};
use parking_lot::Mutex;
use serde_json::{Value, json};
use store_api::AgentRow;
use tool::{SessionId, Stop, StopReason, visible, visible_lines};

use super::call::{asker, read_text};
use super::{Failure, print, tokio_runtime};
use crate::agent_runtime::{
    AgentPlan, AgentRecord, AgentRuntime, ReadyAgent, StoredLimits, Work, expire, new_id, new_row,
    state_after, stored_text,
};
use crate::cli::Global;
use crate::cli_agents::{RunArgs, WhichAgent};
use crate::compose::{Composed, RuntimeOptions, compose};
use crate::report::{counted, covered, note, warn};
use crate::signals::until_done;
use crate::terminal::ProgressLine;

/// Maximum number of characters of a call on its line.
const LINE: usize = 100;

pub(super) fn run(global: &Global, arguments: &RunArgs) -> Result<ExitCode, Failure> {
    let task = read_text(&arguments.task)?;
    if task.trim().is_empty() {
        return Err(Failure::usage("the task is empty; say what the agent should do"));
    }
    let composed = compose(RuntimeOptions::once(global))?;
    let runtime = tokio_runtime()?;
    let ended = runtime.block_on(carry_out(&composed, global, arguments, &task));
    // A question at the terminal blocks its thread until a line is typed.
    runtime.shutdown_timeout(Duration::ZERO);
    composed.store.close()?;
    let code = ended?;
    if let Err(error) = composed.engine.prune_briefly() {
        warn(&format!("cannot remove old checkpoints and outputs: {error}"));
    }
    composed.close_traces();
    Ok(code)
}

async fn carry_out(
    composed: &Composed,
    global: &Global,
    arguments: &RunArgs,
    task: &str,
) -> Result<ExitCode, Failure> {
    let parts = composed.agents();
    let chosen = ChosenAgent::of(composed, &parts, &arguments.which, task).await?;
    let line = ProgressLine::new().filter(|_| !arguments.json);
    let asker = asker(global, arguments.yes, line);
    let (ready, record, mut conversation) = chosen.ready(composed, &parts, asker).await?;
    let view = Arc::new(View::new(arguments.json));
    let stop = Stop::default();
    let main = parts.as_main(&composed.tree, &ready, &record, task, &stop)?;
    let work =
        Work { ready: &ready, record: &record, main: &main, observer: view.clone(), stop: stop.clone() };
    let working = work.answer(&mut conversation, Message::user(covered(task).into_owned()));
    let (report, signalled) = until_done(working, || {
        note("stopping; once more ends the program at once");
        stop.request(StopReason::Cancelled);
    })
    .await?;
    record.ended(&report, state_after(&report.end)).await?;
    main.end().await;
    composed.engine.shutdown().await;
    view.end(&report)?;
    Ok(signalled.map_or_else(|| exit_code(&report.end), ExitCode::from))
}

/// The agent of a run before it is ready: a new one, or one that goes on.
pub(super) struct ChosenAgent {
    definition: AgentDefinition,
    model: Option<String>,
    max_steps: Option<u32>,
    earlier: Option<AgentRow>,
    task: String,
}

impl ChosenAgent {
    /// Finds the agent that the command line names.
    pub(super) async fn of(
        composed: &Composed,
        parts: &AgentRuntime,
        which: &WhichAgent,
        task: &str,
    ) -> Result<Self, Failure> {
        let (store, workspace) = (composed.store.clone(), composed.workspace.clone());
        let name = which.agent.clone();
        let earlier = if which.resume {
            let found = tokio::task::spawn_blocking(move || {
                expire(store.as_ref(), &workspace)?;
                store.agents().latest(&workspace, name.as_deref())
            });
            let found = found.await??;
            Some(found.ok_or_else(|| {
                Failure::usage("there is no earlier run to go on with; leave out --continue")
            })?)
        } else {
            None
        };
        let name = which
            .agent
            .clone()
            .or_else(|| earlier.as_ref().map(|row| row.name.clone()).filter(|name| !name.is_empty()));
        let definition = match name {
            Some(name) => {
                let found = parts.files.find(&name)?;
                let wrong = |fault| Failure::usage(format!("{}: {fault}", found.file.display()));
                found.definition.map_err(wrong)?
            }
            None => AgentDefinition::default(),
        };
        Ok(Self {
            definition,
            model: which.model.clone(),
            max_steps: which.max_steps,
            earlier,
            task: task.to_owned(),
        })
    }

    /// Returns the settings and instructions.
    pub(super) fn definition(&self) -> &AgentDefinition {
        &self.definition
    }

    /// Prepares the agent, and stores it.
    pub(super) async fn ready(
        self,
        composed: &Composed,
        parts: &AgentRuntime,
        asker: Arc<dyn Asker>,
    ) -> Result<(ReadyAgent, AgentRecord, Conversation), Failure> {
        let (ready, stored) = self.prepared(composed, parts, asker).await?;
        let (record, conversation) = stored.open(composed).await?;
        Ok((ready, record, conversation))
    }

    /// Prepares the agent, which is not stored yet.
    pub(super) async fn prepared(
        self,
        composed: &Composed,
        parts: &AgentRuntime,
        asker: Arc<dyn Asker>,
    ) -> Result<(ReadyAgent, Unstored), Failure> {
        let id = self.earlier.as_ref().map_or_else(new_id, |row| row.id.clone());
        let door = Door::Internal(Internal::Agent);
        let dialect = composed.toolset.dialect.as_str();
        let principal = Principal::new(door, SessionId(id.clone()), dialect, asker);
        let name = self.definition.name.clone();
        let plan = AgentPlan {
            id: id.clone(),
            definition: self.definition,
            model: self.model,
            max_steps: self.max_steps,
            session: id.clone(),
            ..AgentPlan::default()
        };
        let ready = parts.ready(plan, principal).await?;
        let owner = format!("process {}", std::process::id());
        let row = AgentRow {
            name,
            task: stored_text(&self.task),
            model: ready.model_name.clone(),
            settings: StoredLimits::settings(ready.limit),
            ..new_row(&id, &composed.workspace, &owner)
        };
        Ok((ready, Unstored { row, earlier: self.earlier }))
    }
}

/// The durable part of an agent before it is stored, or continued.
pub(super) struct Unstored {
    pub(super) row: AgentRow,
    pub(super) earlier: Option<AgentRow>,
}

impl Unstored {
    /// Stores the agent, or takes the earlier one.
    pub(super) async fn open(self, composed: &Composed) -> Result<(AgentRecord, Conversation), Failure> {
        match self.earlier {
            Some(earlier) => AgentRecord::resume(composed.store.clone(), &earlier, &self.row.owner).await,
            None => {
                let record = AgentRecord::create(composed.store.clone(), self.row).await?;
                Ok((record, Conversation::default()))
            }
        }
    }
}

fn exit_code(end: &TurnEnd) -> ExitCode {
    ExitCode::from(match end {
        TurnEnd::Answer(_) => 0,
        TurnEnd::Stopped(_) | TurnEnd::Limit(_) | TurnEnd::Failed(_) => 1,
    })
}

/// The output of a run. The answer goes to standard output, and everything before it to standard error. If
/// both are one terminal, the answer is not repeated.
struct View {
    is_json: bool,
    /// True if the user sees standard error where the answer appears.
    is_one_screen: bool,
    state: Mutex<ViewState>,
}

#[derive(Default)]
struct ViewState {
    /// True if the last line on standard error has no end.
    is_open: bool,
}

impl View {
    fn new(is_json: bool) -> Self {
        let is_one_screen = io::stdout().is_terminal() && io::stderr().is_terminal();
        Self { is_json, is_one_screen, state: Mutex::default() }
    }

    /// Writes a piece of text to standard error. If that is closed, the work goes on.
    fn text(&self, text: &str) {
        let mut state = self.state.lock();
        let _closed = write!(io::stderr(), "{}", covered(text)).and_then(|()| io::stderr().flush());
        if let Some(last) = text.chars().last() {
            state.is_open = last != '\n';
        }
    }

    /// Writes a line of Handfast's own.
    fn line(&self, text: &str) {
        let is_open = self.state.lock().is_open;
        self.text(&format!("{}{text}\n", if is_open { "\n" } else { "" }));
    }

    /// Writes the end of a run.
    fn end(&self, report: &TurnReport) -> Result<(), Failure> {
        let cost = (report.cost > llm::Usd::ZERO).then(|| report.cost.dollars());
        if self.is_json {
            let (status, text) = match &report.end {
                TurnEnd::Answer(text) => ("done", text.clone()),
                TurnEnd::Stopped(_) => ("stopped", "the run was stopped".to_owned()),
                TurnEnd::Limit(why) => ("limit", why.clone()),
                TurnEnd::Failed(why) => ("failed", why.clone()),
            };
            let mut end = json!({
                "type": "end", "status": status, "text": text, "steps": report.steps, "calls": report.calls,
                "tokens": {"input": report.usage.input, "output": report.usage.output},
            });
            if let Some(cost) = cost {
                end["cost_usd"] = json!(cost);
            }
            return print(&format!("{end}\n"));
        }
        if self.state.lock().is_open {
            self.text("\n");
        }
        match &report.end {
            TurnEnd::Answer(text) if !self.is_one_screen => {
                print(&format!("{}\n", visible_lines(text.trim_end())))?;
            }
            TurnEnd::Answer(_) => {}
            TurnEnd::Stopped(_) => note("stopped"),
            TurnEnd::Limit(why) | TurnEnd::Failed(why) => note(&format!("error: {why}")),
        }
        let price = cost.map_or_else(String::new, |cost| {
            format!(", {}{cost:.4} US dollars", if report.cost_is_partial { "at least " } else { "" })
        });
        note(&format!(
            "{} to the model, {}, {} tokens in, {} out{price}",
            counted(report.steps.into(), "request", "requests"),
            counted(report.calls.into(), "call", "calls"),
            report.usage.input,
            report.usage.output
        ));
        Ok(())
    }
}

impl Observer for View {
    fn take(&self, event: AgentEvent<'_>) {
        if self.is_json {
            if let Some(line) = json_of(&event) {
                // A closed pipe is found at the end.
                let _closed = print(&format!("{line}\n"));
            }
            return;
        }
        match event {
            AgentEvent::Delta(Delta::Text(text)) => self.text(&visible_lines(text)),
            AgentEvent::Delta(Delta::Discarded) => self.line("[the model did not finish; again]"),
            AgentEvent::CallBegins { name, arguments, .. } => {
                let arguments = Value::Object(arguments.clone()).to_string();
                let shown: String = visible(&arguments).chars().take(LINE).collect();
                self.line(&format!("> {name} {shown}"));
            }
            AgentEvent::CallEnds { name, output, .. } => {
                let first = output.text.lines().next().unwrap_or_default();
                let first: String = visible(first).chars().take(LINE).collect();
                let facts = output.meta.as_ref().map(|meta| {
                    let decision = meta.decision.as_deref().unwrap_or("refused");
                    format!(" ({decision}, {} ms)", meta.duration_ms)
                });
                let word = if output.is_error { "failed" } else { "ok" };
                let code = output.text.lines().find(|line| line.starts_with("[exit code "));
                let told = match code {
                    _ if output.is_error => format!(": {first}"),
                    Some(code) => format!(" {}", visible(code)),
                    None => String::new(),
                };
                self.line(&format!("  {word} {name}{}{told}", facts.unwrap_or_default()));
            }
            AgentEvent::Answered { tried, .. } => {
                for attempt in tried {
                    self.line(&format!("[not asked in the end: {}]", visible(attempt)));
                }
            }
            AgentEvent::Received(text) => {
                self.line(&format!("< {}", visible(text).chars().take(LINE).collect::<String>()));
            }
            AgentEvent::Summarised { messages } => {
                self.line(&format!("[{messages} messages were summarised]"));
            }
            AgentEvent::Delta(_) => {}
        }
    }
}

/// Returns an event as a line of JSON; `None` for pieces of an answer, which comes whole later.
fn json_of(event: &AgentEvent<'_>) -> Option<Value> {
    Some(match event {
        AgentEvent::Delta(_) => return None,
        AgentEvent::Answered { model, message, usage, cost, tried } => {
            let text: String = message
                .parts
                .iter()
                .filter_map(|part| if let llm::Part::Text(text) = part { Some(text.as_str()) } else { None })
                .collect();
            json!({
                "type": "answer", "model": model, "text": text, "tokens": {"input": usage.input, "output": usage.output},
                "cost_usd": cost.map(llm::Usd::dollars), "tried": tried,
            })
        }
        AgentEvent::CallBegins { id, name, arguments } => {
            json!({"type": "call", "id": id, "tool": name, "arguments": arguments})
        }
        AgentEvent::CallEnds { id, name, output } => json!({
            "type": "result", "id": id, "tool": name, "ok": !output.is_error, "text": output.text, "meta": output.meta,
        }),
        AgentEvent::Received(text) => json!({"type": "message", "text": text}),
        AgentEvent::Summarised { messages } => json!({"type": "summary", "messages": messages}),
    })
}
