//! Control groups, one for each cell, below the group of this process, if this process may make
//! groups there.
//!
//! A group's name contains its owner, so that a later process can recognize the groups of a process
//! that was killed. No function here kills a process: a group with processes in it is left alone.

mod group;
mod owner;
mod place;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use group::Group;
pub(crate) use owner::Owner;
use parking_lot::Mutex;
use place::OwnGroups;

/// The two versions of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// One hierarchy for each controller.
    One,
    /// One hierarchy for all controllers.
    Two,
}

/// The folders in which this process may make groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    pub(crate) version: Version,
    /// Folder below which groups are made; in version one, of the memory controller.
    folder: PathBuf,
    /// Folder of the processor controller. In version two it equals `folder`, if the controller is
    /// available.
    processors: Option<PathBuf>,
    /// Folder of the controller for the number of processes, in version one only.
    processes: Option<PathBuf>,
}

/// Set when a group turned out to be unusable, so that no further attempt is made.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Returns the hierarchy to use, or `None` if this process has no right to make groups. The first
/// call finds the hierarchy and removes the leftovers of killed processes there.
///
/// In version two this moves the process into a separate group, because a group with processes can
/// have no limited groups below it. So the first call must come before any process is started.
pub(crate) fn hierarchy() -> Option<&'static Hierarchy> {
    static FOUND: OnceLock<Option<Hierarchy>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let found = Hierarchy::find();
        if let Some(hierarchy) = &found {
            hierarchy.sweep();
        }
        found
    });
    found.as_ref().filter(|_| !GIVEN_UP.load(Ordering::Relaxed))
}

/// Makes [`hierarchy`] return `None` from now on.
pub(crate) fn give_up() {
    GIVEN_UP.store(true, Ordering::Relaxed);
}

/// Returns the memory limit of the group of this process, in bytes; `None` if no limit is visible.
pub(crate) fn memory_of_own_group() -> Option<u64> {
    let number = |path: PathBuf| -> Option<u64> { fs::read_to_string(path).ok()?.trim().parse().ok() };
    let own = OwnGroups::read()?;
    let two = own.unified().and_then(|place| {
        let groups = place.folder.ancestors().take_while(|folder| folder.starts_with(&place.mount));
        groups.filter_map(|folder| number(folder.join("memory.max"))).min()
    });
    let one = own.of_controller("memory").and_then(|place| {
        let stat = fs::read_to_string(place.folder.join("memory.stat")).ok()?;
        let line = stat.lines().find_map(|line| line.strip_prefix("hierarchical_memory_limit "))?;
        line.trim().parse().ok()
    });
    two.into_iter().chain(one).min()
}

impl Hierarchy {
    fn find() -> Option<Self> {
        let owner = Owner::this()?;
        let own = OwnGroups::read()?;
        Self::unified(&owner, &own).or_else(|| Self::of_controllers(&owner, &own))
    }

    /// Finds version one, in which each controller has a hierarchy and only root may make groups.
    fn of_controllers(owner: &Owner, own: &OwnGroups) -> Option<Self> {
        let writable = |controller: &str| {
            let folder = own.of_controller(controller)?.folder;
            let trial = folder.join(owner.name(owner::TRIAL));
            fs::create_dir(&trial).ok()?;
            fs::remove_dir(&trial).ok()?;
            Some(folder)
        };
        Some(Self {
            version: Version::One,
            folder: writable("memory")?,
            processors: writable("cpu"),
            processes: writable("pids"),
        })
    }

    /// Finds version two, in a group that was delegated to this process alone.
    fn unified(owner: &Owner, own: &OwnGroups) -> Option<Self> {
        let place = own.unified()?;
        let has = |file: &str| -> Option<Vec<String>> {
            let text = fs::read_to_string(place.folder.join(file)).ok()?;
            Some(text.split_whitespace().map(str::to_owned).collect())
        };
        let offered = has("cgroup.controllers")?;
        let offers = |controller: &str| offered.iter().any(|offered| offered == controller);
        if !offers("memory") || !offers("pids") || !place.is_delegated() {
            return None;
        }
        let enabled = has("cgroup.subtree_control")?;
        let is_enabled = |controller: &str| enabled.iter().any(|enabled| enabled == controller);
        if !is_enabled("memory") || !is_enabled("pids") {
            move_aside(&place.folder, owner)?;
            let control = place.folder.join("cgroup.subtree_control");
            if fs::write(&control, "+memory +pids").is_err() {
                // Move back as a best effort: other layers enforce the limits then.
                let _stays = fs::write(place.folder.join("cgroup.procs"), "0");
                let _stays = fs::remove_dir(place.folder.join(owner.name(owner::ASIDE)));
                return None;
            }
            // The processor controller is optional: without it, another layer limits processors.
            let _without = fs::write(&control, "+cpu");
        }
        let trial = place.folder.join(owner.name(owner::TRIAL));
        fs::create_dir(&trial).ok()?;
        let processors = trial.join("cpu.max").exists().then(|| place.folder.clone());
        let usable = trial.join("memory.max").exists() && trial.join("pids.max").exists();
        fs::remove_dir(&trial).ok()?;
        usable.then_some(Self { version: Version::Two, folder: place.folder, processors, processes: None })
    }

    /// Returns all folders in which groups are made.
    fn folders(&self) -> impl Iterator<Item = &Path> {
        let others = [&self.processors, &self.processes].into_iter().flatten().map(PathBuf::as_path);
        [self.folder.as_path()].into_iter().chain(others.filter(|folder| *folder != self.folder))
    }

    /// Removes the empty groups of processes that are gone.
    fn sweep(&self) {
        self.remove_where(|owner, _| !owner.lives());
    }

    /// Removes the empty groups of the cells that `owner` made. Returns true if none is left.
    pub(crate) fn remove_of(&self, owner: &Owner) -> bool {
        // The group that contains the owner and its spawner disappears with the group above it.
        let own = owner.name(owner::ASIDE);
        self.remove_where(|of, name| of == owner && name != own)
    }

    fn remove_where(&self, ours: impl Fn(&Owner, &str) -> bool) -> bool {
        let mut none_left = true;
        for folder in self.folders() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let Some(name) = name.to_str() else { continue };
                if Owner::of_name(name).is_some_and(|owner| ours(&owner, name))
                    && fs::remove_dir(entry.path()).is_err()
                {
                    none_left = false;
                }
            }
        }
        none_left
    }
}

/// Moves this process into a separate group below `folder`, if it is alone there.
fn move_aside(folder: &Path, owner: &Owner) -> Option<()> {
    let inhabitants = fs::read_to_string(folder.join("cgroup.procs")).ok()?;
    let own = std::process::id().to_string();
    // The root group may have both processes and limited groups below it.
    let is_root = !folder.join("cgroup.type").exists();
    if is_root {
        return Some(());
    }
    if inhabitants.split_whitespace().any(|pid| pid != own) {
        return None;
    }
    let aside = folder.join(owner.name(owner::ASIDE));
    fs::create_dir(&aside).ok()?;
    fs::write(aside.join("cgroup.procs"), "0").ok()
}

/// Groups that could not be removed when their cell ended, because the kernel still counted a
/// process in them.
static LEFT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes a group's folder now or, if the kernel still uses it, together with the next one.
fn remove(folder: PathBuf) {
    let mut left = LEFT.lock();
    left.push(folder);
    left.retain(|folder| match fs::remove_dir(folder) {
        Ok(()) => false,
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    });
}
