//! A body into a file, as it comes: the file gets its name when it is whole, and what breaks off goes on where it was, in the same
//! call or, where it is large, in a later one that asks for the same.

use std::io::{self, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use fetch::HeaderMap;
use fetch::decode::{DecodeError, Decoder};
use fetch::part::{Body, Name, Part, Parts};
use fetch::web::Answer;
use roots::{Roots, RootsError, Staging};
use tool::{Code, Context, CoveredStream, Covering, ToolError};

use crate::answer::Head;
use crate::exchange::{Exchange, of_body};
use crate::fetch_url::{Args, Method};
use crate::resuming::{Rest, rest, resumable};

/// How often a body that broke off goes on within a call.
const MOST_RESUMED: usize = 5;
/// Bytes between two words about how far it is.
const REPORTED_EVERY: u64 = 1024 * 1024;
/// Smaller bodies are not kept for a later call: fetching them again takes no longer than looking after them.
const LEAST_KEPT: u64 = 1024 * 1024;

/// What became of a body that was to be saved.
pub(crate) enum Saved {
    /// It is in the file.
    File {
        head: Head,
        /// Its bytes, and those of them that an earlier call had fetched.
        size_bytes: u64,
        resumed_from: u64,
    },
    /// The server did not give what was asked for; the file is as it was.
    Not(Box<Answer>),
}

/// Where a body goes.
pub(crate) struct Goal<'a> {
    pub(crate) roots: &'a Roots,
    pub(crate) path: &'a Path,
    /// Bytes that it may have.
    pub(crate) limit: u64,
    /// How many bytes a later call could go on from, from moment to moment.
    pub(crate) kept: &'a AtomicU64,
}

/// The error, with the word that the same call would go on.
pub(crate) fn told(error: ToolError, kept: &AtomicU64) -> ToolError {
    let bytes = kept.load(Ordering::SeqCst);
    if bytes == 0 {
        return error;
    }
    let word = format!("{bytes} bytes of it are kept for a day: the same call goes on from there");
    let hint = error.hint.as_ref().map_or(word.clone(), |hint| format!("{hint}; {word}"));
    error.hint(hint)
}

/// Puts the body of the answer into the file at the path, in place of what is there.
pub(crate) async fn save(
    context: &Context,
    exchange: &mut Exchange<'_>,
    args: &Args,
    goal: Goal<'_>,
) -> Result<Saved, ToolError> {
    let keeping = Keeping::of(context, args, goal.path);
    let held = keeping.as_ref().and_then(Keeping::left_by_earlier);
    context.stop.check()?;
    let begun = held.as_ref().and_then(|part| Some((part.body()?.clone(), part.received())));
    let (answer, goes_on) = match begun {
        None => (exchange.answer(&HeaderMap::new()).await?, None),
        Some((body, written)) => match rest(exchange, &body, written).await? {
            Rest::Further(answer, total) => (answer, Some(Body { total: Some(total), ..body })),
            Rest::Other(answer) => (answer, None),
        },
    };
    if goes_on.is_none() && !(200..300).contains(&answer.status) {
        return Ok(Saved::Not(Box::new(answer)));
    }
    let head = Head::of(&answer);
    let folders = goal.roots.create_parents(goal.path).map_err(|error| failure(context, error))?;
    let resumed_from = held.as_ref().filter(|_| goes_on.is_some()).map_or(0, Part::received);
    let written = match Download::begin(context, exchange, &goal, &head, held) {
        Ok(download) => download.run(answer, goes_on, keeping.as_ref()).await,
        Err(error) => Err(error),
    };
    match written {
        Ok(size_bytes) => Ok(Saved::File { head, size_bytes, resumed_from }),
        Err(error) => {
            folders.take_back();
            Err(exchange.unsure(error))
        }
    }
}

/// Where parts are kept, and under which name that of this call.
struct Keeping<'a> {
    context: &'a Context,
    parts: Arc<Parts>,
    name: Name,
}

impl<'a> Keeping<'a> {
    /// None where this call's body is not kept: only what is asked for in the very same way is the same.
    fn of(context: &'a Context, args: &Args, path: &Path) -> Option<Self> {
        let parts = context.service::<Parts>().ok().filter(|_| args.method == Method::Get)?;
        let target = args.target().ok()?.to_string();
        let mut texts = vec![path.as_os_str().as_encoded_bytes(), target.as_bytes()];
        for (name, value) in &args.headers {
            texts.extend([name.as_bytes(), value.as_bytes()]);
        }
        texts.extend(args.secrets.iter().map(String::as_bytes));
        let name = Name::of(texts);
        Some(Self { context, parts, name })
    }

    /// What an earlier call left, if anything. Reads it.
    fn left_by_earlier(&self) -> Option<Part> {
        self.parts.has(&self.name).then(|| self.hold()).flatten()
    }

    /// A place for this call's part. Where there is none, because the disk is full or another call is at it, the call does without.
    fn hold(&self) -> Option<Part> {
        self.parts.sweep(SystemTime::from(self.context.clock.now()));
        self.parts.hold(&self.name, &|| self.context.stop.requested().is_none()).ok().flatten()
    }
}

/// A body on its way.
struct Download<'a, 'b> {
    context: &'a Context,
    exchange: &'a mut Exchange<'b>,
    goal: &'a Goal<'a>,
    head: &'a Head,
    staging: Staging,
    /// Where the bytes are while more is to come, so that they outlive this call; none where they go into the file at once.
    part: Option<Part>,
    /// Bytes of the body that have come, be they covered or held back.
    received: u64,
    covering: Arc<Arc<dyn Covering>>,
    /// Covers the secrets in what comes, before it lies anywhere.
    stream: Box<dyn CoveredStream>,
    /// True where an earlier call wrote the beginning, which may have known fewer secrets.
    goes_on: bool,
    /// What it is, where the rest of it can be asked for.
    body: Option<Body>,
}

impl<'a, 'b> Download<'a, 'b> {
    fn begin(
        context: &'a Context,
        exchange: &'a mut Exchange<'b>,
        goal: &'a Goal<'a>,
        head: &'a Head,
        part: Option<Part>,
    ) -> Result<Self, ToolError> {
        let staging = goal.roots.begin_staging(goal.path).map_err(|error| failure(context, error))?;
        let covering = outgoing::covering(context)?;
        let stream = covering.stream();
        let (received, goes_on, body) = (0, false, None);
        Ok(Self { context, exchange, goal, head, staging, part, received, covering, stream, goes_on, body })
    }

    /// Takes the body of the answer, which goes on with what is held, or is the whole.
    async fn run(
        mut self,
        answer: Answer,
        goes_on: Option<Body>,
        keeping: Option<&Keeping<'_>>,
    ) -> Result<u64, ToolError> {
        let decoder = match goes_on {
            Some(body) => self.go_on(&answer, body)?,
            None => self.begin_again(&answer, keeping)?,
        };
        let received = self.receive(answer, decoder, keeping).await;
        if let Err(error) = &received
            && error.code == Code::Quota
        {
            self.let_go();
        }
        received.and_then(|()| self.finish())
    }

    fn go_on(&mut self, answer: &Answer, body: Body) -> Result<Decoder, ToolError> {
        self.received = self.part.as_ref().map_or(0, Part::received);
        self.goes_on = true;
        self.goal.kept.store(self.received, Ordering::SeqCst);
        let limit = self.goal.limit;
        let left = limit.checked_sub(body.total.unwrap_or(self.received)).map(|_| limit - self.received);
        self.body = Some(body);
        let too_large = DecodeError::Large { limit };
        let decoder = left.ok_or(too_large).and_then(|left| self.exchange.decoder(answer, left));
        decoder.map_err(|error| {
            self.let_go();
            self.refused(error)
        })
    }

    /// Forgets what is there, for a body that begins.
    fn begin_again(&mut self, answer: &Answer, keeping: Option<&Keeping<'_>>) -> Result<Decoder, ToolError> {
        self.let_go();
        self.change(|file| file.set_len(0).and_then(|()| file.rewind()))?;
        let decoder = self.exchange.decoder(answer, self.goal.limit).map_err(|error| self.refused(error))?;
        self.body = resumable(self.exchange, answer).filter(|_| decoder.is_plain());
        let is_worth_it = |body: &&Body| body.total.is_none_or(|total| total >= LEAST_KEPT);
        if let Some(body) = self.body.as_ref().filter(is_worth_it)
            && let Some(mut part) = keeping.and_then(Keeping::hold)
            && part.begin(body.clone()).is_ok()
        {
            self.part = Some(part);
        }
        Ok(decoder)
    }

    async fn receive(
        &mut self,
        mut answer: Answer,
        mut decoder: Decoder,
        keeping: Option<&Keeping<'_>>,
    ) -> Result<(), ToolError> {
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
            let again = self.body.as_ref().filter(|_| may_pass && resumed < MOST_RESUMED).cloned();
            let Some(body) = again else { return Err(self.broken_off(error)) };
            resumed += 1;
            match rest(self.exchange, &body, self.received).await? {
                Rest::Further(further, total) => {
                    self.body = Some(Body { total: Some(total), ..body });
                    answer = further;
                }
                // It has changed meanwhile, or the server knows no parts.
                Rest::Other(other) if other.status == 200 => {
                    decoder = self.begin_again(&other, keeping)?;
                    reported = 0;
                    answer = other;
                }
                Rest::Other(_) => return Err(self.broken_off(error)),
            }
        }
        let rest = decoder.finish().map_err(|error| self.refused(error))?;
        self.add(&rest, true)
    }

    /// Gives the file its name, with all that came.
    fn finish(mut self) -> Result<u64, ToolError> {
        self.context.stop.check()?;
        if let Some(part) = &mut self.part {
            // That its length cannot be noted costs a later call a request.
            let _unnoted = part.know(self.received);
        }
        self.copy_part()?;
        let outward = |error| failure(self.context, error);
        self.staging.finish().and_then(roots::Staged::commit).map_err(outward)?;
        self.goal.kept.store(0, Ordering::SeqCst);
        if let Some(part) = self.part.take() {
            part.end();
        }
        if self.stream.covered() > 0 {
            let warning = "secrets in the body are covered in the file, which is not byte for byte what the server sent";
            self.context.warn(warning.to_owned());
        }
        Ok(self.received)
    }

    /// Puts what is in the part into the file.
    fn copy_part(&mut self) -> Result<(), ToolError> {
        let stop = &self.context.stop;
        let (Some(part), Some(file)) = (&mut self.part, self.staging.file()) else { return Ok(()) };
        let goes_on = || stop.requested().is_none();
        let copied = if self.goes_on {
            copy_covered(part, file, self.covering.stream(), goes_on)
        } else {
            part.copy_to(file, &goes_on)
        };
        stop.check()?;
        copied.map_err(|error| ToolError::io("write", self.goal.path, error))
    }

    /// Adds what came. `ended` says that nothing more comes.
    fn add(&mut self, content: &[u8], ended: bool) -> Result<(), ToolError> {
        self.received += content.len() as u64;
        let covered = self.stream.next(content, ended);
        // INVARIANT: whoever goes on begins where no secret has begun.
        let settled = self.received - self.stream.held() as u64;
        if let Some(part) = &mut self.part {
            if part.add(&covered, settled).is_ok() {
                self.goal.kept.store(settled, Ordering::SeqCst);
                return Ok(());
            }
            // There is no room for it where parts are kept. The file may have it.
            self.copy_part()?;
            self.let_go_of_part();
        }
        self.change(|file| file.write_all(&covered))
    }

    /// Nothing of what came is of use.
    fn let_go(&mut self) {
        self.let_go_of_part();
        (self.received, self.body) = (0, None);
        (self.stream, self.goes_on) = (self.covering.stream(), false);
    }

    fn let_go_of_part(&mut self) {
        self.goal.kept.store(0, Ordering::SeqCst);
        if let Some(part) = self.part.take() {
            part.end();
        }
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
            None => ToolError::new(Code::Runtime, "the server gives less of the body than it says there is")
                .hint("the server may answer later"),
        }
    }

    fn refused(&self, error: DecodeError) -> ToolError {
        let error = match error {
            // Of a rest the limit is one, too.
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

/// Copies a part that an earlier call began, with the secrets covered that are known by now.
fn copy_covered(
    part: &mut Part,
    file: &mut std::fs::File,
    mut stream: Box<dyn CoveredStream>,
    goes_on: impl Fn() -> bool,
) -> io::Result<()> {
    part.read_through(|piece| {
        if !goes_on() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        file.write_all(&stream.next(piece, false))
    })?;
    file.write_all(&stream.next(&[], true))
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
