//! Facts in a folder: kept, shared, and never trusted if they are damaged.

use std::fs;
use std::path::{Path, PathBuf};

use codegraph::{Change, CodeIndex, ExtractLimits, FactsFolder, Update};

use crate::files::rows;

const MAXIMUM: u64 = 64 << 20;

fn changes(count: usize) -> Vec<Change> {
    let write = |number: usize| Change::Written {
        path: format!("m{number}.py"),
        content: format!("import m{}\ndef f{number}():\n    m{}.f{}()\n", number / 2, number / 2, number / 2)
            .into_bytes(),
    };
    (0..count).map(write).collect()
}

/// Indexes some files, and checks that the graph is that of fresh facts.
fn index(store: &mut FactsFolder, count: usize) -> Update {
    let mut index = CodeIndex::new(ExtractLimits::default());
    let update = index.apply(changes(count), store);
    let edges = "MATCH (a)-[r]->(b) RETURN a.id, type(r), r.line, b.id";
    let mut fresh = CodeIndex::new(ExtractLimits::default());
    fresh.apply(changes(count), &mut codegraph::NoStore);
    let [kept, fresh] = [index, fresh].map(|index| rows(&index.graph("project").unwrap(), edges));
    assert_eq!(kept, fresh);
    update
}

fn packs(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn facts_are_there_after_a_new_start() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("a/b");
    let mut store = FactsFolder::open(&at, MAXIMUM).unwrap();
    assert_eq!(index(&mut store, 20).extracted, 20);
    store.flush().unwrap();
    drop(store);
    let mut store = FactsFolder::open(&at, MAXIMUM).unwrap();
    assert_eq!(store.entry_count(), 20);
    assert_eq!(index(&mut store, 20).extracted, 0);
}

#[test]
fn a_process_that_is_killed_loses_only_work() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = FactsFolder::open(folder.path(), MAXIMUM).unwrap();
    index(&mut store, 10);
    store.flush().unwrap();
    index(&mut store, 20);
    // It ends without a word, and leaves half of a pack.
    std::mem::forget(store);
    let half = folder.path().join("half.partial");
    let whole = packs(folder.path());
    fs::copy(&whole[0], &half).unwrap();
    let mut store = FactsFolder::open(folder.path(), MAXIMUM).unwrap();
    assert_eq!(packs(folder.path()), whole, "what nobody writes any more is gone");
    assert_eq!(index(&mut store, 20).extracted, 10);
}

#[test]
fn a_pack_that_is_being_written_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.partial");
    let file = fs::File::create(&path).unwrap();
    file.lock().unwrap();
    FactsFolder::open(folder.path(), MAXIMUM).unwrap();
    assert!(path.exists());
    file.unlock().unwrap();
    FactsFolder::open(folder.path(), MAXIMUM).unwrap();
    assert!(!path.exists());
}

#[test]
fn damage_at_any_byte_is_found_and_the_facts_are_extracted_anew() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = FactsFolder::open(folder.path(), MAXIMUM).unwrap();
    index(&mut store, 3);
    store.flush().unwrap();
    let path = packs(folder.path()).remove(0);
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&path, bad).unwrap();
        let mut store = FactsFolder::open(folder.path(), MAXIMUM).unwrap();
        assert!(index(&mut store, 3).extracted > 0, "byte {at}");
    }
    for length in [0, 7, 15, 16, 100, good.len() - 1] {
        fs::write(&path, &good[..length]).unwrap();
        let mut store = FactsFolder::open(folder.path(), MAXIMUM).unwrap();
        assert!(index(&mut store, 3).extracted > 0, "{length} bytes");
    }
}

#[test]
fn a_table_that_claims_more_than_the_file_has_takes_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = FactsFolder::open(folder.path(), MAXIMUM).unwrap();
    index(&mut store, 1);
    store.flush().unwrap();
    let path = packs(folder.path()).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let store = FactsFolder::open(folder.path(), MAXIMUM).unwrap();
    assert_eq!(store.entry_count(), 0);
    assert!(!path.exists(), "it is of no use to anybody");
}

#[test]
fn two_stores_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut one = FactsFolder::open(folder.path(), MAXIMUM).unwrap();
    let mut other = FactsFolder::open(folder.path(), MAXIMUM).unwrap();
    index(&mut one, 10);
    index(&mut other, 20);
    one.flush().unwrap();
    other.flush().unwrap();
    let mut third = FactsFolder::open(folder.path(), MAXIMUM).unwrap();
    assert_eq!(index(&mut third, 20).extracted, 0);
    // The first one makes one pack of its many, while the other one reads its own.
    for number in 0..20 {
        let mut index = CodeIndex::new(ExtractLimits::default());
        let content = format!("x = {number}\n").into_bytes();
        index.apply(vec![Change::Written { path: "x.py".to_owned(), content }], &mut one);
        one.flush().unwrap();
    }
    assert!(packs(folder.path()).len() < 17);
    assert_eq!(index(&mut third, 20).extracted, 0);
    let mut last = FactsFolder::open(folder.path(), MAXIMUM).unwrap();
    assert_eq!(index(&mut last, 10).extracted, 0);
}

#[test]
fn a_folder_that_is_too_large_keeps_what_was_used() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = FactsFolder::open(folder.path(), MAXIMUM).unwrap();
    index(&mut store, 200);
    store.flush().unwrap();
    let size = fs::metadata(&packs(folder.path())[0]).unwrap().len();
    let mut small = FactsFolder::open(folder.path(), size / 2).unwrap();
    assert_eq!(index(&mut small, 20).extracted, 0);
    small.flush().unwrap();
    let after: u64 = packs(folder.path()).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(after < size / 2, "{after} of {size}");
    let mut again = FactsFolder::open(folder.path(), size / 2).unwrap();
    assert_eq!(index(&mut again, 20).extracted, 0);
}
