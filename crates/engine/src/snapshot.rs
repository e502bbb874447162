//! The snapshot of the workspace that a command runs on or a draft is made on, and what becomes of its changes.
//!
//! The cell keeps the changes of a command apart until the last of its processes is gone, and a draft is apart from the
//! beginning. Then all of it is swapped into the workspace or none. Before that each changed path is judged again, as what
//! it turned out to be.

mod commit;
mod judge;
mod kept;
mod ready;
mod taken;
mod taking;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use checkpoint::{
    Area, Changes, Conflict, Durability, Held, Hidden, Note, Outcome, SavedEntry, Terms, Time, What,
    Workspace,
};
use database::Databases;
use jiff::Timestamp;
use policy::Policy;
use sandbox::{Overlay, Spawner};
use store::Store;
use tool::{Code, EffectState, Retry, Stop, ToolError};

use crate::approvals::Foreseen;
use crate::denied::DeniedFiles;
use crate::difference::{Differences, Direction};
use crate::hidden::listed;
use crate::saved_contents::SavedContents;
use crate::saving::Author;

use commit::{commit_saved, done, stopped};
pub(crate) use judge::Holds;
use judge::Judge;
pub use kept::{KeptChanges, KeptError};
use taken::LeftWatched;
pub(crate) use taking::Wanted;

/// The largest git configuration that is understood, in bytes. Git's own are below a few thousand.
pub(crate) const LARGEST_CONFIGURATION: u64 = 1024 * 1024;

/// Where git's index lies in a workspace.
const GIT_INDEX: &str = ".git/index";

/// How many conflicts, held paths or notes are told of in one answer.
const MOST_NAMED: usize = 10;

/// The folder for the changes of commands, and the workspace that they belong to.
pub(crate) struct Snapshots {
    area: Area,
    workspace: PathBuf,
    /// The folders of the next command, made while nobody waits for them. A cell waits that keeps changes there.
    ready_for_command: Mutex<Option<checkpoint::Call>>,
    /// The spawner of that cell.
    ready_in: Mutex<Weak<Spawner>>,
    /// Those of the next draft.
    ready_for_draft: Mutex<Option<checkpoint::Call>>,
    /// Held while they are made. Says whether no call comes any more.
    making: Mutex<bool>,
    /// What commands of dead processes wrote to at once, until it is judged.
    left: Mutex<Vec<LeftWatched>>,
}

/// The snapshot of one call.
pub(crate) struct Snapshot {
    changed_by: ChangedBy,
    call: checkpoint::Call,
    workspace: Workspace,
    /// Git's index as it was when the snapshot was taken.
    index: Option<File>,
    /// Of changes that an earlier call has kept: since when others' changes conflict with them.
    kept_since: Option<Time>,
}

/// Who makes the changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangedBy {
    /// A command in a cell, over an overlay.
    Command,
    /// A file tool. Its changes survive a loss of power, as those of every file tool do.
    Draft,
    /// What an earlier call changed is undone. The plan says no more than that.
    Restoration,
}

/// What changes come to before they are put into the workspace.
pub(crate) struct Preview {
    pub(crate) paths: u64,
    pub(crate) diff: String,
    /// What a human would be asked about, or a rule denies.
    pub(crate) held: Vec<String>,
    /// What others have changed since.
    pub(crate) conflicts: Vec<String>,
    /// Why they would not be put in, whoever agrees to it: a rule denies it, or others changed the same.
    pub(crate) refused: Option<ToolError>,
}

/// What a human is asked about changes that are held.
pub(crate) struct Question {
    /// One line each: the path, and why it is held.
    pub(crate) lines: Vec<String>,
    /// Binds the answer to exactly these changes.
    pub(crate) digest: String,
}

/// A commit that happened.
pub(crate) struct Done {
    /// How many entries changed.
    pub(crate) paths: u64,
    pub(crate) warnings: Vec<String>,
    /// What came, relative to the workspace.
    pub(crate) came: Vec<PathBuf>,
    /// What undo does not bring back.
    pub(crate) unsaved: Vec<PathBuf>,
    /// Whether there is a checkpoint of it.
    pub(crate) has_checkpoint: bool,
    /// Whether the checkpoint is complete. Otherwise the folder of the call has to stay for the next start.
    pub(crate) is_settled: bool,
}

/// How a commit ended.
pub(crate) enum Ended {
    /// All is in the workspace.
    Committed(Done),
    /// A human has to be asked first. Nothing was changed.
    Held(Question),
    /// Nothing was changed, for this reason.
    Refused(ToolError),
}

impl Snapshots {
    /// Opens the folder, brings what killed processes left there to an end, and removes what was kept for too long.
    /// Gives what a user should be told of.
    pub(crate) fn open(
        folder: &Path,
        workspace: &Path,
        kept_in: (&Arc<Store>, Option<&Databases>),
        now: Timestamp,
    ) -> Result<(Self, Vec<String>), checkpoint::Error> {
        let area = Area::open(folder)?;
        // Before the folders of dead processes are removed.
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

    /// Takes a snapshot for one call. What it costs follows what will change, not the size of the workspace.
    ///
    /// `spawner` is the one whose cells a command runs in. The folders that were made ready are mounted in a cell of one spawner
    /// already, and mounted a second time, in a cell of another, they would not be kept apart.
    pub(crate) fn take(
        &self,
        changed_by: ChangedBy,
        spawner: Option<&Arc<Spawner>>,
    ) -> Result<Snapshot, checkpoint::Error> {
        let workspace = Workspace::open(&self.workspace)?;
        let index = workspace.open_file(Path::new(GIT_INDEX));
        // Whoever cannot read the index has none to compare with, which makes any change of it a conflict.
        let index = index.unwrap_or_default();
        let call = match changed_by {
            ChangedBy::Command if !self.is_ready_in(spawner) => self.area.begin()?,
            _ => self.folder(changed_by)?,
        };
        Ok(Snapshot { changed_by, call, workspace, index, kept_since: None })
    }

    /// Takes up what an earlier call has kept aside.
    pub(crate) fn take_up(&self, id: &str) -> Result<Snapshot, ToolError> {
        let missing = || {
            ToolError::new(Code::NotFound, format!("no changes lie aside as `{}`", tool::visible(id)))
                .hint("`meta.changes.id` of a dry run has the id; changes are kept for a week")
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

    /// A folder for a call that changes the workspace itself, and the workspace.
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
    /// Since when the changes of others conflict with these: `begun`, unless an earlier call made them.
    pub(crate) fn since(&self, begun: Time) -> Time {
        self.kept_since.unwrap_or(begun)
    }

    /// Whether an earlier call has kept them, so that they are not to be lost where this one fails.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept_since.is_some()
    }

    /// The difference that the changes make, and what stands against them. Changes nothing.
    pub(crate) fn preview(
        &self,
        policy: &Policy,
        denied: &DeniedFiles,
        store: &Store,
        since: Time,
    ) -> Result<Preview, ToolError> {
        let upper = self.call.upper();
        let nothing = Foreseen::default();
        let judge = Judge::new(policy, self.workspace.path(), Holds::AsFoundBy(denied, &nothing));
        let terms = Terms { judge: &|touch| judge.verdict(touch), ..self.terms(since).map_err(failed)? };
        let (changes, entries) = self.call.preview(&self.workspace, &terms).map_err(failed)?;
        let open = |path: &Path| Workspace::open(path).map_err(failed);
        let differences = Differences {
            contents: SavedContents::new(store, None),
            policy,
            workspace: open(self.workspace.path())?,
            changed: Some(open(&upper)?),
        };
        // What is held comes first: it is what a human is asked about.
        let is_held = |entry: &&SavedEntry| changes.held.iter().any(|held| held.path == entry.path);
        let (first, others): (Vec<&SavedEntry>, Vec<&SavedEntry>) =
            entries.iter().filter(|entry| entry.is_telling()).partition(is_held);
        let lines =
            changes.held.iter().map(|held| format!("{}: {}", tool::path_text(&held.path), held.reason));
        let refused = match held(&changes) {
            Ended::Refused(error) => Some(error),
            _ if !changes.conflicts.is_empty() => Some(conflict(&changes.conflicts)),
            _ => None,
        };
        Ok(Preview {
            refused,
            paths: count(&changes),
            // Each by itself: none of it is told by the line about a folder.
            diff: differences.of(first.into_iter(), Direction::Planned)
                + &differences.of(others.into_iter(), Direction::Planned),
            held: shortened(lines),
            conflicts: shortened(changes.conflicts.iter().map(ToString::to_string)),
        })
    }

    /// Where the cell puts the changes.
    pub(crate) fn overlay(&self) -> Overlay {
        overlay(&self.call)
    }

    /// Notes what the command will see placeholders of.
    pub(crate) fn hide(&self, hidden: &[Hidden]) -> Result<(), ToolError> {
        if hidden.is_empty() { Ok(()) } else { self.call.hide(hidden).map_err(failed) }
    }

    /// Where a file tool puts its changes.
    pub(crate) fn draft(&self) -> Result<checkpoint::Draft, ToolError> {
        self.call.draft(&self.workspace).map_err(failed)
    }

    /// Whether everything that changes was named beforehand, so that whoever approved the call approved of exactly that.
    pub(crate) fn is_foreseen(&self) -> bool {
        self.changed_by == ChangedBy::Draft
    }

    /// Swaps the changes in, after what they replace was saved.
    pub(crate) fn commit(
        &self,
        policy: &Policy,
        store: &Store,
        author: &Author,
        since: Time,
        holds: Holds<'_>,
        stop: &Stop,
    ) -> Ended {
        let judge = Judge::new(policy, self.workspace.path(), holds);
        let approved = matches!(holds, Holds::Nothing);
        let terms = match self.terms(since) {
            Ok(terms) => terms,
            Err(error) => return Ended::Refused(failed(error)),
        };
        let durability = match self.changed_by {
            ChangedBy::Command | ChangedBy::Restoration => Durability::Process,
            ChangedBy::Draft => Durability::Power,
        };
        let terms = Terms { judge: &|touch| judge.verdict(touch), durability, ..terms };
        match commit_saved(store, author, &self.call, &self.workspace, terms, (approved, stop)) {
            Ok((Outcome::Committed(committed), saved)) => Ended::Committed(done(&committed, saved)),
            Ok((Outcome::Held(changes), _)) => held(&changes),
            Ok((Outcome::Conflict(changes), _)) => Ended::Refused(conflict(&changes.conflicts)),
            Err(error) => Ended::Refused(match (stop.requested(), &error) {
                (Some(reason), checkpoint::Error::System { .. }) => stopped(reason),
                _ => failed(error),
            }),
        }
    }

    /// What would come, absolute.
    pub(crate) fn coming(&self, since: Time) -> Vec<PathBuf> {
        let changes = self.terms(since).and_then(|terms| self.call.changes(&self.workspace, &terms));
        let coming = |changes: &Changes| {
            changes.coming().map(|path| self.workspace.path().join(path)).collect::<Vec<_>>()
        };
        changes.as_ref().map(coming).unwrap_or_default()
    }

    /// The name of the folder of the changes.
    pub(crate) fn id(&self) -> &str {
        self.call.id()
    }

    /// Whether there is any change at all, so that one which is not wanted can be counted.
    pub(crate) fn count(&self, since: Time) -> u64 {
        let changes = self.terms(since).and_then(|terms| self.call.changes(&self.workspace, &terms));
        changes.map_or(0, |changes| count(&changes))
    }

    /// Keeps the changes aside. Gives the id under which they are found.
    pub(crate) fn keep(self, since: Time, reason: &str) -> Result<String, checkpoint::Error> {
        let terms = self.terms(since)?;
        self.call.keep(&self.workspace, &terms, reason)
    }

    /// Removes what the call changed, or what a commit took out of the workspace. Takes long where that is much.
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

/// How many entries came, went or changed. The times of folders around them are no change that anybody made.
fn count(changes: &Changes) -> u64 {
    changes.list.iter().filter(|change| change.what != What::Times).count() as u64
}

fn held(changes: &Changes) -> Ended {
    let denied: Vec<&Held> = changes.held.iter().filter(|held| !held.may_be_approved).collect();
    if denied.is_empty() {
        let line = |held: &Held| format!("{}: {}", tool::path_text(&held.path), held.reason);
        let lines = shortened(changes.held.iter().map(line));
        // The changes lie in a folder that nothing writes to any more, so their times and sizes name their content.
        let shown: Vec<String> = changes.list.iter().map(|change| format!("{change:?}")).collect();
        return Ended::Held(Question { lines, digest: crate::record::digest(&shown) });
    }
    let named =
        shortened(denied.iter().map(|held| format!("{}: {}", tool::path_text(&held.path), held.reason)));
    let message = format!("denied: the call changed what it may not: {}", named.join("; "));
    Ended::Refused(
        ToolError::new(Code::Permission, message).hint("nothing of what it changed is in the workspace"),
    )
}

fn conflict(conflicts: &[Conflict]) -> ToolError {
    let named = shortened(conflicts.iter().map(ToString::to_string));
    let message = format!(
        "while the call ran, others changed what it changed, so none of its changes are in the workspace: {}",
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
            format!("{path} had other names (hard links), which keep its old content")
        }
        Note::Dropped { path, kind } => format!("{} was {kind}, and is dropped", tool::path_text(path)),
        Note::SetIdRemoved { path } => {
            format!("{} lost its set-user-id or set-group-id bit", tool::path_text(path))
        }
        Note::IndexKept { path } => {
            format!("{} was changed by others meanwhile, and stays as it is", tool::path_text(path))
        }
        Note::HiddenRemoved { paths } => {
            format!("removed although it is hidden from commands: {}; undo brings it back", listed(paths))
        }
        Note::HiddenCopied { paths } => format!(
            "left out, because it has a notice and not the content of what is hidden from commands: {}",
            listed(paths)
        ),
    }
}

/// The first few, and how many there are besides.
fn shortened(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut all = all;
    let mut named: Vec<String> = all.by_ref().take(MOST_NAMED).collect();
    let more = all.count();
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    named
}

/// Opens the snapshots of an engine, where its cells have a place for them.
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

/// Reads a whole small file; nothing where it is larger than `limit`.
pub(crate) fn read_small(file: File, limit: u64) -> io::Result<Option<Vec<u8>>> {
    use io::Read;
    let mut content = Vec::new();
    let read = file.take(limit + 1).read_to_end(&mut content)?;
    Ok((read as u64 <= limit).then_some(content))
}
