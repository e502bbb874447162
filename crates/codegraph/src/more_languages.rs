//! Languages whose grammars are in another program, and the messages that go to it and back.
//!
//! The other program first sends a [`Greeting`]. Then it gets one [`Request`] after the other, and answers each with
//! the facts in their stored form, or with nothing. Every message is a length of four bytes (little-endian) and as
//! many bytes.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::extract::{ExtractLimits, extract, is_supported};
use crate::facts::{EXTRACTOR_VERSION, FileFacts};
use crate::index::Extraction;
use crate::language::Language;

/// Maximum size of a message, in bytes. Facts of the largest file that is read take up to half of it.
pub const LARGEST_MESSAGE: usize = 64 << 20;

/// Version of the messages.
const PROTOCOL: u32 = 1;

/// Languages beyond those that were compiled in. What is available may change while the program runs.
pub trait MoreLanguages: Send + Sync + std::fmt::Debug {
    /// Returns the languages that are available now, and a number that differs whenever other ones are, or another
    /// program for them is.
    fn available(&self) -> (u64, Vec<Language>);

    /// Returns the reason why no language is available although a program for them is installed.
    fn problem(&self) -> Option<String>;

    /// Extracts the facts of a file. Returns `None` if that was stopped.
    fn extract(
        &self,
        language: Language,
        content: &[u8],
        limits: &ExtractLimits,
        is_stopped: &dyn Fn() -> bool,
    ) -> Option<Extraction>;

    /// Frees what is only needed while files are extracted.
    fn rest(&self);
}

/// An absence of further languages.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMoreLanguages;

impl MoreLanguages for NoMoreLanguages {
    fn available(&self) -> (u64, Vec<Language>) {
        (0, Vec::new())
    }

    fn problem(&self) -> Option<String> {
        None
    }

    fn extract(
        &self,
        _language: Language,
        _content: &[u8],
        _limits: &ExtractLimits,
        _is_stopped: &dyn Fn() -> bool,
    ) -> Option<Extraction> {
        None
    }

    fn rest(&self) {}
}

/// The first message of a program with grammars.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// Version of the messages.
    protocol: u32,
    /// Version of the extraction.
    extractor: u32,
    /// Version of the program.
    pub version: String,
    /// Languages whose grammars it has.
    pub languages: Vec<Language>,
}

impl Greeting {
    /// Creates the greeting of this program, whose version the caller gives.
    pub fn of_this_program(version: &str, languages: Vec<Language>) -> Self {
        Self { protocol: PROTOCOL, extractor: EXTRACTOR_VERSION, version: version.to_owned(), languages }
    }

    /// Returns true if facts of the program are those of this one, whose version the caller gives.
    pub fn fits(&self, version: &str) -> bool {
        self.protocol == PROTOCOL && self.extractor == EXTRACTOR_VERSION && self.version == version
    }

    /// Encodes the greeting.
    ///
    /// # Errors
    /// Returns [`WireError`] if it cannot be encoded.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WireError> {
        postcard::to_allocvec(self).map_err(|_| WireError::Damaged)
    }

    /// Decodes a greeting.
    ///
    /// # Errors
    /// Returns [`WireError`] if it is none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        postcard::from_bytes(bytes).map_err(|_| WireError::Damaged)
    }
}

/// A request for the facts of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request<'a> {
    language: Language,
    bytes: u64,
    work_per_byte: u32,
    #[serde(borrow)]
    content: &'a [u8],
}

impl<'a> Request<'a> {
    /// Creates a request.
    pub fn new(language: Language, content: &'a [u8], limits: &ExtractLimits) -> Self {
        let bytes = u64::try_from(limits.bytes).unwrap_or(u64::MAX);
        Self { language, bytes, work_per_byte: limits.work_per_byte, content }
    }

    /// Encodes the request.
    ///
    /// # Errors
    /// Returns [`WireError`] if it is too large.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WireError> {
        let bytes = postcard::to_allocvec(self).map_err(|_| WireError::Damaged)?;
        if bytes.len() > LARGEST_MESSAGE { Err(WireError::TooLarge) } else { Ok(bytes) }
    }

    /// Reads the answer to this request.
    ///
    /// # Errors
    /// Returns [`WireError`] if it has no facts of a file of this language and these lines, or if they are
    /// inconsistent.
    pub fn read_answer(&self, bytes: &[u8]) -> Result<FileFacts, WireError> {
        let facts = FileFacts::from_bytes(bytes).map_err(|_| WireError::Damaged)?;
        let lines = crate::lowering::memory_lines(self.content);
        let is_of_file = facts.language == self.language && facts.line_count == lines;
        if is_of_file && facts.is_consistent() { Ok(facts) } else { Err(WireError::Damaged) }
    }
}

/// Returns the answer to a request: facts, or nothing for an unknown language.
///
/// # Errors
/// Returns [`WireError`] if the bytes are no request.
pub fn answer(request: &[u8]) -> Result<Vec<u8>, WireError> {
    let request: Request<'_> = postcard::from_bytes(request).map_err(|_| WireError::Damaged)?;
    if !is_supported(request.language) {
        return Ok(Vec::new());
    }
    let limits = ExtractLimits {
        bytes: usize::try_from(request.bytes).unwrap_or(usize::MAX),
        work_per_byte: request.work_per_byte,
    };
    let facts = extract(request.language, request.content, &limits).ok_or(WireError::Damaged)?;
    let bytes = facts.to_bytes().map_err(|_| WireError::Damaged)?;
    if bytes.len() > LARGEST_MESSAGE { Err(WireError::TooLarge) } else { Ok(bytes) }
}

/// Reads a message. Returns `None` at the end of the input.
///
/// # Errors
/// Returns the error of the input, and [`WireError::TooLarge`] for a longer message than allowed.
pub fn read_message(input: &mut impl Read) -> Result<Option<Vec<u8>>, WireError> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > LARGEST_MESSAGE {
        return Err(WireError::TooLarge);
    }
    // Grows with what arrives, so that a length alone takes no memory.
    let mut message = Vec::new();
    input.take(length as u64).read_to_end(&mut message)?;
    if message.len() == length { Ok(Some(message)) } else { Err(WireError::Damaged) }
}

/// Writes a message.
///
/// # Errors
/// Returns the error of the output.
pub fn write_message(output: &mut impl Write, message: &[u8]) -> Result<(), WireError> {
    let length = u32::try_from(message.len()).map_err(|_| WireError::TooLarge)?;
    output.write_all(&length.to_le_bytes())?;
    output.write_all(message)?;
    Ok(output.flush()?)
}

/// A message that cannot be sent or read.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The message is longer than allowed.
    #[error("a message is longer than {LARGEST_MESSAGE} bytes")]
    TooLarge,
    /// The message is none of this version.
    #[error("a message is damaged")]
    Damaged,
    /// The connection failed.
    #[error("the connection to the program with grammars failed")]
    Io(#[from] io::Error),
}
