//! `handfast changes`: shows and applies changes that are set aside, because others changed the
//! same files meanwhile or because they need a separate approval.

use std::process::ExitCode;

use engine::{Engine, KeptDetails, KeptError};

use super::checkpoints::lines;
use super::{Failure, print_json, tokio_runtime};
use crate::cli::Global;
use crate::cli_approvals::ChangesCommand;
use crate::clock::SystemClock;
use crate::compose::{RuntimeOptions, compose};
use crate::moment::Present;
use crate::pager::print_listing;
use crate::report::{note, table};

pub(super) fn run(global: &Global, command: Option<ChangesCommand>) -> Result<ExitCode, Failure> {
    let engine = compose(RuntimeOptions::once(global))?.engine;
    match command.unwrap_or(ChangesCommand::List { json: false }) {
        ChangesCommand::List { json } => list(&engine, json)?,
        ChangesCommand::Show { id, json } => show(&engine.show_changes(&full_id(&engine, &id)?)?, json)?,
        ChangesCommand::Apply { id, force } => {
            let id = full_id(&engine, &id)?;
            let paths = tokio_runtime()?.block_on(engine.apply_changes(&id, force));
            let paths = paths.map_err(|error| refused(&error))?;
            note(&format!("{paths} changes were applied to the workspace"));
        }
        ChangesCommand::Discard { id } => {
            let id = full_id(&engine, &id)?;
            tokio_runtime()?.block_on(engine.discard_changes(&id))?;
            note("the changes were removed");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn refused(error: &KeptError) -> Failure {
    Failure::from(format!("nothing was changed: {error}"))
}

fn list(engine: &Engine, json: bool) -> Result<(), Failure> {
    let kept = engine.kept_changes()?;
    if json {
        return print_json(&kept);
    }
    if kept.is_empty() {
        note("no changes are held");
        return Ok(());
    }
    let present = Present::by(&SystemClock);
    let ids: Vec<&str> = kept.iter().map(|kept| kept.id.as_str()).collect();
    let rows = kept.iter().zip(tool::short_ids(&ids)).map(|(kept, id)| {
        vec![
            present.local(kept.since),
            present.age(kept.since),
            id,
            tool::path_text(&kept.workspace),
            tool::visible(&kept.reason).chars().take(100).collect(),
        ]
    });
    print_listing(&table(&["held since", "age", "id", "workspace", "because"], rows))
}

fn show(kept: &KeptDetails, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(kept);
    }
    let mut text = format!("{}\n{}\n\n", tool::path_text(&kept.workspace), tool::visible(&kept.reason));
    for line in &kept.paths {
        text.push_str(&format!("{}\n", tool::visible(line)));
    }
    match &kept.diff {
        Some(diff) => text.push_str(&format!("\n{}", lines(diff))),
        None => text.push_str(&format!(
            "\nuse --workspace {} to see the difference\n",
            tool::path_text(&kept.workspace)
        )),
    }
    print_listing(&text)
}

/// Returns the id that `typed` names. Fails if the match is not unique.
fn full_id(engine: &Engine, typed: &str) -> Result<String, Failure> {
    let kept = engine.kept_changes()?;
    let mut fits = kept.into_iter().map(|kept| kept.id).filter(|id| tool::names_id(typed, id));
    match (fits.next(), fits.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => {
            Err(Failure::usage(format!("`{typed}` matches several held changes; type more of the id")))
        }
        (None, _) => Err(Failure::usage(format!(
            "there are no held changes `{typed}`; `handfast changes list` lists them"
        ))),
    }
}
