//! The chunks that fit best by their words.
//!
//! Weighing a chunk (BM25) costs ten times what finding it does, and what a large base has much of are chunks with frequent words, which
//! tell little. So there the chunks are found and weighed by the rarest words of the question alone, as many as the time allows, and what
//! the frequent words add is then added to the best of those.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use crate::find::CANDIDATES;

/// Chunks of a base in which every word finds and weighs.
const SMALL_BASE: i64 = 10_000;

/// How many chunks the words that find may be in, all together: weighing these takes some 2 ms.
const WEIGHED: i64 = 3_000;

/// What the words that only add may be in: the share of the chunks (one in so many) of one, and the chunks of all.
const SHARE_THAT_TELLS: i64 = 10;
const ADDED: i64 = 20_000;

/// How many more are weighed than are wanted where words add to their weight.
const MARGIN: usize = 3;

/// Chunks in their order.
pub(crate) struct Ranked {
    /// The best first.
    pub(crate) ids: Vec<i64>,
    /// Whether there are no others.
    pub(crate) is_all: bool,
    wanted: usize,
    plan: Plan,
}

/// By what it is sought.
struct Plan {
    /// The words that find and weigh, as a query.
    finds: String,
    /// The words that add, and how much.
    adds: Vec<(String, f64)>,
}

impl Ranked {
    /// The best by these terms.
    pub(crate) fn new(connection: &Connection, terms: &[String]) -> rusqlite::Result<Self> {
        let plan = Plan::new(connection, terms)?;
        let mut ranked = Self { ids: Vec::new(), is_all: true, wanted: CANDIDATES, plan };
        if terms.is_empty() {
            return Ok(ranked);
        }
        ranked.look(connection)?;
        // Every word is one of those that very many chunks hold, and no chunk holds all of them.
        if ranked.ids.is_empty() && ranked.plan.adds.is_empty() {
            ranked.plan.finds = terms.join(" OR ");
            ranked.look(connection)?;
        }
        Ok(ranked)
    }

    /// Looks for more of them.
    pub(crate) fn more(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.wanted *= 8;
        self.look(connection)
    }

    fn look(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let margin = if self.plan.adds.is_empty() { 1 } else { MARGIN };
        let limit = self.wanted.saturating_mul(margin);
        let mut statement = connection.prepare_cached(
            "SELECT rowid, rank FROM words WHERE words MATCH ?1 ORDER BY rank, rowid LIMIT ?2",
        )?;
        let rows = statement
            .query_map(params![self.plan.finds, i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let mut found: Vec<(i64, f64)> = rows.collect::<rusqlite::Result<_>>()?;
        self.is_all = found.len() < limit;
        self.plan.add(connection, &mut found)?;
        let most = if self.is_all { found.len() } else { self.wanted };
        self.ids = found.into_iter().take(most).map(|(id, _)| id).collect();
        Ok(())
    }
}

impl Plan {
    fn new(connection: &Connection, terms: &[String]) -> rusqlite::Result<Self> {
        let chunks: i64 = connection
            .prepare_cached("SELECT coalesce(max(id), 0) FROM chunks")?
            .query_row([], |row| row.get(0))?;
        if chunks <= SMALL_BASE {
            return Ok(Self { finds: terms.join(" OR "), adds: Vec::new() });
        }
        let most = chunks / SHARE_THAT_TELLS;
        let mut statement = connection
            .prepare_cached("SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ?1 LIMIT ?2)")?;
        let mut telling: Vec<(i64, &String)> = Vec::new();
        for term in terms {
            let held: i64 = statement.query_row(params![term, most + 1], |row| row.get(0))?;
            if (1..=most).contains(&held) {
                telling.push((held, term));
            }
        }
        telling.sort_by_key(|(held, _)| *held);
        let (mut finds, mut weighed) = (Vec::new(), 0);
        let (mut adds, mut added) = (Vec::new(), 0);
        for (held, term) in telling {
            weighed += held;
            if finds.is_empty() || weighed <= WEIGHED {
                finds.push(term.as_str());
                continue;
            }
            added += held;
            if added <= ADDED {
                adds.push((term.clone(), weight(chunks, held)));
            }
        }
        // Where there are only words that tell nothing, the chunks count that hold all of them.
        let finds = if finds.is_empty() { terms.join(" AND ") } else { finds.join(" OR ") };
        Ok(Self { finds, adds })
    }

    /// Adds to what was found, which is in order before and after.
    fn add(&self, connection: &Connection, found: &mut [(i64, f64)]) -> rusqlite::Result<()> {
        if self.adds.is_empty() {
            return Ok(());
        }
        let places: HashMap<i64, usize> = (0..).zip(&*found).map(|(place, (id, _))| (*id, place)).collect();
        let mut statement = connection.prepare_cached("SELECT rowid FROM words WHERE words MATCH ?1")?;
        for (term, weight) in &self.adds {
            let mut rows = statement.query([term])?;
            while let Some(row) = rows.next()? {
                if let Some(place) = places.get(&row.get(0)?) {
                    // A better rank is a lower one.
                    found[*place].1 -= weight;
                }
            }
        }
        found.sort_by(|one, other| one.1.total_cmp(&other.1).then(one.0.cmp(&other.0)));
        Ok(())
    }
}

/// What a word adds that stands once in a text of the usual length: the weight that BM25 gives it, as FTS5 reckons it.
fn weight(chunks: i64, held: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a weight")]
    let (chunks, held) = (chunks as f64, held as f64);
    ((chunks - held + 0.5) / (held + 0.5)).ln().max(1e-6)
}
