//! Layer after the run, which commits the changes of a call's snapshot to the workspace, all or none.

mod background_work;
mod question;

use std::path::PathBuf;
use std::sync::Arc;

use checkpoint::Time;
use policy::Policy;
use sandbox::{CellHost, CellSpec};
use tool::{ChangeTreatment, Changes, ChangesState, Code, Data, EffectState, RunResult, ToolError};

use crate::approvals::{ApprovalOutcome, ForeseenWrites, stored};
use crate::call::Call;
use crate::checkpoint_rows::Author;
use crate::direct_checkpoint::DirectSave;
use crate::impact::ChangedCode;
use crate::saved_contents::SavingTime;
use crate::snapshot::{CommitResult, HeldChanges, PendingChanges, Snapshot};
use crate::trace::Stage;
use crate::{Engine, dry_run};
use background_work::blocking;
pub(crate) use background_work::{BackgroundWork, NextCall};

/// State that was saved before the run, so that the changes of a call can be undone.
pub(crate) enum SavedState {
    /// The call changes nothing in the workspace, or its processes change it later.
    Nothing,
    /// The changes are kept apart from the workspace.
    Snapshot(Snapshot),
    /// Changes that an earlier call has kept aside, and that the plan of this call applies.
    Kept(PendingChanges),
    /// The files that the tool will change were saved.
    Direct(DirectSave),
}

impl SavedState {
    /// Returns the snapshot that the run writes to.
    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        match self {
            Self::Snapshot(snapshot) => Some(snapshot),
            Self::Nothing | Self::Kept(_) | Self::Direct(_) => None,
        }
    }

    /// Returns the absolute paths that a tool may change itself, or `None` if they are unknown.
    pub(crate) fn covered(&self) -> Option<Vec<std::path::PathBuf>> {
        match self {
            Self::Direct(direct) => Some(direct.covered()),
            Self::Nothing | Self::Snapshot(_) | Self::Kept(_) => None,
        }
    }
}

/// Run of a tool: its result, and whether the tool is still at work.
pub(crate) struct ToolRun {
    pub(crate) result: RunResult<Data>,
    /// True if the tool returned, so that nothing of the call is still at work.
    pub(crate) has_ended: bool,
    /// Cell of the run, if it was a command.
    pub(crate) cell: Option<(Arc<CellSpec>, Arc<CellHost>)>,
}

impl Engine {
    /// Commits the changes of a run. Without a snapshot, or if the run did not use it, returns the
    /// output of the run unchanged.
    pub(crate) async fn swap_in(
        self: &Arc<Self>,
        call: &mut Call,
        before: SavedState,
        ran: ToolRun,
    ) -> Result<Data, ToolError> {
        let ToolRun { result: RunResult { output, snapshot: used, .. }, has_ended, cell } = ran;
        if !matches!(before, SavedState::Nothing) {
            call.enter(Stage::SwapIn);
        }
        // No command follows in the cells of a tool that has a network for itself.
        let cell = cell.map(|(cell, host)| {
            if self.is_apart(call) {
                (cell, Arc::new(CellHost { spawner: None, ..(*host).clone() }))
            } else {
                (cell, host)
            }
        });
        let next = self.next(cell);
        let (changes, treatment, nothing_else) = match (before, used) {
            (SavedState::Direct(direct), _) => {
                self.settle_direct(call, direct, has_ended).await;
                // A tool that fails after a change need not know what it has changed.
                let has_changed = call.checkpoint.is_some();
                return output.map_err(|error| match error.effect {
                    EffectState::None if has_changed => error.effect(EffectState::Done),
                    _ => error,
                });
            }
            (SavedState::Kept(changes), _) if output.is_ok() => (changes, ChangeTreatment::Commit, true),
            // Another call can still apply kept changes.
            (SavedState::Nothing | SavedState::Kept(_), _) => return output,
            (SavedState::Snapshot(snapshot), Some(used)) => {
                (snapshot.changes_since(Time::from(used.taken_at)), used.changes, used.nothing_else)
            }
            (SavedState::Snapshot(snapshot), None) => {
                // A command that is still running may write to the folders; the next start removes
                // them.
                if has_ended {
                    self.removals.add(move || drop(snapshot.discard()), next);
                }
                return output;
            }
        };
        if call.dry_run.is_some() {
            return self.show_and_drop(call, changes, next, output).await;
        }
        let output = match treatment {
            ChangeTreatment::Show => self.only_show(call, changes, output).await,
            _ if call.passed_as_reading() => {
                self.drop_changes_of_a_reader(call, changes, next).await.and(output)
            }
            ChangeTreatment::Discard => self.drop_changes(call, changes, next).await.and(output),
            ChangeTreatment::Commit => self.commit(call, changes, next, output).await,
        };
        output.map_err(|error| match call.changes.as_ref().map(|changes| changes.state) {
            _ if !nothing_else || error.code == Code::Internal => error,
            Some(ChangesState::Committed) => error.effect(EffectState::Done),
            _ => error.effect(EffectState::None),
        })
    }

    /// Returns the preparation for the next call, which most likely needs the same as this one.
    /// Returns `None` if nothing is prepared.
    fn next(&self, cell: Option<(Arc<CellSpec>, Arc<CellHost>)>) -> Option<NextCall> {
        let snapshots = self.snapshots.clone().filter(|_| self.cell.watches)?;
        Some(NextCall { snapshots, cell })
    }

    async fn drop_changes(
        self: &Arc<Self>,
        call: &mut Call,
        changes: PendingChanges,
        next: Option<NextCall>,
    ) -> Result<(), ToolError> {
        let (changes, paths) = blocking(move || {
            let paths = changes.count();
            (changes, paths)
        })
        .await?;
        call.changes = (paths > 0).then_some(Changes {
            state: ChangesState::Discarded,
            paths,
            id: None,
            unsaved: Vec::new(),
        });
        self.removals.add(move || drop(changes.discard()), next);
        Ok(())
    }

    /// Discards the changes of a command that passed because it only reads, and adds a warning.
    async fn drop_changes_of_a_reader(
        self: &Arc<Self>,
        call: &mut Call,
        changes: PendingChanges,
        next: Option<NextCall>,
    ) -> Result<(), ToolError> {
        self.drop_changes(call, changes, next).await?;
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
        changes: PendingChanges,
        next: Option<NextCall>,
        produced: Result<Data, ToolError>,
    ) -> Result<Data, ToolError> {
        let (rules, engine) = (call.rules(self), self.clone());
        let (changes, preview) = blocking(move || {
            let preview = changes.preview(&rules, &engine.denied, engine.store.as_ref());
            (changes, preview)
        })
        .await?;
        let mut preview = preview?;
        if changes.is_foreseen() {
            // The policy has already decided on exactly these paths.
            preview.held.clear();
        }
        self.removals.add(move || drop(changes.discard()), next);
        dry_run::answer(call, preview, produced)
    }

    /// Keeps the changes aside, and adds their diff to the tool's output.
    async fn only_show(
        self: &Arc<Self>,
        call: &mut Call,
        changes: PendingChanges,
        produced: Result<Data, ToolError>,
    ) -> Result<Data, ToolError> {
        let (rules, engine) = (call.rules(self), self.clone());
        let reason = self.why_tried(&call.effects);
        let shown = blocking(move || {
            let preview = changes.preview(&rules, &engine.denied, engine.store.as_ref())?;
            if preview.paths == 0 {
                engine.removals.add(move || drop(changes.discard()), None);
                return Ok((preview, None));
            }
            let kept = changes.keep(&reason).map_err(|error| {
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
        changes: PendingChanges,
        produced: Result<Data, ToolError>,
    ) -> Result<(PendingChanges, Result<Data, ToolError>), ToolError> {
        let Ok(data) = produced else { return Ok((changes, produced)) };
        let (rules, engine) = (call.rules(self), self.clone());
        let shown = move || {
            let preview = changes.preview(&rules, &engine.denied, engine.store.as_ref());
            (changes, preview)
        };
        let (changes, preview) = blocking(shown).await?;
        match preview {
            Ok(preview) => Ok((changes, dry_run::with_difference(data, preview.diff))),
            Err(error) => {
                call.warnings.push(format!("the difference cannot be shown: {}", error.message));
                Ok((changes, Ok(data)))
            }
        }
    }

    async fn commit(
        self: &Arc<Self>,
        call: &mut Call,
        changes: PendingChanges,
        next: Option<NextCall>,
        produced: Result<Data, ToolError>,
    ) -> Result<Data, ToolError> {
        let approves = if changes.is_foreseen() && call.approved_by.is_some() {
            ApprovedChanges::All
        } else {
            let code = if changes.is_of_a_command() { self.changed_code(call)?.map(Box::new) } else { None };
            ApprovedChanges::Only(call.foreseen.clone(), code)
        };
        let rules = call.rules(self);
        let (changes, produced) = if call.shows_difference {
            self.add_difference(call, changes, produced).await?
        } else {
            (changes, produced)
        };
        let author = call.author(self.clock.now());
        let saving = SavingTime::begin(&call.stop, call.timeout);
        let (mut kept, mut ended) =
            self.try_commit(changes, author, rules.clone(), (approves, &saving)).await?;
        let mut open = None;
        if let CommitResult::Held(question) = ended {
            let what = question.lines.join("; ");
            let difference;
            (kept, difference) = self.difference(kept, rules.clone()).await?;
            match self.ask_about(call, &question, difference).await {
                Ok(ApprovalOutcome::Approved { by }) => {
                    call.approved_by = Some(match call.approved_by.take() {
                        Some(earlier) => format!("{earlier}; {by}"),
                        None => by,
                    });
                    (kept, ended) = self
                        .try_commit(
                            kept,
                            call.author(self.clock.now()),
                            rules,
                            (ApprovedChanges::All, &SavingTime::begin(&call.stop, call.timeout)),
                        )
                        .await?;
                }
                Ok(ApprovalOutcome::Denied { by, message }) => {
                    let said = message.map(|message| format!(": {message}")).unwrap_or_default();
                    let message = format!("{by} said no to what the command changed ({what}){said}");
                    ended = CommitResult::Refused(ToolError::new(Code::Permission, message));
                }
                Ok(ApprovalOutcome::Open { id, hint }) => {
                    let mut error = question::held(&what).hint(format!(
                        "{hint}; `handfast approvals approve {id}` applies exactly these changes to \
                         the workspace, so do not repeat the call"
                    ));
                    error.approval_id = Some(id.clone());
                    open = Some(id);
                    ended = CommitResult::Refused(error);
                }
                Ok(ApprovalOutcome::Closed { hint, .. }) => {
                    ended = CommitResult::Refused(question::held(&what).hint(hint));
                }
                // The changes cannot drift: no process writes to them any more.
                Ok(ApprovalOutcome::Drifted { what }) => {
                    ended = CommitResult::Refused(question::held(&what));
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
                    self.removals.add(move || drop(kept.discard()), next);
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
        self.keep_aside(call, kept, RefusedChanges { error: refused, open }, produced).await
    }

    async fn try_commit(
        self: &Arc<Self>,
        changes: PendingChanges,
        author: Author,
        rules: Arc<Policy>,
        (approves, saving): (ApprovedChanges, &SavingTime),
    ) -> Result<(PendingChanges, CommitResult), ToolError> {
        let (engine, stop) = (self.clone(), saving.stop.clone());
        blocking(move || {
            engine.denied.begin_own_change(&[]);
            let holds = match &approves {
                ApprovedChanges::All => HeldChanges::Nothing,
                ApprovedChanges::Only(foreseen, code) => {
                    HeldChanges::AsFoundBy(&engine.denied, foreseen, code.as_deref())
                }
            };
            let ended = changes.commit(&rules, engine.store.as_ref(), &author, holds, &stop);
            let came: Vec<PathBuf> = match &ended {
                CommitResult::Committed(done) => {
                    done.came.iter().map(|path| engine.place.workspace.join(path)).collect()
                }
                CommitResult::Held(_) | CommitResult::Refused(_) => Vec::new(),
            };
            engine.denied.end_own_change(&came);
            (changes, ended)
        })
        .await
    }

    /// Keeps the changes aside. The response gives the reason and the id of the changes.
    async fn keep_aside(
        self: &Arc<Self>,
        call: &mut Call,
        changes: PendingChanges,
        refused: RefusedChanges,
        produced: Result<Data, ToolError>,
    ) -> Result<Data, ToolError> {
        let RefusedChanges { error: mut refused, open } = refused;
        let reason = match self.what_ran(call) {
            Some(ran) => format!("{ran}: {}", refused.message),
            None => refused.message.clone(),
        };
        let kept = blocking(move || {
            let paths = changes.count();
            (paths, changes.keep(&reason))
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
        let row = stored(&self.store, move |store| store.approvals().hold(&owned, &changes)).await?;
        let yes = row.state == store_api::ApprovalState::Approved;
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
    /// Changes that the question about the call named. A rule may ask about changed code.
    Only(ForeseenWrites, Option<Box<ChangedCode>>),
}

/// Reason why changes are not in the workspace, and the open question about them.
struct RefusedChanges {
    error: ToolError,
    open: Option<String>,
}
