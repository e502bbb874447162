//! Vectors for the meaning of memories and questions, if a model is set up.
//!
//! A search makes the vectors, not a write. No write therefore waits for a model, and memories from
//! the time before there was one are found by their meaning too. A model may be slow or broken: a
//! search waits for it a few seconds, then searches by words only, and reports so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use retrieval::embedder::{Embedder, Failure, OpenModel};
use store::{MemoryCaller, Store, Unembedded};
use tool::Stop;

/// Time for which a search waits for the vector of its question, including opening the model.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Time after which a search makes no further batch of missing vectors. The rest is made after the
/// answer.
const SHORT: Duration = Duration::from_secs(2);

/// Interval at which stop requests are checked.
const LOOK: Duration = Duration::from_millis(20);

/// Number of questions that the model may work on at once. A further search goes by words.
const MAX_ASKED: usize = 8;

/// Number of texts per batch, from which no further memory is added, and number of memories that
/// are read for a batch.
const TEXTS: usize = 16;
const MEMORIES: u32 = 16;

/// Characters of one piece of a text, which most models read to the end, and pieces of one text.
/// The rest of a text is found by its words.
const PIECE: usize = 900;
const MAX_PIECES: usize = 8;

/// The model and its work in progress.
pub(crate) struct Meanings {
    opens: OpenModel,
    patience: Duration,
    /// Counter of running questions: each holds one clone.
    asked: Arc<()>,
    /// True if a thread makes vectors after the answers.
    works: Arc<AtomicBool>,
}

/// A question as a vector, and the model that made it.
pub(crate) struct Question {
    pub(crate) vector: Vec<f32>,
    pub(crate) model: Arc<dyn Embedder>,
}

impl Meanings {
    pub(crate) fn new(opens: OpenModel) -> Self {
        Self { opens, patience: TIMEOUT, asked: Arc::default(), works: Arc::default() }
    }

    /// Returns the vector of a question. A thread of its own makes it, because a model that does
    /// not open or answer cannot be interrupted.
    pub(crate) fn question(&self, text: &str, stop: &Stop) -> Result<Question, Failure> {
        if Arc::strong_count(&self.asked) > MAX_ASKED {
            return Err(Failure::Failed("the model is still busy with earlier requests".to_owned()));
        }
        let (says, hears) = channel();
        let gone = Arc::new(AtomicBool::new(false));
        let (opens, text, asked, ends) =
            (self.opens.clone(), text.to_owned(), self.asked.clone(), gone.clone());
        let work = move || {
            let answer = ask(&opens, &text, &|| ends.load(Ordering::Relaxed));
            drop(asked);
            // A receiver that is gone needs no answer.
            let _ = says.send(answer);
        };
        let begun = std::thread::Builder::new().name("meaning".to_owned()).spawn(work);
        begun.map_err(|error| Failure::Failed(format!("cannot start a thread: {error}")))?;
        let began = Instant::now();
        loop {
            let failure = match hears.recv_timeout(LOOK) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Failed("the model ended without an answer".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) if stop.requested().is_some() => Failure::Stopped,
                Err(RecvTimeoutError::Timeout) if began.elapsed() >= self.patience => {
                    let seconds = self.patience.as_secs_f32();
                    Failure::Failed(format!("it has not answered within {seconds} seconds"))
                }
                Err(RecvTimeoutError::Timeout) => continue,
            };
            gone.store(true, Ordering::Relaxed);
            return Err(failure);
        }
    }

    /// Makes a few of the missing vectors now, and the others after the answer, as long as this
    /// program runs. Returns the number of memories that have no vectors yet.
    pub(crate) fn catch_up(
        &self,
        store: &Arc<Store>,
        who: &MemoryCaller,
        model: &Arc<dyn Embedder>,
        stop: &Stop,
    ) -> u64 {
        let count = || store.memories().unread(who, &model.model().hash, 0).map_or(0, |(count, _)| count);
        if who.only_tries {
            return count();
        }
        let began = Instant::now();
        let ends = || stop.requested().is_some() || began.elapsed() >= self.patience;
        // A failure here must not fail the search, which works without these vectors.
        while let Ok(left) = read_some(store, who, model.as_ref(), &ends) {
            if left == 0 {
                return 0;
            }
            if ends() || began.elapsed() >= SHORT {
                self.read_behind(store, who, model);
                return left;
            }
        }
        count()
    }

    fn read_behind(&self, store: &Arc<Store>, who: &MemoryCaller, model: &Arc<dyn Embedder>) {
        if self.works.swap(true, Ordering::SeqCst) {
            return;
        }
        let (store, who, model) = (Arc::downgrade(store), who.clone(), model.clone());
        let works = self.works.clone();
        let begun = std::thread::Builder::new().name("meanings".to_owned()).spawn(move || {
            // A failure here repeats at the next search, which reports it.
            let next = |store: &Weak<Store>| {
                let store = store.upgrade()?;
                read_some(&store, &who, model.as_ref(), &|| false).ok()
            };
            while next(&store).is_some_and(|left| left > 0) {}
            works.store(false, Ordering::SeqCst);
        });
        if begun.is_err() {
            self.works.store(false, Ordering::SeqCst);
        }
    }
}

fn ask(opens: &OpenModel, text: &str, stop: &dyn Fn() -> bool) -> Result<Question, Failure> {
    let model = opens().map_err(Failure::Failed)?;
    let vector = model.embed(&[text], stop)?.pop();
    let vector = vector.ok_or_else(|| Failure::Failed("it returned no vector".to_owned()))?;
    Ok(Question { vector, model })
}

/// Makes the vectors of the newest memories that have none, as many as fit into one batch, each
/// stored with all of its pieces. Returns the number of memories left.
fn read_some(
    store: &Store,
    who: &MemoryCaller,
    model: &dyn Embedder,
    stop: &dyn Fn() -> bool,
) -> Result<u64, String> {
    let hash = &model.model().hash;
    let memories = store.memories();
    let (count, unread) = memories.unread(who, hash, MEMORIES).map_err(|error| error.to_string())?;
    if unread.is_empty() {
        return Ok(0);
    }
    let mut texts: Vec<String> = Vec::new();
    let mut taken: Vec<(&Unembedded, usize)> = Vec::new();
    for unread in &unread {
        if texts.len() >= TEXTS {
            break;
        }
        let pieces = pieces(unread);
        taken.push((unread, pieces.len()));
        texts.extend(pieces);
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = model.embed(&texts, stop).map_err(|failure| failure.to_string())?;
    let mut rest = vectors.as_slice();
    let mut kept = Vec::with_capacity(taken.len());
    for (unread, many) in taken {
        let (own, others) = rest.split_at_checked(many).ok_or("the model returned too few vectors")?;
        kept.push((unread, own));
        rest = others;
    }
    memories.keep_vectors(hash, &kept).map_err(|error| error.to_string())?;
    Ok(count.saturating_sub(kept.len() as u64))
}

/// Splits a memory into pieces that a model reads to the end, each preceded by its key.
fn pieces(unread: &Unembedded) -> Vec<String> {
    let name = unread.key.as_ref().map_or_else(String::new, |key| format!("{key}: "));
    let mut rest = unread.content.trim();
    let mut pieces = Vec::new();
    while !rest.is_empty() && pieces.len() < MAX_PIECES {
        let (piece, others) = rest.split_at(end_of_piece(rest));
        pieces.push(format!("{name}{}", piece.trim_end()));
        rest = others.trim_start();
    }
    // A memory without text gets a vector too. Otherwise it would count as new every time.
    if pieces.is_empty() {
        pieces.push(name);
    }
    pieces
}

/// Returns the end of a text's first piece: after a word, if there is one.
fn end_of_piece(text: &str) -> usize {
    let Some((end, _)) = text.char_indices().nth(PIECE) else { return text.len() };
    let word = text.get(..end).and_then(|piece| piece.rfind(char::is_whitespace));
    word.filter(|word| *word > end / 2).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

    use jiff::Timestamp;
    use parking_lot::Mutex;
    use retrieval::embedder::Model;

    use super::*;

    /// A model that maps texts with `boat` to one direction and all others to another, and waits if
    /// `waits` is set.
    struct Letters {
        model: Model,
        waits: Option<Mutex<Receiver<()>>>,
        most: Mutex<usize>,
    }

    impl Embedder for Letters {
        fn model(&self) -> &Model {
            &self.model
        }

        fn embed(&self, texts: &[&str], stop: &dyn Fn() -> bool) -> Result<Vec<Vec<f32>>, Failure> {
            if let Some(waits) = &self.waits {
                while !stop() && waits.lock().recv_timeout(LOOK).is_err() {}
                return Err(Failure::Stopped);
            }
            let mut most = self.most.lock();
            *most = texts.len().max(*most);
            let of = |text: &&str| if text.contains("boat") { vec![1.0, 0.0] } else { vec![0.0, 1.0] };
            Ok(texts.iter().map(of).collect())
        }
    }

    fn letters(waits: Option<Receiver<()>>) -> Arc<Letters> {
        let model = Model { name: "letters".to_owned(), hash: [7; 32], dimensions: 2 };
        Arc::new(Letters { model, waits: waits.map(Mutex::new), most: Mutex::default() })
    }

    fn meanings(patience: Duration, opens: OpenModel) -> Meanings {
        Meanings { patience, ..Meanings::new(opens) }
    }

    fn who() -> MemoryCaller {
        let text = |text: &str| text.to_owned();
        MemoryCaller {
            workspace: "/w".into(),
            agent: text("main"),
            session: text("s"),
            call: text("c"),
            now: Timestamp::UNIX_EPOCH,
            only_tries: false,
        }
    }

    #[test]
    fn a_model_that_does_not_answer_is_waited_for_a_while_and_one_that_fails_says_why() {
        let (release, waits) = channel();
        let silent = letters(Some(waits));
        let opens: OpenModel = Arc::new(move || Ok(silent.clone() as Arc<dyn Embedder>));
        let slow = meanings(Duration::from_millis(50), opens);
        let Err(Failure::Failed(why)) = slow.question("q", &Stop::default()) else { panic!() };
        assert!(why.contains("has not answered within 0.05 seconds"), "{why}");
        let stop = Stop::default();
        stop.request(tool::StopReason::Cancelled);
        assert!(matches!(slow.question("q", &stop), Err(Failure::Stopped)));
        drop(release);
        // A model that never opens: no more than a few questions wait for it.
        let (release, waits) = channel::<()>();
        let waits = Mutex::new(waits);
        let opens: OpenModel = Arc::new(move || {
            let _ = waits.lock().recv();
            Err("it is gone".to_owned())
        });
        let stuck = meanings(Duration::ZERO, opens);
        for _ in 0..MAX_ASKED {
            assert!(stuck.question("q", &Stop::default()).is_err());
        }
        let Err(Failure::Failed(why)) = stuck.question("q", &Stop::default()) else { panic!() };
        assert!(why.contains("earlier requests"), "{why}");
        drop(release);
        let broken = meanings(TIMEOUT, Arc::new(|| Err("its file is damaged".to_owned())));
        let Err(Failure::Failed(why)) = broken.question("q", &Stop::default()) else { panic!() };
        assert_eq!(why, "its file is damaged");
    }

    #[test]
    fn what_was_remembered_before_there_was_a_model_gets_its_vectors_in_small_batches() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(folder.path()).unwrap());
        let who = who();
        for number in 0..40 {
            let content = format!("{} {number}", if number == 3 { "boat".repeat(2_000) } else { "x".into() });
            let id = format!("m{number}");
            store.memories().create(&who, &id, (&id, &content), false).unwrap();
        }
        // Memories of another agent stay unchanged.
        let other = MemoryCaller { agent: "other".to_owned(), ..who.clone() };
        store.memories().create(&other, "o", ("theirs", "boat"), false).unwrap();
        let model = letters(None);
        let opened: Arc<dyn Embedder> = model.clone();
        let meanings = meanings(TIMEOUT, Arc::new(|| Err(String::new())));
        let tries = MemoryCaller { only_tries: true, ..who.clone() };
        assert_eq!(meanings.catch_up(&store, &tries, &opened, &Stop::default()), 40);
        assert_eq!(meanings.catch_up(&store, &who, &opened, &Stop::default()), 0);
        assert!(*model.most.lock() <= TEXTS + MAX_PIECES, "{}", model.most.lock());
        assert_eq!(store.memories().unread(&other, &[7; 32], 0).unwrap().0, 1);
    }

    #[test]
    fn a_long_text_is_cut_behind_words_and_only_so_many_pieces_are_read() {
        let unread = |key: Option<&str>, content: String| {
            pieces(&Unembedded { number: 1, version: 1, key: key.map(str::to_owned), content })
        };
        assert_eq!(unread(Some("port"), " 8080 ".to_owned()), ["port: 8080"]);
        assert_eq!(unread(None, String::new()), [""]);
        let long = unread(Some("k"), "some words ".repeat(2_000));
        assert_eq!(long.len(), MAX_PIECES);
        assert!(
            long.iter()
                .all(|piece| piece.starts_with("k: ") && piece.ends_with("some") || piece.ends_with("words"))
        );
        assert!(unread(None, "船".repeat(2_000)).iter().all(|piece| piece.chars().count() <= PIECE));
    }
}
