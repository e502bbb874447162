//! A browser in a cell: its folder, its two pipes with names, and the end of its processes.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::{
    CellHost, CellRequest, CellSource, Lifetime, PROXY_PORT, PipedAs, PipedProgram, ProgramFolder,
    ProgramPipes,
};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::arguments::Settings;
use crate::browser::Browser;
use crate::error::BrowserError;

/// Time within which a program whose pipe has ended counts as ended.
const END: Duration = Duration::from_secs(1);
/// Folder for downloads.
const DOWNLOADS: &str = "downloads";
/// Folder of the profile in the cell, in memory.
const PROFILE: &str = "/tmp/profile";
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
    process: PipedProgram,
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
        parent: &Path,
    ) -> Result<Self, BrowserError> {
        let failed = |doing: &str, error: &dyn std::fmt::Display| BrowserError::Start {
            reason: format!("{doing}: {error}"),
        };
        let of_folder = |error: io::Error| failed("its folder", &error);
        let folder = ProgramFolder::make(parent).map_err(of_folder)?;
        let path = folder.path().to_owned();
        fs::DirBuilder::new().mode(0o700).create(path.join(DOWNLOADS)).map_err(of_folder)?;
        let request = CellRequest::apart(path.clone());
        let (mut spec, host) = source.cell(request).map_err(|error| failed("its cell", &error))?;
        spec.read_only.extend(program.shown.clone());
        let settings = settings(&host);
        let words = words(&program.path, &settings);
        let (ended, mut has_ended) = watch::channel(false);
        let (process, pipes) = PipedProgram::start(
            folder,
            (spec, host),
            (words, path),
            PipedAs::ThreeAndFour,
            LIFETIME,
            move || {
                ended.send_replace(true);
            },
        )
        .map_err(|error| failed("its cell", &error))?;
        let ProgramPipes { input, output, until_connected } = pipes;
        let open = |error: io::Error| failed("its pipes", &error);
        let writer = pipe::Sender::from_owned_fd(input).map_err(open)?;
        let reader = pipe::Receiver::from_owned_fd(output).map_err(open)?;
        let connected = Browser::connect(reader, writer, settings).await;
        drop(until_connected);
        match connected {
            Ok(browser) => Ok(Self { browser, process }),
            // The pipe of a program that ends looks ended shortly before the program counts as ended.
            Err(error) => match timeout(END, has_ended.wait_for(|ended| *ended)).await {
                Ok(_) => Err(BrowserError::Start { reason: last_words(&process) }),
                Err(_) => Err(error),
            },
        }
    }

    /// Returns the folder for the downloads of pages, the same in the cell and here.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.process.folder().join(DOWNLOADS)
    }

    /// Returns the folder of the browser, the same in the cell and here.
    pub(crate) fn folder(&self) -> &Path {
        self.process.folder()
    }

    /// Records that the browser is in use, so that it does not end for being idle.
    pub(crate) fn touch(&self) {
        self.process.touch();
    }

    /// Ends every process of the cell, and waits until they have ended. Blocks.
    pub(crate) fn end(&self) {
        self.process.end();
    }
}

fn settings(host: &CellHost) -> Settings {
    Settings {
        proxy: host.has_egress.then(|| format!("http://127.0.0.1:{PROXY_PORT}")),
        avoids_dev_shm: true,
        ..Settings::new(PROFILE)
    }
}

/// Returns the words of the browser, whose commands and answers Chromium expects at the descriptors 3 and 4.
fn words(program: &Path, settings: &Settings) -> Vec<OsString> {
    let arguments = settings.arguments().into_iter().map(OsString::from);
    std::iter::once(OsString::from(program)).chain(arguments).collect()
}

/// Returns what a browser printed last.
fn last_words(process: &PipedProgram) -> String {
    let text = process.last_words();
    if text.is_empty() { "it ended at once, without a message".to_owned() } else { text }
}
