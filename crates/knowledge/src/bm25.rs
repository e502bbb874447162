//! Ranking of chunks by words: the BM25 of FTS5, term by term.
//!
//! The ranking needs the evidence of each term alone, and FTS5's own weight of a term may be zero.
//! So each term is searched alone, and FTS5's weight is replaced by that of `retrieval`, which is
//! never negative.

use std::collections::HashMap;

use retrieval::{Evidence, Term, Weights};
use rusqlite::{Connection, Params};

/// Number of chunks up to which every word counts. In a larger base, a word counts if at most one
/// chunk in `SHARE_THAT_TELLS` contains it.
const SMALL_BASE: u64 = 10_000;
const SHARE_THAT_TELLS: u64 = 4;

/// Chunks that contain a term of the query.
pub(crate) struct RankedChunks {
    /// Chunks in order of their rank, the best first.
    pub(crate) order: Vec<i64>,
    /// Weights of the query's terms.
    pub(crate) weights: Weights,
    evidence: HashMap<i64, Evidence>,
}

impl RankedChunks {
    /// Ranks the chunks for these terms. Must run within a transaction.
    pub(crate) fn new(connection: &Connection, terms: &[Term]) -> rusqlite::Result<Self> {
        let chunks = count(connection, "SELECT count(*) FROM chunks", [])?;
        let with_term = "SELECT count(*) FROM words WHERE words MATCH ?";
        let counts = terms.iter().map(|term| count(connection, with_term, [term.quoted()]));
        let counts = counts.collect::<rusqlite::Result<Vec<u64>>>()?;
        let mut most = if chunks <= SMALL_BASE { chunks } else { chunks / SHARE_THAT_TELLS };
        if !counts.iter().any(|count| (1..=most).contains(count)) {
            // All words are frequent, so count them nevertheless.
            most = chunks;
        }
        let telling = |count: u64| (count <= most).then_some(count);
        let held: Vec<(Term, Option<u64>)> =
            terms.iter().cloned().zip(counts.into_iter().map(telling)).collect();
        let weights = Weights::new(chunks, &held);
        let mut evidence: HashMap<i64, Evidence> = HashMap::new();
        let mut ranks =
            connection.prepare_cached("SELECT rowid, bm25(words) FROM words WHERE words MATCH ?")?;
        for (number, (term, held)) in held.iter().enumerate() {
            let Some(held) = held else { continue };
            // FTS5's weight of the term, as `bm25()` computes it.
            let (with, without) = (as_float(*held), as_float(chunks.saturating_sub(*held)));
            let weight = ((without + 0.5) / (with + 0.5)).ln().max(1e-6);
            let mut rows = ranks.query([term.quoted()])?;
            while let Some(row) = rows.next()? {
                let rank: f64 = row.get(1)?;
                weights.add(evidence.entry(row.get(0)?).or_default(), number, -rank / weight);
            }
        }
        let mut order: Vec<(i64, Evidence)> = evidence.iter().map(|(id, found)| (*id, *found)).collect();
        order.sort_unstable_by(|one, other| other.1.compare(&one.1).then(one.0.cmp(&other.0)));
        Ok(Self { order: order.into_iter().map(|(id, _)| id).collect(), weights, evidence })
    }

    /// Returns the evidence of the words in any chunk.
    pub(crate) fn evidence(&self, chunk: i64) -> Evidence {
        self.evidence.get(&chunk).copied().unwrap_or_default()
    }
}

fn count(connection: &Connection, sql: &str, of: impl Params) -> rusqlite::Result<u64> {
    connection.prepare_cached(sql)?.query_row(of, |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
}

#[expect(clippy::cast_precision_loss, reason = "a count of chunks")]
fn as_float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use retrieval::terms;

    use super::*;

    fn base(texts: &[&str]) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("schema.sql")).unwrap();
        connection.execute_batch("INSERT INTO files VALUES (1, x'', 1, 0, 0, 0, x'', NULL)").unwrap();
        for text in texts {
            connection
                .execute_batch(&format!(
                    "INSERT INTO chunks (file, section, first_line, last_line, text, heading, hash)
                     VALUES (1, '', 1, 1, '', 0, x'');
                     INSERT INTO words (rowid, path, section, body) VALUES (last_insert_rowid(), '', '', '{text}');"
                ))
                .unwrap();
        }
        connection
    }

    #[test]
    fn a_word_of_most_texts_counts_less_than_a_rarer_one_and_never_against_a_text() {
        let connection =
            base(&["sails", "a sail and a mast", "the sail of ships", "oars", "sailing and masts"]);
        let ranked = RankedChunks::new(&connection, &terms("sail mast")).unwrap();
        assert_eq!(ranked.order, [5, 2, 1, 3], "shorter texts first");
        let [frequent, rarer] = [3, 5].map(|chunk| ranked.evidence(chunk).bm25);
        assert!(frequent > 0.0 && rarer > 2.0 * frequent, "{frequent} and {rarer}");
        assert_eq!(ranked.evidence(4), Evidence::default());
        assert!(RankedChunks::new(&connection, &[]).unwrap().order.is_empty());
        // A word that every text contains has no weight in FTS5 itself.
        let everywhere = RankedChunks::new(&base(&["sail", "sail mast"]), &terms("sail")).unwrap();
        assert!(everywhere.order == [1, 2] && everywhere.evidence(1).bm25 > 0.0);
    }
}
