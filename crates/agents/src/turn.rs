//! One turn: from a message to the answer, over as many requests and calls as it takes.

use std::sync::Arc;

use futures_util::future::join_all;
use llm::{
    ChatRequest, Delta, Finish, Message, Part, Role, Sink, ToolCall, ToolDefinition, ToolResult, Usage, Usd,
};
use tool::{Stop, StopReason};

use crate::bounds::Bounds;
use crate::compaction::{INSTRUCTIONS, old_part, replacement, shortened, tokens_of};
use crate::conversation::{Conversation, text_of};
use crate::interfaces::{
    AgentEvent, AgentModel, AgentTools, History, HistoryError, Inbox, ModelAnswer, ModelFailureKind,
    Observer, ToolOutput,
};

/// Context of a model about which nothing is known, in tokens: that of the smallest model that is of use.
const USUAL_CONTEXT: u64 = 32_000;

/// Maximum number of tokens of a summary.
const SUMMARY_TOKENS: u32 = 4_000;

const CONTINUE: &str = "[Your answer was cut at its limit. Go on exactly where it ended.]";
const SAY_SOMETHING: &str = "[Your answer was empty. Call a tool, or say what the result of the task is.]";
const STOPPED: &str = "not made: the turn was stopped";

/// A turn of an agent, ready to run.
pub struct Turn<'a> {
    /// Instructions above the conversation.
    pub system: String,
    /// Randomness.
    pub temperature: Option<f64>,
    /// Limits.
    pub bounds: Bounds,
    /// Model.
    pub model: &'a dyn AgentModel,
    /// Tools.
    pub tools: &'a dyn AgentTools,
    /// Storage of the conversation.
    pub history: &'a dyn History,
    /// Messages of other agents.
    pub inbox: &'a dyn Inbox,
    /// Observer.
    pub observer: Arc<dyn Observer>,
    /// Signal that ends the turn.
    pub stop: Stop,
}

/// Outcome of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnReport {
    /// End.
    pub end: TurnEnd,
    /// Tokens of all requests.
    pub usage: Usage,
    /// Cost of all requests whose price is known.
    pub cost: Usd,
    /// True if the price of a request is unknown.
    pub cost_is_partial: bool,
    /// Number of requests to the model.
    pub steps: u32,
    /// Number of calls.
    pub calls: u32,
}

impl TurnReport {
    /// Returns the report of this turn and one before it together, with the end of this one.
    #[must_use]
    pub fn after(mut self, before: &Self) -> Self {
        self.usage.add(before.usage);
        self.cost = self.cost.saturating_add(before.cost);
        self.cost_is_partial |= before.cost_is_partial;
        self.steps = self.steps.saturating_add(before.steps);
        self.calls = self.calls.saturating_add(before.calls);
        self
    }
}

/// End of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    /// The model has answered.
    Answer(String),
    /// A stop ended it.
    Stopped(StopReason),
    /// A limit ended it. The text names the limit.
    Limit(String),
    /// A failure ended it. The text says why, and what to do.
    Failed(String),
}

struct Progress {
    report: TurnReport,
    /// Calls of the last step with their results.
    last: Vec<(String, String, String)>,
    /// Number of steps in a row that were equal to it.
    repeats: u32,
    faulty: u32,
    continued: u32,
    was_empty: bool,
    /// Tokens of the last request and its answer, and the number of messages that they cover.
    measured: Option<(u64, usize)>,
}

impl Turn<'_> {
    /// Runs the turn: appends the message, if there is one, and all that follows, to the conversation.
    pub async fn run(&self, conversation: &mut Conversation, message: Option<Message>) -> TurnReport {
        let report = TurnReport {
            end: TurnEnd::Answer(String::new()),
            usage: Usage::default(),
            cost: Usd::ZERO,
            cost_is_partial: false,
            steps: 0,
            calls: 0,
        };
        let mut progress = Progress {
            report,
            last: Vec::new(),
            repeats: 0,
            faulty: 0,
            continued: 0,
            was_empty: false,
            measured: None,
        };
        let end = match self.steps(conversation, message, &mut progress).await {
            Ok(end) => end,
            Err(error) => TurnEnd::Failed(error.to_string()),
        };
        TurnReport { end, ..progress.report }
    }

    async fn steps(
        &self,
        conversation: &mut Conversation,
        message: Option<Message>,
        progress: &mut Progress,
    ) -> Result<TurnEnd, HistoryError> {
        if let Some(message) = message {
            self.add(conversation, message).await?;
        }
        let tools = self.tools.definitions();
        while progress.report.steps < self.bounds.steps {
            self.receive(conversation).await?;
            if let Some(reason) = self.stop.requested() {
                return Ok(TurnEnd::Stopped(reason));
            }
            self.make_room(conversation, progress, false).await?;
            let answer = match self.ask(conversation, &tools, progress).await? {
                Ok(answer) => answer,
                Err(end) => return Ok(end),
            };
            let finish = answer.response.finish.clone();
            let message = answer.response.into_message();
            let text = text_of(&message);
            let calls: Vec<ToolCall> = message
                .parts
                .iter()
                .filter_map(|part| if let Part::ToolCall(call) = part { Some(call.clone()) } else { None })
                .collect();
            if message.parts.is_empty() || (calls.is_empty() && text.trim().is_empty()) {
                if progress.was_empty {
                    return Ok(TurnEnd::Failed("the model answered nothing, twice in a row".to_owned()));
                }
                progress.was_empty = true;
                self.add(conversation, Message::user(SAY_SOMETHING)).await?;
                continue;
            }
            progress.was_empty = false;
            self.add(conversation, message).await?;
            if calls.is_empty() {
                let is_cut = matches!(finish, Finish::MaxTokens | Finish::ContextFull);
                if is_cut && progress.continued < self.bounds.continuations {
                    progress.continued += 1;
                    self.add(conversation, Message::user(CONTINUE)).await?;
                    continue;
                }
                return Ok(TurnEnd::Answer(text));
            }
            progress.continued = 0;
            let (results, faults) = self.call_all(&calls, &tools, progress).await;
            let told = progress.note_repeats(&calls, &results, self.bounds);
            let message = message_of(&calls, results, self.bounds, told);
            self.add(conversation, message).await?;
            progress.faulty = if faults == calls.len() { progress.faulty + 1 } else { 0 };
            if progress.faulty >= self.bounds.faulty_steps {
                let times = self.bounds.faulty_steps;
                return Ok(TurnEnd::Failed(format!(
                    "the model wrote {times} times in a row only calls that cannot be made; another model may do better"
                )));
            }
            if progress.repeats >= self.bounds.repeats {
                let times = progress.repeats;
                return Ok(TurnEnd::Limit(format!(
                    "the model made the same calls {times} times in a row, with the same results"
                )));
            }
        }
        Ok(TurnEnd::Limit(format!("the model was asked {} times without an end", self.bounds.steps)))
    }

    async fn add(&self, conversation: &mut Conversation, message: Message) -> Result<(), HistoryError> {
        let stored = conversation.push(message);
        self.history.append(&[stored]).await
    }

    /// Makes the messages of other agents part of the conversation.
    async fn receive(&self, conversation: &mut Conversation) -> Result<(), HistoryError> {
        let texts = self.inbox.take().await;
        if texts.is_empty() {
            return Ok(());
        }
        for text in &texts {
            self.observer.take(AgentEvent::Received(text));
        }
        let parts = texts.into_iter().map(Part::Text).collect();
        self.add(conversation, Message { role: Role::User, parts }).await
    }

    /// Asks the model. If the request is too long for it, makes room and asks once more.
    async fn ask(
        &self,
        conversation: &mut Conversation,
        tools: &[ToolDefinition],
        progress: &mut Progress,
    ) -> Result<Result<ModelAnswer, TurnEnd>, HistoryError> {
        let mut has_room = false;
        loop {
            progress.report.steps += 1;
            let request = ChatRequest {
                system: Some(self.system.clone()).filter(|text| !text.is_empty()),
                messages: conversation.messages(),
                tools: tools.to_vec(),
                temperature: self.temperature,
                cache: true,
                ..ChatRequest::default()
            };
            let sink = Forwarded(self.observer.clone());
            match self.model.chat(request, Box::new(sink), &self.stop).await {
                Ok(answer) => {
                    progress.spent(&answer, conversation.stored().len());
                    let message = Message { role: Role::Assistant, parts: answer.response.parts.clone() };
                    self.observer.take(AgentEvent::Answered {
                        model: &answer.model,
                        message: &message,
                        usage: answer.response.usage,
                        cost: answer.cost,
                        tried: &answer.tried,
                    });
                    return Ok(Ok(answer));
                }
                Err(failure) => match failure.kind {
                    ModelFailureKind::Stopped(reason) => return Ok(Err(TurnEnd::Stopped(reason))),
                    ModelFailureKind::TooLong if !has_room => {
                        has_room = true;
                        if !self.make_room(conversation, progress, true).await? {
                            return Ok(Err(TurnEnd::Failed(failure.message)));
                        }
                    }
                    _ => return Ok(Err(TurnEnd::Failed(failure.message))),
                },
            }
        }
    }

    /// Replaces the oldest messages by a summary if the conversation is too long, or in any case if `forced`.
    /// Returns true if it did.
    async fn make_room(
        &self,
        conversation: &mut Conversation,
        progress: &mut Progress,
        forced: bool,
    ) -> Result<bool, HistoryError> {
        let context = self.model.context().map_or(USUAL_CONTEXT, u64::from);
        let limit = self.bounds.history_tokens.min(context / 4 * 3);
        let messages = conversation.stored();
        let estimate = tokens_of(messages);
        let now = match progress.measured {
            // Some servers leave out what their cache had, so half of the estimate is the least.
            Some((tokens, covered)) => {
                let new = tokens_of(messages.get(covered..).unwrap_or_default());
                tokens.saturating_add(new).max(estimate / 2)
            }
            None => estimate,
        };
        if !forced && now <= limit {
            return Ok(false);
        }
        let most_chars = usize::try_from(limit).unwrap_or(usize::MAX).saturating_mul(2);
        // A model that refuses a request has less room than is known of it.
        let keep = limit.min(estimate) / 3;
        let Some(old) = old_part(conversation, keep, most_chars) else { return Ok(false) };
        let request = ChatRequest {
            system: Some(INSTRUCTIONS.to_owned()),
            messages: vec![Message::user(old.text)],
            max_tokens: Some(SUMMARY_TOKENS),
            ..ChatRequest::default()
        };
        progress.report.steps += 1;
        let summary = match self.model.chat(request, Box::new(|_: Delta<'_>| {}), &self.stop).await {
            Ok(answer) => {
                progress.spent(&answer, 0);
                Some(answer.response.text()).filter(|text| !text.trim().is_empty())
            }
            // Without a summary the task and the newest messages stay. A stop is seen before the next request.
            Err(_) => None,
        };
        progress.measured = None;
        let message = replacement(conversation, old.count, summary.as_deref());
        if let Some(stored) = conversation.replace_first(old.count, message) {
            self.history.summarise(stored.number, &stored).await?;
        }
        self.observer.take(AgentEvent::Summarised { messages: old.count });
        Ok(true)
    }

    /// Makes the calls of one answer, in their order; neighbouring ones that only read run at once. Returns
    /// the results in the same order, and the number of calls that could not be made.
    async fn call_all(
        &self,
        calls: &[ToolCall],
        tools: &[ToolDefinition],
        progress: &mut Progress,
    ) -> (Vec<ToolOutput>, usize) {
        let mut results: Vec<ToolOutput> = Vec::with_capacity(calls.len());
        let mut faults = 0;
        let mut rest = calls;
        while let Some(first) = rest.first() {
            let at_once = |call: &&ToolCall| self.tools.reads_only(&call.name);
            let reading = rest.iter().take(self.bounds.parallel_calls).take_while(at_once).count();
            let (group, later) = rest.split_at_checked(reading.max(1)).unwrap_or((rest, &[]));
            rest = later;
            debug_assert!(group.first() == Some(first));
            let done = join_all(group.iter().zip(results.len()..).map(async |(call, place)| {
                if place >= self.bounds.calls_per_step {
                    let most = self.bounds.calls_per_step;
                    return (ToolOutput::not_made(format!("not made: at most {most} calls at once")), false);
                }
                if self.stop.requested().is_some() {
                    return (ToolOutput::not_made(STOPPED), false);
                }
                match call.check(tools) {
                    Err(fault) => (ToolOutput::not_made(format!("not made: {fault}")), true),
                    Ok(arguments) => {
                        let (id, name) = (&*call.id, &*call.name);
                        self.observer.take(AgentEvent::CallBegins { id, name, arguments: &arguments });
                        (self.tools.call(name, arguments, &self.stop).await, false)
                    }
                }
            }))
            .await;
            for (call, (output, is_fault)) in group.iter().zip(done) {
                self.observer.take(AgentEvent::CallEnds { id: &call.id, name: &call.name, output: &output });
                faults += usize::from(is_fault);
                progress.report.calls += u32::from(output.meta.is_some());
                results.push(output);
            }
        }
        (results, faults)
    }
}

impl Progress {
    fn spent(&mut self, answer: &ModelAnswer, messages: usize) {
        let usage = answer.response.usage;
        self.report.usage.add(usage);
        match answer.cost {
            Some(cost) => self.report.cost = self.report.cost.saturating_add(cost),
            None => self.report.cost_is_partial = true,
        }
        self.measured = (usage.input > 0).then(|| (usage.tokens(), messages.saturating_add(1)));
    }

    /// Counts equal steps. Returns true if the model must be told.
    fn note_repeats(&mut self, calls: &[ToolCall], results: &[ToolOutput], bounds: Bounds) -> bool {
        let this: Vec<_> = calls
            .iter()
            .zip(results)
            .map(|(call, result)| (call.name.clone(), call.arguments.clone(), result.text.clone()))
            .collect();
        self.repeats = if self.last == this { self.repeats + 1 } else { 1 };
        self.last = this;
        self.repeats >= bounds.repeats_told
    }
}

/// Returns the message with the results of calls, within the limit on their characters.
fn message_of(calls: &[ToolCall], results: Vec<ToolOutput>, bounds: Bounds, told: bool) -> Message {
    let mut left = bounds.result_chars;
    let mut parts: Vec<Part> = Vec::new();
    for (call, output) in calls.iter().zip(results) {
        let text = shortened(&output.text, left);
        left = left.saturating_sub(text.chars().count());
        parts.push(Part::ToolResult(ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            text: if text.is_empty() { "[no output]".to_owned() } else { text },
            images: output.images,
            is_error: output.is_error,
        }));
    }
    if told {
        let text = "[You have made the same calls several times with the same results. Do something else, or say what keeps you from the result.]";
        parts.push(Part::Text(text.to_owned()));
    }
    Message { role: Role::User, parts }
}

/// Sink that hands the pieces to the observer.
struct Forwarded(Arc<dyn Observer>);

impl Sink for Forwarded {
    fn take(&mut self, delta: Delta<'_>) {
        self.0.take(AgentEvent::Delta(delta));
    }
}
