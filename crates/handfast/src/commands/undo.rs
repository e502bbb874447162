//! `handfast undo`: takes back the changes of calls.

use std::process::ExitCode;

use engine::{UndoSince, UndoTrial};
use tool::UndoRequest;

use super::checkpoints::{lines, refused, resolved};
use super::{Failure, print, print_json, tokio_runtime};
use crate::cli::{Global, UndoArgs};
use crate::cli_values::Since;
use crate::clock::SystemClock;
use crate::compose::{Composed, RuntimeOptions, compose};
use crate::report::{command, note};

pub(super) fn run(global: &Global, arguments: UndoArgs) -> Result<ExitCode, Failure> {
    let Composed { engine, workspace, .. } = compose(RuntimeOptions::once(global))?;
    let and_later = arguments.since.is_some();
    let checkpoint = match (arguments.id, arguments.since) {
        (Some(id), _) => id,
        (None, Some(since)) => {
            let since = match since {
                Since::Time(moment) => UndoSince::Time(moment.by(&SystemClock)?),
                Since::Call(call) => UndoSince::Call(call),
            };
            engine.first_since(&since).map_err(|error| refused(&error))?
        }
        (None, None) => return Err(Failure::usage("name a checkpoint, or a start with --since")),
    };
    let paths = resolved(&workspace, arguments.path);
    let force = match (arguments.force, paths.is_empty()) {
        (false, _) => Vec::new(),
        (true, true) => vec![workspace],
        (true, false) => paths.clone(),
    };
    let request = UndoRequest { checkpoint, and_later, paths, force };
    if global.dry_run {
        return shown(&engine.try_undo(&request).map_err(|error| refused(&error))?, arguments.json);
    }
    let undone = tokio_runtime()?.block_on(engine.undo(&request)).map_err(|mut error| {
        if let Some(diff) = error.data.as_ref().and_then(|data| data.get("diff")?.as_str()) {
            // Standard output is for results. The difference explains the missing result.
            note(&format!("the undo would change this:\n{}", lines(diff)));
            error.hint = Some("--force overwrites it; with --path, only there".to_owned());
        }
        refused(&error)
    })?;
    if arguments.json {
        print_json(&undone)?;
        return Ok(ExitCode::SUCCESS);
    }
    for line in &undone.notes {
        note(&tool::visible(line));
    }
    match &undone.checkpoint {
        Some(id) => print(&format!(
            "{} paths were restored; `{}` undoes this\n",
            undone.paths,
            command(&format!("undo {id}"))
        ))?,
        None => note("there was nothing to undo"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows what an undo would do. Fails if the undo would fail.
fn shown(trial: &UndoTrial, as_json: bool) -> Result<ExitCode, Failure> {
    let code = if trial.conflict.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if as_json {
        print_json(trial)?;
        return Ok(code);
    }
    print(&lines(&trial.diff))?;
    for line in &trial.notes {
        note(&tool::visible(line));
    }
    note(&match &trial.conflict {
        Some(conflict) => {
            format!("{}; --force would overwrite it; with --path, only there", tool::visible(conflict))
        }
        None => format!("{} paths would be restored; nothing was changed", trial.paths),
    });
    Ok(code)
}
