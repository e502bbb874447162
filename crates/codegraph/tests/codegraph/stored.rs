//! Relationships that are kept beside the facts: an index that takes them is equal to one that resolved them.

use std::fs;
use std::path::PathBuf;

use codegraph::{Change, CodeIndex, ExtractLimits, FactsFolder};
use proptest::prelude::*;

use crate::files::Files;
use crate::incremental::{LANGUAGES, apply, edits, everything, fixture};

const SPACE: u64 = 64 << 20;

/// Takes all files into a new index, and settles it with the store. Returns the number of files that were resolved.
fn open(files: &Files, store: &mut FactsFolder) -> (CodeIndex, usize) {
    let mut index = CodeIndex::new(ExtractLimits::default());
    for (path, content) in &files.0 {
        index.take(Change::Written { path: path.clone(), content: content.clone() }, store);
    }
    let resolved = index.settle_with(store);
    (index, resolved)
}

/// Returns the files that have relationships.
fn kept(folder: &tempfile::TempDir) -> Vec<PathBuf> {
    let all = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut kept: Vec<PathBuf> =
        all.filter(|path| path.extension().is_some_and(|ending| ending == "links")).collect();
    kept.sort();
    kept
}

fn clean(files: &Files) -> Vec<String> {
    everything(&CodeIndex::build(files, ExtractLimits::default()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_index_that_is_opened_between_edits_equals_a_new_one(
        language in 0..LANGUAGES.len(),
        edits in edits(),
        opened_after in 0_usize..4,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = FactsFolder::open(folder.path(), SPACE).unwrap();
        let first = fixture(LANGUAGES[language]);
        let mut files = first.clone();
        let mut index = open(&files, &mut store).0;
        for (number, edit) in edits.iter().enumerate() {
            let changes = apply(&mut files, &first, edit);
            index.apply(changes, &mut store);
            if number == opened_after {
                index.keep_relationships(&mut store);
                let (opened, resolved) = open(&files, &mut store);
                prop_assert_eq!(resolved, 0);
                index = opened;
            }
            prop_assert!(everything(&index) == clean(&files), "after {:?}", edit);
        }
    }
}

#[test]
fn damaged_foreign_and_old_relationships_are_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = FactsFolder::open(folder.path(), SPACE).unwrap();
    let files = fixture("rust");
    let (mut index, resolved) = open(&files, &mut store);
    assert_eq!(resolved, files.0.len());
    index.keep_relationships(&mut store);
    let [path] = kept(&folder).try_into().unwrap();
    let whole = fs::read(&path).unwrap();
    assert_eq!(open(&files, &mut store).1, 0, "the whole file is taken");
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let mut other_version = whole.clone();
    other_version[7] ^= 1;
    for damaged in [&[][..], &whole[..20], &whole[..whole.len() - 1], &flipped, &other_version] {
        fs::write(&path, damaged).unwrap();
        let (opened, resolved) = open(&files, &mut store);
        assert_eq!(resolved, files.0.len());
        assert!(everything(&opened) == clean(&files));
    }
    // The relationships of other files under this name.
    let others = fixture("go");
    let mut index = open(&others, &mut store).0;
    index.keep_relationships(&mut store);
    let other = kept(&folder).into_iter().find(|other| *other != path).unwrap();
    fs::copy(other, &path).unwrap();
    assert_eq!(open(&files, &mut store).1, files.0.len());
    fs::write(&path, whole).unwrap();
    assert_eq!(open(&files, &mut store).1, 0);
}

#[test]
fn another_process_takes_them_and_an_edited_project_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = fixture("java");
    let mut one = FactsFolder::open(folder.path(), SPACE).unwrap();
    let mut other = FactsFolder::open(folder.path(), SPACE).unwrap();
    let mut index = open(&files, &mut one).0;
    index.keep_relationships(&mut one);
    let (opened, resolved) = open(&files, &mut other);
    assert_eq!(resolved, 0);
    assert!(everything(&opened) == clean(&files));
    files.0.get_mut("Main.java").unwrap().extend(b"\n// a comment\n");
    let (opened, resolved) = open(&files, &mut other);
    assert_eq!(resolved, opened.file_count());
    assert!(everything(&opened) == clean(&files));
}

#[test]
fn a_half_written_file_is_no_file_and_old_ones_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = FactsFolder::open(folder.path(), SPACE).unwrap();
    let mut files = fixture("rust");
    fs::write(folder.path().join("x.partial"), b"links").unwrap();
    for number in 0..12 {
        files.0.insert(format!("src/more{number}.rs"), format!("fn more{number}() {{}}\n").into_bytes());
        let mut index = open(&files, &mut store).0;
        index.keep_relationships(&mut store);
    }
    assert_eq!(kept(&folder).len(), 8);
    assert_eq!(open(&files, &mut store).1, 0, "the newest one is there");
    drop(store);
    FactsFolder::open(folder.path(), SPACE).unwrap();
    assert!(!folder.path().join("x.partial").exists());
}
