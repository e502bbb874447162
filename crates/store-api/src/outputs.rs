//! Outputs stored by reference: an id leads to a blob, in every process that shares the state.

use std::fs::File;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::blobs::BlobRef;
use crate::error::StoreError;

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

/// The outputs of a store.
///
/// Any caller of the same user can read any output whose id it knows; the session is stored so that
/// a later rule can be stricter.
///
/// Every method blocks, and returns an error if the state cannot be read or written.
pub trait Outputs: Send + Sync {
    /// Gives an id to a blob that was just put. The id must be new.
    fn keep(&self, output: &Output) -> Result<(), StoreError>;

    /// Returns the output with an id.
    fn find(&self, id: &str) -> Result<Output, StoreError>;

    /// Returns the output with an id, and opens its content from the start.
    fn open(&self, id: &str) -> Result<(Output, File), StoreError>;

    /// Removes the outputs beyond the limits of `retention`. Then removes every unreferenced blob
    /// that was put more than an hour before `now`, which must come from the file system's clock.
    ///
    /// Prunes as long as `goes_on` returns true; after that, some of the blobs stay until another
    /// time.
    fn prune(
        &self,
        retention: &Retention,
        now: Timestamp,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<PruneResult, StoreError>;
}
