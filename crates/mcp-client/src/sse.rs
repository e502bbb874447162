//! Server-sent events, as the HTML standard parses them (section 9.2.6), within a bound.

use std::time::Duration;

use crate::error::CloseReason;

/// Longest wait that a server may demand before a stream is resumed.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Maximum length of the type of an event, in bytes.
const LONGEST_NAME: usize = 64;

/// Maximum length of an id, in bytes. It becomes a header.
const LONGEST_ID: usize = 1024;

/// Event of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Type of the event; empty if the stream gives none.
    pub(crate) name: String,
    /// Data of the event.
    pub(crate) data: Vec<u8>,
}

impl Event {
    /// Returns true for an event that carries a message of the protocol.
    pub(crate) fn is_message(&self) -> bool {
        matches!(self.name.as_str(), "" | "message")
    }
}

/// Parser of a stream. Keeps at most one line and one event, each up to the limit.
pub(crate) struct Events {
    limit: usize,
    line: Vec<u8>,
    /// True if the last piece ended with a carriage return, whose line feed may follow.
    after_return: bool,
    is_first: bool,
    name: String,
    data: Vec<u8>,
    has_data: bool,
    id: Option<String>,
    /// Id of the event that is not complete yet.
    next_id: Option<String>,
    retry: Option<Duration>,
}

impl Events {
    /// Creates a parser whose events have at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_return: false,
            is_first: true,
            name: String::new(),
            data: Vec::new(),
            has_data: false,
            id: None,
            next_id: None,
            retry: None,
        }
    }

    /// Returns the id of the newest complete event that has one, from which the stream can be resumed.
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.id.as_deref().filter(|id| !id.is_empty())
    }

    /// Returns the wait that the server demands before a resumption.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Returns a parser for the continuation of the stream on another connection.
    pub(crate) fn resumed(self) -> Self {
        Self { id: self.id, retry: self.retry, ..Self::new(self.limit) }
    }

    /// Takes a piece of the stream, and returns the events that it completes, empty ones left out.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<Vec<Event>, CloseReason> {
        let mut complete = Vec::new();
        let mut rest = piece;
        while let Some((first, after)) = rest.split_first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                rest = after;
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else {
                self.extend(rest)?;
                break;
            };
            let (head, tail) = rest.split_at(end);
            self.extend(head)?;
            self.after_return = tail.first() == Some(&b'\r');
            rest = tail.get(1..).unwrap_or_default();
            let line = std::mem::take(&mut self.line);
            complete.extend(self.take_line(&line)?);
        }
        Ok(complete)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), CloseReason> {
        // The name of the field is not part of the message.
        if self.line.len() + bytes.len() > self.limit.saturating_add(16) {
            return Err(CloseReason::MessageTooLong { limit: self.limit });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn take_line(&mut self, line: &[u8]) -> Result<Option<Event>, CloseReason> {
        let is_first = std::mem::take(&mut self.is_first);
        let line = if is_first { line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line) } else { line };
        if line.is_empty() {
            self.id = self.next_id.take().or_else(|| self.id.take());
            let data = std::mem::take(&mut self.data);
            let has_data = std::mem::take(&mut self.has_data);
            let name = std::mem::take(&mut self.name);
            return Ok((has_data && !data.is_empty()).then_some(Event { name, data }));
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(0) => return Ok(None),
            Some(colon) => {
                let (field, value) = line.split_at(colon);
                let value = value.get(1..).unwrap_or_default();
                (field, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &[][..]),
        };
        match field {
            b"data" => {
                if self.data.len() + value.len() >= self.limit {
                    return Err(CloseReason::MessageTooLong { limit: self.limit });
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => {
                let name = std::str::from_utf8(value).ok().filter(|name| name.len() <= LONGEST_NAME);
                // A name that is no short text is none that anybody waits for.
                name.unwrap_or("unknown").clone_into(&mut self.name);
            }
            b"id" => {
                // An id that no header can carry cannot be resumed from.
                let id = std::str::from_utf8(value).ok();
                let id = id.filter(|id| {
                    id.len() <= LONGEST_ID && id.bytes().all(|byte| (0x20..0x7f).contains(&byte))
                });
                self.next_id = Some(id.unwrap_or_default().to_owned());
            }
            b"retry" => {
                let milliseconds = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                self.retry =
                    milliseconds.map(|retry| Duration::from_millis(retry).min(LONGEST_RETRY)).or(self.retry);
            }
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events<'a>(
        pieces: impl IntoIterator<Item = &'a [u8]>,
        limit: usize,
    ) -> Result<(Vec<String>, Events), CloseReason> {
        let mut parser = Events::new(limit);
        let mut all = Vec::new();
        for piece in pieces {
            all.extend(
                parser
                    .push(piece)?
                    .into_iter()
                    .map(|event| format!("{}{}", event.name, String::from_utf8_lossy(&event.data))),
            );
        }
        Ok((all, parser))
    }

    #[test]
    fn events_ids_and_waits_are_read() {
        let stream = "\u{feff}: hello\nid: 1\nretry: 250\ndata:\n\nevent: message\nid: 2\ndata: {\"a\":\ndata: 1}\r\n\r\nid: 3\ndata: cut";
        let (all, parser) = events([stream.as_bytes()], 100).unwrap();
        assert_eq!(all, ["message{\"a\":\n1}"]);
        assert_eq!((parser.last_id(), parser.retry()), (Some("2"), Some(Duration::from_millis(250))));
        let (_, parser) = events([b"id: a\x01\nretry: 99999999\n\n".as_slice()], 100).unwrap();
        assert_eq!((parser.last_id(), parser.retry()), (None, Some(LONGEST_RETRY)));
    }

    #[test]
    fn a_line_and_an_event_have_a_bound() {
        for stream in [vec![b'x'; 200], b"data: 1234\n".repeat(30)] {
            assert_eq!(
                events([stream.as_slice()], 100).err(),
                Some(CloseReason::MessageTooLong { limit: 100 })
            );
        }
        assert_eq!(events([b"data: 1234\n\n".repeat(30).as_slice()], 100).unwrap().0.len(), 30);
    }

    proptest! {
        #[test]
        fn any_stream_is_the_same_wherever_it_is_cut(
            lines in prop::collection::vec(prop_oneof![
                Just(b"data: x".to_vec()), Just(Vec::new()), Just(b"id: 4".to_vec()), prop::collection::vec(any::<u8>(), 0..12),
            ], 0..30),
            ends in prop::collection::vec(prop_oneof![Just("\n"), Just("\r"), Just("\r\n")], 30),
            size in 1_usize..9,
        ) {
            let mut stream = Vec::new();
            for (line, end) in lines.iter().zip(&ends) {
                stream.extend_from_slice(line);
                stream.extend_from_slice(end.as_bytes());
            }
            let whole = events([stream.as_slice()], 60).map(|(all, parser)| (all, parser.id));
            let cut = events(stream.chunks(size), 60).map(|(all, parser)| (all, parser.id));
            prop_assert_eq!(whole, cut);
        }
    }
}
