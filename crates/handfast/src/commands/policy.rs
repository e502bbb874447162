//! `handfast policy`: shows the rules, checks their examples, and suggests further ones.

use std::process::ExitCode;

use policy::{Example, Origin, Policy, Setup, examples, findings, show};
use serde_json::json;

use super::{Failure, print, print_json};
use crate::cli::{Global, PolicyCommand};
use crate::compose::{RuntimeOptions, compose};
use crate::configuration::Configuration;
use crate::pager::print_listing;
use crate::report::{note, table, warn};

pub(super) fn run(global: &Global, command: Option<&PolicyCommand>) -> Result<ExitCode, Failure> {
    if let Some(PolicyCommand::Suggest { json }) = command {
        return suggest(global, *json);
    }
    let configuration = Configuration::of(&global.run_options())?;
    let setup = configuration.setup();
    match command {
        Some(PolicyCommand::Test { json }) => test(&setup, *json),
        Some(PolicyCommand::Show { json }) => show_rules(&setup, *json),
        Some(PolicyCommand::Suggest { .. }) | None => show_rules(&setup, false),
    }
}

/// Suggests entries of lists, in the form of the configuration.
fn suggest(global: &Global, as_json: bool) -> Result<ExitCode, Failure> {
    let engine = compose(RuntimeOptions::once(global))?.engine;
    let suggested = engine.suggest_rules()?;
    if as_json {
        print_json(&suggested)?;
        return Ok(ExitCode::SUCCESS);
    }
    if suggested.is_empty() {
        note("no entry of a list would have spared you a question among the last 1,000 calls here");
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("sandbox_config:\n  {}:\n", engine.profile());
    let mut keys: Vec<&str> = suggested.iter().map(|suggestion| suggestion.key).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        text.push_str(&format!("    {key}:\n"));
        for suggestion in suggested.iter().filter(|suggestion| suggestion.key == key) {
            let calls = if suggestion.calls == 1 { "call" } else { "calls" };
            let examples = suggestion.examples.join("; ");
            text.push_str(&format!(
                "      # {} {calls} that you approved: {}\n      - {}\n",
                suggestion.calls,
                tool::visible(&examples),
                serde_json::to_string(&suggestion.entry)?
            ));
        }
    }
    print(&text)?;
    note("nothing was changed; write what you want into your configuration, after a look at each entry");
    Ok(ExitCode::SUCCESS)
}

fn show_rules(setup: &Setup<'_>, as_json: bool) -> Result<ExitCode, Failure> {
    let shown = show(setup, engine::built_in_limits()).map_err(Failure::usage)?;
    if as_json {
        let policy = Policy::compile(setup).map_err(Failure::usage)?;
        print_json(&json!({ "profile": policy.profile(), "mode": policy.mode(), "rules": shown }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = shown.into_iter().map(|one| {
        let origin = format!("{}{}", layer(&one.rule.origin), one.rule.origin);
        vec![
            one.rule.key.to_owned(),
            one.rule.entry,
            one.rule.profile.to_string(),
            origin,
            one.note.unwrap_or_default(),
        ]
    });
    print_listing(&table(&["key", "entry", "profile", "from", "note"], rows))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the name of the configuration layer, for display before the path.
fn layer(origin: &Origin) -> &'static str {
    match origin {
        Origin::BuiltIn
        | Origin::CommandLine
        | Origin::Program
        | Origin::Ceiling
        | Origin::Package(_)
        | Origin::Lease(_) => "",
        Origin::Managed(_) => "managed, ",
        Origin::User(_) => "user, ",
        Origin::Workspace(_) => "workspace, ",
    }
}

fn test(setup: &Setup<'_>, as_json: bool) -> Result<ExitCode, Failure> {
    let tried = examples(setup).map_err(Failure::usage)?;
    let failed = tried.iter().filter(|example| !example.holds()).count();
    // The search for rules that never apply needs a policy that compiles.
    let found = if failed == 0 { findings(setup).map_err(Failure::usage)? } else { Vec::new() };
    if as_json {
        let unused: Vec<_> =
            found.iter().map(|finding| json!({ "rule": finding.rule, "problem": finding.problem })).collect();
        print_json(&json!({
            "ok": failed == 0,
            "examples": tried.iter().map(described).collect::<Vec<_>>(),
            "never_decide": unused,
        }))?;
    } else {
        for finding in &found {
            warn(&finding.to_string());
        }
        if !tried.is_empty() {
            let rows = tried.iter().map(|example| {
                vec![
                    if example.holds() { "holds" } else { "FAILS" }.to_owned(),
                    format!("{}: {}", example.rule.key, example.rule.entry),
                    if example.must_match { "match" } else { "not_match" }.to_owned(),
                    example.example.clone(),
                    example.rule.origin.to_string(),
                ]
            });
            print(&table(&["result", "rule", "must", "example", "from"], rows))?;
        }
        note(&match (tried.len(), failed) {
            (0, _) => "no rule has an example; an entry can be written as {rule: \"git push\", \
                       match: [\"git push origin\"], not_match: [\"git pull\"]}"
                .to_owned(),
            (all, 0) => format!("all {all} examples hold"),
            (all, failed) => format!("{failed} of {all} examples fail"),
        });
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn described(example: &Example) -> serde_json::Value {
    json!({
        "rule": example.rule,
        "example": example.example,
        "must_match": example.must_match,
        "matches": example.matches,
        "holds": example.holds(),
    })
}
