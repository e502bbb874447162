//! Puts the runtime together: surroundings, configuration, policy, store, tools, engine.

use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use dialects::Dialect;
use engine::{CellSetup, DuplicateTool, Engine, Parts, Redactor, Registry};
use jiff::Timestamp;
use policy::{FilePlace, Mode, Origin, Policy, Programs, Source, Trust};
use sandbox::{Entrance, SessionLimits, Spawner};
use store::Store;
use tool::{Clock, Place, SessionId};

use crate::cli::Global;
use crate::commands::Failure;
use crate::config::{self, ConfigFile, Elicitation, MANAGED_FOLDER, Settings, USER_FILE, WORKSPACE_FILE};
use crate::labels::{Labels, profile_of, require};
use crate::report::warn;
use crate::surroundings::Surroundings;
use crate::toolchains;
use crate::toolset::{Toolset, canonical, catalogue};

/// A runtime, put together for one command of the program.
pub(crate) struct Composed {
    pub(crate) engine: Arc<Engine>,
    pub(crate) store: Arc<Store>,
    pub(crate) session: SessionId,
    pub(crate) workspace: PathBuf,
    /// What its tools are called, and which are listed.
    pub(crate) toolset: Toolset,
    /// Where everything durable lies.
    pub(crate) state: PathBuf,
    /// Which questions may be put to the user of an MCP client, where a file that counts says so.
    pub(crate) elicitation: Option<Elicitation>,
}

/// Composes the runtime. A program that serves many calls has started a spawner, before anything else, and may let
/// commands run on between them.
pub(crate) fn compose(
    global: &Global,
    spawner: Option<Arc<Spawner>>,
    sessions: Option<SessionLimits>,
) -> Result<Composed, Failure> {
    let surroundings = Surroundings::of_this_process();
    let place = place(global, &surroundings)?;
    let state = state_folder(global, &surroundings)?;
    if place.workspace.starts_with(&state) {
        return Err(Failure::usage(format!(
            "the workspace {} lies in the state folder {}, which no tool may change; name another one with --state",
            place.workspace.display(),
            state.display()
        )));
    }
    if let Some(folder) = surroundings.configuration.as_deref().map(real)
        && place.workspace.starts_with(&folder)
    {
        return Err(Failure::usage(format!(
            "the workspace {} lies in the folder of your configuration, {}, which no tool may change; work in another folder",
            place.workspace.display(),
            folder.display()
        )));
    }
    let store = Arc::new(Store::open(&state)?);
    let configuration = Configuration::read(global, &surroundings, &place, &state, &store)?;
    let policy = Arc::new(compile(&configuration)?);
    keep_closed(surroundings.configuration.as_deref(), &policy)?;
    let registry = Registry::new(configuration.tools())
        .map_err(|DuplicateTool(name)| format!("two tools are named {name}"))?;
    let clock = Arc::new(SystemClock);
    let cell = cell(&surroundings, &state, spawner)?;
    let workspace = place.workspace.clone();
    let engine = Engine::new(Parts {
        place,
        policy,
        store: store.clone(),
        catalogue: catalogue(registry.tools())?,
        registry,
        clock,
        cell,
        redactor: Redactor::new(surroundings.credentials),
        sessions,
    })?;
    for notice in engine.notices() {
        warn(notice);
    }
    Ok(Composed {
        engine: Arc::new(engine),
        store,
        session: new_session(),
        workspace,
        state,
        toolset: configuration.toolset,
        elicitation: configuration.elicitation,
    })
}

/// Makes the folder of the user's configuration where a command could: a cell freezes what is there, and what is not there a command
/// that writes directly could make, for the next run to obey.
fn keep_closed(folder: Option<&Path>, policy: &Policy) -> Result<(), Failure> {
    let Some(folder) = folder.map(real) else { return Ok(()) };
    if !policy.roots().iter().any(|root| folder.starts_with(&root.path)) {
        return Ok(());
    }
    match create_as_its_parent(&folder) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => Ok(()),
        // Where this user may not make it, no command may, since commands are this user's. Those of root are the workspace's owner's.
        Err(error)
            if error.kind() == ErrorKind::PermissionDenied && !rustix::process::geteuid().is_root() =>
        {
            Ok(())
        }
        Err(error) => Err(Failure::from(format!(
            "the folder of your configuration, {}, lies within reach of commands and cannot be made ({error}), while \
             one of them could make it; make it yourself, or work in another folder",
            folder.display()
        ))),
    }
}

/// Creates a folder and those above it that are missing, each for the owner of the one above: root makes none in a user's home that
/// the user cannot use.
fn create_as_its_parent(folder: &Path) -> std::io::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    for path in missing.into_iter().rev() {
        create_private(path)?;
        let above = std::fs::metadata(path.parent().unwrap_or(path))?;
        std::os::unix::fs::lchown(path, Some(above.uid()), Some(above.gid()))?;
    }
    Ok(())
}

fn cell(
    surroundings: &Surroundings,
    state: &Path,
    spawner: Option<Arc<Spawner>>,
) -> Result<CellSetup, Failure> {
    let spool = state.join("spool");
    create_private(&spool)?;
    let setup = toolchains::cell_setup(surroundings, spool, spawner);
    let [changes, records, homes] = ["changes", "sessions", "homes"].map(|name| Some(state.join(name)));
    Ok(CellSetup { changes, records, homes, entrance: entrance(), ..setup })
}

/// How this program begins a cell that the system's bwrap makes. One that was removed or replaced since it was started
/// cannot.
pub(crate) fn entrance() -> Option<Entrance> {
    let program = std::env::current_exe().and_then(|path| path.canonicalize()).ok()?;
    Some(Entrance { program, arguments: vec!["enter-cell".into()] })
}

/// The workspace, and the name by which it was asked for where links lead from there to it.
fn place(global: &Global, surroundings: &Surroundings) -> Result<Place, Failure> {
    let workspace = workspace(global, surroundings)?;
    let leads_here =
        |name: &PathBuf| *name != workspace && name.canonicalize().is_ok_and(|real| real == workspace);
    let named = match &global.workspace {
        Some(given) if given.is_relative() => {
            surroundings.named_directory.as_ref().map(|from| from.join(given))
        }
        Some(given) => Some(given.clone()),
        None => surroundings.named_directory.clone(),
    };
    // A name with `..` may mean another folder when it is read as it is spelled.
    let also_called = named
        .filter(|name| name.components().all(|part| part != Component::ParentDir))
        .map(|name| name.components().collect())
        .filter(leads_here);
    Ok(Place { workspace, also_called })
}

/// The workspace: absolute, without links, an existing folder.
pub(crate) fn workspace(global: &Global, surroundings: &Surroundings) -> Result<PathBuf, Failure> {
    let given = global.workspace.clone().or_else(|| surroundings.directory.clone());
    let given =
        given.ok_or_else(|| Failure::usage("there is no current directory; name one with --workspace"))?;
    let real = given.canonicalize().map_err(|error| {
        Failure::usage(format!("the workspace {} cannot be used: {error}", given.display()))
    })?;
    if !real.is_dir() {
        return Err(Failure::usage(format!("the workspace {} is not a folder", given.display())));
    }
    if real == Path::new("/") {
        return Err(Failure::usage(
            "the workspace cannot be the whole file system; name a folder with --workspace",
        ));
    }
    if surroundings.home.as_ref() == Some(&real) {
        warn("the workspace is your home folder: everything in it is within reach of the tools");
    }
    Ok(real)
}

pub(crate) fn state_folder(global: &Global, surroundings: &Surroundings) -> Result<PathBuf, Failure> {
    let folder = match &global.state {
        Some(folder) => std::path::absolute(folder)?,
        None => surroundings.state.clone().ok_or_else(|| {
            Failure::usage("there is no home folder to keep state in; name a folder with --state")
        })?,
    };
    create_private(&folder)
        .map_err(|error| format!("the state folder {} cannot be made: {error}", folder.display()))?;
    // Without links, because it is protected by its real name.
    Ok(folder.canonicalize()?)
}

/// Creates a folder that nobody else can enter, and those above it that are missing: arguments, output and the audit lie in it.
fn create_private(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

pub(crate) fn open_store(global: &Global, surroundings: &Surroundings) -> Result<Store, Failure> {
    Ok(Store::open(&state_folder(global, surroundings)?)?)
}

/// A folder of configuration as it is called and as it really lies, and where its file really lies: people keep them in a
/// repository and lead links there, and that may be the workspace.
fn under_every_name(folder: &Path) -> Vec<PathBuf> {
    let mut names = vec![folder.to_owned()];
    for real in [real(folder), real(&folder.join(USER_FILE))] {
        if !names.iter().any(|name| real.starts_with(name)) {
            names.push(real);
        }
    }
    names
}

/// The path without links, as far as it exists; where a link leads to nothing yet, what it leads to.
fn real(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    // As many links as the kernel follows.
    for _ in 0..40 {
        let target = path.read_link().ok().filter(|_| path.canonicalize().is_err());
        let Some(target) = target else { break };
        path = path.parent().unwrap_or(Path::new("/")).join(target);
    }
    let whole = path.ancestors().find_map(|existing| {
        let rest = path.strip_prefix(existing).ok()?;
        existing.canonicalize().ok().map(|real| real.join(rest).components().collect())
    });
    whole.unwrap_or(path)
}

/// The configuration files of one run, each with its layer, in the order of precedence.
struct Files(Vec<Layered>);

/// What makes an origin of a path.
type Layer = fn(FilePlace) -> Origin;

struct Layered {
    file: ConfigFile,
    origin: Origin,
    trust: Trust,
}

impl Files {
    fn read(surroundings: &Surroundings, place: &Place, store: &Store) -> Result<Self, Failure> {
        let read = |path: &Path| {
            ConfigFile::read(path).map_err(|error| error.without_what_lies_outside(&place.workspace))
        };
        let user = surroundings.configuration.as_ref().map(|folder| folder.join(USER_FILE));
        let user = user.map_or(Ok(None), |path| read(&path)).map_err(Failure::usage)?;
        let workspace = read(&place.workspace.join(WORKSPACE_FILE)).map_err(Failure::usage)?;
        let layers: [(Option<ConfigFile>, Layer); 3] = [
            (config::managed().map_err(Failure::usage)?, Origin::Managed),
            (user, Origin::User),
            (workspace, Origin::Workspace),
        ];
        let mut files = Vec::new();
        for (file, layer) in layers {
            let Some(file) = file else { continue };
            let origin = layer(file.path.as_path().into());
            let needs_trust = matches!(origin, Origin::Workspace(_));
            let trust =
                if needs_trust && !is_trusted(store, &file)? { Trust::Untrusted } else { Trust::Trusted };
            files.push(Layered { file, origin, trust });
        }
        Ok(Self(files))
    }

    /// The first value in the order of precedence: the managed file, the command line, the user's file, the workspace's.
    fn first<T>(
        &self,
        said: Option<T>,
        name: &str,
        key: impl Fn(&Settings) -> Option<T>,
    ) -> Option<(T, Origin)> {
        let value = |managed: bool| {
            let trusted = self.0.iter().filter(|layered| layered.trust == Trust::Trusted);
            let mut layer = trusted.filter(move |layered| layered.is_managed() == managed);
            layer.find_map(|layered| layered.value(name, &key))
        };
        value(true).or(said.map(|value| (value, Origin::CommandLine))).or_else(|| value(false))
    }

    /// The mode that the user chose for the whole run: what the command line says, else the user's file, else the workspace's. What
    /// the administrator and a workspace that is not trusted say goes along with their files, because it counts beside a profile's.
    fn mode(&self, said: Option<Mode>) -> Option<(Mode, Origin)> {
        let mut chosen =
            self.0.iter().filter(|layered| layered.trust == Trust::Trusted && !layered.is_managed());
        said.map(|mode| (mode, Origin::CommandLine)).or_else(|| chosen.find_map(Layered::mode))
    }

    /// The profiles that are bound to labels: of two files that bind one, the first counts.
    fn labels(&self) -> Labels {
        let trusted = self.0.iter().filter(|layered| layered.trust == Trust::Trusted).rev();
        trusted.filter_map(|layered| layered.file.settings.labels.clone()).flatten().collect()
    }

    /// The administrator's word, else the user's. Not even a workspace that is trusted says who answers for the user.
    fn elicitation(&self) -> Option<Elicitation> {
        let (of_workspace, others): (Vec<&Layered>, Vec<&Layered>) =
            self.0.iter().partition(|layered| matches!(layered.origin, Origin::Workspace(_)));
        for layered in of_workspace.iter().filter(|layered| layered.file.settings.elicitation.is_some()) {
            let path = layered.file.path.display();
            warn(&format!("`elicitation` is ignored in {path}; it belongs into your own configuration"));
        }
        others.iter().find_map(|layered| layered.file.settings.elicitation)
    }

    fn warn_of_ignored(&self) {
        for Layered { file, .. } in self.0.iter().filter(|layered| layered.trust == Trust::Untrusted) {
            let ignored = [
                ("profile", file.settings.profile.is_some()),
                ("labels", file.settings.labels.is_some()),
                ("dialect", file.settings.dialect.is_some()),
                ("catalogue", file.settings.catalogue.is_some()),
                ("mode", file.settings.mode.is_some_and(|mode| mode < Mode::default())),
            ];
            for (key, _) in ignored.into_iter().filter(|(_, named)| *named) {
                let path = file.path.display();
                warn(&format!(
                    "`{key}` is ignored, because {path} is not trusted; `handfast trust` trusts it"
                ));
            }
        }
    }
}

impl Layered {
    fn is_managed(&self) -> bool {
        matches!(self.origin, Origin::Managed(_))
    }

    fn mode(&self) -> Option<(Mode, Origin)> {
        self.value("mode", &|settings: &Settings| settings.mode)
    }

    fn into_source(self) -> Source {
        Source {
            mode: self.mode(),
            origin: self.origin,
            trust: self.trust,
            profiles: self.file.settings.sandbox_config,
            lines: self.file.lines.profiles,
        }
    }

    fn value<T>(&self, name: &str, key: &impl Fn(&Settings) -> Option<T>) -> Option<(T, Origin)> {
        Some((key(&self.file.settings)?, self.origin.at(self.file.lines.of_key(name))))
    }
}

/// Whether the user trusts exactly the bytes that were parsed.
fn is_trusted(store: &Store, file: &ConfigFile) -> Result<bool, Failure> {
    let real = file.path.canonicalize()?;
    Ok(store.trust().trusted_hash(&real)? == Some(file.hash))
}

/// The configuration of one run, read and not yet compiled.
pub(crate) struct Configuration {
    toolset: Toolset,
    elicitation: Option<Elicitation>,
    sources: Vec<Source>,
    profile: Option<(String, Origin)>,
    mode: Option<(Mode, Origin)>,
    protected: Vec<PathBuf>,
    programs: Programs,
    workspace: PathBuf,
    home: Option<PathBuf>,
    tools: Vec<&'static str>,
}

impl Configuration {
    /// What the tools are called, and which are listed.
    pub(crate) fn toolset(&self) -> Toolset {
        self.toolset
    }

    /// Every tool, in the order in which they are listed.
    pub(crate) fn tools(&self) -> Vec<Arc<dyn tool::AnyTool>> {
        self.toolset.tools(&self.programs)
    }

    /// The configuration of a command that runs nothing.
    pub(crate) fn of(global: &Global) -> Result<Self, Failure> {
        let surroundings = Surroundings::of_this_process();
        let place = place(global, &surroundings)?;
        let state = state_folder(global, &surroundings)?;
        let store = Store::open(&state)?;
        Self::read(global, &surroundings, &place, &state, &store)
    }

    /// Reads the files, and says what of them does not count.
    fn read(
        global: &Global,
        surroundings: &Surroundings,
        place: &Place,
        state: &Path,
        store: &Store,
    ) -> Result<Self, Failure> {
        let files = Files::read(surroundings, place, store)?;
        files.warn_of_ignored();
        let protected = [state.to_owned(), place.workspace.join(WORKSPACE_FILE)].into_iter().chain(
            [Some(PathBuf::from(MANAGED_FOLDER)), surroundings.configuration.clone()]
                .into_iter()
                .flatten()
                .flat_map(|folder| under_every_name(&folder)),
        );
        let programs = toolchains::programs(
            toolchains::search_path(surroundings),
            vec![place.workspace.clone(), PathBuf::from("/tmp")],
        );
        let labels = files.labels();
        let wanted = match &global.label {
            Some(label) => Some(profile_of(&labels, label).map_err(Failure::usage)?),
            None => global.profile.clone(),
        };
        let profile = files.first(wanted, "profile", |settings| settings.profile.clone());
        let chosen = profile.as_ref().map_or(policy::DEFAULT_PROFILE, |(name, _)| name);
        require(&labels, chosen, global.label.as_deref()).map_err(Failure::usage)?;
        Ok(Self {
            toolset: Toolset {
                read_only: global.read_only,
                dialect: files
                    .first(global.dialect, "dialect", |settings| settings.dialect)
                    .map_or(Dialect::default(), |(dialect, _)| dialect),
                catalogue: files
                    .first(global.catalogue, "catalogue", |settings| settings.catalogue)
                    .map(|(kind, _)| kind),
            },
            elicitation: files.elicitation(),
            profile,
            mode: files.mode(global.mode),
            sources: files.0.into_iter().map(Layered::into_source).collect(),
            protected: protected.collect(),
            programs,
            workspace: place.workspace.clone(),
            home: surroundings.home.clone(),
            tools: canonical().iter().map(|tool| tool.spec().name).collect(),
        })
    }

    /// What a policy is compiled from.
    pub(crate) fn setup(&self) -> policy::Setup<'_> {
        policy::Setup {
            sources: &self.sources,
            profile: self.profile.as_ref().map_or(policy::DEFAULT_PROFILE, |(name, _)| name),
            mode: self.mode.clone(),
            dialect: self.toolset.settled(),
            workspace: &self.workspace,
            home: self.home.as_deref(),
            protected: &self.protected,
            programs: self.programs.clone(),
            tools: &self.tools,
        }
    }
}

/// Compiles what the configuration files come to.
fn compile(configuration: &Configuration) -> Result<Policy, Failure> {
    let setup = configuration.setup();
    let policy = Policy::compile(&setup).map_err(Failure::usage)?;
    for warning in policy.warnings() {
        warn(&warning.to_string());
    }
    for finding in policy.findings(&setup) {
        warn(&finding.to_string());
    }
    Ok(policy)
}

/// A session's id: the process and when it began.
fn new_session() -> SessionId {
    let began = SystemClock.now().as_millisecond();
    SessionId(format!("s{began:x}-{}", std::process::id()))
}

/// The machine's clock.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everything else goes through")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
