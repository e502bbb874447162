//! Storage for the whole texts that an answer had to shorten, and the references to them.

use std::fs::File;
use std::sync::Arc;

use jiff::Timestamp;
use store_api::{Output, Store, StoreError};
use tool::{CallId, Code, KeptOutput, Outputs, SessionId, ToolError};

use crate::bounded_output::{Original, Reference, ShortenedText};
use crate::redact::Redactor;

/// Stores each whole text, covered like the answer itself, and returns the references.
///
/// # Errors
/// Fails with the first text that cannot be stored.
pub(crate) fn keep(
    store: &dyn Store,
    redactor: &Redactor,
    call: &CallId,
    session: &SessionId,
    now: Timestamp,
    shortened: Vec<ShortenedText>,
) -> Result<Vec<KeptOutput>, StoreError> {
    let mut kept = Vec::new();
    for ShortenedText { field, original } in shortened {
        let (blob, bytes, lines) = match original {
            Original::Text(text) => {
                let blob = store.blobs().put(&mut text.as_bytes())?;
                (blob, text.len() as u64, text.lines().count() as u64)
            }
            Original::Kept(whole) => (put_covered(store, redactor, whole.file)?, whole.bytes, whole.lines),
        };
        let id = Reference::of(call, &field);
        let output = Output {
            id: id.clone(),
            blob,
            media_type: "text/plain".to_owned(),
            session: Some(session.0.clone()),
            created_at: now,
        };
        store.outputs().keep(&output)?;
        kept.push(KeptOutput { field, output_ref: id, bytes, lines, kept_bytes: blob.size });
    }
    Ok(kept)
}

fn put_covered(store: &dyn Store, redactor: &Redactor, file: File) -> Result<store_api::BlobRef, StoreError> {
    if redactor.is_empty() {
        return store.blobs().put_file(file);
    }
    store.blobs().put(&mut redactor.reader(file))
}

/// Access to the stored outputs, for `output_read`.
pub(crate) struct StoredOutputs(pub(crate) Arc<dyn Store>);

impl Outputs for StoredOutputs {
    fn open(&self, reference: &str) -> Result<File, ToolError> {
        let missing = |error: StoreError| match &error {
            StoreError::OutputUnknown { .. } | StoreError::BlobUnknown { .. } => {
                ToolError::new(Code::NotFound, format!("there is no stored output `{reference}`"))
                    .hint("use `meta.output_ref` of a response; old outputs are removed after some time")
            }
            _ => ToolError::new(Code::Runtime, "the stored output cannot be opened").because(error),
        };
        self.0.outputs().open(reference).map(|(_, file)| file).map_err(missing)
    }
}
