//! The configuration of one run: the files that exist, the files that are effective, and the
//! combined settings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use database::Databases;
use dialects::Dialect;
use policy::{Ceiling, Mode, Origin, Policy, Programs, Source, Trust};
use retrieval::embedder::OpenModel;
use store_api::Store;
use tool::{AnyTool, Place};
use tools_agents::Embeddings;
use tools_data::{PackageFolders, SkillFolders};
use vault::HostRule;

use crate::at_start::AtStart;
use crate::config::{self, ConfigFile, Elicitation, MANAGED_FOLDER, USER_FILE, WORKSPACE_FILE};
use crate::embeddings::{self, LaterVault};
use crate::failure::Failure;
use crate::host_environment::HostEnvironment;
use crate::identity::OAuth;
use crate::labels::{Labels, profile_of, require};
use crate::mcp_servers;
use crate::models::models;
use crate::notify::QuestionHandling;
use crate::own_projects::registered;
use crate::packages::Packages;
use crate::places::{open_store, place, state_folder, under_every_name};
use crate::plugin_places::PluginPlaces;
use crate::report::{self, Warn};
use crate::run_options::RunOptions;
use crate::toolchains;
use crate::toolset::{ToolDependencies, Toolset, canonical};
use crate::traces::Collector;
use crate::work::{LINEAR_VARIABLE, Work};

mod files;

use files::Files;

/// Name of the folder with the user's skills, within the folder of the user's configuration.
const SKILLS: &str = "skills";

/// The configuration of one run, read but not yet compiled.
pub(crate) struct Configuration {
    /// Names of the tools, and the selection that is listed.
    pub(crate) toolset: Toolset,
    /// Dependencies of the tools.
    pub(crate) needed: ToolDependencies,
    /// Every canonical tool, in listing order.
    canonical: Vec<Arc<dyn AnyTool>>,
    pub(crate) elicitation: Option<Elicitation>,
    pub(crate) approvals: Option<QuestionHandling>,
    pub(crate) oauth: Option<OAuth>,
    /// Function that opens the embedding model.
    pub(crate) embeddings: Option<OpenModel>,
    /// Path of the vault's key file, if the user's configuration names one.
    pub(crate) key_file: Option<PathBuf>,
    /// Slot for the vault, which is opened later and may contain the key of the embedding server.
    pub(crate) vault: LaterVault,
    /// Collector for traces, and true if the administrator set it.
    pub(crate) traces: Option<(Collector, bool)>,
    /// Environment variables that may be sent, each with its hosts.
    pub(crate) environment_secrets: BTreeMap<String, Vec<HostRule>>,
    /// Settings that a server takes at its start only.
    pub(crate) at_start: AtStart,
    /// True if the workspace has a file that is not trusted.
    pub(crate) is_narrowed: bool,
    pub(crate) sources: Vec<Source>,
    /// Profiles that labels are bound to.
    pub(crate) labels: Labels,
    profile: Option<(String, Origin)>,
    mode: Option<(Mode, Origin)>,
    /// Ceiling for the permissions of all callers.
    ceiling: Ceiling,
    protected: Vec<PathBuf>,
    /// Patterns of paths that no tool reads or writes: the files of databases.
    closed: Vec<String>,
    programs: Programs,
    /// Folders that calls write to, which decide about programs in them.
    written: Arc<OnceLock<Vec<PathBuf>>>,
    workspace: PathBuf,
    home: Option<PathBuf>,
    /// Tools in addition to the built-in ones.
    own: Vec<Arc<dyn AnyTool>>,
    /// Names of tools that rules may refer to.
    tools: Vec<&'static str>,
}

/// Key of the configuration that names the vault's key file.
const KEY_FILE: &str = "vault.key_file";

/// Returns the vault's key file from the administrator's configuration, or from the user's. For
/// callers that need no other setting.
pub(crate) fn key_file(host_environment: &HostEnvironment) -> Result<Option<PathBuf>, Failure> {
    let user = host_environment.configuration.as_ref().map(|folder| folder.join(USER_FILE));
    let user = user.map_or(Ok(None), |path| ConfigFile::read(&path)).map_err(Failure::usage)?;
    let managed = config::managed().map_err(Failure::usage)?;
    let named = managed.into_iter().chain(user).find_map(|file| file.settings.vault);
    named.map(|place| host_environment.named_path(KEY_FILE, &place.key_file)).transpose()
}

/// Returns the rules of a package, which count in each of these profiles and can only narrow it.
fn rules_of_package(
    name: &str,
    rules: &serde_json::Map<String, serde_json::Value>,
    profiles: &BTreeSet<String>,
) -> Result<Source, Failure> {
    let profiles: BTreeMap<&String, _> = profiles.iter().map(|profile| (profile, rules)).collect();
    let text = serde_json::json!({ "sandbox_config": profiles }).to_string();
    let profiles = config::parse_profiles(&text)?;
    Ok(Source::new(Origin::Package(name.into()), Trust::Untrusted, profiles))
}

impl Configuration {
    /// Returns every tool, in listing order.
    pub(crate) fn tools(&self) -> Vec<Arc<dyn AnyTool>> {
        let mut tools = self.toolset.tools(&self.programs, &self.workspace, self.canonical.clone());
        tools.extend(self.toolset.only_dry_runs(self.own.clone()));
        tools
    }

    /// Reads the configuration for a command that runs no tools.
    pub(crate) fn of(options: &RunOptions) -> Result<Self, Failure> {
        let host_environment = HostEnvironment::of_this_process();
        let warn: Warn = &report::warn;
        let place = place(options, &host_environment, warn)?;
        let state = state_folder(options, &host_environment)?;
        let store = open_store(options, &host_environment)?;
        Self::read(options, &host_environment, &place, &state, store.as_ref(), Vec::new(), warn)
    }

    /// Reads the files, and warns about ignored settings.
    pub(crate) fn read(
        options: &RunOptions,
        host_environment: &HostEnvironment,
        place: &Place,
        state: &Path,
        store: &dyn Store,
        own: Vec<Arc<dyn AnyTool>>,
        warn: Warn,
    ) -> Result<Self, Failure> {
        let files = Files::read(options, host_environment, place, store)?;
        files.warn_of_ignored(warn);
        let protected = [state.to_owned(), place.workspace.join(WORKSPACE_FILE)].into_iter().chain(
            [Some(PathBuf::from(MANAGED_FOLDER)), host_environment.configuration.clone()]
                .into_iter()
                .flatten()
                .flat_map(|folder| under_every_name(&folder)),
        );
        let protected: Vec<PathBuf> = protected.collect();
        let labels = files.labels();
        let wanted = match &options.label {
            Some(label) => Some(profile_of(&labels, label).map_err(Failure::usage)?),
            None => options.profile.clone(),
        };
        let profile = files.first(wanted, "profile", |settings| settings.profile.clone());
        let chosen = profile.as_ref().map_or(policy::DEFAULT_PROFILE, |(name, _)| name);
        require(&labels, chosen, options.label.as_deref()).map_err(Failure::usage)?;
        let databases = databases(&files, &place.workspace, state)?;
        let packages = Packages::of(state).parts(options.ignores_files, warn)?;
        let skills = SkillFolders {
            user: host_environment.configuration.as_ref().map(|folder| folder.join(SKILLS)),
            packages: PackageFolders::of(packages.skills),
        };
        let dialect = files
            .first(options.dialect, "dialect", |settings| settings.dialect)
            .map_or(Dialect::default(), |(dialect, _)| dialect);
        let environment_secrets = crate::host_environment::hosts_of(files.of_the_user(
            "environment_secrets",
            |settings| settings.environment_secrets.clone(),
            warn,
        ))?;
        let work = Work::new(
            files.of_the_user("linear", |settings| settings.linear.clone(), warn),
            dialect == Dialect::Sluagh && environment_secrets.contains_key(LINEAR_VARIABLE),
            files.of_the_user("gmail", |settings| settings.gmail.clone(), warn),
        )?;
        let key_file = files.of_the_user("vault", |settings| settings.vault.clone(), warn);
        let key_file =
            key_file.map(|place| host_environment.named_path(KEY_FILE, &place.key_file)).transpose()?;
        let listed = files.of_the_user("toolchains", |settings| settings.toolchains.clone(), warn);
        let listed: Result<Vec<_>, _> =
            listed.iter().flatten().map(|named| host_environment.named_path("toolchains", named)).collect();
        let around = toolchains::PlacesAround {
            workspace: &place.workspace,
            of_handfast: protected.iter().cloned().chain(key_file.clone()).collect(),
            listed: listed?,
        };
        let (found, written) = (toolchains::found(host_environment, around), Arc::default());
        let programs = toolchains::programs(&found, place.workspace.clone(), Arc::clone(&written));
        let vault = LaterVault::default();
        let server = files.of_the_user("embeddings", |settings| settings.embeddings.clone(), warn);
        let is_local = server.is_none();
        let embeddings = embeddings::opener(state, server, vault.clone())?;
        let knowledge = embeddings::knowledge(state, &place.workspace, embeddings.clone())?;
        let models = models(
            files.of_the_user("models", |settings| settings.models.clone(), warn),
            embeddings.clone().map(|opens| Embeddings { opens, is_local }),
        )?;
        let projects = files.first(None, "self", |settings| settings.own_projects.clone()).map(|own| own.0);
        let is_narrowed = files.layers.iter().any(|layered| layered.trust == Trust::Untrusted);
        let plugins = PluginPlaces::of(&place.workspace, host_environment.configuration.as_deref(), state);
        let own_projects = registered(projects, &place.workspace, plugins.own(!is_narrowed))?;
        let needed = ToolDependencies { databases, skills, knowledge, models, work, own_projects };
        let canonical = canonical(&needed);
        needed.own_projects.reserve_names(built_in(&canonical, &own));
        let trusted = files.layers.iter().filter(|layered| layered.trust == Trust::Trusted).rev();
        let servers = trusted.filter_map(|layered| layered.file.settings.mcp_servers.clone());
        let mut mcp_servers = packages.servers;
        mcp_servers.extend(mcp_servers::merged(servers, &place.workspace, store, warn)?);
        let profiles = files.layers.iter().flat_map(|layered| layered.file.settings.sandbox_config.keys());
        let profiles: BTreeSet<String> =
            profiles.cloned().chain([chosen.to_owned(), policy::DEFAULT_PROFILE.to_owned()]).collect();
        let of_packages = packages.rules.iter().map(|(name, rules)| rules_of_package(name, rules, &profiles));
        let of_packages: Vec<Source> = of_packages.collect::<Result<_, _>>()?;
        let names = canonical.iter().chain(&own).map(|tool| tool.spec().name);
        let at_start = AtStart { mcp_servers, ..files.at_start(options, dialect) };
        Ok(Self {
            at_start,
            is_narrowed,
            toolset: Toolset {
                read_only: options.read_only,
                dry_run: options.dry_run,
                dialect,
                catalogue: files.first(options.catalogue, "catalogue", |all| all.catalogue).map(|own| own.0),
            },
            elicitation: files.of_the_user("elicitation", |settings| settings.elicitation, warn),
            embeddings,
            key_file,
            vault,
            approvals: files.of_the_user("approvals", |settings| settings.approvals.clone(), warn),
            oauth: files.of_the_user("oauth", |settings| settings.oauth.clone(), warn),
            environment_secrets,
            traces: files
                .of_the_user("traces", |settings| settings.traces.clone(), warn)
                .map(|collector| (collector, files.is_managed(|settings| settings.traces.is_some()))),
            profile,
            mode: files.mode(options.mode),
            sources: files.into_sources(options.source()).into_iter().chain(of_packages).collect(),
            labels,
            ceiling: options.ceiling(),
            protected,
            closed: database_patterns(&needed.databases, &place.workspace),
            programs,
            written,
            workspace: place.workspace.clone(),
            home: host_environment.home.clone(),
            tools: names.chain(PluginPlaces::stored_names(state)).collect(),
            canonical,
            needed,
            own,
        })
    }

    /// Returns the names of the built-in tools of every dialect. A runtime need not have all of them.
    pub(crate) fn built_in_names(&self) -> BTreeSet<&'static str> {
        built_in(&self.canonical, &self.own)
    }

    /// Returns the patterns of paths that no tool reads or writes.
    pub(crate) fn closed(&self) -> &[String] {
        &self.closed
    }

    /// Closes the paths that match these patterns, too.
    pub(crate) fn close(&mut self, patterns: &[String]) {
        self.closed.extend(patterns.iter().cloned());
    }

    /// Returns the input for compiling a policy.
    pub(crate) fn setup(&self) -> policy::Setup<'_> {
        policy::Setup {
            sources: &self.sources,
            profile: self.profile.as_ref().map_or(policy::DEFAULT_PROFILE, |(name, _)| name),
            mode: self.mode.clone(),
            dialect: self.toolset.settled(),
            workspace: &self.workspace,
            home: self.home.as_deref(),
            protected: &self.protected,
            closed: &self.closed,
            programs: self.programs.clone(),
            tools: &self.tools,
        }
    }
}

/// Opens the usual database, and further ones from the first file that names any.
fn databases(files: &Files, workspace: &Path, state: &Path) -> Result<Arc<Databases>, Failure> {
    let named = files.first(None, "databases", |settings| settings.databases.clone());
    let others = named.map(|(others, _)| others).unwrap_or_default();
    for (name, path) in &others {
        let is_plain =
            path.is_relative() && path.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_plain || path.as_os_str().is_empty() {
            return Err(Failure::usage(format!(
                "`databases`: {name} must be a path relative to the workspace, without `..`"
            )));
        }
        if name == database::DEFAULT_NAME {
            return Err(Failure::usage(format!("`databases`: {name} is the name of the default database")));
        }
    }
    Ok(Arc::new(Databases::new(workspace, &others, &store_sqlite::spool(state))))
}

/// Returns patterns for the files of databases and the folder of the usual one.
fn database_patterns(databases: &Databases, workspace: &Path) -> Vec<String> {
    let pattern = |path: &Path| {
        let path = path.strip_prefix(workspace).unwrap_or(path).to_string_lossy().into_owned();
        let escaped: String = path
            .chars()
            .flat_map(|c| "\\*?[]!#".contains(c).then_some('\\').into_iter().chain([c]))
            .collect();
        format!("./{escaped}")
    };
    let folder = Path::new(database::DEFAULT_PATH).parent().map(pattern);
    folder.into_iter().chain(databases.files().iter().map(|path| pattern(path))).collect()
}

fn built_in(canonical: &[Arc<dyn AnyTool>], own: &[Arc<dyn AnyTool>]) -> BTreeSet<&'static str> {
    let named = canonical.iter().chain(own).map(|tool| tool.spec().name);
    named.chain(Dialect::all_names()).collect()
}

/// Compiles the policy from the combined settings.
pub(crate) fn compile(configuration: &Configuration, warn: Warn) -> Result<Policy, Failure> {
    let setup = configuration.setup();
    let policy = Policy::compile(&setup).map_err(Failure::usage)?;
    // This is the first and only assignment.
    let _ = configuration.written.set(policy.written_folders().to_vec());
    for warning in policy.warnings() {
        warn(&warning.to_string());
    }
    for finding in policy.findings(&setup) {
        warn(&finding.to_string());
    }
    Ok(policy.under(&configuration.ceiling))
}
