//! Input of a line without echo.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use crate::terminal::forget_typed;

fn terminal() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/tty")
}

/// Returns true if there is a terminal to type on.
pub(crate) fn is_possible() -> bool {
    terminal().is_ok()
}

/// A guard that restores the echo of the terminal when dropped.
struct EchoGuard<'a>(&'a File, Termios);

impl Drop for EchoGuard<'_> {
    fn drop(&mut self) {
        // A terminal that is gone echoes nothing anyway.
        let _ = tcsetattr(self.0, OptionalActions::Flush, &self.1);
    }
}

/// Prompts with this text and returns the typed line, without its line ending.
///
/// # Errors
/// If there is no terminal, or it is closed.
pub(crate) fn ask(text: &str) -> io::Result<Zeroizing<String>> {
    let mut terminal = terminal()?;
    forget_typed(&terminal)?;
    terminal.write_all(text.as_bytes())?;
    terminal.flush()?;
    let before = tcgetattr(&terminal)?;
    let mut hidden = before.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Flush, &hidden)?;
    let mut line = Zeroizing::new(String::with_capacity(vault::MAX_BYTES));
    let read = {
        let _shown = EchoGuard(&terminal, before);
        BufReader::new(&terminal).read_line(&mut line)
    };
    (&terminal).write_all(b"\n")?;
    if read? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let typed = line.trim_end_matches(['\r', '\n']).len();
    line.truncate(typed);
    Ok(line)
}

/// Asks for the same text twice, so that a typing error does not lock the vault for ever.
///
/// # Errors
/// Those of [`ask`], and an error if the two texts differ or are empty.
pub(crate) fn ask_twice(text: &str) -> io::Result<Zeroizing<String>> {
    let first = ask(text)?;
    if first.is_empty() {
        return Err(io::Error::other("nothing was typed"));
    }
    if first != ask("Once more: ")? {
        return Err(io::Error::other("the two do not match"));
    }
    Ok(first)
}
