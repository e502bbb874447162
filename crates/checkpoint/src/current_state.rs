//! Current state of a path in the workspace, read only as far as needed, and only once.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::OFlags;

use crate::exchange_dirs::name_of;
use crate::folder::open_known;
use crate::git_index;
use crate::read_once::{ReadOnce, read_once};
use crate::state::hash;
use crate::state_cache::StateCache;
use crate::{Contents, Entry, Kind, Result, State};

/// Destination of the bytes that are read, and the record of them.
#[derive(Clone, Copy)]
pub(crate) struct ContentSink<'a> {
    pub(crate) contents: &'a dyn Contents,
    pub(crate) known: &'a StateCache,
}

/// State of an entry with the bytes of its file.
enum LazyState {
    NotYet,
    As(State),
    /// The file cannot be read, or changed during the read.
    Failed,
}

/// An entry of an open folder.
pub(crate) struct OpenEntry<'a> {
    folder: &'a OwnedFd,
    path: &'a Path,
    pub(crate) entry: Entry,
    keeping: Option<ContentSink<'a>>,
    /// State without the bytes of a file.
    looked_at: Option<State>,
    read: LazyState,
}

impl<'a> OpenEntry<'a> {
    pub(crate) fn new(
        folder: &'a OwnedFd,
        path: &'a Path,
        entry: Entry,
        keeping: Option<ContentSink<'a>>,
    ) -> Self {
        Self { folder, path, entry, keeping, looked_at: None, read: LazyState::NotYet }
    }

    /// Returns true if the entry matches `state`: the same kind, rights, attributes and bytes. Times
    /// do not count, and neither do the contents of a folder.
    pub(crate) fn is(&mut self, state: &State) -> Result<bool> {
        let now = self.entry;
        if state.entry.kind != now.kind {
            return Ok(false);
        }
        if now.kind != Kind::Link && !state.entry.has_same_rights(&now) {
            return Ok(false);
        }
        if now.kind == Kind::File && state.entry.size_bytes != now.size_bytes {
            return Ok(false);
        }
        let by_bytes = now.kind == Kind::File && state.content.is_some();
        let found = if by_bytes { self.read()? } else { Some(self.looked_at()?) };
        // An entry that cannot be read counts as different.
        let Some(found) = found else { return Ok(false) };
        if found.attributes != state.attributes || !found.has_same_target(state) {
            return Ok(false);
        }
        Ok(match now.kind {
            Kind::File if by_bytes => (found.content, found.is_sparse) == (state.content, state.is_sparse),
            Kind::File => state.entry.has_same_size_and_time(&now),
            _ => true,
        })
    }

    /// Returns true if the entry is a git index with the same data about every file as the index in
    /// `state`.
    pub(crate) fn is_same_index(&self, state: &State, contents: &dyn Contents) -> bool {
        let name = name_of(self.path);
        let Some(kept) = &state.content else { return false };
        if !git_index::may_be(name)
            || self.entry.kind != Kind::File
            || !state.entry.has_same_rights(&self.entry)
        {
            return false;
        }
        let opened = open_known(self.folder, name, &self.entry, OFlags::RDONLY);
        opened.is_ok_and(|opened| git_index::is_like(&File::from(opened), contents, kept))
    }

    fn looked_at(&mut self) -> Result<&State> {
        let state = match self.looked_at.take() {
            Some(state) => state,
            None => State::of(self.folder.as_fd(), name_of(self.path), self.path, self.entry, None)?,
        };
        Ok(self.looked_at.insert(state))
    }

    fn read(&mut self) -> Result<Option<&State>> {
        if matches!(self.read, LazyState::NotYet) {
            self.read = self.read_once()?.map_or(LazyState::Failed, LazyState::As);
        }
        Ok(match &self.read {
            LazyState::As(state) => Some(state),
            LazyState::NotYet | LazyState::Failed => None,
        })
    }

    fn read_once(&self) -> Result<Option<State>> {
        let keep = |content: &mut dyn io::Read| match self.keeping {
            Some(keeping) => keeping.contents.keep(content),
            None => hash(content),
        };
        let mut buffer = Vec::new();
        let named = (name_of(self.path), self.path);
        match read_once(self.folder.as_fd(), named, &self.entry, &mut buffer, ("read", &keep))? {
            ReadOnce::As(state) => {
                if let Some(keeping) = self.keeping {
                    keeping.known.note_kept(state.clone());
                }
                Ok(Some(state))
            }
            ReadOnce::Changed | ReadOnce::Closed => Ok(None),
        }
    }
}
