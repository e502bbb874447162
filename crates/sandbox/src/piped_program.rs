//! A long-lived program in a cell, and the two pipes over which its caller talks to it.
//!
//! The pipes have names in the program's own folder, so that the program opens them itself, as any descriptors. What
//! it prints besides is kept and bounded like the output of a background command.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use crate::error::SandboxError;
use crate::isolation::CellHost;
use crate::limits::values::LimitInForce;
use crate::outcome::Exit;
use crate::session::{Ending, Lifetime, Phase, Session};
use crate::spec::{CellSpec, Command, Program};

/// Pipe from the caller to the program.
const INPUT: &str = "commands";
/// Pipe from the program to the caller.
const OUTPUT: &str = "answers";

/// Number of the next folder of this process.
static NEXT_FOLDER: AtomicU64 = AtomicU64::new(1);

/// Bytes of the program's own messages that an error shows.
const SHOWN: usize = 2_000;

/// Folder of one program, private to the user, which is removed with it.
#[derive(Debug)]
pub struct ProgramFolder(PathBuf);

impl ProgramFolder {
    /// Makes a folder with the two pipes in `parent`. Its name begins with the id of this process, so that
    /// [`remove_left_folders`] finds it after a kill.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn make(parent: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        let number = NEXT_FOLDER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{}-{number}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path)?;
        let folder = Self(path);
        for pipe in [INPUT, OUTPUT] {
            mknodat(CWD, folder.0.join(pipe), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        }
        Ok(folder)
    }

    /// Returns the path, the same in the cell and here.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ProgramFolder {
    fn drop(&mut self) {
        // Remains are removed at the next start of a runtime.
        let _gone = remove(&self.0);
    }
}

/// Descriptors of the program that are the pipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipedAs {
    /// Standard input and output. Standard error is kept.
    Standard,
    /// Descriptor 3 to read and descriptor 4 to write. Both outputs are kept, and the input is empty.
    ThreeAndFour,
}

/// A program in a cell. When this value is dropped, every process of the cell ends and the folder is removed.
pub struct PipedProgram {
    session: Session,
    folder: ProgramFolder,
}

/// The caller's ends of the pipes, which do not block.
#[derive(Debug)]
pub struct ProgramPipes {
    /// End that the caller writes.
    pub input: OwnedFd,
    /// End that the caller reads.
    pub output: OwnedFd,
    /// Guard that must be kept until the first answer.
    pub until_connected: UntilConnected,
}

/// Second writer of a program's output: before the program has opened its end, the output would look ended. The end
/// of the program drops the writer too, so that the output ends then.
#[derive(Debug)]
pub struct UntilConnected(Arc<Mutex<Option<OwnedFd>>>);

impl From<OwnedFd> for UntilConnected {
    /// Creates a writer that only its owner drops.
    fn from(writer: OwnedFd) -> Self {
        Self(Arc::new(Mutex::new(Some(writer))))
    }
}

impl Drop for UntilConnected {
    fn drop(&mut self) {
        self.0.lock().take();
    }
}

impl PipedProgram {
    /// Starts the program with its arguments in a cell that shows its folder. Blocks until it runs. `on_end` is called
    /// after every process of the cell has ended.
    ///
    /// # Errors
    /// Returns the errors of [`run`](crate::run), and those of the pipes.
    pub fn start(
        folder: ProgramFolder,
        (spec, host): (CellSpec, CellHost),
        (words, working_directory): (Vec<OsString>, PathBuf),
        piped_as: PipedAs,
        lifetime: Lifetime,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<(Self, ProgramPipes), SandboxError> {
        let failed = |source| SandboxError::Io { doing: "opening the pipes of a program", source };
        let (input_path, output_path) = (folder.0.join(INPUT), folder.0.join(OUTPUT));
        // The reader and the writer must exist before the program opens its ends.
        let input = open(&input_path, true, true).map_err(failed)?;
        let output = open(&output_path, true, false).map_err(failed)?;
        let second = open(&output_path, true, true).map_err(failed)?;
        let until_connected = UntilConnected::from(OwnedFd::from(second));
        let until_ended = until_connected.0.clone();
        let command = Command { program: Program::Argv(line(&folder.0, words, piped_as)), working_directory };
        let session = Session::start(spec, host, command, lifetime, None, move |_| {
            until_ended.lock().take();
            on_end();
            Ok(String::new())
        })?;
        let pipes = ProgramPipes { input: input.into(), output: output.into(), until_connected };
        Ok((Self { session, folder }, pipes))
    }

    /// Returns the folder of the program.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Records that the program is in use, so that it does not end for being idle.
    pub fn touch(&self) {
        // The output is of no interest; reading it counts as a use.
        let _read = self.session.read(0, 0);
    }

    /// Returns what the program printed last besides its answers; empty if it printed nothing.
    pub fn last_words(&self) -> String {
        let bytes = self.session.status().bytes;
        let part = self.session.read(bytes.saturating_sub(SHOWN as u64), SHOWN);
        part.map(|part| String::from_utf8_lossy(&part.bytes).trim().to_owned()).unwrap_or_default()
    }

    /// Ends every process of the cell, and returns what the program printed last besides its answers. Blocks. Before
    /// the end, the last output may still be on its way.
    pub fn final_words(&self) -> String {
        self.end();
        self.last_words()
    }

    /// Returns the beginning of what the program printed besides its answers, and the number of all bytes.
    ///
    /// # Errors
    /// The error of reading what is stored on disk.
    pub fn printed(&self, limit: usize) -> io::Result<(Vec<u8>, u64)> {
        let bytes = self.session.status().bytes;
        Ok((self.session.read(0, limit)?.bytes, bytes))
    }

    /// Returns the exit status of the program, if the program itself has ended, and the limit for which a process
    /// was killed.
    pub fn exit(&self) -> (Option<Exit>, Option<LimitInForce>) {
        let status = self.session.status();
        let exit = match status.phase {
            Phase::Starting | Phase::Running => None,
            Phase::Left(exit) | Phase::Ended(Ending { exit, .. }) => Some(exit),
        };
        (exit, status.exceeded)
    }

    /// Asks every process of the cell to end. Does not wait.
    pub fn begin_to_end(&self) {
        self.session.begin_to_close();
    }

    /// Ends every process of the cell, and waits until they have ended. Blocks.
    pub fn end(&self) {
        self.session.close();
    }
}

impl Drop for PipedProgram {
    fn drop(&mut self) {
        self.session.begin_to_close();
    }
}

fn open(path: &Path, read: bool, write: bool) -> io::Result<File> {
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::CLOEXEC).bits()).unwrap_or_default();
    OpenOptions::new().read(read).write(write).custom_flags(flags).open(path)
}

/// Returns the words of a shell that opens the pipes and becomes the program.
fn line(folder: &Path, words: Vec<OsString>, piped_as: PipedAs) -> Vec<OsString> {
    let line = match piped_as {
        PipedAs::Standard => r#"folder=$1; shift; exec "$@" <"$folder/commands" >"$folder/answers""#,
        PipedAs::ThreeAndFour => {
            r#"folder=$1; shift; exec "$@" 3<"$folder/commands" 4>"$folder/answers" </dev/null"#
        }
    };
    let shell = ["/bin/sh", "-c", line, "program"].map(OsString::from);
    shell.into_iter().chain([folder.as_os_str().to_owned()]).chain(words).collect()
}

/// Removes the folders of programs whose runtime was killed. Blocks.
pub fn remove_left_folders(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.split('-').next()?.parse::<u32>().ok());
        if pid.is_none_or(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // The next start tries again.
            let _gone = remove(&entry.path());
        }
    }
}

/// Removes a folder in which a program could make folders of any mode and depth.
fn remove(folder: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok(beneath::remove_tree(File::open(parent)?.as_fd(), name)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn close(folder: &Path) {
        fs::create_dir_all(folder.join("closed/inner")).unwrap();
        for path in ["closed/inner", "closed"] {
            fs::set_permissions(folder.join(path), fs::Permissions::from_mode(0o0)).unwrap();
        }
        // A program may change the mode of its own folder, too.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o0)).unwrap();
    }

    #[test]
    fn a_folder_goes_whatever_its_program_made_of_it() {
        let parent = tempfile::tempdir().unwrap();
        let folder = ProgramFolder::make(parent.path()).unwrap();
        close(folder.path());
        drop(folder);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_runtime_left_goes_and_folders_of_live_ones_stay() {
        let parent = tempfile::tempdir().unwrap();
        let live = ProgramFolder::make(parent.path()).unwrap();
        // No process has an id as large as this.
        let left = parent.path().join(format!("{}-1", i32::MAX));
        fs::create_dir(&left).unwrap();
        close(&left);
        remove_left_folders(parent.path());
        assert!(!left.exists() && live.path().exists());
    }
}
