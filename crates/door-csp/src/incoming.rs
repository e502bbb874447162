//! Splits the incoming bytes into requests at empty lines.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// One item read from the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// Lines of a request, without the empty line that ended it.
    Whole(Vec<u8>),
    /// A request above the size limit. Its bytes were read to their end and dropped.
    TooLong,
    /// Lines of a request that the input ended before its empty line.
    Unfinished(Vec<u8>),
}

/// Splits a stream into requests. An empty line holds only its line ending, `\n` or `\r\n`.
pub(crate) struct Requests<R> {
    input: R,
    /// Maximum size of a request in bytes.
    limit: usize,
    request: Vec<u8>,
    is_too_long: bool,
    /// Length in bytes of the line that is being read, without the line ending, and the first of
    /// these bytes.
    line: (usize, u8),
}

impl<R: AsyncBufRead + Unpin> Requests<R> {
    pub(crate) fn new(input: R, limit: usize) -> Self {
        Self { input, limit, request: Vec::new(), is_too_long: false, line: (0, 0) }
    }

    /// Returns the next item, or `None` at the end of the input. Cancel safe: bytes read so far
    /// remain if the future is dropped.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Incoming>> {
        loop {
            let there = self.input.fill_buf().await?;
            if there.is_empty() {
                let has_begun = !self.request.is_empty() || self.is_too_long;
                return Ok(has_begun.then(|| match self.taken() {
                    Incoming::Whole(request) => Incoming::Unfinished(request),
                    other => other,
                }));
            }
            let end = memchr::memchr(b'\n', there);
            let part = &there[..end.map_or(there.len(), |end| end + 1)];
            let (read, content) = (part.len(), &part[..end.unwrap_or(part.len())]);
            if let (0, Some(first)) = (self.line.0, content.first()) {
                self.line.1 = *first;
            }
            self.line.0 += content.len();
            if self.is_too_long || self.request.len() + read > self.limit {
                self.is_too_long = true;
                self.request = Vec::new();
            } else {
                self.request.extend_from_slice(part);
            }
            self.input.consume(read);
            if end.is_none() {
                continue;
            }
            let (length, first) = std::mem::take(&mut self.line);
            if length == 0 || (length == 1 && first == b'\r') {
                let before = self.request.len().saturating_sub(length + 1);
                self.request.truncate(before);
                if before > 0 || self.is_too_long {
                    return Ok(Some(self.taken()));
                }
            }
        }
    }

    fn taken(&mut self) -> Incoming {
        let request = std::mem::take(&mut self.request);
        if std::mem::take(&mut self.is_too_long) { Incoming::TooLong } else { Incoming::Whole(request) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::BufReader;

    use super::*;

    /// Returns the items cut from a text that is read in pieces of `piece` bytes.
    fn cut(text: &[u8], limit: usize, piece: usize) -> Vec<Incoming> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut requests = Requests::new(BufReader::with_capacity(piece, text), limit);
            let mut all = Vec::new();
            while let Some(one) = requests.next().await.unwrap() {
                all.push(one);
            }
            all
        })
    }

    #[test]
    fn an_empty_line_ends_a_request_and_further_ones_say_nothing() {
        let whole = |text: &str| Incoming::Whole(text.as_bytes().to_vec());
        assert_eq!(cut(b"\n\r\na\nb\n\n\n\nc\r\n\r\n", 100, 3), [whole("a\nb\n"), whole("c\r\n")]);
        assert_eq!(cut(b"", 100, 3), []);
        assert_eq!(cut(b"\n\n\r\n", 100, 3), []);
        assert_eq!(cut(b"a\n \n\n", 100, 3), [whole("a\n \n")], "a line of spaces is not empty");
        assert_eq!(cut(b"a\nb", 100, 3), [Incoming::Unfinished(b"a\nb".to_vec())]);
        assert_eq!(cut(b"a\n\nb\n", 100, 1), [whole("a\n"), Incoming::Unfinished(b"b\n".to_vec())]);
    }

    #[test]
    fn what_is_too_long_is_let_go_up_to_its_empty_line() {
        for piece in [1, 7, 4096] {
            let mut text = b"x".repeat(5_000);
            text.extend_from_slice(b"\nmore\n\nb\n\n");
            let cut = cut(&text, 100, piece);
            assert_eq!(cut, [Incoming::TooLong, Incoming::Whole(b"b\n".to_vec())], "{piece}");
        }
        assert_eq!(cut(&b"x".repeat(200), 100, 8), [Incoming::TooLong]);
    }

    proptest! {
        #[test]
        fn however_the_bytes_come_the_requests_are_the_same(
            text in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), any::<u8>()], 0..200),
            piece in 1_usize..20,
        ) {
            prop_assert_eq!(cut(&text, 50, piece), cut(&text, 50, 4096));
        }
    }
}
