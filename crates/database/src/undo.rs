//! Undo of changes: all or none, with an undo record for the undo itself.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::change::TableRows;
use crate::full_copy::{differing, digest, schema, torn};
use crate::open::{StopCheck, Writer};
use crate::row_tracking::{ForeignKeyActions, TrackedTable};
use crate::snapshot::{Copy, Image};
use crate::write::Keep;
use crate::{Change, Database, DatabaseError};

/// Result of an undo, or of its dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UndoOutcome {
    /// Number of restored rows; a database restored as a whole counts as one.
    pub rows: u64,
}

impl Database {
    /// Undoes these changes, the last one first. Without `force`, a later change of the same data
    /// is a conflict, and nothing is undone. Without a `keep`, this is a dry run that reports what
    /// would be undone.
    pub fn undo(
        &self,
        changes: &[Change],
        force: bool,
        keep: Option<&dyn Keep>,
        stopped: &StopCheck,
    ) -> Result<UndoOutcome, DatabaseError> {
        if !self.path().exists() {
            return Err(DatabaseError::Conflict { what: "the database (now missing)".to_owned() });
        }
        let mut writer = self.writer(stopped)?;
        if changes.iter().all(|change| matches!(change, Change::Rows(_))) {
            self.undo_rows(&writer, changes, force, keep, stopped)?;
        } else {
            self.undo_whole(&mut writer, changes, force, keep, stopped)?;
        }
        Ok(UndoOutcome { rows: changes.iter().map(Change::rows).sum() })
    }

    /// Returns true if the effect of the change is present. For a change whose process was killed.
    pub fn has_happened(&self, change: &Change) -> Result<bool, DatabaseError> {
        let is_there = |connection: &Connection| match change {
            Change::Whole { after, .. } => Ok(digest(connection)? == *after),
            Change::Rows(saved) => {
                for (number, saved) in saved.iter().enumerate() {
                    let table = TrackedTable::of(connection, &saved.table, number)?;
                    let Some(table) = table.filter(|table| table.is_as_saved(saved)) else {
                        return Ok(false);
                    };
                    if !table.is_as_left(connection, saved)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        };
        self.with_reader(|reader| is_there(&reader.connection).map_err(|error| self.error(error)))
    }

    fn undo_rows(
        &self,
        writer: &Writer,
        changes: &[Change],
        force: bool,
        keep: Option<&dyn Keep>,
        stopped: &StopCheck,
    ) -> Result<(), DatabaseError> {
        let (connection, failed) = (&writer.connection, |error| self.error(error));
        let names: BTreeSet<&str> =
            changes.iter().flat_map(tables).map(|saved| saved.table.as_str()).collect();
        // Rows changed by foreign key actions were noted and are restored explicitly. Disable the
        // actions, so that they change nothing else; rows added since that depend on a restored row
        // are conflicts.
        let followers = ForeignKeyActions::of(connection).map_err(failed)?;
        let is_followed = followers.any(&names);
        connection.pragma_update(None, "foreign_keys", !is_followed).map_err(failed)?;
        self.wait(stopped, || connection.execute_batch("BEGIN IMMEDIATE; PRAGMA defer_foreign_keys = ON"))?;
        if ForeignKeyActions::of(connection).map_err(failed)? != followers {
            return Err(changed_tables());
        }
        let is_looked_at = is_followed || keep.is_none();
        let torn = is_looked_at.then(|| torn(connection).map_err(failed)).transpose()?;
        let tracked = self.track(connection, names.into_iter())?.ok_or_else(changed_tables)?;
        for change in changes {
            self.put_back(connection, &tracked, change, force)?;
        }
        if let Some(before) = torn {
            self.tears_no_more(connection, before)?;
        }
        // Without a `keep`, dropping the connection rolls the transaction back.
        let Some(keep) = keep else { return Ok(()) };
        let (undone, _) = self.end(connection, Some(&tracked), stopped)?;
        self.commit(writer, undone.as_ref(), keep)
    }

    fn put_back(
        &self,
        connection: &Connection,
        tracked: &[TrackedTable],
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

    /// Returns a conflict if more rows than `before` have a missing referenced row.
    fn tears_no_more(&self, connection: &Connection, before: i64) -> Result<(), DatabaseError> {
        if torn(connection).map_err(|error| self.error(error))? > before {
            return Err(DatabaseError::Conflict { what: "a row to which these rows belong".to_owned() });
        }
        Ok(())
    }

    fn undo_whole(
        &self,
        writer: &mut Writer,
        changes: &[Change],
        force: bool,
        keep: Option<&dyn Keep>,
        stopped: &StopCheck,
    ) -> Result<(), DatabaseError> {
        let failed = |error| self.error(error);
        let has_rows = changes.iter().any(|change| matches!(change, Change::Rows(_)));
        let is_needed = keep.is_some() || has_rows;
        let (found, now) = self.with_stoppable_reader(stopped, |reader| {
            let connection = &reader.connection;
            // One transaction, so that digest and snapshot describe the same state.
            connection.execute_batch("BEGIN").map_err(failed)?;
            let found = digest(connection).map_err(failed);
            let looked = found.and_then(|found| {
                let now = is_needed.then(|| self.image(connection, found, stopped)).transpose()?;
                Ok((found, now))
            });
            connection.execute_batch("ROLLBACK").map_err(failed)?;
            looked
        })?;
        let mut then = UndoState::Found(found);
        for change in changes {
            then = match change {
                Change::Rows(_) => {
                    let copy = self.copy_then(then, now.as_ref(), stopped)?;
                    self.put_rows_back(&copy.connection, change, force)?;
                    UndoState::Changed(copy)
                }
                Change::Whole { image, after, .. } => {
                    if !force && self.digest_then(&then, stopped)? != *after {
                        return Err(DatabaseError::Conflict { what: "the database".to_owned() });
                    }
                    UndoState::Saved(image.clone())
                }
            }
        }
        let (Some(keep), Some(now)) = (keep, now) else { return Ok(()) };
        let copy = self.copy_then(then, Some(&now), stopped)?;
        let then = &copy.connection;
        let after = digest(then).map_err(failed)?;
        let schema = self.with_reader(|reader| {
            Ok(differing(&schema(&reader.connection).map_err(failed)?, &schema(then).map_err(failed)?))
        })?;
        let undone = Change::Whole { image: now, after, schema };
        let mut is_kept = false;
        let replaced = self.replace(writer, then, &found, stopped, || {
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

    fn put_rows_back(
        &self,
        connection: &Connection,
        change: &Change,
        force: bool,
    ) -> Result<(), DatabaseError> {
        let failed = |error| self.error(error);
        connection.execute_batch("PRAGMA foreign_keys = OFF; BEGIN").map_err(failed)?;
        let before = torn(connection).map_err(failed)?;
        let mut tracked = Vec::new();
        for (number, saved) in tables(change).iter().enumerate() {
            let table = TrackedTable::of(connection, &saved.table, number).map_err(failed)?;
            tracked.push(table.ok_or_else(changed_tables)?);
        }
        self.put_back(connection, &tracked, change, force)?;
        self.tears_no_more(connection, before)?;
        connection.execute_batch("COMMIT").map_err(failed)
    }

    /// Returns a writable copy of the state to restore. `now` is the snapshot of the state that was found.
    fn copy_then(
        &self,
        then: UndoState,
        now: Option<&Image>,
        stopped: &StopCheck,
    ) -> Result<Copy, DatabaseError> {
        match (then, now) {
            (UndoState::Changed(copy), _) => Ok(copy),
            (UndoState::Saved(image), _) => self.copy(&image, stopped),
            (UndoState::Found(_), Some(now)) => self.copy(now, stopped),
            (UndoState::Found(_), None) => Err(DatabaseError::SavedDamaged),
        }
    }

    fn digest_then(&self, then: &UndoState, stopped: &StopCheck) -> Result<[u8; 32], DatabaseError> {
        let of = |copy: &Copy| digest(&copy.connection).map_err(|error| self.error(error));
        match then {
            UndoState::Found(found) => Ok(*found),
            UndoState::Changed(copy) => of(copy),
            UndoState::Saved(image) => match image.digest() {
                Some(digest) => Ok(digest),
                None => of(&self.copy(image, stopped)?),
            },
        }
    }
}

/// State of the database while changes are undone one after the other.
enum UndoState {
    /// The state that was found, with its digest.
    Found([u8; 32]),
    /// The state before a change.
    Saved(Image),
    /// A copy with restored rows.
    Changed(Copy),
}

fn tables(change: &Change) -> &[TableRows] {
    match change {
        Change::Rows(tables) => tables,
        Change::Whole { .. } => &[],
    }
}

fn changed_tables() -> DatabaseError {
    DatabaseError::Conflict { what: "the definition of a table (columns, triggers or references)".to_owned() }
}
