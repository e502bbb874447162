//! Ranking of chunks by words: Okapi BM25, as FTS5 computes it.
//!
//! FTS5's own ranking looks up the length of every chunk that contains any of the words, which
//! takes most of its time. This module reads the postings of each word directly and scores every
//! chunk as if it had average length. Then it looks up the lengths of the best chunks only. The
//! words of a query pass through the same tokenizer as those of the chunks, with the help of an
//! in-memory table. The weight of a term is that of `search`, which is never negative, unlike
//! FTS5's.

use std::ops::Range;

use retrieval::{Evidence, Term, Weights};
use rusqlite::{Connection, OptionalExtension, params};

use crate::find::CANDIDATES;

/// BM25 parameters, equal to FTS5's: saturation of the term frequency, and influence of the text length.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// Number of chunks up to which every word counts. In a larger base, a word counts if at most one
/// chunk in `SHARE_THAT_TELLS` contains it.
const SMALL_BASE: u64 = 10_000;
const SHARE_THAT_TELLS: u64 = 4;

/// Factor between the chunks that are scored by their length and those that are wanted.
const MARGIN: usize = 8;

/// Temporary tables through which [`RankedChunks`] reads, in the memory of one connection.
pub(crate) const TABLES: &str = "
PRAGMA temp_store = MEMORY;
CREATE VIRTUAL TABLE temp.postings USING fts5vocab(main, words, instance);
CREATE VIRTUAL TABLE temp.question USING fts5(word, tokenize = 'porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE temp.stems USING fts5vocab(temp, question, instance);
";

/// Chunks in order of their rank.
pub(crate) struct RankedChunks {
    /// Best chunks first.
    pub(crate) found: Vec<(i64, Evidence)>,
    /// True if there are no further chunks.
    pub(crate) is_all: bool,
    /// Weights of the query's terms.
    pub(crate) weights: Weights,
    wanted: usize,
    totals: Totals,
    /// Postings in order of their chunks.
    postings: Vec<Posting>,
    /// Evidence of each chunk at average length, with the range of its postings; the strongest first.
    rough: Vec<(Evidence, Range<usize>)>,
}

/// Occurrences of one term in one chunk.
#[derive(Debug, Clone, Copy)]
struct Posting {
    chunk: i64,
    /// Index of the term in the query.
    term: usize,
    /// Number of occurrences.
    times: f64,
}

/// Number of chunks, and their average length in words.
struct Totals {
    chunks: u64,
    average: f64,
}

impl RankedChunks {
    /// Finds the best chunks for these terms. Must run within a transaction.
    pub(crate) fn new(connection: &Connection, terms: &[Term]) -> rusqlite::Result<Self> {
        let totals = Totals::of(connection)?;
        let most = if totals.chunks <= SMALL_BASE { u64::MAX } else { totals.chunks / SHARE_THAT_TELLS };
        let (mut postings, mut held) = postings(connection, terms, most)?;
        if postings.is_empty() {
            // All words are frequent, so count them nevertheless.
            (postings, held) = self::postings(connection, terms, u64::MAX)?;
        }
        let held: Vec<(Term, Option<u64>)> = terms.iter().cloned().zip(held).collect();
        let weights = Weights::new(totals.chunks, &held);
        // The postings of each term are already sorted, which makes this sort fast.
        postings.sort_by_key(|posting| posting.chunk);
        let mut rough = Vec::new();
        let mut from = 0;
        for same in postings.chunk_by(|one, other| one.chunk == other.chunk) {
            let range = from..from + same.len();
            from = range.end;
            rough.push((evidence(&weights, same, 1.0), range));
        }
        rough.sort_by(|one, other| other.0.compare(&one.0).then(one.1.start.cmp(&other.1.start)));
        let wanted = CANDIDATES;
        let mut ranked = Self { found: Vec::new(), is_all: true, weights, wanted, totals, postings, rough };
        ranked.look(connection)?;
        Ok(ranked)
    }

    /// Finds more chunks.
    pub(crate) fn more(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.wanted *= 8;
        self.look(connection)
    }

    /// Returns the evidence of the words in any chunk.
    pub(crate) fn evidence(&self, connection: &Connection, chunk: i64) -> rusqlite::Result<Evidence> {
        let from = self.postings.partition_point(|posting| posting.chunk < chunk);
        let behind = self.postings.get(from..).unwrap_or_default();
        let same = behind.chunk_by(|one, other| one.chunk == other.chunk).next().unwrap_or_default();
        if same.first().is_none_or(|posting| posting.chunk != chunk) {
            return Ok(Evidence::default());
        }
        let length = self.totals.length(connection, chunk)?;
        Ok(length.map(|length| evidence(&self.weights, same, length)).unwrap_or_default())
    }

    /// Scores the best chunks by their real length.
    fn look(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut weighed: Vec<(Evidence, i64)> = Vec::new();
        for (_, range) in self.rough.iter().take(self.wanted.saturating_mul(MARGIN)) {
            let postings = &self.postings[range.clone()];
            let chunk = postings[0].chunk;
            if let Some(length) = self.totals.length(connection, chunk)? {
                weighed.push((evidence(&self.weights, postings, length), chunk));
            }
        }
        weighed.sort_by(|one, other| other.0.compare(&one.0).then(one.1.cmp(&other.1)));
        self.is_all = self.rough.len() <= self.wanted;
        weighed.truncate(self.wanted);
        self.found = weighed.into_iter().map(|(evidence, chunk)| (chunk, evidence)).collect();
        Ok(())
    }
}

impl Totals {
    /// Reads FTS5's totals of the table: number of rows, and words per column.
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        connection.prepare_cached("SELECT block FROM words_data WHERE id = 1")?.query_row([], |row| {
            let mut numbers = numbers(row.get_ref(0)?.as_blob()?);
            let chunks = numbers.next().unwrap_or_default();
            let average = as_float(numbers.sum()) / as_float(chunks.max(1));
            Ok(Self { chunks, average: average.max(1.0) })
        })
    }

    /// Returns the length of a chunk relative to the average; `None` if the chunk no longer exists.
    fn length(&self, connection: &Connection, chunk: i64) -> rusqlite::Result<Option<f64>> {
        let mut size = connection.prepare_cached("SELECT sz FROM words_docsize WHERE id = ?")?;
        let words =
            size.query_row([chunk], |row| Ok(numbers(row.get_ref(0)?.as_blob()?).sum::<u64>())).optional()?;
        Ok(words.map(|words| as_float(words) / self.average))
    }
}

/// Computes the evidence of the terms in a chunk. `length` is relative to the average.
fn evidence(weights: &Weights, postings: &[Posting], length: f64) -> Evidence {
    let damping = K1 * (1.0 - B + B * length);
    let mut evidence = Evidence::default();
    for Posting { term, times, .. } in postings {
        weights.add(&mut evidence, *term, times * (K1 + 1.0) / (times + damping));
    }
    evidence
}

/// Returns the postings of each term, and the number of chunks that contain it. Terms in more than
/// `most` chunks are omitted.
fn postings(
    connection: &Connection,
    terms: &[Term],
    most: u64,
) -> rusqlite::Result<(Vec<Posting>, Vec<Option<u64>>)> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut of_word = connection.prepare_cached("SELECT doc FROM temp.postings WHERE term = ?")?;
    let mut of_row = connection.prepare_cached("SELECT rowid FROM words WHERE words MATCH ?")?;
    let mut postings: Vec<Posting> = Vec::new();
    let mut held_by = Vec::with_capacity(terms.len());
    for (number, stem) in stems(connection, terms)?.iter().enumerate() {
        let from = postings.len();
        let mut rows = match stem {
            Some(stem) => of_word.query([stem])?,
            None => of_row.query([terms[number].quoted()])?,
        };
        while let Some(row) = rows.next()? {
            let chunk: i64 = row.get(0)?;
            match postings[from..].last_mut() {
                Some(last) if last.chunk == chunk => last.times += 1.0,
                _ => postings.push(Posting { chunk, term: number, times: 1.0 }),
            }
            if postings.len() - from > most {
                break;
            }
        }
        let held = postings.len() - from;
        if held > most {
            postings.truncate(from);
        }
        held_by.push((held <= most).then_some(held as u64));
    }
    Ok((postings, held_by))
}

/// Returns the index's form of each term; `None` for a term that the index splits into several words.
fn stems(connection: &Connection, terms: &[Term]) -> rusqlite::Result<Vec<Option<String>>> {
    let mut insert = connection.prepare_cached("INSERT INTO temp.question (rowid, word) VALUES (?, ?)")?;
    connection.prepare_cached("DELETE FROM temp.question")?.execute([])?;
    for (number, term) in (0_i64..).zip(terms) {
        insert.execute(params![number, term.quoted()])?;
    }
    let mut found = vec![Vec::new(); terms.len()];
    let mut statement = connection.prepare_cached("SELECT doc, term FROM temp.stems")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let of: Option<&mut Vec<String>> =
            usize::try_from(row.get::<_, i64>(0)?).ok().and_then(|number| found.get_mut(number));
        if let Some(of) = of {
            of.push(row.get(1)?);
        }
    }
    let only = |mut stems: Vec<String>| if stems.len() == 1 { stems.pop() } else { None };
    Ok(found.into_iter().map(only).collect())
}

/// Decodes FTS5's sequence of integers: seven bits per byte, the highest first, and eight bits in a
/// ninth byte.
fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let mut number = 0;
        for place in 0..9 {
            let (byte, behind) = rest.split_first()?;
            rest = behind;
            if place == 8 {
                return Some(number << 8 | u64::from(*byte));
            }
            number = number << 7 | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    })
}

#[expect(clippy::cast_precision_loss, reason = "a count of words")]
fn as_float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use retrieval::terms;

    use super::*;

    /// Returns one of many words that do not look like code.
    fn word(number: u64) -> String {
        let letters =
            format!("{number:03}").bytes().map(|digit| char::from(digit - b'0' + b'b')).collect::<String>();
        format!("{letters}wing")
    }

    /// Builds a table of texts with varied lengths and word frequencies, with every seventh text removed.
    fn base(texts: i64) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("schema.sql")).unwrap();
        connection.execute_batch(TABLES).unwrap();
        let mut seed = 1_u64;
        let mut next = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % most
        };
        for id in 1..=texts {
            let words: Vec<String> = (0..5 + next(60))
                .map(|_| {
                    let most = 1 + next(200);
                    word(next(most)) + "s"
                })
                .collect();
            connection
                .execute(
                    "INSERT INTO words (rowid, path, section, body) VALUES (?, ?, ?, ?)",
                    params![id, format!("{}.md", word(next(9))), word(next(9)), words.join(" ")],
                )
                .unwrap();
        }
        connection.execute("DELETE FROM words WHERE rowid % 7 = 0", []).unwrap();
        connection
    }

    /// Returns FTS5's order of the chunks, with its weight of each term replaced by that of `search`.
    fn by_fts5(connection: &Connection, terms: &[Term], chunks: f64) -> Vec<i64> {
        let mut told: HashMap<i64, f64> = HashMap::new();
        for term in terms {
            let mut statement =
                connection.prepare("SELECT rowid, rank FROM words WHERE words MATCH ?").unwrap();
            let rows = statement.query_map([term.quoted()], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            let rows: Vec<(i64, f64)> = rows.collect::<rusqlite::Result<_>>().unwrap();
            let rarer = (chunks - as_float(rows.len() as u64) + 0.5) / (as_float(rows.len() as u64) + 0.5);
            for (id, rank) in rows {
                *told.entry(id).or_default() -= rank / rarer.ln().max(1e-6) * rarer.ln_1p();
            }
        }
        let mut order: Vec<(i64, f64)> = told.into_iter().collect();
        order.sort_by(|one, other| {
            let near = (one.1 - other.1).abs() < 1e-9;
            if near { one.0.cmp(&other.0) } else { other.1.total_cmp(&one.1) }
        });
        order.into_iter().take(CANDIDATES).map(|(id, _)| id).collect()
    }

    fn ids(ranked: &RankedChunks) -> Vec<i64> {
        ranked.found.iter().map(|(id, _)| *id).collect()
    }

    #[test]
    fn the_order_is_that_of_fts5_by_weights_that_are_never_negative() {
        let connection = base(600);
        for first in 0..40 {
            // Words of the query are stemmed like those of the texts, and an unknown word has no effect.
            let words = [first, first * 3 % 101, first * 7 % 53, 190].map(word);
            let terms = terms(&format!("{} nowhere", words.join(" ")));
            let ranked = RankedChunks::new(&connection, &terms).unwrap();
            let expected = by_fts5(&connection, &terms, 600.0 - 85.0);
            assert!(expected.len() > 5, "{terms:?}");
            assert_eq!(ids(&ranked), expected, "{terms:?}");
            for (id, evidence) in &ranked.found {
                assert_eq!(ranked.evidence(&connection, *id).unwrap(), *evidence, "{id}");
            }
        }
        let ranked = RankedChunks::new(&connection, &terms("nowhere")).unwrap();
        assert_eq!(ranked.evidence(&connection, 1).unwrap(), Evidence::default());
    }

    #[test]
    fn a_row_of_words_counts_once_for_each_text_and_there_are_always_more_until_there_are_none() {
        let connection = base(1_500);
        let terms = terms(&format!("{0}-{0} md", word(1)));
        let mut ranked = RankedChunks::new(&connection, &terms).unwrap();
        assert_eq!((ranked.found.len(), ranked.is_all), (CANDIDATES, false));
        let first = ids(&ranked);
        while !ranked.is_all {
            ranked.more(&connection).unwrap();
        }
        assert!(ids(&ranked).starts_with(&first[..10]));
        assert_eq!(ranked.found.len(), 1_500 - 1_500 / 7);
        assert_eq!(ids(&RankedChunks::new(&connection, &[]).unwrap()), Vec::<i64>::new());
    }
}
