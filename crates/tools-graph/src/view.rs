//! One graph of a workspace that is kept warm: the files that some call could read, as they were at its time.
//!
//! A view never decides who may read what. It becomes the graph of exactly the files that a listing names, so a
//! call with fewer rights takes the others out before it sees anything.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use codegraph::{
    Change, CodeIndex, Due, ExtractLimits, FactsStore, GraphFolder, Imported, Language, LiveGraph,
    PatchedGraph, Sweep,
};
use roots::{Roots, RootsError};
use tool::{Context, ToolError};
use tool_support::files::failure;

use crate::listing::{LARGEST_FILE, Listing};

/// Number of files between two reports of progress.
const FILES_PER_REPORT: usize = 100;

/// The graph of the files that one call could read.
#[derive(Debug)]
pub(crate) struct View {
    name: Box<str>,
    index: CodeIndex,
    sweep: Sweep,
    live: LiveGraph,
    /// Graph of the index as it is, or `None` if that has changed since.
    graph: Option<Snapshot>,
    /// True if changes were taken that nothing has been resolved for yet.
    is_unsettled: bool,
    /// Key of the graph that was kept last.
    kept: Option<[u8; 32]>,
    /// Findings of compilers, as the index has it.
    imported: Arc<Imported>,
    /// Stamp of the languages that the index was made with.
    grammars: u64,
}

/// A graph that the next start can open once it is kept.
#[derive(Debug)]
pub(crate) struct Unkept {
    graph: Arc<PatchedGraph>,
    key: [u8; 32],
}

impl Unkept {
    /// Keeps the graph. Without it the next start builds the graph anew, so an error costs time alone.
    pub(crate) fn keep(&self, graphs: &GraphFolder) {
        drop(self.graph.keep(&self.key, graphs));
    }
}

/// The stores of a view.
pub(crate) struct Stores<'a> {
    /// Facts and relationships.
    pub(crate) facts: &'a mut dyn FactsStore,
    /// Graphs.
    pub(crate) graphs: &'a GraphFolder,
    /// Findings of compilers.
    pub(crate) imported: &'a Arc<Imported>,
}

/// A graph with its freshness. It stays as it is while queries read it.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    /// Graph.
    pub(crate) graph: Arc<PatchedGraph>,
    /// Number of files in it.
    pub(crate) files: usize,
    /// Hash of the paths and contents of the files, and of what compilers found in them.
    pub(crate) generation: Arc<str>,
}

/// A graph for one call.
#[derive(Debug, Clone)]
pub(crate) struct Answerable {
    /// Graph of the files that the call may read.
    pub(crate) snapshot: Snapshot,
    /// Number of files that could not be read now.
    pub(crate) pending: usize,
    /// Number of files that the limits leave out.
    pub(crate) left_out: u64,
    /// Number of files of each language whose grammar is not there.
    pub(crate) missing: BTreeMap<Language, u64>,
}

/// The outcome of reading one file.
enum Reading {
    Content(Vec<u8>),
    /// The file is gone, or the call may not read it.
    Nothing,
    /// The system failed to read the file, which may work later.
    Failed,
}

impl View {
    /// Creates the view of an empty workspace. `name` is the name of the project.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            index: CodeIndex::lazy(ExtractLimits::default()),
            sweep: Sweep::default(),
            live: LiveGraph::new(name),
            graph: None,
            is_unsettled: false,
            kept: None,
            imported: Arc::default(),
            grammars: 0,
        }
    }

    /// Makes the graph that of exactly the listed files. If it is stopped, the work that was done is kept.
    pub(crate) fn update(
        &mut self,
        context: &Context,
        roots: &Roots,
        listing: &Listing,
        stores: &mut Stores<'_>,
        is_ended: &dyn Fn() -> bool,
    ) -> Result<Answerable, ToolError> {
        if self.grammars != listing.grammars {
            // Files may be of other languages than before. Their facts are mostly on disk.
            *self = Self { grammars: listing.grammars, ..Self::new(&self.name) };
        }
        if let Some(answerable) = self.try_update(context, roots, listing, stores, is_ended)? {
            return Ok(answerable);
        }
        // Facts that the store had are damaged or gone. All files are read anew, and nothing is left to it.
        *self = Self { grammars: listing.grammars, ..Self::new(&self.name) };
        self.index = CodeIndex::new(ExtractLimits::default());
        let updated = self.try_update(context, roots, listing, stores, is_ended)?;
        updated.ok_or_else(|| {
            ToolError::new(
                tool::Code::Internal,
                "the code graph lost facts that it does not leave to its store",
            )
        })
    }

    /// Does the same, but returns `None` if facts that were left to the store are lost.
    fn try_update(
        &mut self,
        context: &Context,
        roots: &Roots,
        listing: &Listing,
        stores: &mut Stores<'_>,
        is_ended: &dyn Fn() -> bool,
    ) -> Result<Option<Answerable>, ToolError> {
        if !self.take_imported(stores) {
            return Ok(None);
        }
        for file in listing.files.iter().filter(|file| file.has_further_names) {
            // Opening the file asks the guard about its other names.
            self.sweep.forget(&file.path);
        }
        let entries = listing.files.iter().map(|file| (file.path.clone(), file.stamp));
        let due = self.sweep.look(entries, listing.taken);
        let total = due.len();
        let mut pending = 0;
        for (done, one) in due.into_iter().enumerate() {
            context.stop.check()?;
            if is_ended() {
                return Err(ended());
            }
            if done % FILES_PER_REPORT == FILES_PER_REPORT - 1 {
                context.progress.report(done as u64, Some(total as u64), "files read");
            }
            let (path, reading) = match one {
                Due::Gone(path) => (path, Reading::Nothing),
                Due::Read(path) => {
                    let reading = read(context, roots, &path).map_err(failure(context))?;
                    (path, reading)
                }
            };
            if !self.take(path.clone(), reading, stores.facts, &mut pending) {
                return Ok(None);
            }
            if context.stop.requested().is_some() || is_ended() {
                // The file may not have been taken.
                self.sweep.forget(&path);
            }
        }
        if self.is_unsettled {
            self.graph = None;
            if let Some(graph) = self.live.open(&mut self.index, stores.graphs) {
                self.kept = Some(self.live.key(&mut self.index));
                self.graph = Some(self.snapshot(graph));
            } else if self.index.wake(stores.facts) {
                self.index.settle_with(stores.facts);
            } else {
                return Ok(None);
            }
            self.is_unsettled = false;
        }
        let snapshot = match self.graph.take() {
            Some(snapshot) => snapshot,
            None => {
                let graph = self.live.graph(&self.index).map_err(too_large)?;
                self.snapshot(graph)
            }
        };
        self.graph = Some(snapshot.clone());
        let missing = listing.missing.clone();
        Ok(Some(Answerable { snapshot, pending, left_out: listing.left_out, missing }))
    }

    /// Reads the facts that an opened graph was made of, so that it can follow a change. Returns false if some are
    /// lost.
    fn wake(&mut self, store: &mut dyn FactsStore) -> bool {
        if !self.index.wake(store) {
            return false;
        }
        self.index.settle_with(store);
        self.live.complete(&self.index);
        true
    }

    /// Takes what compilers found into the index. Returns false if facts that this needs are lost.
    fn take_imported(&mut self, stores: &mut Stores<'_>) -> bool {
        if Arc::ptr_eq(&self.imported, stores.imported) || self.imported == *stores.imported {
            return true;
        }
        if self.live.is_opened() && !self.wake(stores.facts) {
            return false;
        }
        self.imported = stores.imported.clone();
        self.index.set_imported(self.imported.clone());
        self.is_unsettled = true;
        true
    }

    /// Takes what was read of a file into the index. Returns false if facts that this needs are lost.
    fn take(
        &mut self,
        path: String,
        reading: Reading,
        store: &mut dyn FactsStore,
        pending: &mut usize,
    ) -> bool {
        let change = match reading {
            Reading::Content(content) => {
                self.sweep.note(&path);
                Change::Written { path, content }
            }
            Reading::Nothing => {
                self.sweep.note(&path);
                // Somebody else may be able to read it, so its stamp says nothing.
                self.sweep.forget(&path);
                Change::Removed { path }
            }
            Reading::Failed => {
                *pending += 1;
                Change::Removed { path }
            }
        };
        let is_known = match &change {
            Change::Written { path, content } => self.index.has_content(path, content),
            Change::Removed { path } => !self.index.has_file(path),
        };
        if is_known {
            return true;
        }
        if self.live.is_opened() && !self.wake(store) {
            return false;
        }
        self.index.take(change, store);
        self.is_unsettled = true;
        true
    }

    fn snapshot(&self, graph: PatchedGraph) -> Snapshot {
        let mut hasher = blake3::Hasher::new();
        for (path, content) in self.index.content_hashes() {
            hasher.update(path.as_bytes());
            hasher.update(&[0]);
            hasher.update(content);
        }
        if let Some(imported) = self.imported.hash() {
            hasher.update(&imported);
        }
        let generation = hasher.finalize().to_hex().as_str().into();
        Snapshot { graph: Arc::new(graph), files: self.index.file_count(), generation }
    }

    /// Returns the graph if it is settled and not kept yet; with `if_whole`, only one that is no patch, which is
    /// quick to write. It counts as kept then.
    pub(crate) fn unkept(&mut self, if_whole: bool) -> Option<Unkept> {
        if self.is_unsettled || self.live.is_opened() || self.index.file_count() == 0 {
            return None;
        }
        let graph = self.graph.as_ref()?.graph.clone();
        if if_whole && !graph.is_whole() {
            return None;
        }
        let key = self.live.key(&mut self.index);
        if self.kept.replace(key) == Some(key) {
            return None;
        }
        Some(Unkept { graph, key })
    }

    /// Returns true if the graph was opened, and has followed no change since.
    #[cfg(test)]
    pub(crate) fn is_opened(&self) -> bool {
        self.live.is_opened()
    }

    /// Keeps the relationships for the next start.
    pub(crate) fn keep_relationships(&mut self, store: &mut dyn FactsStore) {
        if !self.is_unsettled && !self.live.is_opened() && self.index.file_count() > 0 {
            self.index.keep_relationships(store);
        }
    }

    /// Builds the graph anew if many changes have made it slow to change. To be called when nobody waits.
    pub(crate) fn tidy(&mut self) {
        if self.live.is_worn(&self.index) && self.live.rebuild(&self.index).is_err() {
            // The next query reports that the graph is too large.
            self.graph = None;
        }
    }
}

/// Returns the error of a call while the runtime ends.
pub(crate) fn ended() -> ToolError {
    ToolError::new(tool::Code::Unavailable, "the code graph is closed: this runtime is shutting down")
}

/// Returns the error for a graph that has more nodes or relationships than can be numbered.
pub(crate) fn too_large(error: cypher::BuildError) -> ToolError {
    ToolError::new(tool::Code::Quota, format!("the code graph is too large: {error}"))
        .hint("list generated or copied folders in .ignore, so that they are left out")
}

/// Reads a file of the listing. A file that was replaced by a link since is gone.
fn read(context: &Context, roots: &Roots, path: &str) -> roots::Result<Reading> {
    let at = context.place.workspace.join(path);
    let opened = match roots.open_file(&at) {
        // Another real path means that a link was followed.
        Ok(opened) if opened.real == at => opened,
        Ok(_)
        | Err(
            RootsError::NotFound { .. }
            | RootsError::NoFolder { .. }
            | RootsError::WrongKind { .. }
            | RootsError::TooManyLinks { .. }
            | RootsError::Refused { .. }
            | RootsError::LeadsOutside { .. },
        ) => return Ok(Reading::Nothing),
        Err(RootsError::Io { .. }) => return Ok(Reading::Failed),
        Err(error) => return Err(error),
    };
    let mut content = Vec::new();
    match opened.file.take(LARGEST_FILE).read_to_end(&mut content) {
        Ok(_) => Ok(Reading::Content(content)),
        Err(_) => Ok(Reading::Failed),
    }
}

/// Returns how many paths of two sorted lists are in one of them alone, up to a bound.
pub(crate) fn difference(known: &[Arc<str>], listing: &Listing, bound: usize) -> usize {
    let (mut count, mut one, mut two) = (0, known.iter().peekable(), listing.files.iter().peekable());
    while count < bound {
        match (one.peek(), two.peek()) {
            (None, None) => break,
            (Some(left), Some(right)) if left.as_ref() == right.path.as_str() => {
                one.next();
                two.next();
                continue;
            }
            (Some(left), Some(right)) if left.as_ref() < right.path.as_str() => drop(one.next()),
            (Some(_), None) => drop(one.next()),
            (_, Some(_)) => drop(two.next()),
        }
        count += 1;
    }
    count
}
