//! Snapshots of the workspace for commands and drafts, and the commit of their changes.
//!
//! The cell keeps the changes of a command apart until the last of its processes has ended; a draft
//! is apart from the beginning. Then all changes are swapped into the workspace, or none. Before
//! that, each changed path is judged again by its actual change.

mod commit;
mod judge;
mod kept;
mod ready;
mod taken;
mod taking;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use checkpoint::{
    Area, Changes, Conflict, Durability, HiddenFile, Note, Outcome, RefusedChange, SavedEntry, StepKind,
    Terms, Time, Workspace,
};
use database::Databases;
use jiff::Timestamp;
use parking_lot::Mutex;
use policy::Policy;
use sandbox::{Overlay, Spawner};
use store::Store;
use tool::{Code, EffectState, Retry, Stop, ToolError};

use crate::approvals::ForeseenWrites;
use crate::denied::DeniedFiles;
use crate::difference::{Differences, Direction};
use crate::direct_checkpoint::Author;
use crate::hidden::listed;
use crate::saved_contents::SavedContents;

use commit::{commit_saved, done, stopped};
pub(crate) use judge::HeldChanges;
use judge::Judge;
pub use kept::{KeptDetails, KeptError};
use taken::LeftWatched;
pub(crate) use taking::SnapshotKind;

/// Maximum size in bytes of a git configuration that is parsed. Git's own files are below a few
/// thousand bytes.
pub(crate) const LARGEST_CONFIGURATION: u64 = 1024 * 1024;

/// Path of git's index in a workspace.
const GIT_INDEX: &str = ".git/index";

/// Maximum number of conflicts, held paths or notes that one response names.
const MAX_NAMED: usize = 10;

/// Folder for the changes of commands, and the workspace to which they belong.
pub(crate) struct Snapshots {
    area: Area,
    workspace: PathBuf,
    /// Folders for the next command, prepared while no call waits for them. A waiting cell keeps
    /// changes there.
    ready_for_command: Mutex<Option<checkpoint::Call>>,
    /// Spawner of the waiting cell.
    ready_in: Mutex<Weak<Spawner>>,
    /// Folders for the next draft.
    ready_for_draft: Mutex<Option<checkpoint::Call>>,
    /// Lock for the preparation of folders. True if no call follows any more.
    making: Mutex<bool>,
    /// Direct writes by commands of dead processes, until they are judged.
    left: Mutex<Vec<LeftWatched>>,
}

/// Snapshot of one call.
pub(crate) struct Snapshot {
    changed_by: ChangedBy,
    call: checkpoint::Call,
    workspace: Workspace,
    /// Git's index at the time of the snapshot.
    index: Option<File>,
    /// Time since which changes by others conflict, for changes that an earlier call kept.
    kept_since: Option<Time>,
}

/// Author of the changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangedBy {
    /// Command in a cell, over an overlay.
    Command,
    /// File tool. Its changes survive a loss of power, as those of every file tool do.
    Draft,
    /// Undo of an earlier call's changes. Its plan does not name the paths.
    Restoration,
}

/// Preview of changes before they are committed to the workspace.
pub(crate) struct Preview {
    pub(crate) paths: u64,
    pub(crate) diff: String,
    /// Changes that a human would be asked about, or that a rule denies.
    pub(crate) held: Vec<String>,
    /// Paths that others have changed since the snapshot.
    pub(crate) conflicts: Vec<String>,
    /// Reason why the changes would be refused in any case: a rule denies them, or others changed
    /// the same paths.
    pub(crate) refused: Option<ToolError>,
}

/// Question to a human about held changes.
pub(crate) struct Question {
    /// Held paths with the reasons, one line each.
    pub(crate) lines: Vec<String>,
    /// Digest that binds the answer to exactly these changes.
    pub(crate) digest: String,
}

/// Successful commit.
pub(crate) struct SuccessfulCommit {
    /// Number of changed entries.
    pub(crate) paths: u64,
    pub(crate) warnings: Vec<String>,
    /// New and changed paths, relative to the workspace.
    pub(crate) came: Vec<PathBuf>,
    /// Paths that undoing does not restore.
    pub(crate) unsaved: Vec<PathBuf>,
    /// True if the commit has a checkpoint.
    pub(crate) has_checkpoint: bool,
    /// True if the checkpoint is complete. Otherwise the folder of the call must remain for the
    /// next start.
    pub(crate) is_settled: bool,
}

/// Result of a commit.
pub(crate) enum CommitResult {
    /// All changes are in the workspace.
    Committed(SuccessfulCommit),
    /// A human must be asked first. The workspace is unchanged.
    Held(Question),
    /// The changes were refused for this reason. The workspace is unchanged.
    Refused(ToolError),
}

impl Snapshots {
    /// Opens the folder, completes or rolls back the commits of killed processes, and removes
    /// expired changes. Returns messages for the user.
    pub(crate) fn open(
        folder: &Path,
        workspace: &Path,
        kept_in: (&Arc<Store>, Option<&Databases>),
        now: Timestamp,
    ) -> Result<(Self, Vec<String>), checkpoint::Error> {
        let area = Area::open(folder)?;
        // `tidy` removes the folders of dead processes, so their records are read first.
        let left = area.take_up_watched()?;
        let told = kept::tidy(&area, kept_in, now)?;
        let snapshots = Self {
            area,
            workspace: workspace.to_owned(),
            ready_for_command: Mutex::default(),
            ready_in: Mutex::default(),
            ready_for_draft: Mutex::default(),
            making: Mutex::default(),
            left: Mutex::new(left),
        };
        Ok((snapshots, told))
    }

    /// Takes a snapshot for one call. The cost depends on the amount of changes, not on the size of
    /// the workspace.
    ///
    /// `spawner` is the one in whose cells a command runs. Prepared folders are already mounted in
    /// a cell of one spawner. If a cell of another spawner mounted them again, they would not be
    /// kept apart.
    pub(crate) fn take(
        &self,
        changed_by: ChangedBy,
        spawner: Option<&Arc<Spawner>>,
    ) -> Result<Snapshot, checkpoint::Error> {
        let workspace = Workspace::open(&self.workspace)?;
        let index = workspace.open_file(Path::new(GIT_INDEX));
        // Without a readable index there is nothing to compare with, so any change of the index is
        // a conflict.
        let index = index.unwrap_or_default();
        let call = match changed_by {
            ChangedBy::Command if !self.is_ready_in(spawner) => self.area.begin()?,
            _ => self.folder(changed_by)?,
        };
        Ok(Snapshot { changed_by, call, workspace, index, kept_since: None })
    }

    /// Reopens the changes that an earlier call has kept aside.
    pub(crate) fn take_up(&self, id: &str) -> Result<Snapshot, ToolError> {
        let missing = || {
            ToolError::new(Code::NotFound, format!("there are no kept changes `{}`", tool::visible(id)))
                .hint("use `meta.changes.id` of a dry run; changes are kept for a week")
        };
        let (call, kept) = self.area.take_up(id).map_err(|_| missing())?;
        let workspace = kept.workspace().map_err(failed)?;
        let terms = kept.terms(&call).map_err(failed)?;
        let (index, kept_since) = (terms.index.and_then(|(_, before)| before), terms.baseline);
        if workspace.path() != self.workspace {
            return Err(missing());
        }
        Ok(Snapshot { changed_by: ChangedBy::Command, call, workspace, index, kept_since })
    }

    /// Returns the workspace, and a folder for a call that changes the workspace itself.
    pub(crate) fn begin(&self) -> Result<(checkpoint::Call, Workspace), checkpoint::Error> {
        Ok((self.folder(ChangedBy::Draft)?, Workspace::open(&self.workspace)?))
    }

    fn folder(&self, changed_by: ChangedBy) -> Result<checkpoint::Call, checkpoint::Error> {
        let ready = self.ready(changed_by).take();
        ready.map_or_else(|| self.area.begin(), Ok)
    }

    pub(crate) fn area(&self) -> &Area {
        &self.area
    }
}

impl Snapshot {
    /// Returns the time since which changes by others conflict with these: `begun`, or the time of
    /// the earlier call that made them.
    pub(crate) fn since(&self, begun: Time) -> Time {
        self.kept_since.unwrap_or(begun)
    }

    /// Returns true if an earlier call has kept the changes, which must then survive a failure of
    /// this call.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept_since.is_some()
    }

    /// Returns the diff of the changes, and the conflicts and rules that prevent a commit. Changes
    /// nothing.
    pub(crate) fn preview(
        &self,
        policy: &Policy,
        denied: &DeniedFiles,
        store: &Store,
        since: Time,
    ) -> Result<Preview, ToolError> {
        let upper = self.call.upper();
        let nothing = ForeseenWrites::default();
        let judge = Judge::new(policy, self.workspace.path(), HeldChanges::AsFoundBy(denied, &nothing));
        let terms = Terms { judge: &|touch| judge.verdict(touch), ..self.terms(since).map_err(failed)? };
        let (changes, entries) = self.call.preview(&self.workspace, &terms).map_err(failed)?;
        let open = |path: &Path| Workspace::open(path).map_err(failed);
        let differences = Differences {
            contents: SavedContents::new(store, None),
            policy,
            workspace: open(self.workspace.path())?,
            changed: Some(open(&upper)?),
        };
        // Held changes come first, because a human is asked about them.
        let is_held = |entry: &&SavedEntry| changes.held.iter().any(|held| held.path == entry.path);
        let (first, others): (Vec<&SavedEntry>, Vec<&SavedEntry>) =
            entries.iter().filter(|entry| entry.is_telling()).partition(is_held);
        let lines =
            changes.held.iter().map(|held| format!("{}: {}", tool::path_text(&held.path), held.reason));
        let refused = match held(&changes) {
            CommitResult::Refused(error) => Some(error),
            _ if !changes.conflicts.is_empty() => Some(conflict(&changes.conflicts)),
            _ => None,
        };
        Ok(Preview {
            refused,
            paths: count(&changes),
            // The two parts are rendered separately, so that the line about a folder replaces no
            // line of the other part.
            diff: differences.of(first.into_iter(), Direction::Planned)
                + &differences.of(others.into_iter(), Direction::Planned),
            held: shortened(lines),
            conflicts: shortened(changes.conflicts.iter().map(ToString::to_string)),
        })
    }

    /// Returns the overlay into which the cell writes the changes.
    pub(crate) fn overlay(&self) -> Overlay {
        overlay(&self.call)
    }

    /// Records the files that the command sees as placeholders.
    pub(crate) fn hide(&self, hidden: &[HiddenFile]) -> Result<(), ToolError> {
        if hidden.is_empty() { Ok(()) } else { self.call.hide(hidden).map_err(failed) }
    }

    /// Returns the draft into which a file tool writes its changes.
    pub(crate) fn draft(&self) -> Result<checkpoint::Draft, ToolError> {
        self.call.draft(&self.workspace).map_err(failed)
    }

    /// Returns true if every change was named in advance, so that the approval of the call covers
    /// exactly these changes.
    pub(crate) fn is_foreseen(&self) -> bool {
        self.changed_by == ChangedBy::Draft
    }

    /// Commits the changes, after the replaced files were saved.
    pub(crate) fn commit(
        &self,
        policy: &Policy,
        store: &Store,
        author: &Author,
        since: Time,
        holds: HeldChanges<'_>,
        stop: &Stop,
    ) -> CommitResult {
        let judge = Judge::new(policy, self.workspace.path(), holds);
        let approved = matches!(holds, HeldChanges::Nothing);
        let terms = match self.terms(since) {
            Ok(terms) => terms,
            Err(error) => return CommitResult::Refused(failed(error)),
        };
        let durability = match self.changed_by {
            ChangedBy::Command | ChangedBy::Restoration => Durability::Process,
            ChangedBy::Draft => Durability::Power,
        };
        let terms = Terms { judge: &|touch| judge.verdict(touch), durability, ..terms };
        match commit_saved(store, author, &self.call, &self.workspace, terms, (approved, stop)) {
            Ok((Outcome::Committed(committed), saved)) => CommitResult::Committed(done(&committed, saved)),
            Ok((Outcome::Held(changes), _)) => held(&changes),
            Ok((Outcome::Conflict(changes), _)) => CommitResult::Refused(conflict(&changes.conflicts)),
            Err(error) => CommitResult::Refused(match (stop.requested(), &error) {
                (Some(reason), checkpoint::Error::System { .. }) => stopped(reason),
                _ => failed(error),
            }),
        }
    }

    /// Returns the absolute paths that a commit would create or change.
    pub(crate) fn coming(&self, since: Time) -> Vec<PathBuf> {
        let changes = self.terms(since).and_then(|terms| self.call.changes(&self.workspace, &terms));
        let coming = |changes: &Changes| {
            changes.coming().map(|path| self.workspace.path().join(path)).collect::<Vec<_>>()
        };
        changes.as_ref().map(coming).unwrap_or_default()
    }

    /// Returns the name of the folder of the changes.
    pub(crate) fn id(&self) -> &str {
        self.call.id()
    }

    /// Returns the number of changes, so that discarded ones can be reported.
    pub(crate) fn count(&self, since: Time) -> u64 {
        let changes = self.terms(since).and_then(|terms| self.call.changes(&self.workspace, &terms));
        changes.map_or(0, |changes| count(&changes))
    }

    /// Keeps the changes aside. Returns their id.
    pub(crate) fn keep(self, since: Time, reason: &str) -> Result<String, checkpoint::Error> {
        let terms = self.terms(since)?;
        self.call.keep(&self.workspace, &terms, reason)
    }

    /// Removes the changes of the call, or the entries that a commit took out of the workspace.
    /// Takes long for many entries.
    pub(crate) fn discard(self) -> Result<(), checkpoint::Error> {
        self.call.discard()
    }

    fn terms(&self, since: Time) -> Result<Terms<'static>, checkpoint::Error> {
        let mut terms = Terms::since(since);
        let copy = self.index.as_ref().map(File::try_clone).transpose();
        let copy = copy.map_err(|source| checkpoint::Error::System {
            doing: "open",
            path: GIT_INDEX.into(),
            source,
        })?;
        terms.index = Some((GIT_INDEX.into(), copy));
        Ok(terms)
    }
}

fn overlay(call: &checkpoint::Call) -> Overlay {
    Overlay { upper: call.upper(), work: call.work() }
}

/// Returns the number of entries that were created, removed or changed. Changed times of folders
/// around them do not count.
fn count(changes: &Changes) -> u64 {
    changes.list.iter().filter(|change| change.what != StepKind::Times).count() as u64
}

fn held(changes: &Changes) -> CommitResult {
    let denied: Vec<&RefusedChange> = changes.held.iter().filter(|held| !held.may_be_approved).collect();
    if denied.is_empty() {
        let line = |held: &RefusedChange| format!("{}: {}", tool::path_text(&held.path), held.reason);
        let lines = shortened(changes.held.iter().map(line));
        // No process writes to the folder of the changes any more, so the times and sizes identify
        // the content.
        let shown: Vec<String> = changes.list.iter().map(|change| format!("{change:?}")).collect();
        return CommitResult::Held(Question { lines, digest: crate::record::digest(&shown) });
    }
    let named =
        shortened(denied.iter().map(|held| format!("{}: {}", tool::path_text(&held.path), held.reason)));
    let message = format!("denied: the call made changes that are not allowed: {}", named.join("; "));
    CommitResult::Refused(
        ToolError::new(Code::Permission, message).hint("none of its changes are in the workspace"),
    )
}

fn conflict(conflicts: &[Conflict]) -> ToolError {
    let named = shortened(conflicts.iter().map(ToString::to_string));
    let message = format!(
        "others changed the same paths while the call ran, so none of its changes are in the workspace: {}",
        named.join("; ")
    );
    ToolError::new(Code::Conflict, message).retry(Retry::Now)
}

fn failed(error: checkpoint::Error) -> ToolError {
    let effect = match error {
        checkpoint::Error::NotUndone { .. } => EffectState::Maybe,
        _ => EffectState::None,
    };
    let message = format!("the changes of the call could not be put into the workspace: {error}");
    ToolError::caused_by(&message, error).effect(effect)
}

fn note(note: &Note) -> String {
    match note {
        Note::LinkBroken { path } => {
            let path = tool::path_text(path);
            format!("{path} had other names (hard links), which keep the old content")
        }
        Note::Dropped { path, kind } => format!("{} was {kind} and is dropped", tool::path_text(path)),
        Note::SetIdRemoved { path } => {
            format!("{} lost its set-user-id or set-group-id bit", tool::path_text(path))
        }
        Note::IndexKept { path } => {
            format!("{} was changed by others meanwhile and is left unchanged", tool::path_text(path))
        }
        Note::HiddenRemoved { paths } => {
            format!("removed although it is hidden from commands: {}; undo restores it", listed(paths))
        }
        Note::HiddenCopied { paths } => {
            format!("left out, because it contains a notice instead of hidden content: {}", listed(paths))
        }
    }
}

/// Returns the first [`MAX_NAMED`] lines, and a line with the number of the others.
fn shortened(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut all = all;
    let mut named: Vec<String> = all.by_ref().take(MAX_NAMED).collect();
    let more = all.count();
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    named
}

/// Opens the snapshots of an engine, if its cells have a folder for them.
pub(crate) fn open(
    folder: Option<&Path>,
    workspace: &Path,
    kept_in: (&Arc<Store>, Option<&Databases>),
    now: Timestamp,
) -> Result<(Option<Arc<Snapshots>>, Vec<String>), checkpoint::Error> {
    let Some(folder) = folder else { return Ok((None, Vec::new())) };
    let (snapshots, told) = Snapshots::open(folder, workspace, kept_in, now)?;
    Ok((Some(Arc::new(snapshots)), told))
}

/// Reads a small file. Returns `None` if it is larger than `limit` bytes.
pub(crate) fn read_small(file: File, limit: u64) -> io::Result<Option<Vec<u8>>> {
    use io::Read;
    let mut content = Vec::new();
    let read = file.take(limit + 1).read_to_end(&mut content)?;
    Ok((read as u64 <= limit).then_some(content))
}
