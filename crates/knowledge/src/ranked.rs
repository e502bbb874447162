//! The chunks that fit best by their words: Okapi BM25, as FTS5 reckons it.
//!
//! FTS5's own ranking looks up the length of every chunk that holds any of the words, which takes most of its time. Here what the index
//! holds of each word is read as it is, every chunk is weighed as if it were of the usual length, and the lengths are looked up of the
//! best alone. The words of a question go through the same tokenizer as those of the chunks, by way of a table that lives in memory.
//! A term's weight is that of `search`, which unlike FTS5's is never negative.

use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, params};
use search::{Evidence, Term, Weights};

use crate::find::CANDIDATES;

/// How often a word must stand in a text to tell all that it can, and how much a text's length counts: FTS5's own.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// Chunks of a base in which every word counts, and the share of a larger one (one in so many) that a word may be in to count.
const SMALL_BASE: u64 = 10_000;
const SHARE_THAT_TELLS: u64 = 4;

/// How many more are weighed by their lengths than are wanted.
const MARGIN: usize = 8;

/// What [`Ranked`] reads through, in the memory of one connection.
pub(crate) const TABLES: &str = "
PRAGMA temp_store = MEMORY;
CREATE VIRTUAL TABLE temp.postings USING fts5vocab(main, words, instance);
CREATE VIRTUAL TABLE temp.question USING fts5(word, tokenize = 'porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE temp.stems USING fts5vocab(temp, question, instance);
";

/// Chunks in their order.
pub(crate) struct Ranked {
    /// The best first.
    pub(crate) found: Vec<(i64, Evidence)>,
    /// Whether there are no others.
    pub(crate) is_all: bool,
    /// The weights of the question's terms.
    pub(crate) weights: Weights,
    wanted: usize,
    totals: Totals,
    /// In the order of their chunks.
    postings: Vec<Posting>,
    /// What each chunk would tell at the usual length, and where its postings are; the most telling first.
    rough: Vec<(Evidence, Range<usize>)>,
}

/// One term in one chunk.
#[derive(Debug, Clone, Copy)]
struct Posting {
    chunk: i64,
    /// Its place among the terms of the question.
    term: usize,
    /// How often it stands there.
    times: f64,
}

/// How many chunks there are, and how long they are on average, in words.
struct Totals {
    chunks: u64,
    average: f64,
}

impl Ranked {
    /// Finds the best by these terms, within a transaction.
    pub(crate) fn new(connection: &Connection, terms: &[Term]) -> rusqlite::Result<Self> {
        let totals = Totals::of(connection)?;
        let most = if totals.chunks <= SMALL_BASE { u64::MAX } else { totals.chunks / SHARE_THAT_TELLS };
        let (mut postings, mut held) = postings(connection, terms, most)?;
        if postings.is_empty() {
            // There are only words that stand everywhere.
            (postings, held) = self::postings(connection, terms, u64::MAX)?;
        }
        let held: Vec<(Term, Option<u64>)> = terms.iter().cloned().zip(held).collect();
        let weights = Weights::new(totals.chunks, &held);
        // Each term's are in order already, which makes this quick.
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

    /// Finds more of them.
    pub(crate) fn more(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.wanted *= 8;
        self.look(connection)
    }

    /// Gives what the words of any chunk tell.
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

    /// Weighs the best by their lengths.
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
    /// Reads what FTS5 keeps of the whole table: how many rows there are, and the words of each column.
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        connection.prepare_cached("SELECT block FROM words_data WHERE id = 1")?.query_row([], |row| {
            let mut numbers = numbers(row.get_ref(0)?.as_blob()?);
            let chunks = numbers.next().unwrap_or_default();
            let average = as_float(numbers.sum()) / as_float(chunks.max(1));
            Ok(Self { chunks, average: average.max(1.0) })
        })
    }

    /// Gives the length of a chunk, where the usual one is 1; none where the chunk is gone.
    fn length(&self, connection: &Connection, chunk: i64) -> rusqlite::Result<Option<f64>> {
        let mut size = connection.prepare_cached("SELECT sz FROM words_docsize WHERE id = ?")?;
        let words =
            size.query_row([chunk], |row| Ok(numbers(row.get_ref(0)?.as_blob()?).sum::<u64>())).optional()?;
        Ok(words.map(|words| as_float(words) / self.average))
    }
}

/// What the terms tell of a chunk, whose length is so many times the usual one.
fn evidence(weights: &Weights, postings: &[Posting], length: f64) -> Evidence {
    let damping = K1 * (1.0 - B + B * length);
    let mut evidence = Evidence::default();
    for Posting { term, times, .. } in postings {
        weights.add(&mut evidence, *term, times * (K1 + 1.0) / (times + damping));
    }
    evidence
}

/// Finds where the terms stand, one after the other, and how many chunks hold each. A term that more than `most` hold is left out.
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

/// What the index calls each term; none for what it holds as several words in a row.
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

/// The numbers that FTS5 keeps one after the other: seven bits a byte, the highest first, and eight in a ninth.
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

    use search::terms;

    use super::*;

    /// One of many words, which looks like no code.
    fn word(number: u64) -> String {
        let letters =
            format!("{number:03}").bytes().map(|digit| char::from(digit - b'0' + b'b')).collect::<String>();
        format!("{letters}wing")
    }

    /// Texts of many lengths, with words of all frequencies; every seventh was removed again.
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

    /// The order by what FTS5 makes of each term, with the weight of `search` in place of its own.
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

    fn ids(ranked: &Ranked) -> Vec<i64> {
        ranked.found.iter().map(|(id, _)| *id).collect()
    }

    #[test]
    fn the_order_is_that_of_fts5_by_weights_that_are_never_negative() {
        let connection = base(600);
        for first in 0..40 {
            // Words of the question are stemmed as those of the texts are, and one that stands nowhere is no matter.
            let words = [first, first * 3 % 101, first * 7 % 53, 190].map(word);
            let terms = terms(&format!("{} nowhere", words.join(" ")));
            let ranked = Ranked::new(&connection, &terms).unwrap();
            let expected = by_fts5(&connection, &terms, 600.0 - 85.0);
            assert!(expected.len() > 5, "{terms:?}");
            assert_eq!(ids(&ranked), expected, "{terms:?}");
            for (id, evidence) in &ranked.found {
                assert_eq!(ranked.evidence(&connection, *id).unwrap(), *evidence, "{id}");
            }
        }
        let ranked = Ranked::new(&connection, &terms("nowhere")).unwrap();
        assert_eq!(ranked.evidence(&connection, 1).unwrap(), Evidence::default());
    }

    #[test]
    fn a_row_of_words_counts_once_for_each_text_and_there_are_always_more_until_there_are_none() {
        let connection = base(1_500);
        let terms = terms(&format!("{0}-{0} md", word(1)));
        let mut ranked = Ranked::new(&connection, &terms).unwrap();
        assert_eq!((ranked.found.len(), ranked.is_all), (CANDIDATES, false));
        let first = ids(&ranked);
        while !ranked.is_all {
            ranked.more(&connection).unwrap();
        }
        assert!(ids(&ranked).starts_with(&first[..10]));
        assert_eq!(ranked.found.len(), 1_500 - 1_500 / 7);
        assert_eq!(ids(&Ranked::new(&connection, &[]).unwrap()), Vec::<i64>::new());
    }
}
