//! One firing of a job, from its claim to its recorded end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agents::TurnEnd;
use dialects::Dialect;
use engine::{Answer, Approval, Asker, CallRequest, Door, Engine, Internal, Principal};
use jobs::{Action, AttemptOutcome, Claims, Firing, JobRules, ScheduleRow, StoreError};
use parking_lot::Mutex;
use policy::FrozenCeiling;
use serde_json::Value;
use store_api::Store;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tool::{BoxFuture, CallId, CallResult, Clock as _, Data, Outcome, SessionId, Stop, StopReason};

use crate::agent_runtime::{AgentParts, AgentTree};
use crate::clock::SystemClock;
use crate::compose::{Composed, RuntimeOptions, compose};
use crate::reload::Reload;
use crate::report::{note, warn};
use crate::run_options::RunOptions;

/// Maximum number of characters of an outcome in the history.
const LONGEST_OUTCOME: usize = 4_000;
/// Hint of a question that nobody answered in time.
const UNANSWERED: &str = "answer it with `handfast approvals`; the next run of the schedule asks again";

/// Work of a firing.
enum JobWork {
    /// One call.
    Call { engine: Arc<Engine>, tool: String, arguments: Value },
    /// A task for an agent.
    Task(String),
}

impl JobWork {
    fn profile(&self) -> Option<String> {
        match self {
            Self::Call { engine, .. } => Some(engine.profile_now()),
            Self::Task(_) => None,
        }
    }
}

/// Runs the firings of a runtime's jobs.
pub(crate) struct JobRunner {
    pub(crate) claims: Claims,
    store: Arc<dyn Store>,
    dialect: Dialect,
    reload: Reload,
    /// Runtime of agents, which carry out tasks in words.
    agents: AgentParts,
    tree: Arc<AgentTree>,
    /// Engines for jobs whose tools are named in other dialects than this runtime's.
    others: Mutex<BTreeMap<&'static str, Arc<Engine>>>,
}

impl JobRunner {
    /// Creates the runner of a runtime. Its claims belong to this process.
    pub(crate) fn of(composed: &Composed) -> Self {
        let owner = format!("{}, process {}", composed.session.0, std::process::id());
        Self {
            claims: Claims::new(composed.store.clone(), owner, &composed.workspace),
            store: composed.store.clone(),
            dialect: composed.toolset.dialect,
            reload: composed.reload.clone(),
            agents: AgentParts::new(&composed.agents()),
            tree: composed.tree.clone(),
            others: Mutex::default(),
        }
    }

    /// Runs a claimed firing, unless the attempt before it was interrupted, and records its end.
    pub(crate) async fn fire(
        &self,
        engine: &Arc<Engine>,
        row: &ScheduleRow,
        firing: Firing,
        asker: Arc<dyn Asker>,
        stopped: watch::Receiver<bool>,
    ) {
        let ended = self.attempt(engine, row, &firing, asker, stopped).await;
        let Some(ended) = ended else {
            note(&format!(
                "the schedule {} is run by another process, or is gone; its task was stopped",
                row.name
            ));
            return;
        };
        let (claims, claim, id) = (self.claims.clone(), firing.claim, row.id.clone());
        let store = self.store.clone();
        let recorded = tokio::task::spawn_blocking(move || {
            let is_recorded = claims.finish(&claim, &ended, SystemClock.now())?;
            Ok::<_, StoreError>((is_recorded, store.schedules().find(&id)?))
        });
        match recorded.await {
            Ok(Ok((false, _))) => {
                note(&format!(
                    "a run of the schedule {} has ended, and another process has its record",
                    row.name
                ));
            }
            Ok(Ok((true, Some(after)))) if row.disabled.is_none() => {
                if let Some(reason) = after.disabled {
                    warn(&format!("the schedule {} is paused: {reason}", row.name));
                }
            }
            Ok(Err(error)) => warn(&format!("the end of the schedule {} is not recorded: {error}", row.name)),
            // A removed schedule has no history. The runtime ends, or nothing is new.
            Ok(Ok(_)) | Err(_) => {}
        }
    }

    /// Makes the attempt of a claim; returns `None` if the claim became void.
    async fn attempt(
        &self,
        engine: &Arc<Engine>,
        row: &ScheduleRow,
        firing: &Firing,
        asker: Arc<dyn Asker>,
        mut stopped: watch::Receiver<bool>,
    ) -> Option<AttemptOutcome> {
        if firing.interrupted {
            return Some(failed(
                "interrupted: the process that ran it ended before it recorded an end".to_owned(),
            ));
        }
        let rules: JobRules = match serde_json::from_str(&row.rules) {
            Ok(rules) => rules,
            Err(error) => return Some(failed(format!("its rules cannot be read: {error}"))),
        };
        let (work, principal) = match self.prepare(engine, row, firing, asker).await {
            Ok(ready) => ready,
            Err(problem) => return Some(failed(problem)),
        };
        let own = Stop::default();
        let delay = schedule::jitter(&row.id, firing.claim.instant, rules.jitter());
        let work = async {
            tokio::time::sleep(delay).await;
            if own.requested().is_some() {
                return None;
            }
            Some(match work {
                JobWork::Call { engine, tool, arguments } => {
                    let mut request = CallRequest::new(principal, tool, arguments);
                    request.stop = own.clone();
                    ended(&engine.call(request).await)
                }
                JobWork::Task(goal) => self.carry_out(row, &goal, principal, &own).await,
            })
        };
        tokio::pin!(work);
        let mut renewals = tokio::time::interval(Claims::RENEW_EVERY);
        renewals.tick().await;
        let late = tokio::time::sleep(delay.saturating_add(rules.deadline()));
        tokio::pin!(late);
        let (mut is_late, mut is_void, mut is_stopped) = (false, false, false);
        let result = loop {
            tokio::select! {
                result = &mut work => break result,
                _ = renewals.tick() => {
                    let (claims, claim) = (self.claims.clone(), firing.claim.clone());
                    let renewed = tokio::task::spawn_blocking(move || claims.renew(&claim, SystemClock.now()));
                    // The lease lasts longer than some renewals that fail.
                    if matches!(renewed.await, Ok(Ok(false))) {
                        is_void = true;
                        own.request(StopReason::Cancelled);
                    }
                }
                () = stop_of(&mut stopped), if !is_stopped => {
                    is_stopped = true;
                    own.request(StopReason::Cancelled);
                }
                () = &mut late, if !is_late => {
                    is_late = true;
                    own.request(StopReason::Cancelled);
                }
            }
        };
        match result {
            _ if is_void => None,
            _ if is_late => {
                let seconds = rules.deadline().as_secs();
                let mut ended = result.unwrap_or_else(|| failed(String::new()));
                ended.outcome =
                    format!("it did not end within its deadline of {seconds} seconds: {}", ended.outcome);
                Some(AttemptOutcome { succeeded: false, ..ended })
            }
            None => Some(failed("Handfast ended before the task began".to_owned())),
            Some(ended) => Some(ended),
        }
    }

    /// Lets an agent carry out a task in words.
    async fn carry_out(
        &self,
        row: &ScheduleRow,
        goal: &str,
        principal: Principal,
        stop: &Stop,
    ) -> AttemptOutcome {
        let Some(parts) = self.agents.runtime() else { return failed("the server ends".to_owned()) };
        match parts.carry_out(&row.name, &row.id, goal, principal, &self.tree, stop).await {
            Ok(report) => {
                let (succeeded, text) = match report.end {
                    TurnEnd::Answer(text) => (true, text),
                    TurnEnd::Stopped(_) => (false, "the agent was stopped".to_owned()),
                    TurnEnd::Limit(why) | TurnEnd::Failed(why) => (false, why),
                };
                AttemptOutcome { succeeded, outcome: shortened(&text), output: None }
            }
            Err(failure) => failed(failure.error.to_string()),
        }
    }

    /// Returns the work of a firing, and the principal under the ceiling of its schedule.
    async fn prepare(
        &self,
        engine: &Arc<Engine>,
        row: &ScheduleRow,
        firing: &Firing,
        asker: Arc<dyn Asker>,
    ) -> Result<(JobWork, Principal), String> {
        let action: Action = serde_json::from_str(&row.action)
            .map_err(|error| format!("its action cannot be read: {error}"))?;
        let frozen: FrozenCeiling = serde_json::from_str(&row.ceiling)
            .map_err(|error| format!("its limits cannot be read: {error}"))?;
        let (dialect, work) = match action {
            Action::Call { dialect, tool, arguments } => {
                let dialect = Dialect::ALL.into_iter().find(|known| known.as_str() == dialect);
                let dialect =
                    dialect.ok_or("its tool is named in a dialect that this version does not have")?;
                let engine = self.engine_of(dialect, engine).await?;
                (dialect, JobWork::Call { engine, tool, arguments })
            }
            // An agent works with the tools of this runtime, whatever its creator calls them.
            Action::Task { goal, .. } => (self.dialect, JobWork::Task(goal)),
        };
        let mut ceiling = frozen.thawed();
        let own_profile = work.profile().unwrap_or_else(|| engine.profile_now());
        if frozen.profile != own_profile {
            let policy = self.reload.policy_of(self.store.as_ref(), &frozen.profile);
            let policy = policy.map_err(|failure| {
                format!(
                    "the profile {} that it was made under cannot be used: {}",
                    frozen.profile, failure.error
                )
            })?;
            ceiling = ceiling.with_policy(Arc::new(policy));
        }
        let session = SessionId(format!("{}-{}", row.id, firing.claim.instant.as_second()));
        let door = Door::Internal(Internal::Schedule);
        let mut principal = Principal::new(door, session, dialect.as_str(), asker).within(&ceiling);
        principal.parent = Some(CallId(row.created_by.clone()));
        Ok((work, principal))
    }

    /// Returns the engine whose tools have the names of a dialect.
    async fn engine_of(&self, dialect: Dialect, own: &Arc<Engine>) -> Result<Arc<Engine>, String> {
        if dialect == self.dialect {
            return Ok(own.clone());
        }
        if let Some(engine) = self.others.lock().get(dialect.as_str()) {
            return Ok(engine.clone());
        }
        let options = RunOptions { dialect: Some(dialect), ..self.reload.options.clone() };
        let composed = tokio::task::spawn_blocking(move || compose(RuntimeOptions::serving(options, None)));
        let composed = composed.await.map_err(|_| "the server ends".to_owned())?;
        let engine = composed.map_err(|failure| failure.error.to_string())?.engine;
        Ok(self.others.lock().entry(dialect.as_str()).or_insert(engine).clone())
    }

    /// Ends the engines of other dialects.
    pub(crate) async fn end(&self) {
        let others = std::mem::take(&mut *self.others.lock());
        for engine in others.into_values() {
            engine.shutdown().await;
        }
    }

    /// Claims a firing for now; `None` if the schedule is gone.
    pub(crate) fn claim_now(&self, row: &ScheduleRow) -> Result<Option<Firing>, StoreError> {
        self.store.schedules().claim_now(&row.id, self.claims.claimer(), SystemClock.now())
    }
}

/// Waits until everything must end; a scheduler that is gone has ended too.
async fn stop_of(stopped: &mut watch::Receiver<bool>) {
    drop(stopped.wait_for(|stopped| *stopped).await);
}

fn failed(outcome: String) -> AttemptOutcome {
    AttemptOutcome { succeeded: false, outcome, output: None }
}

/// Returns the end of an attempt from the result of its call. A command succeeds if it exits with 0.
fn ended(result: &CallResult) -> AttemptOutcome {
    let output = Some(result.meta.call_id.0.clone());
    let (succeeded, text) = match &result.outcome {
        Outcome::Err(error) => (false, error.to_string()),
        Outcome::Ok(Data::Written(written)) => (true, written.as_str().to_owned()),
        Outcome::Ok(Data::Value(data)) => {
            let exit = data.get("exit_code").or_else(|| data.get("exit")).and_then(serde_json::Value::as_i64);
            (exit.is_none_or(|code| code == 0), data.to_string())
        }
    };
    AttemptOutcome { succeeded, outcome: shortened(&text), output }
}

fn shortened(text: &str) -> String {
    let mut outcome: String = text.chars().take(LONGEST_OUTCOME).collect();
    if outcome.len() < text.len() {
        outcome.push_str(" ...");
    }
    outcome
}

/// Asker of a job: its question waits for whoever answers it elsewhere, until the call is stopped.
pub(crate) struct JobAsker(Mutex<Option<OwnedSemaphorePermit>>);

impl JobAsker {
    /// Creates the asker. The permit is given back when the job asks.
    pub(crate) fn new(permit: Option<OwnedSemaphorePermit>) -> Self {
        Self(Mutex::new(permit))
    }
}

impl Asker for JobAsker {
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        drop(self.0.lock().take());
        note(&format!("a scheduled task waits for an answer: {}; `handfast approvals`", approval.id));
        Box::pin(async {
            // The question itself is open for a day.
            tokio::time::sleep(Duration::from_hours(24)).await;
            Answer::Nobody { hint: UNANSWERED.to_owned() }
        })
    }
}
