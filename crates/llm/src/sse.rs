//! Server-sent events, as the HTML standard parses them (section 9.2.6), within a bound.
//!
//! Ids and retry times are left out: no provider resumes a stream.

use crate::error::{ModelError, StreamFault};
use crate::lines::{Lines, text};

/// Event of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event<'a> {
    /// Type of the event; empty if the stream gives none.
    pub(crate) name: &'a str,
    /// Data of the event.
    pub(crate) data: &'a str,
}

/// Parser of a stream. Keeps at most one event and one line, each up to the limit.
pub(crate) struct Events {
    lines: Lines,
    event: Unfinished,
}

struct Unfinished {
    limit: usize,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// True until the first line, which may begin with a byte order mark.
    is_first: bool,
}

impl Events {
    /// Creates a parser whose events have at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        let event = Unfinished { limit, name: Vec::new(), data: Vec::new(), has_data: false, is_first: true };
        Self { lines: Lines::new(limit), event }
    }

    /// Takes a piece of the stream, and hands on every event that it finishes. An event without its empty
    /// line at the end of the stream is dropped, as the standard demands.
    ///
    /// # Errors
    /// [`StreamFault::TooLarge`], [`StreamFault::Malformed`], or the error of `each`.
    pub(crate) fn push(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(Event<'_>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        let event = &mut self.event;
        self.lines.push(piece, |line| event.line(line, &mut each))
    }
}

impl Unfinished {
    fn line(
        &mut self,
        line: &[u8],
        each: &mut impl FnMut(Event<'_>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        let line = if std::mem::take(&mut self.is_first) {
            line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line)
        } else {
            line
        };
        if line.is_empty() {
            let has_data = std::mem::take(&mut self.has_data);
            let done = if has_data {
                each(Event { name: text(&self.name)?, data: text(&self.data)? })
            } else {
                Ok(())
            };
            self.name.clear();
            self.data.clear();
            return done;
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(0) => return Ok(()),
            Some(colon) => {
                let (field, value) = line.split_at(colon);
                let value = value.strip_prefix(b":").unwrap_or(value);
                (field, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &[][..]),
        };
        match field {
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            b"data" => {
                if self.data.len().saturating_add(value.len()) >= self.limit {
                    return Err(StreamFault::TooLarge { what: "event", limit: self.limit }.into());
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the events of a stream that arrives in these pieces.
    fn events<'a>(
        pieces: impl IntoIterator<Item = &'a [u8]>,
        limit: usize,
    ) -> Result<Vec<(String, String)>, ModelError> {
        let mut parser = Events::new(limit);
        let mut all = Vec::new();
        for piece in pieces {
            parser.push(piece, |event| {
                all.push((event.name.to_owned(), event.data.to_owned()));
                Ok(())
            })?;
        }
        Ok(all)
    }

    fn owned(events: &[(&str, &str)]) -> Vec<(String, String)> {
        events.iter().map(|(name, data)| ((*name).to_owned(), (*data).to_owned())).collect()
    }

    #[test]
    fn events_are_read_as_the_standard_says() {
        let stream = "\u{feff}: a comment\nevent: a\ndata: one\ndata:two\n\ndata:  x\rdata\r\rid: 7\nretry: 1\nother\n\n\
                      event: without data\n\ndata: y\r\n\r\ndata: not finished\n";
        let expected = owned(&[("a", "one\ntwo"), ("", " x\n"), ("", "y")]);
        assert_eq!(events([stream.as_bytes()], 1_000).unwrap(), expected);
    }

    #[test]
    fn a_stream_is_the_same_wherever_it_is_cut() {
        let stream =
            "event: é\ndata: {\"a\":\"ü\u{1f600}\"}\r\n\r\ndata: 1\rdata: 2\r\r: note\n\ndata: [DONE]\n\n";
        let bytes = stream.as_bytes();
        let whole = events([bytes], 100).unwrap();
        assert_eq!(whole.len(), 3);
        for cut in 0..=bytes.len() {
            assert_eq!(events([&bytes[..cut], &bytes[cut..]], 100).unwrap(), whole, "cut at {cut}");
        }
        assert_eq!(events(bytes.chunks(1), 100).unwrap(), whole);
    }

    #[test]
    fn a_line_and_an_event_have_a_bound() {
        let too_large = |limit| ModelError::from(StreamFault::TooLarge { what: "event", limit });
        let endless = [b'x'; 101];
        assert_eq!(events(endless.chunks(10), 100), Err(too_large(100)));
        let many = b"data: 1234\n".repeat(30);
        assert_eq!(events([many.as_slice()], 100), Err(too_large(100)));
        // Events that end are no sum.
        let ended = b"data: 1234\n\n".repeat(30);
        assert_eq!(events([ended.as_slice()], 100).unwrap().len(), 30);
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        let fault = events([b"data: \xff\n\n".as_slice()], 100).unwrap_err();
        assert!(matches!(fault, ModelError::Broken { fault: StreamFault::Malformed(_), .. }), "{fault:?}");
    }

    proptest! {
        /// Any bytes, however they are cut, are read as the same events or refused alike, and never panic.
        #[test]
        fn any_bytes_are_read_alike_in_any_pieces(
            lines in prop::collection::vec(
                prop_oneof![
                    Just(b"data: {\"a\":1}".to_vec()), Just(b"event: x".to_vec()), Just(Vec::new()),
                    Just(b":".to_vec()), Just(b"\r".to_vec()), prop::collection::vec(any::<u8>(), 0..20),
                ],
                0..40,
            ),
            ends in prop::collection::vec(prop_oneof![Just("\n"), Just("\r"), Just("\r\n")], 40),
            cuts in prop::collection::vec(1_usize..9, 1..50),
        ) {
            let mut stream = Vec::new();
            for (line, end) in lines.iter().zip(&ends) {
                stream.extend_from_slice(line);
                stream.extend_from_slice(end.as_bytes());
            }
            let whole = events([stream.as_slice()], 60);
            let mut pieces = Vec::new();
            let mut rest = stream.as_slice();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            prop_assert_eq!(events(pieces, 60), whole);
        }
    }
}
