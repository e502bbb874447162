//! Finding chunks: the best by their words and the best by their meaning, put into one order by their ranks.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use rusqlite::{Connection, OptionalExtension, params};
use search::{cosine_of, fused, terms, words};

use crate::held::Held;
use crate::ranked::Ranked;
use crate::{Index, IndexError, Scope};

/// How many each of the two ways brings in.
pub(crate) const CANDIDATES: usize = 100;

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
        let by_words = (sought.mode != Some(Mode::Vector)).then(|| terms(sought.query));
        let found = thread::scope(|scope| {
            // Both ways take the same time, so each has a processor to itself where there are two.
            let both = question.is_some().then_some(()).and(by_words.as_deref());
            let mut meanwhile = both.and_then(|terms| {
                let work = || self.read(&mut |connection| Ok(Ranked::new(connection, terms)?));
                thread::Builder::new().name("words".to_owned()).spawn_scoped(scope, work).ok()
            });
            self.read(&mut |connection| {
                let mut sieve = Sieve { sought, files: HashMap::new() };
                let mut lists = Vec::new();
                let mut held = None;
                if let Some((vector, model)) = &question {
                    let held = held.insert(self.held());
                    held.refresh(connection, model)?;
                    let mut lets = |file| sieve.lets(connection, file);
                    lists.push(held.nearest(connection, vector, CANDIDATES, &mut lets)?);
                }
                if let Some(terms) = &by_words {
                    let ranked = match meanwhile.take() {
                        Some(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic))?,
                        None => Ranked::new(connection, terms)?,
                    };
                    lists.push(let_through(ranked, connection, &mut sieve, held.as_deref())?);
                }
                let mut hits = Vec::new();
                for id in fused(&lists).into_iter().take(sought.most) {
                    hits.extend(hit(connection, id, sought.query, question.as_ref())?);
                }
                Ok(hits)
            })
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
    fn lets(&mut self, connection: &Connection, file: i64) -> rusqlite::Result<bool> {
        if let Some(known) = self.files.get(&file) {
            return Ok(*known);
        }
        let found: Option<(Vec<u8>, i64)> = connection
            .prepare_cached("SELECT path, scope FROM files WHERE id = ?")?
            .query_row([file], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let lets = found.is_some_and(|(path, scope)| {
            self.sought.scope.is_none_or(|wanted| wanted.number() == scope)
                && (self.sought.may_read)(Path::new(std::ffi::OsStr::from_bytes(&path)))
        });
        self.files.insert(file, lets);
        Ok(lets)
    }
}

/// The best by their words of those that are let through.
fn let_through(
    mut ranked: Ranked,
    connection: &Connection,
    sieve: &mut Sieve<'_>,
    held: Option<&Held>,
) -> Result<Vec<i64>, IndexError> {
    let mut file_of = connection.prepare_cached("SELECT file FROM chunks WHERE id = ?")?;
    loop {
        let mut kept = Vec::new();
        for id in &ranked.ids {
            let file = match held.and_then(|held| held.file_of(*id)) {
                Some(file) => Some(file),
                None => file_of.query_row([id], |row| row.get(0)).optional()?,
            };
            if let Some(file) = file
                && sieve.lets(connection, file)?
            {
                kept.push(*id);
            }
        }
        if kept.len() >= CANDIDATES || ranked.is_all {
            kept.truncate(CANDIDATES);
            return Ok(kept);
        }
        if (sieve.sought.stop)() {
            return Err(IndexError::Stopped);
        }
        ranked.more(connection)?;
    }
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
