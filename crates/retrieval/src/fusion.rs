//! Combination of the results by words and by meaning into one order, by scores.
//!
//! The strength of a text combines the evidence of its meaning and of its words. Meaning counts by
//! how far the cosine lies above that of any text. Words count much if the text contains most of
//! the question, weighted by the rarity of the terms. One or two shared words count little, because
//! they occur by chance. Terms that look like codes and occur in few texts are exact: texts with
//! more of them come first.
//!
//! The constants were found on some collections and checked against others; `docs/KNOWLEDGE.md` has
//! the figures. `docs/TRIED.md` lists the alternatives that were tried.

use std::cmp::Ordering;

use crate::weights::{Evidence, Weights};

/// Factor of BM25 above the level of chance, and that level. BM25 is in units of `Weights::one_of_all`.
const BEYOND_CHANCE: f64 = 0.08;
const CHANCE: f64 = 0.8;

/// Factor of BM25 for a text that contains the whole question, in the same units.
const WHOLE_QUESTION: f64 = 0.7;

/// Number of texts whose average cosine is trusted half: fewer texts may all be about the topic of
/// the question.
const FEW_TEXTS: f64 = 100.0;

/// Slope and offset of a logistic function that estimates how often a question has an answer. Its
/// input is the best strength, or the best coverage if there are no vectors. Fitted on questions of
/// one collection to itself and to others.
const SURE_BY_BOTH: (f64, f64) = (9.0, -3.8);
const SURE_BY_WORDS: (f64, f64) = (5.8, -2.0);

/// Minimum confidence if a text contains an exact term: 472 of 484 questions with one had an answer.
const SURE_BY_CODE: f64 = 0.9;

/// A text that at least one of the two searches has found.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    /// Identifier of the text.
    pub id: i64,
    /// Evidence of the words of the text.
    pub words: Evidence,
    /// Cosine of the text's vector and the question's, or `None` if the text has no vector.
    pub cosine: Option<f32>,
}

/// A text with the score that determines its rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredText {
    /// Identifier of the text.
    pub id: i64,
    /// Score from 0 to 1.
    pub score: f64,
}

/// Texts in their final order.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedTexts {
    /// Texts and scores, the best first.
    pub order: Vec<ScoredText>,
    /// Confidence that any text answers the question, from 0 to 1.
    pub confidence: f64,
}

/// Returns the cosine that carries no information, from the average cosine over `texts` texts.
pub fn background(mean: f64, texts: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let texts = texts as f64;
    mean.clamp(0.0, 0.99) * texts / (texts + FEW_TEXTS)
}

/// Merges the texts that words or meaning have found into one order.
///
/// A text without a vector keeps its rank by words alone. Texts with vectors share the other ranks
/// in the order of their strength. So a base whose vectors are still being made moves gradually to
/// the new order, and is never worse than words on the way.
pub fn fuse(weights: &Weights, background: f64, candidates: Vec<Candidate>) -> RankedTexts {
    let judged = candidates.into_iter().map(|candidate| EvaluatedText::new(weights, background, candidate));
    let (mut strong, mut by_words) = (Vec::new(), Vec::new());
    for judged in judged {
        if judged.strength.is_some() {
            strong.push(judged);
        }
        if judged.candidate.words.bm25 > 0.0 {
            by_words.push(judged);
        }
    }
    strong.sort_by(EvaluatedText::by_strength);
    by_words.sort_by(EvaluatedText::by_words);
    let sureness = strong.iter().chain(&by_words).map(|judged| judged.sureness);
    let confidence = sureness.fold(0.0, f64::max);
    let mut order: Vec<ScoredText> = Vec::with_capacity(strong.len() + by_words.len());
    let mut strong = strong.into_iter().peekable();
    for place in by_words {
        let next = if place.strength.is_some() {
            strong.next().map(|judged| ScoredText { id: judged.candidate.id, score: judged.score })
        } else {
            // The score is clamped between those of its neighbours.
            let above = order.last().map_or(1.0, |before| before.score);
            let below = strong.peek().map_or(0.0, |behind| behind.score);
            Some(ScoredText { id: place.candidate.id, score: place.score.max(below).min(above) })
        };
        order.extend(next);
    }
    order.extend(strong.map(|judged| ScoredText { id: judged.candidate.id, score: judged.score }));
    RankedTexts { order, confidence }
}

/// A text with its evaluation by words and by meaning.
#[derive(Clone, Copy)]
struct EvaluatedText {
    candidate: Candidate,
    /// Strength, `None` without a vector.
    strength: Option<f64>,
    score: f64,
    sureness: f64,
}

impl EvaluatedText {
    fn new(weights: &Weights, background: f64, candidate: Candidate) -> Self {
        let words = &candidate.words;
        let coverage = weights.coverage(words);
        let bm25 = words.bm25 / weights.one_of_all;
        let strength = candidate.cosine.map(|cosine| {
            let meaning = (f64::from(cosine) - background) / (1.0 - background);
            (1.0 - weights.codes) * meaning
                + weights.codes * weights.normalised(words)
                + BEYOND_CHANCE * (bm25 - CHANCE).max(0.0)
                + WHOLE_QUESTION * coverage.powi(3) * bm25
        });
        let within = strength.unwrap_or(bm25).max(0.0);
        let score = (f64::from(words.exact) + within / (1.0 + within)) / f64::from(weights.exact + 1);
        let sureness = match strength {
            Some(strength) => logistic(SURE_BY_BOTH, strength),
            None => logistic(SURE_BY_WORDS, coverage),
        };
        let sureness = if words.exact > 0 { sureness.max(SURE_BY_CODE) } else { sureness };
        Self { candidate, strength, score, sureness }
    }

    fn by_strength(&self, other: &Self) -> Ordering {
        let exact = other.candidate.words.exact.cmp(&self.candidate.words.exact);
        let strength = |judged: &Self| judged.strength.unwrap_or(f64::NEG_INFINITY);
        exact
            .then(strength(other).total_cmp(&strength(self)))
            .then(self.candidate.id.cmp(&other.candidate.id))
    }

    fn by_words(&self, other: &Self) -> Ordering {
        other.candidate.words.compare(&self.candidate.words).then(self.candidate.id.cmp(&other.candidate.id))
    }
}

fn logistic((slope, offset): (f64, f64), value: f64) -> f64 {
    1.0 / (1.0 + (-(slope * value + offset)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms;

    const TEXTS: u64 = 1_000;

    /// Returns the weights of a question, for which `held` gives the number of texts with each term.
    fn weights(question: &str, held: &[u64]) -> Weights {
        let terms = terms(question);
        assert_eq!(terms.len(), held.len(), "{terms:?}");
        Weights::new(TEXTS, &terms.into_iter().zip(held.iter().copied().map(Some)).collect::<Vec<_>>())
    }

    /// Returns a text that contains these terms, each once and at the usual length.
    fn text(weights: &Weights, id: i64, holds: &[usize], cosine: Option<f32>) -> Candidate {
        let mut words = Evidence::default();
        for term in holds {
            weights.add(&mut words, *term, 1.0);
        }
        Candidate { id, words, cosine }
    }

    fn ids(fused: &RankedTexts) -> Vec<i64> {
        assert!(fused.order.is_sorted_by(|one, next| one.score >= next.score), "{fused:?}");
        assert!(fused.order.iter().all(|scored| (0.0..=1.0).contains(&scored.score)), "{fused:?}");
        fused.order.iter().map(|scored| scored.id).collect()
    }

    #[test]
    fn a_shared_word_says_less_than_the_meaning_and_the_whole_question_says_more() {
        let weights = weights("greasing squeaky bicycle chains", &[3, 2, 0, 8]);
        let fused = fuse(
            &weights,
            0.05,
            vec![
                text(&weights, 1, &[3], Some(0.15)),
                text(&weights, 2, &[], Some(0.45)),
                text(&weights, 3, &[0, 1, 3], Some(0.3)),
            ],
        );
        assert_eq!(ids(&fused), [3, 2, 1]);
        assert!(fused.confidence > 0.8, "{fused:?}");
        let unrelated = fuse(&weights, 0.05, vec![text(&weights, 1, &[3], Some(0.12))]);
        assert!(unrelated.confidence < 0.2, "{unrelated:?}");
    }

    #[test]
    fn an_exact_code_comes_first_whatever_the_meaning_says_and_a_frequent_one_does_not() {
        let question = "how do I get rid of error E1234";
        for (held, first) in [(1, 1), (10, 1), (400, 2)] {
            let weights = weights(question, &[90, 5, 400, held]);
            let holds = text(&weights, 1, &[3], Some(0.0));
            let means = text(&weights, 2, &[0, 1, 2], Some(0.9));
            let fused = fuse(&weights, 0.0, vec![holds, means]);
            assert!(ids(&fused)[0] == first && fused.confidence >= 0.9, "{held}: {fused:?}");
            let (holds, means) = (Candidate { cosine: None, ..holds }, Candidate { cosine: None, ..means });
            assert_eq!(ids(&fuse(&weights, 0.0, vec![holds, means]))[0], first, "by words: {held}");
        }
        // Two codes both count.
        let weights = weights("E1234 or E5678", &[2, 2]);
        let texts = [(1, [0].as_slice(), 0.9), (2, &[0, 1], 0.1), (3, &[], 0.95)];
        let texts = texts.map(|(id, holds, cosine)| text(&weights, id, holds, Some(cosine)));
        assert_eq!(ids(&fuse(&weights, 0.0, texts.to_vec())), [2, 1, 3]);
    }

    #[test]
    fn a_name_that_is_looked_up_alone_is_exact_where_it_is_rare_and_has_a_meaning_where_it_is_not() {
        for (held, first) in [(3, 1), (300, 2)] {
            let weights = weights("lighthouse", &[held]);
            let texts = [text(&weights, 1, &[0], Some(0.0)), text(&weights, 2, &[], Some(0.9))];
            assert_eq!(ids(&fuse(&weights, 0.0, texts.to_vec()))[0], first, "{held}");
        }
    }

    #[test]
    fn a_text_without_a_vector_keeps_its_place_by_words() {
        let weights = weights("greasing squeaky bicycle chains", &[30, 20, 40, 80]);
        let by_words: [&[usize]; 5] = [&[0, 1, 2], &[0, 1], &[1, 2], &[2], &[3]];
        let texts = |with: &[(i64, f32)]| -> Vec<Candidate> {
            let cosine = |id: i64| with.iter().find(|(with, _)| *with == id).map(|(_, cosine)| *cosine);
            let words = (1..).zip(by_words).map(|(id, holds)| text(&weights, id, holds, cosine(id)));
            let meant = with.iter().filter(|(id, _)| *id > 5);
            words.chain(meant.map(|(id, cosine)| text(&weights, *id, &[], Some(*cosine)))).collect()
        };
        let order = |with: &[(i64, f32)]| ids(&fuse(&weights, 0.0, texts(with)));
        assert_eq!(order(&[]), [1, 2, 3, 4, 5]);
        // The texts 5 and 9 have vectors. They take the only rank that text 5 has by words, and the
        // last one.
        assert_eq!(order(&[(5, 0.1), (9, 0.9)]), [1, 2, 3, 4, 9, 5]);
        assert_eq!(order(&[(2, 0.0), (4, 0.95)]), [1, 4, 3, 2, 5]);
        assert_eq!(order(&[(1, 0.0), (2, 0.1), (3, 0.1), (4, 0.1), (5, 0.1), (9, 0.9)])[0], 9);
    }

    #[test]
    fn nothing_found_is_nothing_and_no_answer() {
        let weights = weights("greasing", &[0]);
        assert_eq!(
            fuse(&weights, background(0.3, 0), Vec::new()),
            RankedTexts { order: Vec::new(), confidence: 0.0 }
        );
        assert!(background(0.7, 3) < 0.03 && background(0.7, 100_000) > 0.69);
    }
}
