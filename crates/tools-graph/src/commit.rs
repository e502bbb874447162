//! The graph of a commit, without a checkout.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use codegraph::{Change, CodeIndex, ExtractLimits, FactsStore, LiveGraph};
use parking_lot::Mutex;
use roots::{Roots, RootsError};
use tool::{Code, Context, ToolError};
use tool_support::files::failure;

use crate::git::{CommitFile, GitError, Objects, files, resolve};
use crate::keeper::Grammars;
use crate::view::{Answerable, Snapshot, ended, too_large};

/// Number of graphs of commits that are kept.
const KEPT: usize = 2;

/// Hint about a missing object. `git archive` reads every file of a commit, so it fetches what is missing.
const MISSING_HINT: &str = "nothing is fetched here. In a shallow clone run `git fetch --unshallow`; in a partial one \
     `git archive --output=/dev/null COMMIT` with the commit; with shared objects let the call read their repository";

/// Number of files between two reports of progress.
const FILES_PER_REPORT: usize = 100;

/// Graphs of commits by the stamp of the languages and a hash of the paths and contents of their files. So a graph is only found again by a call
/// that may read exactly these files.
#[derive(Default)]
pub(crate) struct CommitGraphs(Mutex<VecDeque<(u64, Snapshot)>>);

/// A graph of a commit for one call.
pub(crate) struct OfCommit {
    /// Graph.
    pub(crate) answerable: Answerable,
    /// Id of the commit.
    pub(crate) commit: String,
}

impl CommitGraphs {
    /// Returns the graph of a commit: of its files that the call may read. Blocks.
    pub(crate) fn of(
        &self,
        context: &Context,
        revision: &str,
        grammars: &Grammars,
        store: &mut dyn FactsStore,
        is_ended: &dyn Fn() -> bool,
    ) -> Result<OfCommit, ToolError> {
        let roots = context.service::<Roots>()?;
        let failed = |error| failed(context, error);
        let workspace = &context.place.workspace;
        let mut objects = Objects::open(&roots, workspace).map_err(failed)?;
        let commit = resolve(&mut objects, revision.trim()).map_err(failed)?;
        let may_read = |path: &str| roots.may_read(&workspace.join(path)).is_ok();
        let is_code = |path: &str| grammars.reads(path);
        let is_stopped = || context.stop.requested().is_some() || is_ended();
        let (files, left_out) =
            files(&mut objects, &commit, (&may_read, &is_code), &is_stopped).map_err(failed)?;
        context.stop.check()?;
        let generation = generation(&files);
        let stamp = grammars.stamp;
        let is_wanted = |known: &&(u64, Snapshot)| known.0 == stamp && known.1.generation == generation;
        let known = self.0.lock().iter().find(is_wanted).cloned();
        let snapshot = match known {
            Some((_, known)) => known,
            None => {
                let built = build(context, &mut objects, &files, generation, store, is_ended)?;
                let mut kept = self.0.lock();
                kept.push_back((stamp, built.clone()));
                if kept.len() > KEPT {
                    kept.pop_front();
                }
                built
            }
        };
        let answerable = Answerable { snapshot, pending: 0, left_out, missing: BTreeMap::new() };
        Ok(OfCommit { answerable, commit: commit.to_string() })
    }

    /// Drops all graphs.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}

/// Returns a hash of paths and contents.
fn generation(files: &[CommitFile]) -> Arc<str> {
    let mut hasher = blake3::Hasher::new();
    for file in files {
        hasher.update(file.path.as_bytes());
        hasher.update(&[0]);
        hasher.update(&file.id.0);
    }
    hasher.finalize().to_hex().as_str().into()
}

fn build(
    context: &Context,
    objects: &mut Objects<'_>,
    files: &[CommitFile],
    generation: Arc<str>,
    store: &mut dyn FactsStore,
    is_ended: &dyn Fn() -> bool,
) -> Result<Snapshot, ToolError> {
    let mut index = CodeIndex::new(ExtractLimits::default());
    for (done, file) in files.iter().enumerate() {
        context.stop.check()?;
        if is_ended() {
            return Err(ended());
        }
        if done % FILES_PER_REPORT == FILES_PER_REPORT - 1 {
            context.progress.report(done as u64, Some(files.len() as u64), "files read");
        }
        let (_, content) = objects.read(&file.id).map_err(|error| failed(context, error))?;
        index.take(Change::Written { path: file.path.clone(), content }, store);
    }
    index.settle_changes();
    let name = context.place.workspace.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut live = LiveGraph::new(name.as_deref().unwrap_or("workspace"));
    let graph = live.graph(&index).map_err(too_large)?;
    Ok(Snapshot { graph: Arc::new(graph), files: index.file_count(), generation })
}

/// Converts an error of the repository.
fn failed(context: &Context, error: GitError) -> ToolError {
    let (code, hint) = match error {
        GitError::Roots(RootsError::Stopped) => return failure(context)(RootsError::Stopped),
        GitError::Roots(
            error @ (RootsError::NotInRoots { .. }
            | RootsError::LeadsOutside { .. }
            | RootsError::Refused { .. }),
        ) => return failure(context)(error),
        GitError::UnknownRevision(_) => {
            (Code::NotFound, "give an id, a branch, a tag, or HEAD, such as HEAD~3")
        }
        GitError::NoRepository => (Code::NotFound, "leave `commit` out to ask about the files as they are"),
        GitError::Missing(_) => (Code::NotFound, MISSING_HINT),
        GitError::Unsupported(_) => (Code::Unavailable, "check the commit out, and ask without `commit`"),
        GitError::TooLarge => (Code::Quota, "check the commit out, and ask without `commit`"),
        GitError::Damaged(_) | GitError::Roots(_) | GitError::Io(_) => {
            (Code::Runtime, "`git fsck` finds what is damaged")
        }
    };
    ToolError::new(code, format!("`commit`: {error}")).hint(hint)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use serde_json::{Value, json};
    use testkit::{DenyNames, Workspace};
    use tool::Code;

    use crate::tests::World;

    /// Runs git in a folder, without any configuration of the machine.
    #[expect(clippy::disallowed_methods, reason = "the test makes repositories with git itself")]
    fn git(folder: &Path, arguments: &[&str]) -> String {
        let run = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"])
            .args(arguments)
            .current_dir(folder)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(run.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8(run.stdout).unwrap().trim().to_owned()
    }

    /// A repository with three commits: functions are added, renamed and removed.
    fn world() -> World {
        let world = World::new(Workspace::new().with_files(&[("src/a.py", "def first():\n    pass\n")]));
        let folder = world.workspace.path();
        git(folder, &["init", "-q"]);
        let commit = |message: &str| {
            git(folder, &["add", "-A"]);
            git(folder, &["commit", "-qm", message]);
        };
        commit("one");
        let many: String = (0..200).map(|number| format!("def f{number}():\n    first()\n\n")).collect();
        world.workspace.write("src/a.py", format!("def first():\n    pass\n\n{many}"));
        world.workspace.write("secret/b.py", "def hidden():\n    pass\n");
        commit("two");
        git(folder, &["tag", "-a", "v2", "-m", "two"]);
        world.workspace.write("src/a.py", format!("def second():\n    pass\n\n{many}"));
        commit("three");
        world
    }

    fn names(world: &World, commit: &str) -> Value {
        let query =
            "MATCH (f:Function) WHERE f.name IN ['first', 'second', 'hidden'] RETURN f.name AS n ORDER BY n";
        let found = world.run("graph_query", json!({"query": query, "commit": commit})).unwrap();
        found["rows"].as_array().unwrap().iter().map(|row| row["n"].clone()).collect()
    }

    fn expect_all(world: &World) {
        let folder = world.workspace.path();
        let id = git(folder, &["rev-parse", "HEAD~1"]);
        for commit in ["HEAD~2", "main~2", "HEAD^^"] {
            assert_eq!(names(world, commit), json!(["first"]), "{commit}");
        }
        for commit in ["HEAD~1", "v2", "refs/tags/v2", "v2^0", id.as_str(), &id[..8]] {
            assert_eq!(names(world, commit), json!(["first", "hidden"]), "{commit}");
        }
        assert_eq!(names(world, "HEAD"), json!(["hidden", "second"]));
    }

    #[test]
    fn a_commit_is_queried_as_it_was_from_loose_objects_and_from_packs() {
        let world = world();
        world.workspace.write("src/a.py", "def now():\n    pass\n");
        expect_all(&world);
        git(world.workspace.path(), &["gc", "-q", "--aggressive", "--prune=now"]);
        assert!(!world.workspace.names(".git/objects/pack").is_empty());
        assert!(
            git(world.workspace.path(), &["verify-pack", "-v", &pack(&world)]).contains("chain length = 1")
        );
        let World { workspace, .. } = world;
        let fresh = World::new(workspace);
        expect_all(&fresh);
        let calls = "MATCH (f:Function {name: 'first'})<-[:CALLS]-(g) RETURN count(g) AS callers";
        let found = fresh.run("graph_query", json!({"query": calls, "commit": "v2"})).unwrap();
        assert_eq!(found["rows"], json!([{"callers": 200}]));
        assert_eq!(found["commit"], git(fresh.workspace.path(), &["rev-parse", "v2^{commit}"]));
    }

    fn pack(world: &World) -> String {
        let names = world.workspace.names(".git/objects/pack");
        let stem = names.iter().find_map(|name| name.strip_suffix(".idx")).unwrap();
        format!(".git/objects/pack/{stem}.idx")
    }

    #[test]
    fn objects_that_another_repository_has_are_read_where_the_call_may_read_it() {
        let World { workspace, graphs } = world();
        let elsewhere = tempfile::tempdir().unwrap();
        let elsewhere = elsewhere.path().canonicalize().unwrap();
        git(&elsewhere, &["clone", "-q", "--shared", workspace.at("").to_str().unwrap(), "borrows"]);
        std::fs::rename(workspace.at(".git"), elsewhere.join("owner")).unwrap();
        std::fs::rename(elsewhere.join("borrows/.git"), workspace.at(".git")).unwrap();
        let owner = elsewhere.join("owner/objects");
        std::fs::write(workspace.at(".git/objects/info/alternates"), format!("{}\n", owner.display()))
            .unwrap();
        git(workspace.path(), &["rev-parse", "HEAD~2^{tree}"]);
        let denied = World { workspace, graphs };
        let query = json!({"query": "RETURN 1", "commit": "HEAD"});
        let error = denied.run("graph_query", query).unwrap_err();
        assert_eq!(error.code, Code::NotFound, "{}", error.message);
        let World { workspace, graphs } = denied;
        let allowed = World { workspace: workspace.listing(elsewhere, roots::Right::Read), graphs };
        assert_eq!(names(&allowed, "HEAD"), json!(["hidden", "second"]));
        assert_eq!(names(&allowed, "HEAD~2"), json!(["first"]));
        // Repositories that borrow from each other end.
        std::fs::write(
            owner.join("info/alternates"),
            format!("{}\n", allowed.workspace.at(".git/objects").display()),
        )
        .unwrap();
        assert_eq!(names(&allowed, "HEAD~1"), json!(["first", "hidden"]));
    }

    #[test]
    fn a_workspace_within_a_repository_has_its_own_part_of_the_commit() {
        let workspace = Workspace::new().with_files(&[("../top.py", "def first():\n    pass\n")]);
        workspace.write("src/a.py", "def second():\n    pass\n");
        let top = workspace.at("..").canonicalize().unwrap();
        git(&top, &["init", "-q"]);
        git(&top, &["add", "-A"]);
        git(&top, &["commit", "-qm", "one"]);
        let World { workspace, graphs } = World::new(workspace);
        let world = World { workspace, graphs };
        let query = json!({"query": "RETURN 1", "commit": "HEAD"});
        let error = world.run("graph_query", query).unwrap_err();
        assert_eq!(error.code, Code::NotFound, "the repository is outside: {}", error.message);
        let World { workspace, graphs } = world;
        let world = World { workspace: workspace.listing(top, roots::Right::Read), graphs };
        assert_eq!(names(&world, "HEAD"), json!(["second"]));
        let paths = json!({"query": "MATCH (f:File) RETURN f.path AS p", "commit": "HEAD"});
        assert_eq!(world.run("graph_query", paths).unwrap()["rows"], json!([{"p": "src/a.py"}]));
    }

    #[test]
    fn a_denied_path_of_a_commit_is_in_no_answer() {
        let world = world();
        assert_eq!(names(&world, "HEAD"), json!(["hidden", "second"]), "the control");
        let World { workspace, graphs } = world;
        let world =
            World { workspace: workspace.guarded(DenyNames { read: &["secret"], write: &[] }), graphs };
        assert_eq!(names(&world, "HEAD"), json!(["second"]));
    }

    #[test]
    fn refuses_what_names_no_commit_and_damaged_repositories() {
        let world = world();
        let ask = |commit: &str| {
            world
                .run("graph_query", json!({"query": "RETURN 1", "commit": commit}))
                .map_err(|error| error.code)
        };
        for bad in
            ["nowhere", "HEAD~99", "-x", "../HEAD", "config", "", "HEAD~x", "HEAD:src", "a b", "refs/heads"]
        {
            let code = ask(bad).unwrap_err();
            assert!(matches!(code, Code::NotFound | Code::Validation), "{bad}: {code}");
        }
        let tree = git(world.workspace.path(), &["rev-parse", "HEAD^{tree}"]);
        assert_eq!(ask(&tree).unwrap_err(), Code::NotFound);
        world.workspace.write(".git/refs/heads/round", "ref: refs/heads/round\n");
        assert_eq!(ask("round").unwrap_err(), Code::Runtime);
        let (folder, rest) = tree.split_at(2);
        let object = world.workspace.at(&format!(".git/objects/{folder}/{rest}"));
        std::fs::remove_file(&object).unwrap();
        assert_eq!(ask("HEAD").unwrap_err(), Code::NotFound);
        std::fs::write(&object, b"no zlib").unwrap();
        assert_eq!(ask("HEAD").unwrap_err(), Code::Runtime);
        let bare = World::new(Workspace::new());
        let error = bare.run("graph_query", json!({"query": "RETURN 1", "commit": "HEAD"})).unwrap_err();
        assert_eq!(error.code, Code::NotFound);
        assert!(error.message.contains("repository"), "{}", error.message);
    }
}
