//! A body into a file, as it comes: the file gets its name when it is whole, and what breaks off goes on where it was.

use std::io::{self, Seek, Write};
use std::path::Path;

use fetch::decode::Decoder;
use fetch::web::Answer;
use fetch::{HeaderMap, HeaderValue};
use roots::{Roots, RootsError, Staging};
use tool::{Code, Context, ToolError};

use crate::answer::Head;
use crate::exchange::{Exchange, of_body};
use crate::fetch_url::Method;

/// How often a body that broke off goes on.
const MOST_RESUMED: usize = 5;
/// Bytes between two words about how far it is.
const REPORTED_EVERY: u64 = 1024 * 1024;

/// What became of a body that was to be saved.
pub(crate) enum Saved {
    /// It is in the file, and had this many bytes.
    File(Head, u64),
    /// The server did not give what was asked for; the file is as it was.
    Not(Box<Answer>),
}

/// Puts the body of the answer into the file at `path`, in place of what is there.
pub(crate) async fn save(
    context: &Context,
    exchange: &mut Exchange<'_>,
    roots: &Roots,
    path: &Path,
    limit: u64,
) -> Result<Saved, ToolError> {
    let answer = exchange.answer().await?;
    if !(200..300).contains(&answer.status) {
        return Ok(Saved::Not(Box::new(answer)));
    }
    let head = Head::of(&answer);
    let outward = |error| failure(context, error);
    let folders = roots.create_parents(path).map_err(outward)?;
    let written = write(context, exchange, roots, path, (answer, &head), limit).await;
    match written {
        Ok(bytes) => Ok(Saved::File(head, bytes)),
        Err(error) => {
            folders.take_back();
            Err(exchange.unsure(error))
        }
    }
}

async fn write(
    context: &Context,
    exchange: &Exchange<'_>,
    roots: &Roots,
    path: &Path,
    (mut answer, head): (Answer, &Head),
    limit: u64,
) -> Result<u64, ToolError> {
    let outward = |error| failure(context, error);
    let refused = |error| of_body(error, head);
    let mut file = Partly { staging: roots.begin_staging(path).map_err(outward)?, path, written: 0 };
    let total = answer.header(fetch::CONTENT_LENGTH).and_then(|length| length.parse().ok());
    let mut decoder = exchange.decoder(&answer, limit).map_err(refused)?;
    let (mut resumed, mut reported) = (0, 0);
    loop {
        let error = match answer.piece().await {
            Ok(Some(piece)) => {
                file.add(&decoder.push(&piece).map_err(refused)?)?;
                if file.written - reported >= REPORTED_EVERY {
                    reported = file.written;
                    context.progress.report(reported, total, "received");
                }
                continue;
            }
            Ok(None) => break,
            Err(error) => error,
        };
        let again = validator(&answer)
            .filter(|_| error.may_pass() && exchange.method() == Method::Get && decoder.is_plain())
            .filter(|_| resumed < MOST_RESUMED);
        let Some(validator) = again else { return Err(exchange.outward(error.into())) };
        resumed += 1;
        answer = exchange.patiently(&rest_of(file.written, validator)?).await?;
        if goes_on_at(&answer, file.written) {
            continue;
        }
        if answer.status != 200 {
            return Err(exchange.outward(error.into()));
        }
        // It has changed meanwhile, or the server knows no parts.
        file.begin_again()?;
        decoder = exchange.decoder(&answer, limit).map_err(refused)?;
    }
    let rest: Result<Vec<u8>, _> = Decoder::finish(decoder);
    file.add(&rest.map_err(refused)?)?;
    context.stop.check()?;
    file.staging.finish().and_then(roots::Staged::commit).map_err(outward)?;
    Ok(file.written)
}

/// A file of which a part is there.
struct Partly<'a> {
    staging: Staging,
    path: &'a Path,
    written: u64,
}

impl Partly<'_> {
    fn add(&mut self, content: &[u8]) -> Result<(), ToolError> {
        self.change(|file| file.write_all(content))?;
        self.written += content.len() as u64;
        Ok(())
    }

    fn begin_again(&mut self) -> Result<(), ToolError> {
        self.written = 0;
        self.change(|file| file.set_len(0).and_then(|()| file.rewind()))
    }

    fn change(&mut self, change: impl FnOnce(&mut std::fs::File) -> io::Result<()>) -> Result<(), ToolError> {
        let changed = self.staging.file().map_or(Ok(()), change);
        changed.map_err(|error| ToolError::io("write", self.path, error))
    }
}

/// What tells whether the rest of a body is that of the same body: a strong entity tag, else the time of its last change.
fn validator(answer: &Answer) -> Option<HeaderValue> {
    let strong = answer.headers.get(fetch::ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/"));
    strong.or_else(|| answer.headers.get(fetch::LAST_MODIFIED)).cloned()
}

fn rest_of(written: u64, validator: HeaderValue) -> Result<HeaderMap, ToolError> {
    let range = HeaderValue::try_from(format!("bytes={written}-"));
    let range = range.map_err(|error| ToolError::internal("a range is no header").because(error))?;
    Ok([(fetch::RANGE, range), (fetch::IF_RANGE, validator)].into_iter().collect())
}

fn goes_on_at(answer: &Answer, written: u64) -> bool {
    let range = answer.header(fetch::CONTENT_RANGE).unwrap_or_default();
    answer.status == 206 && range.starts_with(&format!("bytes {written}-"))
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
