//! Cache of the answers of read-only calls, for callers that opted in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tool::Data;

use crate::fingerprint::Fingerprint;

/// Time for which an answer may be returned again (CSP/1 source: 60 s for safe reads).
const FRESH: Duration = Duration::from_mins(1);
/// Maximum number of cached answers. More would occupy memory for callers that never come back.
const ANSWERS: usize = 64;
/// Largest answer, in bytes, that is cached.
const LARGEST_ANSWER: usize = 256 * 1024;

#[derive(Default)]
pub(crate) struct Cache(Mutex<Answers>);

#[derive(Default)]
struct Answers {
    by_key: HashMap<String, CachedAnswer>,
    generation: Generation,
}

struct CachedAnswer {
    made: Instant,
    /// State of the files when the answer was read.
    looked: Fingerprint,
    answer: Data,
}

/// Counter that increases with every change, so that an answer read before a change is not cached
/// after it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u64);

impl CachedAnswer {
    fn is_fresh(&self, now: Instant) -> bool {
        now.duration_since(self.made) < FRESH
    }
}

impl Cache {
    /// Returns the answer to this call if it is fresh and no file has changed.
    pub(crate) fn get(&self, key: &str, looked: Fingerprint, now: Instant) -> Option<Data> {
        let answers = self.answers();
        let kept = answers.by_key.get(key).filter(|kept| kept.is_fresh(now) && kept.looked.is_as(&looked))?;
        Some(kept.answer.clone())
    }

    pub(crate) fn generation(&self) -> Generation {
        self.answers().generation
    }

    /// Caches an answer that was read in the generation `read_in`.
    pub(crate) fn put(
        &self,
        key: String,
        answer: &Data,
        looked: Fingerprint,
        read_in: Generation,
        now: Instant,
    ) {
        let size = match answer {
            Data::Value(value) => value.to_string().len(),
            Data::Written(written) => written.as_str().len(),
        };
        if size > LARGEST_ANSWER {
            return;
        }
        let mut answers = self.answers();
        answers.by_key.retain(|_, kept| kept.is_fresh(now));
        let has_room = answers.by_key.len() < ANSWERS || answers.by_key.contains_key(&key);
        if answers.generation == read_in && has_room {
            answers.by_key.insert(key, CachedAnswer { made: now, looked, answer: answer.clone() });
        }
    }

    /// Drops all answers, after a change.
    pub(crate) fn clear(&self) {
        let mut answers = self.answers();
        answers.by_key.clear();
        answers.generation.0 += 1;
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn data(value: impl Into<Value>) -> Data {
        Data::Value(value.into())
    }

    const SEEN: Fingerprint = Fingerprint::of(1);

    fn put(cache: &Cache, answer: &Data, read_in: Generation, now: Instant) {
        cache.put("a".to_owned(), answer, SEEN, read_in, now);
    }

    #[test]
    fn an_answer_is_given_again_until_it_is_stale_or_something_changed() {
        let cache = Cache::default();
        let now = Instant::now();
        put(&cache, &data(1), cache.generation(), now);
        let kept = cache.get("a", SEEN, now + FRESH / 2).map(|data| data.into_value().unwrap());
        assert_eq!(kept, Some(Value::from(1)));
        assert!(cache.get("a", SEEN, now + FRESH).is_none());
        assert!(cache.get("a", Fingerprint::of(2), now).is_none());
        assert!(cache.get("b", SEEN, now).is_none());
        cache.clear();
        assert!(cache.get("a", SEEN, now).is_none());
    }

    #[test]
    fn an_answer_that_was_read_before_a_change_is_not_kept_after_it() {
        let cache = Cache::default();
        let before = cache.generation();
        cache.clear();
        put(&cache, &data(1), before, Instant::now());
        assert!(cache.get("a", SEEN, Instant::now()).is_none());
    }

    #[test]
    fn a_large_answer_is_not_kept() {
        let cache = Cache::default();
        let large = data("x".repeat(LARGEST_ANSWER));
        put(&cache, &large, cache.generation(), Instant::now());
        assert!(cache.get("a", SEEN, Instant::now()).is_none());
    }
}
