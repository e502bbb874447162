//! Search in memories: by words, and by meaning if vectors exist.
//!
//! Every statement restricts the memories to those that the agent sees, so that a near vector
//! reveals nothing about another agent's memories. A vector belongs to one version: an outdated
//! vector is never compared, and the next change removes it.

use std::collections::HashMap;

use retrieval::{
    Candidate, Evidence, RankedTexts, ScoredText, Weights, background, bytes, cosine_of, fuse, terms,
};
use rusqlite::{Connection, Statement, ToSql, params};

use super::{COLUMNS, Memories, SEEN, memory};
use crate::approvals::bytes as path_bytes;
use store_api::{Memory, MemoryCaller, StoreError, Unembedded};

/// Maximum number of memories found by meaning, on any page, so that the order is stable.
/// `MAX_BY_WORDS` is the maximum for one term.
const NEAREST: usize = 100;
const MAX_BY_WORDS: i64 = 10_000;

/// A question as a vector of length one, with the hash of its model.
#[derive(Clone, Copy, Debug)]
pub struct QueryVector<'a> {
    /// Vector of the question.
    pub vector: &'a [f32],
    /// Hash of the model.
    pub model: &'a [u8; 32],
}

/// Memories that a search has found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundMemories {
    /// Memories with the scores that determine their order, from 0 to 1, best first.
    pub memories: Vec<(Memory, f64)>,
    /// True if there are more.
    pub has_more: bool,
    /// Confidence that any memory answers the question, from 0 to 1.
    pub confidence: f64,
}

/// Condition for memories that are not deleted.
const LIVE: &str = "m.deleted_at_us IS NULL";

impl Memories {
    /// Finds the memories that fit a question best, from position `skip` on: by words and, for
    /// memories with a vector, by meaning.
    ///
    /// # Errors
    /// Returns an error if the database cannot be read.
    pub fn search(
        &self,
        who: &MemoryCaller,
        question: &str,
        meaning: Option<QueryVector<'_>>,
        (skip, limit): (u64, u32),
    ) -> Result<FoundMemories, StoreError> {
        let (skip, limit) = (usize::try_from(skip).unwrap_or(usize::MAX), limit as usize);
        self.database.read(|connection| {
            let (weights, mut words) = by_words(connection, who, question)?;
            let cosines = match meaning {
                Some(meaning) => cosines(connection, who, meaning)?,
                None => HashMap::new(),
            };
            let mean = cosines.values().map(|cosine| f64::from(*cosine)).sum::<f64>()
                / as_float(cosines.len().max(1) as u64);
            for number in nearest(&cosines) {
                words.entry(number).or_default();
            }
            let candidate =
                |(id, words): (i64, Evidence)| Candidate { id, words, cosine: cosines.get(&id).copied() };
            let candidates = words.into_iter().map(candidate).collect();
            let RankedTexts { order, confidence } =
                fuse(&weights, background(mean, cosines.len()), candidates);
            let has_more = order.len() > skip.saturating_add(limit);
            let sql = format!("SELECT {COLUMNS} FROM memories m WHERE {SEEN} AND {LIVE} AND m.number = ?3");
            let mut statement = connection.prepare_cached(&sql)?;
            let mut memories = Vec::new();
            for ScoredText { id, score } in order.into_iter().skip(skip).take(limit) {
                let mut rows = seen(&mut statement, who, id)?;
                // A memory that was deleted meanwhile is skipped.
                memories.extend(rows.pop().map(|memory| (memory, score)));
            }
            Ok(FoundMemories { memories, has_more, confidence })
        })
    }

    /// Counts the memories that an agent sees and that have no vector of this model. Returns the
    /// newest of them.
    ///
    /// # Errors
    /// Returns an error if the database cannot be read.
    pub fn unread(
        &self,
        who: &MemoryCaller,
        model: &[u8; 32],
        most: u32,
    ) -> Result<(u64, Vec<Unembedded>), StoreError> {
        let without = format!(
            "FROM memories m WHERE {SEEN} AND {LIVE} AND NOT EXISTS
               (SELECT 1 FROM memory_vectors v WHERE v.memory = m.number AND v.version = m.version AND v.model = ?3)"
        );
        let folder = path_bytes(&who.workspace);
        self.database.read(|connection| {
            let count: i64 = connection
                .prepare_cached(&format!("SELECT count(*) {without}"))?
                .query_row(params![folder, who.agent, model.as_slice()], |row| row.get(0))?;
            if count == 0 || most == 0 {
                return Ok((count.unsigned_abs(), Vec::new()));
            }
            let mut statement = connection.prepare_cached(&format!(
                "SELECT m.number, m.version, nullif(m.key, m.id), m.content {without} ORDER BY m.number DESC LIMIT ?4"
            ))?;
            let unread = statement.query_map(params![folder, who.agent, model.as_slice(), most], |row| {
                Ok(Unembedded { number: row.get(0)?, version: row.get(1)?, key: row.get(2)?, content: row.get(3)? })
            })?;
            Ok((count.unsigned_abs(), unread.collect::<rusqlite::Result<_>>()?))
        })
    }

    /// Replaces the vectors of memories, one for each piece of text, if the memories still have that
    /// version.
    ///
    /// # Errors
    /// Returns an error if the database cannot be written.
    pub fn keep_vectors(
        &self,
        model: &[u8; 32],
        of: &[(&Unembedded, &[Vec<f32>])],
    ) -> Result<(), StoreError> {
        self.database.write(|connection| {
            let mut insert = connection.prepare_cached(
                "INSERT INTO memory_vectors (memory, version, model, vector)
                 SELECT number, version, ?3, ?4 FROM memories
                 WHERE number = ?1 AND version = ?2 AND deleted_at_us IS NULL",
            )?;
            for (unread, vectors) in of {
                forget_vectors(connection, unread.number)?;
                for vector in *vectors {
                    insert.execute(params![
                        unread.number,
                        unread.version,
                        model.as_slice(),
                        bytes(vector)
                    ])?;
                }
            }
            Ok(())
        })
    }
}

/// Deletes the vectors of a memory that changes.
pub(super) fn forget_vectors(connection: &Connection, number: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM memory_vectors WHERE memory = ?")?.execute([number])?;
    Ok(())
}

fn seen(statement: &mut Statement<'_>, who: &MemoryCaller, number: i64) -> rusqlite::Result<Vec<Memory>> {
    statement.query_map(params![path_bytes(&who.workspace), who.agent, number], memory)?.collect()
}

/// Computes the word evidence of each memory that contains any term of the question. The weight of a
/// term depends on how many memories visible to the agent contain it. No search text acts as an
/// operator of the index.
fn by_words(
    connection: &Connection,
    who: &MemoryCaller,
    question: &str,
) -> rusqlite::Result<(Weights, HashMap<i64, Evidence>)> {
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
    let (mut held, mut saturations) = (Vec::new(), Vec::new());
    for term in terms(question) {
        let quoted = term.quoted();
        let rows = statement.query_map(params![folder, who.agent, quoted, MAX_BY_WORDS], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        let rows: Vec<(i64, f64)> = rows.collect::<rusqlite::Result<_>>()?;
        let with_term =
            count("SELECT count(*) FROM memory_words WHERE memory_words MATCH ?1", params![quoted])?;
        // FTS5 multiplies by its own weight, which counts other agents' memories too, and may be
        // zero.
        let (with_term, without) = (as_float(with_term), as_float(indexed.saturating_sub(with_term)));
        let its_own = ((without + 0.5) / (with_term + 0.5)).ln().max(1e-6);
        held.push((term, Some(rows.len() as u64)));
        saturations.push(rows.into_iter().map(move |(number, rank)| (number, -rank / its_own)));
    }
    let weights = Weights::new(seen, &held);
    let mut told: HashMap<i64, Evidence> = HashMap::new();
    for (term, saturations) in saturations.into_iter().enumerate() {
        for (number, saturation) in saturations {
            weights.add(told.entry(number).or_default(), term, saturation);
        }
    }
    Ok((weights, told))
}

#[expect(clippy::cast_precision_loss, reason = "a count of memories")]
fn as_float(count: u64) -> f64 {
    count as f64
}

/// Returns the best cosine of every memory that the agent sees and that has vectors of the model.
fn cosines(
    connection: &Connection,
    who: &MemoryCaller,
    meaning: QueryVector<'_>,
) -> rusqlite::Result<HashMap<i64, f32>> {
    // The order of the tables matters: few memories are visible to the agent, and vectors are looked
    // up by memory.
    let sql = format!(
        "SELECT m.number, v.vector FROM memories m CROSS JOIN memory_vectors v
         ON v.memory = m.number AND v.version = m.version AND v.model = ?3 WHERE {SEEN} AND {LIVE}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows =
        statement.query(params![path_bytes(&who.workspace), who.agent, meaning.model.as_slice()])?;
    let mut best: HashMap<i64, f32> = HashMap::new();
    while let Some(row) = rows.next()? {
        let cosine = cosine_of(row.get_ref(1)?.as_blob()?, meaning.vector);
        best.entry(row.get(0)?).and_modify(|best| *best = best.max(cosine)).or_insert(cosine);
    }
    Ok(best)
}

fn nearest(cosines: &HashMap<i64, f32>) -> Vec<i64> {
    let mut all: Vec<(i64, f32)> = cosines.iter().map(|(number, cosine)| (*number, *cosine)).collect();
    all.sort_unstable_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    all.into_iter().take(NEAREST).map(|(number, _)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{done, who};
    use super::*;
    use crate::Store;

    const MODEL: [u8; 32] = [1; 32];

    /// Gives every memory that an agent sees a vector: one direction for each first letter of the
    /// text.
    fn read_all(memories: &Memories, who: &MemoryCaller, model: &[u8; 32]) -> u64 {
        let (count, unread) = memories.unread(who, model, 1_000).unwrap();
        for unread in &unread {
            memories.keep_vectors(model, &[(unread, &[direction(&unread.content)])]).unwrap();
        }
        count
    }

    fn direction(text: &str) -> Vec<f32> {
        if text.starts_with('b') { vec![1.0, 0.0] } else { vec![0.0, 1.0] }
    }

    fn found(memories: &Memories, who: &MemoryCaller, question: &str, model: &[u8; 32]) -> Vec<String> {
        let vector = direction(question);
        let meaning = Some(QueryVector { vector: &vector, model });
        let found = memories.search(who, question, meaning, (0, 10)).unwrap();
        assert!(!found.has_more);
        assert!(found.memories.is_sorted_by(|one, next| one.1 >= next.1), "{found:?}");
        found.memories.into_iter().map(|(memory, _)| memory.key).collect()
    }

    #[test]
    fn what_is_near_is_found_without_a_word_of_it_and_nothing_of_another_agent() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let memories = store.memories();
        let (one, two) = (who("one"), who("two"));
        let elsewhere = MemoryCaller { workspace: "/other".into(), ..one.clone() };
        for (agent, id, key, text, shared) in [
            (&one, "i1", "ship", "boats", false),
            (&one, "i2", "food", "water", false),
            (&one, "i3", "pier", "berths", true),
            (&two, "i4", "mast", "booms", false),
            (&elsewhere, "i5", "far", "bridges", true),
        ] {
            done(memories.create(agent, id, (key, text), shared).unwrap());
        }
        assert_eq!(read_all(memories, &one, &MODEL), 3);
        assert_eq!(read_all(memories, &two, &MODEL), 1);
        assert_eq!(read_all(memories, &elsewhere, &MODEL), 1);
        assert_eq!(read_all(memories, &one, &MODEL), 0);
        assert_eq!(found(memories, &one, "baidarka", &MODEL), ["ship", "pier", "food"]);
        assert_eq!(found(memories, &two, "baidarka", &MODEL), ["pier", "mast"]);
        assert_eq!(found(memories, &elsewhere, "baidarka", &MODEL), ["far"]);
        // Words alone find nothing here, and words and meaning together rank first the memory that
        // both find.
        assert!(memories.search(&one, "baidarka", None, (0, 10)).unwrap().memories.is_empty());
        assert_eq!(found(memories, &one, "berth", &MODEL)[0], "pier");
        let vector = direction("b");
        let page = memories
            .search(&one, "baidarka", Some(QueryVector { vector: &vector, model: &MODEL }), (1, 1))
            .unwrap();
        assert_eq!((page.memories[0].0.key.as_str(), page.has_more), ("pier", true));
        assert!(page.memories[0].1 > 0.4 && page.confidence > 0.9, "{page:?}");
    }

    #[test]
    fn a_change_and_a_deletion_take_the_vectors_along_and_those_of_two_models_never_meet() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let memories = store.memories();
        let one = who("one");
        let kept = || -> i64 {
            let count = |connection: &Connection| {
                connection.query_row("SELECT count(*) FROM memory_vectors", [], |row| row.get(0))
            };
            memories.database.read(count).unwrap()
        };
        done(memories.create(&one, "i", ("k", "boats"), false).unwrap());
        let (_, stale) = memories.unread(&one, &MODEL, 10).unwrap();
        read_all(memories, &one, &MODEL);
        // A dry run deletes no vectors.
        let tries = MemoryCaller { only_tries: true, ..one.clone() };
        done(memories.update(&tries, "k", "water", None).unwrap());
        done(memories.delete(&tries, "k", None).unwrap());
        assert_eq!((kept(), found(memories, &one, "b", &MODEL)), (1, vec!["k".to_owned()]));
        done(memories.update(&one, "k", "water", None).unwrap());
        assert_eq!(kept(), 0);
        // A vector of an earlier version comes too late.
        memories.keep_vectors(&MODEL, &[(&stale[0], &[direction("boats")])]).unwrap();
        assert_eq!((kept(), memories.unread(&one, &MODEL, 0).unwrap().0), (0, 1));
        read_all(memories, &one, &MODEL);
        let other = [2; 32];
        assert!(found(memories, &one, "b", &other).is_empty());
        assert_eq!(read_all(memories, &one, &other), 1);
        assert!(found(memories, &one, "b", &MODEL).is_empty(), "one model's vectors took the other's place");
        assert_eq!(found(memories, &one, "b", &other), ["k"]);
        done(memories.delete(&one, "k", None).unwrap());
        assert_eq!((kept(), memories.unread(&one, &other, 10).unwrap().0), (0, 0));
        assert!(found(memories, &one, "water", &other).is_empty());
    }

    #[test]
    fn what_a_state_of_format_6_remembers_is_found_and_gets_its_vectors() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let one = who("one");
        done(store.memories().create(&one, "i", ("k", "boats"), false).unwrap());
        let as_format_6 = |connection: &mut Connection| {
            connection
                .execute_batch(
                    "DROP TABLE memory_vectors; DROP INDEX memories_by_agent; ALTER TABLE packs DROP COLUMN blocks;
                     PRAGMA user_version = 6;",
                )
                .unwrap();
            Ok(())
        };
        store.memories().database.with(as_format_6).unwrap();
        drop(store);
        let store = Store::open(folder.path()).unwrap();
        let memories = store.memories();
        assert_eq!(memories.search(&one, "boat", None, (0, 5)).unwrap().memories.len(), 1);
        assert!(found(memories, &one, "baidarka", &MODEL).is_empty());
        assert_eq!(read_all(memories, &one, &MODEL), 1);
        assert_eq!(found(memories, &one, "baidarka", &MODEL), ["k"]);
    }

    #[test]
    fn a_long_text_is_as_near_as_the_nearest_of_its_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let memories = store.memories();
        let one = who("one");
        done(memories.create(&one, "i", ("", "water and boats"), false).unwrap());
        let (_, unread) = memories.unread(&one, &MODEL, 1).unwrap();
        memories.keep_vectors(&MODEL, &[(&unread[0], &[vec![0.0, 1.0], vec![0.6, 0.8]])]).unwrap();
        let meaning = QueryVector { vector: &[1.0, 0.0], model: &MODEL };
        let found = memories.search(&one, "x", Some(meaning), (0, 1)).unwrap();
        // For a strength s, the score is s / (1 + s).
        assert!((found.memories[0].1 - 0.6 / 1.6).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn an_exact_code_comes_first_and_what_has_no_vector_keeps_its_place_by_words() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let memories = store.memories();
        let one = who("one");
        for number in 0..10 {
            let text = format!("boat {number}: the pump stalls and shows ERR-{}", 4_000 + number * 7);
            done(
                memories.create(&one, &format!("i{number}"), (&format!("k{number}"), &text), false).unwrap(),
            );
        }
        let first =
            |model| found(memories, &one, "boat pump stalls with err-4042, what now", model)[0].clone();
        assert_eq!(first(&[9; 32]), "k6", "by words");
        let (_, unread) = memories.unread(&one, &MODEL, 1_000).unwrap();
        // All memories have the direction of the question, except the one with the code.
        for (place, unread) in unread.iter().enumerate() {
            let vector = if unread.content.contains("4042") { vec![0.0, 1.0] } else { vec![1.0, 0.0] };
            memories.keep_vectors(&MODEL, &[(unread, &[vector])]).unwrap();
            if place % 3 == 0 {
                assert_eq!(first(&MODEL), "k6", "with {place} vectors");
            }
        }
        assert_eq!(first(&MODEL), "k6");
    }

    #[test]
    fn nothing_that_is_sought_is_an_operator() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let one = who("one");
        done(store.memories().create(&one, "i", ("k", "alpha NEAR beta"), false).unwrap());
        for (text, many) in [
            ("alpha", 1),
            ("\"alpha", 1),
            ("NEAR(", 1),
            ("k: *", 1),
            ("gamma OR delta", 0),
            ("", 0),
            ("()*^", 0),
            ("'; DROP TABLE memories; --", 0),
        ] {
            let found = store.memories().search(&one, text, None, (0, 5)).unwrap();
            assert_eq!((found.memories.len(), found.has_more), (many, false), "{text}");
        }
    }
}
