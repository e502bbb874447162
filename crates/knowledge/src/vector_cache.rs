//! In-memory vectors of one model, synchronized with the index.

use retrieval::nearest::{self, Nearest};
use retrieval::numbers;
use rusqlite::{Connection, OptionalExtension, params};

use crate::IndexError;

/// Data of a chunk next to its vector, so that filtered chunks need no look-up.
pub(crate) struct ChunkFacts {
    file: i64,
    embedding: i64,
}

/// The vectors in memory, with the state of the index that they reflect.
#[derive(Default)]
pub(crate) struct VectorCache {
    model: Vec<u8>,
    vectors: nearest::Index<ChunkFacts>,
    changes: i64,
    removals: i64,
    last_chunk: i64,
    last_embedding: i64,
}

impl VectorCache {
    /// Loads vectors that were added to the index and drops removed ones. Another model replaces
    /// all vectors.
    pub(crate) fn refresh(&mut self, connection: &Connection, model: &[u8]) -> Result<(), IndexError> {
        let (changes, removals): (i64, i64) = connection
            .prepare_cached("SELECT changes, removals FROM state")?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        // Lower counters mean that the index was rebuilt: start from the beginning.
        if self.model != model || changes < self.changes || removals < self.removals {
            *self = Self { model: model.to_owned(), ..Self::default() };
        }
        if changes == self.changes && !self.vectors.is_empty() {
            return Ok(());
        }
        if removals != self.removals {
            self.let_go(connection)?;
            self.removals = removals;
        }
        let (chunk, embedding) = (self.last_chunk, self.last_embedding);
        // First chunks with new vectors, then new chunks with existing vectors.
        self.take(
            connection,
            "SELECT c.id, c.file, e.id, e.vector FROM embeddings e JOIN chunks c ON c.hash = e.hash WHERE e.model = ?1 AND e.id > ?2",
            embedding,
        )?;
        self.take(
            connection,
            "SELECT c.id, c.file, e.id, e.vector FROM chunks c JOIN embeddings e ON e.hash = c.hash AND e.model = ?1 WHERE c.id > ?2",
            chunk,
        )?;
        self.changes = changes;
        Ok(())
    }

    fn take(&mut self, connection: &Connection, sql: &str, from: i64) -> Result<(), IndexError> {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params![self.model, from])?;
        while let Some(row) = rows.next()? {
            let (chunk, file, embedding): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            self.last_chunk = self.last_chunk.max(chunk);
            self.last_embedding = self.last_embedding.max(embedding);
            let vector = numbers(row.get_ref(3)?.as_blob().unwrap_or_default());
            if self.vectors.is_empty() {
                self.vectors = nearest::Index::new(vector.len());
            }
            if self.vectors.note(chunk).is_none() {
                self.vectors.add(chunk, ChunkFacts { file, embedding }, &vector);
            }
        }
        Ok(())
    }

    fn let_go(&mut self, connection: &Connection) -> Result<(), IndexError> {
        let mut statement = connection.prepare_cached("SELECT id FROM chunks ORDER BY id")?;
        let there: Vec<i64> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        self.vectors.retain(|id| there.binary_search(&id).is_ok());
        Ok(())
    }

    /// Returns the file of a chunk, if its vector is in memory.
    pub(crate) fn file_of(&self, chunk: i64) -> Option<i64> {
        self.vectors.note(chunk).map(|known| known.file)
    }

    /// Returns the number of vectors.
    pub(crate) fn len(&self) -> usize {
        self.vectors.len()
    }

    /// Returns the chunks nearest to `vector` whose files `lets` accepts, with cosines, in
    /// descending order.
    pub(crate) fn nearest(
        &self,
        connection: &Connection,
        vector: &[f32],
        most: usize,
        lets: &mut dyn FnMut(i64) -> rusqlite::Result<bool>,
    ) -> Result<Nearest, IndexError> {
        let mut statement =
            connection.prepare_cached("SELECT vector FROM embeddings WHERE id = ? AND model = ?")?;
        let found =
            self.vectors.search(vector, most, &mut |_, known| lets(known.file), &mut |_, known| {
                let row = params![known.embedding, self.model];
                statement.query_row(row, |row| Ok(numbers(row.get_ref(0)?.as_blob()?))).optional()
            })?;
        Ok(found)
    }
}
