//! Tests of packs: saving, reading, pruning, damage, and the formats of earlier versions.

use std::io::Read;
use std::time::Duration;

use proptest::prelude::*;
use store_api::{Checkpoint, CheckpointEntry, CheckpointState, Retention, Store as _};

use crate::SqliteStore;
use crate::database::TO_FORMAT_8;

use super::*;

fn content(store: &SqliteStore, hash: &Hash) -> Option<Vec<u8>> {
    let mut read = Vec::new();
    store.blobs().reader().unwrap().open(hash).ok()?.read_to_end(&mut read).ok()?;
    Some(read)
}

pub(crate) fn save(store: &SqliteStore, names: &[&str]) -> Vec<Hash> {
    let saver = store.blobs().saver().unwrap();
    let hashes = names.iter().map(|name| saver.save(&mut name.as_bytes()).unwrap()).collect();
    saver.finish().unwrap();
    hashes
}

pub(crate) fn checkpoint(store: &SqliteStore, id: &str, contents: &[Hash]) {
    let checkpoint = Checkpoint {
        id: id.to_owned(),
        session: None,
        tool: "file_write".to_owned(),
        workspace: "/w".into(),
        made_at: "2026-01-01T00:00:00Z".parse().unwrap(),
        folder: id.to_owned(),
        state: CheckpointState::Done,
        undoes: None,
        paths: 1,
        bytes: 1,
        unsaved: Vec::new(),
        roots: Vec::new(),
    };
    let entry = |content: &Hash| CheckpointEntry {
        path: "a".into(),
        before: None,
        after: None,
        content: Some(*content),
    };
    store.checkpoints().add(&checkpoint, &mut contents.iter().map(entry), &[]).unwrap();
}

fn prune(store: &SqliteStore) -> u64 {
    let none = Retention { max_bytes: 0, max_age: Duration::ZERO, keep_newest: 0 };
    store.outputs().prune(&none, "2200-01-01T00:00:00Z".parse().unwrap(), &|| true).unwrap().blobs
}

/// Saves as formats 6 and 7 did: every content is compressed separately.
fn save_as_format_6(store: &SqliteStore, names: &[&str]) -> Vec<Hash> {
    let (mut bytes, mut contents) = (Vec::new(), BTreeMap::new());
    for name in names {
        let compressed = zstd::bulk::compress(name.as_bytes(), LEVEL).unwrap();
        let numbers =
            [bytes.len(), compressed.len(), name.len()].map(|number| u32::try_from(number).unwrap());
        contents.insert(Hash::of(name.as_bytes()), numbers);
        bytes.extend(compressed);
    }
    let name = Hash::of(&bytes);
    let path = store.blobs.pack_path(&name);
    create_folder(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
    let entries = contents.iter().map(|(hash, numbers)| (hash, *numbers));
    add_pack(&store.database.connect().unwrap(), &name, entries, None).unwrap();
    names.iter().map(|name| Hash::of(name.as_bytes())).collect()
}

/// Downgrades a state to format 5, with a row for each content.
fn as_format_5(store: &SqliteStore) {
    let connection = store.database.connect().unwrap();
    let fourth = include_str!("../schema/0004.sql");
    connection.execute_batch(fourth).unwrap();
    let numbers: Vec<i64> = connection
        .prepare("SELECT number FROM packs")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    for number in numbers {
        let pack = Pack::read(&connection, number).unwrap().unwrap();
        for (content, place) in &pack.contents {
            let Block { start, length, size } = pack.blocks[place.block as usize];
            connection
                .execute(
                    "INSERT INTO packed (content, pack, start, length, size) VALUES (?, ?, ?, ?, ?)",
                    params![content.as_bytes(), pack.name.as_bytes(), start, length, size],
                )
                .unwrap();
        }
    }
    connection.execute_batch(TO_FORMAT_8).unwrap();
    connection
        .execute_batch(
            "CREATE INDEX checkpoint_entries_by_content ON checkpoint_entries (content) WHERE content IS NOT NULL;
             DROP TABLE packs; DROP TABLE checkpoint_contents; DROP TABLE memory_vectors; DROP INDEX memories_by_agent;
             PRAGMA user_version = 5;",
        )
        .unwrap();
}

#[test]
fn a_state_of_format_5_keeps_what_it_has_saved() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    let (kept, left) =
        (save_as_format_6(&store, &["one", "two", "three"]), save_as_format_6(&store, &["four", "five"]));
    checkpoint(&store, "c1", &kept[1..2]);
    checkpoint(&store, "c2", &[]);
    as_format_5(&store);
    drop(store);
    let store = SqliteStore::open(folder.path()).unwrap();
    for (hash, name) in kept.iter().chain(&left).zip(["one", "two", "three", "four", "five"]) {
        assert_eq!(content(&store, hash).as_deref(), Some(name.as_bytes()));
    }
    // A packed content is packed once, and goes when no checkpoint needs it.
    save(&store, &["one", "four"]);
    assert_eq!(prune(&store), 1, "the pack of what no checkpoint needs");
    assert_eq!(content(&store, &kept[2]).as_deref(), Some(&b"three"[..]), "in the pack of what one needs");
    assert_eq!(content(&store, &left[0]), None);
    store.checkpoints().remove("c1").unwrap();
    assert_eq!(prune(&store), 1);
    let left: i64 = store
        .database
        .read(|connection| connection.query_row("SELECT count(*) FROM packs", [], |row| row.get(0)))
        .unwrap();
    assert_eq!(left, 0);
}

#[test]
fn what_formats_6_and_7_have_packed_is_read_and_packed_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    let old = save_as_format_6(&store, &["one", "two", ""]);
    assert_eq!(save(&store, &["one", "three", "four"])[0], old[0]);
    for (hash, name) in old.iter().zip(["one", "two", ""]) {
        assert_eq!(content(&store, hash).as_deref(), Some(name.as_bytes()));
    }
    let packs = |connection: &Connection| {
        let numbers: Vec<i64> = connection
            .prepare("SELECT number FROM packs ORDER BY number")?
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        numbers.into_iter().map(|number| Pack::read(connection, number)).collect::<rusqlite::Result<Vec<_>>>()
    };
    let packs = store.database.read(packs).unwrap();
    let contents = |number: usize| packs[number].as_ref().unwrap().contents.len();
    assert_eq!((packs.len(), contents(0), contents(1)), (2, 3, 2));
}

#[test]
fn what_is_saved_together_is_compressed_together_and_each_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    let texts: Vec<String> =
        (0..40).map(|number| format!("{number} some words\n").repeat(number * 40)).collect();
    let names: Vec<&str> = texts.iter().map(String::as_str).collect();
    let hashes = save(&store, &names);
    let pack = store.database.read(|connection| Pack::read(connection, 1)).unwrap().unwrap();
    let sizes: usize = pack.blocks.iter().map(|block| block.size as usize).sum();
    assert_eq!(sizes, texts.iter().map(String::len).sum::<usize>());
    let (last, others) = pack.blocks.split_last().unwrap();
    assert!(others.len() > 4 && last.size > 0, "{:?}", pack.blocks);
    for block in others {
        assert!((BLOCK..BLOCK + LARGEST_PACKED).contains(&(block.size as usize)), "{block:?}");
    }
    // Read in any order, with more blocks than the cache has, and from several threads.
    let reader = store.blobs().reader().unwrap();
    thread::scope(|scope| {
        for step in [1, 7, 11] {
            let (reader, hashes, texts) = (&reader, &hashes, &texts);
            scope.spawn(move || {
                for index in (0..texts.len()).map(|index| index * step % texts.len()) {
                    let mut read = String::new();
                    reader.open(&hashes[index]).unwrap().read_to_string(&mut read).unwrap();
                    assert!(read == texts[index], "{index}");
                }
            });
        }
    });
}

#[test]
fn a_damaged_pack_is_an_error_and_no_other_content() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    let hashes = save(&store, &["one", "two"]);
    let read = || store.blobs().reader().unwrap().open(&hashes[0]).map(drop);
    read().unwrap();
    let edit = |sql: &str| store.database.connect().unwrap().execute_batch(sql).unwrap();
    // Contents beyond the end of their block, a pack that is shorter than its block, and a missing
    // block.
    edit(
        "UPDATE packs SET directory = CAST(substr(directory, 1, 36) || x'ff000000' || substr(directory, 41, 40) || x'ff000000'
             || substr(directory, 85) AS BLOB)",
    );
    assert!(read().is_err());
    edit("UPDATE packs SET blocks = x'00000000ff00000006000000'");
    assert!(read().is_err());
    edit("UPDATE packs SET blocks = x''");
    assert!(read().is_err());
}

#[test]
fn a_content_whose_hash_begins_like_another_is_not_taken_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    let saved = save(&store, &["one", "two"]);
    let mut alike = *saved[0].as_bytes();
    alike[31] ^= 1;
    let alike = Hash::from(alike);
    assert_eq!(key(&alike), key(&saved[0]));
    assert_eq!(content(&store, &alike), None);
    let found = store.blobs.find_packed([&alike, &saved[0]].into_iter()).unwrap();
    assert_eq!(found, [saved[0]]);
    // Control: only the whole hash is missing.
    assert_eq!(content(&store, &saved[0]).as_deref(), Some(&b"one"[..]));
}

#[test]
fn what_is_saved_while_somebody_reads_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    save(&store, &["one", "two"]);
    let reader = store.blobs().reader().unwrap();
    assert!(reader.open(&Hash::of(b"three")).is_err());
    let later = save(&store, &["three", "four"]);
    let mut read = String::new();
    reader.open(&later[1]).unwrap().read_to_string(&mut read).unwrap();
    assert_eq!(read, "four");
}

#[test]
fn what_a_short_block_has_lost_is_not_taken_for_saved() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    let hashes = save(&store, &["one", "two"]);
    // Handfast 0.1 wrote this pack when an empty content truncated the block: both contents lie
    // beyond its end.
    let compressed = zstd::bulk::compress(b"", LEVEL).unwrap();
    let blocks = vec![Block { start: 0, length: u32::try_from(compressed.len()).unwrap(), size: 0 }];
    let mut pack = store.database.read(|connection| Pack::read(connection, 1)).unwrap().unwrap();
    std::fs::remove_file(store.blobs.pack_path(&pack.name)).unwrap();
    (pack.name, pack.blocks) = (Hash::of(&compressed), blocks);
    let path = store.blobs.pack_path(&pack.name);
    create_folder(path.parent().unwrap()).unwrap();
    std::fs::write(&path, &compressed).unwrap();
    assert_eq!(pack.damaged(&File::open(&path).unwrap()).unwrap().len(), 2);
    let connection = store.database.connect().unwrap();
    connection.execute_batch("DELETE FROM packs").unwrap();
    pack.add_to(&connection).unwrap();
    assert_eq!(content(&store, &hashes[1]), None);
    // After another save the contents are readable, although a row already listed them.
    save(&store, &["one", "two"]);
    assert_eq!(content(&store, &hashes[1]).as_deref(), Some(&b"two"[..]));
}

/// Generates contents of every kind that packing distinguishes: empty, one byte, equal ones, as
/// large as a block, arbitrary.
fn any_contents() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let content = prop_oneof![
        Just(Vec::new()),
        any::<u8>().prop_map(|byte| vec![byte]),
        proptest::collection::vec(any::<u8>(), 0..300),
        Just(b"the same words".to_vec()),
        (any::<u8>(), BLOCK - 1..=BLOCK + 1).prop_map(|(byte, size)| vec![byte; size.min(LARGEST_PACKED)]),
    ];
    proptest::collection::vec(content, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_contents_come_back_byte_for_byte(contents in any_contents()) {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        let saver = store.blobs().saver().unwrap();
        let hashes: Vec<Hash> = contents.iter().map(|content| saver.save(&mut content.as_slice()).unwrap()).collect();
        saver.finish().unwrap();
        drop(saver);
        for (hash, expected) in hashes.iter().zip(&contents) {
            let read = content(&store, hash);
            prop_assert_eq!(read.as_ref(), Some(expected));
        }
    }
}
