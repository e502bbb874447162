//! Registry of running servers: one file per server in the state folder, locked while the server
//! runs.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::places::create_private;

/// Name of the registry's folder within the state folder.
const FOLDER: &str = "listening";

/// A running server: `handfast up`, or one that serves its client over standard input and output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Server {
    /// Process id.
    pub(crate) process: u32,
    /// Address on which `up` listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<SocketAddr>,
    /// Folder that the server works in.
    pub(crate) workspace: PathBuf,
    /// Name of the program that started the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) started_by: Option<String>,
}

impl Server {
    /// Describes this process.
    pub(crate) fn of_this_process(address: Option<SocketAddr>, workspace: &Path) -> Self {
        let parent = std::os::unix::process::parent_id();
        let started_by = std::fs::read_to_string(format!("/proc/{parent}/comm")).ok();
        Self {
            process: std::process::id(),
            address,
            workspace: workspace.to_owned(),
            started_by: started_by.map(|name| name.trim_end().to_owned()),
        }
    }
}

/// The registry file of this process. The file exists while this value lives. A file that remains
/// afterwards is unlocked.
pub(crate) struct Listening {
    path: PathBuf,
    _file: File,
}

impl Listening {
    /// Registers the address of this process.
    pub(crate) fn begin(state: &Path, server: &Server) -> io::Result<Self> {
        let folder = state.join(FOLDER);
        create_private(&folder)?;
        let name = server.process.to_string();
        let (path, new) = (folder.join(&name), folder.join(format!(".{name}")));
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        (&file).write_all(&serde_json::to_vec(server)?)?;
        // Rename the file only when it is complete and locked.
        std::fs::rename(&new, &path)?;
        Ok(Self { path, _file: file })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // A remaining file has no lock, and the next reader removes it.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns the server of this state folder that uses the address, or `None` if another program or a
/// server of another state folder does.
pub(crate) fn in_the_way(state: &Path, address: SocketAddr) -> Option<Server> {
    servers(state).into_iter().find(|server| {
        server.address.is_some_and(|used| {
            let (one, other) = (used.ip(), address.ip());
            used.port() == address.port() && (one == other || one.is_unspecified() || other.is_unspecified())
        })
    })
}

/// Returns the address of a server of this state folder that serves the workspace.
pub(crate) fn serving(state: &Path, workspace: &Path) -> Option<SocketAddr> {
    servers(state)
        .into_iter()
        .filter(|server| server.workspace == workspace)
        .find_map(|server| server.address)
}

/// Returns the running servers of this state folder, in the order of their process ids.
pub(crate) fn servers(state: &Path) -> Vec<Server> {
    let entries = std::fs::read_dir(state.join(FOLDER));
    let mut servers: Vec<Server> =
        entries.into_iter().flatten().flatten().filter_map(|entry| running(&entry.path())).collect();
    servers.sort_by_key(|server| server.process);
    servers
}

/// Reads a file whose process is still running. Removes a leftover file.
fn running(path: &Path) -> Option<Server> {
    let file = File::open(path).ok()?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        let is_new = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !is_new {
            // Another process may have removed the file first.
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
        let used = at("127.0.0.1:7411");
        let server = Server {
            process: 7,
            address: Some(used),
            workspace: "/a".into(),
            started_by: Some("sh".to_owned()),
        };
        assert_eq!(in_the_way(state.path(), used), None);
        let listening = Listening::begin(state.path(), &server).unwrap();
        for (address, found) in [
            ("127.0.0.1:7411", true),
            ("0.0.0.0:7411", true),
            ("127.0.0.2:7411", false),
            ("127.0.0.1:7412", false),
        ] {
            assert_eq!(in_the_way(state.path(), at(address)).is_some(), found, "{address}");
        }
        let client = Server { process: 6, address: None, workspace: "/a".into(), started_by: None };
        let with_client = Listening::begin(state.path(), &client).unwrap();
        assert_eq!(servers(state.path()), [client, server.clone()]);
        assert_eq!(serving(state.path(), Path::new("/a")), Some(used));
        drop((listening, with_client));
        assert_eq!(in_the_way(state.path(), used), None);
        let left = state.path().join(FOLDER).join("8");
        std::fs::write(&left, serde_json::to_string(&server).unwrap()).unwrap();
        assert_eq!(in_the_way(state.path(), used), None);
        assert!(!left.exists(), "what a killed process has left is removed");
    }
}
