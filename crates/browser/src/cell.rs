//! A browser in a cell: its folder, its two pipes with names, and the end of its processes.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use sandbox::{CellHost, CellSource, Command, Lifetime, PROXY_PORT, Program};
use tokio::net::unix::pipe;
use tokio::sync::watch;

use crate::arguments::Settings;
use crate::browser::Browser;
use crate::error::BrowserError;

/// Pipe of the commands, which the browser reads as descriptor 3.
const COMMANDS: &str = "commands";
/// Pipe of the answers, which the browser writes as descriptor 4.
const ANSWERS: &str = "answers";
/// Folder for downloads.
const DOWNLOADS: &str = "downloads";
/// Folder of the profile in the cell, in memory.
const PROFILE: &str = "/tmp/profile";
/// Bytes of the browser's own messages that an error shows.
const SHOWN: usize = 2_000;

/// Time without a call after which a browser ends, and the longest life of one. Both are those of
/// background commands.
const LIFETIME: Lifetime = Lifetime { idle: Duration::from_mins(15), absolute: Duration::from_hours(12) };

/// Program of a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserProgram {
    /// Absolute path.
    pub path: PathBuf,
    /// Folder or file that the cell of the browser shows, read-only, besides those of the system. Pages that
    /// take over the browser can read it.
    pub shown: Option<PathBuf>,
}

/// A browser that runs in a cell. When this value is dropped, every process of the cell ends and the
/// folder is removed.
pub(crate) struct BrowserInCell {
    pub(crate) browser: Browser,
    process: sandbox::Session,
    folder: BrowserFolder,
}

/// Folder of one browser, which is removed with it.
struct BrowserFolder(PathBuf);

impl Drop for BrowserFolder {
    fn drop(&mut self) {
        // Remains are removed at the next start of a runtime.
        let _gone = fs::remove_dir_all(&self.0);
    }
}

impl BrowserFolder {
    fn make(parent: &Path, name: &str) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        let path = parent.join(name);
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        let folder = Self(path);
        fs::DirBuilder::new().mode(0o700).create(folder.0.join(DOWNLOADS))?;
        for pipe in [COMMANDS, ANSWERS] {
            mknodat(CWD, folder.0.join(pipe), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        }
        Ok(folder)
    }
}

impl BrowserInCell {
    /// Starts a program in a cell of its own and connects to it. Blocks for some milliseconds before
    /// it waits.
    ///
    /// # Errors
    /// [`BrowserError::Start`].
    pub(crate) async fn start(
        program: &BrowserProgram,
        source: &CellSource,
        (parent, name): (&Path, &str),
    ) -> Result<Self, BrowserError> {
        let failed = |doing: &str, error: &dyn std::fmt::Display| BrowserError::Start {
            reason: format!("{doing}: {error}"),
        };
        let folder = BrowserFolder::make(parent, name).map_err(|error| failed("its folder", &error))?;
        let (mut spec, host) = source.cell(folder.0.clone()).map_err(|error| failed("its cell", &error))?;
        spec.read_only.extend(program.shown.clone());
        let settings = settings(&host);
        // The reader and the writer must exist before the browser opens its ends.
        let open = |error: io::Error| failed("its pipes", &error);
        let mut both = pipe::OpenOptions::new();
        both.read_write(true);
        let writer = both.open_sender(folder.0.join(COMMANDS)).map_err(open)?;
        let reader = pipe::OpenOptions::new().open_receiver(folder.0.join(ANSWERS)).map_err(open)?;
        // Until the browser has opened its end, the pipe of the answers must not look ended.
        let until_connected = both.open_sender(folder.0.join(ANSWERS)).map_err(open)?;
        let (ended, mut has_ended) = watch::channel(false);
        let process = sandbox::Session::start(
            spec,
            host,
            command(&program.path, &folder.0, &settings),
            LIFETIME,
            None,
            move |_| {
                ended.send_replace(true);
                Ok(String::new())
            },
        )
        .map_err(|error| failed("its cell", &error))?;
        let started = tokio::select! {
            connected = Browser::connect(reader, writer, settings) => connected,
            _ = has_ended.wait_for(|ended| *ended) => {
                Err(BrowserError::Start { reason: last_words(&process) })
            }
        };
        drop(until_connected);
        match started {
            Ok(browser) => Ok(Self { browser, process, folder }),
            Err(error) => {
                process.begin_to_close();
                Err(error)
            }
        }
    }

    /// Returns the folder for the downloads of pages, the same in the cell and here.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.folder.0.join(DOWNLOADS)
    }

    /// Returns the folder of the browser, the same in the cell and here.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// Records that the browser is in use, so that it does not end for being idle.
    pub(crate) fn touch(&self) {
        // The output is of no interest; reading it counts as a use.
        let _read = self.process.read(0, 0);
    }

    /// Ends every process of the cell, and waits until they have ended. Blocks.
    pub(crate) fn end(&self) {
        self.process.close();
    }
}

impl Drop for BrowserInCell {
    fn drop(&mut self) {
        self.process.begin_to_close();
    }
}

fn settings(host: &CellHost) -> Settings {
    Settings {
        proxy: host.has_egress.then(|| format!("http://127.0.0.1:{PROXY_PORT}")),
        avoids_dev_shm: true,
        ..Settings::new(PROFILE)
    }
}

/// Returns the command: a shell that opens the pipes as the descriptors which Chromium expects.
fn command(program: &Path, folder: &Path, settings: &Settings) -> Command {
    let line = r#"program=$1 folder=$2; shift 2; exec "$program" "$@" 3<"$folder/commands" 4>"$folder/answers" </dev/null"#;
    let mut words: Vec<OsString> = ["/bin/sh", "-c", line, "browser"].map(OsString::from).into();
    words.push(program.into());
    words.push(folder.into());
    words.extend(settings.arguments().into_iter().map(OsString::from));
    Command { program: Program::Argv(words), working_directory: folder.to_owned() }
}

/// Returns what a browser printed last.
fn last_words(process: &sandbox::Session) -> String {
    let bytes = process.status().bytes;
    let part = process.read(bytes.saturating_sub(SHOWN as u64), SHOWN);
    let text = part.map(|part| String::from_utf8_lossy(&part.bytes).trim().to_owned()).unwrap_or_default();
    if text.is_empty() { "it ended at once, without a message".to_owned() } else { text }
}
