//! Changes of databases. The data that undoes a change is stored with the checkpoint of its call,
//! and undoing it is a change like any other.
//!
//! The row is written before the change is committed. If the program is killed in between, the next
//! start asks the database whether the change has happened. Files are undone by a commit. Data is
//! undone after the files, in one transaction for each database, after a check for conflicts.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use checkpoint::Draft;
use database::{Change, DatabaseError, Keep, KeepError, Piece, PieceHash, StopCheck};
use parking_lot::Mutex;
use store_api::{BlobWriter, Checkpoint, CheckpointEntry, CheckpointState, Hash, Store};
use tool::{Checkpoints, Code, Data, EffectState, Retry, Services, Stop, ToolError, UndoRequest};

use crate::Engine;
use crate::call::Call;
use crate::checkpoint_rows::Author;
use crate::db_change::{DataUndo, DbChanges, OF_DATABASE, read};
use crate::snapshot::Snapshots;
use crate::undo::{ForCall, Undo};

/// Maximum number of threads that save the pieces of a change.
const MAX_THREADS: usize = 4;

/// Storage for the data that undoes the changes of one call.
pub(crate) struct DbRecorder {
    store: Arc<dyn Store>,
    snapshots: Option<Arc<Snapshots>>,
    author: Author,
    workspace: PathBuf,
    stop: Stop,
    /// The change that the call is about to make, and the folder that shows other processes that
    /// this one lives.
    begun: Mutex<Option<RecordingStart>>,
    made: Arc<AtomicBool>,
    faults: Arc<Mutex<Vec<String>>>,
}

struct RecordingStart {
    entry: CheckpointEntry,
    folder: Option<checkpoint::Call>,
}

impl Keep for DbRecorder {
    fn keep(&self, database: &Path, change: &Change) -> Result<(), KeepError> {
        let snapshots = self.snapshots.as_ref().ok_or("this runtime stores no changes")?;
        let path = database.strip_prefix(&self.workspace)?.to_owned();
        let saver = self.store.blobs().saver()?;
        let (pieces, of_pieces) = self.save_pieces(saver.as_ref(), &change.pieces()?)?;
        let bytes = change.encode(&pieces)?;
        let content = Some(saver.save(&mut bytes.as_slice())?);
        saver.finish()?;
        let needed: Vec<Hash> = pieces.into_iter().map(Hash::from).collect();
        let entry = CheckpointEntry { path, before: Some(OF_DATABASE.to_vec()), after: None, content };
        let checkpoints = self.store.checkpoints();
        let size = of_pieces + bytes.len() as u64;
        let folder = if checkpoints.find(&self.author.id)?.is_some() {
            checkpoints.extend(&self.author.id, &entry, &needed, size)?;
            None
        } else {
            let (folder, _) = snapshots.begin()?;
            let checkpoint = Checkpoint {
                id: self.author.id.clone(),
                session: self.author.session.clone(),
                tool: self.author.tool.clone(),
                workspace: self.workspace.clone(),
                made_at: self.author.now,
                folder: folder.id().to_owned(),
                state: CheckpointState::Direct,
                undoes: self.author.undoes.clone(),
                paths: 1,
                bytes: size,
                unsaved: Vec::new(),
                roots: Vec::new(),
            };
            checkpoints.add(&checkpoint, &mut std::iter::once(entry.clone()), &needed)?;
            Some(folder)
        };
        *self.begun.lock() = Some(RecordingStart { entry, folder });
        Ok(())
    }

    fn happened(&self) {
        self.made.store(true, Ordering::SeqCst);
        self.end(|store, _| store.checkpoints().complete(&self.author.id));
    }

    fn forget(&self) {
        self.end(|store, begun| match begun.folder {
            Some(_) => store.checkpoints().remove(&self.author.id),
            None => store.checkpoints().retract(&self.author.id, &begun.entry),
        });
    }
}

impl DbRecorder {
    /// Saves the pieces of a change. Returns their hashes, in order, and their total number of
    /// bytes.
    fn save_pieces(
        &self,
        saver: &dyn BlobWriter,
        pieces: &[Piece],
    ) -> Result<(Vec<PieceHash>, u64), KeepError> {
        let next = AtomicUsize::new(0);
        let save = |piece: &Piece| -> Result<(PieceHash, u64), KeepError> {
            self.stop.check()?;
            let mut content = CountingReader { content: piece.read()?, bytes: 0 };
            Ok((*saver.save(&mut content)?.as_bytes(), content.bytes))
        };
        let take = || {
            let mut saved = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(piece) = pieces.get(number) else { return Ok(saved) };
                saved.push((number, save(piece)?));
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let mut saved = thread::scope(|scope| {
            let others: Vec<_> = (1..threads.min(pieces.len()))
                // If the system refuses more threads, fewer do the work.
                .map_while(|_| {
                    thread::Builder::new().name("pieces".to_owned()).spawn_scoped(scope, take).ok()
                })
                .collect();
            let own: Result<Vec<_>, KeepError> = take();
            let joined = others
                .into_iter()
                .map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            joined.fold(own, |all, more| {
                let (mut all, more) = (all?, more?);
                all.extend(more);
                Ok(all)
            })
        })?;
        saved.sort_unstable_by_key(|(number, _)| *number);
        let bytes = saved.iter().map(|(_, (_, bytes))| bytes).sum();
        Ok((saved.into_iter().map(|(_, (hash, _))| hash).collect(), bytes))
    }

    fn end(&self, settle: impl FnOnce(&dyn Store, &RecordingStart) -> Result<(), store_api::StoreError>) {
        let begun = self.begun.lock().take();
        let Some(begun) = begun else { return };
        match settle(self.store.as_ref(), &begun) {
            // If the folder cannot be removed now, the next start removes it.
            Ok(()) => drop(begun.folder.map(checkpoint::Call::discard)),
            // The row stays unchanged, and the next start settles it.
            Err(error) => {
                let fault = format!("the checkpoint is not complete: {error}");
                self.faults.lock().push(fault);
            }
        }
    }
}

impl Engine {
    /// Adds the services of a call that store its changes of data, and give access to the memory of
    /// its agent and to the checkpoints. An undoing of files is prepared in `draft`.
    pub(crate) fn hand_over_data(&self, call: &Call, draft: Option<Draft>, services: &mut Services) {
        services.insert::<Arc<dyn Checkpoints>>(Arc::new(Arc::new(ForCall {
            undo: Undo { policy: call.rules(self), ..self.undo_parts() },
            draft: if call.dry_run.is_some() { draft.map(Draft::as_dry_run) } else { draft },
            undoes: call.undoes.clone(),
            data: call.of_data.undoes.clone(),
        })));
        services.insert(Arc::new(self.memory_of(call)));
        if self.databases.is_some() {
            services.insert::<Arc<dyn Keep>>(Arc::new(Arc::new(self.keep_data(call))));
        }
    }

    /// Builds the storage for the data that undoes a call's changes.
    fn keep_data(&self, call: &Call) -> DbRecorder {
        self.keep_data_of(call.author(self.clock.now()), &call.of_data, call.stop.clone())
    }

    fn keep_data_of(&self, author: Author, noted: &DbChanges, stop: Stop) -> DbRecorder {
        DbRecorder {
            store: self.store.clone(),
            snapshots: self.snapshots.clone(),
            author,
            workspace: self.place.workspace.clone(),
            stop,
            begun: Mutex::default(),
            made: noted.made.clone(),
            faults: noted.faults.clone(),
        }
    }

    /// Notes what a call changed in databases. Then undoes there what the call is to undo, now that
    /// its files are in place.
    pub(crate) async fn undo_data(
        self: &Arc<Self>,
        call: &mut Call,
        produced: Result<Data, ToolError>,
    ) -> Result<Data, ToolError> {
        self.note_data(call);
        let data = produced?;
        let wanted = std::mem::take(&mut *call.of_data.undoes.lock());
        if wanted.is_empty() || call.dry_run.is_some() {
            return Ok(data);
        }
        let (engine, keep, stop) = (self.clone(), self.keep_data(call), call.stop.clone());
        let undone = tokio::task::spawn_blocking(move || engine.undo_data_now(&wanted, &keep, &stop));
        let undone = undone.await.map_err(|panic| ToolError::internal("the undo failed").because(panic))?;
        let files_are_back = call.checkpoint.is_some();
        self.note_data(call);
        undone.map_err(|error| if files_are_back { after_the_files(error) } else { error })?;
        Ok(data)
    }

    /// Adds to the answer what the call changed in databases.
    fn note_data(self: &Arc<Self>, call: &mut Call) {
        let faults = std::mem::take(&mut *call.of_data.faults.lock());
        call.warnings.extend(faults);
        if call.of_data.made.load(Ordering::SeqCst) {
            call.checkpoint = Some(call.id.0.clone());
            self.prune_where_due();
        }
    }

    /// Undoes data for a user, outside any call. Returns true if anything changed, and the faults,
    /// which the caller reports.
    pub(crate) fn undo_data_as(
        &self,
        author: Author,
        wanted: &[DataUndo],
    ) -> Result<(bool, Vec<String>), ToolError> {
        let noted = DbChanges::default();
        let keep = self.keep_data_of(author, &noted, Stop::default());
        self.undo_data_now(wanted, &keep, &Stop::default())?;
        let faults = std::mem::take(&mut *noted.faults.lock());
        Ok((noted.made.load(Ordering::SeqCst), faults))
    }

    fn undo_data_now(&self, wanted: &[DataUndo], keep: &DbRecorder, stop: &Stop) -> Result<(), ToolError> {
        let undo = self.undo_parts();
        wanted.iter().try_for_each(|wanted| undo.run_data(wanted, Some(keep), stop).map(drop))
    }
}

/// Builds the error for the case that the files were already undone.
pub(crate) fn after_the_files(error: ToolError) -> ToolError {
    let message = format!("the files were undone, but not the data: {}", error.message);
    ToolError::new(error.code, message).effect(EffectState::Done).because(error)
}

impl Undo {
    /// Returns the changes of databases in these checkpoints, which are given from the first to the
    /// last.
    pub(crate) fn data(
        &self,
        checkpoints: &[Checkpoint],
        request: &UndoRequest,
    ) -> Result<Vec<DataUndo>, ToolError> {
        let mut all: Vec<DataUndo> = Vec::new();
        for checkpoint in checkpoints.iter().rev() {
            for (path, change) in self.changes_of(checkpoint)?.into_iter().rev() {
                let is_wanted = request.paths.is_empty() || request.paths.iter().any(|p| path.starts_with(p));
                if !is_wanted {
                    continue;
                }
                match all.iter_mut().find(|wanted| wanted.path == path) {
                    Some(wanted) => wanted.changes.push(change),
                    None => {
                        let force = request.force.iter().any(|forced| path.starts_with(forced));
                        all.push(DataUndo { path, changes: vec![change], force });
                    }
                }
            }
        }
        Ok(all)
    }

    /// Returns the changes of databases that a checkpoint has, each with its absolute path.
    pub(crate) fn changes_of(&self, checkpoint: &Checkpoint) -> Result<Vec<(PathBuf, Change)>, ToolError> {
        let damaged = || {
            let message = format!("the checkpoint {} is damaged", checkpoint.id);
            ToolError::new(Code::Runtime, message)
        };
        let rows = self.store.checkpoints().entries_marked(&checkpoint.id, OF_DATABASE);
        let rows = rows.map_err(|error| damaged().because(error))?;
        let change = |row: CheckpointEntry| {
            let change = read(&self.store, &row).map_err(|error| damaged().because(error))?;
            Ok((self.place.workspace.join(row.path), change))
        };
        rows.into_iter().map(change).collect()
    }

    /// Checks for conflicts. Returns the number of rows that would change.
    pub(crate) fn check_data(&self, wanted: &[DataUndo]) -> Result<u64, ToolError> {
        let rows = |wanted| self.run_data(wanted, None, &Stop::default());
        wanted.iter().map(rows).sum()
    }

    fn run_data(&self, wanted: &DataUndo, keep: Option<&DbRecorder>, stop: &Stop) -> Result<u64, ToolError> {
        let databases = self.databases.as_ref().and_then(|databases| databases.at(&wanted.path));
        let database = databases.ok_or_else(|| {
            let message = format!("{} is not a configured database", self.place.show(&wanted.path));
            ToolError::new(Code::NotFound, message)
        })?;
        let stop = stop.clone();
        let stopped: StopCheck = Arc::new(move || stop.requested().is_some());
        let keep = keep.map(|keep| keep as &dyn Keep);
        let undone = database.undo(&wanted.changes, wanted.force, keep, &stopped);
        undone.map(|undone| undone.rows).map_err(|error| self.refused(&wanted.path, error))
    }

    fn refused(&self, path: &Path, error: DatabaseError) -> ToolError {
        let shown = self.place.show(path);
        match &error {
            DatabaseError::Conflict { what } => ToolError::new(
                Code::Conflict,
                format!("nothing of {shown} was undone: {what} has changed since the call"),
            )
            .hint("to restore it anyway, name the database in `force`"),
            DatabaseError::Locked => {
                ToolError::new(Code::Unavailable, format!("{shown}: {error}")).retry(Retry::AfterMs(1_000))
            }
            _ => ToolError::new(Code::Runtime, format!("{shown} cannot be undone: {error}")),
        }
        .because(error)
    }
}

/// A reader that counts its bytes.
struct CountingReader<R> {
    content: R,
    bytes: u64,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}
