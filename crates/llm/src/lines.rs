//! Lines of a stream, within a bound.

use crate::error::{ModelError, StreamFault};

/// Splitter of a stream of bytes into lines. A line ends with LF, CR or both, wherever the stream is cut.
///
/// At most one unfinished line is kept, up to the limit.
pub(crate) struct Lines {
    unfinished: Vec<u8>,
    limit: usize,
    /// True if the last byte was a CR, so that an LF belongs to it.
    follows_return: bool,
}

impl Lines {
    /// Creates a splitter whose lines have at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { unfinished: Vec::new(), limit, follows_return: false }
    }

    /// Takes a piece of the stream, and hands on every line that it finishes.
    ///
    /// # Errors
    /// [`StreamFault::TooLarge`], or the error of `each`.
    pub(crate) fn push(
        &mut self,
        mut piece: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        if self.follows_return && !piece.is_empty() {
            self.follows_return = false;
            piece = piece.strip_prefix(b"\n").unwrap_or(piece);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', piece) {
            let (line, rest) = piece.split_at(end);
            self.grow(line.len())?;
            if self.unfinished.is_empty() {
                each(line)?;
            } else {
                self.unfinished.extend_from_slice(line);
                let whole = std::mem::take(&mut self.unfinished);
                each(&whole)?;
            }
            piece = match rest {
                [b'\r', b'\n', rest @ ..] | [b'\n', rest @ ..] => rest,
                [b'\r', rest @ ..] => {
                    self.follows_return = rest.is_empty();
                    rest
                }
                _ => &[],
            };
        }
        self.grow(piece.len())?;
        self.unfinished.extend_from_slice(piece);
        Ok(())
    }

    /// Returns the line that the stream ended in, if any.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unfinished)
    }

    fn grow(&self, more: usize) -> Result<(), ModelError> {
        if self.unfinished.len().saturating_add(more) > self.limit {
            return Err(StreamFault::TooLarge { what: "event", limit: self.limit }.into());
        }
        Ok(())
    }
}

/// Returns a line as text.
///
/// # Errors
/// [`StreamFault::Malformed`].
pub(crate) fn text(line: &[u8]) -> Result<&str, ModelError> {
    std::str::from_utf8(line).map_err(|_| crate::error::malformed("it is no UTF-8"))
}
