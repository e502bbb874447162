//! Saving of a body to a file while it arrives. The file gets its name when it is complete, and an
//! interrupted body is resumed.

use std::io::{self, Seek, Write};
use std::path::Path;
use std::sync::Arc;

use fetch::HeaderMap;
use fetch::decode::{DecodeError, Decoder};
use fetch::web::Answer;
use roots::{Roots, RootsError, Staging};
use tool::{Code, Context, CoveredStream, Redaction, ToolError};

use crate::answer::Head;
use crate::range_resume::{Body, Rest, rest, resumable};
use crate::request::{Exchange, of_body};

/// Maximum number of times that an interrupted body is resumed per call.
const MAX_RESUMED: usize = 5;
/// Bytes between two progress reports.
const REPORTED_EVERY: u64 = 1024 * 1024;
/// The outcome of a save.
pub(crate) enum SaveOutcome {
    /// The body is in the file.
    File { head: Head, size_bytes: u64 },
    /// The server refused the request; the file is unchanged.
    Not(Box<Answer>),
}

/// The destination of a body.
pub(crate) struct Goal<'a> {
    pub(crate) roots: &'a Roots,
    pub(crate) path: &'a Path,
    /// Maximum number of bytes.
    pub(crate) limit: u64,
}

/// Saves the body of the answer to the path, and replaces an existing file.
pub(crate) async fn save(
    context: &Context,
    exchange: &mut Exchange<'_>,
    goal: Goal<'_>,
) -> Result<SaveOutcome, ToolError> {
    let answer = exchange.answer(&HeaderMap::new()).await?;
    if !(200..300).contains(&answer.status) {
        return Ok(SaveOutcome::Not(Box::new(answer)));
    }
    let head = Head::of(&answer);
    let folders = goal.roots.create_parents(goal.path).map_err(|error| failure(context, error))?;
    let written = match Download::begin(context, exchange, &goal, &head) {
        Ok(download) => download.run(answer).await,
        Err(error) => Err(error),
    };
    match written {
        Ok(size_bytes) => Ok(SaveOutcome::File { head, size_bytes }),
        Err(error) => {
            folders.take_back();
            Err(exchange.unsure(error))
        }
    }
}

/// A body during its transfer.
struct Download<'a, 'b> {
    context: &'a Context,
    exchange: &'a mut Exchange<'b>,
    goal: &'a Goal<'a>,
    head: &'a Head,
    staging: Staging,
    /// Bytes of the body received so far, including covered and delayed ones.
    received: u64,
    covering: Arc<Arc<dyn Redaction>>,
    /// Stream that covers the secrets in each piece before the piece is written.
    stream: Box<dyn CoveredStream>,
    /// Identity of the body, if its rest can be requested.
    body: Option<Body>,
}

impl<'a, 'b> Download<'a, 'b> {
    fn begin(
        context: &'a Context,
        exchange: &'a mut Exchange<'b>,
        goal: &'a Goal<'a>,
        head: &'a Head,
    ) -> Result<Self, ToolError> {
        let staging = goal.roots.begin_staging(goal.path).map_err(|error| failure(context, error))?;
        let covering = tool_support::covering(context)?;
        let stream = covering.stream();
        Ok(Self { context, exchange, goal, head, staging, received: 0, covering, stream, body: None })
    }

    /// Receives the body of the answer, and its rest after an interruption.
    async fn run(mut self, answer: Answer) -> Result<u64, ToolError> {
        let decoder = self.begin_again(&answer)?;
        self.receive(answer, decoder).await?;
        self.finish()
    }

    /// Discards received bytes before a new body.
    fn begin_again(&mut self, answer: &Answer) -> Result<Decoder, ToolError> {
        (self.received, self.stream) = (0, self.covering.stream());
        self.change(|file| file.set_len(0).and_then(|()| file.rewind()))?;
        let decoder = self.exchange.decoder(answer, self.goal.limit).map_err(|error| self.refused(error))?;
        self.body = resumable(self.exchange, answer).filter(|_| decoder.is_plain());
        Ok(decoder)
    }

    async fn receive(&mut self, mut answer: Answer, mut decoder: Decoder) -> Result<(), ToolError> {
        let (mut resumed, mut reported) = (0, 0);
        loop {
            let error = match answer.piece().await {
                Ok(Some(piece)) => {
                    let plain = decoder.push(&piece).map_err(|error| self.refused(error))?;
                    self.add(&plain, false)?;
                    if self.received - reported >= REPORTED_EVERY {
                        reported = self.received;
                        self.context.progress.report(reported, self.total(&answer), "received");
                    }
                    continue;
                }
                Ok(None) if self.is_whole() => break,
                Ok(None) => None,
                Err(error) => Some(error),
            };
            let may_pass = error.as_ref().is_none_or(fetch::web::WebError::may_pass);
            let again = self.body.as_ref().filter(|_| may_pass && resumed < MAX_RESUMED).cloned();
            let Some(body) = again else { return Err(self.broken_off(error)) };
            resumed += 1;
            match rest(self.exchange, &body, self.received).await? {
                Rest::Further(further, total) => {
                    self.body = Some(Body { total: Some(total), ..body });
                    answer = further;
                }
                // The body has changed meanwhile, or the server does not support ranges.
                Rest::Other(other) if other.status == 200 => {
                    decoder = self.begin_again(&other)?;
                    reported = 0;
                    answer = other;
                }
                Rest::Other(_) => return Err(self.broken_off(error)),
            }
        }
        let rest = decoder.finish().map_err(|error| self.refused(error))?;
        self.add(&rest, true)
    }

    /// Gives the complete file its name.
    fn finish(self) -> Result<u64, ToolError> {
        self.context.stop.check()?;
        let outward = |error| failure(self.context, error);
        self.staging.finish().and_then(roots::StagedFile::commit).map_err(outward)?;
        if self.stream.covered() > 0 {
            let warning = "secrets in the body are redacted in the file, so it differs from the response";
            self.context.warn(warning.to_owned());
        }
        Ok(self.received)
    }

    /// Adds a received piece. `ended` means that no more pieces follow.
    fn add(&mut self, content: &[u8], ended: bool) -> Result<(), ToolError> {
        self.received += content.len() as u64;
        let covered = self.stream.next(content, ended);
        self.change(|file| file.write_all(&covered))
    }

    fn is_whole(&self) -> bool {
        self.body.as_ref().and_then(|body| body.total).is_none_or(|total| total == self.received)
    }

    fn total(&self, answer: &Answer) -> Option<u64> {
        let of_body = self.body.as_ref().and_then(|body| body.total);
        of_body.or_else(|| answer.header(fetch::CONTENT_LENGTH)?.parse().ok())
    }

    fn broken_off(&self, error: Option<fetch::web::WebError>) -> ToolError {
        match error {
            Some(error) => self.exchange.outward(error.into()),
            None => ToolError::new(Code::Runtime, "the server sent less of the body than it announced")
                .hint("the server may answer later"),
        }
    }

    fn refused(&self, error: DecodeError) -> ToolError {
        let error = match error {
            // The limit holds for the rest together with the earlier bytes.
            DecodeError::Large { .. } => DecodeError::Large { limit: self.goal.limit },
            error => error,
        };
        of_body(error, self.head)
    }

    fn change(&mut self, change: impl FnOnce(&mut std::fs::File) -> io::Result<()>) -> Result<(), ToolError> {
        let changed = self.staging.file().map_or(Ok(()), change);
        changed.map_err(|error| ToolError::io("write", self.goal.path, error))
    }
}

fn failure(context: &Context, error: RootsError) -> ToolError {
    let error = error.relative_to(&context.place.workspace);
    let code = match &error {
        RootsError::NotInRoots { .. }
        | RootsError::LeadsOutside { .. }
        | RootsError::ReadOnly { .. }
        | RootsError::Refused { .. }
        | RootsError::OwnerNotKept { .. } => Code::Permission,
        RootsError::NotFound { .. } | RootsError::NoFolder { .. } => Code::NotFound,
        RootsError::WrongKind { .. } => Code::Validation,
        RootsError::Changed { .. } => Code::Conflict,
        _ => Code::Runtime,
    };
    ToolError::new(code, error.to_string()).because(error)
}
