//! The lines between a script and Handfast, over the two pipes in the script's folder.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

/// Pipe of the answers to a script.
const ANSWERS: &str = "commands";
/// Pipe of the messages of a script.
const MESSAGES: &str = "answers";

/// The ends of both pipes.
pub(crate) struct Channel {
    answers: BufReader<File>,
    messages: File,
}

impl Channel {
    /// Opens the pipes in a folder.
    ///
    /// # Errors
    /// The name of the pipe that cannot be opened, with the reason.
    pub(crate) fn open(folder: &Path) -> Result<Self, (&'static str, io::Error)> {
        let answers = File::open(folder.join(ANSWERS)).map_err(|error| (ANSWERS, error))?;
        let messages = OpenOptions::new().write(true).open(folder.join(MESSAGES));
        let messages = messages.map_err(|error| (MESSAGES, error))?;
        Ok(Self { answers: BufReader::with_capacity(64 * 1024, answers), messages })
    }

    /// Sends a line.
    ///
    /// # Errors
    /// The error of the pipe; it is closed after the end of the call.
    pub(crate) fn send(&mut self, mut line: String) -> io::Result<()> {
        line.push('\n');
        self.messages.write_all(line.as_bytes())
    }

    /// Waits for a line, which is returned without its end; `None` after the end of the call.
    ///
    /// # Errors
    /// The error of the pipe, or that the line is not UTF-8.
    pub(crate) fn receive(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line.ends_with('\n') {
            line.pop();
        }
        Ok(Some(line))
    }
}
