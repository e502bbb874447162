//! Composition of the runtime: host environment, configuration, policy, store, tools, engine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::traces::Exporter;
use browser::{Browsers, extension::PairingFolder};
use dialects::Dialect;
use engine::{CellSetup, DuplicateTool, Engine, Parts, Redactor, Registry, Summarizer, TokioTimer, Tracer};
use fetch::web::Web;
use jobs::ScheduleBook;
use policy::Policy;
use retrieval::embedder::OpenModel;
use sandbox::{Entrance, SandboxError, SessionLimits, Spawner, StartingSpawner};
use spending::SpendingBook;
use store_api::{Hash, Store};
use store_sqlite::SqliteStore;
use tool::{AnyTool, Clock as _, ForeignContent, ResourcePool, Services, SessionId};
use tool_support::EnvironmentSecrets;
use tools_agents::{Agents, JobRuntime, ModelTurns, Models};
use tools_code::{JavaScriptEngine, Scripts};
use tools_graph::CodeGraphs;
use tools_plugins::PluginProcesses;
use vault::{HostRule, Keys, LEAST_CHARACTERS, Vault, VaultError};

use crate::agent_runtime::{AgentFiles, AgentParts, AgentRuntime, AgentTree, Host};
use crate::clock::SystemClock;
use crate::config::Elicitation;
use crate::configuration::{Configuration, compile};
use crate::exec_log::WorkspaceLog;
use crate::failure::Failure;
use crate::host_environment::{HostEnvironment, variable, vault_keys};
use crate::identity::OAuth;
use crate::job_runtime::job_runtime;
use crate::languages::LanguagesProgram;
use crate::mcp_servers::{self, Groups};
use crate::notify::notifier;
use crate::out_of_reach::{keep_closed, keep_key_away};
use crate::packages::Packages;
use crate::places::{
    BROWSERS_FOLDER, DOWNLOADS_FOLDER, GRAPHS_FOLDER, PICTURES_FOLDER, PLUGIN_PROCESSES_FOLDER,
    SCRIPTS_FOLDER, VAULT_FOLDER, create_private, place, program, real, state_folder,
};
use crate::plugin_facts::PluginFacts;
use crate::plugin_places::PluginPlaces;
use crate::plugin_tools::PluginTools;
use crate::reload::{Reload, Stamps};
use crate::report::{Warn, warn};
use crate::run_options::RunOptions;
use crate::toolset::{Toolset, catalogue};
use crate::traces::{FAREWELL, exporter};
use crate::{at_start, browser_program, toolchains};

/// A runtime, composed for one command of the program.
pub(crate) struct Composed {
    pub(crate) engine: Arc<Engine>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) session: SessionId,
    pub(crate) workspace: PathBuf,
    /// Names of the tools, and the selection that is listed.
    pub(crate) toolset: Toolset,
    /// Folder of all durable state.
    pub(crate) state: PathBuf,
    /// Questions that may be put to the user of an MCP client, if an effective file sets this.
    pub(crate) elicitation: Option<Elicitation>,
    /// Identity provider whose tokens `up` accepts besides its own, if an effective file sets this.
    pub(crate) oauth: Option<OAuth>,
    /// Function that opens the embedding model.
    pub(crate) embeddings: Option<OpenModel>,
    /// Schedules of the workspace.
    pub(crate) jobs: Arc<JobRuntime>,
    /// Models of language.
    pub(crate) models: Arc<Models>,
    /// Requests of agents to their models.
    pub(crate) turns: Arc<ModelTurns>,
    /// Costs of the models, for all processes of the state.
    pub(crate) spending: Arc<SpendingBook>,
    /// Graphs of the workspace's code.
    pub(crate) graphs: Arc<CodeGraphs>,
    /// Agents of this process.
    pub(crate) tree: Arc<AgentTree>,
    /// Exporter for the traces of calls.
    traces: Option<Arc<Exporter>>,
    /// Parameters for reading the configuration again.
    pub(crate) reload: Reload,
}

/// Parameters of a runtime, in addition to the configuration.
pub(crate) struct RuntimeOptions<'a> {
    pub(crate) options: RunOptions,
    /// Folder of the user's configuration, if it differs from the usual one.
    pub(crate) configuration: Option<PathBuf>,
    /// Home folder of the user, if it differs from that of this process.
    pub(crate) home: Option<PathBuf>,
    /// Source of waiting cells, whose start begins before anything else.
    pub(crate) spawner: Option<StartingSpawner>,
    /// Limits on commands that run on between calls, if this runtime serves many calls.
    pub(crate) sessions: Option<SessionLimits>,
    /// Command by which this program enters a cell made by bwrap.
    pub(crate) entrance: Option<Entrance>,
    /// Keys of the vault, if they differ from those of the host environment.
    pub(crate) keys: Option<Keys>,
    /// Vault, if it is not that of the state folder.
    pub(crate) vault: Option<Arc<Vault>>,
    /// Tools in addition to the built-in ones.
    pub(crate) tools: Vec<Arc<dyn AnyTool>>,
    /// Receiver of warnings.
    pub(crate) warn: Warn<'a>,
}

impl RuntimeOptions<'_> {
    /// Returns the parameters of a runtime for one command of the program.
    pub(crate) fn once(options: impl Into<RunOptions>) -> Self {
        Self {
            options: options.into(),
            configuration: None,
            home: None,
            spawner: None,
            sessions: None,
            entrance: entrance(),
            keys: None,
            vault: None,
            tools: Vec::new(),
            warn: &warn,
        }
    }

    /// Returns the parameters of a runtime that serves many calls.
    pub(crate) fn serving(options: impl Into<RunOptions>, spawner: Option<StartingSpawner>) -> Self {
        Self { spawner, sessions: Some(SessionLimits::default()), ..Self::once(options) }
    }
}

/// Composes the runtime.
pub(crate) fn compose(wanted: RuntimeOptions) -> Result<Composed, Failure> {
    let RuntimeOptions {
        options,
        configuration,
        home,
        spawner,
        sessions,
        entrance,
        keys,
        vault,
        tools,
        warn,
    } = wanted;
    let mut host_environment = HostEnvironment::of_this_process();
    host_environment.configuration = configuration.or(host_environment.configuration);
    if let Some(home) = home {
        host_environment.move_home(home);
    }
    let place = place(&options, &host_environment, warn)?;
    let state = state_folder(&options, &host_environment)?;
    if place.workspace.starts_with(&state) {
        return Err(Failure::usage(format!(
            "the workspace {} lies in the state folder {}, which no tool may change; name another \
             state folder with {}",
            place.workspace.display(),
            state.display(),
            options.author.option("state")
        )));
    }
    if let Some(folder) = host_environment.configuration.as_deref().map(real)
        && place.workspace.starts_with(&folder)
    {
        return Err(Failure::usage(format!(
            "the workspace {} lies in the folder of your configuration, {}, which no tool may change; work in another folder",
            place.workspace.display(),
            folder.display()
        )));
    }
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&state)?);
    let of_plugins = PluginPlaces::of(&place.workspace, None, &state).store;
    if let Err(failure) = Packages::of(&state).settle(&of_plugins, SystemClock.now()) {
        warn(&format!("the rest of a killed change of packages stays: {}", failure.error));
    }
    let not_finished = |fault| warn(&format!("a plugin whose making was killed is not finished: {fault}"));
    of_plugins.enable_pending().unwrap_or_else(not_finished);
    // A file that changes while it is read differs from its stamp, so that a server reads it again.
    let stamps = Stamps::of(&options, &host_environment, (&place, &state), store.as_ref());
    let own = tools.clone();
    let configuration =
        Configuration::read(&options, &host_environment, &place, &state, store.as_ref(), tools, warn)?;
    let policy = Arc::new(compile(&configuration, warn)?);
    keep_closed(host_environment.configuration.as_deref(), &policy)?;
    let keys = keys.unwrap_or_else(|| vault_keys(configuration.key_file.clone()));
    let key_file = keys.key_file.clone();
    let vault = match vault {
        Some(opened) => opened,
        None => open_vault(&state, keys, &policy, warn)?,
    };
    // This is the first and only assignment.
    let _ = configuration.vault.set(vault.clone());
    let built_in = configuration.built_in_names();
    let registry = Registry::new(configuration.tools())
        .map_err(|DuplicateTool(name)| format!("two tools are named {name}"))?;
    let registry = Arc::new(registry);
    let clock = Arc::new(SystemClock);
    let mut services = Services::default();
    let web = Arc::new(Web::default());
    services.insert(web.clone());
    services.insert(Arc::new(toolchains::missing(&host_environment)));
    // Versions up to 0.1 stored interrupted downloads here. No later version resumes them.
    let _gone = std::fs::remove_dir_all(state.join(DOWNLOADS_FOLDER));
    let mut secrets = std::mem::take(&mut host_environment.credentials);
    if configuration.toolset.dialect == Dialect::Sluagh {
        let (environment, named) = environment_secrets(&configuration.environment_secrets, warn);
        services.insert(Arc::new(environment));
        secrets.extend(named);
    }
    let reload = Reload {
        at_start: configuration.at_start.clone(),
        limits: at_start::limits(&policy),
        closed: configuration.closed().to_vec(),
        skills: configuration.needed.skills.packages.clone(),
        options,
        host_environment: host_environment.clone(),
        place: place.clone(),
        state: state.clone(),
        own,
        key_file,
        taken: stamps,
    };
    let browsers = browsers(&state, &place.workspace, &host_environment);
    services.insert(browsers.clone());
    services.insert(Arc::new(scripts(&state, entrance.as_ref())));
    services.insert(Arc::new(PairingFolder(state.clone())));
    let book = ScheduleBook::new(store.clone(), place.workspace.clone(), None);
    let jobs = Arc::new(job_runtime(
        book,
        state.clone(),
        configuration.toolset.dialect,
        &configuration.needed.models,
    ));
    services.insert(jobs.clone());
    let languages = Arc::new(LanguagesProgram::of_state(&state));
    let graphs = Arc::new(CodeGraphs::new(facts_folder(&state, &place.workspace)?).with_languages(languages));
    services.insert(graphs.clone());
    services.insert::<Arc<dyn tool::CodeCallers>>(Arc::new(graphs.clone()));
    let spending = Arc::new(SpendingBook::new(store.clone(), place.workspace.clone(), None));
    services.insert(spending.clone());
    let turns = Arc::new(ModelTurns::default());
    services.insert(turns.clone());
    let tree = Arc::new(AgentTree::default());
    services.insert(Arc::new(Agents(Arc::new(Host(tree.clone())))));
    let processes = Arc::new(PluginProcesses::new(state.join(PLUGIN_PROCESSES_FOLDER)));
    services.insert(processes.clone());
    let mut resources: Vec<Arc<dyn ResourcePool>> =
        vec![browsers, tree.clone(), graphs.clone(), processes.clone()];
    let reads_only = configuration.toolset.read_only || configuration.toolset.dry_run;
    let entries = configuration.at_start.mcp_servers.clone();
    let entries = if reads_only { serde_json::Map::new() } else { entries };
    let dialect = configuration.toolset.dialect;
    let needed = (state.as_path(), registry.as_ref(), web, vault.clone());
    let servers = mcp_servers::servers(&entries, dialect, needed, warn)?;
    if let Some(servers) = &servers {
        servers.publish_to(Arc::new(Groups(registry.clone())))?;
        services.insert::<Arc<dyn ForeignContent>>(Arc::new(servers.clone()));
        resources.push(servers.clone());
    }
    let traces = exporter(configuration.traces, &host_environment.traces, warn);
    let serves_many = sessions.is_some();
    let spawner = spawner.and_then(|starting| started(starting, warn));
    let cell = CellSetup { entrance, ..cell(&host_environment, &state, spawner)? };
    let workspace = place.workspace.clone();
    let uses_workspace = !configuration.is_narrowed;
    let of_user = host_environment.configuration.as_deref();
    let plugin_places =
        (!reload.options.ignores_files).then(|| PluginPlaces::of(&workspace, of_user, &state));
    let summarizer = match configuration.toolset.dialect {
        Dialect::Csp1 => Some(exec_log(&workspace, &store)?),
        _ => None,
    };
    let engine = Engine::new(Parts {
        place,
        policy,
        store: store.clone(),
        catalogue: catalogue(
            registry.clone(),
            configuration.toolset.dialect,
            vault.clone(),
            (PluginFacts { places: plugin_places.clone(), uses_workspace }, servers, SystemClock.now()),
        )?,
        registry,
        clock,
        timer: Arc::new(TokioTimer),
        cell,
        redactor: Redactor::new(secrets),
        vault: Some(vault),
        databases: Some(configuration.needed.databases.clone()),
        embeddings: configuration.embeddings.clone(),
        sessions,
        tracer: traces.clone().map(|exporter| exporter as Arc<dyn Tracer>),
        summarizer,
        question_pictures: Some(state.join(PICTURES_FOLDER)),
        user: Some(host_environment.user.clone()),
        services,
        resources,
        agents: Some(tree.clone()),
        program: program(&state, &host_environment),
    })?;
    engine.notices().iter().for_each(|notice| warn(notice));
    // The engine has completed or rolled back the commits of killed processes, which decides whether the files stay.
    of_plugins.settle_pending().unwrap_or_else(not_finished);
    if let Some(command) = configuration.approvals.and_then(|handling| handling.notify) {
        engine.listen_to_questions(notifier(command));
    }
    let composed = Composed {
        engine: Arc::new(engine),
        store,
        session: new_session(),
        workspace,
        state,
        toolset: configuration.toolset,
        elicitation: configuration.elicitation,
        oauth: configuration.oauth,
        embeddings: configuration.embeddings,
        jobs,
        models: configuration.needed.models.clone(),
        turns,
        spending,
        graphs,
        tree,
        traces,
        reload,
    };
    composed.tree.begin(AgentParts::new(&composed.agents()), serves_many);
    if let Some(places) = plugin_places {
        let mut plugins = PluginTools::new(places, composed.toolset, uses_workspace, processes, built_in);
        plugins.refresh(&composed.engine, warn);
        if serves_many {
            plugins.keep_current(&composed.engine);
        }
    }
    Ok(composed)
}

impl Composed {
    /// Returns the part of the runtime that agents need.
    pub(crate) fn agents(&self) -> AgentRuntime {
        let configuration = self.reload.host_environment.configuration.as_deref();
        AgentRuntime {
            engine: self.engine.clone(),
            store: self.store.clone(),
            models: self.models.clone(),
            turns: self.turns.clone(),
            dialect: self.toolset.dialect,
            catalogue: self.toolset.listed(),
            workspace: self.workspace.clone(),
            files: AgentFiles::of(&self.workspace, configuration)
                .and((!self.reload.options.ignores_files).then(|| Packages::of(&self.state))),
            reload: self.reload.clone(),
            offered: Arc::default(),
        }
    }

    /// Gives traces a last chance to be sent. Call this last in a command, because no requested
    /// result depends on traces.
    pub(crate) fn close_traces(&self) {
        if let Some(traces) = &self.traces {
            traces.close(FAREWELL);
        }
    }
}

/// Returns the folder for the facts of a workspace's code, which lies in the state folder, so that nothing in the
/// workspace can change it. The first query creates the folder itself.
fn facts_folder(state: &Path, workspace: &Path) -> Result<PathBuf, Failure> {
    let graphs = state.join(GRAPHS_FOLDER);
    create_private(&graphs)?;
    let name: String =
        Hash::of(workspace.as_os_str().as_encoded_bytes()).to_string().chars().take(32).collect();
    Ok(graphs.join(name))
}

/// Returns the pool of the browsers, and removes what killed processes left of theirs.
fn browsers(state: &Path, workspace: &Path, host_environment: &HostEnvironment) -> Arc<Browsers> {
    let folder = state.join(BROWSERS_FOLDER);
    sandbox::remove_left_folders(&folder);
    Browsers::new(browser_program::find((state, workspace), host_environment), folder)
}

/// Returns the place of scripts, and removes the folders that killed processes left there. A program that can enter a
/// cell can run scripts there, too.
fn scripts(state: &Path, entrance: Option<&Entrance>) -> Scripts {
    let folder = state.join(SCRIPTS_FOLDER);
    sandbox::remove_left_folders(&folder);
    let engine = entrance.map(|entrance| JavaScriptEngine {
        program: entrance.program.clone(),
        arguments: vec![RUN_JAVASCRIPT.into()],
    });
    Scripts::new(folder, engine)
}

/// Waits until the spawner has started. Without a spawner, every command creates its own cell, which is
/// slower but otherwise equal.
fn started(starting: StartingSpawner, warn: Warn) -> Option<Arc<Spawner>> {
    let started = starting.finish();
    started.inspect_err(|error| warn(&slower(error))).ok().map(Arc::new)
}

/// Returns the warning that there is no spawner.
pub(crate) fn slower(error: &SandboxError) -> String {
    format!("commands will start more slowly: {error}")
}

/// Opens the exec log of the dialect `csp1`, which every door uses to summarize command output.
fn exec_log(workspace: &Path, store: &Arc<dyn Store>) -> Result<Arc<dyn Summarizer>, Failure> {
    let log = WorkspaceLog::open(workspace, store.clone()).map_err(|error| {
        let folder = workspace.join("memory/exec-logs");
        Failure::from(format!("cannot use the exec log {}: {error}", folder.display()))
    })?;
    Ok(Arc::new(log))
}

/// Returns the environment variables that may be sent, and all their values for the redactor,
/// regardless of their names.
fn environment_secrets(
    named: &BTreeMap<String, Vec<HostRule>>,
    warn: Warn,
) -> (EnvironmentSecrets, Vec<(String, String)>) {
    let (mut covered, mut entries, mut unset) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (name, hosts) in named {
        let Some(value) = variable(name) else {
            warn(&format!("the variable {name} of `environment_secrets` is not set"));
            unset.insert(name.clone(), "not set in the environment of Handfast".to_owned());
            continue;
        };
        match std::str::from_utf8(&value) {
            Ok(text) if text.chars().count() >= LEAST_CHARACTERS => {
                covered.push((name.clone(), text.to_owned()));
                entries.push((name.clone(), value, hosts.clone()));
            }
            _ => {
                warn(&format!(
                    "the variable {name} of `environment_secrets` is not sent: a secret needs at least \
                     {LEAST_CHARACTERS} characters, because redacting a shorter one would reveal it"
                ));
                unset.insert(
                    name.clone(),
                    format!("its value is no text of at least {LEAST_CHARACTERS} characters"),
                );
            }
        }
    }
    (EnvironmentSecrets::new(entries).without(unset), covered)
}

/// Opens the vault if possible, so that its secrets are covered from the first call on.
fn open_vault(state: &Path, keys: Keys, policy: &Policy, warn: Warn) -> Result<Arc<Vault>, Failure> {
    keep_key_away(keys.key_file.as_deref(), policy)?;
    let vault = Vault::new(state.join(VAULT_FOLDER), keys);
    match vault.contents() {
        Ok(contents) if !contents.is_locked_in_memory() => {
            warn(
                "the limit on locked memory (ulimit -l) is reached, so the vault's secrets may be \
                 swapped out",
            );
        }
        // A user who uses no secrets need not unlock them.
        Ok(_) | Err(VaultError::Locked) => {}
        Err(error) => {
            warn(&format!("{error}; until this is corrected, its secrets are neither used nor redacted"));
        }
    }
    Ok(Arc::new(vault))
}

fn cell(
    host_environment: &HostEnvironment,
    state: &Path,
    spawner: Option<Arc<Spawner>>,
) -> Result<CellSetup, Failure> {
    let spool = state.join("spool");
    create_private(&spool)?;
    let setup = toolchains::cell_setup(host_environment, spool, spawner);
    let [changes, records, homes, certificates] =
        ["changes", "sessions", "homes", "certificates"].map(|name| Some(state.join(name)));
    let toolchains_seen = Some(state.join("toolchains"));
    Ok(CellSetup { changes, records, homes, certificates, toolchains_seen, ..setup })
}

/// First argument with which this program runs a script in the script's cell. The folder of the script follows.
pub(crate) const RUN_JAVASCRIPT: &str = "run-javascript";

/// Returns the command by which this program enters a cell that the system's bwrap makes, or `None`
/// if the program was removed or replaced since its start.
pub(crate) fn entrance() -> Option<Entrance> {
    let program = std::env::current_exe().and_then(|path| path.canonicalize()).ok()?;
    Some(Entrance { program, arguments: vec!["enter-cell".into()] })
}

/// Creates a session id from the process id and the start time.
fn new_session() -> SessionId {
    let began = SystemClock.now().as_millisecond();
    SessionId(format!("s{began:x}-{}", std::process::id()))
}
