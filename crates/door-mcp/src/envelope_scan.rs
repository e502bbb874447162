//! Extraction of the envelope of a JSON-RPC message that is too large to be parsed.
//!
//! Needs constant memory. Does not validate the JSON: it only finds the addressee of the response.

use memchr::memchr2;
use serde::de::DeserializeOwned;

use crate::id::Id;

/// Scans the bytes of one message and records its `id`, its `method` and the name of the tool in
/// its `params`.
///
/// The official clients write `id` last, so the whole message must be scanned.
#[derive(Debug, Default)]
pub(crate) struct EnvelopeScan {
    depth: usize,
    in_string: bool,
    escaped: bool,
    end: End,
    token: Token,
    /// Current field of the message, and current field of its `params`.
    field: Field,
    parameter: Field,
    id: Option<Id>,
    method: Option<String>,
    tool: Option<String>,
}

/// State of the end of the message.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    Closed,
    /// More text follows the end of the message.
    Passed,
}

/// Text of one name or value.
#[derive(Debug, Default)]
struct Token {
    text: Vec<u8>,
    unusable: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Field {
    Id,
    Method,
    Params,
    Name,
    #[default]
    Other,
}

/// Maximum length of a name, id or method, in bytes; a longer one counts as missing.
const LONGEST_TOKEN: usize = 256;

impl EnvelopeScan {
    /// Scans the next bytes.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.escaped {
                self.escaped = false;
                self.keep(&[byte]);
                bytes = rest;
            } else if self.in_string {
                let end = memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len());
                self.keep(&bytes[..end]);
                bytes = &bytes[end..];
                if let Some((&byte, rest)) = bytes.split_first() {
                    self.keep(&[byte]);
                    self.escaped = byte == b'\\';
                    self.in_string = self.escaped;
                    bytes = rest;
                }
            } else {
                self.structure(byte);
                bytes = rest;
            }
        }
    }

    /// Returns true if the bytes were one complete object, judged by brackets and quotes.
    pub(crate) fn is_whole(&self) -> bool {
        self.end == End::Closed
    }

    /// Returns the id, if it was found and can be used in a response.
    pub(crate) fn id(&self) -> Option<&Id> {
        self.id.as_ref()
    }

    /// Returns the method, if it was found.
    pub(crate) fn method(&self) -> Option<&str> {
        self.method.as_deref()
    }

    /// Returns the name of the called tool, if it was found.
    pub(crate) fn tool(&self) -> Option<&str> {
        self.tool.as_deref()
    }

    fn structure(&mut self, byte: u8) {
        if self.end == End::Closed && !byte.is_ascii_whitespace() {
            self.end = End::Passed;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(&[byte]);
            }
            b'{' | b'[' => {
                self.token.unusable |= self.is_followed();
                self.depth += 1;
                if self.is_followed() {
                    self.token = Token::default();
                }
            }
            b'}' | b']' => {
                if self.is_followed() {
                    self.end_of_value();
                }
                if self.depth == 1 && self.end == End::Open {
                    self.end = End::Closed;
                }
                self.depth = self.depth.saturating_sub(1);
                // The value that ends here was an object or array.
                self.token.unusable = true;
            }
            b',' => {
                if self.is_followed() {
                    self.end_of_value();
                }
            }
            b':' if self.is_followed() => {
                let field = match std::mem::take(&mut self.token).read::<String>().as_deref() {
                    Some("id") => Field::Id,
                    Some("method") => Field::Method,
                    Some("params") => Field::Params,
                    Some("name") => Field::Name,
                    _ => Field::Other,
                };
                *self.current() = field;
            }
            _ => self.keep(&[byte]),
        }
    }

    /// Returns true if the bytes belong to the message object itself or to its `params`.
    fn is_followed(&self) -> bool {
        self.depth == 1 || self.depth == 2 && self.field == Field::Params
    }

    fn current(&mut self) -> &mut Field {
        if self.depth == 1 { &mut self.field } else { &mut self.parameter }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if !self.is_followed() || self.token.unusable {
            return;
        }
        if self.token.text.len() + bytes.len() > LONGEST_TOKEN {
            self.token.unusable = true;
        } else {
            self.token.text.extend_from_slice(bytes);
        }
    }

    fn end_of_value(&mut self) {
        let token = std::mem::take(&mut self.token);
        let at_top = self.depth == 1;
        match std::mem::take(self.current()) {
            Field::Id if at_top => self.id = token.read().and_then(|text| Id::read(text).ok().flatten()),
            Field::Method if at_top => self.method = token.read(),
            Field::Name if !at_top => self.tool = token.read(),
            _ => {}
        }
    }
}

impl Token {
    /// Parses the token as a value of this type.
    fn read<T: DeserializeOwned>(&self) -> Option<T> {
        if self.unusable { None } else { serde_json::from_slice(&self.text).ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(skim: &EnvelopeScan) -> Option<&str> {
        skim.id().map(Id::shown)
    }

    fn skim(text: &str) -> EnvelopeScan {
        let mut skim = EnvelopeScan::default();
        // Feed one byte at a time: no state may be lost between two reads.
        for byte in text.bytes() {
            skim.feed(&[byte]);
        }
        let mut whole = EnvelopeScan::default();
        whole.feed(text.as_bytes());
        assert_eq!((whole.id(), whole.method()), (skim.id(), skim.method()));
        skim
    }

    #[test]
    fn the_envelope_is_found_whatever_the_order() {
        let first =
            skim(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"id":8,"a":["}",{"id":9}]}}"#);
        assert_eq!((id(&first), first.method(), first.tool()), (Some("7"), Some("tools/call"), None));
        let last = skim(
            r#"{ "method" : "tools/call", "params":{"x":"\\\"},{\"id\":1","name":"file_write",
                "arguments":{"name":"y","id":[{"name":1}]}}, "id" : "a\"b" }"#,
        );
        let found = (id(&last), last.method(), last.tool());
        assert_eq!(found, (Some("a\"b"), Some("tools/call"), Some("file_write")));
        let flat = skim(r#"{"name":"x","params":[{"name":"y"}],"id":1}"#);
        assert_eq!((id(&flat), flat.tool()), (Some("1"), None));
    }

    #[test]
    fn an_id_that_cannot_be_answered_to_counts_as_absent() {
        for text in
            [r#"{"id":{"id":1}}"#, r#"{"id":[1]}"#, r#"{"id":null}"#, r#"{"params":{"id":1}}"#, "[1,2", "x"]
        {
            assert_eq!(skim(text).id(), None, "{text}");
        }
        let long = format!(r#"{{"id":"{}","method":"m"}}"#, "x".repeat(LONGEST_TOKEN));
        assert_eq!((id(&skim(&long)), skim(&long).method()), (None, Some("m")));
    }

    #[test]
    fn one_closed_object_is_whole_and_no_part_or_pair_of_them_is() {
        for whole in [r#"{"id":1}"#, " {\"a\":[{}],\"b\":\"}\"}\r\n", r#"{"a":"\ud800","id":1}"#] {
            assert!(skim(whole).is_whole(), "{whole}");
        }
        for other in ["", "x", "{", r#"{"a":"}"#, r#"{"a":{}"#, "{}{}", "{} x", "{}}", "{}\""] {
            assert!(!skim(other).is_whole(), "{other}");
        }
    }

    #[test]
    fn memory_does_not_grow_with_the_message() {
        let mut skim = EnvelopeScan::default();
        skim.feed(br#"{"method":"tools/call","params":{"content":""#);
        for _ in 0..1000 {
            skim.feed(&[b'x'; 1000]);
        }
        assert!(skim.token.text.capacity() <= 2 * LONGEST_TOKEN);
        skim.feed(br#""},"id":3}"#);
        assert_eq!(id(&skim), Some("3"));
    }
}
