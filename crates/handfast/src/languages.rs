//! The program with the grammars of C++ and C#, which `handfast setup languages` installs: its place in the state,
//! and its run.
//!
//! It gives up every right before it reads a file, so it has no cell. Its answers are those of a stranger
//! nevertheless: they are checked, and it has a bounded time for each file.

use std::fs::{self, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tools_graph::{
    ExtractLimits, Extraction, Gap, Greeting, LARGEST_MESSAGE, Language, MoreLanguages, Request,
    facts_of_the_file_alone,
};

/// Name of the program.
pub(crate) const PROGRAM: &str = "handfast-languages";

/// Version that the program must have: that of this one.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Time for the greeting.
const GREETING: Duration = Duration::from_secs(10);

/// Time for one file. The work is bounded, too, so that only a program that hangs needs so long.
const FILE: Duration = Duration::from_mins(1);

/// Interval at which a waiting call looks whether it was stopped.
const LOOK: Duration = Duration::from_millis(50);

/// Returns the place of the program in a state folder.
pub(crate) fn place(state: &Path) -> PathBuf {
    state.join("languages").join(PROGRAM)
}

/// Starts a program and returns the languages that it has. Errors call the program `name`.
///
/// # Errors
/// Returns the reason why it is not the one for this program.
pub(crate) fn languages_of(program: &Path, name: &str) -> Result<Vec<Language>, String> {
    Running::start(program, name).map(|(_, languages)| languages).map_err(|why| why.text)
}

/// Stamp of a program, with the languages that it has or the reason why it cannot be used.
pub(crate) type Trial = (u64, Result<Vec<Language>, String>);

/// The installed program.
#[derive(Debug)]
pub(crate) struct LanguagesProgram {
    path: PathBuf,
    /// Result of the last trial, with the stamp of the program.
    known: Mutex<Option<Trial>>,
    /// Program that runs, with its stamp.
    running: Mutex<Option<(u64, Running)>>,
}

impl LanguagesProgram {
    /// Creates the one of a state folder, which may have none.
    pub(crate) fn of_state(state: &Path) -> Self {
        Self { path: place(state), known: Mutex::default(), running: Mutex::default() }
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Returns the stamp of the program, and the languages that it has or the reason why it cannot be used. Returns
    /// `None` if there is no program.
    pub(crate) fn state(&self) -> Option<Trial> {
        let stamp = fs::metadata(&self.path).ok().filter(Metadata::is_file).map(|found| stamp(&found))?;
        let mut known = self.known.lock();
        if let Some(known) = known.clone().filter(|known| known.0 == stamp) {
            return Some(known);
        }
        let tried = Running::start(&self.path, &self.name());
        let is_lasting = tried.as_ref().err().is_none_or(|why| why.is_lasting);
        let found = (stamp, tried.map(|(_, languages)| languages).map_err(|why| why.text));
        if is_lasting {
            *known = Some(found.clone());
        }
        Some(found)
    }
}

/// Returns a number that another file at this place does not have.
fn stamp(metadata: &Metadata) -> u64 {
    let facts = [metadata.ino(), metadata.size(), metadata.mtime().cast_unsigned()];
    let mixed = facts
        .into_iter()
        .chain([metadata.mtime_nsec().cast_unsigned()])
        .fold(1_u64, |mixed, fact| mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ fact);
    mixed.max(1)
}

impl MoreLanguages for LanguagesProgram {
    fn available(&self) -> (u64, Vec<Language>) {
        match self.state() {
            Some((stamp, Ok(languages))) => (stamp, languages),
            Some((_, Err(_))) | None => (0, Vec::new()),
        }
    }

    fn problem(&self) -> Option<String> {
        let why = self.state()?.1.err()?;
        Some(format!("{why}; run `handfast setup languages`"))
    }

    fn extract(
        &self,
        language: Language,
        content: &[u8],
        limits: &ExtractLimits,
        is_stopped: &dyn Fn() -> bool,
    ) -> Option<Extraction> {
        let alone = |gap| facts_of_the_file_alone(language, content, gap);
        if content.len() > limits.bytes {
            return Some(Extraction::Lasting(alone(Gap::TooLarge)));
        }
        let failed = || Some(Extraction::Passing(alone(Gap::Failed)));
        let request = Request::new(language, content, limits);
        let Ok(bytes) = request.to_bytes() else { return failed() };
        let Some((stamp, Ok(_))) = self.state() else { return failed() };
        let mut running = self.running.lock();
        if running.as_ref().is_none_or(|(known, _)| *known != stamp) {
            *running = Running::start(&self.path, &self.name()).ok().map(|(started, _)| (stamp, started));
        }
        let answered = running.as_mut()?.1.exchange(&bytes, FILE, is_stopped);
        let facts = match answered {
            Ok(Some(answer)) => request.read_answer(&answer).ok(),
            Ok(None) => {
                *running = None;
                return None;
            }
            Err(_) => None,
        };
        if facts.is_none() {
            // A program that was wrong once is not asked again.
            *running = None;
        }
        facts.map(Extraction::Lasting).or_else(failed)
    }

    fn rest(&self) {
        *self.running.lock() = None;
    }
}

/// The reason why a program cannot be used.
struct Unusable {
    text: String,
    /// True if another attempt would find the same.
    is_lasting: bool,
}

/// A program that has greeted. It is killed when this value is dropped.
#[derive(Debug)]
struct Running {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Drop for Running {
    fn drop(&mut self) {
        // A program that has ended by itself cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts a program, and checks that it is of this version. Errors call the program `name`.
    fn start(program: &Path, name: &str) -> Result<(Self, Vec<Language>), Unusable> {
        let cannot =
            |why: String, is_lasting| Unusable { text: format!("{name} cannot be used: {why}"), is_lasting };
        let mut running = Self::spawn(program).map_err(|error| {
            let is_of_file = [Errno::NOENT, Errno::ACCESS, Errno::PERM, Errno::NOEXEC]
                .iter()
                .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
            cannot(error.to_string(), is_of_file)
        })?;
        let greeting = running.exchange(&[], GREETING, &|| false);
        let greeting = greeting.map_err(|error| cannot(error.to_string(), false))?.unwrap_or_default();
        match Greeting::from_bytes(&greeting) {
            Ok(greeting) if greeting.fits(VERSION) => Ok((running, greeting.languages)),
            Ok(greeting) => {
                let other = greeting.version;
                Err(cannot(
                    format!("it is of Handfast {}, and this is {VERSION}", tool::visible(&other)),
                    true,
                ))
            }
            Err(_) => Err(cannot(format!("it is no {PROGRAM}"), true)),
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a part of Handfast: it gives up every right before it reads anything"
    )]
    fn spawn(program: &Path) -> io::Result<Self> {
        let mut child = Command::new(program)
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            return Err(io::Error::other("it has no pipes"));
        };
        let running = Self { child, input, output };
        for pipe in [running.input.as_fd(), running.output.as_fd()] {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        }
        Ok(running)
    }

    /// Sends a message, if it is not empty, and returns the next one that comes. Returns `None` if that was stopped.
    fn exchange(
        &mut self,
        message: &[u8],
        within: Duration,
        is_stopped: &dyn Fn() -> bool,
    ) -> io::Result<Option<Vec<u8>>> {
        let begun = Instant::now();
        let mut left = Vec::new();
        if !message.is_empty() {
            left.extend(u32::try_from(message.len()).map_err(io::Error::other)?.to_le_bytes());
            left.extend_from_slice(message);
        }
        let (mut sent, mut answer, mut piece) = (0, Vec::new(), vec![0; 64 * 1024]);
        loop {
            if is_stopped() {
                return Ok(None);
            }
            if begun.elapsed() > within {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer in time"));
            }
            let rest = left.get(sent..).unwrap_or_default();
            if !rest.is_empty() {
                match self.input.write(rest) {
                    Ok(count) => sent += count,
                    Err(error) if is_later(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            match self.output.read(&mut piece) {
                Ok(0) => {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended without an answer"));
                }
                Ok(count) => answer.extend_from_slice(piece.get(..count).unwrap_or_default()),
                Err(error) if is_later(&error) => self.wait(sent < left.len())?,
                Err(error) => return Err(error),
            }
            if let Some((length, body)) = answer.split_first_chunk::<4>() {
                let length = u32::from_le_bytes(*length) as usize;
                if length > LARGEST_MESSAGE || body.len() > length {
                    return Err(io::Error::other("its answer is too long"));
                }
                if body.len() == length {
                    return Ok(Some(body.to_vec()));
                }
            }
        }
    }

    /// Waits until there is something to read, or to write if there is something left, for a short time.
    fn wait(&self, writes: bool) -> io::Result<()> {
        let mut waited = vec![PollFd::new(&self.output, PollFlags::IN)];
        if writes {
            waited.push(PollFd::new(&self.input, PollFlags::OUT));
        }
        match poll(&mut waited, Some(&Timespec::try_from(LOOK).map_err(io::Error::other)?)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
