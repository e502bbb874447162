//! The output of commands that run on when their call has been answered.
//!
//! While one runs, its output is in a file of its own as it comes, locked by the program that it runs in. When it has
//! ended, the output is kept as every other, and the file removed. Where the program was killed meanwhile, the lock is
//! gone, and the next start of any takes the file over.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::{Output, Store, StoreError};
use tool::Clock;

use crate::redact::Redactor;

/// What stands behind the output of a command that was cut off.
const CUT_OFF: &str = "\n[Handfast was killed while this command ran; the command ended with it, and this is what it had \
                       written until then]\n";

/// Keeps the output of sessions as `ID.output`, covered, for any later process.
pub(crate) struct Recorder {
    pub(crate) store: Arc<Store>,
    pub(crate) redactor: Redactor,
    pub(crate) clock: Arc<dyn Clock>,
    /// The folder of the files; without one, what is cut off is lost.
    pub(crate) folder: Option<PathBuf>,
}

impl Recorder {
    /// Keeps what killed programs have left. Says for what that could not be done, and why.
    pub(crate) fn take_over(&self) -> Vec<String> {
        let entries = self.folder.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
        let mut told = Vec::new();
        for path in entries.flatten().map(|entry| entry.path()) {
            if let Err(error) = self.take_over_one(&path) {
                told.push(format!(
                    "the output of a command that was cut off stays in {}: {error}",
                    path.display()
                ));
            }
        }
        told
    }

    fn take_over_one(&self, path: &Path) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(parts);
        let Some((id, owner)) = name else { return Ok(()) };
        let file = match OpenOptions::new().read(true).open(path) {
            // Another program was quicker.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        if file.try_lock().is_err() {
            // The command runs.
            return Ok(());
        }
        self.put(id, owner, &mut self.redactor.reader(file).chain(CUT_OFF.as_bytes()))?;
        Ok(fs::remove_file(path)?)
    }

    /// Keeps an output, unless that was done before.
    fn put(&self, id: &str, owner: &str, content: &mut dyn Read) -> Result<String, StoreError> {
        let output = Output {
            id: format!("{id}.output"),
            blob: self.store.blobs().put(content)?,
            media_type: "text/plain".to_owned(),
            session: Some(owner.to_owned()),
            created_at: self.clock.now(),
        };
        match self.store.outputs().keep(&output) {
            Ok(()) | Err(StoreError::OutputExists { .. }) => Ok(output.id),
            Err(error) => Err(error),
        }
    }

    fn path(&self, owner: &str, id: &str) -> Option<PathBuf> {
        let name = format!("{id}.{owner}");
        let folder = self.folder.as_ref().filter(|_| parts(&name) == Some((id, owner)))?;
        Some(folder.join(name))
    }

    fn remove(&self, owner: &str, id: &str) {
        // One that is left is taken over later, and then known to be kept already.
        let _left = self.path(owner, id).map(fs::remove_file);
    }
}

/// Makes the file. It gets its name when it is locked, so that nobody takes it over before.
fn make(path: &Path) -> io::Result<File> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let unnamed = folder.join(format!(".{name}"));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&unnamed)?;
    file.lock()?;
    fs::rename(unnamed, path)?;
    Ok(file)
}

/// The id of a session and its owner, of the name of a file. Other names are nobody's.
fn parts(name: &str) -> Option<(&str, &str)> {
    let plain = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.split_once('.').filter(|(id, owner)| plain(id) && plain(owner))
}

impl sandbox::Keeper for Recorder {
    fn begin(&self, owner: &str, id: &str) -> Option<File> {
        make(&self.path(owner, id)?).ok()
    }

    fn keep(
        &self,
        owner: &str,
        id: &str,
        session: &sandbox::Session,
    ) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
        let reference = self.put(id, owner, &mut self.redactor.reader(session.output()))?;
        self.remove(owner, id);
        Ok(reference)
    }

    fn forget(&self, owner: &str, id: &str) {
        self.remove(owner, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_this_gives_are_taken_over() {
        assert_eq!(parts("sh-c1-2.s1f-3"), Some(("sh-c1-2", "s1f-3")));
        for other in ["", ".", ".sh-1.s", "sh-1", "sh-1.", "sh 1.s", "sh-1.s.tmp", "a/b.c"] {
            assert_eq!(parts(other), None, "{other}");
        }
    }
}
