//! Incremental updates: an index after any edits is equal to one that is built anew.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use codegraph::{Change, CodeIndex, ExtractLimits, FactsKey, FactsStore, FileFacts, LiveGraph, NoStore};
use cypher::{Graph, KeyId, LabelId, Link, NodeId, Side, TypeId};
use proptest::prelude::*;

use crate::files::{Files, rows};

/// Languages of the fixtures that the edits work on.
pub(crate) const LANGUAGES: [&str; 8] = ["python", "rust", "go", "typescript", "java", "cpp", "csharp", "c"];

/// An edit of one file. Numbers choose among the files and lines that there are.
#[derive(Debug, Clone)]
pub(crate) enum Edit {
    /// Adds an empty line at the beginning.
    ShiftLines(usize),
    /// Removes a line.
    RemoveLine(usize, usize),
    /// Writes a line twice.
    RepeatLine(usize, usize),
    /// Puts a word of any file in the place of another one.
    ReplaceWord(usize, usize, usize),
    /// Replaces the content by that of another file of the language.
    Overwrite(usize, usize),
    /// Moves the file into a folder.
    Rename(usize),
    /// Removes the file.
    Remove(usize),
    /// Writes all files as they were at first.
    Revert,
}

pub(crate) fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let number = 0_usize..1000;
    let edit = prop_oneof![
        1 => number.clone().prop_map(Edit::ShiftLines),
        1 => (number.clone(), number.clone()).prop_map(|(file, line)| Edit::RemoveLine(file, line)),
        1 => (number.clone(), number.clone()).prop_map(|(file, line)| Edit::RepeatLine(file, line)),
        4 => (number.clone(), number.clone(), number.clone())
            .prop_map(|(file, word, other)| Edit::ReplaceWord(file, word, other)),
        1 => (number.clone(), number.clone()).prop_map(|(file, other)| Edit::Overwrite(file, other)),
        1 => number.clone().prop_map(Edit::Rename),
        1 => number.prop_map(Edit::Remove),
        1 => Just(Edit::Revert),
    ];
    prop::collection::vec(edit, 1..8)
}

pub(crate) fn fixture(language: &str) -> Files {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/resolution").join(language);
    let mut files = Files::in_folder(&folder);
    files.0.remove("expected-edges.json");
    files
}

/// Applies an edit to the files, and returns the changes that a watcher would report.
pub(crate) fn apply(files: &mut Files, first: &Files, edit: &Edit) -> Vec<Change> {
    let paths: Vec<String> = files.0.keys().cloned().collect();
    if paths.is_empty() && !matches!(edit, Edit::Revert) {
        return Vec::new();
    }
    let path = |number: &usize| paths[number % paths.len()].clone();
    match edit {
        Edit::ShiftLines(file) => {
            let path = path(file);
            let content = [b"\n".as_slice(), files.0[&path].as_slice()].concat();
            vec![write_to(&mut files.0, path, content)]
        }
        Edit::RemoveLine(file, line) | Edit::RepeatLine(file, line) => {
            let path = path(file);
            let text = String::from_utf8(files.0[&path].clone()).unwrap();
            let mut lines: Vec<&str> = text.lines().collect();
            if lines.is_empty() {
                return Vec::new();
            }
            let at = line % lines.len();
            if matches!(edit, Edit::RemoveLine(..)) {
                lines.remove(at);
            } else {
                lines.insert(at, lines[at]);
            }
            let content = lines.join("\n").into_bytes();
            vec![write_to(&mut files.0, path, content)]
        }
        Edit::ReplaceWord(file, word, other) => {
            let path = path(file);
            let text = String::from_utf8(files.0[&path].clone()).unwrap();
            let all: Vec<String> =
                files.0.values().flat_map(|content| words(content)).map(|(_, word)| word).collect();
            let own = words(text.as_bytes());
            if own.is_empty() {
                return Vec::new();
            }
            let (at, word) = &own[word * 7919 % own.len()];
            let other = &all[other * 7919 % all.len()];
            let content = format!("{}{other}{}", &text[..*at], &text[at + word.len()..]).into_bytes();
            vec![write_to(&mut files.0, path, content)]
        }
        Edit::Overwrite(file, other) => {
            let content = files.0[&path(other)].clone();
            vec![write_to(&mut files.0, path(file), content)]
        }
        Edit::Rename(file) => {
            let from = path(file);
            let content = files.0.remove(&from).unwrap();
            let to = format!("moved/{from}");
            vec![Change::Removed { path: from }, write_to(&mut files.0, to, content)]
        }
        Edit::Remove(file) => {
            let path = path(file);
            files.0.remove(&path);
            vec![Change::Removed { path }]
        }
        Edit::Revert => {
            let mut changes: Vec<Change> = paths.into_iter().map(|path| Change::Removed { path }).collect();
            files.0.clear();
            for (path, content) in &first.0 {
                changes.push(write_to(&mut files.0, path.clone(), content.clone()));
            }
            changes
        }
    }
}

/// Returns the words of a text that may be names, with their places.
fn words(content: &[u8]) -> Vec<(usize, String)> {
    let text = std::str::from_utf8(content).unwrap();
    let mut words = Vec::new();
    let mut start = None;
    for (at, letter) in text.char_indices().chain([(text.len(), ' ')]) {
        match (letter.is_alphanumeric() || letter == '_', start) {
            (true, None) => start = Some(at),
            (false, Some(first)) => {
                if at - first > 2 {
                    words.push((first, text[first..at].to_owned()));
                }
                start = None;
            }
            _ => {}
        }
    }
    words
}

fn write_to(files: &mut BTreeMap<String, Vec<u8>>, path: String, content: Vec<u8>) -> Change {
    files.insert(path.clone(), content.clone());
    Change::Written { path, content }
}

pub(crate) fn everything(index: &CodeIndex) -> Vec<String> {
    everything_of(&index.graph("project").unwrap())
}

/// Returns all nodes and relationships as rows without numbers, and the counts by which queries are planned.
pub(crate) fn everything_of(graph: &dyn Graph) -> Vec<String> {
    let mut all = rows(graph, "MATCH (n) RETURN labels(n), properties(n)");
    all.extend(rows(graph, "MATCH (a)-[r]->(b) RETURN a.id, type(r), properties(r), b.id"));
    all.push(format!("{} nodes, {} relationships", graph.node_count(), graph.relationship_count()));
    for (kind, name) in (0..).map(TypeId).zip(graph.relationship_types()) {
        all.push(format!("{name}: {}", graph.count_of_type(kind)));
        for (label, at) in (0..).map(LabelId).zip(graph.labels()) {
            let [from, to] = [Side::Outgoing, Side::Incoming].map(|side| graph.count_at(kind, side, label));
            all.push(format!("{name} from {at}: {from}, to: {to}"));
        }
    }
    for (label, name) in (0..).map(LabelId).zip(graph.labels()) {
        all.push(format!("{name}: {}", graph.nodes_with_label(label).len()));
    }
    all
}

/// Checks what an index of properties and the links from both ends say about each node.
pub(crate) fn assert_consistent(graph: &dyn Graph) {
    let numbers = 0..u32::try_from(graph.node_bound()).unwrap();
    for node in numbers.map(NodeId).filter(|node| graph.has_node(*node)) {
        for (key, name) in (0..).map(KeyId).zip(graph.property_keys()) {
            let value = graph.node_property(node, key);
            assert_eq!(!value.is_null(), graph.keys_of_node(node).contains(&key), "{name}");
            if let Some(found) = graph.find(None, key, &value).filter(|_| !value.is_null()) {
                assert!(found.contains(&node) && found.is_sorted(), "{name} {value}");
                assert!(found.iter().all(|node| graph.has_node(*node)), "{name} {value}");
            }
        }
        for (side, other) in [(Side::Outgoing, Side::Incoming), (Side::Incoming, Side::Outgoing)] {
            for link in graph.links(node, side, None) {
                let kind = graph.type_of(link.relationship);
                assert!(graph.links(node, side, Some(kind)).contains(link));
                let back = Link { relationship: link.relationship, neighbour: node };
                assert!(graph.links(link.neighbour, other, Some(kind)).contains(&back));
                let (start, end) = graph.ends(link.relationship);
                let ends =
                    if side == Side::Outgoing { (node, link.neighbour) } else { (link.neighbour, node) };
                assert_eq!((start, end), ends);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_index_and_its_patched_graph_after_edits_equal_new_ones(
        language in 0..LANGUAGES.len(),
        edits in edits(),
        rebuilt_after in 0_usize..8,
    ) {
        let first = fixture(LANGUAGES[language]);
        let mut files = first.clone();
        let mut index = CodeIndex::build(&files, ExtractLimits::default());
        let mut live = LiveGraph::new("project");
        live.rebuild(&index).unwrap();
        for (number, edit) in edits.iter().enumerate() {
            let changes = apply(&mut files, &first, edit);
            index.apply(changes, &mut NoStore);
            let graph = live.graph(&index).unwrap();
            assert_consistent(&graph);
            let clean = CodeIndex::build(&files, ExtractLimits::default());
            let (patched, index_alone, clean) = (everything_of(&graph), everything(&index), everything(&clean));
            let differs = index_alone.iter().zip(&clean).find(|(one, other)| one != other);
            prop_assert!(index_alone == clean, "after {:?}: {:?}", edit, differs);
            let differs = patched.iter().zip(&clean).find(|(one, other)| one != other);
            prop_assert!(patched == clean, "patched after {:?}: {:?}", edit, differs);
            if number == rebuilt_after {
                live.rebuild(&index).unwrap();
            }
        }
    }
}

#[test]
fn a_patched_graph_shares_what_is_not_edited_and_drops_what_nothing_needs() {
    let mut files = Files::of(&[
        ("a/b/one.py", "import os\ndef f():\n    os.getpid()\n"),
        ("two.py", "def g():\n    pass\n"),
    ]);
    let mut index = CodeIndex::build(&files, ExtractLimits::default());
    let mut live = LiveGraph::new("project");
    let first = live.graph(&index).unwrap();
    let numbers = rows(&first, "MATCH (n) RETURN n.id, id(n)");
    let change = write_to(&mut files.0, "two.py".to_owned(), b"\ndef g():\n    g()\n".to_vec());
    index.apply(vec![change], &mut NoStore);
    let second = live.graph(&index).unwrap();
    assert_eq!(rows(&second, "MATCH (n) RETURN n.id, id(n)"), numbers, "no node has a new number");
    assert_eq!(rows(&second, "MATCH (f)-[:CALLS]->(f {name: 'g'}) RETURN f.start_line"), ["2"]);
    assert_eq!(rows(&first, "MATCH (f)-[:CALLS]->(f) RETURN f"), Vec::<String>::new(), "it does not change");
    index.apply(vec![Change::Removed { path: "a/b/one.py".to_owned() }], &mut NoStore);
    let third = live.graph(&index).unwrap();
    assert_eq!(rows(&third, "MATCH (n) WHERE n:Directory OR n:External RETURN n.id"), Vec::<String>::new());
    assert_eq!(rows(&third, "MATCH (n:File) RETURN n.id"), ["two.py"]);
}

#[test]
fn a_live_graph_is_worn_after_many_edits_and_renews_itself() {
    let text = |number: usize| {
        let functions = (0..2_000).map(|at| format!("fn f{at}() {{ f{}() }}\n", (at * number) % 2_000));
        functions.collect::<String>()
    };
    let paths: Vec<String> = (0..8).map(|at| format!("src/m{at}.rs")).collect();
    let write = |path: &String, number: usize| Change::Written {
        path: path.clone(),
        content: text(number).into_bytes(),
    };
    let mut index = CodeIndex::new(ExtractLimits::default());
    index.apply(paths.iter().map(|path| write(path, 1)).collect(), &mut NoStore);
    let mut live = LiveGraph::new("project");
    assert!(live.is_worn(&index));
    live.rebuild(&index).unwrap();
    assert!(!live.is_worn(&index));
    let mut was_worn = false;
    for (at, path) in paths.iter().enumerate() {
        index.apply(vec![write(path, at + 2)], &mut NoStore);
        was_worn |= live.is_worn(&index);
        let calls = "MATCH (a)-[r:CALLS]->(b) RETURN a.id, b.id";
        assert_eq!(rows(&live.graph(&index).unwrap(), calls), rows(&index.graph("project").unwrap(), calls));
    }
    assert!(was_worn);
}

#[test]
fn a_change_of_a_declaration_reaches_the_files_that_depend_on_it() {
    let uses = "use crate::a::*;\npub fn f(x: &Holder) { make().run(); x.field.run(); CONST.run(); x.base(); near(); }\n";
    let rest = "pub struct One;\npub struct Two;\nimpl One { pub fn run(&self) {} }\nimpl Two { pub fn run(&self) {} }\n\
                pub mod one { pub fn near() {} }\npub mod two { pub fn near() {} }\n\
                pub trait Base { fn base(&self) {} }\npub trait Other { fn base(&self) {} }\n";
    let first = "pub use one::near;\npub const CONST: One = One;\npub struct Holder { pub field: One }\n\
                 impl Base for Holder {}\npub fn make() -> One { todo!() }\n";
    let changes = [
        ("make() -> One", "make() -> Two"),
        ("field: One", "field: Two"),
        ("CONST: One", "CONST: Two"),
        ("Base for", "Other for"),
        ("use one::near", "use two::near"),
    ];
    for (from, to) in changes {
        let mut files = Files::of(&[("src/lib.rs", "pub mod a;\npub mod b;\n"), ("src/b.rs", uses)]);
        files.0.insert("src/a.rs".to_owned(), format!("{rest}{first}").into_bytes());
        let mut index = CodeIndex::build(&files, ExtractLimits::default());
        let before = everything(&index);
        let changed = format!("{rest}{}", first.replace(from, to)).into_bytes();
        let change = write_to(&mut files.0, "src/a.rs".to_owned(), changed);
        index.apply(vec![change], &mut NoStore);
        let after = everything(&index);
        let of_b = |rows: &[String]| {
            rows.iter().filter(|row| row.starts_with("src/b.rs#f CALLS")).cloned().collect::<Vec<_>>()
        };
        assert_ne!(of_b(&before), of_b(&after), "{to}");
        assert_eq!(after, everything(&CodeIndex::build(&files, ExtractLimits::default())), "{to}");
    }
}

#[test]
fn an_implementation_inside_of_a_function_reaches_other_files() {
    let mut files = Files::of(&[
        ("src/lib.rs", "pub mod a;\npub trait Do { fn act(&self); }\npub fn f(x: &dyn Do) { x.act() }\n"),
        ("src/a.rs", "fn g() { struct S; }\n"),
    ]);
    let mut index = CodeIndex::build(&files, ExtractLimits::default());
    let before = everything(&index);
    let inside = b"fn g() { struct S; impl crate::Do for S { fn act(&self) {} } }\n".to_vec();
    let change = write_to(&mut files.0, "src/a.rs".to_owned(), inside);
    index.apply(vec![change], &mut NoStore);
    let after = everything(&index);
    let edge =
        |rows: &[String]| rows.iter().any(|row| row.contains("#f CALLS") && row.ends_with("a.rs#g.S.act"));
    assert!(!edge(&before) && edge(&after), "{after:?}");
    assert_eq!(after, everything(&CodeIndex::build(&files, ExtractLimits::default())));
}

#[test]
fn the_order_of_the_files_does_not_matter() {
    for language in LANGUAGES {
        let files = fixture(language);
        let forwards = CodeIndex::build(&files, ExtractLimits::default());
        let mut backwards = CodeIndex::new(ExtractLimits::default());
        for (path, content) in files.0.iter().rev() {
            let change = Change::Written { path: path.clone(), content: content.clone() };
            backwards.apply(vec![change], &mut NoStore);
        }
        assert_eq!(everything(&forwards), everything(&backwards), "{language}");
    }
}

#[test]
fn an_edit_inside_of_a_function_resolves_its_file_alone() {
    for (language, file) in
        [("rust", "main.rs"), ("go", "main.go"), ("java", "Main.java"), ("cpp", "main.cpp")]
    {
        let files = fixture(language);
        let mut index = CodeIndex::build(&files, ExtractLimits::default());
        let text = String::from_utf8(files.0[file].clone()).unwrap();
        let at = text.rfind('}').unwrap();
        let at = text[..at].rfind('}').map_or(at, |inner| if language == "java" { inner } else { at });
        let content = format!("{}\n// a comment\n{}", &text[..at], &text[at..]).into_bytes();
        let update = index.apply(vec![Change::Written { path: file.to_owned(), content }], &mut NoStore);
        assert_eq!((update.extracted, update.resolved), (1, 1), "{language}");
    }
}

#[test]
fn a_new_declaration_resolves_the_files_that_look_for_its_name() {
    let mut files = Files::of(&[
        ("src/lib.rs", "pub mod a;\npub mod b;\npub mod c;\npub mod d;\n"),
        ("src/a.rs", "pub struct One;\npub fn make() -> One { One }\n"),
        ("src/b.rs", "use crate::a::*;\npub fn f() { brand_new() }\n"),
        ("src/c.rs", "pub fn g() { crate::a::make(); }\n"),
        ("src/d.rs", "pub fn h(x: &dyn Fn()) { x.brand_new() }\n"),
    ]);
    let mut index = CodeIndex::build(&files, ExtractLimits::default());
    let before = everything(&index);
    let text = "pub struct One;\npub fn brand_new() {}\npub fn make() -> One { One }\n";
    let change = write_to(&mut files.0, "src/a.rs".to_owned(), text.as_bytes().to_vec());
    let update = index.apply(vec![change], &mut NoStore);
    assert_eq!(update.resolved, 3, "a itself, b and d, but neither c nor lib");
    let after = everything(&index);
    assert_ne!(before, after);
    assert_eq!(after, everything(&CodeIndex::build(&files, ExtractLimits::default())));
    let text = text.replace("make() -> One", "make() -> u8");
    let change = write_to(&mut files.0, "src/a.rs".to_owned(), text.into_bytes());
    assert_eq!(index.apply(vec![change], &mut NoStore).resolved, 2, "a itself and c");
    let text = "pub struct One;\npub struct New;\nimpl New { pub fn of() {} }\npub fn brand_new() {}\npub fn make() -> u8 { One }\n";
    let change = write_to(&mut files.0, "src/a.rs".to_owned(), text.as_bytes().to_vec());
    assert_eq!(index.apply(vec![change], &mut NoStore).resolved, 1, "nobody looks for a new type");
    assert_eq!(everything(&index), everything(&CodeIndex::build(&files, ExtractLimits::default())));
}

#[test]
fn a_function_that_hides_a_type_changes_what_its_name_means_elsewhere() {
    let mut files = Files::of(&[
        ("src/lib.rs", "pub mod a;\npub mod b;\npub mod c;\n"),
        ("src/a.rs", "pub use crate::c::Real as Thing;\n"),
        ("src/b.rs", "use crate::a::Thing;\nimpl Thing { pub fn act(&self) { near() } }\nfn near() {}\n"),
        // It never looks for the name, but for a method that the block adds to its own type.
        ("src/c.rs", "pub struct Real;\npub fn user(x: &Real) { x.act() }\n"),
    ]);
    let mut index = CodeIndex::build(&files, ExtractLimits::default());
    let mut live = LiveGraph::new("project");
    for text in
        ["pub fn Thing() {}\n", "pub use crate::c::Real as Thing;\n", "pub use crate::c::user as Thing;\n"]
    {
        let before = everything(&index);
        let change = write_to(&mut files.0, "src/a.rs".to_owned(), text.as_bytes().to_vec());
        assert_eq!(index.apply(vec![change], &mut NoStore).resolved, 3, "all files but the root");
        let after = everything(&index);
        let call = |rows: &[String]| rows.iter().any(|row| row.starts_with("src/c.rs#user CALLS"));
        assert_ne!(call(&before), call(&after), "{text}");
        assert_eq!(after, everything(&CodeIndex::build(&files, ExtractLimits::default())), "{text}");
        assert_eq!(after, everything_of(&live.graph(&index).unwrap()), "{text}");
    }
}

#[test]
fn a_block_that_belongs_to_another_type_changes_what_its_methods_mean_elsewhere() {
    // The text of the methods is as before; only an import or a name of a type beside them differs.
    for (before, after, from) in [
        ("use crate::c::One as Thing;\n", "use crate::c::Two as Thing;\n", "src/a.rs"),
        ("pub struct Thing;\n", "pub struct Other;\n", "src/a.rs"),
    ] {
        let rest = "impl Thing { pub fn act(&self) {} }\n";
        let mut files = Files::of(&[
            ("src/lib.rs", "pub mod a;\npub mod c;\n"),
            ("src/c.rs", "pub struct One;\npub struct Two;\npub fn user(x: &One) { x.act(); y.act() }\n"),
            (from, &format!("{before}{rest}")),
        ]);
        let mut index = CodeIndex::build(&files, ExtractLimits::default());
        let first = everything(&index);
        let change = write_to(&mut files.0, from.to_owned(), format!("{after}{rest}").into_bytes());
        index.apply(vec![change], &mut NoStore);
        let second = everything(&index);
        let calls = |rows: &[String]| {
            rows.iter().filter(|row| row.starts_with("src/c.rs#user ")).cloned().collect::<Vec<_>>()
        };
        assert_ne!(calls(&first), calls(&second), "{after}");
        assert_eq!(second, everything(&CodeIndex::build(&files, ExtractLimits::default())), "{after}");
    }
}

/// A store in memory that counts.
#[derive(Default)]
struct Memory {
    kept: HashMap<FactsKey, Vec<u8>>,
    hits: std::cell::Cell<usize>,
}

impl FactsStore for Memory {
    fn load(&self, key: &FactsKey) -> Option<FileFacts> {
        let bytes = self.kept.get(key)?;
        self.hits.set(self.hits.get() + 1);
        FileFacts::from_bytes(bytes).ok()
    }

    fn save(&mut self, key: &FactsKey, facts: &FileFacts) {
        self.kept.insert(*key, facts.to_bytes().unwrap());
    }
}

#[test]
fn kept_facts_are_not_extracted_again_and_give_the_same_graph() {
    let mut store = Memory::default();
    for language in LANGUAGES {
        let files = fixture(language);
        let changes = || {
            let write = |(path, content): (&String, &Vec<u8>)| Change::Written {
                path: path.clone(),
                content: content.clone(),
            };
            files.0.iter().map(write).collect::<Vec<_>>()
        };
        let mut one = CodeIndex::new(ExtractLimits::default());
        let first = one.apply(changes(), &mut store);
        let before = store.hits.get();
        let mut other = CodeIndex::new(ExtractLimits::default());
        let second = other.apply(changes(), &mut store);
        assert!(first.extracted > 0);
        assert_eq!(second.extracted, 0);
        assert_eq!(store.hits.get() - before, other.file_count());
        assert_eq!(everything(&one), everything(&other), "{language}");
    }
}

#[test]
fn damaged_facts_are_an_error() {
    let facts =
        codegraph::extract(codegraph::Language::Rust, b"fn f() { g() }", &ExtractLimits::default()).unwrap();
    let bytes = facts.to_bytes().unwrap();
    assert_eq!(FileFacts::from_bytes(&bytes).unwrap(), facts);
    assert!(FileFacts::from_bytes(&bytes[..bytes.len() / 2]).is_err());
}
