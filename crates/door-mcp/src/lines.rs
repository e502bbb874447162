//! Splitting of a byte stream into lines of bounded length.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::envelope_scan::EnvelopeScan;

/// The lines of a stream.
///
/// [`next`](Lines::next) is cancel-safe: a drop at any await point loses no byte.
pub(crate) struct Lines<R> {
    reader: R,
    limit: usize,
    buffer: Vec<u8>,
    /// End of the returned part of the buffer.
    start: usize,
    /// End of the part of the buffer that contains no line end.
    searched: usize,
    /// Skim of a line that exceeds the limit and is being skipped.
    skim: Option<EnvelopeScan>,
    ended: bool,
}

/// One line, without its end.
#[derive(Debug)]
pub(crate) enum Line<'a> {
    /// A line within the limit.
    Whole(&'a [u8]),
    /// A longer line, whose bytes were discarded.
    TooLong(Box<EnvelopeScan>),
}

/// Bytes per read: the size of a Linux pipe.
const CHUNK: usize = 64 * 1024;

/// Capacity above which the buffer is released after its line was processed.
const KEPT_BUFFER: usize = 1024 * 1024;

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Creates a reader of lines with at most `limit` bytes.
    pub(crate) fn new(reader: R, limit: usize) -> Self {
        Self { reader, limit, buffer: Vec::new(), start: 0, searched: 0, skim: None, ended: false }
    }

    /// Returns the next line; `None` at the end of the stream. The last line needs no line end.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let end = self.searched + found;
                return Ok(Some(self.line(end, end + 1)));
            }
            self.searched = self.buffer.len();
            if self.ended {
                let end = self.buffer.len();
                let nothing_left = end == self.start && self.skim.is_none();
                return Ok(if nothing_left { None } else { Some(self.line(end, end)) });
            }
            self.make_room();
            self.ended = self.reader.read_buf(&mut self.buffer).await? == 0;
        }
    }

    /// Returns the line from the current start to `end`; the next one starts at `next`.
    fn line(&mut self, end: usize, next: usize) -> Line<'_> {
        let start = std::mem::replace(&mut self.start, next);
        self.searched = next;
        let line = &self.buffer[start..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.skim.is_none() && line.len() <= self.limit {
            return Line::Whole(line);
        }
        let mut skim = self.skim.take().unwrap_or_default();
        skim.feed(line);
        Line::TooLong(Box::new(skim))
    }

    fn make_room(&mut self) {
        // One byte beyond the limit may be a carriage return.
        let pending = self.buffer.len() - self.start;
        if self.skim.is_some() || pending > self.limit + 1 {
            let skim = self.skim.get_or_insert_default();
            skim.feed(&self.buffer[self.start..]);
            self.start = self.buffer.len();
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        self.searched = self.buffer.len();
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BUFFER {
            self.buffer = Vec::new();
        }
        self.buffer.reserve(CHUNK);
    }
}

#[cfg(test)]
mod tests {
    use crate::id::Id;

    use super::*;

    async fn lines(bytes: &[u8], limit: usize) -> Vec<String> {
        let mut lines = Lines::new(bytes, limit);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            found.push(match line {
                Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
                Line::TooLong(skim) => format!("too long, id {:?}", skim.id()),
            });
        }
        found
    }

    #[tokio::test]
    async fn lines_end_with_or_without_a_carriage_return_or_with_the_stream() {
        assert_eq!(lines(b"a\r\n\nb\nc", 10).await, ["a", "", "b", "c"]);
        assert_eq!(lines(b"", 10).await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_line_of_exactly_the_limit_is_whole_and_one_byte_more_is_not() {
        assert_eq!(lines(b"12345\n123456\nx\n", 5).await, ["12345", "too long, id None", "x"]);
    }

    #[tokio::test]
    async fn a_line_beyond_the_limit_takes_no_memory_and_the_next_one_is_read() {
        let limit = 1000;
        let mut bytes = br#"{"method":"tools/call","params":{"content":""#.to_vec();
        bytes.resize(bytes.len() + 8 * CHUNK, b'x');
        bytes.extend_from_slice(b"\"},\"id\":5}\nnext\n");
        let mut lines = Lines::new(&bytes[..], limit);
        let Some(Line::TooLong(skim)) = lines.next().await.unwrap() else { panic!("it is too long") };
        assert_eq!(skim.id().map(Id::shown), Some("5"));
        assert!(lines.buffer.capacity() <= 4 * CHUNK, "{}", lines.buffer.capacity());
        assert!(matches!(lines.next().await.unwrap(), Some(Line::Whole(b"next"))));
    }

    #[tokio::test]
    async fn a_reader_that_is_dropped_in_the_middle_loses_nothing() {
        let (client, server) = tokio::io::duplex(64);
        let mut lines = Lines::new(server, 100);
        let (_unread, mut writer) = tokio::io::split(client);
        tokio::io::AsyncWriteExt::write_all(&mut writer, b"one li").await.unwrap();
        tokio::select! {
            biased;
            _ = lines.next() => panic!("the line has not ended"),
            () = tokio::task::yield_now() => {}
        }
        tokio::io::AsyncWriteExt::write_all(&mut writer, b"ne\n").await.unwrap();
        assert!(matches!(lines.next().await.unwrap(), Some(Line::Whole(b"one line"))));
    }
}
