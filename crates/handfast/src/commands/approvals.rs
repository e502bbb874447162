//! `handfast approvals`: lists questions, answers them, and revokes leases.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use engine::{ApprovalError, Approvals, Engine, Grant, GrantResult, Offer, Scope, StoredQuestion};
use store_api::{ApprovalState, Lease};
use tool::{visible, visible_lines};

use super::{Failure, print, print_json, tokio_runtime};
use crate::cli::Global;
use crate::cli_approvals::ApprovalsCommand;
use crate::clock::SystemClock;
use crate::compose::{RuntimeOptions, compose};
use crate::host_environment::HostEnvironment;
use crate::moment::Present;
use crate::places::open_store;
use crate::report::{command, covered, note, table};
use crate::terminal::{preview, span};

/// Name of the answering party in the audit.
const BY: &str = "the user, with handfast approvals";

pub(super) fn run(global: &Global, command: Option<ApprovalsCommand>) -> Result<ExitCode, Failure> {
    let store = open_store(&global.run_options(), &HostEnvironment::of_this_process())?;
    let approvals = Approvals::new(store.clone(), Arc::new(SystemClock));
    let done = match command {
        None if io::stdin().is_terminal() && io::stdout().is_terminal() && !global.no_input => {
            return crate::screen::run(global, store);
        }
        None => list(&approvals, false, false),
        Some(ApprovalsCommand::List { all, json }) => list(&approvals, all, json),
        Some(ApprovalsCommand::Show { id, json }) => show(&approvals, &id, json),
        Some(ApprovalsCommand::Approve { id, scope, pattern, ttl, preview, json }) => {
            let grant = Grant { scope, pattern, lasts: ttl, by: BY.to_owned() };
            approve(global, &approvals, &id, &grant, preview, json)
        }
        Some(ApprovalsCommand::Deny { id, message }) => deny(&approvals, &id, message),
        Some(ApprovalsCommand::Leases { all, json }) => leases(&approvals, all, json),
        Some(ApprovalsCommand::Revoke { lease }) => revoke(&approvals, &lease),
    };
    store.close()?;
    done.map(|()| ExitCode::SUCCESS)
}

/// Returns the engine of the workspace that a question is about. The scope of an approval depends
/// on the rules of that workspace.
pub(crate) fn engine_of(global: &Global, asked: &StoredQuestion) -> Result<Arc<Engine>, Failure> {
    let there = Global { workspace: Some(asked.workspace.clone()), ..global.clone() };
    Ok(compose(RuntimeOptions::once(&there))?.engine)
}

fn failed(error: ApprovalError) -> Failure {
    match error {
        ApprovalError::Unknown { .. } | ApprovalError::OnceOnly { .. } | ApprovalError::Scope(_) => {
            Failure::usage(error)
        }
        other => Failure::from(other),
    }
}

fn list(approvals: &Approvals, all: bool, json: bool) -> Result<(), Failure> {
    let asked = approvals.list(!all).map_err(failed)?;
    if json {
        return print_json(&asked);
    }
    let leases = approvals.leases(true).map_err(failed)?;
    if asked.is_empty() && leases.is_empty() {
        note("nothing waits for an approval, and no lease is in force");
        return Ok(());
    }
    let present = Present::by(&SystemClock);
    let mut text = String::new();
    if !asked.is_empty() {
        let ids: Vec<&str> = asked.iter().map(|asked| asked.question.id.as_str()).collect();
        let rows = asked.iter().zip(tool::short_ids(&ids)).map(|(asked, id)| {
            vec![
                present.age(asked.asked_at),
                id,
                asked.state_name().to_owned(),
                asked.question.tool.clone(),
                tool::path_text(&asked.workspace),
                abbreviated(&asked.question.effects.join("; ")),
            ]
        });
        text.push_str(&table(&["asked", "id", "state", "tool", "workspace", "effects"], rows));
    }
    if !leases.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&leases_table(&leases));
    }
    print(&text)
}

/// Cuts a text to 80 characters, with a marker if it was longer.
fn abbreviated(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{} ...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn leases_table(leases: &[Lease]) -> String {
    let present = Present::by(&SystemClock);
    let ids: Vec<&str> = leases.iter().map(|lease| lease.id.as_str()).collect();
    let rows = leases.iter().zip(tool::short_ids(&ids)).map(|(lease, id)| {
        let until =
            lease.revoked_at.map_or_else(|| present.local(lease.expires_at), |_| "revoked".to_owned());
        vec![id, lease.scope.clone(), until, lease.uses.to_string(), lease.covers.clone()]
    });
    table(&["lease", "scope", "until", "uses", "covers"], rows)
}

fn leases(approvals: &Approvals, all: bool, json: bool) -> Result<(), Failure> {
    let leases = approvals.leases(!all).map_err(failed)?;
    if json {
        return print_json(&leases);
    }
    if leases.is_empty() {
        note("no lease is in force");
        return Ok(());
    }
    print(&leases_table(&leases))
}

fn show(approvals: &Approvals, id: &str, json: bool) -> Result<(), Failure> {
    let asked = approvals.find(id).map_err(failed)?;
    if json {
        return print_json(&asked);
    }
    print(&text(&asked, &Present::by(&SystemClock)))
}

/// Returns all facts that are relevant for an answer.
pub(crate) fn text(asked: &StoredQuestion, present: &Present) -> String {
    let question = &asked.question;
    let mut text = format!("{} ({})  {}\n", question.tool, question.level, asked.state_name());
    text.push_str(&format!(
        "in {}, asked {} ({}) by session {}\n\n",
        visible(&tool::path_text(&asked.workspace)),
        present.local(asked.asked_at),
        present.age(asked.asked_at),
        visible(&asked.session)
    ));
    for effect in &question.effects {
        text.push_str(&format!("  {}\n", visible_lines(effect)));
    }
    text.push_str(&format!("because {}\nrule {}\n", visible(&question.reason), visible(&question.rule)));
    if question.preview.is_some() {
        text.push_str(&format!("\n{}", preview(question, usize::MAX, "")));
    }
    if let Some(changes) = &asked.changes {
        let show = command(&format!("changes show {changes}"));
        text.push_str(&format!("its changes are held: {show}\n"));
    }
    if let Some(by) = &asked.answered_by {
        let message =
            asked.message.as_ref().map(|message| format!(": {}", visible(message))).unwrap_or_default();
        text.push_str(&format!("answered by {}{message}\n", visible(by)));
    }
    if asked.state == ApprovalState::Waiting {
        let then = match (&asked.changes, asked.caller_waits) {
            (Some(_), _) => "an approval applies these changes to the workspace",
            (None, true) => "the call waits, and continues after an approval",
            (None, false) => {
                "its call has ended; after an approval, the same call passes once when it is made again"
            }
        };
        text.push_str(&format!("\n{then}\nthe approval can be for\n  once: this call only\n"));
        for offer in &question.offers {
            text.push_str(&format!("  {}\n", offered(offer)));
        }
        if let Some(suggestion) = &question.suggestion {
            text.push_str(&format!("{}\n", visible(suggestion)));
        }
    }
    text
}

fn offered(offer: &Offer) -> String {
    format!("{}, for {}: {}", offer.scope, span(offer.seconds), visible(&offer.description()))
}

fn approve(
    global: &Global,
    approvals: &Approvals,
    id: &str,
    grant: &Grant,
    preview: bool,
    json: bool,
) -> Result<(), Failure> {
    let asked = approvals.find(id).map_err(failed)?;
    let engine = engine_of(global, &asked)?;
    let offer = engine.offer(&asked, grant).map_err(failed)?;
    if preview {
        return print(&format!("{}\n", offered(&offer)));
    }
    if grant.scope != Scope::Once && !global.no_input && !confirmed(&offer)? {
        return Err(Failure::from("nothing was approved"));
    }
    let runtime = tokio_runtime()?;
    let approved = runtime.block_on(engine.grant(&asked.question.id, grant)).map_err(failed)?;
    if json {
        return print_json(&approved);
    }
    note(&describe_grant(&approved));
    Ok(())
}

/// Asks the user at the terminal for confirmation. Without a terminal, the command line counts as
/// confirmation.
fn confirmed(offer: &Offer) -> Result<bool, Failure> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(true);
    }
    write!(io::stderr(), "{}\nAllow this? [y/N] ", covered(&offered(offer)))?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// Describes the effect of an approval on its call.
fn then(approved: &StoredQuestion) -> &'static str {
    if approved.caller_waits {
        "the call continues"
    } else {
        "its call has ended, and the same call passes once when it is made again"
    }
}

/// Describes the outcome of an approval.
pub(crate) fn describe_grant(approved: &GrantResult) -> String {
    let id = &approved.approval.question.id;
    match (&approved.applied, &approved.lease) {
        (Some(paths), _) => format!("{id} is approved: {paths} changes were applied to the workspace"),
        (None, Some(lease)) => format!(
            "{id} is approved: {}; until {} {}; `{}` revokes it",
            then(&approved.approval),
            Present::by(&SystemClock).local(lease.expires_at),
            visible(&lease.covers),
            command(&format!("approvals revoke {}", lease.id))
        ),
        (None, None) => format!("{id} is approved: {}", then(&approved.approval)),
    }
}

fn deny(approvals: &Approvals, id: &str, message: Option<String>) -> Result<(), Failure> {
    let asked = approvals.find(id).map_err(failed)?;
    let denied = approvals.deny(&asked.question.id, message, BY).map_err(failed)?;
    let aside = denied.changes.as_ref().map(|changes| {
        format!("; its changes are still held: `handfast changes discard {changes}` removes them")
    });
    note(&format!("{} is denied{}", denied.question.id, aside.unwrap_or_default()));
    Ok(())
}

fn revoke(approvals: &Approvals, lease: &str) -> Result<(), Failure> {
    match approvals.revoke(lease, BY).map_err(failed)? {
        Some(lease) => {
            note(&format!("revoked {}: {}", lease.id, visible(&lease.covers)));
            Ok(())
        }
        None => Err(Failure::usage(format!(
            "no lease {lease} is in force; `handfast approvals leases` lists the leases in force"
        ))),
    }
}
