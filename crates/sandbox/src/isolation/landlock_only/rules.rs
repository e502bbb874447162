//! The Landlock rules of a cell without namespaces, made from the list of allowed paths that other
//! cells' views are built from.
//!
//! Landlock allows everything below a folder and has no exceptions. So a folder that contains a
//! denied file is allowed entry by entry instead of as a whole, and entries added later are not
//! allowed at all.
//!
//! Objects are opened component by component without following links, because earlier commands may
//! have left links.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ::landlock::ABI;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2};
use rustix::io::Errno;

use super::private::PrivateFolder;
use crate::child::blueprint::Kind;
use crate::error::SandboxError;
use crate::landlock::{self, Rights};
use crate::roots::Roots;
use crate::spec::{CellSpec, Command};
use crate::sys;
use crate::system::{self, SystemEntry};

/// Maximum number of entries that are allowed one by one, which bounds the time to open them before
/// a command starts.
const MAX_ENTRIES: usize = 50_000;

/// Devices of every cell, except the terminal.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Files about the machine that programs read. None of them describes a single process.
const MACHINE: [&str; 9] = [
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system/cpu",
];

/// The files that a cell may access.
#[derive(Debug)]
pub(super) struct AllowedPaths {
    pub(super) ruleset: OwnedFd,
    /// Descriptions of the parts that could not be allowed.
    pub(super) missing: Vec<String>,
    /// Folders in which a command may start.
    folders: Vec<PathBuf>,
}

pub(super) fn allow(
    spec: &CellSpec,
    roots: &Roots,
    (private, kept): (&PrivateFolder, Option<&Path>),
    version: i32,
) -> Result<AllowedPaths, SandboxError> {
    let ruleset = landlock::ruleset_alone(version)?;
    let mut masked = existing(&spec.masked)?;
    masked.extend(existing(&spec.covered)?);
    let mut hidden = BTreeSet::new();
    for path in masked.clone() {
        let found = fs::symlink_metadata(&path).map_err(|error| cannot(&path, &error.to_string()))?;
        if found.file_type().is_socket() {
            // A cell of this kind cannot connect to any socket, wherever the socket is.
            masked.remove(&path);
        } else {
            hidden.insert((found.dev(), found.ino()));
        }
    }
    let mut read_only = existing(&spec.frozen)?;
    read_only.extend(roots.all().filter(|root| !root.writable).map(|root| root.real.clone()));
    let mut rules =
        Rules { ruleset, abi: ABI::from(version), masked, hidden, read_only, entries: 0, split: false };
    for entry in system::entries()? {
        if let SystemEntry::Folder(path) = entry {
            rules.tree(&path, Rights::Read)?;
        }
    }
    for path in DEVICES {
        rules.tree(Path::new(path), Rights::Devices)?;
    }
    for path in MACHINE {
        rules.tree(Path::new(path), Rights::Read)?;
    }
    rules.tree(private.path(), Rights::Write)?;
    if let Some(kept) = kept {
        rules.tree(kept, Rights::Write)?;
    }
    for root in roots.all().filter(|root| root.at == root.real) {
        rules.tree(&root.real, if root.writable { Rights::Write } else { Rights::Read })?;
    }
    let mut folders: Vec<PathBuf> = roots.all().map(|root| root.real.clone()).collect();
    folders.push(private.path().to_owned());
    let missing = rules
        .split
        .then(|| "new entries in folders that hold a denied or protected file".to_owned())
        .into_iter()
        .collect();
    Ok(AllowedPaths { ruleset: rules.ruleset, missing, folders })
}

impl AllowedPaths {
    /// Allows a terminal, also under the name `/dev/tty` that every process has for its terminal.
    pub(super) fn terminal(&mut self, terminal: BorrowedFd<'_>, version: i32) -> Result<(), SandboxError> {
        let rights = Rights::Devices.bits(ABI::from(version), Kind::File);
        let own = open(c"/dev/tty", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let allow = |device: BorrowedFd<'_>| sys::landlock_allow(self.ruleset.as_raw_fd(), device, rights);
        own.and_then(|own| allow(own.as_fd()))
            .and_then(|()| allow(terminal))
            .map_err(SandboxError::io("allowing the terminal"))?;
        self.missing.push("terminals of its own".to_owned());
        Ok(())
    }

    /// Resolves the working directory of `command`. Landlock does not restrict which folders a
    /// process enters.
    pub(super) fn working_directory(&self, command: &Command) -> Result<PathBuf, SandboxError> {
        let path = &command.working_directory;
        let refused = |source| SandboxError::WorkingDirectory { path: path.clone(), source };
        let real = fs::canonicalize(path).map_err(refused)?;
        if self.folders.iter().any(|folder| real.starts_with(folder)) {
            return Ok(real);
        }
        Err(refused(std::io::ErrorKind::NotFound.into()))
    }
}

/// Returns the existing ones of the paths, with all links resolved.
fn existing(paths: &[PathBuf]) -> Result<BTreeSet<PathBuf>, SandboxError> {
    let mut found = BTreeSet::new();
    for path in paths {
        match fs::canonicalize(path) {
            Ok(real) => {
                found.insert(real);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot(path, &error.to_string())),
        }
    }
    Ok(found)
}

fn cannot(path: &Path, reason: &str) -> SandboxError {
    SandboxError::Root { path: path.to_owned(), reason: reason.to_owned() }
}

/// Reason given if paths cannot be resolved safely.
const NO_OPENAT2: &str = "openat2(2) is refused here, as inside every sandbox: sandboxes cannot be nested";

/// Rules in the making.
struct Rules {
    ruleset: OwnedFd,
    abi: ABI,
    /// Paths that must not be accessed at all.
    masked: BTreeSet<PathBuf>,
    /// Device and inode of the masked files: Landlock allows a file under all its names if it does
    /// under one.
    hidden: BTreeSet<(u64, u64)>,
    /// Paths that may be read but not written.
    read_only: BTreeSet<PathBuf>,
    entries: usize,
    /// True if a writable folder is allowed entry by entry.
    split: bool,
}

impl Rules {
    /// Allows `path`, which contains no link, with everything below it, except masked paths. A
    /// missing path is skipped.
    fn tree(&mut self, path: &Path, rights: Rights) -> Result<(), SandboxError> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let failed = |errno: Errno| cannot(path, &std::io::Error::from(errno).to_string());
        match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            Ok(object) => self.object(&object, path, rights),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            // Inside a cell, or before Linux 5.6.
            Err(Errno::NOSYS) => Err(cannot(path, NO_OPENAT2)),
            Err(errno) => Err(failed(errno)),
        }
    }

    // BOUNDED: by the length of the paths that are covered.
    fn object(&mut self, object: &OwnedFd, path: &Path, rights: Rights) -> Result<(), SandboxError> {
        if self.masked.contains(path) {
            return Ok(());
        }
        let failed = |errno: Errno| cannot(path, &std::io::Error::from(errno).to_string());
        let found = fstat(object).map_err(failed)?;
        if self.hidden.contains(&(found.st_dev, found.st_ino)) {
            return Ok(());
        }
        let kind = match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => Kind::Folder,
            // A link's target has its own rule or none.
            FileType::Symlink => return Ok(()),
            _ => Kind::File,
        };
        let writes = matches!(rights, Rights::Write);
        let rights = if writes && self.read_only.contains(path) { Rights::Read } else { rights };
        let writes = matches!(rights, Rights::Write);
        let below = |set: &BTreeSet<PathBuf>| {
            kind == Kind::Folder && set.iter().any(|inner| inner != path && inner.starts_with(path))
        };
        let whole = !(below(&self.masked) || writes && below(&self.read_only));
        if whole {
            return self.add(object, rights.bits(self.abi, kind)).map_err(failed);
        }
        self.split |= writes;
        // Allow listing the folder and those below; its entries have separate rules.
        self.add(object, Rights::List.bits(self.abi, kind)).map_err(failed)?;
        let listed =
            openat(object, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let entries = Dir::new(listed.map_err(failed)?).map_err(failed)?;
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(cannot(
                    path,
                    "it contains denied files among too many entries to allow individually",
                ));
            }
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(object, name, flags, Mode::empty()) {
                Ok(inner) => {
                    let inner_path = path.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
                    self.object(&inner, &inner_path, rights)?;
                }
                // The entry is gone in the meantime.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(())
    }

    fn add(&self, object: &OwnedFd, rights: u64) -> Result<(), Errno> {
        sys::landlock_allow(self.ruleset.as_raw_fd(), object.as_fd(), rights)
    }
}
