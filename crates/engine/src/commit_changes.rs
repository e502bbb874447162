//! Layer after the run, which commits the changes of a call's snapshot to the workspace, all or none.

mod background_work;
mod question;

use std::path::PathBuf;
use std::sync::Arc;

use checkpoint::Time;
use policy::Policy;
use tool::{Changes, ChangesState, Code, Context, Data, EffectState, ToolError};

use crate::approvals::{ForeseenWrites, QuestionOutcome};
use crate::call::Call;
use crate::direct_checkpoint::{Author, DirectSave};
use crate::life::ToolRun;
use crate::saved_contents::SavingTime;
use crate::snapshot::{CommitResult, HeldChanges, Snapshot};
use crate::trace::Stage;
use crate::{Engine, dry_run};
pub(crate) use background_work::{BackgroundWork, NextCall};

/// State that was saved before the run, so that the changes of a call can be undone.
pub(crate) enum SavedState {
    /// The call changes nothing in the workspace, or its processes change it later.
    Nothing,
    /// The changes are kept apart from the workspace.
    Snapshot(Snapshot),
    /// The files that the tool will change were saved.
    Direct(DirectSave),
}

impl SavedState {
    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        match self {
            Self::Snapshot(snapshot) => Some(snapshot),
            Self::Nothing | Self::Direct(_) => None,
        }
    }

    /// Returns the absolute paths that a tool may change itself, or `None` if they are unknown.
    pub(crate) fn covered(&self) -> Option<Vec<std::path::PathBuf>> {
        match self {
            Self::Direct(direct) => Some(direct.covered()),
            Self::Nothing | Self::Snapshot(_) => None,
        }
    }
}

impl Engine {
    /// Commits the changes of a run. Without a snapshot, or if the run did not use it, returns the
    /// result of the run unchanged.
    pub(crate) async fn swap_in(
        self: &Arc<Self>,
        call: &mut Call,
        before: SavedState,
        ran: ToolRun,
    ) -> (Arc<Context>, Result<Data, ToolError>) {
        let ToolRun { context, produced, has_ended } = ran;
        if !matches!(before, SavedState::Nothing) {
            call.enter(Stage::SwapIn);
        }
        let snapshot = match before {
            SavedState::Snapshot(snapshot) => snapshot,
            SavedState::Direct(direct) => {
                self.settle_direct(call, direct, has_ended).await;
                // A tool that fails after a change need not know what it has changed.
                let has_changed = call.checkpoint.is_some();
                let produced = produced.map_err(|error| match error.effect {
                    EffectState::None if has_changed => error.effect(EffectState::Done),
                    _ => error,
                });
                return (context, produced);
            }
            SavedState::Nothing => return (context, produced),
        };
        let next = self.next(&context);
        let Some(used) = context.snapshot_use() else {
            // A command that is still running may write to the folders; the next start removes them.
            if has_ended && !snapshot.is_kept() {
                self.removals.add(snapshot, next);
            }
            return (context, produced);
        };
        let since = snapshot.since(Time::from(used.taken_at));
        if call.dry_run.is_some() {
            return (context, self.show_and_drop(call, snapshot, since, next, produced).await);
        }
        let produced = if context.changes_are_only_shown() {
            self.only_show(call, snapshot, since, produced).await
        } else if call.passed_as_reading() {
            self.drop_changes_of_a_reader(call, snapshot, since, next).await.and(produced)
        } else if context.changes_are_discarded() {
            self.drop_changes(call, snapshot, since, next).await.and(produced)
        } else {
            self.commit(call, snapshot, since, next, produced).await
        };
        let produced = produced.map_err(|error| match call.changes.as_ref().map(|changes| changes.state) {
            _ if !used.nothing_else || error.code == Code::Internal => error,
            Some(ChangesState::Committed) => error.effect(EffectState::Done),
            _ => error.effect(EffectState::None),
        });
        (context, produced)
    }

    /// Returns the preparation for the next call, which most likely needs the same as this one.
    /// Returns `None` if nothing is prepared.
    fn next(&self, context: &Context) -> Option<NextCall> {
        let snapshots = self.snapshots.clone().filter(|_| self.cell.watches)?;
        Some(NextCall { snapshots, cell: context.service().ok().zip(context.service().ok()) })
    }

    async fn drop_changes(
        self: &Arc<Self>,
        call: &mut Call,
        snapshot: Snapshot,
        since: Time,
        next: Option<NextCall>,
    ) -> Result<(), ToolError> {
        let (snapshot, paths) = blocking(move || {
            let paths = snapshot.count(since);
            (snapshot, paths)
        })
        .await?;
        call.changes = (paths > 0).then_some(Changes {
            state: ChangesState::Discarded,
            paths,
            id: None,
            unsaved: Vec::new(),
        });
        self.removals.add(snapshot, next);
        Ok(())
    }

    /// Discards the changes of a command that passed because it only reads, and adds a warning.
    async fn drop_changes_of_a_reader(
        self: &Arc<Self>,
        call: &mut Call,
        snapshot: Snapshot,
        since: Time,
        next: Option<NextCall>,
    ) -> Result<(), ToolError> {
        self.drop_changes(call, snapshot, since, next).await?;
        if let Some(discarded) = &call.changes {
            let paths = discarded.paths;
            call.warnings.push(format!(
                "the command passed as read-only, but it changed {paths} path{}; these changes were \
                 discarded",
                if paths == 1 { "" } else { "s" }
            ));
        }
        Ok(())
    }

    /// Ends a dry run.
    async fn show_and_drop(
        self: &Arc<Self>,
        call: &mut Call,
        snapshot: Snapshot,
        since: Time,
        next: Option<NextCall>,
        produced: Result<Data, ToolError>,
    ) -> Result<Data, ToolError> {
        let (rules, engine) = (call.rules(self), self.clone());
        let (snapshot, preview) = blocking(move || {
            let preview = snapshot.preview(&rules, &engine.denied, &engine.store, since);
            (snapshot, preview)
        })
        .await?;
        let mut preview = preview?;
        if snapshot.is_foreseen() {
            // The policy has already decided on exactly these paths.
            preview.held.clear();
        }
        self.removals.add(snapshot, next);
        dry_run::answer(call, preview, produced)
    }

    /// Keeps the changes aside, and adds their diff to the tool's output.
    async fn only_show(
        self: &Arc<Self>,
        call: &mut Call,
        snapshot: Snapshot,
        since: Time,
        produced: Result<Data, ToolError>,
    ) -> Result<Data, ToolError> {
        let (rules, engine) = (call.rules(self), self.clone());
        let reason = self.why_tried(&call.effects);
        let shown = blocking(move || {
            let preview = snapshot.preview(&rules, &engine.denied, &engine.store, since)?;
            if preview.paths == 0 {
                engine.removals.drop_unused(SavedState::Snapshot(snapshot));
                return Ok((preview, None));
            }
            let kept = snapshot.keep(since, &reason).map_err(|error| {
                ToolError::new(Code::Runtime, format!("the changes could not be kept: {error}"))
                    .because(error)
            })?;
            Ok::<_, ToolError>((preview, Some(kept)))
        });
        let (preview, id) = shown.await??;
        call.warnings.extend(preview.held.iter().map(|held| format!("applying it needs approval: {held}")));
        call.changes = id.map(|id| Changes {
            state: ChangesState::Kept,
            paths: preview.paths,
            id: Some(id),
            unsaved: Vec::new(),
        });
        dry_run::with_difference(produced?, preview.diff)
    }

    /// Adds the diff of the changes that are about to be committed to the tool's output.
    async fn add_difference(
        self: &Arc<Self>,
        call: &mut Call,
        snapshot: Snapshot,
        since: Time,
        produced: Result<Data, ToolError>,
    ) -> Result<(Snapshot, Result<Data, ToolError>), ToolError> {
        let Ok(data) = produced else { return Ok((snapshot, produced)) };
        let (rules, engine) = (call.rules(self), self.clone());
        let shown = move || {
            let preview = snapshot.preview(&rules, &engine.denied, &engine.store, since);
            (snapshot, preview)
        };
        let (snapshot, preview) = blocking(shown).await?;
        match preview {
            Ok(preview) => Ok((snapshot, dry_run::with_difference(data, preview.diff))),
            Err(error) => {
                call.warnings.push(format!("the difference cannot be shown: {}", error.message));
                Ok((snapshot, Ok(data)))
            }
        }
    }

    async fn commit(
        self: &Arc<Self>,
        call: &mut Call,
        snapshot: Snapshot,
        since: Time,
        next: Option<NextCall>,
        produced: Result<Data, ToolError>,
    ) -> Result<Data, ToolError> {
        let approves = if snapshot.is_foreseen() && call.approved_by.is_some() {
            ApprovedChanges::All
        } else {
            ApprovedChanges::Only(call.foreseen.clone())
        };
        let rules = call.rules(self);
        let (snapshot, produced) = if call.shows_difference {
            self.add_difference(call, snapshot, since, produced).await?
        } else {
            (snapshot, produced)
        };
        let author = call.author(self.clock.now());
        let saving = SavingTime::begin(call);
        let (snapshot, mut ended) =
            self.try_commit(snapshot, author, since, rules.clone(), (approves, &saving)).await?;
        let (mut kept, mut open) = (snapshot, None);
        if let CommitResult::Held(question) = ended {
            let what = question.lines.join("; ");
            let difference;
            (kept, difference) = self.difference(kept, since, rules.clone()).await?;
            match self.ask_about(call, &question, difference).await {
                Ok(QuestionOutcome::Yes(by)) => {
                    call.approved_by = Some(match call.approved_by.take() {
                        Some(earlier) => format!("{earlier}; {by}"),
                        None => by,
                    });
                    (kept, ended) = self
                        .try_commit(
                            kept,
                            call.author(self.clock.now()),
                            since,
                            rules,
                            (ApprovedChanges::All, &SavingTime::begin(call)),
                        )
                        .await?;
                }
                Ok(QuestionOutcome::No { by, message }) => {
                    let said = message.map(|message| format!(": {message}")).unwrap_or_default();
                    let message = format!("{by} said no to what the command changed ({what}){said}");
                    ended = CommitResult::Refused(ToolError::new(Code::Permission, message));
                }
                Ok(QuestionOutcome::Open { id, hint }) => {
                    let mut error = question::held(&what).hint(format!(
                        "{hint}; `handfast approvals approve {id}` applies exactly these changes to \
                         the workspace, so do not repeat the call"
                    ));
                    error.approval_id = Some(id.clone());
                    open = Some(id);
                    ended = CommitResult::Refused(error);
                }
                Ok(QuestionOutcome::Closed { hint, .. }) => {
                    ended = CommitResult::Refused(question::held(&what).hint(hint));
                }
                Err(error) => ended = CommitResult::Refused(error),
            }
        }
        let refused = match ended {
            CommitResult::Committed(done) => {
                call.warnings.extend(done.warnings);
                call.checkpoint = done.has_checkpoint.then(|| call.id.0.clone());
                let (state, paths) = (ChangesState::Committed, done.paths);
                let unsaved = done.unsaved.iter().map(|path| tool::path_text(path)).collect();
                call.changes = (paths > 0).then_some(Changes { state, paths, id: None, unsaved });
                if done.is_settled {
                    self.removals.add(kept, next);
                }
                self.prune_where_due();
                if paths >= MANY {
                    let store = self.store.clone();
                    // A later change moves the rows that are not moved now.
                    self.removals.work(move || drop(store.move_log()));
                }
                return produced;
            }
            CommitResult::Refused(error) => error,
            // Approved changes are never held. If they were, this error would lose nothing.
            CommitResult::Held(question) => ToolError::new(Code::Approval, question.lines.join("; ")),
        };
        self.keep_aside(call, kept, since, RefusedChanges { error: refused, open }, produced).await
    }

    async fn try_commit(
        self: &Arc<Self>,
        snapshot: Snapshot,
        author: Author,
        since: Time,
        rules: Arc<Policy>,
        (approves, saving): (ApprovedChanges, &SavingTime),
    ) -> Result<(Snapshot, CommitResult), ToolError> {
        let (engine, stop) = (self.clone(), saving.stop.clone());
        blocking(move || {
            engine.denied.begin_own_change(&[]);
            let holds = match &approves {
                ApprovedChanges::All => HeldChanges::Nothing,
                ApprovedChanges::Only(foreseen) => HeldChanges::AsFoundBy(&engine.denied, foreseen),
            };
            let ended = snapshot.commit(&rules, &engine.store, &author, since, holds, &stop);
            let came: Vec<PathBuf> = match &ended {
                CommitResult::Committed(done) => {
                    done.came.iter().map(|path| engine.place.workspace.join(path)).collect()
                }
                CommitResult::Held(_) | CommitResult::Refused(_) => Vec::new(),
            };
            engine.denied.end_own_change(&came);
            (snapshot, ended)
        })
        .await
    }

    /// Keeps the changes aside. The response gives the reason and the id of the changes.
    async fn keep_aside(
        self: &Arc<Self>,
        call: &mut Call,
        snapshot: Snapshot,
        since: Time,
        refused: RefusedChanges,
        produced: Result<Data, ToolError>,
    ) -> Result<Data, ToolError> {
        let RefusedChanges { error: mut refused, open } = refused;
        let reason = match self.what_ran(call) {
            Some(ran) => format!("{ran}: {}", refused.message),
            None => refused.message.clone(),
        };
        let kept = blocking(move || {
            let paths = snapshot.count(since);
            (paths, snapshot.keep(since, &reason))
        })
        .await?;
        match kept {
            (paths, Ok(id)) => {
                if let Some(asked) = open
                    && self.hold_for(&asked, &id).await?
                {
                    // The answer came while the changes were being kept aside.
                    call.changes = Some(Changes {
                        state: ChangesState::Committed,
                        paths,
                        id: None,
                        unsaved: Vec::new(),
                    });
                    return produced;
                }
                let how = format!(
                    "the changes are kept: the user can see them with `handfast changes show {id}` and \
                     apply them with `handfast changes apply {id}`"
                );
                refused.hint = Some(match refused.hint.take() {
                    Some(hint) => format!("{hint}; {how}"),
                    None => how,
                });
                call.changes =
                    Some(Changes { state: ChangesState::Kept, paths, id: Some(id), unsaved: Vec::new() });
            }
            (_, Err(error)) => call.warnings.push(format!("the changes could not be kept: {error}")),
        }
        match produced {
            Ok(data) => match data.into_value() {
                Ok(data) => Err(refused.data(data)),
                Err(unreadable) => Err(refused.because(unreadable)),
            },
            // The command failed before its changes did, and its caller needs that error first.
            Err(error) => {
                let hint = refused.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
                call.warnings.push(format!("{}{hint}", refused.message));
                Err(error)
            }
        }
    }

    /// Links kept changes to their question, and applies them if the answer was yes meanwhile.
    async fn hold_for(&self, asked: &str, id: &str) -> Result<bool, ToolError> {
        let (owned, changes) = (asked.to_owned(), id.to_owned());
        let row = self.stored(move |store| store.approvals().hold(&owned, &changes)).await?;
        let yes = row.state == store::ApprovalState::Approved;
        Ok(yes && self.apply_changes(id, false).await.is_ok())
    }
}

/// Number of changed paths from which the store's log is moved after the response, rather than by a
/// later call.
const MANY: u64 = 500;

/// Changes of a call that a human has approved.
enum ApprovedChanges {
    /// All changes, because they are those that were shown.
    All,
    /// Changes that the question about the call named.
    Only(ForeseenWrites),
}

/// Reason why changes are not in the workspace, and the open question about them.
struct RefusedChanges {
    error: ToolError,
    open: Option<String>,
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work).await.map_err(|panic| {
        ToolError::internal("handling the changes of the call failed")
            .effect(EffectState::Maybe)
            .because(panic)
    })
}
