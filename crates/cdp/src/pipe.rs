//! Transport of `--remote-debugging-pipe`: JSON messages, each followed by a zero byte.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::transport::{IncomingMessage, MESSAGE_LIMIT, ReadMessages, WriteMessages};

/// Number of bytes that are asked for at once: the capacity of a pipe.
const READ_SIZE: usize = 64 * 1024;
/// Number of bytes that are kept of a message above the limit. Its id stands at its beginning.
const HEAD: usize = 256;
/// Capacity that the buffer may keep after a large message.
const KEPT_CAPACITY: usize = 1024 * 1024;

/// Reader of messages from a pipe, or from any stream of bytes.
#[derive(Debug)]
pub struct PipeReader<R> {
    stream: R,
    /// Bytes that were read and belong to no returned message.
    buffer: Vec<u8>,
    /// Number of bytes at the beginning of the buffer that contain no zero byte.
    searched: usize,
    /// Number of bytes of the present message that were thrown away.
    dropped: usize,
    limit: usize,
}

impl<R> PipeReader<R> {
    /// Creates a reader.
    pub fn new(stream: R) -> Self {
        Self::with_limit(stream, MESSAGE_LIMIT)
    }

    /// Creates a reader with another limit, in bytes.
    fn with_limit(stream: R, limit: usize) -> Self {
        Self { stream, buffer: Vec::new(), searched: 0, dropped: 0, limit }
    }

    /// Takes the next message out of the buffer, if its end was read.
    fn take(&mut self) -> Option<IncomingMessage> {
        let rest = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(found) = memchr::memchr(0, rest) else {
            self.searched = self.buffer.len();
            if self.dropped > 0 || self.buffer.len() > self.limit {
                // The head stays; everything behind it is thrown away as it comes.
                let surplus = self.buffer.len().saturating_sub(HEAD);
                self.dropped = self.dropped.saturating_add(surplus);
                self.buffer.truncate(HEAD);
                self.buffer.shrink_to(KEPT_CAPACITY);
                self.searched = self.buffer.len();
            }
            return None;
        };
        let end = self.searched + found;
        let behind = self.buffer.split_off(end + 1);
        let mut message = std::mem::replace(&mut self.buffer, behind);
        message.truncate(end);
        self.searched = 0;
        let bytes = message.len().saturating_add(std::mem::take(&mut self.dropped));
        if bytes > self.limit {
            message.truncate(HEAD);
            return Some(IncomingMessage::TooLarge { head: message, bytes });
        }
        Some(IncomingMessage::Whole(message))
    }
}

impl<R: AsyncRead + Unpin + Send + 'static> ReadMessages for PipeReader<R> {
    async fn next(&mut self) -> io::Result<Option<IncomingMessage>> {
        loop {
            if let Some(message) = self.take() {
                return Ok(Some(message));
            }
            self.buffer.reserve(READ_SIZE);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                // A message without its end is no message.
                return Ok(None);
            }
        }
    }
}

/// Writer of messages to a pipe, or to any stream of bytes.
#[derive(Debug)]
pub struct PipeWriter<W> {
    stream: W,
}

impl<W> PipeWriter<W> {
    /// Creates a writer.
    pub fn new(stream: W) -> Self {
        Self { stream }
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> WriteMessages for PipeWriter<W> {
    async fn write(&mut self, mut message: Vec<u8>) -> io::Result<()> {
        message.push(0);
        self.stream.write_all(&message).await?;
        self.stream.flush().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn messages(parts: &[&[u8]], limit: usize) -> Vec<IncomingMessage> {
        let (mut near, far) = tokio::io::duplex(1 << 20);
        let mut reader = PipeReader::with_limit(far, limit);
        let mut found = Vec::new();
        let mut parts = parts.iter();
        loop {
            while let Some(message) = reader.take() {
                found.push(message);
            }
            let Some(part) = parts.next() else { break };
            near.write_all(part).await.unwrap();
            reader.buffer.reserve(READ_SIZE);
            let read = reader.stream.read_buf(&mut reader.buffer).await.unwrap();
            assert_eq!(read, part.len());
        }
        drop(near);
        assert_eq!(reader.next().await.unwrap(), None);
        found
    }

    fn whole(text: &str) -> IncomingMessage {
        IncomingMessage::Whole(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn a_message_may_come_in_parts_and_several_at_once() {
        let found = messages(&[b"{\"a\"", b":1}", b"\0{}\0[1]\0{", b"}\0", b"cut"], 100).await;
        assert_eq!(found, [whole("{\"a\":1}"), whole("{}"), whole("[1]"), whole("{}")]);
    }

    #[tokio::test]
    async fn a_message_above_the_limit_is_thrown_away_and_the_next_one_is_read() {
        let long = vec![b'x'; 2000];
        let found = messages(&[b"{\"id\":7,", &long, &long, b"\0{}\0"], 1000).await;
        assert_eq!(found.len(), 2);
        let IncomingMessage::TooLarge { head, bytes } = &found[0] else { panic!("{found:?}") };
        assert_eq!((head.len(), *bytes), (HEAD, 4008));
        assert!(head.starts_with(b"{\"id\":7,"));
        assert_eq!(found[1], whole("{}"));
    }

    #[tokio::test]
    async fn a_message_above_the_limit_keeps_no_memory() {
        let long = vec![b'x'; 8 << 20];
        let (mut near, far) = tokio::io::duplex(1 << 16);
        let mut reader = PipeReader::with_limit(far, 1 << 20);
        let writing = tokio::spawn(async move {
            near.write_all(&long).await.unwrap();
            near.write_all(b"\0").await.unwrap();
        });
        let found = reader.next().await.unwrap().unwrap();
        assert!(matches!(found, IncomingMessage::TooLarge { bytes, .. } if bytes == 8 << 20), "{found:?}");
        assert!(reader.buffer.capacity() <= 2 * KEPT_CAPACITY, "{}", reader.buffer.capacity());
        writing.await.unwrap();
    }
}
