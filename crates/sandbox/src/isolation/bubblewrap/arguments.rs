//! The view of a cell as arguments of bwrap, and the checks that the cell's first process makes
//! afterwards.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::mount::MountAttrFlags;
use rustix::process::{getgid, getuid};

use super::tool::{ENTRANCE, Tool, handed};
use crate::child::blueprint::{ExpectedEntry, INNER_ID, Kind, Mount, Place, Source, Step};
use crate::error::SandboxError;
use crate::roots::{Root, Roots};
use crate::spec::Entrance;
use crate::view::SCRATCH;

/// The cover of a denied file: a device, and devices do not work in bwrap's bind mounts.
const NOTHING: &str = "/dev/null";

/// Arguments for one call of bwrap.
pub(super) struct Arguments {
    pub(super) words: Vec<OsString>,
    /// Files to which the words refer by descriptor number.
    pub(super) files: Vec<OwnedFd>,
    /// Conditions to check after bwrap has built the file system. bwrap resolves names, and names
    /// can be made to lead elsewhere.
    pub(super) checks: Vec<Step>,
    /// Folders and files that must not have moved in the meantime.
    pub(super) unmoved: Vec<CoveredFile>,
}

impl Arguments {
    /// Translates the steps.
    pub(super) fn of(
        steps: &[Step],
        roots: &Roots,
        tool: &Tool,
        entrance: &Entrance,
    ) -> Result<Self, SandboxError> {
        let mut making = Making {
            roots,
            tool,
            words: Vec::new(),
            files: Vec::new(),
            expected: BTreeMap::new(),
            unmoved: Vec::new(),
            databases: BTreeMap::new(),
        };
        making.namespaces();
        for step in steps {
            making.step(step)?;
        }
        making.say(["--ro-bind".as_ref(), entrance.program.as_os_str(), ENTRANCE.as_ref()]);
        making.say(["--remount-ro", "/"]);
        let checks =
            making.expected.into_iter().map(|(path, is)| Ok(Step::Check { at: Place::new(&path)?, is }));
        let checks = checks.collect::<Result<_, SandboxError>>()?;
        Ok(Self { words: making.words, files: making.files, checks, unmoved: making.unmoved })
    }
}

struct Making<'a> {
    roots: &'a Roots,
    tool: &'a Tool,
    words: Vec<OsString>,
    files: Vec<OwnedFd>,
    expected: BTreeMap<PathBuf, ExpectedEntry>,
    unmoved: Vec<CoveredFile>,
    /// The lists of users and groups, and the content from which covers are cloned, by path.
    databases: BTreeMap<PathBuf, Vec<u8>>,
}

impl Making<'_> {
    fn say<W: AsRef<OsStr>>(&mut self, words: impl IntoIterator<Item = W>) {
        self.words.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
    }

    fn namespaces(&mut self) {
        self.say([
            "--unshare-ipc",
            "--unshare-pid",
            "--unshare-net",
            "--unshare-uts",
            "--unshare-cgroup-try",
        ]);
        self.say(["--hostname", "cell", "--cap-drop", "ALL"]);
        // The first process is this program, which reaps and ends all processes as in every cell.
        self.say(["--die-with-parent", "--new-session", "--as-pid-1"]);
        if self.tool.makes_user_namespace() {
            let id = INNER_ID.to_string();
            self.say(["--unshare-user", "--uid", &id, "--gid", &id]);
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), SandboxError> {
        let path = step.path();
        match step {
            Step::Mount(mount) => self.mount(mount, path),
            // bwrap makes its own devices and process table, so the steps for a cell's own are
            // skipped.
            Step::Link { .. } | Step::Folder { .. } if is_own(path) => Ok(()),
            Step::Link { text, .. } => {
                self.say(["--symlink".as_ref(), OsStr::from_bytes(text.to_bytes()), path.as_os_str()]);
                Ok(())
            }
            // The source of covers.
            Step::File { content, .. } if path.starts_with(SCRATCH) => {
                self.databases.insert(path.to_owned(), content.clone());
                Ok(())
            }
            Step::Folder { .. } if path.starts_with(SCRATCH) => Ok(()),
            Step::File { content, mode, .. } => {
                self.perms(*mode);
                self.data("--file", content, path)
            }
            Step::Folder { mode, .. } => {
                self.perms(*mode);
                self.say([OsStr::new("--dir"), path.as_os_str()]);
                Ok(())
            }
            Step::Folders { names, .. } => {
                for name in names {
                    self.perms(0o700);
                    let folder = path.join(OsStr::from_bytes(name.to_bytes()));
                    self.say([OsStr::new("--dir"), folder.as_os_str()]);
                }
                Ok(())
            }
            Step::Seal { .. } => {
                self.say([OsStr::new("--remount-ro"), path.as_os_str()]);
                Ok(())
            }
            // A placeholder needs an overlay, which bwrap is never asked for.
            Step::Placeholder { .. } => Err(SandboxError::Invalid {
                field: "placeholders",
                reason: format!("`{}` cannot have one in a cell that bwrap makes", path.display()),
            }),
            // The filter refuses the actions that this setting would forbid.
            Step::Setting { .. } | Step::Check { .. } => Ok(()),
        }
    }

    fn mount(&mut self, mount: &Mount, path: &Path) -> Result<(), SandboxError> {
        match &mount.source {
            Source::Memory { .. } if path == Path::new("/dev") => {
                self.say(["--dev", "/dev"]);
                Ok(())
            }
            Source::Processes => {
                self.say(["--proc", "/proc"]);
                Ok(())
            }
            _ if is_own(path) && !covers(mount) => Ok(()),
            Source::Memory { size, mode } => {
                let invalid = || SandboxError::Invalid { field: "size", reason: format!("{size:?}") };
                let bytes = size.to_str().ok().and_then(bytes).ok_or_else(invalid)?;
                let mode = mode.to_str().ok().and_then(|mode| u32::from_str_radix(mode, 8).ok());
                self.memory(path, mode.ok_or_else(invalid)?, Some(bytes));
                Ok(())
            }
            Source::Host(real) => {
                let real = Path::new(OsStr::from_bytes(real.to_bytes()));
                let read_only = mount.attributes.contains(MountAttrFlags::MOUNT_ATTR_RDONLY);
                self.bind(real, path, read_only, mount.required);
                match self.roots.all().find(|root| root.at == path) {
                    Some(root) => self.expect(root, real, path, read_only),
                    None => Ok(()),
                }
            }
            Source::Inside(source) => {
                self.inside(Path::new(OsStr::from_bytes(source.to_bytes())), mount, path)
            }
            // A view for an ordinary user without an overlay has no source of these kinds.
            Source::Handed(_) | Source::Overlay { .. } | Source::Terminals => Ok(()),
        }
    }

    /// Shows a file or folder of the cell a second time, at another path or as a mount point.
    fn inside(&mut self, source: &Path, mount: &Mount, path: &Path) -> Result<(), SandboxError> {
        let known = self.databases.get(source).filter(|content| !content.is_empty());
        if let Some(content) = known.map(|content| self.with_own_user(content)) {
            self.perms(0o644);
            return self.data("--ro-bind-data", &content, path);
        }
        let root = self.innermost(path).cloned();
        if source.starts_with(SCRATCH) {
            return self.cover(mount, path, root.as_ref());
        }
        let Some(root) = root else { return Ok(()) };
        let real = on_host(&root, path);
        let read_only = !root.writable || mount.attributes.contains(MountAttrFlags::MOUNT_ATTR_RDONLY);
        self.bind(&real, path, read_only, mount.required);
        self.expect(&root, &real, path, read_only)?;
        // The host's mount at this path now hides the roots inside, so bind them again.
        let mut nested: Vec<Root> = self
            .roots
            .all()
            .filter(|inner| inner.at != path && inner.at.starts_with(path))
            .cloned()
            .collect();
        nested.sort_by_key(|inner| inner.at.components().count());
        let frozen = mount.attributes.contains(MountAttrFlags::MOUNT_ATTR_RDONLY);
        for inner in nested {
            let read_only = frozen || !inner.writable;
            self.bind(&inner.real, &inner.at, read_only, inner.at == inner.real);
            self.expect(&inner, &inner.real, &inner.at, read_only)?;
        }
        Ok(())
    }

    /// Hides the object at a path behind one that no process can open.
    fn cover(&mut self, mount: &Mount, path: &Path, root: Option<&Root>) -> Result<(), SandboxError> {
        match mount.kind {
            Kind::File => self.bind(Path::new(NOTHING), path, true, true),
            Kind::Folder => {
                self.memory(path, 0o000, None);
                self.say([OsStr::new("--remount-ro"), path.as_os_str()]);
            }
        }
        let Some(root) = root else { return Ok(()) };
        if root.at == root.real {
            self.expected.insert(path.to_owned(), ExpectedEntry::Hidden);
            self.unmoved.push(CoveredFile::of(path)?);
        }
        Ok(())
    }

    fn bind(&mut self, real: &Path, path: &Path, read_only: bool, required: bool) {
        let word = match (read_only, required) {
            (true, true) => "--ro-bind",
            (true, false) => "--ro-bind-try",
            (false, true) => "--bind",
            (false, false) => "--bind-try",
        };
        self.say([OsStr::new(word), real.as_os_str(), path.as_os_str()]);
    }

    fn memory(&mut self, path: &Path, mode: u32, size: Option<u64>) {
        self.perms(mode);
        // bwrap takes a size only when it is not set-user-id.
        if let Some(size) = size.filter(|_| self.tool.makes_user_namespace()) {
            self.say(["--size", &size.to_string()]);
        }
        self.say([OsStr::new("--tmpfs"), path.as_os_str()]);
    }

    fn data(&mut self, word: &str, content: &[u8], path: &Path) -> Result<(), SandboxError> {
        let file = handed(OsStr::from_bytes(content))?;
        let number = file.as_raw_fd().to_string();
        self.say([OsStr::new(word), number.as_ref(), path.as_os_str()]);
        self.files.push(file);
        Ok(())
    }

    /// Returns a list of users or groups with the id that the command really has.
    fn with_own_user(&self, content: &[u8]) -> Vec<u8> {
        if self.tool.makes_user_namespace() {
            return content.to_vec();
        }
        let (user, group) = (getuid().as_raw(), getgid().as_raw());
        let text = String::from_utf8_lossy(content);
        text.replace(&format!(":{INNER_ID}:{INNER_ID}:"), &format!(":{user}:{group}:"))
            .replace(&format!(":{INNER_ID}:"), &format!(":{group}:"))
            .into_bytes()
    }

    fn perms(&mut self, mode: u32) {
        self.say(["--perms", &format!("{mode:04o}")]);
    }

    /// Expects a mount of a root to show exactly that object, under the name that no link leads
    /// through.
    fn expect(&mut self, root: &Root, real: &Path, path: &Path, read_only: bool) -> Result<(), SandboxError> {
        if root.at == root.real {
            let CoveredFile { device, inode, .. } = CoveredFile::of(real)?;
            self.expected.insert(path.to_owned(), ExpectedEntry::Same { device, inode, read_only });
        }
        Ok(())
    }

    /// Returns the innermost root that contains a path of the cell.
    fn innermost(&self, path: &Path) -> Option<&Root> {
        let holds = self.roots.all().filter(|root| path.starts_with(&root.at));
        holds.max_by_key(|root| root.at.components().count())
    }
}

/// A covered file, as found on the host.
pub(super) struct CoveredFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl CoveredFile {
    fn of(path: &Path) -> Result<Self, SandboxError> {
        let found = fs::symlink_metadata(path)
            .map_err(|error| SandboxError::Root { path: path.to_owned(), reason: error.to_string() })?;
        Ok(Self { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }

    /// Verifies that the file has not moved: a file moved away while the cell was built may be
    /// visible elsewhere in it.
    pub(super) fn check(&self) -> Result<(), SandboxError> {
        let now = Self::of(&self.path)?;
        if (now.device, now.inode) == (self.device, self.inode) {
            return Ok(());
        }
        let reason = "it was replaced while the cell was built; run the command again".to_owned();
        Err(SandboxError::Root { path: self.path.clone(), reason })
    }
}

fn covers(mount: &Mount) -> bool {
    matches!(&mount.source, Source::Inside(source) if source.to_bytes().starts_with(SCRATCH.as_bytes()))
}

/// Returns true if bwrap makes its own objects at this path.
fn is_own(path: &Path) -> bool {
    (path.starts_with("/dev") && !path.starts_with("/dev/shm")) || path.starts_with("/proc")
}

fn on_host(root: &Root, path: &Path) -> PathBuf {
    match path.strip_prefix(&root.at) {
        Ok(below) if !below.as_os_str().is_empty() => root.real.join(below),
        _ => root.real.clone(),
    }
}

/// Parses a size such as `64k` or `1g` into bytes.
fn bytes(size: &str) -> Option<u64> {
    let shift = match size.chars().last()? {
        'k' => 10,
        'm' => 20,
        'g' => 30,
        _ => return size.parse().ok(),
    };
    size.get(..size.len() - 1)?.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_frozen_takes_the_roots_in_it_along() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        let inner = workspace.join("a/inner");
        fs::create_dir_all(&inner).unwrap();
        let spec = crate::spec::CellSpec {
            workspace: workspace.clone(),
            read_write: vec![inner.clone()],
            ..crate::spec::CellSpec::default()
        };
        let roots = Roots::new(&spec).unwrap();
        let tool = Tool::for_a_test();
        let entrance = Entrance { program: "/proc/self/exe".into(), arguments: Vec::new() };
        let last_bind_of_inner = |path: &Path, attributes| {
            let step = Step::Mount(Mount {
                source: Source::Inside(crate::child::blueprint::c_string("path", path).unwrap()),
                at: Place::new(path).unwrap(),
                kind: Kind::Folder,
                attributes,
                required: true,
                make_point: false,
                tree: -1,
            });
            let arguments = Arguments::of(&[step], &roots, &tool, &entrance).unwrap();
            let mut binds = arguments.words.windows(3).filter(|words| words[2] == inner.as_os_str());
            binds.next_back().unwrap()[0].clone()
        };
        let read_only = MountAttrFlags::MOUNT_ATTR_RDONLY;
        assert_eq!(last_bind_of_inner(&workspace, read_only), "--ro-bind");
        assert_eq!(last_bind_of_inner(&workspace.join("a"), read_only), "--ro-bind");
        // The control: a folder that is fixed in its place, but not frozen.
        assert_eq!(last_bind_of_inner(&workspace.join("a"), MountAttrFlags::empty()), "--bind");
    }

    #[test]
    fn sizes_are_those_of_a_mount_option() {
        assert_eq!(["512", "4k", "256m", "1g"].map(bytes), [512, 4 << 10, 256 << 20, 1 << 30].map(Some));
        assert_eq!(["", "g", "1t", "-1k"].map(bytes), [None; 4]);
    }
}
