//! Puts the runtime together: surroundings, configuration, policy, store, tools, engine.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use engine::{CellSetup, DuplicateTool, Engine, Parts, Redactor, Registry};
use jiff::Timestamp;
use policy::{Mode, Origin, Policy, Source, Trust};
use sandbox::{SessionLimits, Spawner};
use store::Store;
use tool::{AnyTool, Catalogue, CatalogueEntry, Clock, Place, SessionId};

use crate::cli::Global;
use crate::commands::Failure;
use crate::config::{ConfigFile, MANAGED_FILE, MANAGED_FOLDER, Settings, USER_FILE, WORKSPACE_FILE};
use crate::report::warn;
use crate::surroundings::Surroundings;
use crate::toolchains;

/// When the built-in tools of this version became part of it.
const RELEASED: &str = "2026-11-21T00:00:00Z";

/// A runtime, put together for one command of the program.
pub(crate) struct Composed {
    pub(crate) engine: Arc<Engine>,
    pub(crate) store: Arc<Store>,
    pub(crate) session: SessionId,
    pub(crate) workspace: PathBuf,
}

/// Every tool, in the order in which they are listed.
pub(crate) fn registered() -> Vec<Arc<dyn AnyTool>> {
    [tools_files::tools(), tools_shell::tools(), tools_self::tools()].concat()
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
    let store = Arc::new(Store::open(&state)?);
    let policy = Arc::new(compile(global, &surroundings, &place, &state, &store)?);
    let registry =
        Registry::new(registered()).map_err(|DuplicateTool(name)| format!("two tools are named {name}"))?;
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
    Ok(Composed { engine: Arc::new(engine), store, session: new_session(), workspace })
}

fn cell(
    surroundings: &Surroundings,
    state: &Path,
    spawner: Option<Arc<Spawner>>,
) -> Result<CellSetup, Failure> {
    let spool = state.join("spool");
    create_private(&spool)?;
    let setup = toolchains::cell_setup(surroundings, spool, spawner);
    Ok(CellSetup { changes: Some(state.join("changes")), ..setup })
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

/// The configuration files of one run, each with its layer, in the order of precedence.
struct Files(Vec<Layered>);

/// What makes an origin of a path.
type Layer = fn(Arc<Path>) -> Origin;

struct Layered {
    file: ConfigFile,
    origin: Origin,
    trust: Trust,
}

impl Files {
    fn read(surroundings: &Surroundings, place: &Place, store: &Store) -> Result<Self, Failure> {
        let layers: [(Option<PathBuf>, Layer); 3] = [
            (Some(PathBuf::from(MANAGED_FILE)), Origin::Managed),
            (surroundings.configuration.as_ref().map(|folder| folder.join(USER_FILE)), Origin::User),
            (Some(place.workspace.join(WORKSPACE_FILE)), Origin::Workspace),
        ];
        let mut files = Vec::new();
        for (path, layer) in layers {
            let Some(path) = path else { continue };
            let Some(file) = ConfigFile::read(&path)
                .map_err(|error| Failure::usage(error.without_what_lies_outside(&place.workspace)))?
            else {
                continue;
            };
            let origin = layer(path.as_path().into());
            let needs_trust = matches!(origin, Origin::Workspace(_));
            let trust =
                if needs_trust && !is_trusted(store, &file)? { Trust::Untrusted } else { Trust::Trusted };
            files.push(Layered { file, origin, trust });
        }
        Ok(Self(files))
    }

    /// The first value in the order of precedence: the managed file, the command line, the user's file, the workspace's.
    fn first<T>(&self, said: Option<T>, key: impl Fn(&Settings) -> Option<T>) -> Option<(T, Origin)> {
        let value = |managed: bool| {
            let trusted = self.0.iter().filter(|layered| layered.trust == Trust::Trusted);
            let mut layer =
                trusted.filter(move |layered| matches!(layered.origin, Origin::Managed(_)) == managed);
            layer.find_map(|layered| Some((key(&layered.file.settings)?, layered.origin.clone())))
        };
        value(true).or(said.map(|value| (value, Origin::CommandLine))).or_else(|| value(false))
    }

    /// The mode of the whole run: a workspace that is not trusted can make it stricter.
    fn mode(&self, said: Option<Mode>) -> Option<(Mode, Origin)> {
        let chosen = self.first(said, |settings| settings.mode);
        let untrusted = self.0.iter().filter(|layered| layered.trust == Trust::Untrusted);
        let stricter = untrusted
            .filter_map(|layered| Some((layered.file.settings.mode?, layered.origin.clone())))
            .find(|(mode, _)| *mode > chosen.as_ref().map_or_else(Mode::default, |(chosen, _)| *chosen));
        stricter.or(chosen)
    }

    fn warn_of_ignored(&self) {
        for Layered { file, .. } in self.0.iter().filter(|layered| layered.trust == Trust::Untrusted) {
            let ignored = [
                ("profile", file.settings.profile.is_some()),
                ("dialect", file.settings.dialect.is_some()),
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

/// Whether the user trusts exactly the bytes that were parsed.
fn is_trusted(store: &Store, file: &ConfigFile) -> Result<bool, Failure> {
    let real = file.path.canonicalize()?;
    Ok(store.trust().trusted_hash(&real)? == Some(file.hash))
}

/// Reads the configuration files and compiles what they come to.
fn compile(
    global: &Global,
    surroundings: &Surroundings,
    place: &Place,
    state: &Path,
    store: &Store,
) -> Result<Policy, Failure> {
    let files = Files::read(surroundings, place, store)?;
    files.warn_of_ignored();
    let profile = files.first(global.profile.clone(), |settings| settings.profile.clone());
    let protected: Vec<PathBuf> =
        [state.to_owned(), place.workspace.join(WORKSPACE_FILE), PathBuf::from(MANAGED_FOLDER)]
            .into_iter()
            .chain(surroundings.configuration.clone())
            .collect();
    let sources: Vec<Source> = files
        .0
        .iter()
        .map(|layered| Source {
            origin: layered.origin.clone(),
            trust: layered.trust,
            profiles: layered.file.settings.sandbox_config.clone(),
        })
        .collect();
    let policy = Policy::compile(&policy::Setup {
        sources: &sources,
        profile: profile.as_ref().map_or(policy::DEFAULT_PROFILE, |(name, _)| name),
        mode: files.mode(global.mode),
        dialect: policy::Dialect::default(),
        workspace: &place.workspace,
        home: surroundings.home.as_deref(),
        protected: &protected,
        programs: toolchains::programs(
            toolchains::search_path(surroundings),
            vec![place.workspace.clone(), PathBuf::from("/tmp")],
        ),
    })
    .map_err(Failure::usage)?;
    for warning in policy.warnings() {
        warn(&warning.to_string());
    }
    Ok(policy)
}

fn catalogue(tools: &[Arc<dyn AnyTool>]) -> Result<Catalogue, Failure> {
    let created_at: Timestamp = RELEASED.parse()?;
    let entry = |tool: &Arc<dyn AnyTool>| CatalogueEntry {
        name: tool.spec().name.to_owned(),
        kind: "built_in",
        description: tool.spec().description.to_owned(),
        level: tool.spec().level,
        status: "ready".to_owned(),
        created_at,
    };
    Ok(Catalogue(tools.iter().map(entry).collect()))
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
