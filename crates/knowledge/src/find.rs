//! Search: the best chunks by words and the best by meaning, merged by score.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use parking_lot::MutexGuard;
use retrieval::{Candidate, Evidence, RankedTexts, Weights, background, cosine_of, fuse, terms};
use rusqlite::{Connection, OptionalExtension, params};

use crate::bm25::RankedChunks;
use crate::vector_cache::VectorCache;
use crate::{Index, IndexError, Scope};

/// Number of candidates from each of the two searches.
pub(crate) const CANDIDATES: usize = 100;

/// Kind of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Words only.
    Keyword,
    /// Meaning only.
    Vector,
    /// Words and meaning.
    Hybrid,
}

impl Mode {
    /// Returns the name of the mode.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keyword => "keyword",
            Self::Vector => "vector",
            Self::Hybrid => "hybrid",
        }
    }
}

/// Degree to which a chunk fits the query: the number by which hits are sorted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Score {
    /// Combined score of words and meaning, from 0 to 1.
    Both(f32),
    /// Cosine of the vectors, from -1 to 1.
    Cosine(f32),
    /// Score of words only, from 0 to 1: no vector was compared.
    Words(f32),
}

impl Score {
    /// Returns the number.
    pub fn value(self) -> f32 {
        match self {
            Self::Both(value) | Self::Cosine(value) | Self::Words(value) => value,
        }
    }

    /// Returns the kind of the number.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Both(_) => "both",
            Self::Cosine(_) => "cosine",
            Self::Words(_) => "words",
        }
    }
}

/// Parameters of a search.
pub struct SearchQuery<'a> {
    /// Query, any text.
    pub query: &'a str,
    /// Part of the base; `None` for all of it.
    pub scope: Option<Scope>,
    /// Kind of the search; `None` for the best available.
    pub mode: Option<Mode>,
    /// Maximum number of hits.
    pub most: usize,
    /// Function that returns true if a file exists and the caller may read it. Other files produce no hits.
    pub may_read: &'a dyn Fn(&Path) -> bool,
    /// Function that returns true to stop the search.
    pub stop: &'a dyn Fn() -> bool,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResult {
    /// Hits, the best first.
    pub hits: Vec<Hit>,
    /// Confidence that a hit answers the query, from 0 to 1.
    pub confidence: f64,
    /// Kind of the search that was made.
    pub mode: Mode,
    /// Number of chunks without a vector, which were searched by words only.
    pub waiting: u64,
    /// Reason why a configured model was not used.
    pub without_model: Option<String>,
}

/// A found chunk.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// File of the chunk, relative to the base.
    pub path: PathBuf,
    /// Headings above the chunk, separated by ` > `.
    pub section: String,
    /// Line range of the chunk, from 1, both ends included.
    pub lines: (u64, u64),
    /// Text of the chunk.
    pub content: String,
    /// Score of the chunk.
    pub score: Score,
}

impl Index {
    /// Finds the chunks of the index that fit a query best.
    ///
    /// # Errors
    /// An error if the index cannot be read.
    pub fn find(&self, sought: &SearchQuery<'_>) -> Result<SearchResult, IndexError> {
        let mut without_model = None;
        let wants_meaning = sought.mode != Some(Mode::Keyword) && !sought.query.trim().is_empty();
        let question = if wants_meaning { self.question(sought, &mut without_model)? } else { None };
        let by_words = (sought.mode != Some(Mode::Vector)).then(|| terms(sought.query));
        let found = thread::scope(|scope| {
            // Both searches take about the same time, so run them in parallel.
            let both = question.is_some().then_some(()).and(by_words.as_deref());
            let mut meanwhile = both.and_then(|terms| {
                let work = || self.read(&mut |connection| Ok(RankedChunks::new(connection, terms)?));
                thread::Builder::new().name("words".to_owned()).spawn_scoped(scope, work).ok()
            });
            self.read(&mut |connection| {
                let mut search =
                    Search { connection, sieve: AccessFilter { sought, files: HashMap::new() }, held: None };
                let near = match &question {
                    Some(question) => search.near(question, self.held())?,
                    None => NearestChunks::default(),
                };
                let Some(terms) = &by_words else { return search.by_meaning(near) };
                let ranked = match meanwhile.take() {
                    Some(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic))?,
                    None => RankedChunks::new(connection, terms)?,
                };
                search.by_both(&ranked, near, question.as_ref())
            })
        })?;
        let mode = match (&question, sought.mode) {
            (None, _) => Mode::Keyword,
            (Some(_), Some(Mode::Vector)) => Mode::Vector,
            (Some(_), _) => Mode::Hybrid,
        };
        let waiting = if question.is_some() { self.waiting()? } else { 0 };
        let (hits, confidence) = found;
        Ok(SearchResult { hits, confidence, mode, waiting, without_model })
    }

    /// Embeds the query. Returns its vector and the hash of the model.
    fn question(
        &self,
        sought: &SearchQuery<'_>,
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

/// Vector of a query, and hash of the model that computed it.
type Question = (Vec<f32>, Vec<u8>);

/// A filter by scope and permission, which asks once per file.
struct AccessFilter<'a> {
    sought: &'a SearchQuery<'a>,
    files: HashMap<i64, bool>,
}

impl AccessFilter<'_> {
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

/// Nearest chunks with their cosines, in descending order, and the cosine of an unrelated chunk.
#[derive(Default)]
struct NearestChunks {
    found: Vec<(i64, f32)>,
    background: f64,
}

/// One search within one transaction.
struct Search<'a> {
    connection: &'a Connection,
    sieve: AccessFilter<'a>,
    held: Option<MutexGuard<'a, VectorCache>>,
}

impl<'a> Search<'a> {
    /// Finds the chunks nearest to the query, among the permitted ones.
    fn near(
        &mut self,
        (vector, model): &Question,
        held: MutexGuard<'a, VectorCache>,
    ) -> Result<NearestChunks, IndexError> {
        let held = self.held.insert(held);
        held.refresh(self.connection, model)?;
        let mut lets = |file| self.sieve.lets(self.connection, file);
        let nearest = held.nearest(self.connection, vector, CANDIDATES, &mut lets)?;
        Ok(NearestChunks { found: nearest.found, background: background(nearest.mean, held.len()) })
    }

    /// Returns hits by cosine only.
    fn by_meaning(&self, near: NearestChunks) -> Result<(Vec<Hit>, f64), IndexError> {
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

    /// Returns hits by words, and by meaning for chunks with vectors.
    fn by_both(
        &mut self,
        ranked: &RankedChunks,
        near: NearestChunks,
        question: Option<&Question>,
    ) -> Result<(Vec<Hit>, f64), IndexError> {
        let by_words = self.let_through(ranked)?;
        let mut cosines: HashMap<i64, f32> = near.found.into_iter().collect();
        let mut candidates: Vec<Candidate> = Vec::with_capacity(by_words.len() + cosines.len());
        for id in by_words {
            let cosine = match (cosines.remove(&id), question) {
                (None, Some((vector, model))) => cosine(self.connection, id, model, vector)?,
                (known, _) => known,
            };
            candidates.push(Candidate { id, words: ranked.evidence(id), cosine });
        }
        for (id, cosine) in cosines {
            candidates.push(Candidate { id, words: ranked.evidence(id), cosine: Some(cosine) });
        }
        let compared: HashSet<i64> = candidates
            .iter()
            .filter(|candidate| candidate.cosine.is_some())
            .map(|candidate| candidate.id)
            .collect();
        let RankedTexts { order, confidence } = fuse(&ranked.weights, near.background, candidates);
        let mut hits = Vec::new();
        for scored in order.into_iter().take(self.sieve.sought.most) {
            #[expect(clippy::cast_possible_truncation, reason = "from 0 to 1")]
            let value = scored.score as f32;
            let score = if compared.contains(&scored.id) { Score::Both(value) } else { Score::Words(value) };
            hits.extend(hit(self.connection, scored.id, score)?);
        }
        Ok((hits, confidence))
    }

    /// Returns the best permitted candidates by words.
    fn let_through(&mut self, ranked: &RankedChunks) -> Result<Vec<i64>, IndexError> {
        let mut file_of = self.connection.prepare_cached("SELECT file FROM chunks WHERE id = ?")?;
        let mut kept = Vec::new();
        for id in &ranked.order {
            if (self.sieve.sought.stop)() {
                return Err(IndexError::Stopped);
            }
            let file = match self.held.as_ref().and_then(|held| held.file_of(*id)) {
                Some(file) => Some(file),
                None => file_of.query_row([id], |row| row.get(0)).optional()?,
            };
            if let Some(file) = file
                && self.sieve.lets(self.connection, file)?
            {
                kept.push(*id);
                if kept.len() == CANDIDATES {
                    break;
                }
            }
        }
        Ok(kept)
    }
}

/// Loads one chunk as a hit.
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

/// Returns the cosine of a chunk's vector and the query's; `None` if the chunk has no vector of
/// this model. Both vectors have length one.
fn cosine(connection: &Connection, id: i64, model: &[u8], question: &[f32]) -> rusqlite::Result<Option<f32>> {
    connection
        .prepare_cached(
            "SELECT e.vector FROM chunks c JOIN embeddings e ON e.hash = c.hash AND e.model = ?2 WHERE c.id = ?1",
        )?
        .query_row(params![id, model], |row| Ok(cosine_of(row.get_ref(0)?.as_blob()?, question)))
        .optional()
}
