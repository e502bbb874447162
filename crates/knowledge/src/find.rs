//! Finding chunks: the best by their words and the best by their meaning, put into one order by their scores.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;
use std::thread;

use rusqlite::{Connection, OptionalExtension, params};
use search::{Candidate, Evidence, Fused, Weights, background, cosine_of, fuse, terms};

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

/// How well a chunk fits the question: the number that the order goes by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Score {
    /// By words and meaning together, from 0 to 1.
    Both(f32),
    /// The cosine of the vectors alone, from -1 to 1.
    Cosine(f32),
    /// No vector was compared: by words alone, from 0 to 1.
    Words(f32),
}

impl Score {
    /// The number.
    pub fn value(self) -> f32 {
        match self {
            Self::Both(value) | Self::Cosine(value) | Self::Words(value) => value,
        }
    }

    /// What the number is.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Both(_) => "both",
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
    /// How sure it is that any of them answers the question, from 0 to 1.
    pub confidence: f64,
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
    /// How well it fits.
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
                let mut search =
                    Search { connection, sieve: Sieve { sought, files: HashMap::new() }, held: None };
                let near = match &question {
                    Some(question) => search.near(question, self.held())?,
                    None => Near::default(),
                };
                let Some(terms) = &by_words else { return search.by_meaning(near) };
                let ranked = match meanwhile.take() {
                    Some(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic))?,
                    None => Ranked::new(connection, terms)?,
                };
                search.by_both(ranked, near, question.as_ref())
            })
        })?;
        let mode = match (&question, sought.mode) {
            (None, _) => Mode::Keyword,
            (Some(_), Some(Mode::Vector)) => Mode::Vector,
            (Some(_), _) => Mode::Hybrid,
        };
        let waiting = if question.is_some() { self.waiting()? } else { 0 };
        let (hits, confidence) = found;
        Ok(Found { hits, confidence, mode, waiting, without_model })
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

/// Chunks with their cosines, the nearest first, and the cosine that says nothing.
#[derive(Default)]
struct Near {
    found: Vec<(i64, f32)>,
    background: f64,
}

/// One search within one transaction.
struct Search<'a> {
    connection: &'a Connection,
    sieve: Sieve<'a>,
    held: Option<MutexGuard<'a, Held>>,
}

impl<'a> Search<'a> {
    /// The chunks nearest to a question among those that are let through.
    fn near(&mut self, (vector, model): &Question, held: MutexGuard<'a, Held>) -> Result<Near, IndexError> {
        let held = self.held.insert(held);
        held.refresh(self.connection, model)?;
        let mut lets = |file| self.sieve.lets(self.connection, file);
        let found = held.nearest(self.connection, vector, CANDIDATES, &mut lets)?;
        Ok(Near { found, background: background(held.mean(vector), held.len()) })
    }

    /// The hits by their cosines alone.
    fn by_meaning(&self, near: Near) -> Result<(Vec<Hit>, f64), IndexError> {
        let candidate = |(id, cosine): &(i64, f32)| Candidate {
            id: *id,
            words: Evidence::default(),
            cosine: Some(*cosine),
        };
        let fused = fuse(&Weights::new(0, &[]), near.background, near.found.iter().map(candidate).collect());
        let mut hits = Vec::new();
        for (id, cosine) in near.found.into_iter().take(self.sieve.sought.most) {
            hits.extend(hit(self.connection, id, Score::Cosine(cosine))?);
        }
        Ok((hits, fused.confidence))
    }

    /// The hits by words, and by meaning where there are vectors.
    fn by_both(
        &mut self,
        mut ranked: Ranked,
        near: Near,
        question: Option<&Question>,
    ) -> Result<(Vec<Hit>, f64), IndexError> {
        let by_words = self.let_through(&mut ranked)?;
        let mut cosines: HashMap<i64, f32> = near.found.into_iter().collect();
        let mut candidates: Vec<Candidate> = Vec::with_capacity(by_words.len() + cosines.len());
        for (id, words) in by_words {
            let cosine = match (cosines.remove(&id), question) {
                (None, Some((vector, model))) => cosine(self.connection, id, model, vector)?,
                (known, _) => known,
            };
            candidates.push(Candidate { id, words, cosine });
        }
        for (id, cosine) in cosines {
            candidates.push(Candidate {
                id,
                words: ranked.evidence(self.connection, id)?,
                cosine: Some(cosine),
            });
        }
        let compared: HashSet<i64> = candidates
            .iter()
            .filter(|candidate| candidate.cosine.is_some())
            .map(|candidate| candidate.id)
            .collect();
        let Fused { order, confidence } = fuse(&ranked.weights, near.background, candidates);
        let mut hits = Vec::new();
        for scored in order.into_iter().take(self.sieve.sought.most) {
            #[expect(clippy::cast_possible_truncation, reason = "from 0 to 1")]
            let value = scored.score as f32;
            let score = if compared.contains(&scored.id) { Score::Both(value) } else { Score::Words(value) };
            hits.extend(hit(self.connection, scored.id, score)?);
        }
        Ok((hits, confidence))
    }

    /// The best by their words of those that are let through.
    fn let_through(&mut self, ranked: &mut Ranked) -> Result<Vec<(i64, Evidence)>, IndexError> {
        let mut file_of = self.connection.prepare_cached("SELECT file FROM chunks WHERE id = ?")?;
        loop {
            let mut kept = Vec::new();
            for (id, evidence) in &ranked.found {
                let file = match self.held.as_ref().and_then(|held| held.file_of(*id)) {
                    Some(file) => Some(file),
                    None => file_of.query_row([id], |row| row.get(0)).optional()?,
                };
                if let Some(file) = file
                    && self.sieve.lets(self.connection, file)?
                {
                    kept.push((*id, *evidence));
                }
            }
            if kept.len() >= CANDIDATES || ranked.is_all {
                kept.truncate(CANDIDATES);
                return Ok(kept);
            }
            if (self.sieve.sought.stop)() {
                return Err(IndexError::Stopped);
            }
            ranked.more(self.connection)?;
        }
    }
}

/// One chunk as it is shown.
fn hit(connection: &Connection, id: i64, score: Score) -> Result<Option<Hit>, IndexError> {
    let row = connection
        .prepare_cached(
            "SELECT f.path, c.section, c.first_line, c.last_line, c.text FROM chunks c
             JOIN files f ON f.id = c.file WHERE c.id = ?",
        )?
        .query_row([id], |row| {
            let path: Vec<u8> = row.get(0)?;
            let lines = (row.get::<_, i64>(2)?.cast_unsigned(), row.get::<_, i64>(3)?.cast_unsigned());
            Ok((PathBuf::from(std::ffi::OsStr::from_bytes(&path)), row.get(1)?, lines, row.get(4)?))
        })
        .optional()?;
    Ok(row.map(|(path, section, lines, content)| Hit { path, section, lines, content, score }))
}

/// The cosine of a chunk's vector and the question's, which both have the length one; none where it has no vector of the model.
fn cosine(connection: &Connection, id: i64, model: &[u8], question: &[f32]) -> rusqlite::Result<Option<f32>> {
    connection
        .prepare_cached(
            "SELECT e.vector FROM chunks c JOIN embeddings e ON e.hash = c.hash AND e.model = ?2 WHERE c.id = ?1",
        )?
        .query_row(params![id, model], |row| Ok(cosine_of(row.get_ref(0)?.as_blob()?, question)))
        .optional()
}
