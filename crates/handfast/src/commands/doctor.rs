//! `handfast doctor`: what this machine really enforces, tried out.

use std::process::ExitCode;

use serde::Serialize;

use super::{Failure, print, print_json};
use crate::cli::Global;
use crate::compose::{compose, open_store};
use crate::report::table;
use crate::surroundings::Surroundings;

/// One thing that was tried.
#[derive(Debug, Serialize)]
struct Finding {
    /// What was tried.
    name: String,
    /// Whether it is as promised.
    holds: bool,
    /// What was seen.
    detail: String,
    /// What to do where it does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

pub(super) fn run(global: &Global, as_json: bool) -> Result<ExitCode, Failure> {
    let surroundings = Surroundings::of_this_process();
    let mut findings = vec![state(global, &surroundings), configuration(global)];
    findings.extend(sandbox::probe().into_iter().map(|probe| Finding {
        name: probe.name.to_owned(),
        holds: probe.holds,
        detail: probe.detail,
        hint: probe.hint,
    }));
    let holds = findings.iter().all(|finding| finding.holds);
    if as_json {
        print_json(&findings)?;
    } else {
        let rows = findings.iter().map(|finding| {
            let verdict = if finding.holds { "ok" } else { "FAILS" };
            vec![finding.name.clone(), verdict.to_owned(), finding.detail.clone()]
        });
        print(&table(&["promise", "", "what was seen"], rows))?;
        for finding in findings.iter().filter(|finding| !finding.holds) {
            let hint = finding.hint.as_deref().unwrap_or("no advice for this one; please report it");
            print(&format!("\n{}: {hint}\n", finding.name))?;
        }
    }
    Ok(ExitCode::from(u8::from(!holds)))
}

/// The state folder can be used, and the audit log in it is whole.
fn state(global: &Global, surroundings: &Surroundings) -> Finding {
    let name = "audit log".to_owned();
    let checked = open_store(global, surroundings).and_then(|store| Ok(store.audit().verify(None)?));
    match checked {
        Ok(found) => match &found.fault {
            None => {
                Finding { name, holds: true, detail: format!("{} rows, chain whole", found.rows), hint: None }
            }
            Some(fault) => Finding {
                name,
                holds: false,
                detail: fault.to_string(),
                hint: Some(
                    "keep a copy of the state folder; someone or something changed the log".to_owned(),
                ),
            },
        },
        Err(failure) => Finding {
            name,
            holds: false,
            detail: failure.error.to_string(),
            hint: Some(
                "no call is made without its audit: repair the state folder, or name another with --state"
                    .to_owned(),
            ),
        },
    }
}

/// The configuration files can be read, and the workspace opened.
fn configuration(global: &Global) -> Finding {
    let name = "configuration".to_owned();
    match compose(global, None) {
        Ok(composed) => {
            let detail = format!("workspace {}", composed.workspace.display());
            Finding { name, holds: true, detail, hint: None }
        }
        Err(failure) => Finding {
            name,
            holds: false,
            detail: failure.error.to_string(),
            hint: Some(
                "correct the file that is named; `handfast init` writes one with every setting explained"
                    .to_owned(),
            ),
        },
    }
}
