//! Answers of read-only calls, for callers that opted in.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tool::Data;

/// How long an answer may be given again (CSP/1 source: 60 s for safe reads).
const FRESH: Duration = Duration::from_mins(1);
/// Answers kept at most; more would hold memory for callers that never come back.
const ANSWERS: usize = 64;
/// A larger answer is not kept.
const LARGEST_ANSWER: usize = 256 * 1024;

#[derive(Default)]
pub(crate) struct Cache(Mutex<Answers>);

#[derive(Default)]
struct Answers {
    by_key: HashMap<String, (Instant, Data)>,
    generation: Generation,
}

/// Changes whenever something changed, so that an answer that was read before is not kept after.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u64);

impl Cache {
    pub(crate) fn get(&self, key: &str, now: Instant) -> Option<Data> {
        let answers = self.answers();
        let (_, answer) = answers.by_key.get(key).filter(|(made, _)| now.duration_since(*made) < FRESH)?;
        Some(answer.clone())
    }

    pub(crate) fn generation(&self) -> Generation {
        self.answers().generation
    }

    /// Keeps an answer that was read in this generation.
    pub(crate) fn put(&self, key: String, answer: &Data, read_in: Generation, now: Instant) {
        let size = match answer {
            Data::Value(value) => value.to_string().len(),
            Data::Written(written) => written.as_str().len(),
        };
        if size > LARGEST_ANSWER {
            return;
        }
        let mut answers = self.answers();
        answers.by_key.retain(|_, (made, _)| now.duration_since(*made) < FRESH);
        if answers.generation == read_in && answers.by_key.len() < ANSWERS {
            answers.by_key.insert(key, (now, answer.clone()));
        }
    }

    /// Forgets everything: something changed.
    pub(crate) fn clear(&self) {
        let mut answers = self.answers();
        answers.by_key.clear();
        answers.generation.0 += 1;
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn data(value: impl Into<Value>) -> Data {
        Data::Value(value.into())
    }

    #[test]
    fn an_answer_is_given_again_until_it_is_stale_or_something_changed() {
        let cache = Cache::default();
        let now = Instant::now();
        cache.put("a".to_owned(), &data(1), cache.generation(), now);
        let kept = cache.get("a", now + FRESH / 2).map(|data| data.into_value().unwrap());
        assert_eq!(kept, Some(Value::from(1)));
        assert!(cache.get("a", now + FRESH).is_none());
        assert!(cache.get("b", now).is_none());
        cache.clear();
        assert!(cache.get("a", now).is_none());
    }

    #[test]
    fn an_answer_that_was_read_before_a_change_is_not_kept_after_it() {
        let cache = Cache::default();
        let before = cache.generation();
        cache.clear();
        cache.put("a".to_owned(), &data(1), before, Instant::now());
        assert!(cache.get("a", Instant::now()).is_none());
    }

    #[test]
    fn a_large_answer_is_not_kept() {
        let cache = Cache::default();
        let large = data("x".repeat(LARGEST_ANSWER));
        cache.put("a".to_owned(), &large, cache.generation(), Instant::now());
        assert!(cache.get("a", Instant::now()).is_none());
    }
}
