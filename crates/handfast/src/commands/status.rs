//! `handfast status`: shows which rules apply in the workspace, who is served, and what waits.

use std::process::ExitCode;
use std::sync::Arc;

use engine::Approvals;
use llm::{Limit, Usd};
use policy::{Origin, Policy, Trust};
use serde::Serialize;
use spending::AccountState;
use tool::Clock as _;
use vault::{Vault, VaultError};

use super::attach::attached;
use super::{Failure, print, print_json};
use crate::cli::Global;
use crate::clock::SystemClock;
use crate::compose::{Composed, RuntimeOptions, compose};
use crate::configuration::{Configuration, key_file};
use crate::host_environment::{HostEnvironment, vault_keys};
use crate::listening::{Server, servers};
use crate::moment::Present;
use crate::places::VAULT_FOLDER;
use crate::report::command;

/// Maximum number of entries of a kind that are listed.
const LISTED: usize = 5;

/// State of a workspace.
#[derive(Debug, Serialize)]
struct Status {
    workspace: String,
    state: String,
    profile: String,
    mode: String,
    files: Vec<RuleFile>,
    servers: Vec<Server>,
    clients: Vec<AttachedClient>,
    questions: Vec<Waiting>,
    changes_set_aside: Vec<Waiting>,
    /// Temporary permissions in force.
    leases: usize,
    schedules: ScheduleCounts,
    /// Budgets of today and of this project, if either has a limit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    model_budgets: Vec<ModelBudget>,
    vault: VaultStatus,
}

/// Account of what models have cost, with its limits.
#[derive(Debug, Serialize)]
struct ModelBudget {
    /// Owner of the account, such as `day 2026-11-28`.
    of: String,
    spent_usd: f64,
    spent_tokens: u64,
    /// Most that requests on their way can cost.
    reserved_usd: f64,
    reserved_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_tokens: Option<u64>,
    #[serde(skip)]
    text: String,
}

/// A configuration file that applies.
#[derive(Debug, Serialize)]
struct RuleFile {
    path: String,
    trusted: bool,
}

/// Numbers of the workspace's schedules.
#[derive(Debug, Serialize)]
struct ScheduleCounts {
    active: u32,
    paused: u32,
}

/// An agent client whose configuration names Handfast.
#[derive(Debug, Serialize)]
struct AttachedClient {
    client: String,
    scope: String,
}

/// Something that waits for the user.
#[derive(Debug, Serialize)]
struct Waiting {
    id: String,
    workspace: String,
    text: String,
    since: jiff::Timestamp,
}

/// State of the vault.
#[derive(Debug, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum VaultStatus {
    Missing,
    Locked,
    Unreadable { reason: String },
    Open { secrets: usize, logins: usize },
}

pub(super) fn run(global: &Global, as_json: bool) -> Result<ExitCode, Failure> {
    let composed = compose(RuntimeOptions::once(global))?;
    let status = status(global, &composed)?;
    if as_json {
        print_json(&status)?;
    } else {
        print(&status.text(&Present::by(&SystemClock)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn status(global: &Global, composed: &Composed) -> Result<Status, Failure> {
    let configuration = Configuration::of(&global.run_options())?;
    let setup = configuration.setup();
    let policy = Policy::compile(&setup).map_err(Failure::usage)?;
    let files = setup.sources.iter().map(|source| RuleFile {
        path: source.origin.to_string(),
        // A package can only tighten, which is what the user has allowed.
        trusted: source.trust != Trust::Untrusted || matches!(source.origin, Origin::Package(_)),
    });
    let approvals = Approvals::new(composed.store.clone(), Arc::new(SystemClock));
    let questions = approvals.list(true)?.into_iter().map(|asked| Waiting {
        id: asked.question.id.clone(),
        workspace: tool::path_text(&asked.workspace),
        text: asked.question.effects.join("; "),
        since: asked.asked_at,
    });
    let changes = composed.engine.kept_changes()?.into_iter().map(|kept| Waiting {
        id: kept.id,
        workspace: tool::path_text(&kept.workspace),
        text: kept.reason,
        since: kept.since,
    });
    let (active, paused) = composed.jobs.book.counts().map_err(|error| Failure::from(error.to_string()))?;
    Ok(Status {
        workspace: tool::path_text(&composed.workspace),
        state: tool::path_text(&composed.state),
        profile: policy.profile().to_owned(),
        mode: policy.mode().to_string(),
        files: files.collect(),
        servers: servers(&composed.state),
        clients: attached(&composed.state)?
            .into_iter()
            .map(|(client, scope)| AttachedClient { client, scope })
            .collect(),
        questions: questions.collect(),
        changes_set_aside: changes.collect(),
        leases: approvals.leases(true)?.len(),
        schedules: ScheduleCounts { active, paused },
        model_budgets: model_budgets(composed)?,
        vault: vault(composed)?,
    })
}

/// Returns the budgets of today and of this project, or none if neither has a limit.
fn model_budgets(composed: &Composed) -> Result<Vec<ModelBudget>, Failure> {
    let limits = composed.models.shared_limits();
    if limits.is_none() {
        return Ok(Vec::new());
    }
    let accounts = composed.spending.accounts(SystemClock.now())?;
    let of = |(account, limit): (AccountState, Limit)| ModelBudget {
        of: account.scope.to_string(),
        spent_usd: account.spent.money.dollars(),
        spent_tokens: account.spent.tokens,
        reserved_usd: account.reserved.money.dollars(),
        reserved_tokens: account.reserved.tokens,
        limit_usd: limit.money.map(Usd::dollars),
        limit_tokens: limit.tokens,
        text: budget_text(&account, limit),
    };
    Ok(accounts.into_iter().zip([limits.day, limits.project]).map(of).collect())
}

fn budget_text(account: &AccountState, limit: Limit) -> String {
    let of = |limit: Option<String>| limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
    let AccountState { scope, spent, reserved } = account;
    let money = of(limit.money.map(|money| money.to_string()));
    let tokens = of(limit.tokens.map(|tokens| tokens.to_string()));
    let on_the_way = match reserved.tokens {
        0 => String::new(),
        tokens => format!("; up to {} and {tokens} tokens are on their way", reserved.money),
    };
    format!("{scope}: {}{money}, {}{tokens} tokens{on_the_way}", spent.money, spent.tokens)
}

/// Returns the state of the vault, without asking for a passphrase.
fn vault(composed: &Composed) -> Result<VaultStatus, Failure> {
    let keys = vault_keys(key_file(&HostEnvironment::of_this_process())?);
    let vault = Vault::new(composed.state.join(VAULT_FOLDER), keys);
    if !vault.exists() {
        return Ok(VaultStatus::Missing);
    }
    Ok(match vault.contents() {
        Ok(contents) => VaultStatus::Open {
            secrets: contents.iter().count(),
            logins: contents.iter().filter(|(entry, _)| entry.login.is_some()).count(),
        },
        Err(VaultError::Locked) => VaultStatus::Locked,
        Err(error) => VaultStatus::Unreadable { reason: error.to_string() },
    })
}

impl Status {
    fn text(&self, present: &Present) -> String {
        let mut lines = vec![
            ("workspace", self.workspace.clone()),
            ("rules", format!("profile {}, mode {}", self.profile, self.mode)),
        ];
        for file in &self.files {
            let trust =
                if file.trusted { "" } else { " (not trusted: it can only tighten; `handfast trust`)" };
            lines.push(("", format!("{}{trust}", file.path)));
        }
        lines.extend(listed("serving", self.servers.iter().map(Server::text), || {
            format!("nobody; `{}` serves over HTTP", command("up"))
        }));
        let clients = self.clients.iter().map(|client| format!("{} ({} scope)", client.client, client.scope));
        lines.extend(listed("attached", clients, || {
            "no client; `handfast attach claude` attaches one".to_owned()
        }));
        let waiting = |waiting: &Waiting| {
            let text: String = waiting.text.chars().take(100).collect();
            let id = tool::short_ids(&[waiting.id.as_str()]).concat();
            format!("{id}  {}, {}", text, present.age(waiting.since))
        };
        lines.extend(listed("questions", self.questions.iter().map(waiting), || "none waits".to_owned()));
        if !self.questions.is_empty() {
            lines.push(("", format!("`{}` answers them", command("approvals"))));
        }
        lines.extend(listed("set aside", self.changes_set_aside.iter().map(waiting), || {
            "no changes of commands".to_owned()
        }));
        if !self.changes_set_aside.is_empty() {
            lines.push(("", format!("`{}` shows them", command("changes"))));
        }
        if self.leases > 0 {
            lines.push((
                "leases",
                format!("{} in force; `{}` lists them", self.leases, command("approvals leases")),
            ));
        }
        let ScheduleCounts { active, paused } = self.schedules;
        if active + paused > 0 {
            let list = command("schedule list");
            lines.push(("schedules", format!("{active} active, {paused} paused; `{list}` lists them")));
        }
        for (number, budget) in self.model_budgets.iter().enumerate() {
            lines.push((if number == 0 { "models" } else { "" }, budget.text.clone()));
        }
        lines.push(("vault", self.vault.text()));
        let rows = lines.iter().map(|(name, text)| format!("{name:<10} {}\n", tool::visible(text)));
        rows.collect()
    }
}

impl Server {
    fn text(&self) -> String {
        let at = self.address.map_or("standard input and output".to_owned(), |at| format!("http://{at}"));
        let by = self.started_by.as_ref().map(|name| format!(", started by {name}")).unwrap_or_default();
        format!("{} at {at}, process {}{by}", tool::path_text(&self.workspace), self.process)
    }
}

impl VaultStatus {
    fn text(&self) -> String {
        match self {
            Self::Missing => "none; `handfast vault set NAME` makes one".to_owned(),
            Self::Locked => "locked; `handfast vault unlock` opens it".to_owned(),
            Self::Unreadable { reason } => format!("not readable: {reason}"),
            Self::Open { secrets, logins } => format!("open: {secrets} secrets, {logins} of them logins"),
        }
    }
}

/// Returns the lines of a list under its name, or the line of an empty list.
fn listed(
    name: &'static str,
    texts: impl ExactSizeIterator<Item = String>,
    none: impl Fn() -> String,
) -> Vec<(&'static str, String)> {
    let count = texts.len();
    let mut lines: Vec<_> = texts.take(LISTED).map(|text| ("", text)).collect();
    match lines.first_mut() {
        Some(first) => first.0 = name,
        None => lines.push((name, none())),
    }
    if count > LISTED {
        lines.push(("", format!("and {} more", count - LISTED)));
    }
    lines
}
