//! The terminal while the chat has it: its modes, and what would be written over the screen.

use std::io::{self, IsTerminal, PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::panic;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ratatui::DefaultTerminal;
use ratatui::backend::{Backend, ClearType};
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::execute;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::dup2_stderr;
use tokio::sync::Notify;

use crate::report::covered;

/// Exit code of a process that was ended by the end of its terminal: 128 plus the number of `SIGHUP`.
pub(super) const HUNG_UP: u8 = 129;
/// Time that the program has to end when its terminal is gone.
const FAREWELL: Duration = Duration::from_secs(5);
/// Maximum number of bytes of a line that was written to standard error.
const LONGEST_LINE: usize = 4_096;
/// Maximum number of such lines that wait.
const MOST_LINES: usize = 1_000;

/// The terminal. It is as it was before when this is dropped.
pub(super) struct Display {
    pub(super) terminal: DefaultTerminal,
    /// Standard error as it was, if it is a terminal.
    stderr: Option<Arc<OwnedFd>>,
    written: Arc<Mutex<Vec<String>>>,
}

impl Display {
    /// Takes the terminal.
    pub(super) fn open() -> io::Result<Self> {
        let written = Arc::default();
        let stderr = if io::stderr().is_terminal() { Some(capture(&written)?) } else { None };
        let of_panic = stderr.clone();
        let before = panic::take_hook();
        // A panic is reported on the terminal as it was. The hook of `try_init` runs before this one.
        panic::set_hook(Box::new(move |info| {
            give_back(of_panic.as_deref());
            before(info);
        }));
        // A failure from here on gives the terminal back too.
        let opened = ratatui::try_init().and_then(|terminal| {
            execute!(io::stdout(), EnableBracketedPaste)?;
            Ok(terminal)
        });
        match opened {
            Ok(terminal) => Ok(Self { terminal, stderr, written }),
            Err(error) => {
                give_back(stderr.as_deref());
                Err(error)
            }
        }
    }

    /// Takes the lines that were written to standard error, which the screen shows in its own place.
    pub(super) fn written(&self) -> Vec<String> {
        std::mem::take(&mut *self.written.lock())
    }

    /// Makes the next drawing a complete one.
    pub(super) fn begin_anew(&mut self) -> io::Result<()> {
        self.terminal.backend_mut().clear_region(ClearType::All)?;
        self.terminal.swap_buffers();
        Ok(())
    }
}

/// Rings the bell of the terminal.
pub(super) fn ring() -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(b"\x07")?;
    out.flush()
}

impl Drop for Display {
    fn drop(&mut self) {
        give_back(self.stderr.as_deref());
        // Lines that were written last have not been on the screen.
        for line in self.written() {
            let _closed = writeln!(io::stderr(), "{}", covered(&line));
        }
    }
}

fn give_back(stderr: Option<&OwnedFd>) {
    // A terminal that is gone needs nothing. `ratatui::restore` would panic there, because it
    // reports the failure on it.
    let _gone = execute!(io::stdout(), DisableBracketedPaste);
    let _gone = ratatui::try_restore();
    if let Some(stderr) = stderr {
        let _gone = dup2_stderr(stderr);
    }
}

/// Collects what is written to standard error. Returns standard error as it was.
fn capture(written: &Arc<Mutex<Vec<String>>>) -> io::Result<Arc<OwnedFd>> {
    let stderr = io::stderr().as_fd().try_clone_to_owned()?;
    let (reader, writer) = io::pipe()?;
    dup2_stderr(&writer)?;
    let written = written.clone();
    std::thread::spawn(move || collect(reader, &written));
    Ok(Arc::new(stderr))
}

/// Reads lines until standard error is given back.
fn collect(mut reader: PipeReader, written: &Mutex<Vec<String>>) {
    let (mut line, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = reader.read(&mut bytes) {
        for byte in bytes.get(..read).unwrap_or_default() {
            if *byte != b'\n' {
                line.push(*byte);
            }
            if (*byte == b'\n' && !line.is_empty()) || line.len() >= LONGEST_LINE {
                let mut written = written.lock();
                if written.len() < MOST_LINES {
                    written.push(tool::visible(&String::from_utf8_lossy(&line)));
                }
                line.clear();
            }
        }
    }
}

/// Returns true if the terminal is gone.
pub(super) fn is_gone() -> bool {
    let stdin = io::stdin();
    let mut state = [PollFd::new(&stdin, PollFlags::empty())];
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    let polled = poll(&mut state, Some(&none));
    polled.is_ok_and(|_| state.iter().any(|one| one.revents().intersects(PollFlags::HUP | PollFlags::ERR)))
}

/// Tells when the terminal is gone, and ends the process if it does not end soon: a thread that reads keys may
/// never return then.
pub(super) fn watch_for_the_end() -> io::Result<Arc<Notify>> {
    let terminal = io::stdin().as_fd().try_clone_to_owned()?;
    let gone = Arc::new(Notify::new());
    let told = gone.clone();
    std::thread::spawn(move || {
        // No events are requested, so only the end of the terminal is reported.
        while poll(&mut [PollFd::new(&terminal, PollFlags::empty())], None) == Err(Errno::INTR) {}
        told.notify_one();
        std::thread::sleep(FAREWELL);
        process::exit(i32::from(HUNG_UP));
    });
    Ok(gone)
}
