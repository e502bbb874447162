//! The memory of all agents, and the part of it that one call sees.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use retrieval::embedder::{Embedder, Failure, OpenModel};
use store_api::{ChangeOutcome, Memory, MemoryCaller, MemoryVersion, Store, StoreError};

use crate::batch::embed_some;
use crate::question::Questions;
use crate::search::{QueryVector, SearchResult, search};
use crate::worker::Worker;

/// Time for which a search waits for the vector of its question, including opening the model.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time after which a search makes no further batch of missing vectors. The rest is made after the
/// answer.
const SHORT: Duration = Duration::from_secs(2);

/// The memory of the agents of one store.
///
/// A search makes the missing vectors, not a write. No write therefore waits for a model, and
/// memories from the time before there was one are found by their meaning too. A model may be slow
/// or broken: a search waits for it a few seconds, then searches by words only, and reports so.
#[derive(Clone)]
pub struct Memories {
    store: Arc<dyn Store>,
    meaning: Option<Arc<Meaning>>,
}

/// The model, and the work with it.
struct Meaning {
    questions: Questions,
    worker: Worker,
    patience: Duration,
}

/// The memory as one call sees it.
pub struct AgentMemory {
    store: Arc<dyn Store>,
    meaning: Option<Arc<Meaning>>,
    who: MemoryCaller,
    earlier: Option<String>,
}

/// Reason why the memory has not done what it should.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The memory does not exist.
    #[error("there is no memory under this key or id")]
    Unknown,
    /// The memory already exists, or has another version than expected.
    #[error("the memory already exists with version {}", .0.version)]
    Conflict(Box<Memory>),
    /// The agent has reached its maximum number of memories.
    #[error("the memory of the agent is full")]
    Full,
    /// The caller stopped the search.
    #[error("the search was stopped")]
    Stopped,
    /// The memory cannot be read or written.
    #[error("the memory cannot be read or written")]
    Store(#[from] StoreError),
}

impl Memories {
    /// Opens the memory of a store, with the function that opens the model, if one is set up.
    pub fn new(store: Arc<dyn Store>, model: Option<OpenModel>) -> Self {
        let meaning = |model| Meaning {
            questions: Questions::new(model),
            worker: Worker::default(),
            patience: PATIENCE,
        };
        Self { store, meaning: model.map(meaning).map(Arc::new) }
    }

    /// Returns the memory that a caller sees. `earlier` is the name under which an earlier version
    /// kept the memories of this agent.
    pub fn of(&self, who: MemoryCaller, earlier: Option<String>) -> AgentMemory {
        AgentMemory { store: self.store.clone(), meaning: self.meaning.clone(), who, earlier }
    }

    /// Returns true if the thread that makes vectors after the answers is at work.
    pub fn is_working(&self) -> bool {
        self.meaning.as_ref().is_some_and(|meaning| meaning.worker.is_running())
    }

    /// Asks the threads of the memory to end. Does not wait.
    pub fn request_stop(&self) {
        if let Some(meaning) = &self.meaning {
            meaning.questions.stop();
            meaning.worker.request_stop();
        }
    }

    /// Ends the thread that makes vectors after the answers, and waits until it has ended. Tells the
    /// threads that work on questions to end. Later searches go by words.
    pub fn stop(&self) {
        self.request_stop();
        if let Some(meaning) = &self.meaning {
            meaning.worker.stop();
        }
    }
}

impl AgentMemory {
    /// Creates a memory. Without a key, the id is the key.
    ///
    /// # Errors
    /// Returns [`MemoryError::Conflict`] if the key exists already.
    pub fn create(
        &self,
        key: &str,
        content: &str,
        shared: bool,
        now: Timestamp,
    ) -> Result<Memory, MemoryError> {
        // A call creates one memory, so the call's id identifies the memory too.
        let id = format!("m{}", self.who.call);
        let key = if key.is_empty() { &id } else { key };
        changed(self.rows()?.create(&self.at(now), &id, (key, content), shared)?)
    }

    /// Returns the memory with this key or id.
    ///
    /// # Errors
    /// Returns [`MemoryError::Unknown`] if the memory does not exist.
    pub fn read(&self, key: &str) -> Result<Memory, MemoryError> {
        self.rows()?.read(&self.who, key)?.ok_or(MemoryError::Unknown)
    }

    /// Replaces the text of a memory.
    ///
    /// # Errors
    /// Returns [`MemoryError::Unknown`] if the memory does not exist, and [`MemoryError::Conflict`]
    /// if its version differs from `version`.
    pub fn update(
        &self,
        key: &str,
        content: &str,
        version: Option<u64>,
        now: Timestamp,
    ) -> Result<Memory, MemoryError> {
        changed(self.rows()?.update(&self.at(now), key, content, version)?)
    }

    /// Deletes a memory from every list; its history remains.
    ///
    /// # Errors
    /// Returns the errors of [`AgentMemory::update`].
    pub fn delete(&self, key: &str, version: Option<u64>, now: Timestamp) -> Result<Memory, MemoryError> {
        changed(self.rows()?.delete(&self.at(now), key, version)?)
    }

    /// Lists the memories whose key starts with `prefix`, after skipping `skip` of them, and whether
    /// more follow.
    ///
    /// # Errors
    /// Returns an error if the memory cannot be read.
    pub fn list(&self, prefix: &str, skip: u64, limit: u32) -> Result<(Vec<Memory>, bool), MemoryError> {
        Ok(self.rows()?.list(&self.who, prefix, (skip, limit))?)
    }

    /// Searches for memories that match a question by words, and by meaning if a model is set up.
    ///
    /// # Errors
    /// Returns an error if the memory cannot be read, and [`MemoryError::Stopped`] if `stop` returns
    /// true.
    pub fn search(
        &self,
        question: &str,
        (skip, limit): (u64, u32),
        stop: &dyn Fn() -> bool,
    ) -> Result<SearchResult, MemoryError> {
        let rows = self.rows()?;
        let (mut asked, mut waiting, mut without_model) = (None, 0, None);
        if let Some(meaning) = &self.meaning {
            match meaning.questions.ask(question, meaning.patience, stop) {
                Ok(question) => {
                    waiting = meaning.catch_up(&self.store, &self.who, &question.model, stop);
                    asked = Some(question);
                }
                Err(Failure::Failed(why)) => without_model = Some(why),
                Err(stopped @ Failure::Stopped) => without_model = Some(stopped.to_string()),
            }
            if stop() {
                return Err(MemoryError::Stopped);
            }
        }
        let vector = asked
            .as_ref()
            .map(|asked| QueryVector { vector: &asked.vector, model: &asked.model.model().hash });
        let found = search(rows, &self.who, question, vector, (skip, limit))?;
        Ok(SearchResult { by_meaning: asked.is_some(), waiting, without_model, ..found })
    }

    /// Lists every version of a memory, including a deleted one.
    ///
    /// # Errors
    /// Returns [`MemoryError::Unknown`] if the memory never existed.
    pub fn history(&self, key: &str) -> Result<Vec<MemoryVersion>, MemoryError> {
        let versions = self.rows()?.history(&self.who, key)?;
        if versions.is_empty() { Err(MemoryError::Unknown) } else { Ok(versions) }
    }

    /// Returns the rows, after adopting those under the earlier name of the agent.
    fn rows(&self) -> Result<&dyn store_api::Memories, StoreError> {
        let rows = self.store.memories();
        if let Some(earlier) = &self.earlier {
            rows.adopt(earlier, &self.who.agent)?;
        }
        Ok(rows)
    }

    fn at(&self, now: Timestamp) -> MemoryCaller {
        MemoryCaller { now, ..self.who.clone() }
    }
}

impl Meaning {
    /// Makes a few of the missing vectors now, and the others after the answer, as long as this
    /// program runs. Returns the number of memories that have no vectors yet.
    fn catch_up(
        &self,
        store: &Arc<dyn Store>,
        who: &MemoryCaller,
        model: &Arc<dyn Embedder>,
        stop: &dyn Fn() -> bool,
    ) -> u64 {
        let rows = store.memories();
        let count = || rows.unembedded(who, &model.model().hash, 0).map_or(0, |(count, _)| count);
        if who.only_tries {
            return count();
        }
        let began = Instant::now();
        let ends = || stop() || began.elapsed() >= self.patience;
        // A failure here must not fail the search, which works without these vectors.
        while let Ok(left) = embed_some(rows, who, model.as_ref(), &ends) {
            if left == 0 {
                return 0;
            }
            if ends() || began.elapsed() >= SHORT {
                let (store, who, model) = (Arc::downgrade(store), who.clone(), model.clone());
                // A failure repeats at the next search, which reports it.
                self.worker.start(move |stop| {
                    store.upgrade().is_some_and(|store| {
                        embed_some(store.memories(), &who, model.as_ref(), stop).is_ok_and(|left| left > 0)
                    })
                });
                return left;
            }
        }
        count()
    }
}

fn changed(outcome: ChangeOutcome) -> Result<Memory, MemoryError> {
    match outcome {
        ChangeOutcome::Done(memory) => Ok(memory),
        ChangeOutcome::Unknown => Err(MemoryError::Unknown),
        ChangeOutcome::Conflict(memory) => Err(MemoryError::Conflict(Box::new(memory))),
        ChangeOutcome::Full => Err(MemoryError::Full),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::fake::{Letters, World, who};

    #[test]
    fn memories_from_before_there_was_a_model_get_their_vectors_in_small_batches() {
        let world = World::new();
        let (one, other) = (who("one"), who("other"));
        for number in 0..40 {
            let content = format!("{} {number}", if number == 3 { "boat".repeat(2_000) } else { "x".into() });
            world.create(&one, &format!("m{number}"), (&format!("m{number}"), &content));
        }
        // Memories of another agent stay unchanged.
        world.create(&other, "o", ("theirs", "boat"));
        let model = Letters::new();
        let opened: Arc<dyn Embedder> = model.clone();
        let memories = Memories::new(world.store.clone(), Some(Arc::new(|| Err(String::new()))));
        let meaning = memories.meaning.as_ref().unwrap();
        let tries = MemoryCaller { only_tries: true, ..one.clone() };
        assert_eq!(meaning.catch_up(&world.store, &tries, &opened, &|| false), 40);
        assert_eq!(meaning.catch_up(&world.store, &one, &opened, &|| false), 0);
        assert!(model.most() <= crate::batch::TEXTS + crate::batch::MAX_PIECES, "{}", model.most());
        assert_eq!(world.waiting(&other), 1);
    }

    #[test]
    fn a_search_without_its_model_goes_by_words_and_reports_why() {
        let world = World::new();
        world.create(&who("one"), "m1", ("k", "boats"));
        let broken: OpenModel = Arc::new(|| Err("its file is damaged".to_owned()));
        let memories = Memories::new(world.store.clone(), Some(broken));
        let found = memories.of(who("one"), None).search("boat", (0, 5), &|| false).unwrap();
        assert_eq!((found.memories.len(), found.by_meaning), (1, false));
        assert_eq!(found.without_model.as_deref(), Some("its file is damaged"));
        let stopped = memories.of(who("one"), None).search("boat", (0, 5), &|| true);
        assert!(matches!(stopped, Err(MemoryError::Stopped)), "{stopped:?}");
    }

    #[test]
    fn a_stopped_memory_has_no_thread_left_and_searches_by_words() {
        let world = World::new();
        world.create(&who("one"), "m1", ("k", "boats"));
        let (release, waits) = channel();
        let slow = Letters::that_waits(waits);
        let opened: Arc<dyn Embedder> = slow.clone();
        let opens: OpenModel = Arc::new(move || Ok(opened.clone()));
        let memories = Memories::new(world.store.clone(), Some(opens));
        let meaning = memories.meaning.as_ref().unwrap();
        let (store, model) = (Arc::downgrade(&world.store), slow.clone());
        meaning.worker.start(move |stop| {
            store.upgrade().is_some_and(|store| {
                embed_some(store.memories(), &who("one"), model.as_ref(), stop).is_ok_and(|left| left > 0)
            })
        });
        slow.wait_until_asked();
        // The model still waits: without the stop, the thread would never end.
        memories.stop();
        assert!(!meaning.worker.is_running());
        let found = memories.of(who("one"), None).search("boat", (0, 5), &|| false).unwrap();
        assert_eq!((found.memories.len(), found.by_meaning, world.waiting(&who("one"))), (1, false, 1));
        drop(release);
    }

    #[test]
    fn the_memories_under_an_earlier_name_belong_to_the_agent() {
        let world = World::new();
        world.create(&who("old"), "m1", ("k", "boats"));
        let memories = Memories::new(world.store.clone(), None);
        assert!(matches!(memories.of(who("new"), None).read("k"), Err(MemoryError::Unknown)));
        let memory = memories.of(who("new"), Some("old".to_owned()));
        assert_eq!(memory.read("k").unwrap().content, "boats");
    }
}
