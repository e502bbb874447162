//! Interface between models that turn texts into vectors and the code that compares texts by
//! meaning. This module has only types and a trait, and no engine.

use std::sync::Arc;

/// A model that makes vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Name of the model, as people know it.
    pub name: String,
    /// Hash of everything that the vectors of the model depend on. Vectors of models with different
    /// hashes are never compared.
    pub hash: [u8; 32],
    /// Number of components of one vector.
    pub dimensions: usize,
}

/// An engine that turns texts into vectors.
pub trait Embedder: Send + Sync {
    /// Returns the model.
    fn model(&self) -> &Model;

    /// Returns one vector of length 1 for each text, in the order of the texts. The implementation
    /// calls `stop` at intervals and gives up if `stop` returns true.
    ///
    /// # Errors
    /// Returns [`Failure`] if the caller stopped the work or if the work failed.
    fn embed(&self, texts: &[&str], stop: &dyn Fn() -> bool) -> Result<Vec<Vec<f32>>, Failure>;

    /// Returns the part of a text that its vector is made of. Without an own implementation, the model
    /// neither counts nor cuts.
    fn extent(&self, _text: &str) -> TextExtent {
        TextExtent::default()
    }
}

/// The part of a text that its vector is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextExtent {
    /// Number of tokens of the part, with the markers around it; `None` if the model does not tell.
    pub tokens: Option<usize>,
    /// True if the model cuts the rest of the text off.
    pub is_cut: bool,
}

/// A function that opens a model.
pub type OpenModel = Arc<dyn Fn() -> OpenedModel + Send + Sync>;

/// The opened model, or the reason why it cannot be opened.
pub type OpenedModel = Result<Arc<dyn Embedder>, String>;

/// The reason why a call returned no vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The caller stopped the work.
    Stopped,
    /// The work failed, for the given reason.
    Failed(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stopped => formatter.write_str("it was stopped"),
            Self::Failed(why) => formatter.write_str(why),
        }
    }
}

impl std::error::Error for Failure {}
