//! Cache of the answers of read-only calls, for callers that opted in.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tool::Data;

use crate::fingerprint::Fingerprint;

/// Time for which an answer may be returned again (CSP/1 source: 60 s for safe reads).
const FRESH: Duration = Duration::from_mins(1);
/// Maximum number of cached answers. More would occupy memory for callers that never come back.
const ANSWERS: usize = 64;
/// Largest answer, in bytes, that is cached.
const LARGEST_ANSWER: usize = 256 * 1024;

/// The cache. A change replaces the answers, so that an answer read before it is not cached after it.
#[derive(Default)]
pub(crate) struct Cache(Mutex<Arc<Answers>>);

/// Cached answers by their keys.
#[derive(Default)]
pub(crate) struct Answers(Mutex<HashMap<String, CachedAnswer>>);

struct CachedAnswer {
    made: Instant,
    /// State of the files when the answer was read.
    looked: Fingerprint,
    answer: Data,
}

impl CachedAnswer {
    fn is_fresh(&self, now: Instant) -> bool {
        now.duration_since(self.made) < FRESH
    }
}

impl Cache {
    /// Returns the answers since the last change.
    pub(crate) fn answers(&self) -> Arc<Answers> {
        self.0.lock().clone()
    }

    /// Drops all answers, after a change.
    pub(crate) fn clear(&self) {
        *self.0.lock() = Arc::default();
    }
}

impl Answers {
    /// Returns the answer to this call if it is fresh and no file has changed.
    pub(crate) fn get(&self, key: &str, looked: Fingerprint, now: Instant) -> Option<Data> {
        let answers = self.0.lock();
        let kept = answers.get(key).filter(|kept| kept.is_fresh(now) && kept.looked.is_as(&looked))?;
        Some(kept.answer.clone())
    }

    /// Caches an answer.
    pub(crate) fn put(&self, key: String, answer: &Data, looked: Fingerprint, now: Instant) {
        let size = match answer {
            Data::Value(value) => value.to_string().len(),
            Data::Written(written) => written.as_str().len(),
        };
        let mut answers = self.0.lock();
        answers.retain(|_, kept| kept.is_fresh(now));
        let has_room = answers.len() < ANSWERS || answers.contains_key(&key);
        if size <= LARGEST_ANSWER && has_room {
            answers.insert(key, CachedAnswer { made: now, looked, answer: answer.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const SEEN: Fingerprint = Fingerprint::of(1);

    #[test]
    fn an_answer_is_given_again_until_it_is_stale_or_something_changed() {
        let cache = Cache::default();
        let (now, before) = (Instant::now(), cache.answers());
        let get = |key: &str, looked, now| {
            cache.answers().get(key, looked, now).map(|data| data.into_value().unwrap())
        };
        let put = |answers: &Answers, key: &str, answer: Value| {
            answers.put(key.to_owned(), &Data::Value(answer), SEEN, now);
        };
        put(&before, "a", Value::from(1));
        assert_eq!(get("a", SEEN, now + FRESH / 2), Some(Value::from(1)));
        assert_eq!(get("a", SEEN, now + FRESH), None);
        assert_eq!(get("a", Fingerprint::of(2), now), None);
        assert_eq!(get("b", SEEN, now), None);
        put(&before, "b", Value::from("x".repeat(LARGEST_ANSWER)));
        assert_eq!(get("b", SEEN, now), None, "a large answer");
        cache.clear();
        assert_eq!(get("a", SEEN, now), None);
        // An answer that was read before the change is not kept after it.
        put(&before, "a", Value::from(1));
        assert_eq!(get("a", SEEN, now), None);
    }
}
