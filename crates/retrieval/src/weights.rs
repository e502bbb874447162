//! Weights of the terms of a question, by their rarity in the texts.

use std::collections::HashSet;

use crate::query::Term;

/// Maximum number of texts that may contain an exact code, and the maximum share of all texts (one
/// in `SHARE_EXACT`).
const MAX_EXACT: u64 = 10;
const SHARE_EXACT: u64 = 10;

/// Weights of a question's terms.
#[derive(Debug, Clone)]
pub struct Weights {
    terms: Vec<Weight>,
    /// Sum of all weights.
    total: f64,
    /// Weight that singles out one text among all.
    pub(crate) one_of_all: f64,
    /// Share of the question, by weight, that consists of codes which occur in a text.
    pub(crate) codes: f64,
    /// Number of exact terms.
    pub(crate) exact: u32,
}

#[derive(Debug, Clone, Copy)]
struct Weight {
    weight: f64,
    is_exact: bool,
}

/// Evidence of the words of one text.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Evidence {
    /// Okapi BM25.
    pub bm25: f64,
    /// Weight of the terms that the text contains.
    held: f64,
    /// Number of exact terms that the text contains.
    pub(crate) exact: u32,
}

impl Evidence {
    /// Compares two texts by their words alone: exact terms first, then BM25.
    pub fn compare(&self, other: &Self) -> std::cmp::Ordering {
        self.exact.cmp(&other.exact).then(self.bm25.total_cmp(&other.bm25))
    }
}

impl Weights {
    /// Weighs each term by the number of texts, of `texts` in total, that contain it. A term
    /// without a number is left out, because it occurs everywhere.
    pub fn new(texts: u64, terms: &[(Term, Option<u64>)]) -> Self {
        let most_exact = (texts / SHARE_EXACT).clamp(1, MAX_EXACT);
        let weight = |(term, held): &(Term, Option<u64>)| {
            let held = held.as_ref()?;
            let is_exact = (term.is_code || term.is_alone) && (1..=most_exact).contains(held);
            Some(Weight { weight: rarity(texts, *held), is_exact })
        };
        let nothing = Weight { weight: 0.0, is_exact: false };
        let weights: Vec<Weight> = terms.iter().map(|term| weight(term).unwrap_or(nothing)).collect();
        let is_found = |held: Option<u64>| held.is_some_and(|held| held > 0);
        let codes: Vec<HashSet<&String>> = terms
            .iter()
            .filter(|(term, held)| term.is_code && is_found(*held))
            .map(|(term, _)| term.parts.iter().collect())
            .collect();
        // The parts of a code carry no meaning either.
        let is_of_code =
            |term: &Term| codes.iter().any(|code| term.parts.iter().all(|part| code.contains(part)));
        let of_codes =
            terms.iter().zip(&weights).filter(|((term, held), _)| is_found(*held) && is_of_code(term));
        let of_codes: f64 = of_codes.map(|(_, weight)| weight.weight).sum();
        let total = weights.iter().map(|weight| weight.weight).sum::<f64>().max(f64::MIN_POSITIVE);
        let exact = weights.iter().fold(0, |exact, weight| exact + u32::from(weight.is_exact));
        Self {
            terms: weights,
            total,
            one_of_all: as_float(texts + 1).ln().max(1e-6),
            codes: of_codes / total,
            exact,
        }
    }

    /// Records that a text contains a term. `saturation` is the factor of BM25 for the term's
    /// frequency and the length of the text.
    pub fn add(&self, evidence: &mut Evidence, term: usize, saturation: f64) {
        let Some(Weight { weight, is_exact }) = self.terms.get(term) else { return };
        evidence.bm25 += weight * saturation;
        evidence.held += weight;
        evidence.exact += u32::from(*is_exact);
    }

    /// Returns the share of the question, by weight, that a text contains.
    pub(crate) fn coverage(&self, evidence: &Evidence) -> f64 {
        evidence.held / self.total
    }

    /// Returns BM25 relative to a text of the usual length that contains every term once.
    pub(crate) fn normalised(&self, evidence: &Evidence) -> f64 {
        evidence.bm25 / self.total
    }
}

/// Returns the weight of a term that `held` of `texts` texts contain: the logarithm of 1 plus the
/// odds that a text lacks the term.
fn rarity(texts: u64, held: u64) -> f64 {
    let (texts, held) = (as_float(texts), as_float(held.min(texts)));
    ((texts - held + 0.5) / (held + 0.5)).ln_1p()
}

#[expect(clippy::cast_precision_loss, reason = "a weight")]
fn as_float(count: u64) -> f64 {
    count as f64
}
