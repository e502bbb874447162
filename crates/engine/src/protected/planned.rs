//! Judgement of a file tool's planned writes, whose paths are known and whose content is not.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use policy::Part;
use tool::{Access, Effect, EffectState, Lane, Plan, Spec, ToolError};

use super::{ChangeJudge, LayeredView, News, PlannedChanges};
use crate::Engine;
use crate::call::Call;
use crate::cell::shown;
use crate::denied::{AsOf, DeniedFiles};

/// Maximum number of entries that are examined in a renamed folder.
const MAX_MOVED: usize = 20_000;

impl Engine {
    /// Records for each part of the call the reason why its write would run automatically. Writes
    /// of commands are judged after their run.
    pub(crate) async fn note_what_runs(
        self: &Arc<Self>,
        call: &mut Call,
        spec: &Spec,
        plan: &Plan,
    ) -> Result<(), ToolError> {
        let writes = |part: &Part| matches!(part.effect, Effect::Write { .. });
        let tried = call.dry_run.as_ref().map(|tried| tried.effects.as_slice()).unwrap_or_default();
        if spec.lane == Lane::Command || !call.effects.iter().chain(tried).any(writes) {
            return Ok(());
        }
        let (mut effects, mut tried) = (std::mem::take(&mut call.effects), tried.to_vec());
        let renames = plan.renames.clone();
        let (engine, rules) = (self.clone(), call.rules(self));
        let noted = tokio::task::spawn_blocking(move || {
            for parts in [&mut effects, &mut tried] {
                for root in shown(&rules, &engine.place.workspace) {
                    note(
                        &engine.denied,
                        &engine.policy,
                        (&engine.place.workspace, &root),
                        parts,
                        renames.as_ref(),
                    )?;
                }
            }
            Ok::<_, watch::WatchError>((effects, tried))
        });
        let noted = noted.await.map_err(|panic| {
            ToolError::internal("the search for run-later files failed")
                .effect(EffectState::None)
                .because(panic)
        })?;
        let (effects, tried) = noted.map_err(|error| {
            let message = format!("the search for run-later files failed, so nothing was done: {error}");
            ToolError::new(tool::Code::Runtime, message).effect(EffectState::None).because(error)
        })?;
        call.effects = effects;
        if let Some(dry_run) = &mut call.dry_run {
            dry_run.effects = tried;
        }
        Ok(())
    }
}

fn note(
    denied: &DeniedFiles,
    policy: &policy::Policy,
    (workspace, root): (&Path, &Path),
    parts: &mut [Part],
    renames: Option<&(PathBuf, PathBuf)>,
) -> Result<(), watch::WatchError> {
    let real = |part: &Part, named: &Path| part.real.as_deref().unwrap_or(named).to_owned();
    let below = |path: &Path| {
        let path = path.strip_prefix(root).ok()?;
        (!path.as_os_str().is_empty()).then(|| path.to_owned())
    };
    let mut planned = PlannedChanges::default();
    for part in parts.iter() {
        match (&part.effect, part.effect.path()) {
            (Effect::Delete { path }, _) => planned.removed.extend(below(&real(part, path))),
            (_, Some((Access::Write, path))) => planned.written.extend(below(&real(part, path))),
            _ => {}
        }
    }
    if planned.written.is_empty() {
        return Ok(());
    }
    if let Some((from, to)) = renames {
        let place = |named: &Path| {
            let part = parts.iter().find(|part| part.effect.path().is_some_and(|(_, path)| path == named));
            part.and_then(|part| below(&real(part, named)))
        };
        if let Some((from, to)) = place(from).zip(place(to)) {
            planned.written.remove(&to);
            planned.written.remove(&from);
            planned.moved.push((from, to));
        }
    }
    let set = denied.protected(&shown(policy, workspace), root, AsOf::Now)?;
    let news = News::default();
    let changed = ChangeJudge::new(&set, root, LayeredView::Planned(&planned), &news);
    for part in parts.iter_mut() {
        let Some((Access::Write, named)) = part.effect.path() else { continue };
        let Some(path) = below(&real(part, named)) else { continue };
        if matches!(part.effect, Effect::Delete { .. }) {
            continue;
        }
        let found = match planned.moved.iter().find(|(_, to)| *to == path) {
            None => changed.reason(&path),
            Some((from, to)) => moved(root, from)
                .ok_or_else(|| "it has too many files to inspect".to_owned())
                .map_or_else(Some, |all| {
                    let mut paths = all.iter().map(|inner| to.join(inner).components().collect::<PathBuf>());
                    paths.find_map(|path| changed.reason(&path))
                }),
        };
        part.runs = part.runs.take().or(found);
    }
    Ok(())
}

/// Lists every entry at and below a path, relative to the path, or returns `None` if there are too
/// many.
fn moved(root: &Path, from: &Path) -> Option<Vec<PathBuf>> {
    let mut all = vec![PathBuf::new()];
    let mut next = 0;
    while let Some(inner) = all.get(next).cloned() {
        next += 1;
        let path = root.join(from).join(&inner);
        if !path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            continue;
        }
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            all.push(inner.join(entry.file_name()));
            if all.len() > MAX_MOVED {
                return None;
            }
        }
    }
    Some(all)
}
