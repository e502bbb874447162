//! Questions about the connections that a command makes to hosts on no list, and about its actions
//! at hosts where it uses a login.

use std::sync::Arc;

use policy::Part;
use store_api::{ApprovalState, LeaseKind, Store};
use tool::{CallId, Clock, Level, Place, SessionId, Stop, ToolError};

use super::flow::{ApprovalFlow, ApprovalOutcome, AskingCall, Periods, ReadyQuestion};
use super::host_connection::{HostConnection, of_pattern};
use super::leases;
use super::question::{Approval, Asker, Offer, Scope};
use super::signals::AnswerSignals;
use super::stored::stored;
use crate::digest::digest;
use crate::{Door, Program, Redactor, reach};

/// Maximum number of connections that one question lists. With more, the question is about every host.
pub(crate) const MAX_LISTED: usize = 20;

/// Source of answers about the connections of one call. A background command outlives its call, so
/// this borrows nothing of the call.
pub(crate) struct ConnectionAsker {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) redactor: Redactor,
    pub(crate) signals: AnswerSignals,
    pub(crate) place: Place,
    pub(crate) program: Program,
    pub(crate) id: CallId,
    pub(crate) session: SessionId,
    pub(crate) door: Door,
    pub(crate) dialect: &'static str,
    pub(crate) asker: Arc<dyn Asker>,
    pub(crate) stop: Stop,
    pub(crate) tool: String,
    pub(crate) command: Option<Part>,
    /// Digest of the request: this call, about its connections.
    pub(crate) request: String,
}

/// An answer that was given to an earlier, equal call.
pub(crate) struct EarlierConnectionAnswer {
    pub(crate) approved: bool,
    pub(crate) by: String,
    pub(crate) connections: Vec<HostConnection>,
    pub(crate) every_host: bool,
}

impl ConnectionAsker {
    /// Returns the id of the question about connections that were refused because nobody could be
    /// asked. Each call has at most one such question.
    pub(crate) fn id_of_refused(&self) -> String {
        format!("a{}n", self.id)
    }

    /// Returns the message for a program whose connection was refused, because nobody has answered.
    pub(crate) fn needs_approval(&self, connection: &HostConnection, id: &str) -> String {
        let approve = self.program.command("approvals approve");
        if let Some(action) = &connection.action {
            return format!(
                "this needs an approval, which nobody has given: {action}; after the user runs `{approve} {id}`, \
                 run the same command again"
            );
        }
        format!(
            "{} is not listed in `allowed_hosts`, and nobody has allowed it; after the user runs \
             `{approve} {id}`, run the same command again",
            connection.place()
        )
    }

    /// Returns true if somebody can be asked now.
    pub(crate) async fn can_ask(&self) -> bool {
        if self.asker.can_ask() {
            return true;
        }
        let workspace = self.place.workspace.clone();
        stored(&self.store, move |store| Ok(store.has_attention(&workspace))).await.unwrap_or(false)
    }

    /// Takes the answers that were given to equal calls before.
    pub(crate) async fn earlier(&self) -> Result<Vec<EarlierConnectionAnswer>, ToolError> {
        let (workspace, request, now) =
            (self.place.workspace.clone(), self.request.clone(), self.clock.now());
        let rows =
            stored(&self.store, move |store| store.approvals().take_answers(&workspace, &request, now));
        let mut answers = Vec::new();
        for row in rows.await? {
            let Ok(asked) = serde_json::from_str::<Approval>(&row.question) else { continue };
            let approved = row.state == ApprovalState::Approved;
            if approved {
                self.flow().note("approval_use", &row.id, None).await?;
            }
            answers.push(EarlierConnectionAnswer {
                approved,
                by: row.answered_by.unwrap_or_default(),
                connections: asked.connections,
                every_host: asked.every_host,
            });
        }
        Ok(answers)
    }

    /// Uses a lease that covers the connection. Returns true if there is one.
    pub(crate) async fn is_leased(&self, connection: &HostConnection) -> Result<bool, ToolError> {
        if connection.action.is_some() {
            return Ok(false);
        }
        let now = self.clock.now();
        let leases = leases::in_force(&self.store, &self.session, &self.place.workspace, now).await?;
        let covers = |lease: &&store_api::Lease| {
            lease.kind == LeaseKind::Connection && of_pattern(&lease.pattern).contains(connection)
        };
        let Some(lease) = leases.iter().find(covers) else { return Ok(false) };
        let id = lease.id.clone();
        // The lease may have been revoked in the meantime.
        stored(&self.store, move |store| store.leases().note_use(&id, now)).await
    }

    /// Asks about these connections and waits for the answer. `number` counts the questions of the
    /// call.
    pub(crate) async fn ask(
        &self,
        connections: &[HostConnection],
        every_host: bool,
        number: usize,
    ) -> Result<ApprovalOutcome, ToolError> {
        let ready = self.question(format!("a{}n{number}", self.id), connections, every_host);
        self.flow().ask(ready).await
    }

    /// Stores a question that nobody waits for: after a yes, an equal call passes once.
    pub(crate) async fn leave(
        &self,
        id: String,
        connections: &[HostConnection],
        every_host: bool,
    ) -> Result<String, ToolError> {
        let (workspace, request) = (self.place.workspace.clone(), self.request.clone());
        // The newest question of equal calls replaces the earlier ones.
        stored(&self.store, move |store| store.approvals().withdraw(&workspace, &request)).await?;
        self.flow().leave(self.question(id, connections, every_host)).await
    }

    fn flow(&self) -> ApprovalFlow<'_> {
        ApprovalFlow {
            store: &self.store,
            clock: self.clock.as_ref(),
            redactor: &self.redactor,
            signals: &self.signals,
            workspace: &self.place.workspace,
            periods: Periods::default(),
            caller: AskingCall {
                id: &self.id,
                session: &self.session,
                door: self.door,
                dialect: self.dialect,
                asker: self.asker.as_ref(),
                stop: &self.stop,
            },
        }
    }

    fn covered(&self, text: String) -> String {
        self.redactor.refresh();
        self.redactor.text(&text).unwrap_or(text)
    }

    fn question(&self, id: String, all: &[HostConnection], every_host: bool) -> ReadyQuestion {
        let (actions, unlisted): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.action.is_some());
        let shown = |connection: &&HostConnection| self.covered(connection.to_string());
        // An action is never hidden behind a number.
        let mut effects: Vec<String> = actions.iter().map(shown).collect();
        if every_host {
            effects.push("connect to every host that no list denies, until the command ends".to_owned());
        }
        effects.extend(unlisted.iter().take(MAX_LISTED).map(shown));
        if unlisted.len() > MAX_LISTED {
            effects.push(format!("connect to {} more hosts", unlisted.len() - MAX_LISTED));
        }
        let command = self.command.as_ref().map(|part| self.covered(reach::line(part, &self.place)));
        let mut reasons = Vec::new();
        match actions.as_slice() {
            [] => {}
            [one] => reasons.push(format!("changes something at {}", one.place())),
            actions => reasons.push(format!("changes {} things at other hosts", actions.len())),
        }
        match unlisted.as_slice() {
            [] => {}
            [one] => {
                reasons.push(format!("connects to {}, which `allowed_hosts` does not list", one.place()));
            }
            hosts => {
                reasons.push(format!("connects to {} hosts that `allowed_hosts` does not list", hosts.len()));
            }
        }
        let reason = format!("the running command {}", self.covered(reasons.join(", and ")));
        let rule = if actions.is_empty() { "unlisted_hosts: ask" } else { "requests that write ask" };
        // An answer about every host or an action is for this call alone.
        let connections: Vec<HostConnection> =
            all.iter().filter(|one| !every_host || one.action.is_some()).cloned().collect();
        let is_for_once = every_host || !actions.is_empty();
        let offers = if is_for_once { Vec::new() } else { self.offers(&effects.join("; ")) };
        let plan = digest(&(&self.request, &connections, every_host));
        let approval = Approval {
            id,
            call: self.id.clone(),
            tool: self.tool.clone(),
            level: Level::Moderate,
            effects,
            preview: command,
            preview_more_lines: 0,
            reason,
            rule: rule.to_owned(),
            once_only: offers.is_empty(),
            patterns_in_the_cell: false,
            terminal_only: false,
            offers,
            pattern_kind: None,
            suggestion: None,
            effects_digest: String::new(),
            digest: plan,
            bound: Vec::new(),
            connections,
            every_host,
            program: self.program.clone(),
        };
        let shape = "connections of a command".to_owned();
        ReadyQuestion { approval, request: self.request.clone(), shape }
    }

    /// Returns the offers that reach beyond this call. A run of the command line has no session that
    /// outlives the call.
    fn offers(&self, effects: &str) -> Vec<Offer> {
        let offer = |scope: Scope, where_to: &str| Offer {
            scope,
            pattern: None,
            covers: format!("the same connections of the same programs, {where_to}: {effects}"),
            seconds: scope.lasts().as_secs(),
            past: None,
        };
        let session = (self.door != Door::CommandLine).then(|| offer(Scope::Session, "in this session"));
        session.into_iter().chain([offer(Scope::Project, "in this workspace")]).collect()
    }
}
