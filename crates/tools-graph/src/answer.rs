//! The parts that the answers of all tools of the family have.

use codegraph::PatchedGraph;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

use crate::view::Answerable;

/// Number of characters of a generation in answers.
const GENERATION: usize = 12;

/// Freshness of the graph. Files were compared with it during this call.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Fresh {
    /// Files in the graph.
    indexed: usize,
    /// Files that could not be read now.
    pending: usize,
    /// Files beyond the limits.
    #[serde(skip_serializing_if = "is_zero")]
    left_out: u64,
    /// Equal for equal files.
    generation: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Fresh {
    /// Returns the freshness of a graph, and the graph.
    pub(crate) fn split(answerable: &Answerable) -> (Self, Arc<PatchedGraph>) {
        let snapshot = &answerable.snapshot;
        let fresh = Self {
            indexed: snapshot.files,
            pending: answerable.pending,
            left_out: answerable.left_out,
            generation: snapshot.generation.chars().take(GENERATION).collect(),
        };
        (fresh, snapshot.graph.clone())
    }
}
