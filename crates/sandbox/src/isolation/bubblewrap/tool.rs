//! The system's bwrap: its path, the check whether it can be trusted, and its start.

use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, Mode, OFlags, SeekFrom, memfd_create, open, seek};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::child::blueprint::c_string;
use crate::child::first_steps::keep_only;
use crate::error::SandboxError;
use crate::process::{self, Process};
use crate::spec::Entrance;
use crate::streams::above_standard;
use crate::sys::{self, StringArray};

/// Paths at which distributions install it. A search path is not used, because it may lead to any
/// user's program.
const PLACES: [&str; 2] = ["/usr/bin/bwrap", "/bin/bwrap"];

/// Path of this program in the cell. Landlock stops every command from reading or running it.
pub(super) const ENTRANCE: &str = "/.cell/handfast";

/// A bwrap that only the owner of the system can have installed.
#[derive(Debug)]
pub(super) struct Tool {
    path: PathBuf,
    set_user_id: bool,
}

impl Tool {
    pub(super) fn find() -> Option<Self> {
        PLACES.iter().find_map(|place| Self::at(Path::new(place)))
    }

    fn at(place: &Path) -> Option<Self> {
        let path = place.canonicalize().ok()?;
        let file = fs::symlink_metadata(&path).ok()?;
        let trusted = path.ancestors().all(|part| {
            // Owned by root and writable by root alone.
            fs::symlink_metadata(part).is_ok_and(|found| found.uid() == 0 && found.mode() & 0o022 == 0)
        });
        let usable = trusted && file.is_file() && file.mode() & 0o111 != 0;
        usable.then_some(Self { path, set_user_id: file.mode() & libc::S_ISUID != 0 })
    }

    /// Returns a tool that is never started.
    #[cfg(test)]
    pub(super) fn for_a_test() -> Self {
        Self { path: "/usr/bin/bwrap".into(), set_user_id: false }
    }

    /// Returns true if its cells have a user namespace. A set-user-id bwrap needs none, and makes
    /// none on a machine that refuses them to every user.
    pub(super) fn makes_user_namespace(&self) -> bool {
        !self.set_user_id
    }

    /// Starts bwrap with these words, which refer to `files` by number. bwrap then starts this
    /// program with `control` in the cell that it has made.
    pub(super) fn start(
        &self,
        words: &[OsString],
        files: &[OwnedFd],
        control: &OwnedFd,
        entrance: &Entrance,
    ) -> Result<Process, SandboxError> {
        let list = handed(words.join(OsStr::new("\0")))?;
        let mut words: Vec<OsString> =
            vec!["bwrap".into(), "--args".into(), list.as_raw_fd().to_string().into()];
        words.extend(["--".into(), ENTRANCE.into()]);
        words.extend(entrance.arguments.iter().cloned());
        words.push(control.as_raw_fd().to_string().into());
        let words = words.into_iter().map(|word| c_string("bwrap's arguments", word));
        let null = open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(SandboxError::io("opening /dev/null"))?;
        let null = above_standard(null)?;
        let mut passed: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
        passed.extend([control.as_raw_fd(), list.as_raw_fd()]);
        let mut keep = passed.clone();
        keep.push(null.as_raw_fd());
        keep.sort_unstable();
        let execution = Execution {
            keep,
            passed,
            null: null.as_raw_fd(),
            path: c_string("bwrap's path", &self.path)?,
            arguments: StringArray::new(words.collect::<Result<_, _>>()?),
            environment: StringArray::new(Vec::new()),
        };
        process::start_by_older_call(|| execution.perform()).map_err(SandboxError::io("starting bwrap"))
    }
}

/// Makes a file in memory with this content, positioned at its beginning, under a descriptor number
/// above the standard ones.
pub(super) fn handed(content: impl AsRef<OsStr>) -> Result<OwnedFd, SandboxError> {
    let failed = SandboxError::io("writing a file for bwrap");
    let file = memfd_create(c"handfast", MemfdFlags::CLOEXEC).map_err(failed)?;
    let mut rest = content.as_ref().as_bytes();
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest).map_err(SandboxError::io("writing a file for bwrap"))?;
        rest = rest.get(written..).unwrap_or_default();
    }
    seek(&file, SeekFrom::Start(0)).map_err(SandboxError::io("writing a file for bwrap"))?;
    above_standard(file)
}

/// Input of the new process that becomes bwrap.
struct Execution {
    keep: Vec<RawFd>,
    /// Descriptors that bwrap inherits.
    passed: Vec<RawFd>,
    null: RawFd,
    path: CString,
    arguments: StringArray,
    environment: StringArray,
}

impl Execution {
    /// Executes bwrap.
    ///
    /// INVARIANT: as in `crate::child`, nothing here allocates, locks or panics.
    fn perform(&self) {
        let prepared = keep_only(&self.keep).and_then(|()| {
            // This program does not rely on bwrap's messages.
            for standard in 0..3 {
                sys::duplicate_onto(sys::borrow(self.null), standard)?;
            }
            self.passed.iter().try_for_each(|fd| fcntl_setfd(sys::borrow(*fd), FdFlags::empty()))
        });
        if prepared.is_ok() {
            sys::reset_signal_handlers();
            sys::unblock_signals();
            let _refused = sys::execute(&self.path, &self.arguments, &self.environment);
        }
        sys::exit(127)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn one_that_somebody_else_could_have_put_there_is_not_trusted() {
        // Every user can write to the folder for temporary files.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bwrap");
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Tool::at(&path).is_none());
        assert!(Tool::at(Path::new("/no/such/bwrap")).is_none());
        // The control: a program installed by the system is trusted.
        let trusted = fs::metadata("/bin/sh").unwrap().uid() == 0;
        assert_eq!(Tool::at(Path::new("/bin/sh")).is_some(), trusted);
    }
}
