//! Answer in the making: text and call, handed on as soon as they are certain.

use crate::guide::{Role, TAG};

/// Bytes of a call before the name of its tool.
const BEFORE_NAME: &[u8] = b"{\"name\": \"";
/// Bytes of a call between the name and the arguments.
const BEFORE_ARGUMENTS: &[u8] = b"\", \"arguments\": ";

/// Piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// More text.
    Text(String),
    /// Begin of a call, with the name of its tool.
    Call(String),
    /// More of the call's arguments.
    Arguments(String),
}

/// Answer in the making.
pub(crate) struct Answer<'a> {
    emit: &'a mut dyn FnMut(Piece),
    stops: &'a [String],
    /// True if a tag may come in the text.
    has_tags: bool,
    /// True if the text has a format, which stop texts do not cut.
    is_format: bool,
    /// Text that was handed on.
    pub(crate) text: String,
    /// Bytes of the text that may still be cut off.
    waiting: Vec<u8>,
    call: Vec<u8>,
    /// Name of the call's tool.
    pub(crate) name: Option<String>,
    /// Number of bytes of the call that were handed on.
    sent: usize,
    /// Arguments that were handed on.
    pub(crate) arguments: String,
}

impl<'a> Answer<'a> {
    pub(crate) fn new(
        emit: &'a mut dyn FnMut(Piece),
        stops: &'a [String],
        has_tags: bool,
        is_format: bool,
    ) -> Self {
        Self {
            emit,
            stops,
            has_tags,
            is_format,
            text: String::new(),
            waiting: Vec::new(),
            call: Vec::new(),
            name: None,
            sent: 0,
            arguments: String::new(),
        }
    }

    /// Adds a byte. Returns true if a stop text before a call ended the answer.
    pub(crate) fn add(&mut self, byte: u8, role: Role) -> bool {
        match role {
            Role::Text => self.waiting.push(byte),
            Role::Nothing => {}
            Role::Call => self.call.push(byte),
            Role::TagEnd => {
                // The byte is the last one of the tag.
                self.waiting.truncate((self.waiting.len() + 1).saturating_sub(TAG.len()));
                if self.cut_at_stop() {
                    return true;
                }
                self.flush();
            }
        }
        false
    }

    /// Hands on what is certain. Returns true if a stop text ended the answer.
    pub(crate) fn settle(&mut self) -> bool {
        if self.cut_at_stop() {
            return true;
        }
        let held = self.held();
        let certain = self.waiting.len().saturating_sub(held);
        self.send_text(certain);
        self.send_call(1);
        false
    }

    /// Hands on everything, because the answer is over.
    pub(crate) fn finish(&mut self, is_call_whole: bool) {
        self.flush();
        self.send_call(usize::from(is_call_whole));
    }

    /// Returns true if a call has begun.
    pub(crate) fn has_call(&self) -> bool {
        !self.call.is_empty()
    }

    fn flush(&mut self) {
        self.send_text(self.waiting.len());
    }

    /// Cuts the text off at the first stop text, if there is one, and hands on what stands before it.
    fn cut_at_stop(&mut self) -> bool {
        if self.is_format {
            return false;
        }
        let stops = self.stops.iter().filter(|stop| !stop.is_empty());
        let places = stops
            .filter_map(|stop| self.waiting.windows(stop.len()).position(|window| window == stop.as_bytes()));
        let Some(first) = places.min() else { return false };
        self.waiting.truncate(first);
        self.flush();
        true
    }

    /// Returns the number of last bytes that may be the begin of a stop text or tag, or of a character.
    fn held(&self) -> usize {
        let tag = self.has_tags.then_some(TAG);
        let stops = self.stops.iter().filter(|_| !self.is_format).map(String::as_str);
        let begun = stops.chain(tag).filter_map(|stop| {
            let longest = stop.len().saturating_sub(1).min(self.waiting.len());
            (1..=longest).rev().find(|length| self.waiting.ends_with(&stop.as_bytes()[..*length]))
        });
        begun.max().unwrap_or(0)
    }

    /// Hands on the first bytes of the text, up to the end of their last whole character.
    fn send_text(&mut self, certain: usize) {
        let bytes: Vec<u8> = self.waiting.drain(..certain).collect();
        let (text, rest) = whole_characters(&bytes);
        self.waiting.splice(..0, rest.iter().copied());
        if !text.is_empty() {
            self.text.push_str(&text);
            (self.emit)(Piece::Text(text));
        }
    }

    /// Hands on the call but for its last `held` bytes.
    fn send_call(&mut self, held: usize) {
        if self.name.is_none() {
            let Some(rest) = self.call.strip_prefix(BEFORE_NAME) else { return };
            let Some(end) =
                rest.windows(BEFORE_ARGUMENTS.len()).position(|window| window == BEFORE_ARGUMENTS)
            else {
                return;
            };
            let name = String::from_utf8_lossy(rest.get(..end).unwrap_or_default()).into_owned();
            self.sent = BEFORE_NAME.len() + end + BEFORE_ARGUMENTS.len();
            (self.emit)(Piece::Call(name.clone()));
            self.name = Some(name);
        }
        let until = self.call.len().saturating_sub(held);
        let (text, rest) = whole_characters(self.call.get(self.sent..until).unwrap_or_default());
        if !text.is_empty() {
            self.sent = until.saturating_sub(rest.len());
            self.arguments.push_str(&text);
            (self.emit)(Piece::Arguments(text));
        }
    }
}

/// Returns the text of bytes, without the begin of a character at their end. What is no text becomes a
/// mark for that.
fn whole_characters(bytes: &[u8]) -> (String, &[u8]) {
    let mut text = String::new();
    let mut rest = bytes;
    loop {
        match std::str::from_utf8(rest) {
            Ok(whole) => {
                text.push_str(whole);
                return (text, &[]);
            }
            Err(error) => {
                let (whole, after) = rest.split_at_checked(error.valid_up_to()).unwrap_or((rest, &[]));
                text.push_str(&String::from_utf8_lossy(whole));
                let Some(wrong) = error.error_len() else { return (text, after) };
                text.push(char::REPLACEMENT_CHARACTER);
                rest = after.get(wrong..).unwrap_or_default();
            }
        }
    }
}
