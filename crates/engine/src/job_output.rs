//! The output of commands that continue after the response to their call.
//!
//! While such a command runs, its output goes to a file of its own, which the process that runs the
//! command locks. When the command has ended, its output is stored like any other, and the file is
//! removed. If the process was killed, the lock is free, and the next start of any process takes
//! the file over.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store_api::{Output, Store, StoreError};
use tool::Clock;

use crate::redact::Redactor;

/// Text at the end of the output of a command that was cut off.
const CUT_OFF: &str = "\n[Handfast was killed while this command ran, which ended the command; its \
     output until then is above]\n";

/// Storage for the output of sessions as `ID.output`, redacted, for any later process.
pub(crate) struct Recorder {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) redactor: Redactor,
    pub(crate) clock: Arc<dyn Clock>,
    /// Folder of the files; if it is `None`, cut-off output is lost.
    pub(crate) folder: Option<PathBuf>,
}

impl Recorder {
    /// Stores the files that killed processes have left. Returns a message for each file that could
    /// not be stored.
    pub(crate) fn take_over(&self) -> Vec<String> {
        let entries = self.folder.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
        let mut told = Vec::new();
        for path in entries.flatten().map(|entry| entry.path()) {
            if let Err(error) = self.take_over_one(&path) {
                told.push(format!(
                    "the output of an interrupted command remains in {}: {error}",
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
            // Another process has taken the file over already.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        if file.try_lock().is_err() {
            // The command is still running.
            return Ok(());
        }
        self.put(id, owner, &mut self.redactor.reader(file).chain(CUT_OFF.as_bytes()))?;
        Ok(fs::remove_file(path)?)
    }

    /// Stores an output, unless that was done before.
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
        // A remaining file is taken over later, and then recognized as stored already.
        let _left = self.path(owner, id).map(fs::remove_file);
    }
}

/// Creates the file. The file gets its final name after it is locked, so that no other process
/// takes the file over in between.
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

/// Returns the session id and the owner from the name of a file, or `None` for other names.
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
