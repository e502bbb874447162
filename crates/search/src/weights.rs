//! What the terms of a question tell, by how rare they are in the texts.

use std::collections::HashSet;

use crate::query::Term;

/// Texts that hold a code at most for it to be an exact one, and the share of them (one in so many).
const MOST_EXACT: u64 = 10;
const SHARE_EXACT: u64 = 10;

/// The weights of a question's terms.
#[derive(Debug, Clone)]
pub struct Weights {
    terms: Vec<Weight>,
    /// The sum of all weights.
    total: f64,
    /// The weight of the one text that is sought among all.
    pub(crate) one_of_all: f64,
    /// The share of the question, by weight, that are codes which some text holds.
    pub(crate) codes: f64,
    /// Exact terms.
    pub(crate) exact: u32,
}

#[derive(Debug, Clone, Copy)]
struct Weight {
    weight: f64,
    is_exact: bool,
}

/// What the words of one text tell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Evidence {
    /// Okapi BM25.
    pub bm25: f64,
    /// The weight of the terms that the text holds.
    held: f64,
    /// Exact terms that it holds.
    pub(crate) exact: u32,
}

impl Evidence {
    /// Compares two texts by their words alone: exact terms first, then BM25.
    pub fn compare(&self, other: &Self) -> std::cmp::Ordering {
        self.exact.cmp(&other.exact).then(self.bm25.total_cmp(&other.bm25))
    }
}

impl Weights {
    /// Weighs each term by how many of so many texts hold it; a term without a number is left out, because it is everywhere.
    pub fn new(texts: u64, terms: &[(Term, Option<u64>)]) -> Self {
        let most_exact = (texts / SHARE_EXACT).clamp(1, MOST_EXACT);
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
        // The parts of a code say nothing by themselves either.
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

    /// Notes that a text holds a term; `saturation` is what BM25 makes of how often, and of the length of the text.
    pub fn add(&self, evidence: &mut Evidence, term: usize, saturation: f64) {
        let Some(Weight { weight, is_exact }) = self.terms.get(term) else { return };
        evidence.bm25 += weight * saturation;
        evidence.held += weight;
        evidence.exact += u32::from(*is_exact);
    }

    /// The share of the question, by weight, that a text holds.
    pub(crate) fn coverage(&self, evidence: &Evidence) -> f64 {
        evidence.held / self.total
    }

    /// BM25 by what a text with every term once, of the usual length, would have.
    pub(crate) fn normalised(&self, evidence: &Evidence) -> f64 {
        evidence.bm25 / self.total
    }
}

/// Gives what a term tells that so many of all texts hold: the logarithm of how much rarer it is than not to be there.
fn rarity(texts: u64, held: u64) -> f64 {
    let (texts, held) = (as_float(texts), as_float(held.min(texts)));
    ((texts - held + 0.5) / (held + 0.5)).ln_1p()
}

#[expect(clippy::cast_precision_loss, reason = "a weight")]
fn as_float(count: u64) -> f64 {
    count as f64
}
