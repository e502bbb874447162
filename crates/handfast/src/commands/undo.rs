//! `handfast undo`: takes back the changes of calls.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use engine::{ChangeOverview, Engine, UndoSince, UndoTrial};
use tool::UndoRequest;

use super::checkpoints::{action, changes_table, lines, refused, resolved};
use super::{Failure, print, print_json, tokio_runtime};
use crate::cli::{Global, UndoArgs};
use crate::cli_values::Since;
use crate::clock::SystemClock;
use crate::compose::{Composed, RuntimeOptions, compose};
use crate::report::{command, counted, covered, note};

pub(super) fn run(global: &Global, arguments: UndoArgs) -> Result<ExitCode, Failure> {
    let Composed { engine, workspace, .. } = compose(RuntimeOptions::once(global))?;
    let and_later = arguments.since.is_some();
    let mut what = None;
    let checkpoint = match (arguments.id, arguments.since) {
        (Some(id), _) => id,
        (None, Some(since)) => {
            let since = match since {
                Since::Time(moment) => UndoSince::Time(moment.by(&SystemClock)?),
                Since::Call(call) => UndoSince::Call(call),
            };
            engine.first_since(&since).map_err(|error| refused(&error))?
        }
        (None, None) => {
            let chosen =
                if arguments.last { last(&engine)? } else { chosen(global, &engine, arguments.json)? };
            let Some(chosen) = chosen else { return Ok(ExitCode::SUCCESS) };
            what = Some(action(&chosen));
            chosen.summary.id
        }
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
        Some(id) => {
            let what = what.map(|what| format!("undone: {}\n", tool::visible(&what))).unwrap_or_default();
            let restored = counted(undone.paths, "path was", "paths were");
            print(&format!("{what}{restored} restored; `{}` undoes this\n", command(&format!("undo {id}"))))?;
        }
        None => note("there was nothing to undo"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Number of changes from which the user chooses.
const CHOICES: u32 = 10;

/// Returns the newest change that is in force.
fn last(engine: &Engine) -> Result<Option<ChangeOverview>, Failure> {
    let last = engine.last_change().map_err(|error| refused(&error))?;
    if last.is_none() {
        note("there is no change in this workspace that is not undone");
    }
    Ok(last)
}

/// Shows the newest changes and asks which one to undo. Returns nothing if the user names none.
///
/// # Errors
/// If there is no terminal to ask at.
fn chosen(global: &Global, engine: &Engine, as_json: bool) -> Result<Option<ChangeOverview>, Failure> {
    let all = engine.change_overviews(CHOICES).map_err(|error| refused(&error))?;
    if all.is_empty() {
        note("there are no changes to undo in this workspace");
        return Ok(None);
    }
    let table = changes_table(&all);
    if global.no_input || !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        if as_json {
            print_json(&all)?;
        } else {
            print(&table)?;
        }
        return Err(Failure::usage(
            "name one of these changes by its id, or take the newest one with --last; \
             `handfast checkpoints list` lists earlier ones",
        ));
    }
    let mut numbered = String::new();
    for (number, line) in table.lines().enumerate() {
        let number = if number == 0 { "  ".to_owned() } else { format!("{number:>2}") };
        numbered.push_str(&format!("{number}  {line}\n"));
    }
    write!(io::stderr(), "{}", covered(&numbered))?;
    loop {
        write!(io::stderr(), "Undo which? [1-{}, an id, or Enter for none] ", all.len())?;
        let mut line = String::new();
        if io::stdin().read_line(&mut line)? == 0 || line.trim().is_empty() {
            note("nothing was undone");
            return Ok(None);
        }
        let typed = line.trim();
        let by_number = typed.parse::<usize>().ok().filter(|number| (1..=all.len()).contains(number));
        let mut by_id = (0..all.len())
            .filter(|index| all.get(*index).is_some_and(|change| tool::names_id(typed, &change.summary.id)));
        let index = by_number.map(|number| number - 1).or(match (by_id.next(), by_id.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        });
        match index {
            Some(index) => return Ok(all.into_iter().nth(index)),
            None => note(&format!("`{}` is none of these changes", tool::visible(typed))),
        }
    }
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
        None => {
            let paths = counted(trial.paths, "path", "paths");
            format!("{paths} would be restored; nothing was changed")
        }
    });
    Ok(code)
}
