//! Search in memories: by words, and by meaning if vectors exist.
//!
//! The store returns only what the agent sees, so that a near vector reveals nothing about another
//! agent's memories. A vector belongs to one version: an outdated vector is never compared.

use std::collections::HashMap;

use retrieval::{Candidate, Evidence, RankedTexts, Term, Weights, background, cosine_of, fuse, terms};
use store_api::{Memory, MemoryCaller, StoreError};

/// Maximum number of memories found by meaning, on any page, so that the order is stable.
/// `MAX_BY_WORDS` is the maximum for one term.
const NEAREST: usize = 100;
const MAX_BY_WORDS: u32 = 10_000;

/// Result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResult {
    /// Memories with the scores that determine their order, from 0 to 1, best first.
    pub memories: Vec<(Memory, f64)>,
    /// True if there are more.
    pub has_more: bool,
    /// Confidence that any memory answers the question, from 0 to 1.
    pub confidence: f64,
    /// True if the search used meaning in addition to words.
    pub by_meaning: bool,
    /// Number of memories without a vector, which the search matches by their words alone.
    pub waiting: u64,
    /// Reason why the search did not use meaning although a model is set up.
    pub without_model: Option<String>,
}

/// A question as a vector of length one, with the hash of its model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryVector<'a> {
    pub(crate) vector: &'a [f32],
    pub(crate) model: &'a [u8; 32],
}

/// Finds the memories that fit a question best, from position `skip` on: by words and, for
/// memories with a vector, by meaning.
pub(crate) fn search(
    rows: &dyn store_api::Memories,
    who: &MemoryCaller,
    question: &str,
    meaning: Option<QueryVector<'_>>,
    (skip, limit): (u64, u32),
) -> Result<SearchResult, StoreError> {
    let (skip, limit) = (usize::try_from(skip).unwrap_or(usize::MAX), limit as usize);
    let (weights, mut words) = by_words(rows, who, question)?;
    let cosines = match meaning {
        Some(meaning) => cosines(rows, who, meaning)?,
        None => HashMap::new(),
    };
    let mean =
        cosines.values().map(|cosine| f64::from(*cosine)).sum::<f64>() / as_float(cosines.len().max(1));
    for number in nearest(&cosines) {
        words.entry(number).or_default();
    }
    let candidate = |(id, words): (i64, Evidence)| Candidate { id, words, cosine: cosines.get(&id).copied() };
    let candidates = words.into_iter().map(candidate).collect();
    let RankedTexts { order, confidence } = fuse(&weights, background(mean, cosines.len()), candidates);
    let has_more = order.len() > skip.saturating_add(limit);
    let scores: HashMap<i64, f64> =
        order.iter().skip(skip).take(limit).map(|text| (text.id, text.score)).collect();
    let numbers: Vec<i64> = order.iter().skip(skip).take(limit).map(|text| text.id).collect();
    // A memory that was deleted meanwhile is left out.
    let found = rows.numbered(who, &numbers)?.into_iter();
    let memories: Vec<(Memory, f64)> =
        found.filter_map(|(number, memory)| Some((memory, *scores.get(&number)?))).collect();
    Ok(SearchResult { memories, has_more, confidence, by_meaning: false, waiting: 0, without_model: None })
}

/// Computes the word evidence of each memory that contains any term of the question. The weight of a
/// term depends on how many memories visible to the agent contain it.
fn by_words(
    rows: &dyn store_api::Memories,
    who: &MemoryCaller,
    question: &str,
) -> Result<(Weights, HashMap<i64, Evidence>), StoreError> {
    let terms = terms(question);
    let words: Vec<String> = terms.iter().map(Term::words).collect();
    let matches = rows.with_words(who, &words, MAX_BY_WORDS)?;
    let held: Vec<(Term, Option<u64>)> = terms
        .into_iter()
        .zip(&matches.of_terms)
        .map(|(term, memories)| (term, Some(memories.len() as u64)))
        .collect();
    let weights = Weights::new(matches.seen, &held);
    let mut evidence: HashMap<i64, Evidence> = HashMap::new();
    for (term, memories) in matches.of_terms.into_iter().enumerate() {
        for (number, saturation) in memories {
            weights.add(evidence.entry(number).or_default(), term, saturation);
        }
    }
    Ok((weights, evidence))
}

/// Returns the best cosine of every memory that the agent sees and that has vectors of the model.
fn cosines(
    rows: &dyn store_api::Memories,
    who: &MemoryCaller,
    meaning: QueryVector<'_>,
) -> Result<HashMap<i64, f32>, StoreError> {
    let mut best: HashMap<i64, f32> = HashMap::new();
    rows.vectors(who, meaning.model, &mut |number, vector| {
        let cosine = cosine_of(vector, meaning.vector);
        best.entry(number).and_modify(|best| *best = best.max(cosine)).or_insert(cosine);
    })?;
    Ok(best)
}

fn nearest(cosines: &HashMap<i64, f32>) -> Vec<i64> {
    let mut all: Vec<(i64, f32)> = cosines.iter().map(|(number, cosine)| (*number, *cosine)).collect();
    all.sort_unstable_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    all.into_iter().take(NEAREST).map(|(number, _)| number).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a count of memories")]
fn as_float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use retrieval::bytes;

    use super::*;
    use crate::fake::{MODEL, World, direction, who};

    #[test]
    fn a_near_memory_is_found_without_a_word_of_it_and_nothing_of_another_agent() {
        let world = World::new();
        let (one, two) = (who("one"), who("two"));
        let elsewhere = MemoryCaller { workspace: "/other".into(), ..one.clone() };
        world.create(&one, "i1", ("ship", "boats"));
        world.create(&one, "i2", ("food", "water"));
        world.share(&one, "i3", ("pier", "berths"));
        world.create(&two, "i4", ("mast", "booms"));
        world.share(&elsewhere, "i5", ("far", "bridges"));
        assert_eq!(world.embed(&one, &MODEL), 3);
        assert_eq!(world.embed(&two, &MODEL), 1);
        assert_eq!(world.embed(&elsewhere, &MODEL), 1);
        assert_eq!(world.embed(&one, &MODEL), 0);
        assert_eq!(world.keys(&one, "baidarka", &MODEL), ["ship", "pier", "food"]);
        assert_eq!(world.keys(&two, "baidarka", &MODEL), ["pier", "mast"]);
        assert_eq!(world.keys(&elsewhere, "baidarka", &MODEL), ["far"]);
        // Words alone find nothing here, and words and meaning together rank first the memory that
        // both find.
        assert!(world.search(&one, "baidarka", None, (0, 10)).memories.is_empty());
        assert_eq!(world.keys(&one, "berth", &MODEL)[0], "pier");
        let meaning = QueryVector { vector: &direction("b"), model: &MODEL };
        let page = world.search(&one, "baidarka", Some(meaning), (1, 1));
        assert_eq!((page.memories[0].0.key.as_str(), page.has_more), ("pier", true));
        assert!(page.memories[0].1 > 0.4 && page.confidence > 0.9, "{page:?}");
    }

    #[test]
    fn vectors_of_two_models_never_meet_and_those_of_an_earlier_version_are_gone() {
        let world = World::new();
        let one = who("one");
        world.create(&one, "i", ("k", "boats"));
        world.embed(&one, &MODEL);
        assert_eq!(world.keys(&one, "b", &MODEL), ["k"]);
        let other = [2; 32];
        assert!(world.keys(&one, "b", &other).is_empty());
        assert_eq!(world.embed(&one, &other), 1);
        assert!(world.keys(&one, "b", &MODEL).is_empty(), "one model's vectors took the other's place");
        assert_eq!(world.keys(&one, "b", &other), ["k"]);
        world.store.memories().update(&one, "k", "water", None).unwrap();
        assert!(world.keys(&one, "b", &other).is_empty());
    }

    #[test]
    fn a_long_text_is_as_near_as_the_nearest_of_its_pieces() {
        let world = World::new();
        let one = who("one");
        world.create(&one, "i", ("", "water and boats"));
        let (_, missing) = world.store.memories().unembedded(&one, &MODEL, 1).unwrap();
        let pieces = vec![bytes(&[0.0, 1.0]), bytes(&[0.6, 0.8])];
        world.store.memories().keep_vectors(&MODEL, &[(&missing[0], pieces)]).unwrap();
        let meaning = QueryVector { vector: &[1.0, 0.0], model: &MODEL };
        let found = world.search(&one, "x", Some(meaning), (0, 1));
        // For a strength s, the score is s / (1 + s).
        assert!((found.memories[0].1 - 0.6 / 1.6).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn an_exact_code_comes_first_and_a_memory_without_a_vector_keeps_its_place_by_words() {
        let world = World::new();
        let one = who("one");
        for number in 0..10 {
            let text = format!("boat {number}: the pump stalls and shows ERR-{}", 4_000 + number * 7);
            world.create(&one, &format!("i{number}"), (&format!("k{number}"), &text));
        }
        let first = |model| world.keys(&one, "boat pump stalls with err-4042, what now", model)[0].clone();
        assert_eq!(first(&[9; 32]), "k6", "by words");
        let (_, missing) = world.store.memories().unembedded(&one, &MODEL, 1_000).unwrap();
        // All memories have the direction of the question, except the one with the code.
        for (place, memory) in missing.iter().enumerate() {
            let vector = if memory.content.contains("4042") { [0.0, 1.0] } else { [1.0, 0.0] };
            world.store.memories().keep_vectors(&MODEL, &[(memory, vec![bytes(&vector)])]).unwrap();
            if place % 3 == 0 {
                assert_eq!(first(&MODEL), "k6", "with {place} vectors");
            }
        }
        assert_eq!(first(&MODEL), "k6");
    }

    #[test]
    fn no_question_is_an_operator() {
        let world = World::new();
        let one = who("one");
        world.create(&one, "i", ("k", "alpha NEAR beta"));
        for (text, many) in [
            ("alpha", 1),
            ("\"alpha", 1),
            ("NEAR(", 1),
            ("k: *", 1),
            ("gamma OR delta", 0),
            ("", 0),
            ("()*^", 0),
            ("'; DROP TABLE memories; --", 0),
        ] {
            let found = world.search(&one, text, None, (0, 5));
            assert_eq!((found.memories.len(), found.has_more), (many, false), "{text}");
        }
    }
}
