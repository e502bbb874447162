//! The key by which the facts of a file are kept.

use serde::{Deserialize, Serialize};

use crate::extract::ExtractLimits;
use crate::facts::EXTRACTOR_VERSION;
use crate::language::Language;

/// The key of facts: a hash of everything that they depend on, which is the content, the language, the limits and
/// the version of the extraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FactsKey(pub [u8; 32]);

impl FactsKey {
    /// Computes the key of a content.
    pub fn new(language: Language, content: &[u8], limits: &ExtractLimits) -> Self {
        Self::of_hash(language, blake3::hash(content).as_bytes(), limits)
    }

    /// Computes the key of a content from its hash (blake3).
    pub(crate) fn of_hash(language: Language, content: &[u8; 32], limits: &ExtractLimits) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&EXTRACTOR_VERSION.to_le_bytes());
        hasher.update(&u64::try_from(limits.bytes).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(&limits.work_per_byte.to_le_bytes());
        hasher.update(language.name().as_bytes());
        hasher.update(&[0]);
        hasher.update(content);
        Self(*hasher.finalize().as_bytes())
    }

    /// Returns the key of facts that stand in for these because the extraction failed.
    pub(crate) fn of_passing(self) -> Self {
        Self(blake3::derive_key("facts that stand in for others", &self.0))
    }
}
