//! Finding chunks: the best by their words and the best by their meaning, put into one order by their ranks.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params};
use search::{cosine_of, fused, terms, words};

use crate::{Index, IndexError, Scope};

/// How many each of the two ways brings in.
const CANDIDATES: usize = 100;

/// Chunks of a base in which every word counts, and the share of a larger one (one in so many) that a word may be in to count.
const SMALL_BASE: i64 = 10_000;
const SHARE_THAT_TELLS: i64 = 50;

/// How a search was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// By words alone.
    Keyword,
    /// By meaning alone.
    Vector,
    /// By both.
    Hybrid,
}

impl Mode {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keyword => "keyword",
            Self::Vector => "vector",
            Self::Hybrid => "hybrid",
        }
    }
}

/// How near a chunk is to the question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Score {
    /// The cosine of their vectors, from -1 to 1.
    Cosine(f32),
    /// No vector was compared: the share of the question's words that it holds, from 0 to 1.
    Words(f32),
}

impl Score {
    /// The number.
    pub fn value(self) -> f32 {
        match self {
            Self::Cosine(value) | Self::Words(value) => value,
        }
    }

    /// What the number is.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cosine(_) => "cosine",
            Self::Words(_) => "words",
        }
    }
}

/// What is looked for.
pub struct Sought<'a> {
    /// The question, any text.
    pub query: &'a str,
    /// The part of the base; none for all.
    pub scope: Option<Scope>,
    /// The way, where it is not the best that can be had.
    pub mode: Option<Mode>,
    /// Chunks at most.
    pub most: usize,
    /// Whether a file may be read by who asks, and is there. Of what is not, nothing comes out.
    pub may_read: &'a dyn Fn(&Path) -> bool,
    /// Whether to stop.
    pub stop: &'a dyn Fn() -> bool,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The chunks, the best first.
    pub hits: Vec<Hit>,
    /// How they were found.
    pub mode: Mode,
    /// Chunks that have no vector yet, and were found by their words alone.
    pub waiting: u64,
    /// Why meaning did not count although a model is set up.
    pub without_model: Option<String>,
}

/// One chunk.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Its file, relative to the base.
    pub path: PathBuf,
    /// The headings that lead to it, with ` > ` between them.
    pub section: String,
    /// Its lines, from 1, both included.
    pub lines: (u64, u64),
    /// Its text.
    pub content: String,
    /// How near it is. The order does not go by this: words that fit exactly count too.
    pub score: Score,
}

impl Index {
    /// Finds what fits a question best, in what the index holds.
    ///
    /// # Errors
    /// Where the index cannot be read.
    pub fn find(&self, sought: &Sought<'_>) -> Result<Found, IndexError> {
        let mut without_model = None;
        let wants_meaning = sought.mode != Some(Mode::Keyword) && !sought.query.trim().is_empty();
        let question = if wants_meaning { self.question(sought, &mut without_model)? } else { None };
        let found = self.with(&mut |connection| {
            let mut sieve = Sieve { sought, files: HashMap::new() };
            let mut lists = Vec::new();
            if sought.mode != Some(Mode::Vector) {
                lists.push(by_words(connection, sought, &mut sieve)?);
            }
            if let Some((vector, model)) = &question {
                let mut held = self.held();
                held.refresh(connection, model)?;
                lists.push(
                    held.nearest(connection, vector, CANDIDATES, &mut |id| sieve.lets(connection, id))?,
                );
            }
            let mut hits = Vec::new();
            for id in fused(&lists).into_iter().take(sought.most) {
                hits.extend(hit(connection, id, sought.query, question.as_ref())?);
            }
            Ok(hits)
        })?;
        let mode = match (&question, sought.mode) {
            (None, _) => Mode::Keyword,
            (Some(_), Some(Mode::Vector)) => Mode::Vector,
            (Some(_), _) => Mode::Hybrid,
        };
        let waiting = if question.is_some() { self.waiting()? } else { 0 };
        Ok(Found { hits: found, mode, waiting, without_model })
    }

    /// The question as a vector, and whose.
    fn question(
        &self,
        sought: &Sought<'_>,
        without_model: &mut Option<String>,
    ) -> Result<Option<Question>, IndexError> {
        let model = match self.model() {
            None => return Ok(None),
            Some(Err(error)) => {
                *without_model = Some(error.clone());
                return Ok(None);
            }
            Some(Ok(model)) => model,
        };
        match model.embed(&[sought.query], sought.stop) {
            Ok(vectors) => Ok(vectors.into_iter().next().map(|vector| (vector, model.model().hash.to_vec()))),
            Err(_) if (sought.stop)() => Err(IndexError::Stopped),
            Err(error) => {
                *without_model = Some(error.to_string());
                Ok(None)
            }
        }
    }
}

/// A question as a vector, and the model that made it.
type Question = (Vec<f32>, Vec<u8>);

/// Lets through what is in the scope and may be read, and asks about each file once.
struct Sieve<'a> {
    sought: &'a Sought<'a>,
    files: HashMap<i64, bool>,
}

impl Sieve<'_> {
    fn lets(&mut self, connection: &Connection, chunk: i64) -> rusqlite::Result<bool> {
        let file: Option<i64> = connection
            .prepare_cached("SELECT file FROM chunks WHERE id = ?")?
            .query_row([chunk], |row| row.get(0))
            .optional()?;
        let Some(file) = file else { return Ok(false) };
        if let Some(known) = self.files.get(&file) {
            return Ok(*known);
        }
        let (path, scope): (Vec<u8>, i64) = connection
            .prepare_cached("SELECT path, scope FROM files WHERE id = ?")?
            .query_row([file], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let lets = self.sought.scope.is_none_or(|wanted| wanted.number() == scope)
            && (self.sought.may_read)(Path::new(std::ffi::OsStr::from_bytes(&path)));
        self.files.insert(file, lets);
        Ok(lets)
    }
}

/// The chunks that fit best by their words.
fn by_words(
    connection: &Connection,
    sought: &Sought<'_>,
    sieve: &mut Sieve<'_>,
) -> Result<Vec<i64>, IndexError> {
    let terms = terms(sought.query);
    if terms.is_empty() {
        return Ok(Vec::new());
    }
    let telling = telling(connection, &terms)?;
    let found = ranked(connection, &telling, sought, sieve)?;
    // Every word is one of those that very many chunks hold, and no chunk holds all of them.
    if found.is_empty() { ranked(connection, &terms.join(" OR "), sought, sieve) } else { Ok(found) }
}

/// The chunks that fit a query best, of those that are let through.
fn ranked(
    connection: &Connection,
    query: &str,
    sought: &Sought<'_>,
    sieve: &mut Sieve<'_>,
) -> Result<Vec<i64>, IndexError> {
    let mut statement = connection
        .prepare_cached("SELECT rowid FROM words WHERE words MATCH ?1 ORDER BY rank, rowid LIMIT ?2")?;
    let mut wanted = CANDIDATES;
    loop {
        let limit = i64::try_from(wanted).unwrap_or(i64::MAX);
        let ids: Vec<i64> =
            statement.query_map(params![query, limit], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let mut kept = Vec::new();
        for id in &ids {
            if sieve.lets(connection, *id)? {
                kept.push(*id);
            }
        }
        if kept.len() >= CANDIDATES || ids.len() < wanted {
            kept.truncate(CANDIDATES);
            return Ok(kept);
        }
        if (sought.stop)() {
            return Err(IndexError::Stopped);
        }
        wanted *= 8;
    }
}

/// The query of these terms. Every chunk that holds one of them is weighed, so in a large base those that very many hold are left out:
/// they tell little. Where there are no others, the chunks count that hold all of them.
fn telling(connection: &Connection, terms: &[String]) -> rusqlite::Result<String> {
    let chunks: i64 = connection
        .prepare_cached("SELECT coalesce(max(id), 0) FROM chunks")?
        .query_row([], |row| row.get(0))?;
    if chunks <= SMALL_BASE {
        return Ok(terms.join(" OR "));
    }
    let most = (chunks / SHARE_THAT_TELLS).max(SMALL_BASE / SHARE_THAT_TELLS);
    let mut statement = connection
        .prepare_cached("SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ?1 LIMIT ?2)")?;
    let mut rare: Vec<&str> = Vec::new();
    for term in terms {
        let held: i64 = statement.query_row(params![term, most + 1], |row| row.get(0))?;
        if (1..=most).contains(&held) {
            rare.push(term);
        }
    }
    Ok(if rare.is_empty() { terms.join(" AND ") } else { rare.join(" OR ") })
}

/// One chunk as it is shown.
fn hit(
    connection: &Connection,
    id: i64,
    question: &str,
    vector: Option<&Question>,
) -> Result<Option<Hit>, IndexError> {
    let row = connection
        .prepare_cached(
            "SELECT f.path, c.section, c.first_line, c.last_line, c.text, c.hash FROM chunks c
             JOIN files f ON f.id = c.file WHERE c.id = ?",
        )?
        .query_row([id], |row| {
            let path: Vec<u8> = row.get(0)?;
            let lines = (row.get::<_, i64>(2)?.cast_unsigned(), row.get::<_, i64>(3)?.cast_unsigned());
            let hash: Vec<u8> = row.get(5)?;
            Ok((PathBuf::from(std::ffi::OsStr::from_bytes(&path)), row.get(1)?, lines, row.get(4)?, hash))
        })
        .optional()?;
    let Some((path, section, lines, content, hash)) = row else { return Ok(None) };
    let cosine = match vector {
        Some((question, model)) => cosine(connection, &hash, model, question)?,
        None => None,
    };
    let score = match cosine {
        Some(cosine) => Score::Cosine(cosine),
        None => Score::Words(share(connection, id, question)?),
    };
    Ok(Some(Hit { path, section, lines, content, score }))
}

/// The cosine of a text's vector and the question's, which both have the length one.
fn cosine(
    connection: &Connection,
    hash: &[u8],
    model: &[u8],
    question: &[f32],
) -> rusqlite::Result<Option<f32>> {
    let vector: Option<Vec<u8>> = connection
        .prepare_cached("SELECT vector FROM embeddings WHERE hash = ? AND model = ?")?
        .query_row(params![hash, model], |row| row.get(0))
        .optional()?;
    Ok(vector.map(|vector| cosine_of(&vector, question)))
}

/// The share of a question's words that a chunk holds.
fn share(connection: &Connection, id: i64, question: &str) -> rusqlite::Result<f32> {
    let words = words(question);
    let mut statement =
        connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM words WHERE words MATCH ? AND rowid = ?)")?;
    let mut held = 0_u8;
    for word in &words {
        if statement.query_row(params![format!("\"{word}\""), id], |row| row.get(0))? {
            held = held.saturating_add(1);
        }
    }
    let all = u8::try_from(words.len()).unwrap_or(u8::MAX).max(1);
    Ok(f32::from(held) / f32::from(all))
}
