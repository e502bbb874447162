//! Files of the workspace for which a command sees a placeholder.
//!
//! A placeholder lies in the upper folder before the command starts. An untouched placeholder is no
//! change, and its removal is the removal of the file. A changed or renamed placeholder is never
//! committed, because its content is not that of the file. A copy of a placeholder, recognized by
//! its content, is not committed either.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use sha2::Digest;

use crate::encoding::{Decoder, Encoder};
use crate::exchange_dirs::name_of;
use crate::folder::{LIST, open, open_known};
use crate::staging::{Call, UPPER};
use crate::{Entry, Error, Kind, Result, attributes, git_index};

/// Name of the list in the folder of a call.
const LIST_NAME: &str = "hidden";

/// First words of a notice.
pub const NOTICE: &str = "[Handfast hides ";

/// A file that is hidden from a command, and the form of its placeholder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenFile {
    /// Path relative to the workspace.
    pub path: PathBuf,
    /// Form of the placeholder.
    pub seen_as: SeenAs,
}

/// Form in which a command sees a hidden file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenAs {
    /// An empty file without read permission.
    Closed,
    /// A notice text with the size of the file: git takes a file of another size for changed without
    /// asking a filter.
    Notice {
        /// Size of the text in bytes.
        size_bytes: u64,
        /// True if the file is executable.
        executable: bool,
    },
}

impl HiddenFile {
    /// Returns the extended attribute that marks the placeholder with this number in the upper
    /// folder. The number is the position in the list for [`Call::hide`].
    pub fn mark(number: usize) -> CString {
        attributes::placeholder_mark(number).unwrap_or_default()
    }

    /// Returns the content of the placeholder.
    pub fn content(&self) -> Vec<u8> {
        let SeenAs::Notice { size_bytes, .. } = self.seen_as else { return Vec::new() };
        let path = self.path.as_os_str().as_bytes();
        let mut text = [NOTICE.as_bytes(), path, b": a rule denies reading it]\n"].concat();
        text.resize(usize::try_from(size_bytes).unwrap_or_default(), b'\n');
        text
    }

    /// Returns the permission bits of the placeholder.
    pub fn mode(&self) -> u32 {
        match self.seen_as {
            SeenAs::Closed => 0o000,
            SeenAs::Notice { executable: false, .. } => 0o444,
            SeenAs::Notice { executable: true, .. } => 0o555,
        }
    }
}

impl Call {
    /// Records the files that are hidden from the command, before it starts.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn hide(&self, hidden: &[HiddenFile]) -> Result<()> {
        let mut to = Encoder::default();
        for HiddenFile { path, seen_as } in hidden {
            to.path(path);
            let (notice, size, executable) = match *seen_as {
                SeenAs::Closed => (false, 0, false),
                SeenAs::Notice { size_bytes, executable } => (true, size_bytes, executable),
            };
            to.byte(notice.into());
            to.number(size);
            to.byte(executable.into());
        }
        let failed = |source: std::io::Error| Error::system("write", LIST_NAME, source);
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(&self.folder, LIST_NAME, flags, Mode::from_raw_mode(0o600));
        File::from(file.map_err(|errno| failed(errno.into()))?).write_all(&to.0).map_err(failed)
    }
}

/// The list of files that were hidden from the command of a call.
#[derive(Debug, Default)]
pub(crate) struct HiddenFiles {
    all: Vec<HiddenFile>,
    /// Positions in `all`, by path.
    by_path: BTreeMap<PathBuf, usize>,
    /// Sizes of the notices.
    sizes: BTreeSet<u64>,
}

impl HiddenFiles {
    /// Reads the list in the folder of a call.
    pub(crate) fn of(call: &OwnedFd) -> Result<Self> {
        let path = Path::new(LIST_NAME);
        let mut bytes = Vec::new();
        match open(call.as_fd(), path, OFlags::RDONLY) {
            Ok(file) => File::from(file)
                .read_to_end(&mut bytes)
                .map_err(|source| Error::system("read", LIST_NAME, source))?,
            Err(Errno::NOENT) => return Ok(Self::default()),
            Err(errno) => return Err(Error::system("open", LIST_NAME, errno)),
        };
        Self::decode(&bytes).ok_or(Error::Damaged { path: path.to_owned() })
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (mut from, mut hidden) = (Decoder(bytes), Self::default());
        while !from.0.is_empty() {
            let path = from.path()?;
            let (notice, size_bytes, executable) = (from.flag()?, from.number()?, from.flag()?);
            let seen_as = if notice { SeenAs::Notice { size_bytes, executable } } else { SeenAs::Closed };
            hidden.sizes.extend(Some(size_bytes).filter(|size| *size > 0));
            hidden.by_path.insert(path.clone(), hidden.all.len());
            hidden.all.push(HiddenFile { path, seen_as });
        }
        Some(hidden)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Finds the hidden file with this path.
    pub(crate) fn at(&self, path: &Path) -> Option<&HiddenFile> {
        self.numbered(*self.by_path.get(path)?)
    }

    /// Finds the hidden file with this number.
    pub(crate) fn numbered(&self, number: usize) -> Option<&HiddenFile> {
        self.all.get(number)
    }

    /// Lists the hidden files at these paths, or in folders there.
    pub(crate) fn within<'a>(&'a self, places: &'a BTreeSet<PathBuf>) -> impl Iterator<Item = &'a Path> {
        let is_there = |path: &&Path| path.ancestors().any(|above| places.contains(above));
        self.by_path.keys().map(PathBuf::as_path).filter(is_there)
    }

    /// Returns true if the entry is the unchanged placeholder of this number at its own path.
    pub(crate) fn is_untouched(
        &self,
        (folder, path): (&OwnedFd, &Path),
        new: &Entry,
        number: Option<usize>,
    ) -> bool {
        let made = number.and_then(|number| self.numbered(number)).filter(|hidden| hidden.path == path);
        made.is_some_and(|made| {
            new.kind == Kind::File
                && new.mode == made.mode()
                && content(folder, name_of(path), new).is_some_and(|content| content == made.content())
        })
    }

    /// Returns true if the file is a git index that records a notice as the content of a file. That
    /// happens if a program did not call git's filter, or the command disabled it. Such a git commit
    /// would lose the file's content.
    pub(crate) fn are_staged_in(&self, folder: &OwnedFd, name: &OsStr, new: &Entry) -> bool {
        if self.sizes.is_empty() || new.kind != Kind::File || !git_index::may_be(name) {
            return false;
        }
        let notices = self.all.iter().filter(|hidden| hidden.seen_as != SeenAs::Closed);
        let objects: BTreeSet<Vec<u8>> = notices.flat_map(|hidden| names_in_git(&hidden.content())).collect();
        let index = open_known(folder, name, new, OFlags::RDONLY);
        index.is_ok_and(|index| git_index::has_any_of(&File::from(index), &objects))
    }

    /// Lists the hidden files whose notice is the content of this file.
    pub(crate) fn copied_in(&self, folder: &OwnedFd, name: &OsStr, new: &Entry) -> Vec<PathBuf> {
        if new.kind != Kind::File || !self.sizes.contains(&new.size_bytes) {
            return Vec::new();
        }
        let Some(found) = content(folder, name, new) else { return Vec::new() };
        let is_copied = |hidden: &&HiddenFile| match hidden.seen_as {
            SeenAs::Notice { size_bytes, .. } => size_bytes == new.size_bytes && hidden.content() == found,
            SeenAs::Closed => false,
        };
        self.all.iter().filter(is_copied).map(|hidden| hidden.path.clone()).collect()
    }
}

/// Returns the git object ids of this content, by both hash algorithms. An empty content has no
/// notice.
fn names_in_git(content: &[u8]) -> Vec<Vec<u8>> {
    if content.is_empty() {
        return Vec::new();
    }
    let object = [format!("blob {}\0", content.len()).as_bytes(), content].concat();
    vec![sha1::Sha1::digest(&object).to_vec(), sha2::Sha256::digest(&object).to_vec()]
}

/// Reads a file of the upper folder; an empty file need not be readable.
fn content(folder: &OwnedFd, name: &OsStr, entry: &Entry) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    if entry.size_bytes > 0 {
        let file = open_known(folder, name, entry, OFlags::RDONLY).ok()?;
        File::from(file).take(entry.size_bytes + 1).read_to_end(&mut bytes).ok()?;
    }
    Some(bytes)
}

/// A file that is left out of a commit, because its content is that of a placeholder.
#[derive(Debug)]
pub(crate) struct CopiedFile {
    pub(crate) path: PathBuf,
    /// Hidden files with this placeholder content. Empty for a placeholder that came with its
    /// folder.
    pub(crate) of: Vec<PathBuf>,
    /// True if the file lies in a folder that comes as a whole.
    pub(crate) comes_along: bool,
}

/// Removes the omitted files from the folders that come as a whole.
pub(crate) fn leave_out(upper: BorrowedFd<'_>, copies: &[CopiedFile]) -> Result<()> {
    for CopiedFile { path, .. } in copies.iter().filter(|copied| copied.comes_along) {
        let failed = Error::while_doing("leave out", path);
        let folder = open(upper, path.parent().unwrap_or(Path::new("")), LIST).map_err(&failed)?;
        match unlinkat(&folder, name_of(path), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    Ok(())
}

impl Call {
    pub(crate) fn leave_out(&self, copies: &[CopiedFile]) -> Result<()> {
        if copies.is_empty() { Ok(()) } else { leave_out(self.open(UPPER)?.as_fd(), copies) }
    }
}
