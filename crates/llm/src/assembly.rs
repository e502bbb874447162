//! Answer in the making: collects the pieces, hands them on, and keeps them within their bounds.

use crate::error::{ModelError, StreamFault, out_of_order};
use crate::message::{Part, Thought, ToolCall};
use crate::response::{Delta, Finish, Response, Sink};
use crate::usage::Usage;

/// Maximum number of tool calls in one answer.
const MOST_CALLS: usize = 256;

/// Answer in the making.
pub(crate) struct Assembly<'a> {
    sink: &'a mut dyn Sink,
    /// Name of the requested model, which its thoughts and calls bear.
    model: &'a str,
    parts: Vec<Part>,
    /// Key and place in `parts` of each call.
    calls: Vec<(u64, usize)>,
    /// Number of calls before this answer, which the ids of calls without one continue.
    calls_before: usize,
    bytes: usize,
    limit: usize,
    /// Name of the model as the server gives it.
    pub(crate) served_model: Option<String>,
    /// Tokens as the server reports them.
    pub(crate) usage: Option<Usage>,
    /// Reason for the end, as soon as the server gives one.
    pub(crate) finish: Option<Finish>,
}

impl<'a> Assembly<'a> {
    /// Creates an empty answer of at most `limit` bytes.
    pub(crate) fn new(sink: &'a mut dyn Sink, model: &'a str, calls_before: usize, limit: usize) -> Self {
        Self {
            sink,
            model,
            parts: Vec::new(),
            calls: Vec::new(),
            calls_before,
            bytes: 0,
            limit,
            served_model: None,
            usage: None,
            finish: None,
        }
    }

    /// Returns the number of bytes of the answer so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if the answer has calls.
    pub(crate) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Adds text.
    ///
    /// # Errors
    /// [`StreamFault::TooLarge`], as all that add.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), ModelError> {
        if text.is_empty() {
            return Ok(());
        }
        self.grow(text.len())?;
        match self.parts.last_mut() {
            Some(Part::Text(before)) => before.push_str(text),
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
        self.sink.take(Delta::Text(text));
        Ok(())
    }

    /// Begins thoughts of their own, with a signature of their own.
    pub(crate) fn start_thoughts(&mut self) {
        self.parts.push(Part::Thinking(Thought { model: self.model.to_owned(), ..Thought::default() }));
    }

    /// Adds thoughts.
    pub(crate) fn thinking(&mut self, text: &str) -> Result<(), ModelError> {
        if text.is_empty() {
            return Ok(());
        }
        self.grow(text.len())?;
        if !matches!(self.parts.last(), Some(Part::Thinking(_))) {
            self.start_thoughts();
        }
        if let Some(Part::Thinking(thought)) = self.parts.last_mut() {
            thought.text.push_str(text);
        }
        self.sink.take(Delta::Thinking(text));
        Ok(())
    }

    /// Adds to the signature of the last thoughts.
    pub(crate) fn sign(&mut self, signature: &str) -> Result<(), ModelError> {
        self.grow(signature.len())?;
        if let Some(Part::Thinking(thought)) = self.parts.last_mut() {
            thought.signature.get_or_insert_default().push_str(signature);
        }
        Ok(())
    }

    /// Adds thoughts that only the provider can read.
    pub(crate) fn sealed(&mut self, data: String) -> Result<(), ModelError> {
        self.grow(data.len())?;
        let model = self.model.to_owned();
        self.parts.push(Part::Thinking(Thought {
            text: String::new(),
            signature: Some(data),
            is_sealed: true,
            model,
        }));
        Ok(())
    }

    /// Returns true if a call with this key has begun.
    pub(crate) fn knows_call(&self, key: u64) -> bool {
        self.calls.iter().any(|(own, _)| *own == key)
    }

    /// Returns the key for a call without one.
    pub(crate) fn next_key(&self) -> u64 {
        self.calls.iter().map(|(key, _)| key.saturating_add(1)).max().unwrap_or(0)
    }

    /// Begins a call. A call without an id gets one that is unique in the conversation.
    pub(crate) fn start_call(
        &mut self,
        key: u64,
        id: Option<&str>,
        name: &str,
        signature: Option<String>,
    ) -> Result<(), ModelError> {
        let index = self.calls.len();
        if index >= MOST_CALLS {
            return Err(StreamFault::TooManyCalls { limit: MOST_CALLS }.into());
        }
        let id = match id {
            Some(id) if !id.is_empty() => id.to_owned(),
            _ => format!("call_{}", self.calls_before + index + 1),
        };
        self.grow(id.len() + name.len() + signature.as_ref().map_or(0, String::len))?;
        self.calls.push((key, self.parts.len()));
        self.parts.push(Part::ToolCall(ToolCall {
            id,
            name: name.to_owned(),
            arguments: String::new(),
            signature,
            model: self.model.to_owned(),
        }));
        self.sink.take(Delta::CallStarted { index, name });
        Ok(())
    }

    /// Adds to the arguments of a call.
    ///
    /// # Errors
    /// [`StreamFault::Order`] if no call with this key has begun.
    pub(crate) fn arguments(&mut self, key: u64, text: &str) -> Result<(), ModelError> {
        if text.is_empty() {
            return Ok(());
        }
        self.grow(text.len())?;
        let found = self.calls.iter().enumerate().find(|(_, (own, _))| *own == key);
        let Some((index, (_, place))) = found else {
            return Err(out_of_order("arguments of a call that has not begun"));
        };
        if let Some(Part::ToolCall(call)) = self.parts.get_mut(*place) {
            call.arguments.push_str(text);
        }
        self.sink.take(Delta::CallArguments { index, text });
        Ok(())
    }

    /// Returns the whole answer.
    ///
    /// # Errors
    /// [`StreamFault::Ended`] if the server gave no reason for the end.
    pub(crate) fn complete(self, usage: Usage, omitted: Vec<&'static str>) -> Result<Response, ModelError> {
        let finish = match self.finish {
            None => return Err(StreamFault::Ended.into()),
            // A caller would wait for calls that are not there.
            Some(Finish::ToolCalls) if self.calls.is_empty() => Finish::Complete,
            Some(finish) => finish,
        };
        Ok(Response {
            model: self.served_model.unwrap_or_else(|| self.model.to_owned()),
            parts: self.parts,
            finish,
            usage,
            omitted,
        })
    }

    fn grow(&mut self, more: usize) -> Result<(), ModelError> {
        self.bytes = self.bytes.saturating_add(more);
        if self.bytes > self.limit {
            return Err(StreamFault::TooLarge { what: "content", limit: self.limit }.into());
        }
        Ok(())
    }
}
