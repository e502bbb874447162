//! `handfast policy`: shows the rules, and checks their examples.

use std::process::ExitCode;

use policy::{Example, Origin, Policy, Setup, examples, findings, show};
use serde_json::json;

use super::{Failure, print, print_json};
use crate::cli::{Global, PolicyCommand};
use crate::configuration::Configuration;
use crate::report::{note, table, warn};

pub(super) fn run(global: &Global, command: Option<PolicyCommand>) -> Result<ExitCode, Failure> {
    let configuration = Configuration::of(&global.run_options())?;
    let setup = configuration.setup();
    match command.unwrap_or(PolicyCommand::Show { json: false }) {
        PolicyCommand::Show { json } => show_rules(&setup, json),
        PolicyCommand::Test { json } => test(&setup, json),
    }
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
    print(&table(&["key", "entry", "profile", "from", "note"], rows))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the name of the configuration layer, for display before the path.
fn layer(origin: &Origin) -> &'static str {
    match origin {
        Origin::BuiltIn | Origin::CommandLine | Origin::Program | Origin::Ceiling | Origin::Lease(_) => "",
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
