//! The cell that the policy chose for a call: what it shows, what it hides, what it freezes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use policy::{Policy, RootRight};
use sandbox::{CellSpec, Entrance, Lifetime, ProcessTotal, SessionLimits, Spawner};
use tool::{Place, ToolError};

use crate::denied::{DeniedFiles, DeniedPrograms, Hiding, Writes};
use crate::toolchains::{Toolchain, Toolchains};

/// What the cells of this runtime have in common, found out once by whoever composes it.
#[derive(Debug, Clone, Default)]
pub struct CellSetup {
    /// Toolchains, of which the parts that programs run from are shown read-only.
    pub toolchains: Vec<Toolchain>,
    /// The file, private to the user, in which is kept what a look through them has found. Without one each process looks.
    pub toolchains_seen: Option<PathBuf>,
    /// `PATH`.
    pub search_path: Vec<PathBuf>,
    /// What is added to the environment that is built from nothing.
    pub environment: BTreeMap<OsString, OsString>,
    /// What is added to it where no other machine can be reached, so that programs do not wait for one.
    pub without_hosts: BTreeMap<OsString, OsString>,
    /// Small files for the private home folder.
    pub home_files: Vec<(PathBuf, Vec<u8>)>,
    /// Where output that outgrows memory goes.
    pub spool_directory: PathBuf,
    /// Counter of the processes of all commands that run at once.
    pub process_total: Arc<ProcessTotal>,
    /// The folder, private to the user, in which commands' changes are kept apart until they have ended. Best on the file
    /// system of the workspace. Without one they write directly.
    pub changes: Option<PathBuf>,
    /// The folder, private to the user, in which the output of commands that run on is written as it comes.
    pub records: Option<PathBuf>,
    /// How a cell begins that the system's bwrap makes, where this program may not.
    pub entrance: Option<Entrance>,
    /// The folder, private to the user, in which each workspace has one for the caches of its commands' home. Without one they
    /// are gone with each command.
    pub homes: Option<PathBuf>,
    /// The folder, private to the user, in which lies for each session what its programs are to trust, where secrets are handed to
    /// hosts for them. Without one no secret is.
    pub certificates: Option<PathBuf>,
    /// Where waiting cells come from; without one each is made when it is needed.
    pub spawner: Option<Arc<Spawner>>,
    /// Many calls are to be expected: the folders for the next call's changes are made behind the answer to the last one, and
    /// what the deny lists name is kept known from one to the next, by watching the folders
    /// for changes. Otherwise each command walks through them.
    pub watches: bool,
}

/// Bytes kept of each stream of a command, unless the profile says otherwise.
const OUTPUT_LIMIT: u64 = 256 * 1024 * 1024;

/// The cell for one call, and what its user should know about it. Blocks while denied files are looked for.
pub(crate) fn specification(
    setup: &CellSetup,
    policy: &Policy,
    place: &Place,
    denied: &Arc<DeniedFiles>,
    writes: Writes,
    (toolchains, programs): (&Toolchains, &DeniedPrograms),
) -> Result<(CellSpec, Option<String>), ToolError> {
    let workspace = &place.workspace;
    let of_profile = policy.limits_over(built_in_limits());
    let mut spec = CellSpec {
        workspace: workspace.clone(),
        search_path: setup.search_path.clone(),
        environment: setup.environment.clone(),
        home_files: setup.home_files.clone(),
        spool_directory: setup.spool_directory.clone(),
        entrance: setup.entrance.clone(),
        spawner: setup.spawner.clone(),
        process_total: Some(Arc::clone(&setup.process_total)),
        output_limit: of_profile.output_bytes.unwrap_or(OUTPUT_LIMIT),
        limits: limits(&of_profile),
        strict: policy.strict(),
        ..CellSpec::default()
    };
    for root in whole_roots(policy, workspace) {
        let rights =
            if root.write && policy.cell_writes() { &mut spec.read_write } else { &mut spec.read_only };
        rights.push(root.path.clone());
    }
    let shown = shown(policy, workspace);
    let of_toolchains = toolchains.shown(&shown)?;
    spec.toolchains = of_toolchains.parts;
    spec.covered = of_toolchains.hidden;
    spec.covered.extend(programs.found().files.iter().cloned());
    // What lies in something covered is covered with it. Paths are ordered by their folders.
    spec.covered.sort();
    spec.covered.dedup_by(|inner, outer| inner.starts_with(outer));
    let Hiding { marked, later } = denied.below(&shown, writes)?;
    spec.late_masks = later;
    spec.masked.extend(marked.hidden);
    spec.frozen.extend(marked.frozen);
    spec.frozen_where_direct = marked.guarded;
    // What no tool can write: frozen where it lies in what the cell shows and exists.
    let below_a_root = |path: &&Path| shown.iter().any(|root| path.starts_with(root) && path.exists());
    spec.frozen.extend(policy.protected().filter(below_a_root).map(Path::to_owned));
    if !policy.cell_writes() {
        // What is named several times has the fewest rights.
        spec.read_only.push(workspace.clone());
    }
    Ok((spec, marked.warning))
}

/// The folders that a cell shows of the workspace and the profile's lists.
pub(crate) fn shown(policy: &Policy, workspace: &Path) -> Vec<PathBuf> {
    let listed = whole_roots(policy, workspace).map(|root| root.path.clone());
    std::iter::once(workspace.to_owned()).chain(listed).collect()
}

/// The listed folders outside the workspace. Where a pattern lists a part of one, a cell cannot show just that part, so it shows
/// none of it.
fn whole_roots<'a>(policy: &'a Policy, workspace: &'a Path) -> impl Iterator<Item = &'a RootRight> {
    let outside = policy.roots().iter().filter(move |root| root.path != workspace);
    outside.filter(|root| root.whole && root.path.exists())
}

/// The built-in limits on commands and sessions.
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
        home_bytes: Some(crate::home::LIMIT),
        ..crate::admit::LaneLimits::built_in()
    }
}

/// The limits on sessions, with those given as the built-in ones.
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

/// The profile's limits as the cell takes them. Those on output, lanes, sessions and the home are kept by others.
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
