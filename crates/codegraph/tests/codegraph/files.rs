//! Projects of the tests: files in memory and files of folders.

use std::collections::BTreeMap;
use std::path::Path;

use codegraph::{CodeIndex, ExtractLimits, Language, Sources, add_grammar};
use cypher::{Graph, MemoryGraph, Options, Parameters, Value, query};

/// Adds the grammars that another program has.
pub(crate) fn add_grammars() {
    assert!(add_grammar(Language::Cpp, tree_sitter_cpp::LANGUAGE.into()));
    assert!(add_grammar(Language::CSharp, tree_sitter_c_sharp::LANGUAGE.into()));
    assert!(!add_grammar(Language::Go, tree_sitter_cpp::LANGUAGE.into()));
}

/// Files by their paths.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files(pub(crate) BTreeMap<String, Vec<u8>>);

impl Sources for Files {
    fn paths(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.0.get(path).cloned()
    }
}

impl Files {
    /// Creates a project of some files.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        add_grammars();
        Self(files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect())
    }

    /// Reads all files of a folder below the crate.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        add_grammars();
        let mut files = BTreeMap::new();
        let mut open = vec![folder.to_path_buf()];
        while let Some(at) = open.pop() {
            for entry in std::fs::read_dir(&at).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                    files.insert(name, std::fs::read(&path).unwrap());
                }
            }
        }
        Self(files)
    }

    /// Returns the graph of the project.
    pub(crate) fn graph(&self) -> MemoryGraph {
        CodeIndex::build(self, ExtractLimits::default()).graph("project").unwrap()
    }
}

/// Returns the rows of a query as texts without quotes, sorted.
pub(crate) fn rows(graph: &dyn Graph, text: &str) -> Vec<String> {
    let mut options = Options::default();
    options.limits.rows = 1_000_000;
    // A busy machine may take its time.
    options.limits.time = std::time::Duration::MAX;
    options.strict_names = false;
    let answer =
        query(graph, text, &Parameters::new(), &options).unwrap_or_else(|error| panic!("{text}: {error}"));
    let show = |value: &Value| match value {
        Value::String(text) => text.to_string(),
        value => value.to_string(),
    };
    let mut rows: Vec<String> =
        answer.rows.iter().map(|row| row.iter().map(show).collect::<Vec<_>>().join(" ")).collect();
    rows.sort();
    rows
}
