//! Guide of an answer: which bytes may come next, and what each is part of.

use crate::grammar::{Grammar, Id, State};

/// Tag before a call.
pub(crate) const TAG: &str = "<tool_call>";

/// Rules of one answer.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Grammar of both of the following.
    pub(crate) grammar: Grammar,
    /// Node of a call; `None` if the model may make none.
    pub(crate) call: Option<Id>,
    /// Node of the whole text; `None` if the text is free.
    pub(crate) format: Option<Id>,
    /// True if the answer is a call.
    pub(crate) must_call: bool,
}

/// Place in an answer.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// Free text, after so many bytes of the tag.
    Free(usize),
    /// Tag where the text has a format, after so many bytes.
    Tag(usize),
    /// Line's end between the tag and its call.
    Line,
    /// Call.
    Call(State),
    /// Text with a format; true at its begin if a tag may come as well.
    Format(State, bool),
    /// End of the answer.
    Over,
}

/// Thing that a byte is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The text.
    Text,
    /// The end of a tag, whose other bytes may have looked like text.
    TagEnd,
    /// Separator that nobody sees.
    Nothing,
    /// A call.
    Call,
}

impl Rules {
    /// Returns the place before an answer.
    pub(crate) fn start(&self) -> Place {
        match (self.call, self.format) {
            (Some(call), _) if self.must_call => Place::Call(State::new(&self.grammar, call)),
            (call, Some(format)) => Place::Format(State::new(&self.grammar, format), call.is_some()),
            _ => Place::Free(0),
        }
    }

    /// Returns the place after one more byte, and what the byte is part of; `None` if it may not come.
    pub(crate) fn step(&self, place: &Place, byte: u8) -> Option<(Place, Role)> {
        let tag = |length: usize| TAG.as_bytes().get(length).copied();
        match place {
            Place::Free(_) if self.call.is_none() => Some((Place::Free(0), Role::Text)),
            Place::Free(length) => {
                // The first byte of the tag stands nowhere else in it.
                let length =
                    if tag(*length) == Some(byte) { length + 1 } else { usize::from(tag(0) == Some(byte)) };
                Some(if length == TAG.len() {
                    (Place::Line, Role::TagEnd)
                } else {
                    (Place::Free(length), Role::Text)
                })
            }
            Place::Tag(length) => {
                let next = if length + 1 == TAG.len() { Place::Line } else { Place::Tag(length + 1) };
                (tag(*length) == Some(byte)).then_some((next, Role::Nothing))
            }
            Place::Line => {
                let call = State::new(&self.grammar, self.call?);
                (byte == b'\n').then_some((Place::Call(call), Role::Nothing))
            }
            Place::Call(state) => {
                let state = state.step(&self.grammar, byte)?;
                Some((if state.is_whole() { Place::Over } else { Place::Call(state) }, Role::Call))
            }
            Place::Format(_, true) if tag(0) == Some(byte) => Some((Place::Tag(1), Role::Nothing)),
            Place::Format(state, _) => {
                let state = state.step(&self.grammar, byte)?;
                Some((if state.is_whole() { Place::Over } else { Place::Format(state, false) }, Role::Text))
            }
            Place::Over => None,
        }
    }

    /// Returns the place after these bytes; `None` if they may not come.
    pub(crate) fn walk(&self, place: &Place, bytes: &[u8]) -> Option<Place> {
        let (first, rest) = bytes.split_first()?;
        let first = self.step(place, *first)?.0;
        rest.iter().try_fold(first, |place, byte| self.step(&place, *byte).map(|(place, _)| place))
    }

    /// Returns true if the answer may end here.
    pub(crate) fn may_end(&self, place: &Place) -> bool {
        match place {
            Place::Free(_) | Place::Over => true,
            Place::Format(state, _) => state.may_end(&self.grammar),
            Place::Tag(_) | Place::Line | Place::Call(_) => false,
        }
    }

    /// Returns bytes that make the answer whole: none in free text.
    pub(crate) fn completion(&self, place: &Place) -> Vec<u8> {
        let call = || {
            self.call
                .map(|call| State::new(&self.grammar, call).completion(&self.grammar))
                .unwrap_or_default()
        };
        match place {
            Place::Free(_) | Place::Over => Vec::new(),
            Place::Tag(length) => {
                [TAG.as_bytes().get(*length..).unwrap_or_default(), b"\n", &call()].concat()
            }
            Place::Line => [b"\n".as_slice(), &call()].concat(),
            Place::Call(state) | Place::Format(state, _) => state.completion(&self.grammar),
        }
    }
}
