//! The vectors of questions. A model that does not open or answer cannot be interrupted, so each
//! question has a thread of its own, which a search waits for only a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use retrieval::embedder::{Embedder, Failure, OpenModel};

/// Interval at which stop requests are checked.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// Number of questions that the model may work on at once. A further search goes by words.
const MAX_ASKED: usize = 8;

/// The questions that a model works on.
pub(crate) struct Questions {
    opens: OpenModel,
    /// Counter of running questions: each holds one clone.
    asked: Arc<()>,
    stopped: Arc<AtomicBool>,
}

/// A question as a vector, and the model that made it.
pub(crate) struct Question {
    pub(crate) vector: Vec<f32>,
    pub(crate) model: Arc<dyn Embedder>,
}

impl Questions {
    pub(crate) fn new(opens: OpenModel) -> Self {
        Self { opens, asked: Arc::default(), stopped: Arc::default() }
    }

    /// Tells the threads of all questions to end, and refuses later questions.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Returns the vector of a question, if the model answers within `patience`.
    pub(crate) fn ask(
        &self,
        text: &str,
        patience: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<Question, Failure> {
        let is_stopped = || self.stopped.load(Ordering::SeqCst) || stop();
        if is_stopped() {
            return Err(Failure::Stopped);
        }
        if Arc::strong_count(&self.asked) > MAX_ASKED {
            return Err(Failure::Failed("the model is still busy with earlier requests".to_owned()));
        }
        let (sender, receiver) = channel();
        let gone = Arc::new(AtomicBool::new(false));
        let (opens, text, asked) = (self.opens.clone(), text.to_owned(), self.asked.clone());
        let (ends, all_end) = (gone.clone(), self.stopped.clone());
        let work = move || {
            let stop = || ends.load(Ordering::Relaxed) || all_end.load(Ordering::SeqCst);
            let answer = embed(&opens, &text, &stop);
            drop(asked);
            // A receiver that is gone needs no answer.
            let _ = sender.send(answer);
        };
        let begun = std::thread::Builder::new().name("memory-question".to_owned()).spawn(work);
        begun.map_err(|error| Failure::Failed(format!("cannot start a thread: {error}")))?;
        let began = Instant::now();
        loop {
            let failure = match receiver.recv_timeout(LOOK) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Failed("the model ended without an answer".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) if is_stopped() => Failure::Stopped,
                Err(RecvTimeoutError::Timeout) if began.elapsed() >= patience => {
                    let seconds = patience.as_secs_f32();
                    Failure::Failed(format!("it has not answered within {seconds} seconds"))
                }
                Err(RecvTimeoutError::Timeout) => continue,
            };
            gone.store(true, Ordering::Relaxed);
            return Err(failure);
        }
    }
}

fn embed(opens: &OpenModel, text: &str, stop: &dyn Fn() -> bool) -> Result<Question, Failure> {
    let model = opens().map_err(Failure::Failed)?;
    let vector = model.embed(&[text], stop)?.pop();
    let vector = vector.ok_or_else(|| Failure::Failed("it returned no vector".to_owned()))?;
    Ok(Question { vector, model })
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::fake::Letters;

    const LONG: Duration = Duration::from_mins(1);

    fn why(answer: Result<Question, Failure>) -> String {
        match answer {
            Err(Failure::Failed(why)) => why,
            Err(Failure::Stopped) => "stopped".to_owned(),
            Ok(_) => "answered".to_owned(),
        }
    }

    #[test]
    fn a_model_that_does_not_answer_is_waited_for_a_while_and_one_that_fails_says_why() {
        let (release, waits) = channel();
        let silent = Letters::that_waits(waits);
        let slow = Questions::new(Arc::new(move || Ok(silent.clone() as Arc<dyn Embedder>)));
        let late = why(slow.ask("q", Duration::from_millis(50), &|| false));
        assert!(late.contains("has not answered within 0.05 seconds"), "{late}");
        assert_eq!(why(slow.ask("q", LONG, &|| true)), "stopped");
        drop(release);
        // A model that never opens: no more than a few questions wait for it.
        let (release, waits) = channel::<()>();
        let waits = Mutex::new(waits);
        let stuck = Questions::new(Arc::new(move || {
            let _ = waits.lock().recv();
            Err("it is gone".to_owned())
        }));
        for _ in 0..MAX_ASKED {
            assert!(stuck.ask("q", Duration::ZERO, &|| false).is_err());
        }
        let busy = why(stuck.ask("q", LONG, &|| false));
        assert!(busy.contains("earlier requests"), "{busy}");
        drop(release);
        let broken = Questions::new(Arc::new(|| Err("its file is damaged".to_owned())));
        assert_eq!(why(broken.ask("q", LONG, &|| false)), "its file is damaged");
    }

    #[test]
    fn a_stop_ends_the_questions_that_wait_and_refuses_later_ones() {
        let (release, waits) = channel();
        let silent = Letters::that_waits(waits);
        let model = silent.clone();
        let questions = Questions::new(Arc::new(move || Ok(model.clone() as Arc<dyn Embedder>)));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| why(questions.ask("q", LONG, &|| false)));
            silent.wait_until_asked();
            questions.stop();
            assert_eq!(waiting.join().unwrap(), "stopped");
        });
        assert_eq!(why(questions.ask("q", LONG, &|| false)), "stopped");
        drop(release);
    }
}
