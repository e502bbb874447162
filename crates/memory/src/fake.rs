//! A store with memories and a model of two directions, for the tests.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use jiff::Timestamp;
use retrieval::bytes;
use retrieval::embedder::{Embedder, Failure, Model};
use store_api::{ChangeOutcome, Memory, MemoryCaller, Store};
use store_sqlite::SqliteStore;

use crate::question::LOOK;
use crate::search::{QueryVector, SearchResult, search};

/// Hash of the usual model.
pub(crate) const MODEL: [u8; 32] = [7; 32];

pub(crate) fn who(agent: &str) -> MemoryCaller {
    let text = |text: &str| text.to_owned();
    MemoryCaller {
        workspace: "/w".into(),
        agent: text(agent),
        session: text("s"),
        call: text("c"),
        now: Timestamp::UNIX_EPOCH,
        only_tries: false,
    }
}

/// Returns the vector of a text: one direction for texts about boats, another for all others.
pub(crate) fn direction(text: &str) -> Vec<f32> {
    if text.starts_with('b') || text.contains("boat") { vec![1.0, 0.0] } else { vec![0.0, 1.0] }
}

/// A store in a folder of its own.
pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { store: Arc::new(SqliteStore::open(folder.path()).unwrap()), _folder: folder }
    }

    pub(crate) fn create(&self, who: &MemoryCaller, id: &str, text: (&str, &str)) -> Memory {
        let created = self.store.memories().create(who, id, text, false).unwrap();
        let ChangeOutcome::Done(memory) = created else { panic!("{created:?}") };
        memory
    }

    pub(crate) fn share(&self, who: &MemoryCaller, id: &str, text: (&str, &str)) {
        self.store.memories().create(who, id, text, true).unwrap();
    }

    /// Returns the number of memories that an agent sees and that have no vector.
    pub(crate) fn waiting(&self, who: &MemoryCaller) -> u64 {
        self.store.memories().unembedded(who, &MODEL, 0).unwrap().0
    }

    /// Gives every memory that an agent sees the vector of its direction. Returns their number.
    pub(crate) fn embed(&self, who: &MemoryCaller, model: &[u8; 32]) -> u64 {
        let (count, missing) = self.store.memories().unembedded(who, model, 1_000).unwrap();
        for memory in &missing {
            let vectors = vec![bytes(&direction(&memory.content))];
            self.store.memories().keep_vectors(model, &[(memory, vectors)]).unwrap();
        }
        count
    }

    pub(crate) fn search(
        &self,
        who: &MemoryCaller,
        question: &str,
        meaning: Option<QueryVector<'_>>,
        page: (u64, u32),
    ) -> SearchResult {
        search(self.store.memories(), who, question, meaning, page).unwrap()
    }

    /// Returns the keys of the memories that a search by words and by meaning finds.
    pub(crate) fn keys(&self, who: &MemoryCaller, question: &str, model: &[u8; 32]) -> Vec<String> {
        let vector = direction(question);
        let found = self.search(who, question, Some(QueryVector { vector: &vector, model }), (0, 10));
        assert!(!found.has_more);
        assert!(found.memories.is_sorted_by(|one, next| one.1 >= next.1), "{found:?}");
        found.memories.into_iter().map(|(memory, _)| memory.key).collect()
    }
}

/// A model of [`direction`], which waits until it is stopped if `waits` is set.
pub(crate) struct Letters {
    model: Model,
    waits: Option<Mutex<Receiver<()>>>,
    most: Mutex<usize>,
    asked: Condvar,
}

impl Letters {
    pub(crate) fn new() -> Arc<Self> {
        Self::of(None)
    }

    pub(crate) fn that_waits(until: Receiver<()>) -> Arc<Self> {
        Self::of(Some(Mutex::new(until)))
    }

    fn of(waits: Option<Mutex<Receiver<()>>>) -> Arc<Self> {
        let model = Model { name: "letters".to_owned(), hash: MODEL, dimensions: 2 };
        Arc::new(Self { model, waits, most: Mutex::default(), asked: Condvar::default() })
    }

    /// Returns the largest number of texts that the model was asked for at once.
    pub(crate) fn most(&self) -> usize {
        *self.most.lock()
    }

    /// Blocks until the model is asked for vectors.
    pub(crate) fn wait_until_asked(&self) {
        let mut most = self.most.lock();
        self.asked.wait_while(&mut most, |most| *most == 0);
    }
}

impl Embedder for Letters {
    fn model(&self) -> &Model {
        &self.model
    }

    fn embed(&self, texts: &[&str], stop: &dyn Fn() -> bool) -> Result<Vec<Vec<f32>>, Failure> {
        {
            let mut most = self.most.lock();
            *most = texts.len().max(*most);
        }
        self.asked.notify_all();
        if let Some(waits) = &self.waits {
            while !stop() && waits.lock().recv_timeout(LOOK).is_err() {}
            return Err(Failure::Stopped);
        }
        Ok(texts.iter().map(|text| direction(text)).collect())
    }
}
