//! Relationships that a compiler found.

use std::sync::Arc;

use codegraph::{Change, CodeIndex, ExtractLimits, ImportCounts, Imported, NoStore, ScipImport};
use scip_index::{IndexReader, ScipLimits};

use crate::files::{Files, rows};

/// A program in which the text does not say which `go` is called.
const MAIN: &str = "def run(x):\n    x.go()\n    made = Other\n";
const PARTS: &str =
    "class A:\n    def go(self):\n        pass\n\nclass B:\n    def go(self):\n        pass\n";
const GO: &str = "scip-python python p 1 `parts`/B#go().";

/// Returns a field with a length below 16,384.
fn bytes(field: u8, content: &[u8]) -> Vec<u8> {
    let [low, high] = u16::try_from(content.len()).unwrap().to_le_bytes();
    let length = u16::from_le_bytes([low, high]);
    let first = u8::try_from(length & 0x7f).unwrap() | 0x80;
    let mut out = vec![field << 3 | 2, first, u8::try_from(length >> 7).unwrap()];
    out.extend_from_slice(content);
    out
}

fn occurrence(range: [u8; 3], symbol: &str, roles: u8) -> Vec<u8> {
    bytes(2, &[bytes(1, &range), bytes(2, symbol.as_bytes()), vec![3 << 3, roles]].concat())
}

fn document(path: &str, occurrences: &[Vec<u8>]) -> Vec<u8> {
    bytes(2, &[bytes(1, path.as_bytes()), occurrences.concat()].concat())
}

/// Returns the index of the program.
fn scip() -> Vec<u8> {
    [
        bytes(1, &bytes(3, b"file:///p")),
        document("main.py", &[occurrence([1, 6, 8], GO, 8)]),
        document("parts.py", &[occurrence([5, 8, 10], GO, 1)]),
        document("../outside.py", &[occurrence([5, 8, 10], GO, 1)]),
    ]
    .concat()
}

fn import(index: &CodeIndex, files: &Files, scip: &[u8]) -> (Imported, ImportCounts) {
    let mut import = ScipImport::new(index);
    let content = |path: &str| files.0.get(path).cloned();
    let mut reader = IndexReader::new(scip, ScipLimits::default());
    while let Some(document) = reader.next_document().unwrap() {
        import.define(&document, content).unwrap();
    }
    let mut reader = IndexReader::new(scip, ScipLimits::default());
    while let Some(document) = reader.next_document().unwrap() {
        import.refer(&document, content).unwrap();
    }
    import.finish()
}

fn callees(index: &CodeIndex) -> Vec<String> {
    let query = "MATCH (f {name: 'run'})-[c]->(g) WHERE type(c) IN ['CALLS', 'MAY_CALL'] \
                 RETURN type(c), g.id, c.confidence, c.via";
    rows(&index.graph("p").unwrap(), query)
}

#[test]
fn what_a_compiler_found_counts_until_the_file_changes() {
    const OURS: [&str; 2] =
        ["MAY_CALL parts.py#A.go name_only name", "MAY_CALL parts.py#B.go name_only name"];
    const THEIRS: [&str; 1] = ["CALLS parts.py#B.go exact compiler"];
    let files = Files::of(&[("main.py", MAIN), ("parts.py", PARTS)]);
    let mut index = CodeIndex::build(&files, ExtractLimits::default());
    assert_eq!(callees(&index), OURS);
    let (imported, counts) = import(&index, &files, &scip());
    assert_eq!(counts, ImportCounts { fitting: 2, outdated: 0, unknown: 1, places: 1 });
    let imported = Arc::new(imported);
    index.set_imported(imported.clone());
    assert_eq!(callees(&index), OURS, "nothing was settled yet");
    index.settle_changes();
    assert_eq!(callees(&index), THEIRS);

    let write = |path: &str, text: &str| Change::Written { path: path.to_owned(), content: text.into() };
    index.apply(vec![write("main.py", &format!("{MAIN}\n"))], &mut NoStore);
    assert_eq!(callees(&index), OURS, "the file is another one");
    index.apply(vec![write("main.py", MAIN)], &mut NoStore);
    assert_eq!(callees(&index), THEIRS, "the file is the one that was imported again");
    let without = PARTS.replace("class B:\n    def go", "class B:\n    def stop");
    index.apply(vec![write("parts.py", &without)], &mut NoStore);
    assert_eq!(callees(&index), ["MAY_CALL parts.py#A.go name_only name"], "the definition is gone");
    index.apply(vec![write("parts.py", PARTS)], &mut NoStore);
    assert_eq!(callees(&index), THEIRS);
    index.set_imported(Arc::default());
    index.settle_changes();
    assert_eq!(callees(&index), OURS);
}

#[test]
fn an_index_of_another_state_of_the_files_is_outdated() {
    let files = Files::of(&[("main.py", &format!("\n{MAIN}")), ("parts.py", &format!("\n{PARTS}"))]);
    let index = CodeIndex::build(&files, ExtractLimits::default());
    let (imported, counts) = import(&index, &files, &scip());
    assert_eq!((counts.outdated, counts.places), (1, 0), "{counts:?}");
    assert_eq!(imported.file_count(), 1, "a document without definitions fits every text");
}
