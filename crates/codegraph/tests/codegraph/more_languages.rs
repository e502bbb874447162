//! Facts of another program: its own extraction passes the check, and nothing that would mislead the resolution does.

use std::collections::BTreeMap;
use std::path::Path;

use codegraph::{
    Change, CodeIndex, ExtractLimits, Extraction, FactsFolder, FactsKey, FactsStore, FileFacts, Gap,
    Language, NoStore, Request, answer, extract, facts_of_the_file_alone, is_indexed_with, read_message,
    write_message,
};
use proptest::prelude::*;

use crate::files::{Files, add_grammars};
use crate::incremental::everything;

const CPP: &str = "class Shape { public: virtual int area(int a, int b) { return size(a) * b; } int size(int x); };\n\
                   int Shape::size(int x) { return x; }\nstatic int total = Shape().area(1, 2);\n";

fn facts() -> FileFacts {
    add_grammars();
    extract(Language::Cpp, CPP.as_bytes(), &ExtractLimits::default()).unwrap()
}

#[test]
fn the_facts_of_every_fixture_are_consistent_and_answered_by_messages() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let limits = ExtractLimits::default();
    for (path, content) in Files::in_folder(&folder).0 {
        let Some(language) = Language::of_path(&path) else { continue };
        let facts = extract(language, &content, &limits).unwrap();
        assert!(facts.is_consistent(), "{path}");
        let request = Request::new(language, &content, &limits);
        let mut wire = Vec::new();
        write_message(&mut wire, &answer(&request.to_bytes().unwrap()).unwrap()).unwrap();
        let answered = read_message(&mut wire.as_slice()).unwrap().unwrap();
        assert_eq!(request.read_answer(&answered).unwrap(), facts, "{path}");
        *counts.entry(language.name()).or_default() += 1;
    }
    assert!(counts.len() >= 12, "{counts:?}");
}

#[test]
fn facts_with_numbers_of_nothing_or_of_themselves_are_refused() {
    let change = |change: fn(&mut FileFacts)| {
        let mut facts = facts();
        change(&mut facts);
        facts.is_consistent()
    };
    assert!(change(|_| {}));
    assert!(!change(|facts| facts.definitions[1].parent = 1));
    assert!(!change(|facts| facts.definitions[1].parent = 90_000));
    assert!(!change(|facts| facts.definitions[2].name = u32::MAX));
    assert!(!change(|facts| facts.definitions[2].parameters.push(5_000)));
    assert!(!change(|facts| facts.definitions.clear()));
    assert!(!change(|facts| facts.names.clear()));
    assert!(!change(|facts| facts.lines.truncate(facts.lines.len() - 1)));
    assert!(!change(|facts| facts.owners[1] = 77_777));
    assert!(!change(|facts| facts.variables[0].scope = 77_777));
    assert!(!change(|facts| facts.flows.push(codegraph::Flow::Return { function: 77_777, value: 0 })));
    assert!(!change(|facts| facts.expressions[1] = codegraph::Expression::Inner(1)));
    assert!(!change(|facts| facts.expressions[1] = codegraph::Expression::Spread(900_000)));
    let span = codegraph::Span { start: u32::MAX, length: u32::MAX };
    let mut facts = facts();
    facts.expressions[1] = codegraph::Expression::List(span);
    assert!(!facts.is_consistent());
}

#[test]
fn an_answer_for_another_file_is_refused() {
    let limits = ExtractLimits::default();
    let bytes = facts().to_bytes().unwrap();
    assert!(Request::new(Language::Cpp, CPP.as_bytes(), &limits).read_answer(&bytes).is_ok());
    assert!(Request::new(Language::CSharp, CPP.as_bytes(), &limits).read_answer(&bytes).is_err());
    assert!(Request::new(Language::Cpp, b"one line", &limits).read_answer(&bytes).is_err());
    assert!(Request::new(Language::Cpp, CPP.as_bytes(), &limits).read_answer(&bytes[..40]).is_err());
    assert!(Request::new(Language::Cpp, CPP.as_bytes(), &limits).read_answer(b"").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_answer_is_refused_or_resolved(changes in prop::collection::vec((any::<u16>(), any::<u8>()), 1..6)) {
        let mut bytes = facts().to_bytes().unwrap();
        for (at, byte) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        let limits = ExtractLimits::default();
        if let Ok(facts) = Request::new(Language::Cpp, CPP.as_bytes(), &limits).read_answer(&bytes) {
            let mut store = Other { facts, is_lasting: true, saved: Vec::new() };
            let mut index = CodeIndex::new(limits);
            let content = CPP.as_bytes().to_vec();
            index.apply(vec![Change::Written { path: "a.cpp".into(), content }], &mut store);
            prop_assert!(index.graph("project").is_ok());
        }
    }
}

/// A store whose facts come from elsewhere.
struct Other {
    facts: FileFacts,
    is_lasting: bool,
    saved: Vec<FactsKey>,
}

impl FactsStore for Other {
    fn load(&self, _key: &FactsKey) -> Option<FileFacts> {
        None
    }

    fn save(&mut self, key: &FactsKey, _facts: &FileFacts) {
        self.saved.push(*key);
    }

    fn supports(&self, language: Language) -> bool {
        language == Language::Cpp
    }

    fn extract(&self, _language: Language, _content: &[u8], _limits: &ExtractLimits) -> Option<Extraction> {
        let facts = self.facts.clone();
        Some(if self.is_lasting { Extraction::Lasting(facts) } else { Extraction::Passing(facts) })
    }
}

#[test]
fn facts_that_stand_in_for_others_are_neither_kept_nor_taken_for_them() {
    let limits = ExtractLimits::default();
    let content = CPP.as_bytes().to_vec();
    let written = || vec![Change::Written { path: "a.cpp".into(), content: content.clone() }];
    let alone = facts_of_the_file_alone(Language::Cpp, CPP.as_bytes(), Gap::Failed);
    let mut failing = Other { facts: alone, is_lasting: false, saved: Vec::new() };
    let mut index = CodeIndex::new(limits);
    index.apply(written(), &mut failing);
    assert!(failing.saved.is_empty());
    assert_eq!(index.facts("a.cpp").unwrap().gap, Some(Gap::Failed));
    let folder = tempfile::tempdir().unwrap();
    let mut kept = FactsFolder::open(folder.path(), 1 << 20).unwrap();
    index.keep_relationships(&mut kept);
    // Once the facts are there, the relationships of those that stood in are not theirs.
    add_grammars();
    let mut later = CodeIndex::new(limits);
    later.take(written().remove(0), &mut kept);
    assert_eq!(later.settle_with(&mut kept), 1);
    let mut clean = CodeIndex::new(limits);
    clean.apply(written(), &mut NoStore);
    assert_eq!(everything(&later), everything(&clean));
    assert!(everything(&clean).len() > everything(&index).len());
}

#[test]
fn a_file_of_a_language_that_is_not_there_is_not_indexed() {
    assert!(!is_indexed_with("a.cpp", |_| false) && is_indexed_with("a.cpp", |one| one == Language::Cpp));
    assert!(is_indexed_with("package.json", |_| false), "a manifest is of no language");
    let facts = facts_of_the_file_alone(Language::Cpp, b"", Gap::Failed);
    let mut store = Other { facts, is_lasting: true, saved: Vec::new() };
    let mut index = CodeIndex::new(ExtractLimits::default());
    index.apply(vec![Change::Written { path: "a.cs".into(), content: b"class A {}".to_vec() }], &mut store);
    assert_eq!(index.file_count(), 0);
}
