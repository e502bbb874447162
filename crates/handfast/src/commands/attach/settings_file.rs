//! Reading and writing a configuration file of another program, with a copy of its earlier content.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::places::{create_private, real};

/// Largest configuration file, in bytes. Claude Code keeps its history in its file.
const LARGEST: u64 = 64 * 1024 * 1024;

/// A configuration file, and its content when it was read.
#[derive(Debug)]
pub(super) struct SettingsFile {
    /// Path that the client uses.
    pub(super) path: PathBuf,
    /// Path behind links.
    target: PathBuf,
    /// Content, or `None` if the file does not exist.
    pub(super) content: Option<String>,
}

impl SettingsFile {
    /// Reads the file.
    ///
    /// # Errors
    /// The reason, with the path, why the file cannot be read or is no text.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let target = real(path);
        let content =
            content_of(&target).map_err(|reason| format!("cannot read {}: {reason}", path.display()))?;
        Ok(Self { path: path.to_owned(), target, content })
    }

    /// Returns the content, empty if the file does not exist.
    pub(super) fn text(&self) -> &str {
        self.content.as_deref().unwrap_or_default()
    }

    /// Replaces the content at once, and keeps the mode and the owner. An empty content removes a
    /// file that `attach` has created.
    ///
    /// # Errors
    /// The reason why the file was not written. It is then as it was.
    pub(super) fn write(&self, new: &str) -> Result<(), String> {
        self.replace(new).map_err(|reason| format!("cannot write {}: {reason}", self.path.display()))
    }

    fn replace(&self, new: &str) -> Result<(), String> {
        let folder = self.target.parent().ok_or("it has no folder")?;
        let before = std::fs::metadata(&self.target).ok();
        if before.as_ref().is_some_and(|facts| facts.permissions().mode() & 0o200 == 0) {
            return Err("it is read-only, probably because another program writes it".to_owned());
        }
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let owner = before.clone().or_else(|| std::fs::metadata(folder).ok());
        let mut draft = tempfile::NamedTempFile::new_in(folder).map_err(|error| error.to_string())?;
        let written = draft.write_all(new.as_bytes()).and_then(|()| {
            let mode = before.as_ref().map_or(0o600, |facts| facts.permissions().mode() & 0o777);
            draft.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
            if let Some(owner) = owner {
                let own = draft.as_file().metadata()?;
                if (own.uid(), own.gid()) != (owner.uid(), owner.gid()) {
                    std::os::unix::fs::fchown(draft.as_file(), Some(owner.uid()), Some(owner.gid()))?;
                }
            }
            draft.as_file().sync_all()
        });
        written.map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => "it belongs to another user".to_owned(),
            _ => error.to_string(),
        })?;
        if content_of(&self.target)? != self.content {
            return Err("another program changed it just now; close the client, and try again".to_owned());
        }
        draft.persist(&self.target).map_err(|error| error.error.to_string())?;
        Ok(())
    }

    /// Copies the content to a new private file in the folder. Returns its path, or `None` if there
    /// is nothing to copy.
    ///
    /// # Errors
    /// The reason why no copy could be made.
    pub(super) fn back_up(&self, folder: &Path, stem: &str) -> Result<Option<PathBuf>, String> {
        let Some(content) = &self.content else { return Ok(None) };
        let failed = |error: std::io::Error| format!("cannot save {} first: {error}", self.path.display());
        create_private(folder).map_err(failed)?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let path = folder.join(format!("{stem}-{name}"));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        file.write_all(content.as_bytes()).map_err(failed)?;
        Ok(Some(path))
    }
}

fn content_of(path: &Path) -> Result<Option<String>, String> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| error.to_string())?,
    };
    if !file.metadata().map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > LARGEST {
        return Err(format!("it is larger than {LARGEST} bytes"));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| "it is not text in UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::SettingsFile;

    #[test]
    fn a_link_leads_to_its_target_and_mode_and_link_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("dotfiles.json"), folder.path().join("settings.json"));
        std::fs::write(&target, "old").unwrap();
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o640)).unwrap();
        symlink("dotfiles.json", &link).unwrap();
        SettingsFile::read(&link).unwrap().write("new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "new");
        assert_eq!(std::fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_file_that_changed_meanwhile_or_is_read_only_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        std::fs::write(&path, "old").unwrap();
        let file = SettingsFile::read(&path).unwrap();
        std::fs::write(&path, "theirs").unwrap();
        assert!(file.write("ours").unwrap_err().contains("changed it just now"));
        let file = SettingsFile::read(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
        assert!(file.write("ours").unwrap_err().contains("read-only"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_new_file_is_private_and_its_folder_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/settings.json");
        let file = SettingsFile::read(&path).unwrap();
        assert_eq!(file.text(), "");
        file.write("{}").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(SettingsFile::read(&path).unwrap_err().contains("not text"));
        assert!(SettingsFile::read(folder.path()).unwrap_err().contains("not a file"));
    }
}
