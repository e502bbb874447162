//! Pictures of what questions are about: files that only the user can read, for as long as a question can
//! be answered.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use tool::{CallId, QuestionPicture};

/// Time for which a picture is kept: that for which a question can be answered.
const KEPT_FOR: Duration = Duration::from_hours(24);
/// Maximum number of pictures; the oldest are removed first.
const MOST: usize = 200;

/// Folder of the pictures.
#[derive(Debug)]
pub(crate) struct QuestionPictures(pub(crate) PathBuf);

impl QuestionPictures {
    /// Stores the picture of a call's question, removes old pictures, and returns the path. Blocks.
    pub(crate) fn add(
        &self,
        call: &CallId,
        picture: &QuestionPicture,
        now: Timestamp,
    ) -> io::Result<PathBuf> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        self.remove_old(now)?;
        let path = self.0.join(format!("{call}.png"));
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?.write_all(&picture.png)?;
        Ok(path)
    }

    fn remove_old(&self, now: Timestamp) -> io::Result<()> {
        let mut pictures = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            // Another process may have removed it.
            if let Some(metadata) = unless_gone(entry.metadata())? {
                pictures.push((metadata.modified()?, entry.path()));
            }
        }
        pictures.sort_unstable();
        let too_many = pictures.len().saturating_sub(MOST - 1);
        let now = std::time::SystemTime::from(now);
        for (number, (modified, path)) in pictures.into_iter().enumerate() {
            let is_old = now.duration_since(modified).is_ok_and(|age| age > KEPT_FOR);
            if number < too_many || is_old {
                unless_gone(fs::remove_file(path))?;
            }
        }
        Ok(())
    }
}

/// Returns `None` for a file that is not there any more.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn pictures_leave_after_a_day_or_when_there_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let pictures = QuestionPictures(folder.path().join("pictures"));
        let picture = QuestionPicture { png: b"png".to_vec(), shows: "it" };
        let now = Timestamp::try_from(std::fs::metadata(folder.path()).unwrap().modified().unwrap()).unwrap();
        let add = |number: usize, now| pictures.add(&CallId(format!("c{number:04}")), &picture, now).unwrap();
        let first = add(0, now);
        assert_eq!(std::fs::read(&first).unwrap(), b"png");
        for number in 1..MOST + 5 {
            add(number, now);
        }
        assert!(std::fs::read_dir(&pictures.0).unwrap().count() == MOST && !first.exists());
        let last = add(MOST + 5, now + SignedDuration::from_hours(25));
        assert!(last.exists());
        assert_eq!(std::fs::read_dir(&pictures.0).unwrap().count(), 1);
    }
}
