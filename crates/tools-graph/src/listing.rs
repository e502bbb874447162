//! The files of a workspace that a call may read and that the graph is made of, as they are on the disk now.
//! This module reads no content.

use std::collections::BTreeMap;
use std::path::Path;

use codegraph::{Language, Stamp};
use roots::{Entry, EntryKind, Folder, Roots, RootsError, Step, Visit, Walk};
use tool::Context;
use tool_support::left_out::{IgnoreRules, is_hidden};

use crate::keeper::Grammars;

/// Maximum number of files in a graph. Files beyond it, in the order of their paths, are left out.
pub(crate) const MOST_FILES: usize = 200_000;

/// Maximum size of all files of a graph, in bytes. Files beyond it are left out.
pub(crate) const MOST_BYTES: u64 = 1 << 30;

/// Maximum size of one file, in bytes. A larger one is left out.
pub(crate) const LARGEST_FILE: u64 = 64 << 20;

/// A folder that never holds code of the project itself, whatever the ignore files say.
pub(crate) const PACKAGES: &str = "node_modules";

/// A file of the listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedFile {
    /// Path relative to the workspace, with slashes.
    pub(crate) path: String,
    /// Signs of a change.
    pub(crate) stamp: Stamp,
    /// True if the file has further names, so that only opening it shows whether it may be read.
    pub(crate) has_further_names: bool,
}

/// The files of a workspace.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Files in the order of their paths.
    pub(crate) files: Vec<ListedFile>,
    /// Time at which the listing began, in nanoseconds since the Unix epoch.
    pub(crate) taken: i64,
    /// Number of files that the limits left out, or whose names are not UTF-8.
    pub(crate) left_out: u64,
    /// Number of files of each language whose grammar is not there. They are in no graph.
    pub(crate) missing: BTreeMap<Language, u64>,
    /// Stamp of the languages that the listing was made with.
    pub(crate) grammars: u64,
}

/// Lists the files of the workspace that the call may read. Links are not followed.
pub(crate) fn list(context: &Context, roots: &Roots, grammars: &Grammars) -> roots::Result<Listing> {
    let taken = i64::try_from(context.clock.now().as_nanosecond()).unwrap_or(i64::MAX);
    let folder = roots.open_folder(&context.place.workspace)?;
    let mut lister = Lister {
        context,
        real: folder.real().to_owned(),
        rules: IgnoreRules::default(),
        listing: Listing { taken, grammars: grammars.stamp, ..Listing::default() },
        grammars,
        bytes: 0,
    };
    Walk { recursive: true, after: None }.over(&folder, &mut lister)?;
    let mut listing = lister.listing;
    listing.files.sort_by(|one, two| one.path.cmp(&two.path));
    Ok(listing)
}

/// The visitor of the walk.
struct Lister<'a> {
    context: &'a Context,
    real: std::path::PathBuf,
    rules: IgnoreRules,
    listing: Listing,
    grammars: &'a Grammars,
    bytes: u64,
}

impl Visit for Lister<'_> {
    fn enter(&mut self, folder: &Folder, _relative: &Path) -> roots::Result<()> {
        self.rules.enter(folder);
        Ok(())
    }

    fn leave(&mut self) {
        self.rules.leave();
    }

    fn wants(&mut self, entry: Entry<'_>, relative: &Path) -> bool {
        let is_folder = entry.kind == EntryKind::Folder;
        let is_chosen = match entry.kind {
            EntryKind::Folder => entry.name != PACKAGES,
            // A name that is not UTF-8 is visited too, so that it can be counted.
            EntryKind::File => {
                let path = relative.to_string_lossy();
                self.grammars.reads(&path) || Language::of_path(&path).is_some()
            }
            _ => false,
        };
        is_chosen && !is_hidden(entry.name) && !self.rules.ignores(&self.real.join(relative), is_folder)
    }

    fn visit(&mut self, folder: &Folder, entry: Entry<'_>, relative: &Path) -> roots::Result<Step> {
        if self.context.stop.requested().is_some() {
            return Err(RootsError::Stopped);
        }
        if entry.kind != EntryKind::File {
            return Ok(Step::Next);
        }
        let Some(path) = relative.to_str() else {
            self.listing.left_out += 1;
            return Ok(Step::Next);
        };
        let metadata = match folder.metadata(entry.name) {
            Ok(metadata) if metadata.kind == EntryKind::File => metadata,
            // The entry was deleted or replaced after its name was read.
            Ok(_) | Err(RootsError::NotFound { .. }) => return Ok(Step::Next),
            Err(error) => return Err(error),
        };
        if !self.grammars.reads(path) {
            if let Some(language) = Language::of_path(path) {
                *self.listing.missing.entry(language).or_default() += 1;
            }
            return Ok(Step::Next);
        }
        let is_too_much = self.bytes.saturating_add(metadata.size_bytes) > MOST_BYTES;
        if self.listing.files.len() >= MOST_FILES || is_too_much || metadata.size_bytes > LARGEST_FILE {
            self.listing.left_out += 1;
            return Ok(Step::Next);
        }
        self.bytes += metadata.size_bytes;
        let nanoseconds = i64::from(metadata.modified_nanoseconds);
        self.listing.files.push(ListedFile {
            path: path.to_owned(),
            stamp: Stamp {
                size: metadata.size_bytes,
                modified: metadata.modified_seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds),
                inode: metadata.inode,
            },
            has_further_names: metadata.has_further_names,
        });
        Ok(Step::Next)
    }
}
