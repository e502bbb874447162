//! The chunks that fit best by their words: Okapi BM25, as FTS5 reckons it.
//!
//! FTS5's own ranking looks up the length of every chunk that holds any of the words, which takes most of its time. Here what the index
//! holds of each word is read as it is, every chunk is weighed as if it were of the usual length, and the lengths are looked up of the
//! best alone. The words of a question go through the same tokenizer as those of the chunks, by way of a table that lives in memory.

use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, params};

use crate::find::CANDIDATES;

/// How often a word must stand in a text to tell all that it can, and how much a text's length counts: FTS5's own.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// Chunks of a base in which every word counts, and the share of a larger one (one in so many) that a word may be in to count.
const SMALL_BASE: i64 = 10_000;
const SHARE_THAT_TELLS: i64 = 4;

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
    pub(crate) ids: Vec<i64>,
    /// Whether there are no others.
    pub(crate) is_all: bool,
    wanted: usize,
    totals: Totals,
    postings: Vec<Posting>,
    /// What each chunk would weigh at the usual length, and where its postings are; the heaviest first.
    rough: Vec<(f64, Range<usize>)>,
}

/// One word in one chunk.
#[derive(Debug, Clone, Copy)]
struct Posting {
    chunk: i64,
    /// What the word tells at all.
    weight: f64,
    /// How often it stands there.
    times: f64,
}

/// How many chunks there are, and how long they are on average, in words.
struct Totals {
    chunks: i64,
    average: f64,
}

impl Ranked {
    /// The best by these terms, within a transaction.
    pub(crate) fn new(connection: &Connection, terms: &[String]) -> rusqlite::Result<Self> {
        let totals = Totals::of(connection)?;
        let mut postings = postings(connection, terms, &totals, false)?;
        if postings.is_empty() {
            // There are only words that stand everywhere.
            postings = self::postings(connection, terms, &totals, true)?;
        }
        // Each word's are in order already, which makes this quick.
        postings.sort_by_key(|posting| posting.chunk);
        let mut rough = Vec::new();
        let mut from = 0;
        for same in postings.chunk_by(|one, other| one.chunk == other.chunk) {
            let range = from..from + same.len();
            from = range.end;
            rough.push((weight_of(same, 1.0), range));
        }
        rough.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.start.cmp(&other.1.start)));
        let wanted = CANDIDATES;
        let mut ranked = Self { ids: Vec::new(), is_all: true, wanted, totals, postings, rough };
        ranked.look(connection)?;
        Ok(ranked)
    }

    /// More of them.
    pub(crate) fn more(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.wanted *= 8;
        self.look(connection)
    }

    /// Weighs the best by their lengths.
    fn look(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut size = connection.prepare_cached("SELECT sz FROM words_docsize WHERE id = ?")?;
        let mut weighed: Vec<(f64, i64)> = Vec::new();
        for (_, range) in self.rough.iter().take(self.wanted.saturating_mul(MARGIN)) {
            let postings = &self.postings[range.clone()];
            let chunk = postings[0].chunk;
            let words = size
                .query_row([chunk], |row| Ok(numbers(row.get_ref(0)?.as_blob()?).sum::<u64>()))
                .optional()?;
            let Some(words) = words else { continue };
            weighed.push((weight_of(postings, as_float(words) / self.totals.average), chunk));
        }
        weighed.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        self.is_all = self.rough.len() <= self.wanted;
        weighed.truncate(self.wanted);
        self.ids = weighed.into_iter().map(|(_, chunk)| chunk).collect();
        Ok(())
    }
}

impl Totals {
    /// What FTS5 keeps of the whole table: how many rows there are, and the words of each column.
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        connection.prepare_cached("SELECT block FROM words_data WHERE id = 1")?.query_row([], |row| {
            let mut numbers = numbers(row.get_ref(0)?.as_blob()?);
            let chunks = numbers.next().unwrap_or_default();
            let average = as_float(numbers.sum()) / as_float(chunks.max(1));
            Ok(Self { chunks: i64::try_from(chunks).unwrap_or(i64::MAX), average: average.max(1.0) })
        })
    }

    /// What a word tells that so many chunks hold.
    fn weight(&self, held: usize) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a weight")]
        let (chunks, held) = (self.chunks as f64, held as f64);
        ((chunks - held + 0.5) / (held + 0.5)).ln().max(1e-6)
    }
}

/// What the terms tell of a chunk, whose length is so many times the usual one.
fn weight_of(postings: &[Posting], length: f64) -> f64 {
    let damping = K1 * (1.0 - B + B * length);
    postings
        .iter()
        .map(|posting| posting.weight * posting.times * (K1 + 1.0) / (posting.times + damping))
        .sum()
}

/// Where the terms stand, one after the other; of a large base without those that very many chunks hold, unless `all` are wanted.
fn postings(
    connection: &Connection,
    terms: &[String],
    totals: &Totals,
    all: bool,
) -> rusqlite::Result<Vec<Posting>> {
    let most = if all || totals.chunks <= SMALL_BASE { i64::MAX } else { totals.chunks / SHARE_THAT_TELLS };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut of_word = connection.prepare_cached("SELECT doc FROM temp.postings WHERE term = ?")?;
    let mut of_row = connection.prepare_cached("SELECT rowid FROM words WHERE words MATCH ?")?;
    let mut postings: Vec<Posting> = Vec::new();
    for (term, stem) in terms.iter().zip(stems(connection, terms)?) {
        let from = postings.len();
        let mut rows = match &stem {
            Some(stem) => of_word.query([stem])?,
            None => of_row.query([term])?,
        };
        while let Some(row) = rows.next()? {
            let chunk: i64 = row.get(0)?;
            match postings[from..].last_mut() {
                Some(last) if last.chunk == chunk => last.times += 1.0,
                _ => postings.push(Posting { chunk, weight: 0.0, times: 1.0 }),
            }
            if postings.len() - from > most {
                break;
            }
        }
        let held = postings.len() - from;
        if held > most {
            postings.truncate(from);
        }
        let weight = totals.weight(held);
        postings[from..].iter_mut().for_each(|posting| posting.weight = weight);
    }
    Ok(postings)
}

/// What the index calls each term; none for what it holds as several words in a row.
fn stems(connection: &Connection, terms: &[String]) -> rusqlite::Result<Vec<Option<String>>> {
    let mut insert = connection.prepare_cached("INSERT INTO temp.question (rowid, word) VALUES (?, ?)")?;
    connection.prepare_cached("DELETE FROM temp.question")?.execute([])?;
    for (number, term) in (0_i64..).zip(terms) {
        insert.execute(params![number, term])?;
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
    use super::*;

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
                    format!("wings{}", next(most))
                })
                .collect();
            connection
                .execute(
                    "INSERT INTO words (rowid, path, section, body) VALUES (?, ?, ?, ?)",
                    params![id, format!("{}.md", next(9)), format!("wings{}", next(9)), words.join(" ")],
                )
                .unwrap();
        }
        connection.execute("DELETE FROM words WHERE rowid % 7 = 0", []).unwrap();
        connection
    }

    fn by_fts5(connection: &Connection, terms: &[String]) -> Vec<i64> {
        let sql = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank, rowid LIMIT ?";
        let mut statement = connection.prepare(sql).unwrap();
        let most = i64::try_from(CANDIDATES).unwrap();
        let ids = statement.query_map(params![terms.join(" OR "), most], |row| row.get(0)).unwrap();
        ids.collect::<rusqlite::Result<_>>().unwrap()
    }

    #[test]
    fn the_order_is_that_of_fts5() {
        let connection = base(600);
        for first in 0..40 {
            let words = [first, first * 3 % 101, first * 7 % 53, 190].map(|word| format!("\"wing{word}\""));
            // Words of the question are stemmed as those of the texts are, and one that stands nowhere is no matter.
            let plural = words.iter().map(|word| word.replace("wing", "Wings"));
            let terms: Vec<String> = plural.chain(["\"nowhere\"".to_owned()]).collect();
            let ranked = Ranked::new(&connection, &terms).unwrap();
            let expected = by_fts5(&connection, &terms);
            assert!(expected.len() > 5, "{terms:?}");
            assert_eq!(ranked.ids, expected, "{terms:?}");
        }
    }

    #[test]
    fn a_row_of_words_counts_once_for_each_text_and_there_are_always_more_until_there_are_none() {
        let connection = base(1_500);
        let terms = ["\"wings1 wings1\"".to_owned(), "\"md\"".to_owned()];
        let mut ranked = Ranked::new(&connection, &terms).unwrap();
        assert_eq!((ranked.ids.len(), ranked.is_all), (CANDIDATES, false));
        let first = ranked.ids.clone();
        while !ranked.is_all {
            ranked.more(&connection).unwrap();
        }
        assert!(ranked.ids.starts_with(&first[..10]));
        assert_eq!(ranked.ids.len(), 1_500 - 1_500 / 7);
        assert_eq!(Ranked::new(&connection, &[]).unwrap().ids, Vec::<i64>::new());
    }
}
