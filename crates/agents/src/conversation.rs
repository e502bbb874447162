//! The conversation of an agent with its model.

use llm::{Message, Part, Role, ToolResult};
use serde::{Deserialize, Serialize};

/// Text in place of a picture that was not stored.
const NO_PICTURE: &str = "[a picture, which is not kept; take it again if you need it]";

/// Result of a call whose end nobody recorded.
const INTERRUPTED: &str =
    "interrupted: the program ended while this call ran. Check what it has done before you repeat it.";

/// Message of a conversation, with its number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredMessage {
    /// Number in the conversation; a later message has a higher one.
    pub number: u64,
    /// Message.
    pub message: Message,
}

/// Conversation of an agent with its model, the oldest message first.
///
/// INVARIANT: after each message with calls comes a message with their results, so that every provider
/// accepts it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    messages: Vec<StoredMessage>,
}

impl Conversation {
    /// Restores a stored conversation. Calls whose results were never stored get a result that says so,
    /// and its messages are returned too, because they are not stored yet.
    pub fn restored(messages: Vec<StoredMessage>) -> (Self, Vec<StoredMessage>) {
        let mut conversation = Self::default();
        let mut added = Vec::new();
        for stored in messages {
            if let Some(missing) = conversation.missing_results(Some(&stored.message)) {
                // The numbers of a stored conversation have no gap for it, and the order is what counts.
                conversation.messages.push(StoredMessage { number: stored.number, message: missing });
            }
            conversation.messages.push(stored);
        }
        if let Some(missing) = conversation.missing_results(None) {
            added.push(conversation.push(missing));
        }
        (conversation, added)
    }

    /// Returns results for those calls of the last message that the next message does not answer.
    fn missing_results(&self, next: Option<&Message>) -> Option<Message> {
        let last = &self.messages.last()?.message;
        let answered = |id: &str| {
            next.is_some_and(|next| {
                next.parts.iter().any(|part| matches!(part, Part::ToolResult(result) if result.call_id == id))
            })
        };
        let results: Vec<Part> = last
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::ToolCall(call) if !answered(&call.id) => Some(Part::ToolResult(ToolResult {
                    call_id: call.id.clone(),
                    name: call.name.clone(),
                    text: INTERRUPTED.to_owned(),
                    images: Vec::new(),
                    is_error: true,
                })),
                _ => None,
            })
            .collect();
        (!results.is_empty()).then_some(Message { role: Role::User, parts: results })
    }

    /// Appends a message, and returns it in the form in which it is stored.
    pub(crate) fn push(&mut self, message: Message) -> StoredMessage {
        let number = self.messages.last().map_or(0, |last| last.number.saturating_add(1));
        let stored = StoredMessage { number, message: without_pictures(&message) };
        self.messages.push(StoredMessage { number, message });
        stored
    }

    /// Returns the messages, for a request. Neighbouring messages of one author are one message, because not
    /// every provider accepts several.
    pub fn messages(&self) -> Vec<Message> {
        let mut messages: Vec<Message> = Vec::with_capacity(self.messages.len());
        for StoredMessage { message, .. } in &self.messages {
            match messages.last_mut().filter(|last| last.role == message.role) {
                Some(last) => last.parts.extend(message.parts.iter().cloned()),
                None => messages.push(message.clone()),
            }
        }
        messages
    }

    /// Returns the messages with their numbers.
    pub(crate) fn stored(&self) -> &[StoredMessage] {
        &self.messages
    }

    /// Returns true if nothing was said yet.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Replaces the first messages by one, and returns it with the number of the last one that it replaces.
    pub(crate) fn replace_first(&mut self, count: usize, by: Message) -> Option<StoredMessage> {
        let number = self.messages.get(count.checked_sub(1)?)?.number;
        let summary = StoredMessage { number, message: by };
        self.messages.splice(..count, [summary.clone()]);
        Some(summary)
    }

    /// Returns the last text of the model.
    pub fn last_answer(&self) -> Option<String> {
        let last = self.messages.iter().rev().find(|stored| stored.message.role == Role::Assistant)?;
        Some(text_of(&last.message))
    }
}

/// Returns the text of a message, without thoughts, calls and results.
pub(crate) fn text_of(message: &Message) -> String {
    let texts = message.parts.iter();
    texts.filter_map(|part| if let Part::Text(text) = part { Some(&**text) } else { None }).collect()
}

/// Returns a message in which a note stands for each picture.
fn without_pictures(message: &Message) -> Message {
    let parts = message.parts.iter().map(|part| match part {
        Part::Image(_) => Part::Text(NO_PICTURE.to_owned()),
        Part::ToolResult(result) if !result.images.is_empty() => {
            let text = format!("{}\n{NO_PICTURE}", result.text);
            Part::ToolResult(ToolResult { text, images: Vec::new(), ..result.clone() })
        }
        other => other.clone(),
    });
    Message { role: message.role, parts: parts.collect() }
}
