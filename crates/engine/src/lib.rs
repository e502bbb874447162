//! The runtime of calls: the registry, approvals, lanes, and the cell that the policy chooses.
//!
//! [`Engine::call`] is the single entry point for every door; `life.rs` contains its layers in
//! order. The engine knows no tool by name and no wire format, and reads no configuration or
//! environment.

mod actions;
mod admit;
mod agent_feed;
mod agent_memory;
mod approvals;
mod audit_reading;
mod bounded_output;

mod budget;
mod cache;
mod call;
mod ceiling;
mod cell;
mod cell_cache;
mod cell_spec;
mod change_area;
mod checkpoint_rows;
mod commit_changes;
mod connection_owner;
mod connections;
mod context;
mod db_change;
mod db_checkpoint;
mod denied;
mod difference;
mod digest;
mod direct_checkpoint;
mod dry_run;
mod egress_gate;
mod figures;
mod fingerprint;
mod hidden;
mod history;
mod hosts;
mod impact;
mod inner_calls;
mod isolation;
mod job_output;
mod lasting_cell;
mod later_calls;
mod life;
mod log;
mod memory_threads;
mod networks;
mod new_call_id;
mod no_network;
mod origin;
mod parts;
mod placeholders;
mod policy_check;
mod program;
mod protected;
mod reach;
mod record;
mod redact;
mod registry;
mod renames;
mod request;
mod resources;
mod retained_output;
mod rules_in_force;
mod running;
mod saved_contents;
mod script_cell;
mod secrets;
mod settle_checkpoints;
mod small_file;
mod snapshot;
mod stopping;
mod successor;
mod summary;
mod timer;
mod toolchains;
mod trace;
mod trace_of_call;
mod undo;
mod user_action;
mod view_of_call;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use database::Databases;
use memory::Memories;
use parking_lot::Mutex;
use policy::Policy;
use sandbox::Sessions;
use store_api::Store;
use tool::{
    AnyTool, CallResult, Clock, Code, ForeignContent, Outputs, Place, Redaction, ResourcePool, Services,
    Threads, Timer, ToolError,
};
use vault::Vault;

pub use actions::actions;
pub use agent_feed::{AgentEvent, AgentFeed, AgentListener, AgentOwner, AgentView};
pub use approvals::{
    Answer, Approval, ApprovalError, Approvals, Asker, BoundItem, Grant, GrantResult, HostConnection,
    NoAsker, Offer, PatternKind, QuestionListener, RuleSuggestion, Scope, StoredQuestion,
};
pub use audit_reading::{AuditReading, unreadable};
pub use budget::{Allowance, Budget};
pub use cell::{CellSetup, built_in_limits};
pub use figures::{Figures, RANGES_MS};
pub use history::{HistoryError, RecordedCall, full_id, recorded_calls, recorded_row};
pub use log::{LogEntry, LogEntryKind, LogQuery, log};
pub use origin::{Origin, Parent};
pub use parts::Parts;
pub use policy::{Ceiling, EffectKind, EffectKinds};
pub use policy_check::PolicyCheck;
pub use program::Program;
pub use redact::{Pieces, RedactingReader, Redactor, SentSecrets};
pub use registry::{DuplicateTool, Registry};
pub use request::{CallRequest, Door, Internal, Principal};
pub use secrets::Secrets;
pub use snapshot::{KeptDetails, KeptError};
pub use store_api::Filter;
pub use store_api::Watch;
pub use summary::{SummarizedCall, Summarizer};
pub use timer::TokioTimer;
pub use toolchains::{SearchFolder, Toolchain, Way, is_key_name};
pub use trace::{CallTrace, StageTrace, TraceFigures, Tracer};
pub use undo::{ChangeOverview, ChangedPath, CheckpointDetails, UndoOutcome, UndoSince, UndoTrial};
pub use user_action::by_hand;

use call::Call;
use new_call_id::new_call_id;
use resources::{BackgroundCommands, Resources};
use running::RunningCalls;
use stopping::StopOnDrop;

/// Maximum number of characters of a caller's text that an answer repeats.
const REPEATED: usize = 100;

/// Reason why an engine could not be built.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The workspace cannot be opened.
    #[error(transparent)]
    Roots(#[from] roots::RootsError),
    /// The folder for the changes of commands cannot be used.
    #[error("the folder for the changes of commands cannot be used")]
    Changes(#[source] checkpoint::Error),
}

/// The runtime of tools. Share it behind an `Arc`.
pub struct Engine {
    place: Place,
    policy: Arc<Policy>,
    store: Arc<dyn Store>,
    registry: Arc<Registry>,
    clock: Arc<dyn Clock>,
    timer: Arc<dyn Timer>,
    cell: CellSetup,
    denied: Arc<denied::DeniedFiles>,
    hidden: Arc<hidden::HiddenFiles>,
    toolchains: toolchains::Toolchains,
    programs: denied::DeniedPrograms,
    isolations: Arc<isolation::Isolations>,
    redactor: Redactor,
    vault: Option<Arc<Vault>>,
    sessions: Option<Arc<BackgroundCommands>>,
    services: Services,
    databases: Option<Arc<Databases>>,
    memories: Memories,
    reach: reach::AccessScope,
    leases: approvals::Leases,
    answers: approvals::AnswerSignals,
    lanes: Arc<admit::Lanes>,
    cache: cache::Cache,
    snapshots: Option<Arc<snapshot::Snapshots>>,
    homes: Option<Arc<cell_cache::Homes>>,
    notices: Vec<String>,
    /// Removals that continue after the answers.
    removals: Arc<commit_changes::BackgroundWork>,
    /// Time of the last check for data that was kept for too long.
    pruned: Arc<Mutex<jiff::Timestamp>>,
    running: Arc<RunningCalls>,
    counted: Arc<figures::Counted>,
    tracer: Option<Arc<dyn Tracer>>,
    program: Program,
    summarizer: Option<Arc<dyn Summarizer>>,
    pictures: Option<Arc<approvals::QuestionPictures>>,
    user: Option<Arc<str>>,
    networks: Arc<networks::Networks>,
    threads: Threads,
    resources: Arc<Resources>,
    agents: Option<Arc<dyn AgentFeed>>,
    closed: Arc<AtomicBool>,
    /// True if this engine came about by a change of the policy, and shares what it works with.
    is_successor: bool,
    /// Engine for later calls, after a change of the policy.
    successor: Mutex<Option<Arc<Engine>>>,
}

impl Engine {
    /// Builds an engine from its parts.
    ///
    /// # Errors
    /// Fails if the workspace or the folder for the changes of commands cannot be opened.
    pub fn new(parts: Parts) -> Result<Self, EngineError> {
        let Parts {
            place,
            policy,
            store,
            registry,
            catalogue,
            clock,
            timer,
            cell,
            redactor,
            vault,
            databases,
            embeddings,
            sessions,
            tracer,
            summarizer,
            question_pictures,
            user,
            mut services,
            resources: mut pools,
            agents,
            program,
        } = parts;
        let threads = Threads::new(clock.clone());
        services.insert(Arc::new(threads.clone()));
        services.insert(Arc::new(catalogue));
        services
            .insert::<Arc<dyn Outputs>>(Arc::new(Arc::new(retained_output::StoredOutputs(store.clone()))));
        let redactor = match &vault {
            Some(vault) => {
                services.insert(vault.clone());
                redactor.with_vault(vault.clone())
            }
            None => redactor,
        };
        let of_rows = redactor.clone();
        store.cover_rows(Box::new(move |text| {
            of_rows.message(text.as_bytes()).map(|covered| String::from_utf8_lossy(&covered).into_owned())
        }));
        services.insert::<Arc<dyn Redaction>>(Arc::new(Arc::new(redactor.clone())));
        let keep = if cell.watches { watch::WatchMode::Fresh } else { watch::WatchMode::Once };
        let kept_in = (&store, databases.as_deref());
        let (snapshots, mut notices) =
            snapshot::open(cell.changes.as_deref(), &place.workspace, kept_in, clock.now())
                .map_err(EngineError::Changes)?;
        let recorder = job_output::Recorder {
            store: store.clone(),
            redactor: redactor.clone(),
            clock: clock.clone(),
            folder: cell.records.clone(),
        };
        notices.extend(recorder.take_over());
        let area = snapshots.as_ref().map(|snapshots| snapshots.change_area().clone());
        let denied = Arc::new(denied::DeniedFiles::new(policy.clone(), keep, area, threads.clone()));
        notices.extend(denied.take_away_left());
        let toolchains = toolchains::Toolchains::new(
            cell.toolchains.clone(),
            policy.clone(),
            clock.clone(),
            cell.toolchains_seen.clone(),
        );
        let programs = denied::DeniedPrograms::new(policy.clone(), &cell.search_path, cell.paths.clone());
        let homes = cell.homes.as_deref().and_then(|folder| {
            let opened =
                cell_cache::Homes::open(folder, &place.workspace, cell_cache::limit(&policy), clock.now());
            opened.unwrap_or_else(|notice| {
                notices.push(notice);
                None
            })
        });
        let memories = Memories::new(store.clone(), embeddings);
        let sessions = sessions.map(|built_in| {
            let limits = cell::session_limits(&policy, built_in);
            BackgroundCommands::new(Sessions::new(limits, Arc::new(recorder)))
        });
        let deps = networks::NetworkDeps {
            clock: clock.clone(),
            timer: timer.clone(),
            threads: threads.clone(),
            snapshots: snapshots.clone(),
        };
        let networks = networks::Networks::new(cell.spawner.clone(), deps);
        // Commands end before the networks that they use.
        pools.extend(sessions.clone().map(|commands| commands as Arc<dyn ResourcePool>));
        pools.push(networks.clone());
        pools.push(Arc::new(memory_threads::MemoryThreads::new(memories.clone(), clock.as_ref())));
        let notices = notices.iter().map(|notice| program.put_into(notice).into_owned()).collect();
        Ok(Self {
            sessions,
            snapshots,
            homes: homes.map(Arc::new),
            notices,
            removals: Arc::default(),
            pruned: Arc::new(Mutex::new(clock.now())),
            lanes: Arc::new(admit::Lanes::new(admit::LaneLimits::of(&policy))),
            reach: reach::AccessScope::open(policy.clone(), denied.clone(), &place)?,
            denied,
            hidden: Arc::default(),
            toolchains,
            programs,
            isolations: Arc::new(isolation::Isolations::new(cell.entrance.clone())),
            place,
            policy,
            store,
            registry,
            clock,
            timer,
            cell,
            redactor,
            vault,
            services,
            databases,
            memories,
            leases: approvals::Leases::default(),
            answers: approvals::AnswerSignals::default(),
            cache: cache::Cache::default(),
            running: Arc::default(),
            counted: Arc::default(),
            tracer,
            program,
            summarizer,
            pictures: question_pictures.map(approvals::QuestionPictures).map(Arc::new),
            user: user.map(Arc::from),
            networks,
            resources: Arc::new(Resources::new(pools, threads.clone())),
            agents,
            threads,
            closed: Arc::default(),
            is_successor: false,
            successor: Mutex::default(),
        })
    }

    /// Returns messages about work that an earlier process left unfinished, and what became of it.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Returns the message with every secret covered, whatever its source, or `None` if it contains
    /// no secret. Every door passes everything that it sends through this method.
    pub fn cover_message(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.redactor.refresh();
        self.redactor.message(message)
    }

    /// Returns a caller's text as an answer may repeat it: covered, escaped and cut. Secrets are
    /// covered before the cut, because nothing recognises a part of a secret.
    pub fn shown(&self, text: &str) -> String {
        self.redactor.refresh();
        let covered = self.redactor.text(text);
        tool::visible(covered.as_deref().unwrap_or(text)).chars().take(REPEATED).collect()
    }

    /// Returns the commands by which the user reaches the state of this runtime.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns the tools, in order.
    pub fn tools(&self) -> Arc<[Arc<dyn AnyTool>]> {
        self.registry.tools()
    }

    /// Returns the registry, whose groups of tools come and go.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Returns the resources and prompts of other servers, if the configuration has servers.
    pub fn foreign_content(&self) -> Option<Arc<dyn ForeignContent>> {
        self.services.get::<Arc<dyn ForeignContent>>().ok().map(|content| content.as_ref().clone())
    }

    /// Returns the folder that the tools work in, without links.
    pub fn workspace(&self) -> &std::path::Path {
        &self.place.workspace
    }

    /// Returns the number of calls since the start, with their outcomes and durations.
    pub fn figures(&self) -> Figures {
        let running = self.calls_running();
        let traces = self.tracer.as_ref().map(|tracer| tracer.figures());
        Figures { running, traces, ..self.counted.so_far() }
    }

    pub(crate) fn calls_running(&self) -> usize {
        self.running.count()
    }

    /// Returns true if calls are traced, so that their origins are needed.
    pub fn is_traced(&self) -> bool {
        self.tracer.is_some()
    }

    /// Makes one call. Requires a tokio runtime.
    ///
    /// The call continues on a task of its own until it is done, so that its end is always
    /// recorded. A caller that drops this future cancels the call.
    pub async fn call(self: &Arc<Self>, request: CallRequest) -> CallResult {
        self.begin(request, None).await
    }

    /// Answers a message without a valid call (too large or malformed), recorded like a call.
    pub async fn refuse(self: &Arc<Self>, request: CallRequest, error: ToolError) -> CallResult {
        self.begin(request, Some(error)).await
    }

    async fn begin(self: &Arc<Self>, request: CallRequest, refused: Option<ToolError>) -> CallResult {
        let engine = self.successor().unwrap_or_else(|| self.clone());
        let stop = request.stop.clone();
        let id = new_call_id(self.clock.as_ref());
        let principal = request.principal.clone();
        let mut call = Call::arrived(request, self.clock.now(), id, self.is_traced());
        call.user.clone_from(&self.user);
        let broken_off = call.broken_off();
        let running = self.running.enter(call.id.clone(), stop.clone(), principal, &self.resources);
        let on_drop = StopOnDrop(Some(stop));
        let (sender, receiver) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let refused = refused.or_else(|| engine.closed.load(Ordering::SeqCst).then(shut_down));
            let tool =
                engine.tools().iter().find(|tool| tool.name() == call.tool).map(|tool| tool.spec().name);
            let result = engine.clone().life(call, refused).await;
            engine.counted.count(tool, &result);
            drop(running);
            // If the caller is gone, the answer has no recipient.
            let _ = sender.send(result);
        });
        let result = receiver.await;
        on_drop.disarm();
        result.unwrap_or(broken_off)
    }

    /// Starts the search for denied files and prepares a waiting cell, so that the first command
    /// need not wait for either. Blocks during the search. The first command reports its errors.
    pub fn make_ready(&self) {
        let specified = self.specification(&self.policy, &self.denied, denied::Writes::Apart);
        let Ok((cell, host)) = specified.map(|specified| (specified.cell, specified.host)) else { return };
        if let Some(snapshots) = self.snapshots.as_ref().filter(|_| self.cell.watches) {
            snapshots.make_ready(Some((&cell, &host)));
        }
        if let Some(snapshots) = self.snapshots.as_ref().filter(|_| self.policy.passes_undoable()) {
            self.can_give_overlay(snapshots, &self.policy);
        }
    }

    /// Checks the size of the caches in the home after the answer, if a check is due.
    fn tend_homes(&self) {
        let now = self.clock.now();
        if let Some(homes) = self.homes.clone().filter(|homes| homes.are_due(now)) {
            // A failure is retried the next time.
            self.removals.work(move || drop(homes.tend(now)));
        }
    }
}

fn shut_down() -> ToolError {
    ToolError::new(Code::Unavailable, "this runtime is shutting down").retry(tool::Retry::Now)
}
