//! Which `handfast up` listens where: a file for each in the state folder, locked for as long as it runs.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::places::create_private;

/// The folder of these files in the state folder.
const FOLDER: &str = "listening";

/// A `handfast up` that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Server {
    /// Its process.
    pub(crate) process: u32,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// The folder that it works in.
    pub(crate) workspace: PathBuf,
}

/// The file of this process. It is there for as long as this value lives, and without a lock afterwards.
pub(crate) struct Listening {
    path: PathBuf,
    _file: File,
}

impl Listening {
    /// Writes down where this process listens.
    pub(crate) fn begin(state: &Path, server: &Server) -> io::Result<Self> {
        let folder = state.join(FOLDER);
        create_private(&folder)?;
        let name = server.process.to_string();
        let (path, new) = (folder.join(&name), folder.join(format!(".{name}")));
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        serde_json::to_writer(&file, server)?;
        // It gets its name once it is whole and locked.
        std::fs::rename(&new, &path)?;
        Ok(Self { path, _file: file })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // One that stays has no lock, and is removed by whoever looks next.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The server of this state folder that stands in the way of listening at an address; none where it is another program, or one of
/// another state folder.
pub(crate) fn in_the_way(state: &Path, address: SocketAddr) -> Option<Server> {
    let entries = std::fs::read_dir(state.join(FOLDER)).ok()?;
    entries.flatten().filter_map(|entry| running(&entry.path())).find(|server| {
        let (one, other) = (server.address.ip(), address.ip());
        server.address.port() == address.port()
            && (one == other || one.is_unspecified() || other.is_unspecified())
    })
}

/// What a file says whose process runs still. One that was left over is removed.
fn running(path: &Path) -> Option<Server> {
    let file = File::open(path).ok()?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        let is_new = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !is_new {
            // Somebody else may have been faster.
            let _ = std::fs::remove_file(path);
        }
        return None;
    }
    serde_json::from_reader(file).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_is_known_while_it_does() {
        let state = tempfile::tempdir().unwrap();
        let at = |address: &str| address.parse::<SocketAddr>().unwrap();
        let server = Server { process: 7, address: at("127.0.0.1:7411"), workspace: "/a".into() };
        assert_eq!(in_the_way(state.path(), server.address), None);
        let listening = Listening::begin(state.path(), &server).unwrap();
        for (address, found) in [
            ("127.0.0.1:7411", true),
            ("0.0.0.0:7411", true),
            ("127.0.0.2:7411", false),
            ("127.0.0.1:7412", false),
        ] {
            assert_eq!(in_the_way(state.path(), at(address)).is_some(), found, "{address}");
        }
        drop(listening);
        assert_eq!(in_the_way(state.path(), server.address), None);
        let left = state.path().join(FOLDER).join("8");
        std::fs::write(&left, serde_json::to_string(&server).unwrap()).unwrap();
        assert_eq!(in_the_way(state.path(), server.address), None);
        assert!(!left.exists(), "what a killed process has left is removed");
    }
}
