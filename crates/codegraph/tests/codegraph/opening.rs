//! Graphs that are kept for the next start: an opened one equals a built one, also after edits, and a damaged,
//! foreign or old one is as if it were not there.

use std::fs;
use std::path::PathBuf;

use codegraph::{
    Change, CodeIndex, ExtractLimits, FactsFolder, GraphFolder, LiveGraph, NoStore, PatchedGraph,
};
use proptest::prelude::*;

use crate::files::{Files, rows};
use crate::incremental::{LANGUAGES, apply, assert_consistent, edits, everything_of, fixture};

const SPACE: u64 = 64 << 20;

/// The stores of one process.
struct Process {
    facts: FactsFolder,
    graphs: GraphFolder,
}

/// An index with its graph.
struct Opened {
    index: CodeIndex,
    live: LiveGraph,
    graph: PatchedGraph,
    /// True if the graph was opened and not built.
    was_kept: bool,
}

impl Process {
    fn new(folder: &tempfile::TempDir) -> Self {
        let facts = FactsFolder::open(folder.path(), SPACE).unwrap();
        Self { facts, graphs: GraphFolder::new(folder.path(), SPACE) }
    }

    /// Opens the graph of some files, or builds it.
    fn open(&mut self, files: &Files) -> Opened {
        self.open_as(files, "project")
    }

    fn open_as(&mut self, files: &Files, name: &str) -> Opened {
        let mut index = CodeIndex::lazy(ExtractLimits::default());
        for (path, content) in &files.0 {
            index.take(Change::Written { path: path.clone(), content: content.clone() }, &mut self.facts);
        }
        let mut live = LiveGraph::new(name);
        if let Some(graph) = live.open(&mut index, &self.graphs) {
            return Opened { index, live, graph, was_kept: true };
        }
        assert!(index.wake(&self.facts));
        index.settle_with(&mut self.facts);
        let graph = live.graph(&index).unwrap();
        Opened { index, live, graph, was_kept: false }
    }
}

impl Opened {
    /// Keeps everything for the next process.
    fn keep(&mut self, process: &mut Process) {
        self.index.keep_relationships(&mut process.facts);
        process.facts.flush().unwrap();
        let key = self.live.key(&mut self.index);
        self.graph.keep(&key, &process.graphs).unwrap();
    }

    /// Applies changes, as a process does whose graph may be an opened one.
    fn change(&mut self, changes: Vec<Change>, process: &mut Process) {
        if self.live.is_opened() {
            assert!(self.index.wake(&process.facts));
            self.index.settle_with(&mut process.facts);
            self.live.complete(&self.index);
        }
        self.index.apply(changes, &mut process.facts);
        self.graph = self.live.graph(&self.index).unwrap();
    }
}

fn clean(files: &Files) -> Vec<String> {
    everything_of(&CodeIndex::build(files, ExtractLimits::default()).graph("project").unwrap())
}

/// Returns the files that have graphs.
fn kept(folder: &tempfile::TempDir) -> Vec<PathBuf> {
    let all = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut kept: Vec<PathBuf> =
        all.filter(|path| path.extension().is_some_and(|ending| ending == "graph")).collect();
    kept.sort();
    kept
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_opened_graph_equals_a_built_one_before_and_after_edits(
        language in 0..LANGUAGES.len(),
        edits in edits(),
        opened_after in prop::collection::vec(any::<bool>(), 8),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut process = Process::new(&folder);
        let first = fixture(LANGUAGES[language]);
        let mut files = first.clone();
        let mut opened = process.open(&files);
        for (edit, is_opened) in edits.iter().zip(&opened_after) {
            if *is_opened {
                // A whole graph or a patched one is kept, and another process opens it.
                opened.keep(&mut process);
                process = Process::new(&folder);
                opened = process.open(&files);
                prop_assert!(opened.was_kept || files.0.is_empty());
                prop_assert!(everything_of(&opened.graph) == clean(&files), "opened before {:?}", edit);
            }
            let changes = apply(&mut files, &first, edit);
            opened.change(changes, &mut process);
            assert_consistent(&opened.graph);
            let (patched, clean) = (everything_of(&opened.graph), clean(&files));
            let differs = patched.iter().zip(&clean).find(|(one, other)| one != other);
            prop_assert!(patched == clean, "after {:?}: {:?}", edit, differs);
        }
    }
}

#[test]
fn a_graph_belongs_to_exactly_one_set_of_files_and_one_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::new(&folder);
    let mut files = fixture("rust");
    files.0.insert("Cargo.toml".to_owned(), b"[package]\nname = \"one\"\n".to_vec());
    process.open(&files).keep(&mut process);
    assert!(process.open(&files).was_kept, "the control");
    assert!(!process.open_as(&files, "other").was_kept);
    let path = files.0.keys().find(|path| path.contains(".rs")).unwrap().clone();
    let mut edited = files.clone();
    edited.0.get_mut(&path).unwrap().extend(b"\n");
    let mut renamed = files.clone();
    let content = renamed.0.remove(&path).unwrap();
    renamed.0.insert(format!("moved/{path}"), content);
    let mut fewer = files.clone();
    fewer.0.remove(&path);
    let mut more = files.clone();
    more.0.insert("more.py".to_owned(), b"def f():\n    pass\n".to_vec());
    let mut other_manifest = files.clone();
    other_manifest.0.insert("Cargo.toml".to_owned(), b"[package]\nname = \"two\"\n".to_vec());
    for (what, other) in [
        ("edited", edited),
        ("renamed", renamed),
        ("fewer", fewer),
        ("more", more),
        ("another manifest", other_manifest),
    ] {
        let opened = process.open(&other);
        assert!(!opened.was_kept, "{what}");
        assert!(everything_of(&opened.graph) == clean(&other), "{what}");
    }
    // Files that are no code are in no graph.
    files.0.insert("notes.md".to_owned(), b"x".to_vec());
    assert!(process.open(&files).was_kept);
}

#[test]
fn damaged_foreign_and_old_graphs_are_built_anew() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::new(&folder);
    let files = fixture("go");
    process.open(&files).keep(&mut process);
    let [path] = kept(&folder).try_into().unwrap();
    let whole = fs::read(&path).unwrap();
    assert!(process.open(&files).was_kept, "the control");
    let changed = |at: usize| {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        changed
    };
    let others = fixture("java");
    process.open(&others).keep(&mut process);
    let foreign = kept(&folder).into_iter().find(|other| *other != path).unwrap();
    let foreign = fs::read(foreign).unwrap();
    let damaged = [Vec::new(), whole[..20].to_vec(), whole[..whole.len() - 1].to_vec(), foreign];
    let changed = [7, 8, 45, whole.len() / 2, whole.len() - 1].map(changed);
    for damaged in damaged.into_iter().chain(changed) {
        fs::write(&path, damaged).unwrap();
        let opened = process.open(&files);
        assert!(!opened.was_kept);
        assert!(everything_of(&opened.graph) == clean(&files));
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(!process.open(&files).was_kept);
}

#[test]
fn facts_that_are_lost_before_the_first_edit_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::new(&folder);
    let files = fixture("python");
    process.open(&files).keep(&mut process);
    let facts = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let facts = facts.filter(|path| path.extension().is_some_and(|ending| ending == "facts"));
    let mut process = Process::new(&folder);
    let mut opened = process.open(&files);
    assert!(opened.was_kept && opened.index.is_asleep());
    // The file that is open is overwritten, as a damaged disk does.
    for path in facts {
        let length = fs::read(&path).unwrap().len();
        let mut content = fs::read(&path).unwrap();
        content[length - 200..].fill(0);
        fs::write(&path, content).unwrap();
    }
    assert!(!opened.index.wake(&process.facts));
    // Damaged facts are no longer left to the store.
    let mut again = process.open(&files);
    assert!(again.was_kept && again.index.wake(&process.facts));
    assert!(everything_of(&again.graph) == clean(&files));
}

#[test]
fn old_graphs_are_dropped_and_queries_of_an_opened_one_have_its_index() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::new(&folder);
    let mut files = fixture("rust");
    for number in 0..7 {
        files.0.insert(format!("src/more{number}.rs"), format!("fn more{number}() {{}}\n").into_bytes());
        process.open(&files).keep(&mut process);
    }
    assert_eq!(kept(&folder).len(), 4);
    let opened = process.open(&files);
    assert!(opened.was_kept);
    assert_eq!(rows(&opened.graph, "MATCH (f:Function {name: 'more3'}) RETURN f.file"), ["src/more3.rs"]);
    let mut none = LiveGraph::new("project");
    let mut resolved = CodeIndex::build(&files, ExtractLimits::default());
    assert!(none.open(&mut resolved, &process.graphs).is_none(), "it is not lazy");
    let mut lazy = CodeIndex::lazy(ExtractLimits::default());
    lazy.apply(
        vec![Change::Written { path: "a.rs".to_owned(), content: b"fn f() {}".to_vec() }],
        &mut NoStore,
    );
    assert!(none.open(&mut lazy, &process.graphs).is_none(), "it has resolved something");
}

#[test]
fn another_version_of_a_grammar_needs_another_version_of_the_extraction() {
    let lock = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).unwrap();
    let packages = lock.split("[[package]]").filter_map(|package| {
        let field = |name: &str| package.lines().find_map(|line| line.strip_prefix(name)?.strip_suffix('"'));
        Some((field("name = \"")?, field("version = \"")?))
    });
    let grammars = packages.filter(|(name, _)| name.starts_with("tree-sitter"));
    let grammars: Vec<String> = grammars.map(|(name, version)| format!("{name} {version}")).collect();
    let known = "tree-sitter 0.27.1, tree-sitter-bash 0.25.1, tree-sitter-c 0.24.2, tree-sitter-c-sharp 0.23.5, \
                 tree-sitter-cpp 0.23.4, tree-sitter-go 0.25.0, tree-sitter-java 0.23.5, \
                 tree-sitter-javascript 0.25.0, tree-sitter-language 0.1.9, tree-sitter-php 0.25.1, \
                 tree-sitter-python 0.25.0, tree-sitter-ruby 0.23.1, tree-sitter-rust 0.24.2, \
                 tree-sitter-typescript 0.23.2";
    assert_eq!(
        (codegraph::EXTRACTOR_VERSION, grammars.join(", ").as_str()),
        (4, known),
        "change EXTRACTOR_VERSION with a grammar: what was kept is of the earlier one"
    );
}
