//! Lines of a stream, within a bound.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Size of one read, in bytes: the buffer of a pipe.
const CHUNK: usize = 64 * 1024;

/// Reader of lines. Keeps at most one line and one chunk.
pub(crate) struct Lines<R> {
    reader: R,
    buffer: BytesMut,
    /// Length of the beginning of `buffer` that has no line end.
    searched: usize,
    limit: usize,
    has_ended: bool,
}

/// Line of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Line without its end.
    Whole(Bytes),
    /// The line is longer than the limit, and nothing after it can be read.
    TooLong,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Creates a reader of lines of at most `limit` bytes.
    pub(crate) fn new(reader: R, limit: usize) -> Self {
        Self { reader, buffer: BytesMut::new(), searched: 0, limit, has_ended: false }
    }

    /// Returns the next line; `None` at the end. A last line without its end was cut off, and is dropped.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(found) = memchr::memchr(b'\n', unsearched) {
                let mut line = self.buffer.split_to(self.searched + found);
                self.buffer.advance(1);
                self.searched = 0;
                if line.last() == Some(&b'\r') {
                    line.truncate(line.len() - 1);
                }
                return Ok(Some(if line.len() > self.limit {
                    Line::TooLong
                } else {
                    Line::Whole(line.freeze())
                }));
            }
            self.searched = self.buffer.len();
            // One byte beyond the limit may be a carriage return.
            if self.searched > self.limit + 1 {
                self.buffer = BytesMut::new();
                return Ok(Some(Line::TooLong));
            }
            if self.has_ended {
                return Ok(None);
            }
            self.buffer.reserve(CHUNK);
            self.has_ended = self.reader.read_buf(&mut self.buffer).await? == 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8], limit: usize) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut lines = Lines::new(bytes, limit);
            let mut found = Vec::new();
            while let Some(line) = lines.next().await.unwrap() {
                match line {
                    Line::Whole(line) => found.push(String::from_utf8(line.to_vec()).unwrap()),
                    Line::TooLong => {
                        found.push("too long".to_owned());
                        break;
                    }
                }
            }
            found
        })
    }

    #[test]
    fn lines_end_with_or_without_a_carriage_return_and_a_cut_line_is_dropped() {
        assert_eq!(lines(b"a\r\n\nb\nc", 10), ["a", "", "b"]);
    }

    #[test]
    fn a_line_has_a_bound() {
        assert_eq!(lines(b"12345\r\n123456\n", 5), ["12345", "too long"]);
        assert_eq!(lines(&vec![b'x'; 300_000], 100_000), ["too long"]);
    }
}
