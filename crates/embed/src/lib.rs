//! What turns texts into vectors, for whoever compares texts by their meaning: the words alone, no engine.

use std::sync::Arc;

/// A model that makes vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// What people call it.
    pub name: String,
    /// The hash of all that its vectors depend on. Vectors of two hashes are never compared.
    pub hash: [u8; 32],
    /// Numbers of one vector.
    pub dimensions: usize,
}

/// Turns texts into vectors.
pub trait Embedder: Send + Sync {
    /// The model.
    fn model(&self) -> &Model;

    /// One vector of the length one for each text, in their order. `stop` is asked every now and then.
    ///
    /// # Errors
    /// [`Failure`].
    fn embed(&self, texts: &[&str], stop: &dyn Fn() -> bool) -> Result<Vec<Vec<f32>>, Failure>;
}

/// Opens a model.
pub type OpenModel = Arc<dyn Fn() -> Opened + Send + Sync>;

/// The model, or why there is none.
pub type Opened = Result<Arc<dyn Embedder>, String>;

/// Why there are no vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The caller has stopped it.
    Stopped,
    /// It cannot be done.
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
