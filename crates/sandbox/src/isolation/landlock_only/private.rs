//! The private folder of a cell without namespaces, with its home and its temporary files, on the
//! host's disk.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::child::keeper::User;
use crate::error::SandboxError;
use crate::home::{CACHES, KEPT, link_text};
use crate::spec::CellSpec;

/// The private folder, removed when dropped.
#[derive(Debug)]
pub(crate) struct PrivateFolder {
    folder: Option<TempDir>,
    path: PathBuf,
    user: Option<User>,
}

impl PrivateFolder {
    /// Makes the folder in `base`; it belongs to `user` if that is not the caller.
    pub(crate) fn new(base: &Path, user: Option<User>) -> Result<Self, SandboxError> {
        let made = || -> io::Result<Self> {
            let folder = tempfile::Builder::new().prefix("cell-").tempdir_in(base)?;
            let path = folder.path().canonicalize()?;
            let private = Self { folder: Some(folder), path, user };
            private.give(&private.path)?;
            for name in ["home", "tmp"] {
                private.make_folder(&private.path.join(name))?;
            }
            Ok(private)
        };
        made().map_err(|source| SandboxError::Io { doing: "making a private folder for the cell", source })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes files into the home. Their names must be relative.
    pub(crate) fn write(&self, files: &[(PathBuf, Vec<u8>)]) -> Result<(), SandboxError> {
        let home = self.path.join("home");
        for (name, content) in files {
            let plain = name.components().all(|part| matches!(part, std::path::Component::Normal(_)));
            if !plain {
                return Err(SandboxError::Invalid {
                    field: "home files",
                    reason: format!("`{}` is not a relative path", name.display()),
                });
            }
            self.write_one(&home, name, content)
                .map_err(|source| SandboxError::Io { doing: "writing a file of the cell's home", source })?;
        }
        Ok(())
    }

    /// Links the caches of the home to `kept`. Returns the real path of `kept`, with all links
    /// resolved.
    pub(crate) fn link_caches(&self, kept: &Path) -> Result<PathBuf, SandboxError> {
        let home = self.path.join("home");
        let made = || -> io::Result<PathBuf> {
            let real = kept.canonicalize()?;
            symlink(&real, home.join(KEPT))?;
            for (path, name) in CACHES {
                self.make_parents(&home, Path::new(path))?;
                symlink(link_text(path, name), home.join(path))?;
            }
            Ok(real)
        };
        made().map_err(|source| SandboxError::Io { doing: "making the links of the cell's home", source })
    }

    fn write_one(&self, home: &Path, name: &Path, content: &[u8]) -> io::Result<()> {
        self.make_parents(home, name)?;
        let path = home.join(name);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        io::Write::write_all(&mut file, content)?;
        self.give(&path)
    }

    /// Makes the folders between the home and the file `name` in it.
    fn make_parents(&self, home: &Path, name: &Path) -> io::Result<()> {
        let mut folder = home.to_owned();
        for part in name.parent().into_iter().flat_map(Path::components) {
            folder.push(part);
            match self.make_folder(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        Ok(())
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        fs::DirBuilder::new().mode(0o700).create(path)?;
        self.give(path)
    }

    fn give(&self, path: &Path) -> io::Result<()> {
        self.user.map_or(Ok(()), |user| chown(path, Some(user.user), Some(user.group)))
    }

    /// Returns the specification with an environment that points to this folder.
    pub(crate) fn in_environment(&self, spec: &CellSpec) -> CellSpec {
        let mut spec = spec.clone();
        for (name, folder) in [("HOME", "home"), ("TMPDIR", "tmp")] {
            spec.environment.entry(name.into()).or_insert_with(|| self.path.join(folder).into());
        }
        spec
    }

    /// Removes the folder. No process that can write to it may be left.
    ///
    /// # Errors
    /// Returns an error if some file cannot be removed; that file is left.
    pub(crate) fn remove(mut self) -> io::Result<()> {
        self.clear()
    }

    fn clear(&mut self) -> io::Result<()> {
        let Some(folder) = self.folder.take() else { return Ok(()) };
        let path = folder.keep();
        match fs::remove_dir_all(&path) {
            Ok(()) => Ok(()),
            // Some folders forbid access; their owner may change that.
            Err(_) => open_up(&path).and_then(|()| fs::remove_dir_all(&path)),
        }
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // Reached only after an error, which is reported instead.
        let _left = self.clear();
    }
}

/// Gives the owner of every folder the right to list and change it.
fn open_up(path: &Path) -> io::Result<()> {
    // An explicit stack, because the command chooses the depth.
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_removed_whatever_modes_are_in_it() {
        let base = tempfile::tempdir().unwrap();
        let private = PrivateFolder::new(base.path(), None).unwrap();
        let closed = private.path().join("home/closed/inner");
        fs::create_dir_all(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(closed.parent().unwrap(), fs::Permissions::from_mode(0o000)).unwrap();
        private.remove().unwrap();
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn files_of_the_home_are_written_into_it_and_nowhere_else() {
        let base = tempfile::tempdir().unwrap();
        let private = PrivateFolder::new(base.path(), None).unwrap();
        private.write(&[(".config/git/config".into(), b"x".to_vec())]).unwrap();
        assert_eq!(fs::read(private.path().join("home/.config/git/config")).unwrap(), b"x");
        for name in ["../out", "/out"] {
            assert!(private.write(&[(name.into(), Vec::new())]).is_err(), "{name}");
        }
    }
}
