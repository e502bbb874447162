//! The suite of `tests/sandbox/cells` once more, in cells that were prepared for the call; and tests of
//! objects that must not be taken from a cell like that.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]
#![expect(clippy::disallowed_methods, reason = "the controls run programs outside of any cell on purpose")]
#![expect(unsafe_code, reason = "the spawner must start before the test harness has threads")]

#[path = "sandbox/cells/attacks.rs"]
mod attacks;
#[path = "sandbox/cells/development.rs"]
mod development;
#[path = "sandbox/cells/ending.rs"]
mod ending;
#[path = "sandbox/cells/files.rs"]
mod files;
#[path = "sandbox/cells/homes.rs"]
mod homes;
#[path = "sandbox/cells/late.rs"]
mod late;
#[path = "sandbox/cells/limits.rs"]
mod limits;
#[path = "sandbox/cells/support.rs"]
mod support;

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use parking_lot::Mutex;
use sandbox::{
    CellHost, CellSpec, KeptHome, Origin, Outcome, Overlay, Pool, Program, SandboxError, Spawner, Stopper,
};

use crate::support::{Place, TIMEOUT, stdout};

static SPAWNER: OnceLock<Arc<Spawner>> = OnceLock::new();

/// Lock around the only ready cell of the spawner, which one test at a time may use.
static READY: Mutex<()> = Mutex::new(());

/// Runs before `main`, and so before the threads of the test harness.
extern "C" fn start() {
    let spawner = Spawner::start(Pool::default()).unwrap();
    SPAWNER.set(Arc::new(spawner)).unwrap();
}

// SAFETY: the loader calls each function of this section once, before `main`, with arguments that a
// function of the C convention may ignore. The standard library needs no setup for the work of
// `start`.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

/// Runs in a prepared cell, and verifies that: a suite that fell back would prove nothing.
fn run(
    spec: &CellSpec,
    host: &CellHost,
    command: &sandbox::Command,
    deadline: Option<std::time::Duration>,
    stopper: &Stopper,
    on_output: &mut dyn FnMut(sandbox::Stream, &[u8]),
) -> Result<Outcome, SandboxError> {
    let _alone = READY.lock();
    let host = CellHost { spawner: SPAWNER.get().cloned(), ..host.clone() };
    let ready = host.make_ready(spec)?;
    let outcome = sandbox::run(spec, &host, command, deadline, stopper, on_output)?;
    assert_eq!(outcome.origin, if ready { Origin::Ready } else { Origin::Made });
    Ok(outcome)
}

/// A workspace, the folders for the changes of a command in it, and the specification of its cell.
struct Scene {
    place: Place,
    folder: tempfile::TempDir,
    spec: CellSpec,
    host: CellHost,
}

impl Scene {
    fn new() -> Self {
        let place = Place::new();
        let folder = tempfile::tempdir().unwrap();
        let around = folder.path().canonicalize().unwrap().join("call");
        DirBuilder::new().mode(0o700).create(&around).unwrap();
        let overlay = Overlay { upper: around.join("upper"), work: around.join("work") };
        fs::create_dir(&overlay.upper).unwrap();
        fs::create_dir(&overlay.work).unwrap();
        let spec = CellSpec { overlay: Some(overlay), ..place.spec.clone() };
        let host = CellHost { spawner: SPAWNER.get().cloned(), ..CellHost::default() };
        Self { place, folder, spec, host }
    }

    /// Makes a scene that keeps the home's caches in a folder of that name next to the changes.
    fn keeping(name: &str) -> Self {
        let mut scene = Self::new();
        scene.keep(name);
        scene
    }

    fn keep(&mut self, name: &str) {
        let home = KeptHome::new(self.folder.path().join(name), &self.spec.workspace).unwrap();
        self.host.kept_home = Some(Arc::new(home));
    }

    fn kept_home(&self) -> Arc<KeptHome> {
        self.host.kept_home.clone().unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path(name)
    }

    /// Makes a cell ready for the current state, calls `change`, and runs the line. Returns the
    /// origin of the cell and the line's output.
    fn ready_then(&mut self, change: impl FnOnce(&mut Self), line: &str) -> (Origin, String) {
        let _alone = READY.lock();
        assert!(self.host.make_ready(&self.spec).unwrap());
        change(self);
        self.run(line)
    }

    fn run(&self, line: &str) -> (Origin, String) {
        let command = sandbox::Command {
            program: Program::Shell(line.to_owned()),
            working_directory: self.spec.workspace.clone(),
        };
        let stopper = Stopper::new().unwrap();
        let outcome =
            sandbox::run(&self.spec, &self.host, &command, Some(TIMEOUT), &stopper, &mut |_, _| {}).unwrap();
        assert_eq!(outcome.enforcement.workspace, sandbox::WorkspaceChanges::Overlay);
        (outcome.origin, stdout(&outcome))
    }
}

#[test]
fn a_ready_cell_shows_the_workspace_as_it_is_when_the_call_comes() {
    let mut scene = Scene::new();
    scene.place.write("old", "before");
    scene.place.write("deep/er/gone", "x");
    let change = |scene: &mut Scene| {
        scene.place.write("old", "after, and longer");
        scene.place.write("new", "new");
        fs::remove_dir_all(scene.path("deep/er")).unwrap();
    };
    let (origin, said) = scene.ready_then(change, "cat old new; ls deep; echo done > made");
    assert_eq!((origin, &*said), (Origin::Ready, "after, and longernew"));
    assert!(!scene.path("made").exists());
    assert_eq!(fs::read_to_string(scene.folder.path().join("call/upper/made")).unwrap(), "done\n");
    // The cell served one call; the next call has no ready cell, and the work folder was in use.
    assert_eq!(scene.run("cat made"), (Origin::Spawner, "done\n".to_owned()));
}

#[test]
fn a_change_made_while_a_cell_was_ready_counts_as_made_before_the_command() {
    let scene = Scene::new();
    let _alone = READY.lock();
    assert!(scene.host.make_ready(&scene.spec).unwrap());
    scene.place.write("file", "x");
    let changed = rustix::fs::stat(scene.path("file")).unwrap();
    let command = sandbox::Command {
        program: Program::Shell("true".to_owned()),
        working_directory: scene.spec.workspace.clone(),
    };
    let stopper = Stopper::new().unwrap();
    let outcome =
        sandbox::run(&scene.spec, &scene.host, &command, Some(TIMEOUT), &stopper, &mut |_, _| {}).unwrap();
    assert_eq!(outcome.origin, Origin::Ready);
    let since = outcome.started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let at = (u64::try_from(changed.st_ctime).unwrap(), changed.st_ctime_nsec);
    assert!(at < (since.as_secs(), u64::from(since.subsec_nanos())), "{at:?} {since:?}");
}

#[test]
fn a_ready_cell_of_another_workspace_at_the_same_path_is_not_used() {
    let mut scene = Scene::new();
    scene.place.write("which", "the old one");
    let change = |scene: &mut Scene| {
        let workspace = scene.spec.workspace.clone();
        fs::rename(&workspace, workspace.with_extension("old")).unwrap();
        fs::create_dir(&workspace).unwrap();
        scene.place.write("which", "the new one");
    };
    assert_eq!(scene.ready_then(change, "cat which"), (Origin::Spawner, "the new one".to_owned()));
}

#[test]
fn a_ready_cell_whose_workspace_got_other_rights_is_not_used() {
    let mut scene = Scene::new();
    let change = |scene: &mut Scene| {
        fs::set_permissions(&scene.spec.workspace, fs::Permissions::from_mode(0o751)).unwrap();
    };
    assert_eq!(scene.ready_then(change, "stat -c %a ."), (Origin::Spawner, "751\n".to_owned()));
}

#[test]
fn what_is_hidden_since_is_hidden_in_a_cell_that_gave_up_the_right_to_do_so() {
    let mut scene = Scene::new();
    scene.place.write(".env", "s3cr3t");
    let line = "cat .env; echo $?";
    let (origin, said) = scene.ready_then(|_| (), line);
    assert_eq!((origin, &*said), (Origin::Ready, "s3cr3t0\n"), "the control");
    let mut scene = Scene::new();
    scene.place.write(".env", "s3cr3t");
    let change = |scene: &mut Scene| scene.spec.masked.push(scene.path(".env"));
    assert_eq!(scene.ready_then(change, line), (Origin::Spawner, "1\n".to_owned()));
}

#[test]
fn what_is_hidden_when_the_call_comes_is_what_counts() {
    let mut scene = Scene::new();
    scene.place.write(".env", "first");
    scene.place.write("a/.env", "second");
    scene.place.write("b/.env", "third");
    scene.spec.masked.push(scene.path(".env"));
    scene.spec.masked.push(scene.path("a/.env"));
    let change = |scene: &mut Scene| {
        // Another file under a hidden name, a folder that was moved, and one new file.
        fs::remove_file(scene.path(".env")).unwrap();
        scene.place.write(".env", "another");
        fs::rename(scene.path("a"), scene.path("c")).unwrap();
        scene.place.write("a/open", "open");
        scene.spec.masked = [".env", "b/.env", "c/.env"].map(|name| scene.path(name)).into();
    };
    let (origin, said) = scene.ready_then(change, "cat .env b/.env c/.env a/open; ls a");
    assert_eq!((origin, &*said), (Origin::Ready, "openopen\n"));
}

#[test]
fn a_ready_cell_is_no_ones_who_wants_to_see_something_else() {
    let mut scene = Scene::new();
    let other = tempfile::tempdir().unwrap();
    let shown = other.path().canonicalize().unwrap();
    fs::write(shown.join("file"), "other").unwrap();
    let line = format!("cat {}/file", shown.display());
    let change = |scene: &mut Scene| scene.spec.read_only.push(shown);
    assert_eq!(scene.ready_then(change, &line), (Origin::Spawner, "other".to_owned()));
}

#[test]
fn a_ready_cell_that_was_put_away_leaves_folders_that_can_be_used() {
    let mut scene = Scene::new();
    let change = |scene: &mut Scene| scene.host.spawner.as_ref().unwrap().put_away();
    assert_eq!(scene.ready_then(change, "echo x > y; cat y"), (Origin::Spawner, "x\n".to_owned()));
}

#[test]
fn the_caches_of_a_ready_cell_are_nobodys_until_its_command_runs() {
    let scene = Scene::keeping("home");
    let home = scene.kept_home();
    let _alone = READY.lock();
    assert!(scene.host.make_ready(&scene.spec).unwrap());
    assert!(home.alone().unwrap().is_some(), "they could never be taken away");
    let command = sandbox::Command {
        program: Program::Shell("echo x > ~/.npm/x && echo running".to_owned()),
        working_directory: scene.spec.workspace.clone(),
    };
    let mut observed = Vec::new();
    let outcome = sandbox::run(
        &scene.spec,
        &scene.host,
        &command,
        Some(TIMEOUT),
        &Stopper::new().unwrap(),
        &mut |_, _| {
            observed.push(home.alone().unwrap().is_none());
        },
    );
    assert_eq!((outcome.unwrap().origin, observed), (Origin::Ready, vec![true]));
    assert!(home.alone().unwrap().is_some());
    assert_eq!(fs::read_to_string(home.caches().join("npm/x")).unwrap(), "x\n");
}

#[test]
fn a_ready_cell_that_shows_caches_which_were_taken_away_is_not_used() {
    let mut scene = Scene::keeping("home");
    let caches = scene.kept_home().caches();
    let taken = scene.folder.path().join("taken");
    let (from, to) = (caches.clone(), taken.clone());
    let change = |scene: &mut Scene| {
        let _alone = scene.kept_home().alone().unwrap().unwrap();
        fs::rename(from, to).unwrap();
    };
    let (origin, said) = scene.ready_then(change, "echo x > ~/.npm/x && cat ~/.npm/x");
    assert_eq!((origin, &*said), (Origin::Spawner, "x\n"));
    assert!(caches.join("npm/x").exists() && !taken.join("npm/x").exists());
}

#[test]
fn a_single_cache_that_was_taken_away_is_there_again_in_a_ready_cell() {
    let mut scene = Scene::keeping("home");
    let caches = scene.kept_home().caches();
    let change = |scene: &mut Scene| {
        let _alone = scene.kept_home().alone().unwrap().unwrap();
        fs::rename(caches.join("npm"), scene.folder.path().join("taken")).unwrap();
    };
    let (origin, said) = scene.ready_then(change, "echo x > ~/.npm/x && cat ~/.npm/x");
    assert_eq!((origin, &*said), (Origin::Ready, "x\n"));
    assert!(!scene.folder.path().join("taken/x").exists());
}

#[test]
fn a_ready_cell_is_no_ones_who_keeps_other_caches_or_none() {
    let after = |change: fn(&mut Scene)| {
        let marked = |scene: &mut Scene| {
            fs::write(scene.kept_home().caches().join("npm/x"), "mine").unwrap();
            change(scene);
        };
        Scene::keeping("home").ready_then(marked, "cat ~/.npm/x")
    };
    assert_eq!(after(|scene| scene.keep("other")), (Origin::Spawner, String::new()));
    assert_eq!(after(|scene| scene.host.kept_home = None), (Origin::Spawner, String::new()));
    // Caches named as another process would name them.
    assert_eq!(after(|scene| scene.keep("home")), (Origin::Ready, "mine".to_owned()));
}
