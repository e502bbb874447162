//! The cell that the policy chooses for a call: the paths that it shows, hides and freezes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use policy::{Policy, RootRight};
use sandbox::{CellHost, CellSpec, Entrance, Isolation, Lifetime, ProcessTotal, SessionLimits, Spawner};
use tool::{Place, ToolError};
use watch::LocalPaths;

use crate::denied::{DeniedFiles, DeniedPrograms, MaskSet, Writes};
use crate::toolchains::{SearchFolder, Toolchain, Toolchains};

/// Settings that all cells of this runtime share. The composer of the runtime determines them once.
#[derive(Debug, Clone, Default)]
pub struct CellSetup {
    /// Toolchains. The parts that programs run from are shown read-only.
    pub toolchains: Vec<Toolchain>,
    /// File, private to the user, that stores the results of searching the toolchains. Without it,
    /// each process searches them.
    pub toolchains_seen: Option<PathBuf>,
    /// Links by which the user's search path leads to toolchains, with their texts.
    pub links: BTreeMap<PathBuf, PathBuf>,
    /// Folders of `PATH`.
    pub search_path: Vec<SearchFolder>,
    /// Paths that may be touched without waiting for another machine or program.
    pub paths: LocalPaths,
    /// Variables that are added to the command's environment, which starts empty.
    pub environment: BTreeMap<OsString, OsString>,
    /// Variables that are added if no other machine can be reached, so that programs do not wait
    /// for one.
    pub without_hosts: BTreeMap<OsString, OsString>,
    /// Small files for the private home folder, as path and content.
    pub home_files: Vec<(PathBuf, Vec<u8>)>,
    /// Folder for output that is too large for memory.
    pub spool_directory: PathBuf,
    /// Counter of the processes of all commands that run at once.
    pub process_total: Arc<ProcessTotal>,
    /// Folder, private to the user, in which the changes of commands are kept apart until they have
    /// ended. Preferably a folder on the file system of the workspace. Without it, commands write
    /// directly.
    pub changes: Option<PathBuf>,
    /// Folder, private to the user, to which the output of background commands is written as it
    /// arrives.
    pub records: Option<PathBuf>,
    /// Way to restart this program in a cell that another program makes, if this program may not make
    /// one.
    pub entrance: Option<Entrance>,
    /// Folder, private to the user, with a subfolder for each workspace that holds the caches of
    /// its commands' home. Without it, the caches are removed with each command.
    pub homes: Option<PathBuf>,
    /// Folder, private to the user, with the certificates that the programs of each session are to
    /// trust if secrets are handed to hosts for them. Without it, no secret is handed over.
    pub certificates: Option<PathBuf>,
    /// Source of waiting cells. Without it, each cell is made when it is needed.
    pub spawner: Option<Arc<Spawner>>,
    /// True if many calls are expected. The folders for a call's changes are then made after the
    /// previous answer. The entries that the deny lists name are kept current by watching the
    /// folders for changes. Otherwise each command walks through the folders.
    pub watches: bool,
}

/// Bytes that are kept of each stream of a command by default.
const OUTPUT_LIMIT: u64 = 256 * 1024 * 1024;

/// Builds the cell for one call, with this isolation. Also returns a warning for its user, if there
/// is one. Blocks while denied files are searched.
pub(crate) fn specification(
    setup: &CellSetup,
    policy: &Policy,
    place: &Place,
    denied: &Arc<DeniedFiles>,
    writes: Writes,
    (toolchains, programs, isolation): (&Toolchains, &DeniedPrograms, Isolation),
) -> Result<(CellSpec, CellHost, Option<String>), ToolError> {
    let workspace = &place.workspace;
    let of_profile = policy.limits_over(built_in_limits());
    let mut spec = CellSpec {
        links: setup.links.clone(),
        environment: setup.environment.clone(),
        home_files: setup.home_files.clone(),
        spool_directory: setup.spool_directory.clone(),
        output_limit: of_profile.output_bytes.unwrap_or(OUTPUT_LIMIT),
        limits: limits_of(policy),
        strict: policy.strict(),
        ..folders(policy, workspace)
    };
    let shown = shown(policy, workspace);
    let written = toolchains.written(policy);
    let of_toolchains = toolchains.shown(&shown, &written)?;
    let left_out =
        |folder: &&SearchFolder| folder.leads_through(&written) || of_toolchains.leaves_out(folder);
    let search_path = setup.search_path.iter().filter(|folder| !left_out(folder));
    spec.search_path = search_path.map(|folder| folder.path.clone()).collect();
    spec.toolchains = of_toolchains.parts;
    spec.covered = of_toolchains.hidden;
    spec.covered.extend(programs.found().files.iter().cloned());
    spec.covered.extend(denied_of_system(policy));
    // An entry in a covered folder is covered with it. Paths sort after the folders that contain
    // them.
    spec.covered.sort();
    spec.covered.dedup_by(|inner, outer| inner.starts_with(outer));
    let MaskSet { marked, later } = denied.below(&shown, writes)?;
    let host = CellHost {
        spawner: setup.spawner.clone().filter(|_| isolation.uses_spawner()),
        isolation,
        process_total: Some(Arc::clone(&setup.process_total)),
        late_masks: later,
        ..CellHost::default()
    };
    spec.masked.extend(marked.hidden);
    spec.frozen.extend(marked.frozen);
    spec.frozen_where_direct = marked.guarded;
    // Protected paths, which no tool can write, are frozen if they exist in a folder that the cell
    // shows.
    let below_a_root = |path: &&Path| shown.iter().any(|root| path.starts_with(root) && path.exists());
    spec.frozen.extend(policy.protected().filter(below_a_root).map(Path::to_owned));
    Ok((spec, host, marked.warning))
}

/// Returns the files and folders of the system that a deny list names. No watch covers them, because the
/// system's folders are no roots of the profile.
fn denied_of_system(policy: &Policy) -> Vec<PathBuf> {
    let denied = policy.denied_reads();
    let named = denied.literal_outside().filter(|path| denied.is_denied(path, path.is_dir()));
    // A link of the system is covered where it leads to.
    let real = named.filter_map(|path| path.canonicalize().ok());
    real.filter(|path| sandbox::is_of_system(path) && !sandbox::is_needed_whole(path)).collect()
}

/// Returns the limits of one cell.
pub(crate) fn limits_of(policy: &Policy) -> sandbox::Limits {
    limits(&policy.limits_over(built_in_limits()))
}

/// Returns the part of the specification that names the workspace and the listed folders.
pub(crate) fn folders(policy: &Policy, workspace: &Path) -> CellSpec {
    let mut spec = CellSpec { workspace: workspace.to_owned(), ..CellSpec::default() };
    for root in whole_roots(policy, workspace) {
        let rights =
            if root.write && policy.cell_writes() { &mut spec.read_write } else { &mut spec.read_only };
        rights.push(root.path.clone());
    }
    if !policy.cell_writes() {
        // A path that is listed several times has the fewest rights.
        spec.read_only.push(workspace.to_owned());
    }
    spec
}

/// Returns the folders that a cell shows: the workspace and the folders of the profile's lists.
pub(crate) fn shown(policy: &Policy, workspace: &Path) -> Vec<PathBuf> {
    let listed = whole_roots(policy, workspace).map(|root| root.path.clone());
    std::iter::once(workspace.to_owned()).chain(listed).collect()
}

/// Returns the listed folders outside the workspace. A cell cannot show a part of a folder, so a
/// folder of which a pattern lists only a part is left out.
fn whole_roots<'a>(policy: &'a Policy, workspace: &'a Path) -> impl Iterator<Item = &'a RootRight> {
    let outside = policy.roots().iter().filter(move |root| root.path != workspace);
    outside.filter(|root| root.whole && root.path.exists())
}

/// Returns the built-in limits on commands and sessions.
pub fn built_in_limits() -> policy::Limits {
    let SessionLimits { running, lifetime } = SessionLimits::default();
    let sandbox::Limits {
        memory,
        process_memory,
        cpus,
        processes,
        process_count,
        open_files,
        file_size,
        disk,
    } = sandbox::Limits::built_in();
    policy::Limits {
        memory_bytes: memory,
        process_memory_bytes: process_memory,
        cpus,
        processes,
        process_count,
        open_files,
        file_size_bytes: file_size,
        disk_bytes: disk,
        output_bytes: Some(OUTPUT_LIMIT),
        sessions: Some(running as u64),
        session_idle_seconds: Some(lifetime.idle.as_secs()),
        session_seconds: Some(lifetime.absolute.as_secs()),
        home_bytes: Some(crate::cell_cache::LIMIT),
        ..crate::admit::LaneLimits::built_in()
    }
}

/// Returns the profile's limits on sessions, with `built_in` as defaults.
pub(crate) fn session_limits(policy: &Policy, built_in: SessionLimits) -> SessionLimits {
    let Lifetime { idle, absolute } = built_in.lifetime;
    let of_profile = policy.limits_over(policy::Limits {
        sessions: Some(built_in.running as u64),
        session_idle_seconds: Some(idle.as_secs()),
        session_seconds: Some(absolute.as_secs()),
        ..policy::Limits::default()
    });
    let seconds = |named: Option<u64>, built_in| named.map_or(built_in, Duration::from_secs);
    let running = of_profile.sessions.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
    SessionLimits {
        running: running.unwrap_or(built_in.running),
        lifetime: Lifetime {
            idle: seconds(of_profile.session_idle_seconds, idle),
            absolute: seconds(of_profile.session_seconds, absolute),
        },
    }
}

/// Converts the profile's limits for the cell. Other modules enforce the limits on output, lanes,
/// sessions and the home.
fn limits(of_profile: &policy::Limits) -> sandbox::Limits {
    let policy::Limits {
        memory_bytes,
        process_memory_bytes,
        cpus,
        processes,
        process_count,
        open_files,
        file_size_bytes,
        disk_bytes,
        output_bytes: _,
        commands: _,
        commands_waiting: _,
        commands_in_all: _,
        answer_bytes_in_all: _,
        sessions: _,
        session_idle_seconds: _,
        session_seconds: _,
        home_bytes: _,
    } = *of_profile;
    sandbox::Limits {
        memory: memory_bytes,
        process_memory: process_memory_bytes,
        cpus,
        processes,
        process_count,
        open_files,
        file_size: file_size_bytes,
        disk: disk_bytes,
    }
}
