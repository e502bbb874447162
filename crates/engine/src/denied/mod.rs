//! Files that the deny lists name in the folders of a cell, and files that a later program would
//! run. One walk finds them, and the `watch` crate keeps them current.

mod cells;
mod left;
mod lists;
mod programs;

use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use policy::{Part, Policy};
use sandbox::LateMasks;
use tool::{Access, Code, EffectState, Owner, Stop, Threads, ToolError};
use watch::{MarkedPaths, Watch, WatchError, WatchMode};

use crate::change_area::ChangeArea;
use crate::protected::ProtectedSet;
use cells::RunningCell;
use lists::{DenyLists, LedTo};
pub(crate) use programs::DeniedPrograms;

/// The denied files of one runtime.
pub(crate) struct DeniedFiles {
    policy: Arc<Policy>,
    keep: WatchMode,
    /// Folder for files that are taken away.
    area: Option<Arc<ChangeArea>>,
    /// Threads of the runtime, one of which follows the changes.
    threads: Threads,
    led_to: Arc<RwLock<LedTo>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watch: Option<Watch<DenyLists>>,
    /// Cells that run, or are about to.
    running: Vec<RunningCell>,
    /// True if a thread follows the changes for these cells.
    followed: bool,
    own: OwnChanges,
    noted: Option<NotedPaths>,
    /// Auto-run files of each root.
    protected: BTreeMap<PathBuf, Arc<ProtectedSet>>,
}

/// Noted paths, and the version of the watch's marks that they belong to.
type NotedPaths = ((u64, u64), Arc<Vec<PathBuf>>);

/// Changes that Handfast itself makes in the workspace, having decided on them.
#[derive(Default)]
struct OwnChanges {
    /// Number of calls that are making such changes.
    under_way: usize,
    /// Paths that they change, or may change.
    expected: Vec<PathBuf>,
    /// Unexpected paths that have appeared in the meantime. A call may still name them when it
    /// reports what it has changed.
    undecided: Vec<PathBuf>,
}

/// Guard of a tool's change of the workspace, at the paths of its plan.
pub(crate) struct OwnChange(Arc<DeniedFiles>);

impl OwnChange {
    /// Begins a change on a thread that may block, because a walk for denied files may be in
    /// progress. Returns `None` if the call's plan names no path to write.
    pub(crate) async fn begin(denied: &Arc<DeniedFiles>, effects: &[Part]) -> Option<Self> {
        let writes = effects.iter().filter_map(|part| {
            let (access, named) = part.effect.path()?;
            (access == Access::Write).then(|| part.real.as_deref().unwrap_or(named).to_owned())
        });
        let expected: Vec<PathBuf> = writes.collect();
        if expected.is_empty() {
            return None;
        }
        let denied = denied.clone();
        let begun = tokio::task::spawn_blocking(move || {
            denied.begin_own_change(&expected);
            Self(denied)
        });
        // If the thread panics, the tool's changes are judged like those of others.
        begun.await.ok()
    }

    /// Ends the change on a thread that may block.
    pub(crate) async fn end(self) {
        // If the thread panics, the next inspection judges the new paths.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }
}

impl Drop for OwnChange {
    fn drop(&mut self) {
        self.0.end_own_change(&[]);
    }
}

/// Marks and masks with which a cell hides denied files.
#[derive(Default)]
pub(crate) struct MaskSet {
    /// Marks as of now.
    pub(crate) marked: MarkedPaths,
    /// Masks for paths that appear later. `None` if there are no notifications of changes.
    pub(crate) later: Option<Arc<LateMasks>>,
}

/// Destination of a command's writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    /// Apart from the workspace, until the command has ended.
    Apart,
    /// Directly to the workspace, in the background.
    AtOnce,
}

/// Moment as of which the auto-run files must be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AsOf {
    /// The current moment.
    Now,
    /// The moment when the cell of the call was specified.
    ForThisCall,
}

/// Interval at which the following thread checks whether a cell still runs. Without notifications,
/// also the interval of its walks.
const FOLLOWING: Duration = Duration::from_millis(250);

/// Maximum nesting depth of closed folders that are opened for inspection.
const MAX_CLOSED: usize = 64;

/// Shorter interval, used if something has appeared just as a cell begins.
const BEGINNING: Duration = Duration::from_millis(5);

impl DeniedFiles {
    pub(crate) fn new(
        policy: Arc<Policy>,
        keep: WatchMode,
        area: Option<Arc<ChangeArea>>,
        threads: Threads,
    ) -> Self {
        Self { policy, keep, area, threads, led_to: Arc::default(), state: Mutex::default() }
    }

    /// Returns the denied files under other rules, which are searched once.
    pub(crate) fn for_one_call(&self, policy: Arc<Policy>) -> Self {
        Self::new(policy, WatchMode::Once, self.area.clone(), self.threads.clone())
    }

    /// Returns what is denied below the roots, for a cell that is about to run. Blocks during a
    /// walk, if one is needed.
    pub(crate) fn below(self: &Arc<Self>, roots: &[PathBuf], writes: Writes) -> Result<MaskSet, ToolError> {
        let mut state = self.state();
        self.look_below(&mut state, roots);
        let mut marked = self.refresh(&mut state).map_err(not_known)?;
        for root in roots {
            let set = self.protected_in(&mut state, root);
            let fixed = set.fixed(root).into_iter();
            marked
                .guarded
                .extend(fixed.filter(|path| !marked.frozen.contains(path) && !marked.hidden.contains(path)));
        }
        marked.guarded.sort_unstable();
        marked.guarded.dedup();
        if state.watch.as_ref().and_then(Watch::changes).is_none() {
            if self.keep == WatchMode::Once {
                state.watch = None;
            }
            return Ok(MaskSet { marked, later: None });
        }
        // INVARIANT: the cell is registered before the lock is released, so that no change falls
        // between the marks of now and the later masks.
        let later = Arc::new(LateMasks::default());
        let mut cell = RunningCell::new(later.clone(), &marked);
        if writes == Writes::AtOnce
            && let Some(area) = &self.area
        {
            cell.write_record(roots, area).map_err(|error| {
                let message = format!(
                    "the files that the command may change cannot be recorded, so nothing was \
                     run: {error}"
                );
                ToolError::new(Code::Runtime, message).effect(EffectState::None)
            })?;
        }
        state.running.push(cell);
        if !std::mem::replace(&mut state.followed, true) {
            let denied = Arc::downgrade(self);
            let started =
                self.threads.start("denied-files", Owner::Runtime, move |stop| follow(&denied, stop));
            if let Err(error) = started {
                state.followed = false;
                state.running.pop();
                return Err(error);
            }
        }
        Ok(MaskSet { marked, later: Some(later) })
    }

    /// Returns device and inode number of the files below the roots that must not be read and have
    /// several names. Blocks like [`DeniedFiles::below`].
    pub(crate) fn hidden_with_several_names(
        &self,
        roots: &[PathBuf],
    ) -> Result<HashSet<(u64, u64)>, WatchError> {
        let mut state = self.state();
        // Roots that are leased to one call only are no reason to begin anew.
        if state.watch.is_none() {
            self.look_below(&mut state, roots);
        }
        self.refresh(&mut state)?;
        let hidden = state.watch.as_ref().map(|watch| watch.hidden_with_several_names().collect());
        if self.keep == WatchMode::Once {
            state.watch = None;
        }
        Ok(hidden.unwrap_or_default())
    }

    /// Returns the auto-run files of a root: files that a later program would run. Blocks during a
    /// walk, if one is needed. With [`AsOf::ForThisCall`], the state that an already specified
    /// cell was given suffices without a walk.
    pub(crate) fn protected(
        &self,
        roots: &[PathBuf],
        root: &Path,
        known: AsOf,
    ) -> Result<Arc<ProtectedSet>, WatchError> {
        let mut state = self.state();
        let is_known = state.watch.is_none() && state.noted.is_some();
        if !(is_known && known == AsOf::ForThisCall) {
            if state.watch.is_none() {
                self.look_below(&mut state, roots);
            }
            self.refresh(&mut state)?;
        }
        let set = self.protected_in(&mut state, root);
        if self.keep == WatchMode::Once {
            state.watch = None;
        }
        Ok(set)
    }

    fn protected_in(&self, state: &mut State, root: &Path) -> Arc<ProtectedSet> {
        if let Some(watch) = &state.watch {
            let now = watch.state();
            if state.noted.as_ref().is_none_or(|(then, _)| *then != now) {
                state.noted = Some((now, Arc::new(watch.noted())));
            }
        }
        let noted = state.noted.as_ref().map(|(_, noted)| noted.clone()).unwrap_or_default();
        let below = noted.iter().filter_map(|path| path.strip_prefix(root).ok()).map(Path::to_owned);
        let beginnings: BTreeSet<PathBuf> = below.collect();
        if let Some(known) = state.protected.get(root)
            && known.is_current(root, &beginnings)
        {
            return known.clone();
        }
        let set = Arc::new(ProtectedSet::find(&self.policy, root, beginnings));
        state.protected.insert(root.to_owned(), set.clone());
        self.led_to.write().put(root, set.clone());
        set
    }

    fn look_below(&self, state: &mut State, roots: &[PathBuf]) {
        // The list of roots changes with the folders that exist of the profile's lists.
        if state.watch.as_ref().is_none_or(|kept| kept.roots() != roots) {
            let rules = DenyLists::new(self.policy.clone(), roots, self.led_to.clone());
            state.watch = Some(Watch::new(roots.to_vec(), rules, self.keep));
        }
    }

    /// Reads pending changes, so that everything that an ended cell did is judged.
    pub(crate) fn settle(&self) {
        let mut state = self.state();
        if !state.running.is_empty() {
            // An error is reported to the running cells, the only recipients of this result.
            let _told = self.refresh(&mut state);
        }
    }

    /// Registers that Handfast is about to change the workspace itself: at these paths, or at paths
    /// that are only known afterwards.
    pub(crate) fn begin_own_change(&self, expected: &[PathBuf]) {
        let mut state = self.state();
        state.own.under_way += 1;
        state.own.expected.extend_from_slice(expected);
    }

    /// Registers that the change is complete and also changed these paths.
    pub(crate) fn end_own_change(&self, changed: &[PathBuf]) {
        let mut state = self.state();
        state.own.expected.extend_from_slice(changed);
        if !state.running.is_empty() {
            let _told = self.refresh(&mut state);
        }
        state.own.under_way = state.own.under_way.saturating_sub(1);
        if state.own.under_way == 0 {
            let undecided = std::mem::take(&mut state.own.undecided);
            self.judge_come(&mut state, undecided);
            state.own = OwnChanges::default();
        }
    }

    /// Returns the current marks, and reports new ones to the running cells.
    fn refresh(&self, state: &mut State) -> Result<MarkedPaths, WatchError> {
        let State { watch: Some(watch), running, .. } = state else { return Ok(MarkedPaths::default()) };
        // For a cell that has ended by now, the following check is complete.
        let ended: Vec<bool> = running.iter().map(RunningCell::is_over).collect();
        let walks = watch.walks();
        let seen = look(watch, running);
        // After a walk, it is unknown which paths are new.
        let all = watch.walks() != walks;
        let marked = match seen {
            Ok(AppearedPaths { marked, appeared, noted }) => {
                let come = |paths: &[PathBuf]| -> Vec<PathBuf> {
                    paths.iter().filter(|path| all || appeared.contains(*path)).cloned().collect()
                };
                let (hidden, frozen) = (come(&marked.hidden), come(&marked.frozen));
                for cell in &state.running {
                    cell.cover(&hidden, &frozen);
                }
                self.judge_come(state, noted);
                self.judge_again(state);
                Ok(marked)
            }
            Err(error) => {
                state.running.iter().for_each(RunningCell::give_up);
                Err(error)
            }
        };
        if marked.is_ok() {
            // Otherwise the files that they left are still to be judged.
            let running = std::mem::take(&mut state.running);
            for (cell, has_ended) in running.into_iter().zip(ended) {
                if has_ended {
                    cell.end();
                } else {
                    state.running.push(cell);
                }
            }
        }
        marked
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            // If a thread panicked, its partial state is dropped and built anew.
            self.state.clear_poison();
            let mut state = poisoned.into_inner();
            state.watch = None;
            state
        })
    }
}

/// The marks, and the paths among them that have appeared.
struct AppearedPaths {
    marked: MarkedPaths,
    appeared: BTreeSet<PathBuf>,
    noted: Vec<PathBuf>,
}

/// Reads the marks. A folder that a command has closed is opened and inspected, and so are the
/// folders in it, level by level.
fn look(watch: &mut Watch<DenyLists>, running: &[RunningCell]) -> Result<AppearedPaths, WatchError> {
    let (mut appeared, mut noted) = (BTreeSet::new(), Vec::new());
    let mut rounds = 0;
    loop {
        let marked = watch.sync()?;
        appeared.extend(marked.appeared.iter().cloned());
        noted.extend(marked.noted.iter().cloned());
        if marked.hidden.iter().filter(|path| cells::open_up(running, path)).count() == 0 {
            return Ok(AppearedPaths { marked, appeared, noted });
        }
        rounds += 1;
        if rounds == MAX_CLOSED {
            // So many nested folders are no mistake.
            running.iter().for_each(RunningCell::give_up);
            return Ok(AppearedPaths { marked, appeared, noted });
        }
    }
}

/// Follows the changes as long as a cell runs.
fn follow(denied: &Weak<DeniedFiles>, stop: &Stop) {
    loop {
        let Some(denied) = denied.upgrade() else { return };
        let (changes, most) = {
            let mut state = denied.state();
            if state.running.is_empty() || stop.requested().is_some() {
                state.followed = false;
                return;
            }
            let waits = state.running.iter().any(RunningCell::waits_for_its_begin);
            state.running.iter().for_each(RunningCell::renew_record);
            (state.watch.as_ref().and_then(Watch::changes), if waits { BEGINNING } else { FOLLOWING })
        };
        let changed = match changes {
            Some(changes) => changes.wait(most),
            None => {
                std::thread::sleep(FOLLOWING);
                true
            }
        };
        if changed || denied.state().running.iter().any(RunningCell::needs_a_look) {
            denied.settle();
        }
    }
}

fn not_known(error: WatchError) -> ToolError {
    let message = format!("the search for files to hide failed, so nothing was run: {error}");
    ToolError::new(Code::Runtime, message).effect(EffectState::None).because(error)
}

#[cfg(test)]
mod tests;
