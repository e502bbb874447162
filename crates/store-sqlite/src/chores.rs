//! Time at which any of the processes that share the folder last began a chore.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};
use store_api::{Chore, StoreError};

/// Returns the name of the chore's file, which is empty; its modification time is that of the chore.
fn mark(chore: Chore) -> &'static str {
    match chore {
        Chore::Prune => "pruned",
        Chore::Check => "checked",
    }
}

/// Records that a chore begins now.
pub(crate) fn begin(chore: Chore, folder: &Path, now: Timestamp) -> Result<(), StoreError> {
    let path = folder.join(mark(chore));
    let at = |error: io::Error| StoreError::from_io(&path, error);
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path).map_err(at)?;
    file.set_modified(SystemTime::from(now)).map_err(at)
}

/// Returns true if the last run of a chore began longer ago than `every`. In a folder without a run,
/// the period begins now.
pub(crate) fn is_due(
    chore: Chore,
    folder: &Path,
    every: SignedDuration,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let path = folder.join(mark(chore));
    let modified = match fs::symlink_metadata(&path).and_then(|found| found.modified()) {
        Ok(modified) => modified,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            begin(chore, folder, now)?;
            return Ok(false);
        }
        Err(error) => return Err(StoreError::from_io(&path, error)),
    };
    // A time outside every calendar makes the chore due.
    Ok(Timestamp::try_from(modified).map_or(true, |marked| now.duration_since(marked).abs() >= every))
}
