//! Changes that were not committed, and are kept to be applied later.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, RenameFlags, openat, renameat_with};
use rustix::io::Errno;

use crate::encoding::{Decoder, Encoder};
use crate::folder::open;
use crate::staging::Call;
use crate::{Error, Result, Terms, Time, Workspace};

/// File that marks changes as kept, with the data needed to apply them later.
const KEPT: &str = "kept";
/// Copy of git's index for kept changes.
const INDEX: &str = "index";
const MAGIC: &[u8] = b"handfast changes 1\n";

/// A record of changes that were not committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptChanges {
    /// Id of the changes.
    pub id: String,
    /// Path of the workspace.
    pub workspace: PathBuf,
    pub(crate) identity: (u64, u64),
    /// Baseline of the commit's terms.
    pub baseline: Option<Time>,
    /// Time at which the changes were kept.
    pub since: Time,
    /// Reason, for people.
    pub reason: String,
    /// Path of git's index in the workspace.
    pub(crate) index: Option<PathBuf>,
    pub(crate) has_index: bool,
}

impl Call {
    /// Keeps the uncommitted changes, to be applied or discarded later. Returns their id.
    ///
    /// # Errors
    /// [`Error::System`], for example on a full disk.
    pub fn keep(self, workspace: &Workspace, terms: &Terms<'_>, reason: &str) -> Result<String> {
        let mut has_index = false;
        if let Some((_, Some(before))) = &terms.index {
            let failed = |source: std::io::Error| Error::system("keep", INDEX, source);
            let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let copy = openat(&self.folder, INDEX, flags, Mode::from_raw_mode(0o600));
            let mut copy = File::from(copy.map_err(|errno| failed(errno.into()))?);
            let mut before = before;
            std::io::Seek::seek(&mut before, std::io::SeekFrom::Start(0)).map_err(failed)?;
            std::io::copy(&mut before, &mut copy).map_err(failed)?;
            has_index = true;
        }
        let kept = KeptChanges {
            id: self.id.clone(),
            workspace: workspace.path.clone(),
            identity: workspace.identity,
            baseline: terms.baseline,
            since: self.baseline()?,
            reason: reason.to_owned(),
            index: terms.index.as_ref().map(|(path, _)| path.clone()),
            has_index,
        };
        kept.write(&self.folder)?;
        Ok(self.id)
    }

    /// Opens the copy of git's index from before the command started.
    fn index(&self) -> Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened = openat(&self.folder, INDEX, flags, Mode::empty());
        opened.map(File::from).map_err(|errno| Error::system("open", INDEX, errno))
    }
}

impl KeptChanges {
    /// Returns the terms under which the changes were to be committed.
    ///
    /// # Errors
    /// [`Error::System`] if the copy of git's index is gone.
    pub fn terms(&self, call: &Call) -> Result<Terms<'static>> {
        let mut terms = Terms::since(self.since);
        terms.baseline = self.baseline;
        if let Some(path) = &self.index {
            terms.index = Some((path.clone(), if self.has_index { Some(call.index()?) } else { None }));
        }
        Ok(terms)
    }

    /// Opens the workspace of the changes.
    ///
    /// # Errors
    /// [`Error::OtherWorkspace`] if the folder is gone, or another folder has its path.
    pub fn workspace(&self) -> Result<Workspace> {
        Workspace::again(&self.workspace, self.identity)
    }

    pub(crate) fn write(&self, call: &OwnedFd) -> Result<()> {
        let mut to = Encoder(MAGIC.to_vec());
        to.path(&self.workspace);
        to.number(self.identity.0);
        to.number(self.identity.1);
        to.byte(u8::from(self.baseline.is_some()));
        to.time(self.baseline.unwrap_or(self.since));
        to.time(self.since);
        to.bytes(self.reason.as_bytes());
        to.byte(u8::from(self.index.is_some()));
        to.path(self.index.as_deref().unwrap_or(Path::new("")));
        to.byte(u8::from(self.has_index));
        let failed = |source: std::io::Error| Error::system("write", KEPT, source);
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let incomplete = format!("{KEPT}.new");
        let file = openat(call, &incomplete, flags, Mode::from_raw_mode(0o600));
        File::from(file.map_err(|errno| failed(errno.into()))?).write_all(&to.0).map_err(failed)?;
        renameat_with(call, &incomplete, call, KEPT, RenameFlags::empty())
            .map_err(|errno| failed(errno.into()))
    }

    pub(crate) fn read(area: &OwnedFd, id: &str) -> Result<Option<Self>> {
        let path = Path::new(id).join(KEPT);
        let mut file = match open(area.as_fd(), &path, OFlags::RDONLY) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(Error::system("open", path, errno)),
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|source| Error::system("read", &path, source))?;
        Self::decode(id, &bytes).map(Some).ok_or(Error::Damaged { path })
    }

    fn decode(id: &str, bytes: &[u8]) -> Option<Self> {
        let mut from = Decoder(bytes.strip_prefix(MAGIC)?);
        let workspace = from.path()?;
        let identity = (from.number()?, from.number()?);
        let has_baseline = from.flag()?;
        let baseline = from.time()?;
        let since = from.time()?;
        let reason = String::from_utf8(from.bytes()?.to_vec()).ok()?;
        let names_index = from.flag()?;
        let index = from.path()?;
        let has_index = from.flag()?;
        from.0.is_empty().then(|| Self {
            id: id.to_owned(),
            workspace,
            identity,
            baseline: has_baseline.then_some(baseline),
            since,
            reason,
            index: names_index.then_some(index),
            has_index,
        })
    }
}
