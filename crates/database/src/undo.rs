//! Undoing changes: all of them or none, and what undoes the undoing.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::Connection;

use crate::change::TableRows;
use crate::open::{Stopped, Writer};
use crate::track::Tracked;
use crate::whole::{LARGEST_SAVED, digest, image, in_memory, size};
use crate::write::Keep;
use crate::{Change, Database, DatabaseError};

/// What undoing came to, or would come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undone {
    /// Rows that are put back; a database that is put back as a whole counts as one.
    pub rows: u64,
}

impl Database {
    /// Undoes these changes, the last one first. Without `force`, where what they left is no longer as it was, nothing is undone.
    /// Without a `keep` nothing is done at all, and the answer says what would be.
    pub fn undo(
        &self,
        changes: &[Change],
        force: bool,
        keep: Option<&dyn Keep>,
        stopped: &Stopped,
    ) -> Result<Undone, DatabaseError> {
        if !self.path().exists() {
            return Err(DatabaseError::Conflict { what: "the database, which is gone,".to_owned() });
        }
        let mut writer = self.writer(stopped)?;
        if changes.iter().all(|change| matches!(change, Change::Rows(_))) {
            self.undo_rows(&writer, changes, force, keep, stopped)?;
        } else {
            self.undo_whole(&mut writer, changes, force, keep, stopped)?;
        }
        Ok(Undone { rows: changes.iter().map(Change::rows).sum() })
    }

    /// Whether a change whose program was killed has happened: what it left is there.
    pub fn has_happened(&self, change: &Change) -> Result<bool, DatabaseError> {
        let never: Stopped = Arc::new(|| true);
        match self.undo(std::slice::from_ref(change), false, None, &never) {
            Ok(_) => Ok(true),
            Err(DatabaseError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn undo_rows(
        &self,
        writer: &Writer,
        changes: &[Change],
        force: bool,
        keep: Option<&dyn Keep>,
        stopped: &Stopped,
    ) -> Result<(), DatabaseError> {
        let connection = &writer.connection;
        self.wait(stopped, || connection.execute_batch("BEGIN IMMEDIATE; PRAGMA defer_foreign_keys = ON"))?;
        let names: BTreeSet<&str> =
            changes.iter().flat_map(tables).map(|saved| saved.table.as_str()).collect();
        let tracked = self.track(connection, names.into_iter())?.ok_or_else(changed_tables)?;
        for change in changes {
            self.put_back(connection, &tracked, change, force)?;
        }
        let (undone, _) = self.end(connection, Some(&tracked))?;
        match keep {
            Some(keep) => self.commit(writer, undone.as_ref(), keep),
            // Deferred constraints are looked at here; the connection then goes, and the transaction with it.
            None => self.violates(connection),
        }
    }

    fn put_back(
        &self,
        connection: &Connection,
        tracked: &[Tracked],
        change: &Change,
        force: bool,
    ) -> Result<(), DatabaseError> {
        for saved in tables(change) {
            let table = tracked.iter().find(|table| table.is_as_saved(saved)).ok_or_else(changed_tables)?;
            table
                .put_back(connection, saved, force)
                .map_err(|failed| failed.outward(|error| self.error(error)))?;
        }
        Ok(())
    }

    /// Whether a commit would fail because rows belong to rows that are gone.
    fn violates(&self, connection: &Connection) -> Result<(), DatabaseError> {
        let failed = |error| self.error(error);
        let mut check = connection.prepare("PRAGMA foreign_key_check").map_err(failed)?;
        if check.exists([]).map_err(failed)? {
            return Err(DatabaseError::Conflict { what: "what the rows belong to".to_owned() });
        }
        Ok(())
    }

    fn undo_whole(
        &self,
        writer: &mut Writer,
        changes: &[Change],
        force: bool,
        keep: Option<&dyn Keep>,
        stopped: &Stopped,
    ) -> Result<(), DatabaseError> {
        let failed = |error| self.error(error);
        let (now, found) = self.with_reader(|reader| {
            if size(&reader.connection).map_err(failed)? > LARGEST_SAVED {
                return Err(DatabaseError::TooLarge(format!(
                    "the database has grown beyond {} MiB, and is put back as a whole up to that",
                    LARGEST_SAVED / 1024 / 1024
                )));
            }
            // Within one transaction, so that both are of the same moment.
            reader.connection.execute_batch("BEGIN").map_err(failed)?;
            let looked = digest(&reader.connection).and_then(|found| Ok((image(&reader.connection)?, found)));
            reader.connection.execute_batch("ROLLBACK").map_err(failed)?;
            looked.map_err(failed)
        })?;
        let mut then = in_memory(&now).map_err(failed)?;
        for change in changes {
            match change {
                Change::Rows(saved) => {
                    then.execute_batch("BEGIN; PRAGMA defer_foreign_keys = ON").map_err(failed)?;
                    let mut tracked = Vec::new();
                    for (number, saved) in saved.iter().enumerate() {
                        let table = Tracked::of(&then, &saved.table, number).map_err(failed)?;
                        tracked.push(table.ok_or_else(changed_tables)?);
                    }
                    self.put_back(&then, &tracked, change, force)?;
                    then.execute_batch("COMMIT").map_err(failed)?;
                }
                Change::Whole { image, after } => {
                    if !force && digest(&then).map_err(failed)? != *after {
                        return Err(DatabaseError::Conflict { what: "the database".to_owned() });
                    }
                    then = in_memory(image).map_err(failed)?;
                }
            }
        }
        let Some(keep) = keep else { return Ok(()) };
        let undone = Change::Whole { image: now, after: digest(&then).map_err(failed)? };
        let mut is_kept = false;
        let replaced = self.replace(writer, &then, &found, stopped, || {
            keep.keep(self.path(), &undone).map_err(DatabaseError::Unkept)?;
            is_kept = true;
            Ok(())
        });
        match (&replaced, is_kept) {
            (Ok(()), _) => keep.happened(),
            (Err(_), true) => keep.forget(),
            (Err(_), false) => {}
        }
        replaced
    }
}

fn tables(change: &Change) -> &[TableRows] {
    match change {
        Change::Rows(tables) => tables,
        Change::Whole { .. } => &[],
    }
}

fn changed_tables() -> DatabaseError {
    DatabaseError::Conflict {
        what: "a table, which was made anew or has other columns, triggers or references,".to_owned(),
    }
}
