//! Events of a turn, on its way to the screen, and the messages that wait for the agent.

use agents::{AgentEvent, Inbox, Observer, ToolOutput};
use llm::{Delta, Part, Usage, Usd};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tool::BoxFuture;

use super::wrap::cut;
use crate::report::covered;

/// Event of a turn, in words for the screen.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    Text(String),
    Thought(String),
    Discarded,
    Answered {
        text: String,
        model: String,
        usage: Usage,
        cost: Option<Usd>,
        tried: Vec<String>,
    },
    CallBegins {
        id: String,
        name: String,
        text: String,
    },
    CallEnds {
        id: String,
        name: String,
        outcome: String,
        is_ok: bool,
    },
    Received(String),
    Summarised(usize),
    /// The agent has answered, and waits for agents below it.
    Waits,
}

/// Events in their order, from a turn to the screen.
#[derive(Default)]
pub(crate) struct Events(Mutex<Vec<Event>>);

impl Events {
    /// Takes all events that have come.
    pub(super) fn take_all(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Tells that the agent waits for agents below it.
    pub(crate) fn waits(&self) {
        self.0.lock().push(Event::Waits);
    }
}

impl Observer for Events {
    fn take(&self, event: AgentEvent<'_>) {
        let mut events = self.0.lock();
        let event = match event {
            AgentEvent::Delta(Delta::Text(more)) => match events.last_mut() {
                Some(Event::Text(text)) => return text.push_str(more),
                _ => Event::Text(more.to_owned()),
            },
            AgentEvent::Delta(Delta::Thinking(more)) => match events.last_mut() {
                Some(Event::Thought(text)) => return text.push_str(more),
                _ => Event::Thought(more.to_owned()),
            },
            AgentEvent::Delta(Delta::Discarded) => Event::Discarded,
            // A call is shown when it is made.
            AgentEvent::Delta(_) => return,
            AgentEvent::Answered { model, message, usage, cost, tried } => {
                let texts = message.parts.iter();
                let texts =
                    texts.filter_map(|part| if let Part::Text(text) = part { Some(&**text) } else { None });
                let (text, model, tried) = (texts.collect(), model.to_owned(), tried.to_vec());
                Event::Answered { text, model, usage, cost, tried }
            }
            AgentEvent::CallBegins { id, name, arguments } => Event::CallBegins {
                id: id.to_owned(),
                name: name.to_owned(),
                text: call_text(name, arguments),
            },
            AgentEvent::CallEnds { id, name, output } => Event::CallEnds {
                id: id.to_owned(),
                name: name.to_owned(),
                outcome: outcome(output),
                is_ok: !output.is_error && exit_code(output).is_none(),
            },
            AgentEvent::Received(text) => Event::Received(text.to_owned()),
            AgentEvent::Summarised { messages } => Event::Summarised(messages),
        };
        events.push(event);
    }
}

/// Maximum number of columns of all arguments of a call, and of one of them.
const ARGUMENTS: (usize, usize) = (120, 80);
/// Maximum number of columns of an outcome.
const OUTCOME: usize = 200;

/// Returns a call on one line: the tool, and its arguments as far as they are short. Texts stand in quotation
/// marks, so that none can look like an outcome.
pub(super) fn call_text(name: &str, arguments: &Map<String, Value>) -> String {
    let mut shown = Vec::new();
    for (argument, value) in arguments {
        // A secret is covered before it could be cut.
        let value = match value {
            Value::String(text) => Value::String(tool::beginning(&covered(text), ARGUMENTS.1)).to_string(),
            other => cut(&covered(&other.to_string()), ARGUMENTS.1),
        };
        shown.push(format!("{argument}={value}"));
    }
    let arguments = cut(&tool::visible(&shown.join(" ")), ARGUMENTS.0);
    format!("{} {arguments}", tool::visible(name)).trim_end().to_owned()
}

/// Returns the outcome of a call on one line: the decision, the duration, and the exit code or the error.
pub(super) fn outcome(output: &ToolOutput) -> String {
    let mut text = match &output.meta {
        Some(meta) => {
            let decision = meta.decision.as_deref().unwrap_or("refused");
            format!("{decision}, {}", duration(meta.duration_ms))
        }
        None => "not made".to_owned(),
    };
    let first = || output.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if output.is_error {
        text.push_str(&format!(": {}", tool::visible(covered(first()).trim())));
    } else if let Some(code) = exit_code(output) {
        text.push_str(&format!(", exit code {code}"));
    }
    cut(&text, OUTCOME)
}

/// Returns the exit code of a command that has failed. It stands behind the output of the command, which could
/// have such a line too.
fn exit_code(output: &ToolOutput) -> Option<i64> {
    let of_line = |line: &str| line.strip_prefix("[exit code ")?.strip_suffix(']')?.parse::<i64>().ok();
    output.text.lines().rev().filter_map(of_line).find(|code| *code != 0)
}

fn duration(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..10_000 => format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100),
        more => format!("{} s", more / 1_000),
    }
}

/// Messages of the user that wait until the agent takes them, between two steps.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<Queued>,
    bell: Notify,
}

#[derive(Default)]
struct Queued {
    waiting: Vec<String>,
    /// Messages that were taken, and are not yet part of the conversation.
    taken: Vec<String>,
}

impl Queue {
    pub(super) fn push(&self, message: String) {
        self.state.lock().waiting.push(message);
        self.bell.notify_one();
    }

    /// Returns the messages that wait.
    pub(super) fn waiting(&self) -> Vec<String> {
        self.state.lock().waiting.clone()
    }

    /// Takes all messages that wait.
    pub(super) fn drain(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().waiting)
    }

    /// Returns true if the user has written a message that has become part of the conversation, once.
    pub(super) fn has_written(&self, message: &str) -> bool {
        let mut state = self.state.lock();
        let place = state.taken.iter().position(|taken| taken == message);
        place.map(|place| state.taken.remove(place)).is_some()
    }

    /// Waits until a message waits.
    pub(crate) async fn arrives(&self) {
        while self.state.lock().waiting.is_empty() {
            self.bell.notified().await;
        }
    }
}

impl Inbox for Queue {
    fn take(&self) -> BoxFuture<'_, Vec<String>> {
        let mut state = self.state.lock();
        let messages = std::mem::take(&mut state.waiting);
        state.taken.extend(messages.iter().cloned());
        Box::pin(std::future::ready(messages))
    }
}
