//! The service of the family: the code graphs of one workspace, which are opened by the first query and kept warm.
//!
//! Calls with other rights see other files. Each call lists the files that it may read, and its graph is made of
//! exactly these. A few graphs are kept, so that callers with different rights do not undo each other's work; which
//! of them a call gets decides about time alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use codegraph::{GraphFolder, Language, MoreLanguages, NoMoreLanguages};
use jiff::Timestamp;
use parking_lot::{Condvar, Mutex};
use roots::Roots;
use tool::{Context, Owner, Resource, ResourcePool, ResourceUsage, Threads, ToolError};
use tool_support::files::failure;

use crate::commit::{CommitGraphs, OfCommit};
use crate::imports::Imports;
use crate::keeper::{FACTS, Facts, Grammars, Keeper};
use crate::listing::{Listing, list};
use crate::view::{Answerable, Stores, Unkept, View, difference, ended};

/// Number of graphs that are kept.
const VIEWS: usize = 3;

/// Number of files by which a graph may differ from those of a call and still be the one for it.
const NEAR: usize = 64;

/// Number of queries and reads of commits that run at one time. Each may take some 256 MiB.
const QUERIES: usize = 2;

/// Interval between two times at which a graph that follows edits is kept while the runtime lives. Copying it takes
/// about 100 ms for 350,000 lines.
const BETWEEN: Duration = Duration::from_mins(1);

/// Interval at which a waiting call looks whether it was stopped.
const LOOK: Duration = Duration::from_millis(50);

/// The code graphs of a workspace.
pub struct CodeGraphs {
    folder: PathBuf,
    facts: Mutex<Facts>,
    kept: GraphFolder,
    imports: Imports,
    /// Time at which a graph was kept while nobody waited.
    kept_at: Mutex<Option<Instant>>,
    languages: Arc<dyn MoreLanguages>,
    /// Languages of which was said that their files are left out.
    said: Mutex<BTreeSet<Language>>,
    views: Mutex<Vec<KeptView>>,
    commits: CommitGraphs,
    running: Mutex<usize>,
    finished: Condvar,
    is_ended: AtomicBool,
    /// Called after the first graph was made.
    on_use: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// A view, and what is known of it without waiting for it.
struct KeptView {
    view: Arc<Mutex<View>>,
    /// Paths that the last call with it could read.
    paths: Arc<[Arc<str>]>,
    since: Timestamp,
}

/// A permission to run one query or to read one commit.
pub(crate) struct Turn<'a>(&'a CodeGraphs);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.running.lock() -= 1;
        self.0.finished.notify_one();
    }
}

impl CodeGraphs {
    /// Creates the service of a workspace, whose facts are kept in a folder. Opens nothing yet.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            kept: GraphFolder::new(&folder, FACTS),
            imports: Imports::new(&folder),
            kept_at: Mutex::default(),
            folder,
            facts: Mutex::default(),
            languages: Arc::new(NoMoreLanguages),
            said: Mutex::default(),
            views: Mutex::default(),
            commits: CommitGraphs::default(),
            running: Mutex::default(),
            finished: Condvar::new(),
            is_ended: AtomicBool::new(false),
            on_use: Mutex::default(),
        }
    }

    /// Adds languages whose grammars are in another program.
    #[must_use]
    pub fn with_languages(self, languages: Arc<dyn MoreLanguages>) -> Self {
        Self { languages, ..self }
    }

    /// Returns the graph of the files that the call may read, as they are now. Blocks.
    pub(crate) fn answerable(&self, context: &Context) -> Result<Answerable, ToolError> {
        let answerable = self.answerable_unless(context, &|| false)?;
        self.say_what_is_missing(context, &answerable);
        Ok(answerable)
    }

    /// Warns of files in languages that are not installed, once for each language.
    fn say_what_is_missing(&self, context: &Context, answerable: &Answerable) {
        let mut said = self.said.lock();
        let new: Vec<_> = answerable.missing.iter().filter(|(language, _)| said.insert(**language)).collect();
        if new.is_empty() {
            return;
        }
        let files = |(language, count): &(&Language, &u64)| {
            let plural = if **count == 1 { "" } else { "s" };
            format!("{count} file{plural} of {}", language.title())
        };
        let files: Vec<String> = new.iter().map(files).collect();
        let why = self.languages.problem().unwrap_or_else(|| "run `handfast setup languages`".to_owned());
        context.warn(format!("not in the code graph: {}; {why}", files.join(" and ")));
    }

    /// Returns the languages that can be extracted now.
    pub(crate) fn grammars(&self) -> Grammars {
        Grammars::now(self.languages.as_ref())
    }

    /// Returns the store for the work of one call.
    fn keeper<'a>(&'a self, grammars: &'a Grammars, is_stopped: &'a dyn Fn() -> bool) -> Keeper<'a> {
        let (facts, folder) = (&self.facts, self.folder.as_path());
        Keeper { facts, folder, languages: self.languages.as_ref(), grammars, is_stopped }
    }

    /// Returns the same, unless the work is broken off. What was done until then is kept.
    pub(crate) fn answerable_unless(
        &self,
        context: &Context,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Answerable, ToolError> {
        self.check()?;
        let roots = context.service::<Roots>()?;
        let grammars = self.grammars();
        let listing = list(context, &roots, &grammars).map_err(failure(context))?;
        let view = self.view_for(context, &listing);
        let mut view = loop {
            if let Some(view) = view.try_lock_for(LOOK) {
                break view;
            }
            context.stop.check()?;
            self.check()?;
            if is_over() {
                return Err(ended());
            }
        };
        let is_ended = || self.is_ended() || is_over();
        let is_stopped = || is_ended() || context.stop.requested().is_some();
        let mut facts = self.keeper(&grammars, &is_stopped);
        let imported = self.imports.now(context);
        let mut stores = Stores { facts: &mut facts, graphs: &self.kept, imported: &imported };
        let updated = view.update(context, &roots, &listing, &mut stores, &is_ended);
        let unkept = if updated.is_ok() { view.unkept(true) } else { None };
        drop(view);
        self.flush(context);
        if let Some(unkept) = unkept {
            self.keep_behind(context, unkept);
        }
        let on_use = if updated.is_ok() { self.on_use.lock().take() } else { None };
        if let Some(on_use) = on_use {
            on_use();
        }
        updated
    }

    /// Returns the graph of a commit: of its files that the call may read. Blocks.
    pub(crate) fn of_commit(&self, context: &Context, revision: &str) -> Result<OfCommit, ToolError> {
        let is_ended = || self.is_ended();
        let _turn = self.turn(context)?;
        let is_stopped = || is_ended() || context.stop.requested().is_some();
        let grammars = self.grammars();
        let mut keeper = self.keeper(&grammars, &is_stopped);
        let found = self.commits.of(context, revision, &grammars, &mut keeper, &is_ended);
        self.flush(context);
        found
    }

    /// Keeps a graph on a thread, while the call goes on.
    fn keep_behind(&self, context: &Context, unkept: Unkept) {
        let Ok(threads) = context.service::<Threads>() else {
            unkept.keep(&self.kept);
            return;
        };
        let kept = self.kept.clone();
        // A runtime that ends starts no thread, and the next one builds the graph anew.
        drop(threads.start("graph keeper", Owner::Runtime, move |_| unkept.keep(&kept)));
    }

    fn flush(&self, context: &Context) {
        self.languages.rest();
        let problem = self.facts.lock().flush();
        if let Some(problem) = problem {
            context.warn(format!("the facts of the code graph are not kept for the next start: {problem}"));
        }
    }

    /// Calls a function once, after the first graph was made. It must return soon.
    pub fn on_first_use(&self, function: impl FnOnce() + Send + 'static) {
        *self.on_use.lock() = Some(Box::new(function));
    }

    /// Returns the folders that have files of the graph that was used last, relative to the workspace.
    pub fn folders(&self) -> BTreeSet<PathBuf> {
        let paths = self.views.lock().last().map(|kept| kept.paths.clone());
        let folders =
            paths.iter().flat_map(|paths| paths.iter()).filter_map(|path| Path::new(&**path).parent());
        folders.flat_map(Path::ancestors).map(Path::to_owned).collect()
    }

    /// Makes graphs quick to change that many changes have made slow, and keeps them for the next start now and then.
    /// To be called when nobody waits for an answer.
    pub fn tidy(&self) {
        for view in self.idle_views() {
            if let Some(mut view) = view.try_lock() {
                view.tidy();
            }
        }
        let mut kept_at = self.kept_at.lock();
        if kept_at.is_none_or(|last| last.elapsed() >= BETWEEN) && self.keep_all() {
            *kept_at = Some(Instant::now());
        }
    }

    /// Keeps the graphs and relationships that are not kept yet. Returns true if there was one.
    fn keep_all(&self) -> bool {
        let mut has_kept = false;
        for view in self.idle_views() {
            let Some(mut view) = view.try_lock() else { continue };
            let unkept = view.unkept(false);
            if unkept.is_some() {
                view.keep_relationships(&mut self.keeper(&Grammars::default(), &|| true));
            }
            drop(view);
            has_kept |= unkept.is_some();
            if let Some(unkept) = unkept {
                unkept.keep(&self.kept);
            }
        }
        has_kept
    }

    fn idle_views(&self) -> Vec<Arc<Mutex<View>>> {
        self.views.lock().iter().map(|kept| kept.view.clone()).collect()
    }

    /// Waits for the permission to run a query or to read a commit.
    pub(crate) fn turn(&self, context: &Context) -> Result<Turn<'_>, ToolError> {
        let mut running = self.running.lock();
        while *running >= QUERIES {
            self.finished.wait_for(&mut running, LOOK);
            context.stop.check()?;
            self.check()?;
        }
        *running += 1;
        Ok(Turn(self))
    }

    /// Returns true once the runtime ends.
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }

    fn check(&self) -> Result<(), ToolError> {
        if self.is_ended() { Err(ended()) } else { Ok(()) }
    }

    /// Returns the kept view that is nearest to the files of a call, or a new one.
    fn view_for(&self, context: &Context, listing: &Listing) -> Arc<Mutex<View>> {
        let paths: Arc<[Arc<str>]> = listing.files.iter().map(|file| file.path.as_str().into()).collect();
        let mut views = self.views.lock();
        let bound = NEAR.max(listing.files.len() / 16) + 1;
        let distances = views.iter().map(|kept| difference(&kept.paths, listing, bound)).enumerate();
        let nearest =
            distances.min_by_key(|(_, distance)| *distance).filter(|(_, distance)| *distance < bound);
        let mut kept = match nearest {
            Some((at, _)) => views.remove(at),
            None => KeptView {
                view: Arc::new(Mutex::new(View::new(&name(context)))),
                paths: paths.clone(),
                since: context.clock.now(),
            },
        };
        kept.paths = paths;
        let view = kept.view.clone();
        // The one that was used last stands last.
        views.push(kept);
        if views.len() > VIEWS {
            views.remove(0);
        }
        view
    }
}

/// Returns the name of the project: that of its folder.
fn name(context: &Context) -> String {
    let name = context.place.workspace.file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "workspace".to_owned())
}

impl ResourcePool for CodeGraphs {
    fn list(&self, _now: Timestamp) -> Vec<Resource> {
        let views = self.views.lock();
        let resource = |kept: &KeptView| Resource {
            kind: "code graph",
            owner: Owner::Runtime,
            since: kept.since,
            description: format!("the graph of {} files", kept.paths.len()),
            usage: ResourceUsage::default(),
        };
        views.iter().map(resource).collect()
    }

    fn stop(&self, owner: &Owner) {
        if *owner == Owner::Runtime {
            self.is_ended.store(true, Ordering::Relaxed);
        }
    }

    fn join(&self, owner: &Owner) {
        if *owner == Owner::Runtime {
            self.keep_all();
            // Calls that still have one of them end by themselves.
            self.views.lock().clear();
            self.commits.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use testkit::{DenyNames, Workspace};
    use tool::{Code, Owner, ResourcePool};

    use crate::tests::World;

    #[test]
    fn the_end_of_the_runtime_drops_the_graphs_and_refuses_further_ones() {
        let world = World::new(Workspace::new().with_files(&[("a.py", "def f():\n    pass\n")]));
        assert_eq!(world.graphs.list(Timestamp::UNIX_EPOCH), []);
        world.ask("RETURN 1").unwrap();
        assert_eq!(world.graphs.list(Timestamp::UNIX_EPOCH).len(), 1);
        let other = Owner::Session(tool::SessionId("s".to_owned()));
        world.graphs.stop(&other);
        world.graphs.join(&other);
        assert_eq!(world.graphs.list(Timestamp::UNIX_EPOCH).len(), 1);
        world.graphs.stop(&Owner::Runtime);
        world.graphs.join(&Owner::Runtime);
        assert_eq!(world.graphs.list(Timestamp::UNIX_EPOCH), []);
        let error = world.ask("RETURN 1").unwrap_err();
        assert_eq!(error.code, Code::Unavailable, "{}", error.message);
        assert_eq!(world.graphs.list(Timestamp::UNIX_EPOCH), []);
    }

    #[test]
    fn more_queries_than_there_is_room_for_wait_and_can_be_stopped() {
        let world = World::new(Workspace::new());
        let context = world.workspace.context();
        let turns = [world.graphs.turn(&context).unwrap(), world.graphs.turn(&context).unwrap()];
        let other = world.workspace.context();
        other.stop.request(tool::StopReason::Cancelled);
        assert_eq!(world.graphs.turn(&other).err().map(|error| error.code), Some(Code::Cancelled));
        drop(turns);
        assert!(world.graphs.turn(&other).is_ok(), "there is room again");
    }

    #[test]
    fn callers_with_very_different_rights_have_graphs_of_their_own() {
        let workspace = Workspace::new();
        for number in 0..200 {
            workspace.write(&format!("closed/m{number}.py"), format!("def f{number}():\n    pass\n"));
        }
        workspace.write("open.py", "def g():\n    pass\n");
        let World { workspace, graphs } = World::new(workspace);
        let open = World { workspace, graphs };
        let count =
            |world: &World| world.ask("MATCH (f:File) RETURN count(f) AS n").unwrap()["rows"][0]["n"].clone();
        assert_eq!(count(&open), 201);
        let World { workspace, graphs } = open;
        let closed =
            World { workspace: workspace.guarded(DenyNames { read: &["closed"], write: &[] }), graphs };
        assert_eq!(count(&closed), 1);
        assert_eq!(closed.graphs.list(Timestamp::UNIX_EPOCH).len(), 2);
        let World { workspace, graphs } = closed;
        let open = World { workspace: workspace.guarded(DenyNames { read: &[], write: &[] }), graphs };
        assert_eq!(count(&open), 201);
        assert_eq!(open.graphs.list(Timestamp::UNIX_EPOCH).len(), 2);
    }

    /// Returns the same workspace as a process finds it that starts now.
    fn restarted(world: World) -> World {
        World::new(world.workspace)
    }

    fn is_opened(world: &World) -> Vec<bool> {
        world.graphs.views.lock().iter().map(|kept| kept.view.lock().is_opened()).collect()
    }

    fn functions(world: &World) -> String {
        let found = world.ask("MATCH (f:Function) RETURN f.name AS n ORDER BY n").unwrap();
        found["rows"].as_array().unwrap().iter().map(|row| row["n"].as_str().unwrap()).collect()
    }

    #[test]
    fn an_unchanged_workspace_opens_its_graph_and_an_edit_after_it_is_seen() {
        let mut world = World::new(
            Workspace::new().with_files(&[("a.py", "def a():\n    b()\n"), ("b.rs", "fn b() {}\n")]),
        );
        assert_eq!((functions(&world).as_str(), is_opened(&world)), ("ab", vec![false]));
        world = restarted(world);
        assert_eq!((functions(&world).as_str(), is_opened(&world)), ("ab", vec![true]));
        world.workspace.write("b.rs", "fn c() {}\nfn d() { c() }\n");
        assert_eq!((functions(&world).as_str(), is_opened(&world)), ("acd", vec![false]));
        let calls = "MATCH (f)-[:CALLS]->(g:Function) RETURN f.name AS f, g.name AS g";
        assert_eq!(world.ask(calls).unwrap()["rows"], serde_json::json!([{"f": "d", "g": "c"}]));
        // A patched graph is kept when the runtime ends.
        world.graphs.stop(&Owner::Runtime);
        world.graphs.join(&Owner::Runtime);
        world = restarted(world);
        assert_eq!((functions(&world).as_str(), is_opened(&world)), ("acd", vec![true]));
        std::fs::remove_file(world.workspace.at("a.py")).unwrap();
        assert_eq!((functions(&world).as_str(), is_opened(&world)), ("cd", vec![false]));
        world.workspace.write("b.rs", "fn e() {}\n");
        world = restarted(world);
        assert_eq!(
            (functions(&world).as_str(), is_opened(&world)),
            ("e", vec![false]),
            "it was changed since"
        );
    }

    #[test]
    fn an_opened_graph_has_only_the_files_that_the_call_may_read() {
        let workspace = Workspace::new()
            .with_files(&[("open.py", "def a():\n    pass\n"), ("closed/m.py", "def z():\n    pass\n")]);
        let mut world = World::new(workspace);
        assert_eq!(functions(&world), "az", "the control");
        for _ in 0..2 {
            let denies = DenyNames { read: &["closed"], write: &[] };
            world = World::new(world.workspace.guarded(denies));
            assert_eq!(functions(&world), "a");
        }
        assert_eq!(is_opened(&world), [true]);
        world = World::new(world.workspace.guarded(DenyNames { read: &[], write: &[] }));
        assert_eq!((functions(&world).as_str(), is_opened(&world)), ("az", vec![true]));
    }

    #[test]
    fn facts_that_are_damaged_after_the_opening_are_read_from_the_files() {
        let mut world = World::new(
            Workspace::new().with_files(&[("a.py", "def a():\n    pass\n"), ("b.py", "def b():\n    a()\n")]),
        );
        assert_eq!(functions(&world), "ab");
        world = restarted(world);
        assert_eq!((functions(&world).as_str(), is_opened(&world)), ("ab", vec![true]));
        for name in world.workspace.names("../facts") {
            if name.contains(".facts") {
                let path = world.workspace.at(&format!("../facts/{name}"));
                let mut content = std::fs::read(&path).unwrap();
                let half = content.len() / 2;
                content[half..].fill(0);
                std::fs::write(&path, content).unwrap();
            }
        }
        world.workspace.write("c.py", "def c():\n    pass\n");
        assert_eq!((functions(&world).as_str(), is_opened(&world)), ("abc", vec![false]));
    }

    #[test]
    fn a_folder_for_facts_that_cannot_be_used_costs_time_alone() {
        let world = World::new(
            Workspace::new().with_files(&[("a.py", "def f():\n    pass\n"), ("../facts", "no folder")]),
        );
        let found = world.ask("MATCH (f:Function) RETURN f.name AS n").unwrap();
        assert_eq!(found["rows"][0]["n"], "f");
    }
}
