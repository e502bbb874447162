//! Outputs stored by reference: an id leads to a blob, in every process that shares the state
//! folder.
//!
//! Any caller of the same user can read any output whose id it knows; the session is stored so that
//! a later rule can be stricter. [`Outputs::prune`] asks every table that refers to blobs.

use std::fs::File;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{OptionalExtension, Row};
use store_api::{BlobRef, Blobs as _, Hash, Output, Outputs, PruneResult, Retention, StoreError};

use crate::blobs::{BlobFolder, ReferencedContents};
use crate::database::Database;
use crate::hash_prefixes::keys;

/// Time for which an unreferenced blob stays, so that it can be given an id after the put.
const UNREFERRED_FOR: SignedDuration = SignedDuration::from_hours(1);

/// The outputs of one store.
pub(crate) struct SqliteOutputs {
    database: Arc<Database>,
    blobs: Arc<BlobFolder>,
}

impl Outputs for SqliteOutputs {
    fn keep(&self, output: &Output) -> Result<(), StoreError> {
        let added = self.database.write(|transaction| {
            transaction.execute(
                "INSERT INTO outputs (id, blob, size, media_type, session, created_at_us)
                 VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
                (
                    &output.id,
                    output.blob.hash.as_bytes(),
                    i64::try_from(output.blob.size).unwrap_or(i64::MAX),
                    &output.media_type,
                    &output.session,
                    output.created_at.as_microsecond(),
                ),
            )
        })?;
        if added == 0 {
            return Err(StoreError::OutputExists { id: output.id.clone() });
        }
        Ok(())
    }

    fn find(&self, id: &str) -> Result<Output, StoreError> {
        let found = self.database.with(|connection| {
            connection
                .query_row(
                    "SELECT id, blob, size, media_type, session, created_at_us FROM outputs WHERE id = ?",
                    [id],
                    |row| Ok(read(row)),
                )
                .optional()
                .map_err(|error| self.database.error(error))
        })?;
        found
            .transpose()
            .map_err(|error| self.database.error(error))?
            .ok_or_else(|| StoreError::OutputUnknown { id: id.to_owned() })
    }

    fn open(&self, id: &str) -> Result<(Output, File), StoreError> {
        let output = self.find(id)?;
        let file = self.blobs.open(&output.blob)?;
        Ok((output, file))
    }

    fn prune(
        &self,
        retention: &Retention,
        now: Timestamp,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<PruneResult, StoreError> {
        let oldest =
            subtract(now, SignedDuration::try_from(retention.max_age).unwrap_or(SignedDuration::MAX));
        let outputs = self.database.write(|transaction| {
            transaction.execute(
                "DELETE FROM outputs WHERE id IN (
                    SELECT id FROM (
                        SELECT id, created_at_us, row_number() OVER newest AS place, sum(size) OVER newest AS total
                        FROM outputs
                        WINDOW newest AS (
                            ORDER BY created_at_us DESC, id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
                        )
                    )
                    WHERE place > ? AND (created_at_us < ? OR total > ?)
                )",
                (
                    retention.keep_newest,
                    oldest.as_microsecond(),
                    i64::try_from(retention.max_bytes).unwrap_or(i64::MAX),
                ),
            )
        })?;
        let first = usize::try_from(now.subsec_nanosecond()).unwrap_or_default();
        let before = subtract(now, UNREFERRED_FOR);
        let (blobs, bytes) = self.blobs.sweep(before, (first, goes_on), &self.referred()?)?;
        Ok(PruneResult { outputs: outputs as u64, blobs, bytes })
    }
}

impl SqliteOutputs {
    pub(crate) fn new(database: Arc<Database>, blobs: Arc<BlobFolder>) -> Self {
        Self { database, blobs }
    }

    /// Collects the hashes that outputs and checkpoints need. A content that is needed later was
    /// also put or touched later, so a sweep with an earlier `before` does not remove it.
    fn referred(&self) -> Result<ReferencedContents, StoreError> {
        self.database.read(|connection| {
            let mut statement = connection.prepare("SELECT blob FROM outputs")?;
            let mut rows = statement.query([])?;
            let (mut outputs, mut saved) = (Vec::new(), Vec::new());
            while let Some(row) = rows.next()? {
                outputs.extend(Hash::from_slice(row.get_ref(0)?.as_blob()?));
            }
            let mut statement = connection.prepare("SELECT keys FROM checkpoint_contents")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                saved.extend(keys(row.get_ref(0)?.as_blob()?));
            }
            outputs.sort_unstable();
            saved.sort_unstable();
            saved.dedup();
            Ok(ReferencedContents { outputs, saved })
        })
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Output> {
    let invalid = |index, name: &str| {
        rusqlite::Error::InvalidColumnType(index, name.to_owned(), rusqlite::types::Type::Blob)
    };
    let hash = row.get_ref(1)?.as_blob().ok().and_then(Hash::from_slice);
    let size = u64::try_from(row.get::<_, i64>(2)?).ok();
    Ok(Output {
        id: row.get(0)?,
        blob: BlobRef {
            hash: hash.ok_or_else(|| invalid(1, "blob"))?,
            size: size.ok_or_else(|| invalid(2, "size"))?,
        },
        media_type: row.get(3)?,
        session: row.get(4)?,
        created_at: Timestamp::from_microsecond(row.get(5)?).map_err(|_| invalid(5, "created_at_us"))?,
    })
}

fn subtract(now: Timestamp, duration: SignedDuration) -> Timestamp {
    now.checked_sub(duration).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use jiff::ToSpan;
    use store_api::Store as _;

    use crate::SqliteStore;

    use super::*;

    const NEVER: Retention =
        Retention { max_bytes: u64::MAX, max_age: Duration::from_secs(u64::MAX), keep_newest: 0 };

    /// Returns a time far after every file of a test was written, by any clock.
    fn later() -> Timestamp {
        "2200-01-01T00:00:00Z".parse().unwrap()
    }

    fn store() -> (tempfile::TempDir, SqliteStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        (folder, store)
    }

    fn keep(store: &SqliteStore, id: &str, content: &[u8], created_at: Timestamp) -> BlobRef {
        let blob = store.blobs().put(&mut &content[..]).unwrap();
        let output = Output {
            id: id.to_owned(),
            blob,
            media_type: "text/plain".to_owned(),
            session: Some("s1".to_owned()),
            created_at,
        };
        store.outputs().keep(&output).unwrap();
        blob
    }

    fn kept(store: &SqliteStore) -> String {
        ["1", "2", "3", "4"].into_iter().filter(|id| store.outputs().open(id).is_ok()).collect()
    }

    #[test]
    fn pruning_by_age_keeps_the_newest_whatever_their_age() {
        let (_folder, store) = store();
        for (id, hours) in [("1", 40), ("2", 30), ("3", 20), ("4", 1)] {
            keep(&store, id, id.as_bytes(), later() - hours.hours());
        }
        let day = Retention { max_age: Duration::from_hours(24), ..NEVER };
        let pruned = store.outputs().prune(&Retention { keep_newest: 3, ..day }, later(), &|| true).unwrap();
        assert_eq!(pruned, PruneResult { outputs: 1, blobs: 1, bytes: 1 });
        assert_eq!(kept(&store), "234");
        store.outputs().prune(&day, later(), &|| true).unwrap();
        assert_eq!(kept(&store), "34");
    }

    #[test]
    fn pruning_by_size_removes_the_oldest_first() {
        let (_folder, store) = store();
        for (id, hours) in [("1", 4), ("2", 3), ("3", 2), ("4", 1)] {
            keep(&store, id, id.repeat(100).as_bytes(), later() - hours.hours());
        }
        let pruned =
            store.outputs().prune(&Retention { max_bytes: 250, ..NEVER }, later(), &|| true).unwrap();
        assert_eq!(pruned, PruneResult { outputs: 2, blobs: 2, bytes: 200 });
        assert_eq!(kept(&store), "34");
        store
            .outputs()
            .prune(&Retention { max_bytes: 0, keep_newest: 1, ..NEVER }, later(), &|| true)
            .unwrap();
        assert_eq!(kept(&store), "4");
    }

    #[test]
    fn a_shared_blob_stays_until_its_last_output_goes() {
        let (_folder, store) = store();
        let blob = keep(&store, "1", b"shared", later() - 2.hours());
        keep(&store, "2", b"shared", later());
        let all_but_newest = Retention { max_bytes: 0, keep_newest: 1, ..NEVER };
        let pruned = store.outputs().prune(&all_but_newest, later(), &|| true).unwrap();
        assert_eq!(pruned, PruneResult { outputs: 1, blobs: 0, bytes: 0 });
        assert!(store.blobs().open(&blob).is_ok());
        store.outputs().prune(&Retention { max_bytes: 0, ..NEVER }, later(), &|| true).unwrap();
        assert!(matches!(store.blobs().open(&blob), Err(StoreError::BlobUnknown { .. })));
    }

    /// Returns the time at which a blob was last put, by the clock of the file system.
    fn put_at(folder: &Path, blob: &BlobRef) -> Timestamp {
        Timestamp::try_from(file(folder, blob).metadata().unwrap().modified().unwrap()).unwrap()
    }

    fn file(folder: &Path, blob: &BlobRef) -> File {
        let name = blob.hash.to_string();
        File::open(folder.join("blobs").join(&name[..2]).join(name)).unwrap()
    }

    #[test]
    fn a_blob_put_less_than_an_hour_ago_stays_without_an_output() {
        let (folder, store) = store();
        let blob = store.blobs().put(&mut &b"fresh"[..]).unwrap();
        let put_at = put_at(folder.path(), &blob);
        let at_59 = store.outputs().prune(&NEVER, put_at + 59.minutes(), &|| true).unwrap();
        assert_eq!(at_59, PruneResult::default());
        assert!(store.blobs().open(&blob).is_ok());
        let at_61 = store.outputs().prune(&NEVER, put_at + 61.minutes(), &|| true).unwrap();
        assert_eq!(at_61, PruneResult { outputs: 0, blobs: 1, bytes: 5 });
    }

    #[test]
    fn putting_a_blob_again_starts_its_hour_again() {
        let (folder, store) = store();
        let blob = store.blobs().put(&mut &b"again"[..]).unwrap();
        let now = put_at(folder.path(), &blob) + 1.minutes();
        let long_ago = (now - 2.hours()).into();
        file(folder.path(), &blob).set_modified(long_ago).unwrap();
        store.blobs().put(&mut &b"again"[..]).unwrap();
        assert_eq!(store.outputs().prune(&NEVER, now, &|| true).unwrap(), PruneResult::default());
        // Control: the blob is removed if it was not put again.
        file(folder.path(), &blob).set_modified(long_ago).unwrap();
        assert_eq!(store.outputs().prune(&NEVER, now, &|| true).unwrap().blobs, 1);
    }

    #[test]
    fn pruning_removes_what_a_killed_process_left_and_no_file_of_others() {
        let (folder, store) = store();
        keep(&store, "1", b"content", later());
        let left = folder.path().join("blobs/incoming/.tmpleft");
        let foreign = folder.path().join("blobs/README");
        std::fs::write(&left, b"half").unwrap();
        std::fs::write(&foreign, b"mine").unwrap();
        let pruned = store.outputs().prune(&NEVER, later(), &|| true).unwrap();
        assert_eq!(pruned, PruneResult { outputs: 0, blobs: 0, bytes: 4 });
        assert!(!left.exists());
        assert!(foreign.exists());
        assert_eq!(kept(&store), "1");
    }
}
