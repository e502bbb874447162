//! Parts of the system that every cell shows, for every call.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::SandboxError;

/// Users of a cell, as its `/etc/passwd`.
pub(crate) const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n\
     agent:x:1000:1000:agent:/home/agent:/bin/sh\n\
     nobody:x:65534:65534:nobody:/:/bin/sh\n";

/// Groups of a cell, as its `/etc/group`.
pub(crate) const GROUP: &str = "root:x:0:\ntty:x:5:\nagent:x:1000:\nnogroup:x:65534:\n";

/// Home folder of the command's user.
pub(crate) const HOME: &str = "/home/agent";

/// Folders in which programs are searched if the caller names none.
pub(crate) const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// Settings of the kernel, readable. Writing them would fail for lack of privilege as well.
pub(crate) const PROCESSES_READ_ONLY: [&str; 1] = ["/proc/sys"];

/// Files that no program of a cell needs and that some kernels show to every user, outside of any
/// namespace: keys, timers, and the scheduler's activity. Only root of the host can read the other
/// files that containers cover, and no process in a cell is root of the host.
pub(crate) const PROCESSES_COVERED: [&str; 5] =
    ["/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/latency_stats", "/proc/sched_debug"];

/// Folders of the system with programs and their settings. The `/lib*` folders come in addition.
const FOLDERS: [&str; 6] = ["/usr", "/bin", "/sbin", "/etc", "/opt", "/nix/store"];

/// A system folder, shown read-only, or the link in its place.
#[derive(Debug)]
pub(crate) enum SystemEntry {
    Folder(PathBuf),
    Link(PathBuf, PathBuf),
}

impl SystemEntry {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Folder(path) | Self::Link(path, _) => path,
        }
    }
}

/// Returns the system folders of this machine.
pub(crate) fn entries() -> Result<Vec<SystemEntry>, SandboxError> {
    let mut paths: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    paths.extend(libraries()?);
    let mut entries = Vec::new();
    for path in paths {
        let entry = match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => {
                let text = fs::read_link(&path).map_err(reading)?;
                SystemEntry::Link(path, text)
            }
            Ok(metadata) if metadata.is_dir() => SystemEntry::Folder(path),
            Ok(_) => continue,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(reading(error)),
        };
        entries.push(entry);
    }
    Ok(entries)
}

/// Returns true if every cell shows this path as part of the system.
pub fn is_of_system(path: &Path) -> bool {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    // A real path leads through no link.
    system_folders().iter().any(|folder| real.starts_with(folder))
}

/// Returns true for the folders of the system as a whole without which hardly a program runs. That is all of them
/// but `/opt`.
pub fn is_needed_whole(path: &Path) -> bool {
    let needed = system_folders().into_iter().filter(|folder| folder != Path::new("/opt"));
    let mut real = needed.map(|folder| fs::canonicalize(&folder).unwrap_or(folder));
    real.any(|folder| folder == path)
}

/// Returns the folders of the system that every cell shows, and the links in the place of some.
pub fn system_folders() -> Vec<PathBuf> {
    entries().unwrap_or_default().iter().map(|entry| entry.path().to_owned()).collect()
}

fn libraries() -> Result<Vec<PathBuf>, SandboxError> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/").map_err(reading)? {
        let name: OsString = entry.map_err(reading)?.file_name();
        if name.as_bytes().starts_with(b"lib") {
            found.push(Path::new("/").join(name));
        }
    }
    Ok(found)
}

fn reading(source: std::io::Error) -> SandboxError {
    SandboxError::Io { doing: "reading the system folders", source }
}

/// Returns the shell that runs shell lines in a cell: bash if available, because most lines are
/// written for it.
pub fn shell() -> &'static str {
    ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| Path::new(path).is_file()).unwrap_or("/bin/sh")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_programs_is_among_the_entries_and_no_home_is() {
        let entries = entries().unwrap();
        let has = |path: &str| entries.iter().any(|entry| entry.path() == Path::new(path));
        assert!(has("/usr") && has("/etc"));
        let needed = |path: &str| is_needed_whole(Path::new(path));
        assert!(needed("/usr") && needed("/etc") && !needed("/opt") && !needed("/etc/passwd"));
        assert!(!has("/home") && !has("/root") && !has("/var") && !has("/run"));
    }
}
