//! Words and vectors of memories.
//!
//! Every statement restricts the memories to those that the agent sees, so that a vector reveals
//! nothing about another agent's memories. A vector belongs to one version: an outdated vector is
//! never returned, and the next change removes it.

use rusqlite::{Connection, ToSql, params};
use store_api::{Memory, MemoryCaller, Unembedded, WordMatches};

use super::{COLUMNS, SEEN, memory};
use crate::approvals::bytes as path_bytes;

/// Condition for memories that are not deleted.
const LIVE: &str = "m.deleted_at_us IS NULL";

/// Finds the memories that contain each term.
pub(super) fn with_words(
    connection: &Connection,
    who: &MemoryCaller,
    terms: &[String],
    most: u32,
) -> rusqlite::Result<WordMatches> {
    let count = |sql: &str, of: &[&dyn ToSql]| -> rusqlite::Result<u64> {
        let count: i64 = connection.prepare_cached(sql)?.query_row(of, |row| row.get(0))?;
        Ok(count.unsigned_abs())
    };
    let folder = path_bytes(&who.workspace);
    let seen = count(
        &format!("SELECT count(*) FROM memories m WHERE {SEEN} AND {LIVE}"),
        params![folder, who.agent],
    )?;
    let indexed = count("SELECT count(*) FROM memory_words_docsize", &[])?;
    let mut statement = connection.prepare_cached(&format!(
        "SELECT m.number, bm25(memory_words) FROM memory_words JOIN memories m ON m.number = memory_words.rowid
         WHERE memory_words MATCH ?3 AND {SEEN} AND {LIVE} ORDER BY bm25(memory_words), m.number LIMIT ?4"
    ))?;
    let mut of_terms = Vec::with_capacity(terms.len());
    for term in terms {
        // In quotes, no part of a term is an operator of the index.
        let quoted = format!("\"{}\"", term.replace('"', "\"\""));
        let rows = statement.query_map(params![folder, who.agent, quoted, most], |row| {
            Ok((row.get(0)?, row.get::<_, f64>(1)?))
        })?;
        let rows: Vec<(i64, f64)> = rows.collect::<rusqlite::Result<_>>()?;
        let with_term =
            count("SELECT count(*) FROM memory_words WHERE memory_words MATCH ?1", params![quoted])?;
        // FTS5 multiplies by its own weight, which counts other agents' memories too, and may be
        // zero.
        let (with_term, without) = (as_float(with_term), as_float(indexed.saturating_sub(with_term)));
        let its_own = ((without + 0.5) / (with_term + 0.5)).ln().max(1e-6);
        of_terms.push(rows.into_iter().map(|(number, rank)| (number, -rank / its_own)).collect());
    }
    Ok(WordMatches { seen, of_terms })
}

/// Calls `visit` with every vector of the model.
pub(super) fn vectors(
    connection: &Connection,
    who: &MemoryCaller,
    model: &[u8; 32],
    visit: &mut dyn FnMut(i64, &[u8]),
) -> rusqlite::Result<()> {
    // The order of the tables matters: few memories are visible to the agent, and vectors are looked
    // up by memory.
    let sql = format!(
        "SELECT m.number, v.vector FROM memories m CROSS JOIN memory_vectors v
         ON v.memory = m.number AND v.version = m.version AND v.model = ?3 WHERE {SEEN} AND {LIVE}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![path_bytes(&who.workspace), who.agent, model.as_slice()])?;
    while let Some(row) = rows.next()? {
        visit(row.get(0)?, row.get_ref(1)?.as_blob()?);
    }
    Ok(())
}

/// Returns the memories with these row numbers.
pub(super) fn numbered(
    connection: &Connection,
    who: &MemoryCaller,
    numbers: &[i64],
) -> rusqlite::Result<Vec<(i64, Memory)>> {
    let sql = format!("SELECT {COLUMNS} FROM memories m WHERE {SEEN} AND {LIVE} AND m.number = ?3");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = Vec::new();
    for number in numbers {
        let seen = params![path_bytes(&who.workspace), who.agent, number];
        for row in statement.query_map(seen, memory)? {
            found.push((*number, row?));
        }
    }
    Ok(found)
}

/// Counts the memories without a vector of this model, and returns the newest of them.
pub(super) fn unembedded(
    connection: &Connection,
    who: &MemoryCaller,
    model: &[u8; 32],
    most: u32,
) -> rusqlite::Result<(u64, Vec<Unembedded>)> {
    let without = format!(
        "FROM memories m WHERE {SEEN} AND {LIVE} AND NOT EXISTS
           (SELECT 1 FROM memory_vectors v WHERE v.memory = m.number AND v.version = m.version AND v.model = ?3)"
    );
    let folder = path_bytes(&who.workspace);
    let count: i64 = connection
        .prepare_cached(&format!("SELECT count(*) {without}"))?
        .query_row(params![folder, who.agent, model.as_slice()], |row| row.get(0))?;
    if count == 0 || most == 0 {
        return Ok((count.unsigned_abs(), Vec::new()));
    }
    let mut statement = connection.prepare_cached(&format!(
        "SELECT m.number, m.version, nullif(m.key, m.id), m.content {without} ORDER BY m.number DESC LIMIT ?4"
    ))?;
    let found = statement.query_map(params![folder, who.agent, model.as_slice(), most], |row| {
        Ok(Unembedded { number: row.get(0)?, version: row.get(1)?, key: row.get(2)?, content: row.get(3)? })
    })?;
    Ok((count.unsigned_abs(), found.collect::<rusqlite::Result<_>>()?))
}

/// Replaces the vectors of memories that still have the version of the vectors.
pub(super) fn keep_vectors(
    connection: &Connection,
    model: &[u8; 32],
    of: &[(&Unembedded, Vec<Vec<u8>>)],
) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO memory_vectors (memory, version, model, vector)
         SELECT number, version, ?3, ?4 FROM memories
         WHERE number = ?1 AND version = ?2 AND deleted_at_us IS NULL",
    )?;
    for (memory, vectors) in of {
        forget_vectors(connection, memory.number)?;
        for vector in vectors {
            insert.execute(params![memory.number, memory.version, model.as_slice(), vector])?;
        }
    }
    Ok(())
}

/// Deletes the vectors of a memory that changes.
pub(super) fn forget_vectors(connection: &Connection, number: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM memory_vectors WHERE memory = ?")?.execute([number])?;
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a count of memories")]
fn as_float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use store_api::{Memories as _, Store as _};

    use super::*;
    use crate::SqliteStore;
    use crate::database::TO_FORMAT_8;

    const MODEL: [u8; 32] = [1; 32];

    fn who() -> MemoryCaller {
        let text = |text: &str| text.to_owned();
        let (agent, session, call) = (text("one"), text("s"), text("c"));
        let now = Timestamp::UNIX_EPOCH;
        MemoryCaller { workspace: "/w".into(), agent, session, call, now, only_tries: false }
    }

    /// Gives every memory a vector, and returns the number of those that had none.
    fn embed(store: &SqliteStore) -> u64 {
        let (count, missing) = store.memories.unembedded(&who(), &MODEL, 1_000).unwrap();
        for memory in &missing {
            store.memories.keep_vectors(&MODEL, &[(memory, vec![b"vector".to_vec()])]).unwrap();
        }
        count
    }

    fn rows(store: &SqliteStore) -> i64 {
        let count = |connection: &Connection| {
            connection.query_row("SELECT count(*) FROM memory_vectors", [], |row| row.get(0))
        };
        store.database.read(count).unwrap()
    }

    #[test]
    fn a_change_and_a_deletion_take_the_vectors_along_and_a_dry_run_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        let (memories, one) = (store.memories(), who());
        memories.create(&one, "i", ("k", "boats"), false).unwrap();
        embed(&store);
        let tries = MemoryCaller { only_tries: true, ..one.clone() };
        memories.update(&tries, "k", "water", None).unwrap();
        memories.delete(&tries, "k", None).unwrap();
        assert_eq!(rows(&store), 1);
        memories.update(&one, "k", "water", None).unwrap();
        assert_eq!(rows(&store), 0);
        embed(&store);
        assert_eq!(rows(&store), 1);
        memories.delete(&one, "k", None).unwrap();
        assert_eq!(rows(&store), 0);
    }

    #[test]
    fn the_memories_of_a_state_of_format_6_are_found_and_get_their_vectors() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        store.memories().create(&who(), "i", ("k", "boats"), false).unwrap();
        let as_format_6 = |connection: &mut Connection| {
            connection.execute_batch(TO_FORMAT_8).unwrap();
            connection
                .execute_batch(
                    "DROP TABLE memory_vectors; DROP INDEX memories_by_agent; ALTER TABLE packs DROP COLUMN blocks;
                     PRAGMA user_version = 6;",
                )
                .unwrap();
            Ok(())
        };
        store.database.with(as_format_6).unwrap();
        drop(store);
        let store = SqliteStore::open(folder.path()).unwrap();
        let matches = store.memories().with_words(&who(), &["boat".to_owned()], 5).unwrap();
        assert_eq!(matches.of_terms[0].len(), 1);
        assert_eq!((embed(&store), embed(&store), rows(&store)), (1, 0, 1));
    }
}
