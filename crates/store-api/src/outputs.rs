//! Outputs stored by reference: an id leads to a blob, in every process that shares the state.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::blobs::BlobRef;

/// An output and its metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// Id, equal to the `output_ref` of an audit row and of a response.
    pub id: String,
    /// Reference to the content.
    pub blob: BlobRef,
    /// Media type of the content.
    pub media_type: String,
    /// Session whose call made the output.
    pub session: Option<String>,
    /// Time by the caller's clock, in whole microseconds.
    pub created_at: Timestamp,
}

/// Limits for outputs. Pruning removes those older than `max_age`. The oldest go until the remaining
/// ones have at most `max_bytes` in all. The `keep_newest` newest always stay.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Maximum number of bytes of all outputs; shared blobs count once per output.
    pub max_bytes: u64,
    /// Age at which an output is removed.
    pub max_age: Duration,
    /// Number of the newest outputs that stay whatever their size and age.
    pub keep_newest: u32,
}

/// Result of pruning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PruneResult {
    /// Number of removed output ids.
    pub outputs: u64,
    /// Number of removed blobs, which had no references.
    pub blobs: u64,
    /// Number of freed bytes.
    pub bytes: u64,
}
