//! The body of a request as it arrives, with its framing removed.

use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::AsyncRead;
use tokio::time::timeout;

use crate::head::Framing;
use crate::judging::Beginning;
use crate::peek::PeekedStream;
use crate::refusal::Refusal;

/// Maximum wait for the next part of a body.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// Maximum length of the line before a chunk, and of all trailers together, in bytes.
const LONGEST_LINE: usize = 1024;
const LONGEST_TRAILERS: usize = 16 * 1024;

/// Position within a body.
#[derive(Debug)]
pub(crate) enum Reading {
    /// `bytes` are left of the body or of a chunk. After a chunk, more chunks follow.
    Left { bytes: u64, in_chunk: bool },
    /// The size line of a chunk follows.
    Size,
    /// The line end after a chunk's data follows.
    ChunkEnd,
    /// Trailers follow. The value counts their bytes read so far. Trailers are not passed on.
    Trailers(usize),
    /// The body has ended.
    Ended,
}

impl Reading {
    pub(crate) fn of(framing: Framing) -> Self {
        match framing {
            Framing::Length(0) => Self::Ended,
            Framing::Length(bytes) => Self::Left { bytes, in_chunk: false },
            Framing::Chunked => Self::Size,
        }
    }

    /// Returns the next part of the body; `None` at its end.
    ///
    /// # Errors
    /// A [`Refusal`] if the body contradicts its framing or does not arrive in time.
    pub(crate) async fn next(
        &mut self,
        client: &mut PeekedStream<impl AsyncRead + Unpin>,
    ) -> Result<Option<Bytes>, Refusal> {
        loop {
            match self {
                Self::Ended => return Ok(None),
                Self::Left { bytes, in_chunk } => {
                    if client.bytes.is_empty() {
                        fill(client).await?;
                    }
                    let most = usize::try_from(*bytes).unwrap_or(usize::MAX).min(client.bytes.len());
                    let part = client.bytes.split_to(most).freeze();
                    *bytes = bytes.saturating_sub(part.len() as u64);
                    if *bytes == 0 {
                        *self = if *in_chunk { Self::ChunkEnd } else { Self::Ended };
                    }
                    return Ok(Some(part));
                }
                Self::ChunkEnd => {
                    if line(client, LONGEST_LINE).await?.as_ref() != b"" {
                        return Err(Refusal::malformed("a chunk is longer than its stated size"));
                    }
                    *self = Self::Size;
                }
                Self::Size => {
                    let line = line(client, LONGEST_LINE).await?;
                    let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
                    let plain = (1..=15).contains(&size.len()) && size.iter().all(u8::is_ascii_hexdigit);
                    let size = std::str::from_utf8(size)
                        .ok()
                        .filter(|_| plain)
                        .and_then(|hexadecimal| u64::from_str_radix(hexadecimal, 16).ok());
                    *self = match size {
                        Some(0) => Self::Trailers(0),
                        Some(bytes) => Self::Left { bytes, in_chunk: true },
                        None => return Err(Refusal::malformed("the size of a chunk is not a number")),
                    };
                }
                Self::Trailers(read) => {
                    let line = line(client, LONGEST_LINE).await?;
                    *read += line.len();
                    if *read > LONGEST_TRAILERS {
                        return Err(Refusal::malformed("the trailers are too long"));
                    }
                    if line.is_empty() {
                        *self = Self::Ended;
                    }
                }
            }
        }
    }
}

/// A body of which the beginning may have been read before.
pub(crate) struct BegunBody {
    beginning: Option<Beginning>,
    rest: Reading,
}

impl BegunBody {
    pub(crate) fn of(framing: Framing) -> Self {
        Self { beginning: None, rest: Reading::of(framing) }
    }

    /// Returns bytes to the body, which the next part begins with.
    pub(crate) fn put_back(&mut self, beginning: Beginning) {
        self.beginning = Some(beginning).filter(|beginning| !beginning.bytes.is_empty());
    }

    /// Returns the next part of the body; `None` at its end.
    ///
    /// # Errors
    /// Returns the errors of [`Reading::next`].
    pub(crate) async fn next(
        &mut self,
        client: &mut PeekedStream<impl AsyncRead + Unpin>,
    ) -> Result<Option<Bytes>, Refusal> {
        match self.beginning.take() {
            Some(beginning) => Ok(Some(beginning.bytes)),
            None => self.rest.next(client).await,
        }
    }

    /// Reads the body to its end, so that the client can send all of it before it reads an answer.
    pub(crate) async fn discard(&mut self, client: &mut PeekedStream<impl AsyncRead + Unpin>) {
        while let Ok(Some(_)) = self.next(client).await {}
    }
}

/// Reads the next line without its end. The end must be exactly a carriage return and a line feed.
async fn line(client: &mut PeekedStream<impl AsyncRead + Unpin>, longest: usize) -> Result<Bytes, Refusal> {
    loop {
        if let Some(at) = memchr::memchr(b'\n', &client.bytes) {
            let mut line = client.bytes.split_to(at + 1).freeze();
            if !line.ends_with(b"\r\n") || memchr::memchr(b'\r', &line) != Some(at - 1) {
                return Err(Refusal::malformed("a line in the body does not end with CRLF"));
            }
            line.truncate(at - 1);
            return Ok(line);
        }
        if client.bytes.remaining() > longest {
            return Err(Refusal::malformed("a line in the body is too long"));
        }
        fill(client).await?;
    }
}

async fn fill(client: &mut PeekedStream<impl AsyncRead + Unpin>) -> Result<(), Refusal> {
    match timeout(TIMEOUT, client.fill()).await {
        Err(_) => Err(Refusal::late("the body of the request did not arrive in time")),
        Ok(Ok(0)) => Err(Refusal::malformed("the request ends within its body")),
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(Refusal::malformed(format!("the body of the request cannot be read: {error}"))),
    }
}
