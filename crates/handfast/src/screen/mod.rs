//! `handfast approvals` on a terminal: a screen of the questions that wait for an answer.
//!
//! While the screen is open, calls without another asker wait for its answer. The screen runs in
//! one thread and polls the state every 50 ms, so it needs only the state folder from other
//! processes.

mod draw;
pub(crate) mod lists;
pub(crate) mod state;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use engine::{Approvals, Grant};
use ratatui::DefaultTerminal;
use ratatui::backend::{Backend, ClearType};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use store_api::{Store, Watch};

use crate::cli::Global;
use crate::clock::SystemClock;
use crate::commands::{Failure, describe_grant, engine_of, tokio_runtime};
use crate::config::{ConfigFile, USER_FILE};
use crate::host_environment::HostEnvironment;
use crate::moment::Present;
use crate::signals::Signals;
use crate::terminal::forget_typed;
use state::{Action, Content, State};

/// Name of the answering party in the audit.
const BY: &str = "the user, at the approvals screen";

/// Interval between checks for keys and for changes by others.
const LOOK: Duration = Duration::from_millis(50);

/// Number of checks after which the shown times are renewed, some of which may have expired.
const RENEW: u32 = 40;

/// Exit code of a process that was ended by the end of its terminal: 128 plus the number of `SIGHUP`.
const HUNG_UP: i32 = 129;

pub(crate) fn run(global: &Global, store: Arc<dyn Store>) -> Result<ExitCode, Failure> {
    let host_environment = HostEnvironment::of_this_process();
    let file = host_environment.configuration.as_ref().map(|folder| folder.join(USER_FILE));
    let _attention = store.pay_attention(None)?;
    let watch = store.watch()?;
    // https://no-color.org
    let has_no_colours =
        host_environment.passed_on.get(OsStr::new("NO_COLOR")).is_some_and(|value| !value.is_empty());
    let mut screen = Screen {
        approvals: Approvals::new(store, Arc::new(SystemClock)),
        watch,
        profile: profile(global, file.as_deref()),
        file,
        state: State::new(String::new(), !has_no_colours),
        rings: false,
        global,
    };
    let runtime = tokio_runtime()?;
    // Input typed before anything was visible is no answer.
    forget_typed(io::stdin())?;
    end_with_the_terminal()?;
    let mut terminal = ratatui::try_init()?;
    let ended = runtime.block_on(screen.live(&mut terminal));
    ratatui::try_restore()?;
    ended.map(ExitCode::from)
}

/// Returns the profile whose lists are edited: the chosen one, else the user's own.
pub(crate) fn profile(global: &Global, file: Option<&std::path::Path>) -> String {
    // The page of the lists reports a file that cannot be read.
    let own = || ConfigFile::read(file?).ok().flatten()?.settings.profile;
    global.profile.clone().or_else(own).unwrap_or_else(|| policy::DEFAULT_PROFILE.to_owned())
}

/// Ends this process when its terminal is gone. Otherwise the thread that reads keys would never
/// return, and no signal would be noticed.
fn end_with_the_terminal() -> io::Result<()> {
    let terminal = io::stdin().as_fd().try_clone_to_owned()?;
    std::thread::spawn(move || {
        // No events are requested, so only the end of the terminal is reported.
        while poll(&mut [PollFd::new(&terminal, PollFlags::empty())], None) == Err(Errno::INTR) {}
        process::exit(HUNG_UP);
    });
    Ok(())
}

/// Requests a complete redraw. `Terminal::clear` would ask the terminal for its cursor position,
/// and not every terminal answers.
fn begin_anew(terminal: &mut DefaultTerminal) -> io::Result<()> {
    terminal.backend_mut().clear_region(ClearType::All)?;
    // Both buffers are empty now, so the next drawing differs from them in every cell.
    terminal.swap_buffers();
    Ok(())
}

struct Screen<'a> {
    approvals: Approvals,
    watch: Watch,
    profile: String,
    /// Path of the user's configuration, or `None` if there is no home folder.
    file: Option<PathBuf>,
    state: State,
    /// True if a question has come since the last drawing.
    rings: bool,
    global: &'a Global,
}

impl Screen<'_> {
    /// Shows the screen and answers questions until it is closed. Returns the exit code.
    async fn live(&mut self, terminal: &mut DefaultTerminal) -> Result<u8, Failure> {
        let mut signals = Signals::listen()?;
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut looked = 0_u32;
        self.renew()?;
        // Questions that waited before the screen was opened are seen at once.
        self.rings = false;
        let mut stale = true;
        loop {
            if stale {
                let mut details = (0, 0);
                let present = Present::by(&SystemClock);
                terminal.draw(|frame| details = draw::draw(frame, &self.state, &present))?;
                self.state.is_drawn(details.0, details.1);
                self.ring()?;
                stale = false;
            }
            tokio::select! {
                code = signals.next() => return Ok(code),
                _ = look.tick() => {}
            }
            looked = looked.wrapping_add(1);
            if self.watch.has_changed()? || looked.is_multiple_of(RENEW) {
                self.renew()?;
                stale = true;
            }
            while event::poll(Duration::ZERO)? {
                stale = true;
                match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => match self.state.key(key) {
                        Some(Action::Quit) => return Ok(0),
                        Some(action) => {
                            self.state.said = self.done(action).await;
                            self.renew()?;
                            // Composing a runtime may print warnings on the same terminal.
                            begin_anew(terminal)?;
                        }
                        None => {}
                    },
                    _ => {}
                }
            }
        }
    }

    fn renew(&mut self) -> Result<(), Failure> {
        let (asked, earlier) = self
            .approvals
            .list(false)?
            .into_iter()
            .partition(|asked| asked.state == store_api::ApprovalState::Waiting);
        let entries = self.file.as_ref().map(|file| lists::entries(file, &self.profile));
        self.state.lists_of = match (&self.file, &entries) {
            (Some(file), Some(Err(error))) => format!("cannot read {}: {error}", file.display()),
            _ => self.lists_of(),
        };
        let entries = entries.and_then(Result::ok).unwrap_or_default();
        let leases = self.approvals.leases(true)?;
        self.rings |= self.state.renew(Content { asked, earlier, leases, entries });
        Ok(())
    }

    /// Rings the bell of the terminal if a question has come since the last time.
    fn ring(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.rings) {
            return Ok(());
        }
        let mut out = io::stdout();
        out.write_all(b"\x07")?;
        out.flush()
    }

    fn lists_of(&self) -> String {
        match &self.file {
            Some(file) => format!("profile {} in {}", self.profile, file.display()),
            None => "no file: there is no home folder".to_owned(),
        }
    }

    /// Executes the action of a key. Returns the outcome for the bottom line.
    async fn done(&self, action: Action) -> String {
        let done = match action {
            Action::Allow { id, scope } => {
                self.allow(&id, Grant { scope, pattern: None, lasts: None, by: BY.to_owned() }).await
            }
            Action::Deny { id, message } => self
                .approvals
                .deny(&id, message, BY)
                .map(|_| format!("{id} is denied"))
                .map_err(Failure::from),
            Action::Revoke { id } => self
                .approvals
                .revoke(&id, BY)
                .map(|lease| match lease {
                    Some(_) => format!("{id} is revoked"),
                    None => format!("{id} was no longer in force"),
                })
                .map_err(Failure::from),
            Action::Add(entry) => self.edit(|file, profile| lists::add(file, profile, &entry)),
            Action::Remove(entry) => self.edit(|file, profile| lists::remove(file, profile, &entry)),
            Action::Quit => Ok(String::new()),
        };
        done.unwrap_or_else(|failure| failure.error.to_string())
    }

    async fn allow(&self, id: &str, grant: Grant) -> Result<String, Failure> {
        let asked = self.approvals.find(id)?;
        let engine = engine_of(self.global, &asked)?;
        Ok(describe_grant(&engine.grant(id, &grant).await?))
    }

    fn edit(&self, change: impl FnOnce(&std::path::Path, &str) -> io::Result<()>) -> Result<String, Failure> {
        let Some(file) = &self.file else { return Err(Failure::from(self.lists_of())) };
        change(file, &self.profile)?;
        Ok(format!("{} is written; it applies to runs that start from now on", file.display()))
    }
}
