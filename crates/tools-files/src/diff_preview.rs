//! Changes of a call or a dry run, as unified diffs and in words.

use std::io::Read;
use std::path::Path;

use edit::unified_whole;
use roots::{Entry, EntryKind, Folder, LastLink, OpenedFile, Roots, RootsError, Step, Visit, Walk};
use tool::{Context, ToolError};
use tool_support::files::failure;

/// Maximum number of bytes of a shown content; a larger one is reported by its size, because its
/// diff would be unreadable.
const LARGEST: u64 = 1024 * 1024;

/// Maximum number of bytes of all diffs together, which the answer shortens anyway.
const MAX_BYTES: usize = 1024 * 1024;

/// One side of a diff.
pub(crate) enum Side {
    Absent,
    Text(Vec<u8>),
    /// Any other content, in words.
    Other(String),
}

impl Side {
    /// Describes content to be written.
    pub(crate) fn of(content: &[u8]) -> Self {
        let length = content.len();
        if u64::try_from(length).is_ok_and(|length| length > LARGEST) {
            Self::Other(format!("a file of {length} bytes"))
        } else if memchr::memchr(0, content).is_some() || std::str::from_utf8(content).is_err() {
            Self::Other(format!("a binary file of {length} bytes"))
        } else {
            Self::Text(content.to_vec())
        }
    }

    /// Describes the content of a file.
    fn of_file(opened: OpenedFile) -> std::io::Result<Self> {
        let size = opened.metadata.size_bytes;
        if size > LARGEST {
            return Ok(Self::Other(format!("a file of {size} bytes")));
        }
        let mut content = Vec::new();
        opened.file.take(LARGEST + 1).read_to_end(&mut content)?;
        Ok(Self::of(&content))
    }

    fn words(&self) -> &str {
        match self {
            Self::Absent => "nothing",
            Self::Text(text) if text.is_empty() => "an empty file",
            Self::Text(_) => "a text file",
            Self::Other(words) => words,
        }
    }
}

/// Returns the diff of two sides of one file.
pub(crate) fn difference(shown: &str, old: &Side, new: &Side) -> String {
    let text = |side: &Side| match side {
        Side::Text(text) => Some(text.clone()),
        _ => None,
    };
    if !matches!((old, new), (Side::Other(_), _) | (_, Side::Other(_))) {
        let (before, after) = (text(old), text(new));
        if before == after {
            return format!("{}: the same content\n", tool::visible(shown));
        }
        let unified = unified_whole(shown, before.as_deref(), after.as_deref());
        if !unified.is_empty() {
            return unified;
        }
    }
    format!("{}: {} -> {}\n", tool::visible(shown), old.words(), new.words())
}

/// Returns the diff of a write of this content. The path is followed through symbolic links, as by
/// the write.
pub(crate) fn written(
    context: &Context,
    roots: &Roots,
    path: &Path,
    content: &[u8],
) -> Result<String, RootsError> {
    let shown = context.place.show(path);
    let old = match roots.open_file(path) {
        Ok(opened) => read(opened)?,
        Err(RootsError::NotFound { .. }) => Side::Absent,
        Err(error) => return Err(error),
    };
    Ok(difference(&shown, &old, &Side::of(content)))
}

/// Returns the content of a file to compare, unless it is too large or cannot be read.
pub(crate) fn content_of(roots: &Roots, path: &Path) -> Option<Vec<u8>> {
    let opened = roots.open_file(path).ok().filter(|opened| opened.metadata.size_bytes <= LARGEST)?;
    let mut content = Vec::new();
    opened.file.take(LARGEST + 1).read_to_end(&mut content).ok()?;
    u64::try_from(content.len()).is_ok_and(|length| length <= LARGEST).then_some(content)
}

/// Returns the content that a deletion removes; for a folder, everything in it.
pub(crate) fn removed(context: &Context, roots: &Roots, path: &Path) -> Result<String, ToolError> {
    let kind = roots.metadata(path, LastLink::Keep).map_err(failure(context))?.kind;
    let mut removal = Removal { context, roots, path, all: String::new() };
    removal.tell(path, kind).map_err(failure(context))?;
    if kind == EntryKind::Folder {
        let folder = roots.open_folder(path).map_err(failure(context))?;
        let walk = Walk { recursive: true, after: None };
        walk.over(&folder, &mut removal).map_err(failure(context))?;
    }
    Ok(removal.all)
}

fn read(opened: OpenedFile) -> Result<Side, RootsError> {
    let real = opened.real.clone();
    Side::of_file(opened).map_err(|source| RootsError::Io { doing: "read", path: real, source })
}

struct Removal<'a> {
    context: &'a Context,
    roots: &'a Roots,
    path: &'a Path,
    all: String,
}

impl Removal<'_> {
    fn tell(&mut self, path: &Path, kind: EntryKind) -> Result<(), RootsError> {
        let old = match kind {
            EntryKind::File => read(self.roots.open_file(path)?)?,
            EntryKind::Link => {
                let target = self.roots.link_target(path)?;
                Side::Other(format!("a link to {}", tool::visible(&tool::path_text(&target))))
            }
            other => Side::Other(other.to_string()),
        };
        self.all.push_str(&difference(&self.context.place.show(path), &old, &Side::Absent));
        Ok(())
    }
}

impl Visit for Removal<'_> {
    fn wants(&mut self, _entry: Entry<'_>, _relative: &Path) -> bool {
        true
    }

    fn visit(&mut self, _folder: &Folder, entry: Entry<'_>, relative: &Path) -> Result<Step, RootsError> {
        if self.context.stop.requested().is_some() {
            return Err(RootsError::Stopped);
        }
        if self.all.len() > MAX_BYTES {
            self.all.push_str("and more\n");
            return Ok(Step::End);
        }
        self.tell(&self.path.join(relative), entry.kind)?;
        Ok(Step::Next)
    }
}
