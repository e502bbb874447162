//! When what is old was last looked for, by any of the processes that share the folder.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};

use crate::error::StoreError;

/// A file without content; its time says when.
const MARK: &str = "pruned";

/// Says that it is done now.
pub(crate) fn mark(folder: &Path, now: Timestamp) -> Result<(), StoreError> {
    let path = folder.join(MARK);
    let at = |error: io::Error| StoreError::from_io(&path, error);
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path).map_err(at)?;
    file.set_modified(SystemTime::from(now)).map_err(at)
}

/// Whether it is longer ago than `every`. Of a folder in which it was never done it is not: then the time begins.
pub(crate) fn is_due(folder: &Path, every: SignedDuration, now: Timestamp) -> Result<bool, StoreError> {
    let path = folder.join(MARK);
    let modified = match fs::symlink_metadata(&path).and_then(|found| found.modified()) {
        Ok(modified) => modified,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            mark(folder, now)?;
            return Ok(false);
        }
        Err(error) => return Err(StoreError::from_io(&path, error)),
    };
    // A time that no calendar has is none that somebody waits for.
    Ok(Timestamp::try_from(modified).map_or(true, |marked| now.duration_since(marked).abs() >= every))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_again_after_its_time_and_not_in_a_new_folder() {
        let folder = tempfile::tempdir().unwrap();
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let after = |minutes| start + SignedDuration::from_mins(minutes);
        let due = |minutes| is_due(folder.path(), SignedDuration::from_mins(15), after(minutes)).unwrap();
        assert!(!due(0));
        assert!(!due(14));
        assert!(due(15) && due(16));
        mark(folder.path(), after(16)).unwrap();
        assert!(!due(30));
        assert!(due(31));
    }
}
