//! Small saved files, many in one blob: making a file for each would take longer than copying them.
//!
//! A pack is the compressed contents one behind the other, and a row says where each lies. The file is there before its row,
//! so a process that is killed leaves at most a file that no row names, which pruning removes. A pack stays as a whole while
//! anything in it is referred to.
//!
//! Nothing is looked up by its hash in the database: the keys of all packs are gone through, which takes less than the writing
//! of index pages all over the file did.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use rusqlite::{Connection, params};

use crate::blobs::{Blobs, PACK, create_folder, touch};
use crate::error::StoreError;
use crate::hash::Hash;
use crate::keys::{Key, in_both, key, keys, sorted};

/// The largest content that is packed; what a larger one costs is its bytes.
pub(crate) const LARGEST_PACKED: usize = 64 * 1024;

/// From which size on a pack is written. Until then it lies in memory.
const FULL: usize = 4 * 1024 * 1024;

/// Where a content lies in its pack. All numbers are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) start: u32,
    /// As it lies there, compressed.
    pub(crate) length: u32,
    /// Before it was compressed.
    pub(crate) size: u32,
}

impl Place {
    /// How long the pack has to be.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.start) + u64::from(self.length)
    }
}

/// What the database knows of a pack.
pub(crate) struct Pack {
    pub(crate) name: Hash,
    pub(crate) contents: BTreeMap<Hash, Place>,
}

impl Pack {
    /// The pack of this number; none where it is damaged or gone.
    pub(crate) fn read(connection: &Connection, number: i64) -> rusqlite::Result<Option<Self>> {
        let mut statement =
            connection.prepare_cached("SELECT name, directory FROM packs WHERE number = ?")?;
        let mut rows = statement.query([number])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let Some(name) = Hash::from_slice(row.get_ref(0)?.as_blob()?) else { return Ok(None) };
        let entries = row.get_ref(1)?.as_blob()?.as_chunks::<ENTRY>().0.iter();
        Ok(Some(Self { name, contents: entries.map(decode).collect() }))
    }
}

/// The bytes of one content in a directory: its hash and three numbers.
const ENTRY: usize = 32 + 3 * 4;

fn encode(hash: &Hash, place: &Place, to: &mut Vec<u8>) {
    to.extend(hash.as_bytes());
    for number in [place.start, place.length, place.size] {
        to.extend(number.to_le_bytes());
    }
}

fn decode(entry: &[u8; ENTRY]) -> (Hash, Place) {
    let (mut hash, mut number) = ([0; 32], [[0; 4]; 3]);
    hash.copy_from_slice(&entry[..32]);
    number.as_flattened_mut().copy_from_slice(&entry[32..]);
    let [start, length, size] = number.map(u32::from_le_bytes);
    (hash.into(), Place { start, length, size })
}

fn add_pack(transaction: &Connection, name: &Hash, contents: &BTreeMap<Hash, Place>) -> rusqlite::Result<()> {
    let keys: Vec<Key> = contents.keys().map(key).collect();
    let mut directory = Vec::with_capacity(contents.len() * ENTRY);
    for (hash, place) in contents {
        encode(hash, place, &mut directory);
    }
    transaction
        .prepare_cached("INSERT OR REPLACE INTO packs (name, keys, directory) VALUES (?, ?, ?)")?
        .execute(params![name.as_bytes(), keys.as_flattened(), directory])
        .map(drop)
}

/// Gathers what formats 3 to 5 had a row for each: where contents lie in packs, and what checkpoints need.
pub(crate) fn gather(transaction: &Connection) -> rusqlite::Result<()> {
    {
        let mut statement =
            transaction.prepare("SELECT pack, content, start, length, size FROM packed ORDER BY pack")?;
        let mut rows = statement.query([])?;
        let mut gathered: Option<Pack> = None;
        while let Some(row) = rows.next()? {
            let name = Hash::from_slice(row.get_ref(0)?.as_blob()?);
            let Some((name, content)) = name.zip(Hash::from_slice(row.get_ref(1)?.as_blob()?)) else {
                continue;
            };
            let place = Place { start: row.get(2)?, length: row.get(3)?, size: row.get(4)? };
            if let Some(done) = gathered.take_if(|pack| pack.name != name) {
                add_pack(transaction, &done.name, &done.contents)?;
            }
            gathered
                .get_or_insert_with(|| Pack { name, contents: BTreeMap::new() })
                .contents
                .insert(content, place);
        }
        if let Some(last) = gathered {
            add_pack(transaction, &last.name, &last.contents)?;
        }
    }
    let mut statement = transaction.prepare("SELECT DISTINCT checkpoint FROM checkpoint_entries")?;
    let checkpoints: Vec<String> =
        statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for checkpoint in checkpoints {
        let mut statement = transaction.prepare_cached(
            "SELECT content FROM checkpoint_entries WHERE checkpoint = ? AND content IS NOT NULL",
        )?;
        let contents: Vec<Vec<u8>> =
            statement.query_map([&checkpoint], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let contents: Vec<Hash> = contents.iter().filter_map(|content| Hash::from_slice(content)).collect();
        refer(transaction, &checkpoint, &contents)?;
    }
    transaction.execute_batch("DROP INDEX checkpoint_entries_by_content; DROP TABLE packed;")
}

/// Says that a checkpoint needs these contents.
pub(crate) fn refer<'a>(
    transaction: &Connection,
    checkpoint: &str,
    contents: impl IntoIterator<Item = &'a Hash>,
) -> rusqlite::Result<()> {
    let keys = sorted(contents);
    if keys.is_empty() {
        return Ok(());
    }
    transaction
        .prepare_cached("INSERT INTO checkpoint_contents (checkpoint, keys) VALUES (?, ?)")?
        .execute(params![checkpoint, keys.as_flattened()])
        .map(drop)
}

/// A pack that is being filled.
#[derive(Default)]
pub(crate) struct Filling {
    bytes: Vec<u8>,
    contents: BTreeMap<Hash, Place>,
}

impl Filling {
    pub(crate) fn holds(&self, hash: &Hash) -> bool {
        self.contents.contains_key(hash)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= FULL
    }

    /// Adds a content of at most [`LARGEST_PACKED`], compressed.
    ///
    /// Another thread may have added the same just before.
    pub(crate) fn add(&mut self, hash: Hash, content: &[u8], compressed: &[u8]) {
        if self.holds(&hash) {
            return;
        }
        // A pack is written long before it has so many bytes.
        let number = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let (start, length) = (number(self.bytes.len()), number(compressed.len()));
        self.contents.insert(hash, Place { start, length, size: number(content.len()) });
        self.bytes.extend_from_slice(compressed);
    }

    /// The only content, compressed, where there is but one.
    pub(crate) fn only(&self) -> Option<(Hash, &[u8])> {
        let hash = self.contents.keys().next().filter(|_| self.contents.len() == 1)?;
        Some((*hash, &self.bytes))
    }

    /// The same without what is packed already.
    fn without(self, packed: &[Hash]) -> Self {
        if packed.is_empty() {
            return self;
        }
        let mut rest = Self::default();
        for (hash, place) in self.contents.into_iter().filter(|(hash, _)| packed.binary_search(hash).is_err())
        {
            let bytes = &self.bytes[place.start as usize..][..place.length as usize];
            let start = u32::try_from(rest.bytes.len()).unwrap_or(u32::MAX);
            rest.contents.insert(hash, Place { start, ..place });
            rest.bytes.extend_from_slice(bytes);
        }
        rest
    }
}

impl Blobs {
    /// Writes a pack of what is not packed already, and then where everything in it lies.
    pub(crate) fn put_pack(&self, filled: Filling) -> Result<(), StoreError> {
        let packed = self.find_packed(filled.contents.keys())?;
        let filled = filled.without(&packed);
        if filled.contents.is_empty() {
            return Ok(());
        }
        let pack = Hash::of(&filled.bytes);
        let mut incoming = self.incoming()?;
        incoming.write_all(&filled.bytes).map_err(|error| StoreError::from_io(incoming.path(), error))?;
        let path = self.pack_path(&pack);
        if let Some(folder) = path.parent() {
            create_folder(folder)?;
        }
        incoming.persist(&path).map_err(|error| StoreError::from_io(&path, error.error))?;
        self.database.write(|transaction| add_pack(transaction, &pack, &filled.contents))
    }

    /// Which of these are packed. Their packs are marked as used just now.
    fn find_packed<'a>(&self, contents: impl Iterator<Item = &'a Hash>) -> Result<Vec<Hash>, StoreError> {
        let wanted: Vec<&Hash> = contents.collect();
        let wanted_keys = sorted(wanted.iter().copied());
        let candidates = self.database.read(|connection| {
            // Ends as it is dropped: both queries see the same packs.
            let reading = connection.unchecked_transaction()?;
            let mut statement = reading.prepare("SELECT number, keys FROM packs")?;
            let mut rows = statement.query([])?;
            let mut numbers: Vec<i64> = Vec::new();
            while let Some(row) = rows.next()? {
                if in_both(&wanted_keys, keys(row.get_ref(1)?.as_blob()?)).next().is_some() {
                    numbers.push(row.get(0)?);
                }
            }
            numbers
                .into_iter()
                .map(|number| Pack::read(&reading, number))
                .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        let mut packed = Vec::new();
        for pack in candidates.into_iter().flatten() {
            let lies_there = |hash: &&&Hash| pack.contents.contains_key(**hash);
            let mut found = wanted.iter().filter(lies_there).peekable();
            if found.peek().is_none() {
                continue;
            }
            let length = self.use_pack(&pack.name)?;
            // A power loss may have left a short one.
            packed.extend(found.filter(|hash| pack.contents[**hash].end() <= length).copied().copied());
        }
        packed.sort_unstable();
        packed.dedup();
        Ok(packed)
    }

    /// Marks a pack as used just now, and gives its length; 0 where it is gone.
    fn use_pack(&self, pack: &Hash) -> Result<u64, StoreError> {
        let path = self.pack_path(pack);
        let length = path.symlink_metadata().map_or(0, |found| if found.is_file() { found.len() } else { 0 });
        if length > 0 {
            touch(&path)?;
        }
        Ok(length)
    }

    /// Whether anything in a pack has one of these keys, which are sorted.
    pub(crate) fn holds_any(&self, pack: &Hash, wanted: &[Key]) -> Result<bool, StoreError> {
        self.database.read(|connection| {
            let mut statement = connection.prepare_cached("SELECT keys FROM packs WHERE name = ?")?;
            let mut rows = statement.query([pack.as_bytes()])?;
            let Some(row) = rows.next()? else { return Ok(false) };
            Ok(in_both(keys(row.get_ref(0)?.as_blob()?), wanted).next().is_some())
        })
    }

    /// Before a pack is removed.
    pub(crate) fn forget_pack(&self, pack: &Hash) -> Result<(), StoreError> {
        self.database.write(|transaction| {
            transaction.execute("DELETE FROM packs WHERE name = ?", [pack.as_bytes()]).map(drop)
        })
    }

    pub(crate) fn pack_path(&self, pack: &Hash) -> PathBuf {
        self.path(pack).with_extension(&PACK[1..])
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Duration;

    use crate::{Checkpoint, CheckpointEntry, CheckpointState, Retention, Store};

    use super::*;

    fn content(store: &Store, hash: &Hash) -> Option<Vec<u8>> {
        let mut read = Vec::new();
        store.blobs().reader().unwrap().open(hash).ok()?.read_to_end(&mut read).unwrap();
        Some(read)
    }

    fn save(store: &Store, names: &[&str]) -> Vec<Hash> {
        let saver = store.blobs().saver().unwrap();
        let hashes = names.iter().map(|name| saver.save(&mut name.as_bytes()).unwrap()).collect();
        saver.finish().unwrap();
        hashes
    }

    fn checkpoint(store: &Store, id: &str, contents: &[Hash]) {
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
        store.checkpoints().add(&checkpoint, &contents.iter().map(entry).collect::<Vec<_>>()).unwrap();
    }

    fn prune(store: &Store) -> u64 {
        let none = Retention { max_bytes: 0, max_age: Duration::ZERO, keep_newest: 0 };
        store.outputs().prune(&none, "2200-01-01T00:00:00Z".parse().unwrap()).unwrap().blobs
    }

    /// Brings a state back to format 5, with a row for each content.
    fn as_format_5(store: &Store) {
        let connection = store.database.connect().unwrap();
        let fourth = include_str!("schema/0004.sql");
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
            for (content, Place { start, length, size }) in &pack.contents {
                connection
                    .execute(
                        "INSERT INTO packed (content, pack, start, length, size) VALUES (?, ?, ?, ?, ?)",
                        params![content.as_bytes(), pack.name.as_bytes(), start, length, size],
                    )
                    .unwrap();
            }
        }
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
        let store = Store::open(folder.path()).unwrap();
        let (kept, left) = (save(&store, &["one", "two", "three"]), save(&store, &["four", "five"]));
        checkpoint(&store, "c1", &kept[1..2]);
        checkpoint(&store, "c2", &[]);
        as_format_5(&store);
        drop(store);
        let store = Store::open(folder.path()).unwrap();
        for (hash, name) in kept.iter().chain(&left).zip(["one", "two", "three", "four", "five"]) {
            assert_eq!(content(&store, hash).as_deref(), Some(name.as_bytes()));
        }
        // What it has packed is packed once, and goes with what needs it.
        save(&store, &["one", "four"]);
        assert_eq!(prune(&store), 1, "the pack of what no checkpoint needs");
        assert_eq!(
            content(&store, &kept[2]).as_deref(),
            Some(&b"three"[..]),
            "in the pack of what one needs"
        );
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
    fn a_content_whose_hash_begins_like_another_is_not_taken_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let saved = save(&store, &["one", "two"]);
        let mut alike = *saved[0].as_bytes();
        alike[31] ^= 1;
        let alike = Hash::from(alike);
        assert_eq!(key(&alike), key(&saved[0]));
        assert_eq!(content(&store, &alike), None);
        let found = store.blobs().find_packed([&alike, &saved[0]].into_iter()).unwrap();
        assert_eq!(found, [saved[0]]);
        // The control: it is its whole hash that is missing.
        assert_eq!(content(&store, &saved[0]).as_deref(), Some(&b"one"[..]));
    }

    #[test]
    fn what_is_saved_while_somebody_reads_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        save(&store, &["one", "two"]);
        let reader = store.blobs().reader().unwrap();
        assert!(reader.open(&Hash::of(b"three")).is_err());
        let later = save(&store, &["three", "four"]);
        let mut read = String::new();
        reader.open(&later[1]).unwrap().read_to_string(&mut read).unwrap();
        assert_eq!(read, "four");
    }
}
