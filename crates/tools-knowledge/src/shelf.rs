//! The files of the base as one call may read them, through the call's roots only.

use std::io::Read;
use std::path::{Path, PathBuf};

use knowledge::{ListedKind, Shelf, ShelfError, Stamp};
use roots::{Entry, EntryKind, Folder, LastLink, Metadata, Roots, RootsError, Step, Visit, Walk};
use tool::Context;

/// The base of the workspace, read through the roots of a call.
pub(crate) struct OfCall<'a> {
    pub(crate) context: &'a Context,
    pub(crate) roots: &'a Roots,
    pub(crate) folder: PathBuf,
}

/// Returns true if a file of this name belongs to the base.
pub(crate) fn is_markdown(path: &Path) -> bool {
    let end = path.extension().map(|end| end.to_string_lossy().to_ascii_lowercase());
    matches!(end.as_deref(), Some("md" | "markdown"))
}

fn stamp(metadata: &Metadata) -> Stamp {
    Stamp {
        size: metadata.size_bytes,
        modified_seconds: metadata.modified_seconds,
        modified_nanoseconds: metadata.modified_nanoseconds,
    }
}

fn refused(error: &RootsError) -> ShelfError {
    match error {
        RootsError::Stopped => ShelfError::Stopped,
        // A path that is no longer a file is gone from the base.
        RootsError::NotFound { .. } | RootsError::NoFolder { .. } | RootsError::WrongKind { .. } => {
            ShelfError::Gone
        }
        RootsError::Io { source, .. } if source.raw_os_error() == Some(20) => ShelfError::Gone,
        RootsError::Io { source, .. } => {
            ShelfError::Io(std::io::Error::new(source.kind(), source.to_string()))
        }
        other => ShelfError::Refused(other.to_string()),
    }
}

impl Shelf for OfCall<'_> {
    fn list(
        &self,
        under: Option<&Path>,
        each: &mut dyn FnMut(&Path, ListedKind) -> Result<(), ShelfError>,
    ) -> Result<(), ShelfError> {
        let from = under.map_or_else(|| self.folder.clone(), |under| self.folder.join(under));
        let metadata = match self.roots.metadata(&from, LastLink::Keep) {
            Ok(metadata) => metadata,
            Err(error) => {
                return match refused(&error) {
                    ShelfError::Gone => Ok(()),
                    error => Err(error),
                };
            }
        };
        match (metadata.kind, under) {
            (EntryKind::File, Some(under)) => return each(under, ListedKind::File(stamp(&metadata))),
            (EntryKind::Link, Some(under)) => return each(under, ListedKind::Link),
            _ => {}
        }
        let folder = self.roots.open_folder(&from).map_err(|error| refused(&error))?;
        let mut files = Files { shelf: self, under: under.unwrap_or(Path::new("")), each, failed: None };
        let walked = Walk { recursive: true, after: None }.over(&folder, &mut files);
        match (files.failed, walked) {
            (Some(error), _) => Err(error),
            (None, walked) => walked.map(|_| ()).map_err(|error| refused(&error)),
        }
    }

    fn open(&self, path: &Path) -> Result<(Stamp, Box<dyn Read + '_>), ShelfError> {
        let opened = self.roots.open_file(&self.folder.join(path)).map_err(|error| refused(&error))?;
        Ok((stamp(&opened.metadata), Box::new(opened.file)))
    }

    fn stamp(&self, path: &Path) -> Result<Stamp, ShelfError> {
        let found =
            self.roots.metadata(&self.folder.join(path), LastLink::Keep).map_err(|error| refused(&error))?;
        if found.kind == EntryKind::File { Ok(stamp(&found)) } else { Err(ShelfError::Gone) }
    }
}

/// A visitor that passes each file to a callback.
struct Files<'a, 'e> {
    shelf: &'a OfCall<'a>,
    under: &'a Path,
    each: &'e mut dyn FnMut(&Path, ListedKind) -> Result<(), ShelfError>,
    failed: Option<ShelfError>,
}

impl Visit for Files<'_, '_> {
    fn wants(&mut self, entry: Entry<'_>, _relative: &Path) -> bool {
        let name = Path::new(entry.name);
        let is_hidden = name.as_os_str().as_encoded_bytes().starts_with(b".");
        !is_hidden && (matches!(entry.kind, EntryKind::Folder | EntryKind::Link) || is_markdown(name))
    }

    fn visit(&mut self, folder: &Folder, entry: Entry<'_>, relative: &Path) -> roots::Result<Step> {
        if self.shelf.context.stop.requested().is_some() {
            return Err(RootsError::Stopped);
        }
        let listed = match entry.kind {
            EntryKind::Folder => return Ok(Step::Next),
            EntryKind::Link => ListedKind::Link,
            EntryKind::File => match folder.metadata(entry.name) {
                Ok(metadata) => ListedKind::File(stamp(&metadata)),
                // The file was deleted after its name was read.
                Err(RootsError::NotFound { .. }) => return Ok(Step::Next),
                Err(error) => return Err(error),
            },
            _ => ListedKind::Special,
        };
        let told = (self.each)(&self.under.join(relative), listed);
        Ok(match told {
            Ok(()) => Step::Next,
            Err(error) => {
                self.failed = Some(error);
                Step::End
            }
        })
    }
}
