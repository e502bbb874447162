//! Computation of missing vectors for the current model.

use retrieval::bytes;
use rusqlite::{Connection, params};

use crate::chunk::embedded;
use crate::open::lock_file;
use crate::{Index, IndexError};

/// Texts per call of the model. At most this many are lost if the process ends.
const AT_ONCE: usize = 64;

/// Result of an embedding run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EmbeddingResult {
    /// Number of texts that got a vector.
    pub made: u64,
    /// Number of texts that still have none.
    pub left: u64,
    /// True if another thread or process computes the rest.
    pub is_elsewhere: bool,
}

/// A chunk without a vector.
struct PendingChunk {
    chunk: i64,
    hash: Vec<u8>,
    text: String,
}

impl Index {
    /// Computes the missing vectors in batches, and stores each batch at once. If another process
    /// is already doing this, returns immediately with the number of texts left.
    ///
    /// # Errors
    /// An error if there is no model, the model fails, or the index cannot be written.
    pub fn embed(
        &self,
        stop: &dyn Fn() -> bool,
        progress: &dyn Fn(u64, u64),
    ) -> Result<EmbeddingResult, IndexError> {
        let model = match self.model() {
            Some(Ok(model)) => model.clone(),
            Some(Err(error)) => return Err(IndexError::Embedding(error.clone())),
            None => return Err(IndexError::Embedding("no model is set up".to_owned())),
        };
        let id = model.model().hash;
        let mut done = EmbeddingResult { left: self.without_vector(&id)?, ..EmbeddingResult::default() };
        if done.left == 0 {
            return Ok(done);
        }
        let lock = lock_file(&self.path().with_extension("embedding"))?;
        if lock.try_lock().is_err() {
            return Ok(EmbeddingResult { is_elsewhere: true, ..done });
        }
        let total = done.left;
        let mut from = 0;
        loop {
            let waiting = self.with(&mut |connection| Ok(waiting(connection, &id, from)?))?;
            let Some(last) = waiting.last() else { break };
            from = last.chunk;
            let texts: Vec<&str> = waiting.iter().map(|waiting| waiting.text.as_str()).collect();
            if stop() {
                return Ok(done);
            }
            let vectors = match model.embed(&texts, stop) {
                Ok(vectors) => vectors,
                Err(_) if stop() => return Ok(done),
                Err(error) => return Err(IndexError::Embedding(error.to_string())),
            };
            self.write(&mut |connection| {
                for (waiting, vector) in waiting.iter().zip(&vectors) {
                    connection
                        .prepare_cached(
                            "INSERT OR IGNORE INTO embeddings (hash, model, vector) VALUES (?, ?, ?)",
                        )?
                        .execute(params![waiting.hash, id.as_slice(), bytes(vector)])?;
                }
                connection.execute("UPDATE state SET changes = changes + 1", [])?;
                Ok(())
            })?;
            done.made += waiting.len() as u64;
            done.left = total.saturating_sub(done.made);
            progress(done.made, total.max(done.made));
        }
        done.left = self.without_vector(&id)?;
        Ok(done)
    }

    /// Returns the number of chunks without a vector of the current model; 0 if there is no model.
    ///
    /// # Errors
    /// An error if the index cannot be read.
    pub fn waiting(&self) -> Result<u64, IndexError> {
        let Some(model) = self.usable_model() else { return Ok(0) };
        let model = model.model().hash;
        let changes: i64 = self.with(&mut |connection| {
            Ok(connection.prepare_cached("SELECT changes FROM state")?.query_row([], |row| row.get(0))?)
        })?;
        // Counting is slower than a search, so the count is cached until the next change.
        let known = *self.counted.lock();
        if let Some((at, count)) = known
            && at == changes
        {
            return Ok(count);
        }
        let count = self.without_vector(&model)?;
        *self.counted.lock() = Some((changes, count));
        Ok(count)
    }

    fn without_vector(&self, model: &[u8]) -> Result<u64, IndexError> {
        self.with(&mut |connection| {
            let count: i64 = connection
                .prepare_cached(
                    "SELECT count(*) FROM chunks c
                     WHERE NOT EXISTS (SELECT 1 FROM embeddings e WHERE e.hash = c.hash AND e.model = ?)",
                )?
                .query_row([model], |row| row.get(0))?;
            Ok(count.cast_unsigned())
        })
    }
}

fn waiting(connection: &Connection, model: &[u8], from: i64) -> rusqlite::Result<Vec<PendingChunk>> {
    let mut statement = connection.prepare_cached(
        "SELECT c.id, c.hash, c.section, c.text, c.heading FROM chunks c
         WHERE c.id > ?2 AND NOT EXISTS (SELECT 1 FROM embeddings e WHERE e.hash = c.hash AND e.model = ?1)
         ORDER BY c.id LIMIT ?3",
    )?;
    let limit = i64::try_from(AT_ONCE).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![model, from, limit], |row| {
        let (section, text): (String, String) = (row.get(2)?, row.get(3)?);
        let heading = usize::try_from(row.get::<_, i64>(4)?).unwrap_or_default();
        Ok(PendingChunk { chunk: row.get(0)?, hash: row.get(1)?, text: embedded(&section, &text, heading) })
    })?;
    rows.collect()
}
