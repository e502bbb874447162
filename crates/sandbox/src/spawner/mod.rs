//! Processes that keep cells waiting, and how this one takes them.
//!
//! The first process is started before this program has threads and memory worth mentioning, so that cloning it is
//! cheap and its copies may do what a copy of a program with threads may not. A copy of it for each network, a spawner, builds what
//! cells have in common before anybody asks. What a call wants, a waiting cell hears from the caller itself.
//!
//! Everything hangs on sockets: when this program dies, however it does, the kernel closes its ends, and the spawner,
//! the waiting cells and the running ones end by themselves.

mod ending;
mod nursery;
mod serve;

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::cgroup::{self, Group, Hierarchy, Owner};
use crate::error::SandboxError;
use crate::home::CACHES;
use crate::identity::Identity;
use crate::late::Kept;
use crate::launch::Ahead;
use crate::limits::machine::Machine;
use crate::limits::{Bounds, Limits};
use crate::network::Network;
use crate::process::Process;
use crate::spec::Overlay;
use crate::{landlock, seccomp, view};
use ending::Ending;
use nursery::{Born, Nursery};
use serve::Answer;

/// How long a call waits for a cell before it makes its own: many times what building one takes, also on a busy
/// machine.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many cells wait at most in the network of a further spawner. There may be many of these.
const WAITING_IN_OTHERS: u8 = 2;

/// How many cells are kept waiting.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// The number of waiting cells; at least one is kept. Each holds about 50 KB of its own, and about 250 KB in
    /// the kernel, most of it for the network namespace (measured on Linux 6.18).
    pub waiting: u8,
}

impl Default for Pool {
    /// Four: what an agent starts at once is seldom more, and the fifth waits for less than a millisecond.
    fn default() -> Self {
        Self { waiting: 4 }
    }
}

/// A spawner process and the cells that wait in its network.
///
/// When it is dropped, they end. The cells in which commands run do not.
#[derive(Debug)]
pub struct Spawner {
    nursery: Arc<Nursery>,
    /// The network of all cells that name this spawner, also of those that it did not make.
    network: Option<Arc<Network>>,
    waiting: u8,
    groups: Option<Groups>,
    ending: Ending,
    /// A cell that is ready for what the next call will most likely want.
    ready: Mutex<Option<Ahead>>,
    line: Mutex<Line>,
    /// INVARIANT: after `line`, which is closed first and by that tells the process to clear up and end.
    _process: Leaving,
}

/// The spawner process, which is given time to clear up before it is killed.
#[derive(Debug)]
struct Leaving(Process);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.await_end(PATIENCE);
    }
}

/// Where the groups of the spawner's cells are.
#[derive(Debug)]
struct Groups {
    hierarchy: &'static Hierarchy,
    owner: Owner,
}

/// The connection to the spawner.
#[derive(Debug)]
struct Line {
    socket: OwnedFd,
    /// How often mounts had changed when this was asked last.
    mounts: u64,
    /// Set when the spawner did not answer in time, so that the next call does not wait for nothing.
    impatient: bool,
    /// How many times it was asked for cells that know the mounts of now, and has not answered. What comes before it
    /// does is dropped.
    refreshing: u32,
    /// How many cells were taken that the spawner has not been asked for again.
    taken: u32,
}

/// A cell that waits for its request.
///
/// INVARIANT: in this order. While the process lives its group cannot be removed.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) process: Process,
    pub(crate) control: OwnedFd,
    pub(crate) group: Option<Group>,
}

impl Spawner {
    /// Starts the spawner, which starts to build cells at once.
    ///
    /// Call this at the very start of `main`: the new process is a copy of this one, and a copy of a process that has
    /// further threads could wait for ever for a lock that one of them held.
    /// It keeps none of the open descriptors. What this process has read into memory by now, its environment
    /// for one, it keeps.
    ///
    /// That cells cannot be built on this machine is not noticed here: the spawner gives none then, every call makes
    /// its own cell, and says why that fails.
    ///
    /// # Errors
    ///
    /// [`SandboxError::TooLate`] when this process has more than one thread; others when the process cannot be made.
    pub fn start(pool: Pool) -> Result<Self, SandboxError> {
        let threads = fs::read_dir("/proc/self/task")
            .map_err(|source| SandboxError::Io { doing: "counting the own threads", source })?
            .count();
        if threads != 1 {
            return Err(SandboxError::TooLate { threads });
        }
        let identity = Identity::of_this_process()?;
        let landlock = landlock::version();
        let shown = view::foundation(landlock)?;
        // What is in the home may be covered, as a whole or in part.
        let in_home = |path: &Path| path.starts_with(view::HOME) && path != Path::new(view::HOME);
        let paths = shown.steps.iter().map(|step| step.path().to_owned());
        let foundation = paths.filter(|path| !in_home(path)).collect();
        let bounds = Bounds::of(&Limits::default(), Machine::this());
        let hierarchy = cgroup::hierarchy();
        // Compiled once for all cells, and not in each.
        seccomp::filter(hierarchy.is_some())?;
        let nursery = Nursery::start(identity, landlock, foundation, bounds, hierarchy, shown)?;
        Self::of(Arc::new(nursery), pool.waiting.max(1))
    }

    /// Starts another one, whose cells share a network with each other, and with nobody else. It is not a copy of this process,
    /// which may have any number of threads by now.
    ///
    /// # Errors
    ///
    /// Where the process that spawners are started from is gone, or the machine refuses.
    pub fn another(&self) -> Result<Self, SandboxError> {
        Self::of(self.nursery.clone(), self.waiting.min(WAITING_IN_OTHERS))
    }

    fn of(nursery: Arc<Nursery>, waiting: u8) -> Result<Self, SandboxError> {
        // Before the new process builds anything, so that no change of the mounts is missed.
        let mounts = nursery.mount_changes();
        let Born { line: socket, process, network } = nursery.ask(waiting)?;
        let groups = nursery
            .hierarchy
            .zip(Owner::of(process.pid().cast_unsigned()))
            .map(|(hierarchy, owner)| Groups { hierarchy, owner });
        let line = Mutex::new(Line { socket, mounts, impatient: false, refreshing: 0, taken: 0 });
        let (ending, ready, process) = (Ending::default(), Mutex::default(), Leaving(process));
        Ok(Self { nursery, network, waiting, groups, ending, ready, line, _process: process })
    }

    /// Whether its cells are what this process would make now, for these roots.
    pub(crate) fn suits<'a>(
        &self,
        identity: Identity,
        landlock: Option<i32>,
        mut roots: impl Iterator<Item = &'a Path>,
    ) -> bool {
        let replaces = |root: &Path| {
            let in_cache = |(path, _)| root.starts_with(Path::new(view::HOME).join(path));
            self.nursery.foundation.iter().any(|path| path.starts_with(root))
                || CACHES.into_iter().any(in_cache)
        };
        self.nursery.identity == identity && self.nursery.landlock == landlock && !roots.any(replaces)
    }

    /// The network that the cells share.
    pub(crate) fn network(&self) -> Option<&Network> {
        self.network.as_deref()
    }

    /// How many cells may have died while they waited, before it is better to make one.
    pub(crate) fn attempts(&self) -> u8 {
        self.waiting.saturating_add(1)
    }

    /// The group of that number; zero stands for none.
    fn group(&self, number: u32) -> Option<Group> {
        let groups = self.groups.as_ref().filter(|_| number != 0)?;
        Some(Group::of(groups.hierarchy, &groups.owner, number))
    }

    /// Sees to it that a waiting cell's group has these limits. Says whether it has.
    pub(crate) fn adjust(&self, group: &mut Group, pid: i32, bounds: &Bounds) -> bool {
        *bounds == self.nursery.bounds
            || group.limit(bounds).and_then(|()| group.attach_to_processors(pid)).is_ok()
    }

    /// Lets the spawner build what was taken. Called when a command has ended: while it starts, the machine has better
    /// things to do, and building takes locks of the kernel that starting wants too.
    pub(crate) fn refill(&self) {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).refill();
    }

    /// Ends the cell that [`make_ready`](crate::make_ready) has made, if it was not used. Waits for its end.
    pub fn put_away(&self) {
        drop(self.keep_ready(None));
    }

    /// Keeps a cell that is ready. Gives the one before.
    pub(crate) fn keep_ready(&self, ready: Option<Ahead>) -> Option<Ahead> {
        std::mem::replace(&mut *self.ready.lock().unwrap_or_else(PoisonError::into_inner), ready)
    }

    /// The cell that is ready for who puts the changes there, whether it still suits or not.
    pub(crate) fn take_ready(&self, overlay: Option<&Overlay>) -> Option<Ahead> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.take_if(|ready| ready.is_for(overlay))
    }

    /// Waits behind the answer for the end of a cell in which nobody is left but its first process.
    pub(crate) fn see_off(&self, process: Process, group: Option<Group>, file_system: Option<Kept>) {
        self.ending.add(process, group, file_system);
    }

    /// Lets go of cells that have ended. The kernel takes their mounts down meanwhile, which blocks for milliseconds, now and
    /// then for many: call this while nobody waits, and behind [`make_ready`](crate::make_ready).
    pub fn look_after_the_ended(&self) {
        self.ending.look_after();
    }

    /// The next cell that waits; `None` when there is none to be had and the caller must make its own.
    pub(crate) fn take(&self) -> Option<Waiting> {
        // Whoever panicked with the lock left a socket behind that is as good as before.
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        // Waiting cells may not show what was mounted or unmounted since.
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
                    // In this order: a group can be removed when nothing is in it any more.
                    drop(process);
                    drop(self.group(group));
                }
                Answer::Cell { process, control, group } => {
                    line.taken += 1;
                    let group = self.group(group);
                    return Some(Waiting { process, control, group });
                }
                Answer::Failed => {
                    // Asked for again, because what was in the way may pass. Each call sees for itself until then.
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

    /// Asks the spawner. When it is gone this does nothing, and the answers end after those that it gave before.
    fn ask(&self, what: u8) {
        let _gone = send(&self.socket, &[what], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }

    /// The next answer, waited for within reason; `None` when the spawner is gone or stuck.
    fn answer(&mut self) -> Option<Answer> {
        let patience = if self.impatient { Duration::ZERO } else { PATIENCE };
        let mut ready = self.is_readable_within(Duration::ZERO);
        if !ready {
            self.refill();
            ready = self.is_readable_within(patience);
        }
        self.impatient = !ready;
        if self.impatient { None } else { serve::receive(self.socket.as_fd()) }
    }

    fn is_readable_within(&self, patience: Duration) -> bool {
        let timeout = self::patience(patience);
        loop {
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
                Err(Errno::INTR) => {}
                other => return other == Ok(1),
            }
        }
    }
}

fn patience(patience: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    }
}
