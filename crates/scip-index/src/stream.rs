//! The stream of the messages of an index, one document at a time.

use std::io::{BufRead, Read};

use crate::document::{Document, Fields, damaged, text};
use crate::error::ScipError;

/// Numbers of the fields of the message `Index` in `scip.proto`.
const METADATA: u32 = 1;
const DOCUMENT: u32 = 2;
const EXTERNAL_SYMBOL: u32 = 3;

/// Numbers of the fields of the messages `Metadata` and `ToolInfo`.
const TOOL: u32 = 2;
const PROJECT_ROOT: u32 = 3;
const TOOL_NAME: u32 = 1;
const TOOL_VERSION: u32 = 2;

/// Wire type of a field with a length, by the encoding of the Protocol Buffers.
const WITH_LENGTH: u64 = 2;

/// The limits of the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScipLimits {
    /// Maximum size of one document, in bytes.
    pub document: u64,
    /// Maximum number of documents.
    pub documents: u64,
    /// Maximum number of occurrences in all documents.
    pub occurrences: u64,
}

impl Default for ScipLimits {
    /// Returns the limits of the code graph: files of 64 MiB and 200,000 files, and 100 occurrences a file.
    fn default() -> Self {
        Self { document: 64 << 20, documents: 200_000, occurrences: 20_000_000 }
    }
}

/// The head of an index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata {
    /// URI of the folder that was indexed; may be empty.
    pub project_root: String,
    /// Name of the program that wrote the index; may be empty.
    pub tool: String,
    /// Version of this program; may be empty.
    pub tool_version: String,
}

/// The reader of an index. It has one document in memory at a time.
#[derive(Debug)]
pub struct IndexReader<R> {
    input: R,
    limits: ScipLimits,
    /// Number of bytes that were read.
    at: u64,
    metadata: Option<Metadata>,
    documents: u64,
    occurrences: u64,
    message: Vec<u8>,
}

impl<R: BufRead> IndexReader<R> {
    /// Creates a reader that stands at the beginning of an index.
    pub fn new(input: R, limits: ScipLimits) -> Self {
        let message = Vec::new();
        Self { input, limits, at: 0, metadata: None, documents: 0, occurrences: 0, message }
    }

    /// Returns the number of bytes that were read so far.
    pub fn bytes_read(&self) -> u64 {
        self.at
    }

    /// Returns the head of the index, which stands before its first document. `None` before that was reached.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// Reads the next document; `None` at the end of the index.
    ///
    /// # Errors
    /// Returns [`ScipError`] if the index ends early, is damaged or something else, or exceeds a limit. Nothing
    /// more can be read then.
    pub fn next_document(&mut self) -> Result<Option<Document<'_>>, ScipError> {
        loop {
            let start = self.at;
            let Some(key) = self.varint()? else {
                return match self.metadata {
                    Some(_) => Ok(None),
                    None => Err(ScipError::NotAnIndex { problem: "it is empty" }),
                };
            };
            let (field, wire) = (key >> 3, key & 7);
            if wire != WITH_LENGTH || field == 0 {
                return Err(self.strange(start));
            }
            let length = self.varint()?.ok_or(ScipError::Truncated { at: self.at })?;
            match u32::try_from(field) {
                Ok(METADATA) => {
                    self.take(length)?;
                    self.metadata = Some(metadata(&self.message, start)?);
                }
                Ok(DOCUMENT) => {
                    if self.metadata.is_none() {
                        return Err(ScipError::NotAnIndex { problem: "it does not begin with its metadata" });
                    }
                    self.take(length)?;
                    self.documents += 1;
                    if self.documents > self.limits.documents {
                        return Err(too_large("a number of documents", self.limits.documents));
                    }
                    // The borrow of the message must not begin before the counts are noted.
                    let count = Document::parse(&self.message, start)?.occurrence_count();
                    self.occurrences = self.occurrences.saturating_add(count);
                    if self.occurrences > self.limits.occurrences {
                        return Err(too_large("a number of occurrences", self.limits.occurrences));
                    }
                    return Document::parse(&self.message, start).map(Some);
                }
                Ok(EXTERNAL_SYMBOL) => self.skip(length)?,
                _ if self.metadata.is_none() => return Err(self.strange(start)),
                // A field of a later version.
                _ => self.skip(length)?,
            }
        }
    }

    /// Returns the error for a field that no index has.
    fn strange(&self, at: u64) -> ScipError {
        match self.metadata {
            None => ScipError::NotAnIndex { problem: "it does not begin with its metadata" },
            Some(_) => ScipError::Damaged { at, problem: "no index has such a field".to_owned() },
        }
    }

    /// Reads a number of variable length; `None` if the file ends before its first byte.
    fn varint(&mut self) -> Result<Option<u64>, ScipError> {
        let start = self.at;
        let mut value = 0_u64;
        for position in 0..10_u32 {
            let byte = {
                let buffered = self.input.fill_buf().map_err(ScipError::Read)?;
                match buffered.first() {
                    Some(byte) => *byte,
                    None if position == 0 => return Ok(None),
                    None => return Err(ScipError::Truncated { at: self.at }),
                }
            };
            self.input.consume(1);
            self.at += 1;
            if position == 9 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * position);
            if byte & 0x80 == 0 {
                return Ok(Some(value));
            }
        }
        Err(self.strange(start))
    }

    /// Reads a message into memory. It grows with the bytes that are there, and not with the length.
    fn take(&mut self, length: u64) -> Result<(), ScipError> {
        if length > self.limits.document {
            return Err(too_large("a document of a size in bytes", self.limits.document));
        }
        self.message.clear();
        let read = (&mut self.input).take(length).read_to_end(&mut self.message).map_err(ScipError::Read)?;
        self.advance(read as u64, length)
    }

    /// Reads over a message.
    fn skip(&mut self, length: u64) -> Result<(), ScipError> {
        let read = std::io::copy(&mut (&mut self.input).take(length), &mut std::io::sink());
        self.advance(read.map_err(ScipError::Read)?, length)
    }

    fn advance(&mut self, read: u64, length: u64) -> Result<(), ScipError> {
        self.at += read;
        if read == length { Ok(()) } else { Err(ScipError::Truncated { at: self.at }) }
    }
}

fn too_large(what: &'static str, limit: u64) -> ScipError {
    ScipError::TooLarge { what, limit }
}

/// Reads the head of an index.
fn metadata(bytes: &[u8], at: u64) -> Result<Metadata, ScipError> {
    let mut found = Metadata::default();
    for field in Fields::new(bytes) {
        let (number, value) = field.map_err(|error| damaged(at, &error))?;
        match (number, value.bytes()) {
            (PROJECT_ROOT, Some(bytes)) => text(bytes, at)?.clone_into(&mut found.project_root),
            (TOOL, Some(bytes)) => {
                for field in Fields::new(bytes) {
                    let (number, value) = field.map_err(|error| damaged(at, &error))?;
                    match (number, value.bytes()) {
                        (TOOL_NAME, Some(bytes)) => text(bytes, at)?.clone_into(&mut found.tool),
                        (TOOL_VERSION, Some(bytes)) => text(bytes, at)?.clone_into(&mut found.tool_version),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Ok(found)
}
