//! Processes that keep cells waiting, and the calls that take these cells.
//!
//! The first process starts before this program has threads and much memory, so that cloning it is
//! cheap. Its copies may also do things that a copy of a program with threads may not. A copy of it
//! for each network, a spawner, builds the common parts of cells in advance. A waiting cell
//! receives a call's request from the caller itself.
//!
//! Everything depends on sockets: when this program dies, for any reason, the kernel closes its
//! ends. Then the spawner, the waiting cells and the running ones end without intervention.

mod ending;
mod nursery;
mod prepared;
mod process;
mod serve;
mod waiting;

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::cgroup::{self, Group, Hierarchy, Owner};
use crate::error::SandboxError;
use crate::home::CACHES;
use crate::identity::Identity;
use crate::limits::machine::Machine;
use crate::limits::values::{Bounds, Limits};
use crate::network::Network;
use crate::process::Process;
use crate::spec::Overlay;
use crate::system::HOME;
use crate::{landlock, seccomp, view};
use ending::Ending;
use nursery::{Nursery, StartedSpawner};
use process::{SpawnerProcess, TIMEOUT, timespec};
use serve::Answer;

pub(crate) use ending::CellReferences;
pub(crate) use prepared::{FileIdentity, PreparationInputs, PreparedCell};
pub(crate) use waiting::WaitingCell;

/// Maximum number of cells that wait in the network of a further spawner. There may be many of
/// these spawners.
const WAITING_IN_OTHERS: u8 = 2;

/// Settings of the waiting cells.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// Number of waiting cells; the minimum is one. Each uses about 50 KB of private memory, and
    /// about 250 KB in the kernel, most of it for the network namespace (measured on Linux 6.18).
    pub waiting: u8,
}

impl Default for Pool {
    /// Returns four waiting cells: an agent seldom starts more at once, and the fifth waits for
    /// less than a millisecond.
    fn default() -> Self {
        Self { waiting: 4 }
    }
}

/// A spawner process and the cells that wait in its network.
///
/// Dropping it ends both, but not the cells in which commands run.
#[derive(Debug)]
pub struct Spawner {
    nursery: Arc<Nursery>,
    /// Network of all cells that name this spawner, including those that the spawner did not make.
    network: Option<Arc<Network>>,
    waiting: u8,
    groups: Option<Groups>,
    ending: Ending,
    /// Cell that is prepared for the next call.
    ready: Mutex<Option<PreparedCell>>,
    line: Mutex<Line>,
    /// INVARIANT: after `line`. Closing `line` first makes the process clean up and end.
    _process: SpawnerProcess,
}

/// The place of the control groups of the spawner's cells.
#[derive(Debug)]
struct Groups {
    hierarchy: &'static Hierarchy,
    owner: Owner,
}

/// The connection to the spawner.
#[derive(Debug)]
struct Line {
    socket: OwnedFd,
    /// Number of changes of the mounts at the last check.
    mounts: u64,
    /// True if the spawner did not answer in time, so that the next call does not wait in vain.
    impatient: bool,
    /// Number of unanswered requests for cells with the current mounts. Cells that arrive before
    /// the answers are dropped.
    refreshing: u32,
    /// Number of taken cells that have not been requested again.
    taken: u32,
}

/// A spawner that is being started.
#[derive(Debug)]
pub struct StartingSpawner {
    nursery: Arc<Nursery>,
    waiting: u8,
    line: OwnedFd,
    mounts: u64,
}

impl StartingSpawner {
    /// Begins the start of a spawner, as [`Spawner::start`] does, without waiting for its network,
    /// which takes the kernel milliseconds.
    ///
    /// # Errors
    /// See [`Spawner::start`].
    pub fn begin(pool: Pool) -> Result<Self, SandboxError> {
        let threads = fs::read_dir("/proc/self/task")
            .map_err(|source| SandboxError::Io { doing: "counting the own threads", source })?
            .count();
        if threads != 1 {
            return Err(SandboxError::TooLate { threads });
        }
        let identity = Identity::of_this_process()?;
        let landlock = landlock::version();
        let shown = view::foundation(landlock)?;
        // Paths in the home may be covered, as a whole or in part.
        let in_home = |path: &Path| path.starts_with(HOME) && path != Path::new(HOME);
        let paths = shown.steps.iter().map(|step| step.path().to_owned());
        let foundation = paths.filter(|path| !in_home(path)).collect();
        let bounds = Bounds::of(&Limits::default(), Machine::this());
        let hierarchy = cgroup::hierarchy();
        // Compile the filter once for all cells, not in each.
        seccomp::filter(hierarchy.is_some())?;
        let nursery = Nursery::start(identity, landlock, foundation, bounds, hierarchy, shown)?;
        Self::ask(Arc::new(nursery), pool.waiting.max(1))
    }

    fn ask(nursery: Arc<Nursery>, waiting: u8) -> Result<Self, SandboxError> {
        // Comes before the new process builds anything, so that no change of the mounts is missed.
        let mounts = nursery.mount_changes();
        let line = nursery.ask(waiting)?;
        Ok(Self { nursery, waiting, line, mounts })
    }

    /// Waits until the spawner has started.
    ///
    /// # Errors
    /// Returns an error if the process cannot be made.
    pub fn finish(self) -> Result<Spawner, SandboxError> {
        let Self { nursery, waiting, line, mounts } = self;
        let StartedSpawner { line: socket, process, network } = nursery::started(line)?;
        let groups = nursery
            .hierarchy
            .zip(Owner::of(process.pid().cast_unsigned()))
            .map(|(hierarchy, owner)| Groups { hierarchy, owner });
        let line = Mutex::new(Line { socket, mounts, impatient: false, refreshing: 0, taken: 0 });
        let (ending, ready, process) = (Ending::default(), Mutex::default(), SpawnerProcess(process));
        Ok(Spawner { nursery, network, waiting, groups, ending, ready, line, _process: process })
    }
}

impl Spawner {
    /// Starts the spawner, which starts to build cells at once.
    ///
    /// Call this at the very start of `main`: the new process is a copy of this one. A copy of a
    /// process with further threads could wait for ever for a lock that one of these threads owned.
    /// The new process closes all inherited descriptors, but it keeps the data that this process
    /// has read into memory so far, including its environment.
    ///
    /// A machine on which cells cannot be built is not detected here: then the spawner provides no
    /// cells, and every call makes a cell itself and reports the failure.
    ///
    /// # Errors
    /// [`SandboxError::TooLate`] if this process has more than one thread; other variants if the
    /// process cannot be made.
    pub fn start(pool: Pool) -> Result<Self, SandboxError> {
        StartingSpawner::begin(pool)?.finish()
    }

    /// Starts a further spawner, whose cells share a network with each other and with no other
    /// cell. The spawner is not a copy of this process, which may have any number of threads.
    ///
    /// # Errors
    /// Returns an error if the process that starts spawners is gone, or the machine refuses.
    pub fn another(&self) -> Result<Self, SandboxError> {
        StartingSpawner::ask(self.nursery.clone(), self.waiting.min(WAITING_IN_OTHERS))?.finish()
    }

    /// Returns true if the spawner's cells equal those that this process would make now, for these
    /// roots.
    pub(crate) fn suits<'a>(
        &self,
        identity: Identity,
        landlock: Option<i32>,
        mut roots: impl Iterator<Item = &'a Path>,
    ) -> bool {
        let replaces = |root: &Path| {
            let in_cache = |(path, _)| root.starts_with(Path::new(HOME).join(path));
            self.nursery.foundation.iter().any(|path| path.starts_with(root))
                || CACHES.into_iter().any(in_cache)
        };
        self.nursery.identity == identity && self.nursery.landlock == landlock && !roots.any(replaces)
    }

    /// Returns the network that the cells share.
    pub(crate) fn network(&self) -> Option<&Network> {
        self.network.as_deref()
    }

    /// Returns the number of waiting cells to try before a new one is made: some may have died
    /// while they waited.
    pub(crate) fn attempts(&self) -> u8 {
        self.waiting.saturating_add(1)
    }

    /// Returns the group of this number; zero stands for no group.
    fn group(&self, number: u32) -> Option<Group> {
        let groups = self.groups.as_ref().filter(|_| number != 0)?;
        Some(Group::of(groups.hierarchy, &groups.owner, number))
    }

    /// Sets these limits on a waiting cell's group. Returns true if the group has them.
    pub(crate) fn adjust(&self, group: &mut Group, pid: i32, bounds: &Bounds) -> bool {
        *bounds == self.nursery.bounds
            || group.limit(bounds).and_then(|()| group.attach_to_processors(pid)).is_ok()
    }

    /// Asks the spawner to replace the taken cells. Called after a command has ended: while a
    /// command starts, building would compete with it for the machine and for locks of the kernel.
    pub(crate) fn refill(&self) {
        self.line.lock().refill();
    }

    /// Ends the cell that [`make_ready`](crate::CellHost::make_ready) has prepared, if it was not used. Waits
    /// for its end.
    pub fn put_away(&self) {
        drop(self.keep_ready(None));
    }

    /// Returns true if a cell that [`make_ready`](crate::CellHost::make_ready) has prepared was not used.
    pub fn has_ready(&self) -> bool {
        self.ready.lock().is_some()
    }

    /// Stores a prepared cell. Returns the previous one.
    pub(crate) fn keep_ready(&self, ready: Option<PreparedCell>) -> Option<PreparedCell> {
        std::mem::replace(&mut *self.ready.lock(), ready)
    }

    /// Takes the cell that is prepared for this overlay, even if it no longer matches otherwise.
    pub(crate) fn take_ready(&self, overlay: Option<&Overlay>) -> Option<PreparedCell> {
        let mut ready = self.ready.lock();
        ready.take_if(|ready| ready.is_for(overlay))
    }

    /// Leaves the end of a cell with no process but its first one to the background, after the
    /// answer.
    pub(crate) fn see_off(
        &self,
        process: Process,
        group: Option<Group>,
        file_system: Option<CellReferences>,
    ) {
        self.ending.add(process, group, file_system);
    }

    /// Drops cells that have ended. The kernel takes their mounts down at the same time, which
    /// blocks for milliseconds, sometimes for many. Call this while no caller waits, and after
    /// [`make_ready`](crate::CellHost::make_ready).
    pub fn look_after_the_ended(&self) {
        self.ending.look_after();
    }

    /// Returns the next waiting cell; `None` if none is available, so that the caller must make
    /// one.
    pub(crate) fn take(&self) -> Option<WaitingCell> {
        // A thread that panicked with the lock left a usable socket behind.
        let mut line = self.line.lock();
        // Waiting cells may lack mounts that were made since, or show removed ones.
        let mounts = self.nursery.mount_changes();
        if std::mem::replace(&mut line.mounts, mounts) != mounts {
            line.refreshing += 1;
            line.ask(serve::REFRESH);
        }
        loop {
            match line.answer()? {
                Answer::Fresh => line.refreshing = line.refreshing.saturating_sub(1),
                Answer::Cell { process, group, .. } if line.refreshing > 0 => {
                    line.taken += 1;
                    // In this order: a group can be removed once no process is in it.
                    drop(process);
                    drop(self.group(group));
                }
                Answer::Cell { process, control, group } => {
                    line.taken += 1;
                    let group = self.group(group);
                    return Some(WaitingCell { process, control, group });
                }
                Answer::Failed => {
                    // Request it again later, because the obstacle may pass. Until then each call
                    // finds out the reason itself.
                    line.taken += 1;
                    return None;
                }
            }
        }
    }
}

impl Line {
    fn refill(&mut self) {
        for _ in 0..std::mem::take(&mut self.taken) {
            self.ask(serve::WANTED);
        }
    }

    /// Sends a request to the spawner. If the spawner is gone this has no effect, and the answers
    /// end after those sent before.
    fn ask(&self, what: u8) {
        let _gone = send(&self.socket, &[what], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }

    /// Returns the next answer, waiting for a limited time; `None` if the spawner is gone or stuck.
    fn answer(&mut self) -> Option<Answer> {
        let patience = if self.impatient { Duration::ZERO } else { TIMEOUT };
        let mut ready = self.is_readable_within(Duration::ZERO);
        if !ready {
            self.refill();
            self.ask(serve::HURRY);
            ready = self.is_readable_within(patience);
        }
        self.impatient = !ready;
        if self.impatient { None } else { serve::receive(self.socket.as_fd()) }
    }

    fn is_readable_within(&self, patience: Duration) -> bool {
        let timeout = timespec(patience);
        loop {
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
                Err(Errno::INTR) => {}
                other => return other == Ok(1),
            }
        }
    }
}
