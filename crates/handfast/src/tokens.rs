//! The tokens of `handfast up`: one per role, created once, each in a file that only its owner can read.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use door_http::Role;

/// Number of random bytes in a token.
const RANDOM_BYTES: usize = 32;

/// Maximum size of a token file in bytes.
const LONGEST: u64 = 4096;

/// The token of one role, and its file.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) role: Role,
    pub(crate) text: String,
    pub(crate) path: PathBuf,
}

/// The reason why there is no token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// The file cannot be read or created.
    #[error("cannot use the token {}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        #[source]
        source: io::Error,
    },
    /// Other users may have read the token.
    #[error("others can read the token {}: remove it, and the next start creates a new one", path.display())]
    Open {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file contains no token.
    #[error("there is no token in {}: remove it, and the next start creates a new one", path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
}

/// Returns the token of a role from its file in the state folder. Creates the file if it does not exist.
pub(crate) fn token(state: &Path, role: Role) -> Result<Token, TokenError> {
    // Built-in deny lists contain `*.key`, so no tool reads the file, even after an approval.
    let path = state.join("http").join(format!("{}.key", role.as_str()));
    let failed = |source| TokenError::File { path: path.clone(), source };
    if let Some(file) = open(&path).map_err(failed)? {
        return read(role, path.clone(), file);
    }
    make(role, &path).map_err(failed)?;
    // Another start may have been faster. The existing file is the valid one.
    let file = open(&path).map_err(failed)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    read(role, path.clone(), file)
}

fn open(path: &Path) -> io::Result<Option<File>> {
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    match OpenOptions::new().read(true).custom_flags(nofollow).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read(role: Role, path: PathBuf, file: File) -> Result<Token, TokenError> {
    let failed = |source| TokenError::File { path: path.clone(), source };
    if file.metadata().map_err(failed)?.mode() & 0o077 != 0 {
        return Err(TokenError::Open { path });
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).map_err(failed)?;
    let text = text.trim().to_owned();
    if text.is_empty() {
        return Err(TokenError::Empty { path });
    }
    Ok(Token { role, text, path })
}

/// Creates the file atomically, and never replaces another one.
fn make(role: Role, path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut random = [0; RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let mut text = format!("hf_{}_", role.as_str());
    for byte in random {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    let draft = path.with_extension(format!("draft-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    let linked = writeln!(file, "{text}").and_then(|()| file.sync_all()).and_then(|()| {
        match std::fs::hard_link(&draft, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    });
    std::fs::remove_file(&draft)?;
    linked
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_made_once_for_its_owner_alone_and_differs_by_role() {
        let state = tempfile::tempdir().unwrap();
        let agent = token(state.path(), Role::Agent).unwrap();
        assert!(agent.text.starts_with("hf_agent_") && agent.text.len() > 2 * RANDOM_BYTES, "{agent:?}");
        assert_eq!(std::fs::metadata(&agent.path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(token(state.path(), Role::Agent).unwrap().text, agent.text);
        assert_ne!(token(state.path(), Role::User).unwrap().text, agent.text);
        let elsewhere = tempfile::tempdir().unwrap();
        assert_ne!(token(elsewhere.path(), Role::Agent).unwrap().text, agent.text);
        assert_eq!(std::fs::read_dir(state.path().join("http")).unwrap().count(), 2, "no draft is left");
    }

    #[test]
    fn a_token_that_others_can_read_is_refused_and_so_are_an_empty_one_and_a_link() {
        let state = tempfile::tempdir().unwrap();
        let path = token(state.path(), Role::User).unwrap().path;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(token(state.path(), Role::User), Err(TokenError::Open { .. })));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "\n").unwrap();
        assert!(matches!(token(state.path(), Role::User), Err(TokenError::Empty { .. })));
        let other = token(state.path(), Role::Agent).unwrap().path;
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(matches!(token(state.path(), Role::User), Err(TokenError::File { .. })));
    }
}
