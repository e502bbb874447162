//! Temporary workspaces for tests.

use std::any::Any;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use roots::{Guard, Right, Root, Roots};
use tool::{CallId, Context, Place, Redaction, Services, SessionId};

use crate::{FixedClock, Permissive, TestSecrets};

/// A workspace in a temporary folder. Next to it are a folder that lies outside, and one in which
/// changes are drafted.
///
/// Paths are relative to the workspace. `../outside` is the folder that lies outside.
pub struct Workspace {
    /// Guard that keeps the folder until the test ends.
    _kept: tempfile::TempDir,
    path: PathBuf,
    guard: Arc<dyn Guard>,
    services: Services,
    listed: Vec<(PathBuf, Right)>,
}

impl Default for Workspace {
    fn default() -> Self {
        Self::new()
    }
}

impl Workspace {
    /// Makes an empty workspace in which everything is allowed.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let base = folder.path().canonicalize().expect("the temporary folder's real path");
        let workspace = base.join("workspace");
        for folder in [&workspace, &base.join("outside")] {
            fs::create_dir(folder).expect("a folder in the temporary folder");
        }
        Self {
            _kept: folder,
            path: workspace,
            guard: Arc::new(Permissive),
            services: Services::default(),
            listed: Vec::new(),
        }
        .covering(TestSecrets::default())
    }

    /// Makes these secrets known to the workspace.
    #[must_use]
    pub fn covering(self, covers: TestSecrets) -> Self {
        self.with_service::<Arc<dyn Redaction>>(Arc::new(Arc::new(covers)))
    }

    /// Returns the workspace with another guard.
    #[must_use]
    pub fn guarded(mut self, guard: impl Guard + 'static) -> Self {
        self.guard = Arc::new(guard);
        self
    }

    /// Returns the workspace with one more root.
    #[must_use]
    pub fn listing(mut self, path: impl Into<PathBuf>, right: Right) -> Self {
        self.listed.push((path.into(), right));
        self
    }

    /// Returns the workspace with these files: path, content.
    #[must_use]
    pub fn with_files(self, files: &[(&str, &str)]) -> Self {
        for (path, content) in files {
            self.write(path, content);
        }
        self
    }

    /// Returns the workspace with a mechanism for [`Context::service`].
    #[must_use]
    pub fn with_service<T: Any + Send + Sync>(mut self, service: Arc<T>) -> Self {
        self.services.insert(service);
        self
    }

    /// Returns the path of the workspace, absolute and without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of an entry in the workspace.
    pub fn at(&self, path: &str) -> PathBuf {
        self.path.join(path)
    }

    /// Writes a file, and makes the folders that contain it.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        self.folder(Path::new(path).parent().and_then(Path::to_str).unwrap_or_default());
        fs::write(self.at(path), content).expect("a file written by the test");
    }

    /// Makes a folder and its parents.
    pub fn folder(&self, path: &str) {
        fs::create_dir_all(self.at(path)).expect("a folder made by the test");
    }

    /// Makes a symbolic link at `path` with the target `target`.
    pub fn link(&self, path: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.at(path)).expect("a link made by the test");
    }

    /// Makes a file of this size, in bytes, that is one hole.
    pub fn sparse(&self, path: &str, bytes: u64) {
        let file = fs::File::create(self.at(path)).expect("a file made by the test");
        file.set_len(bytes).expect("a sparse file");
    }

    /// Returns the text of a file.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Returns true if an entry has this name, even a dangling symbolic link.
    pub fn exists(&self, path: &str) -> bool {
        fs::symlink_metadata(self.at(path)).is_ok()
    }

    /// Returns the names in a folder, in order.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.expect("an entry").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// Returns the place of calls: this workspace.
    pub fn place(&self) -> Place {
        Place::at(self.path.clone())
    }

    /// Returns the roots of a call: the workspace, and the listed roots.
    pub fn roots(&self) -> Roots {
        let open = |path: &Path, right| Root::open(path, right).expect("a root");
        let mut roots = vec![open(&self.path, Right::Write)];
        roots.extend(self.listed.iter().map(|(path, right)| open(path, *right)));
        Roots::new(roots, self.guard.clone())
    }

    /// Returns the context of a call that nobody stops.
    pub fn context(&self) -> Context {
        let mut services = self.services.clone();
        services.insert(Arc::new(self.roots()));
        // In the folders of some tests, nothing can be drafted.
        if let Ok(call) = self.area().and_then(|area| area.begin()) {
            let workspace = checkpoint::Workspace::open(&self.path).expect("the workspace");
            services.insert(Arc::new(call.draft(&workspace).expect("a draft")));
            services.insert(Arc::new(call));
        }
        Context::new(
            CallId("call-1".to_owned()),
            SessionId("session-1".to_owned()),
            self.place(),
            Duration::from_mins(1),
            Arc::new(FixedClock::default()),
            services,
        )
    }

    fn area(&self) -> checkpoint::Result<checkpoint::Area> {
        checkpoint::Area::open(&self.path.with_file_name("area"))
    }
}
