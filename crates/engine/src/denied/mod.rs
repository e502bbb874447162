//! The files that the deny lists name below what a cell shows, and those that a later program would run. Found by one walk and
//! then kept, see the `watch` crate.

mod cells;
mod left;
mod lists;
mod programs;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use policy::Policy;
use sandbox::LateMasks;
use tool::{Access, Code, EffectState, ToolError};
use watch::{Keep, Marked, Watch, WatchError};

use crate::call::Call;
use crate::protected::ProtectedSet;
use crate::snapshot::Snapshots;
use cells::RunningCell;
use lists::{DenyLists, LedTo};
pub(crate) use programs::DeniedPrograms;

/// The denied files of one runtime.
pub(crate) struct DeniedFiles {
    policy: Arc<Policy>,
    keep: Keep,
    /// Where what is taken away is kept.
    snapshots: Option<Arc<Snapshots>>,
    led_to: Arc<RwLock<LedTo>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watch: Option<Watch<DenyLists>>,
    /// The cells that run, or are about to.
    running: Vec<RunningCell>,
    /// A thread follows the changes for them.
    followed: bool,
    own: OwnChanges,
    noted: Option<Noted>,
    /// What runs by itself in each root.
    protected: BTreeMap<PathBuf, Arc<ProtectedSet>>,
}

/// What is noted, and of which state of the watch that is.
type Noted = ((u64, u64), Arc<Vec<PathBuf>>);

/// What Handfast itself puts into the workspace, having decided on it.
#[derive(Default)]
struct OwnChanges {
    /// How many calls are at it.
    under_way: usize,
    /// Where they put something, or may.
    expected: Vec<PathBuf>,
    /// What has come meanwhile and was not expected: perhaps it is, as soon as the call says what it has changed.
    undecided: Vec<PathBuf>,
}

/// A tool that changes the workspace at the paths of its plan, for as long as it does.
pub(crate) struct OwnChange(Arc<DeniedFiles>);

impl OwnChange {
    /// Begins one on a thread that may block: what is denied may be looked for meanwhile. None where the call writes nothing, or
    /// nothing that its plan names.
    pub(crate) async fn begin(denied: &Arc<DeniedFiles>, call: &Call) -> Option<Self> {
        let writes = call.effects.iter().filter_map(|part| {
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
        // Where it broke off, what the tool makes is judged as somebody else's.
        begun.await.ok()
    }

    /// Ends it on a thread that may block.
    pub(crate) async fn end(self) {
        // Where it broke off, the next look judges what has come.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }
}

impl Drop for OwnChange {
    fn drop(&mut self) {
        self.0.end_own_change(&[]);
    }
}

/// What a cell needs to hide what is denied.
#[derive(Default)]
pub(crate) struct Hiding {
    /// What is denied as of now.
    pub(crate) marked: Marked,
    /// Covers what comes later. None where changes are not told.
    pub(crate) later: Option<Arc<LateMasks>>,
}

/// The place to which a command writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    /// Apart from the workspace, until it has ended.
    Apart,
    /// To the workspace at once, in the background.
    AtOnce,
}

/// The moment as of which it must be known what runs by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// As of this moment.
    Now,
    /// As of when the cell of the call was specified.
    ForThisCall,
}

/// How often the thread that follows the changes looks whether a cell still runs, and with how much patience it walks where
/// changes are not told any more.
const FOLLOWING: Duration = Duration::from_millis(250);

/// How many closed folders one in the other are opened to be looked into.
const MOST_CLOSED: usize = 64;

/// How soon it looks again where something has come just as a cell begins.
const BEGINNING: Duration = Duration::from_millis(5);

impl DeniedFiles {
    pub(crate) fn new(policy: Arc<Policy>, keep: Keep, snapshots: Option<Arc<Snapshots>>) -> Self {
        Self { policy, keep, snapshots, led_to: Arc::default(), state: Mutex::default() }
    }

    /// The denied files by other rules, which are looked for once.
    pub(crate) fn for_one_call(&self, policy: Arc<Policy>) -> Self {
        Self::new(policy, Keep::Once, self.snapshots.clone())
    }

    /// What is denied below the roots, for a cell that is about to run. Blocks for as long as a walk takes, where one is needed.
    pub(crate) fn below(self: &Arc<Self>, roots: &[PathBuf], writes: Writes) -> Result<Hiding, ToolError> {
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
            if self.keep == Keep::Once {
                state.watch = None;
            }
            return Ok(Hiding { marked, later: None });
        }
        // INVARIANT: from before the lock is let go, so that nothing comes between what is known now and what is told later.
        let later = Arc::new(LateMasks::default());
        let mut cell = RunningCell::new(later.clone(), &marked);
        if writes == Writes::AtOnce
            && let Some(snapshots) = &self.snapshots
        {
            cell.write_record(roots, snapshots).map_err(|error| {
                let message =
                    format!("it cannot be noted what the command may change, so nothing was run: {error}");
                ToolError::new(Code::Runtime, message).effect(EffectState::None)
            })?;
        }
        state.running.push(cell);
        if !std::mem::replace(&mut state.followed, true) {
            let denied = Arc::downgrade(self);
            std::thread::spawn(move || follow(&denied));
        }
        Ok(Hiding { marked, later: Some(later) })
    }

    /// The files that must not be read, below the roots, and have several names: by device and number. Blocks as
    /// [`DeniedFiles::below`] does.
    pub(crate) fn hidden_with_several_names(
        &self,
        roots: &[PathBuf],
    ) -> Result<HashSet<(u64, u64)>, WatchError> {
        let mut state = self.state();
        // What is leased to one call alone is no reason to begin anew.
        if state.watch.is_none() {
            self.look_below(&mut state, roots);
        }
        self.refresh(&mut state)?;
        let hidden = state.watch.as_ref().map(|watch| watch.hidden_with_several_names().collect());
        if self.keep == Keep::Once {
            state.watch = None;
        }
        Ok(hidden.unwrap_or_default())
    }

    /// Finds what runs by itself in a root, as of now. Blocks for as long as a walk takes, where one is needed; what a cell that has been
    /// specified already was told is good enough, and needs none.
    pub(crate) fn protected(
        &self,
        roots: &[PathBuf],
        root: &Path,
        known: Known,
    ) -> Result<Arc<ProtectedSet>, WatchError> {
        let mut state = self.state();
        let is_known = state.watch.is_none() && state.noted.is_some();
        if !(is_known && known == Known::ForThisCall) {
            if state.watch.is_none() {
                self.look_below(&mut state, roots);
            }
            self.refresh(&mut state)?;
        }
        let set = self.protected_in(&mut state, root);
        if self.keep == Keep::Once {
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
        self.led_to.write().unwrap_or_else(PoisonError::into_inner).put(root, set.clone());
        set
    }

    fn look_below(&self, state: &mut State, roots: &[PathBuf]) {
        // Roots come and go with the folders that the profile lists.
        if state.watch.as_ref().is_none_or(|kept| kept.roots() != roots) {
            let rules = DenyLists::new(self.policy.clone(), roots, self.led_to.clone());
            state.watch = Some(Watch::new(roots.to_vec(), rules, self.keep));
        }
    }

    /// Looks at what has come, so that all that a cell which has ended did is judged.
    pub(crate) fn settle(&self) {
        let mut state = self.state();
        if !state.running.is_empty() {
            // An error is told to the cells that run, which are all that this is for.
            let _told = self.refresh(&mut state);
        }
    }

    /// Handfast is about to change the workspace itself: at these paths, or at some that it will only know afterwards.
    pub(crate) fn begin_own_change(&self, expected: &[PathBuf]) {
        let mut state = self.state();
        state.own.under_way += 1;
        state.own.expected.extend_from_slice(expected);
    }

    /// It has changed it, at these paths too.
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

    /// What is denied as of now; cells that run are told what has come.
    fn refresh(&self, state: &mut State) -> Result<Marked, WatchError> {
        let State { watch: Some(watch), running, .. } = state else { return Ok(Marked::default()) };
        // Of a cell that has ended by now, all is told in a moment.
        let ended: Vec<bool> = running.iter().map(RunningCell::is_over).collect();
        let walks = watch.walks();
        let seen = look(watch, running);
        // After a walk it is not known what has come.
        let all = watch.walks() != walks;
        let marked = match seen {
            Ok(Seen { marked, appeared, noted }) => {
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
            // Otherwise what they left is still to be judged.
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
            // What a thread left half-way that panicked is looked for anew.
            self.state.clear_poison();
            let mut state = poisoned.into_inner();
            state.watch = None;
            state
        })
    }
}

/// What is marked, and what of it has come.
struct Seen {
    marked: Marked,
    appeared: BTreeSet<PathBuf>,
    noted: Vec<PathBuf>,
}

/// Asks what is marked. A folder that a command has closed is opened and looked into, and so are those in it, level by level.
fn look(watch: &mut Watch<DenyLists>, running: &[RunningCell]) -> Result<Seen, WatchError> {
    let (mut appeared, mut noted) = (BTreeSet::new(), Vec::new());
    let mut rounds = 0;
    loop {
        let marked = watch.sync()?;
        appeared.extend(marked.appeared.iter().cloned());
        noted.extend(marked.noted.iter().cloned());
        if marked.hidden.iter().filter(|path| cells::open_up(running, path)).count() == 0 {
            return Ok(Seen { marked, appeared, noted });
        }
        rounds += 1;
        if rounds == MOST_CLOSED {
            // Nobody nests so many by mistake.
            running.iter().for_each(RunningCell::give_up);
            return Ok(Seen { marked, appeared, noted });
        }
    }
}

/// Follows the changes for as long as a cell runs.
fn follow(denied: &Weak<DeniedFiles>) {
    loop {
        let Some(denied) = denied.upgrade() else { return };
        let (changes, most) = {
            let mut state = denied.state();
            if state.running.is_empty() {
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
    let message = format!("the files that must be hidden cannot be found, so nothing was run: {error}");
    ToolError::new(Code::Runtime, message).effect(EffectState::None).because(error)
}

#[cfg(test)]
mod tests;
