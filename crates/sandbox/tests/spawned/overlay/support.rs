//! A workspace with the folders of an overlay next to it.

use std::cell::Cell;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::{
    CellHost, CellSpec, ChangeSource, Command, Exit, Origin, Outcome, Overlay, Program, SandboxError,
    Stopper, WorkspaceChanges,
};

use crate::SPAWNER;

/// Deadline for commands that should not take long.
const TIMEOUT: Duration = Duration::from_mins(2);

pub(crate) struct Place {
    folder: tempfile::TempDir,
    calls: Cell<u32>,
    /// True if a cell is made ready before each command.
    ready: bool,
    pub(crate) spec: CellSpec,
    pub(crate) host: CellHost,
}

/// The outcome of a command, and the folder with its changes.
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) upper: PathBuf,
}

impl Ran {
    pub(crate) fn stdout(&self) -> String {
        let captured = &self.outcome.stdout;
        String::from_utf8_lossy(&[&captured.head[..], &captured.tail].concat()).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        let captured = &self.outcome.stderr;
        String::from_utf8_lossy(&[&captured.head[..], &captured.tail].concat()).into_owned()
    }

    /// Returns the sorted names of everything in the upper folder.
    pub(crate) fn changed(&self) -> Vec<String> {
        names(&self.upper)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.upper.join(name)
    }
}

impl Place {
    /// Makes a new workspace whose cells have this origin.
    pub(crate) fn new(origin: Origin) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let workspace = real.join("around/ws");
        fs::create_dir_all(&workspace).unwrap();
        open_to_all(&workspace);
        let spec = CellSpec {
            workspace,
            spool_directory: std::env::temp_dir(),
            output_limit: 1 << 30,
            ..CellSpec::default()
        };
        let spawner = (origin != Origin::Made).then(|| SPAWNER.get().cloned()).flatten();
        let host = CellHost { spawner, ..CellHost::default() };
        Self { folder, calls: Cell::new(0), ready: origin == Origin::Ready, spec, host }
    }

    /// Makes a new workspace whose cells have the origin of those of `other`.
    pub(crate) fn like(other: &Self) -> Self {
        Self {
            ready: other.ready,
            ..Self::new(if other.host.spawner.is_some() { Origin::Spawner } else { Origin::Made })
        }
    }

    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.spec.workspace.join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Makes new folders for the changes of one call.
    pub(crate) fn overlay(&self) -> Overlay {
        self.calls.set(self.calls.get() + 1);
        overlay_at(&self.outside(&format!("call{}", self.calls.get())))
    }

    pub(crate) fn try_sh(&self, line: &str) -> Result<Ran, SandboxError> {
        let overlay = self.overlay();
        let upper = overlay.upper.clone();
        let spec = CellSpec { overlay: Some(overlay), ..self.spec.clone() };
        self.make_ready(&spec);
        let outcome = self.run(&spec, line)?;
        // Another test, which shares the spawner, may have ended a ready cell.
        let made = outcome.origin == Origin::Made;
        assert_eq!(made, self.host.spawner.is_none(), "{:?}", outcome.origin);
        assert_eq!(outcome.changes, ChangeSource::UpperFolder(upper.clone()));
        assert_eq!(outcome.enforcement.workspace, WorkspaceChanges::Overlay);
        Ok(Ran { outcome, upper })
    }

    fn make_ready(&self, spec: &CellSpec) {
        if self.ready {
            // The command will report any obstacle.
            let _made = self.host.make_ready(spec);
        }
    }

    /// Runs a shell line in a cell of this specification.
    pub(crate) fn run(&self, spec: &CellSpec, line: &str) -> Result<Outcome, SandboxError> {
        run(spec, &self.host, line)
    }

    /// Runs a shell line on an overlay.
    pub(crate) fn sh(&self, line: &str) -> Ran {
        self.try_sh(line).unwrap()
    }

    /// Runs a shell line on an overlay, and calls `meanwhile` when the line prints `ready`.
    pub(crate) fn sh_meanwhile(&self, line: &str, meanwhile: impl Fn()) -> Ran {
        let overlay = self.overlay();
        let upper = overlay.upper.clone();
        let spec = CellSpec { overlay: Some(overlay), ..self.spec.clone() };
        let program = Program::Shell(line.to_owned());
        let command = Command { program, working_directory: spec.workspace.clone() };
        self.make_ready(&spec);
        let mut said = Vec::new();
        let mut on_output = |_, chunk: &[u8]| {
            said.extend_from_slice(chunk);
            if said.starts_with(b"ready\n") {
                said = vec![b'-'];
                meanwhile();
            }
        };
        let stopper = Stopper::new().unwrap();
        let outcome =
            sandbox::run(&spec, &self.host, &command, Some(TIMEOUT), &stopper, &mut on_output).unwrap();
        Ran { outcome, upper }
    }

    /// Runs a shell line on an overlay, which must succeed.
    pub(crate) fn ok(&self, line: &str) -> Ran {
        let ran = self.sh(line);
        assert_eq!(ran.outcome.exit, Exit::Code(0), "{line}\n{}{}", ran.stdout(), ran.stderr());
        ran
    }
}

pub(crate) fn overlay_at(folder: &Path) -> Overlay {
    DirBuilder::new().mode(0o700).create(folder).unwrap();
    let overlay = Overlay { upper: folder.join("upper"), work: folder.join("work") };
    for path in [&overlay.upper, &overlay.work] {
        DirBuilder::new().mode(0o700).create(path).unwrap();
    }
    overlay
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.strip_prefix(folder).unwrap().display().to_string());
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Runs a test for each origin of a cell.
pub(crate) fn each(test: impl Fn(&Place)) {
    for origin in [Origin::Made, Origin::Spawner, Origin::Ready] {
        test(&Place::new(origin));
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) fn open_to_all(folder: &Path) {
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
}

/// Returns the path of the example that runs a cell, which is built with the tests.
pub(crate) fn run_cell() -> PathBuf {
    // target/debug/deps/this -> target/debug/examples/run_cell
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().parent().unwrap().join("examples/run_cell")
}

/// Describes every property of a tree that a change would affect.
pub(crate) fn state(folder: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let names = names(folder).into_iter();
    let described = names.map(|name| {
        let metadata = fs::symlink_metadata(folder.join(&name)).unwrap();
        let (ino, mode, size) = (metadata.ino(), metadata.mode(), metadata.size());
        let times = (metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec());
        format!("{name} {ino} {mode:o} {size} {times:?} {}", metadata.nlink())
    });
    described.collect()
}

pub(crate) fn run(spec: &CellSpec, host: &CellHost, line: &str) -> Result<Outcome, SandboxError> {
    let command =
        Command { program: Program::Shell(line.to_owned()), working_directory: spec.workspace.clone() };
    sandbox::run(spec, host, &command, Some(TIMEOUT), &Stopper::new()?, &mut |_, _| {})
}
