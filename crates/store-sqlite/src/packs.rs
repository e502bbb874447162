//! Packs: small saved files, many in one blob, because a file for each would take longer than copying them.
//!
//! A pack is a sequence of blocks, each of several contents compressed together. For contents of 1 KB, that
//! takes half the time, and two thirds of the space, of compressing each separately. A row contains the
//! position of each content. The file is written before its row, so a killed process leaves at most a file
//! without a row, which pruning removes. A pack stays as a whole while anything in it is referenced.
//!
//! No content is looked up by its hash in the database. Instead, the keys of all packs are scanned, which takes
//! less time than writing index pages all over the file did.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rusqlite::{Connection, params};
use store_api::{Hash, StoreError};
use zstd::bulk::{Compressor, Decompressor};

use crate::blob_writer::LEVEL;
use crate::blobs::{BlobFolder, PACK, create_folder, touch};
use crate::hash_prefixes::{Key, in_both, key, keys, sorted};

/// Size in bytes of the largest content that is packed; the cost of a larger one is its bytes.
pub(crate) const LARGEST_PACKED: usize = 64 * 1024;

/// Size in bytes at which a pack is compressed and written. Until then it stays in memory.
const FULL: usize = 8 * 1024 * 1024;

/// Uncompressed size in bytes at which a block ends. Reading one content unpacks a block, in about 40 µs.
const BLOCK: usize = 64 * 1024;

/// Maximum number of threads that compress a pack.
const MAX_THREADS: usize = 4;

/// Several contents that are compressed together. All numbers are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Offset in the pack.
    pub(crate) start: u32,
    /// Compressed length.
    pub(crate) length: u32,
    /// Uncompressed size.
    pub(crate) size: u32,
}

/// Position of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Number of the block.
    pub(crate) block: u32,
    /// Offset in the uncompressed block, in bytes.
    pub(crate) start: u32,
    /// Size in bytes.
    pub(crate) size: u32,
}

impl Block {
    /// Reads the block from its pack, and decompresses it.
    pub(crate) fn read(&self, file: &File, decompressor: &mut Decompressor<'_>) -> io::Result<Vec<u8>> {
        let mut compressed = vec![0; self.length as usize];
        file.read_exact_at(&mut compressed, self.start.into())?;
        decompressor.decompress(&compressed, self.size as usize)
    }
}

impl Place {
    /// Returns the content's slice of its uncompressed block, or `None` if the block ends before it.
    pub(crate) fn of<'a>(&self, block: &'a [u8]) -> Option<&'a [u8]> {
        block.get(self.start as usize..)?.get(..self.size as usize)
    }
}

/// Returns true if reading a block failed because its file is truncated or has other bytes than were written.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    // System errors have a number; decompression errors and a premature end of file have none.
    error.raw_os_error().is_none()
}

/// Database record of a pack.
pub(crate) struct Pack {
    pub(crate) name: Hash,
    pub(crate) blocks: Vec<Block>,
    pub(crate) contents: BTreeMap<Hash, Place>,
}

impl Pack {
    /// Reads the pack with this number, or returns `None` if its row is damaged or gone.
    pub(crate) fn read(connection: &Connection, number: i64) -> rusqlite::Result<Option<Self>> {
        let mut statement =
            connection.prepare_cached("SELECT name, directory, blocks FROM packs WHERE number = ?")?;
        let mut rows = statement.query([number])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let Some(name) = Hash::from_slice(row.get_ref(0)?.as_blob()?) else { return Ok(None) };
        let entries = row.get_ref(1)?.as_blob()?.as_chunks::<ENTRY>().0.iter().map(decode);
        let block = |[start, length, size]: [u32; 3]| Block { start, length, size };
        let Some(blocks) = row.get_ref(2)?.as_blob_or_null()? else {
            // In formats 6 and 7, each entry is its own block.
            let mut pack = Self { name, blocks: Vec::new(), contents: BTreeMap::new() };
            for ((hash, numbers), number) in entries.zip(0..) {
                pack.blocks.push(block(numbers));
                pack.contents.insert(hash, Place { block: number, start: 0, size: numbers[2] });
            }
            return Ok(Some(pack));
        };
        let blocks = blocks.as_chunks::<NUMBERS>().0.iter().map(|bytes| block(numbers(bytes))).collect();
        let place = |[block, start, size]: [u32; 3]| Place { block, start, size };
        let contents = entries.map(|(hash, numbers)| (hash, place(numbers))).collect();
        Ok(Some(Self { name, blocks, contents }))
    }

    /// Returns the file length up to the end of a content, or `None` if the pack does not contain it.
    ///
    /// Up to Handfast 0.1, an empty content could truncate its block: later bytes were never written.
    pub(crate) fn end_of(&self, content: &Hash) -> Option<u64> {
        let place = self.contents.get(content)?;
        let block = self.blocks.get(place.block as usize)?;
        let is_in_block = u64::from(place.start) + u64::from(place.size) <= u64::from(block.size);
        is_in_block.then(|| u64::from(block.start) + u64::from(block.length))
    }

    /// Reads all contents back, and returns the hashes of those that are missing or do not match their hash.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, except for a premature end.
    pub(crate) fn damaged(&self, file: &File) -> io::Result<Vec<Hash>> {
        let mut by_block: Vec<Vec<(&Hash, &Place)>> = vec![Vec::new(); self.blocks.len()];
        let mut damaged = Vec::new();
        for (hash, place) in &self.contents {
            match by_block.get_mut(place.block as usize) {
                Some(contents) => contents.push((hash, place)),
                None => damaged.push(*hash),
            }
        }
        let numbers: Vec<usize> = (0..self.blocks.len()).collect();
        let found = in_parallel(&numbers, Decompressor::new, |decompressor, number| {
            let bytes = match self.blocks[*number].read(file, decompressor) {
                Ok(bytes) => bytes,
                Err(error) if is_damage(&error) => Vec::new(),
                Err(error) => return Err(error),
            };
            let is_damaged = |(hash, place): &&(&Hash, &Place)| {
                place.of(&bytes).is_none_or(|content| Hash::of(content) != **hash)
            };
            Ok(by_block[*number].iter().filter(is_damaged).map(|(hash, _)| **hash).collect::<Vec<_>>())
        })?;
        damaged.extend(found.into_iter().flatten());
        Ok(damaged)
    }

    fn add_to(&self, transaction: &Connection) -> rusqlite::Result<()> {
        let mut blocks = Vec::with_capacity(self.blocks.len() * NUMBERS);
        for block in &self.blocks {
            encode([block.start, block.length, block.size], &mut blocks);
        }
        let place = |place: &Place| [place.block, place.start, place.size];
        let entries = self.contents.iter().map(|(hash, found)| (hash, place(found)));
        add_pack(transaction, &self.name, entries, Some(&blocks))
    }
}

/// Number of bytes of three numbers.
const NUMBERS: usize = 3 * 4;

/// Number of bytes of one directory entry: a hash and three numbers.
const ENTRY: usize = 32 + NUMBERS;

fn encode(numbers: [u32; 3], to: &mut Vec<u8>) {
    to.extend(numbers.map(u32::to_le_bytes).as_flattened());
}

fn numbers(bytes: &[u8; NUMBERS]) -> [u32; 3] {
    let mut numbers = [[0; 4]; 3];
    numbers.as_flattened_mut().copy_from_slice(bytes);
    numbers.map(u32::from_le_bytes)
}

fn decode(entry: &[u8; ENTRY]) -> (Hash, [u32; 3]) {
    let (mut hash, mut rest) = ([0; 32], [0; NUMBERS]);
    hash.copy_from_slice(&entry[..32]);
    rest.copy_from_slice(&entry[32..]);
    (hash.into(), numbers(&rest))
}

/// Adds the row of a pack, with its contents in the order of their hashes.
fn add_pack<'a>(
    transaction: &Connection,
    name: &Hash,
    contents: impl Iterator<Item = (&'a Hash, [u32; 3])>,
    blocks: Option<&[u8]>,
) -> rusqlite::Result<()> {
    let (mut keys, mut directory) = (Vec::<Key>::new(), Vec::new());
    for (hash, numbers) in contents {
        keys.push(key(hash));
        directory.extend(hash.as_bytes());
        encode(numbers, &mut directory);
    }
    // The migration that gathers packs runs before the `blocks` column exists.
    match blocks {
        Some(blocks) => transaction
            .prepare_cached(
                "INSERT OR REPLACE INTO packs (name, keys, directory, blocks) VALUES (?, ?, ?, ?)",
            )?
            .execute(params![name.as_bytes(), keys.as_flattened(), directory, blocks]),
        None => transaction
            .prepare_cached("INSERT OR REPLACE INTO packs (name, keys, directory) VALUES (?, ?, ?)")?
            .execute(params![name.as_bytes(), keys.as_flattened(), directory]),
    }
    .map(drop)
}

/// Gathers the per-content rows of formats 3 to 5: positions in packs, and needs of checkpoints.
pub(crate) fn gather(transaction: &Connection) -> rusqlite::Result<()> {
    {
        let mut statement =
            transaction.prepare("SELECT pack, content, start, length, size FROM packed ORDER BY pack")?;
        let mut rows = statement.query([])?;
        let mut gathered: Option<(Hash, BTreeMap<Hash, [u32; 3]>)> = None;
        while let Some(row) = rows.next()? {
            let name = Hash::from_slice(row.get_ref(0)?.as_blob()?);
            let Some((name, content)) = name.zip(Hash::from_slice(row.get_ref(1)?.as_blob()?)) else {
                continue;
            };
            let numbers = [row.get(2)?, row.get(3)?, row.get(4)?];
            if let Some((name, contents)) = gathered.take_if(|(last, _)| *last != name) {
                add_pack(transaction, &name, contents.iter().map(|(hash, numbers)| (hash, *numbers)), None)?;
            }
            gathered.get_or_insert_with(|| (name, BTreeMap::new())).1.insert(content, numbers);
        }
        if let Some((name, contents)) = gathered {
            add_pack(transaction, &name, contents.iter().map(|(hash, numbers)| (hash, *numbers)), None)?;
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

/// Records that a checkpoint needs these contents.
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

/// A pack that is being filled, not yet compressed.
#[derive(Default)]
pub(crate) struct FillingPack {
    bytes: Vec<u8>,
    contents: BTreeMap<Hash, Range<usize>>,
}

impl FillingPack {
    pub(crate) fn holds(&self, hash: &Hash) -> bool {
        self.contents.contains_key(hash)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= FULL
    }

    /// Adds a content of at most [`LARGEST_PACKED`] bytes.
    ///
    /// Another thread may have added the same content just before.
    pub(crate) fn add(&mut self, hash: Hash, content: &[u8]) {
        if self.holds(&hash) {
            return;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(content);
        self.contents.insert(hash, start..self.bytes.len());
    }

    /// Returns the content if there is exactly one.
    pub(crate) fn only(&self) -> Option<(Hash, &[u8])> {
        let hash = self.contents.keys().next().filter(|_| self.contents.len() == 1)?;
        Some((*hash, &self.bytes))
    }

    /// Returns the pack without the contents that are packed already.
    fn without(self, packed: &[Hash]) -> Self {
        if packed.is_empty() {
            return self;
        }
        let mut rest = Self::default();
        for (hash, range) in self.in_order() {
            if packed.binary_search(hash).is_err() {
                rest.add(*hash, &self.bytes[range]);
            }
        }
        rest
    }

    /// Returns the contents in storage order: contents saved together lie together.
    ///
    /// INVARIANT: each content begins where the previous one ends. An empty content begins where its neighbour
    /// does, so the sort also uses the end.
    fn in_order(&self) -> Vec<(&Hash, Range<usize>)> {
        let mut contents: Vec<_> = self.contents.iter().map(|(hash, range)| (hash, range.clone())).collect();
        contents.sort_unstable_by_key(|(_, range)| (range.start, range.end));
        contents
    }

    /// Compresses the pack, and returns it with its bytes.
    fn compressed(&self) -> io::Result<(Pack, Vec<u8>)> {
        // A pack is written long before its size exceeds 32 bits.
        let number = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut contents = BTreeMap::new();
        for (hash, range) in self.in_order() {
            if ranges.last().is_none_or(|block| block.len() >= BLOCK) {
                ranges.push(range.start..range.start);
            }
            let block = ranges.len() - 1;
            ranges[block].end = range.end;
            let (start, size) = (number(range.start - ranges[block].start), number(range.len()));
            contents.insert(*hash, Place { block: number(block), start, size });
        }
        let mut bytes = Vec::new();
        let blocks = compress(&self.bytes, &ranges)?
            .iter()
            .zip(&ranges)
            .map(|(compressed, range)| {
                let start = number(bytes.len());
                bytes.extend_from_slice(compressed);
                Block { start, length: number(compressed.len()), size: number(range.len()) }
            })
            .collect();
        Ok((Pack { name: Hash::of(&bytes), blocks, contents }, bytes))
    }
}

/// Compresses parts, with several threads if there are many.
fn compress(bytes: &[u8], parts: &[Range<usize>]) -> io::Result<Vec<Vec<u8>>> {
    let begin = || Compressor::new(LEVEL);
    in_parallel(parts, begin, |compressor, part| compressor.compress(&bytes[part.clone()]))
}

/// Processes every part, with several threads if there are many. The results are in the order of the parts.
fn in_parallel<P: Sync, S, T: Clone + Send>(
    parts: &[P],
    begin: impl Fn() -> io::Result<S> + Sync,
    work: impl Fn(&mut S, &P) -> io::Result<T> + Sync,
) -> io::Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let take_parts = || {
        let mut state = begin()?;
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(number) else { return Ok(done) };
            done.push((number, work(&mut state, part)?));
        }
    };
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    // Starting a thread takes about as long as compressing a block.
    let threads = processors.min(MAX_THREADS).min(parts.len().div_ceil(4));
    let all: io::Result<Vec<Vec<_>>> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take_parts)).collect();
        let own = take_parts();
        let joined = others
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        std::iter::once(own).chain(joined).collect()
    });
    let mut all = all?.concat();
    all.sort_unstable_by_key(|(number, _)| *number);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}

impl BlobFolder {
    /// Writes a pack of the contents that are not packed yet, reads it back, and then records the positions.
    ///
    /// # Errors
    /// Returns an error if the write fails or the bytes read back differ. The pack then has no references.
    pub(crate) fn put_pack(&self, filled: FillingPack) -> Result<(), StoreError> {
        let packed = self.find_packed(filled.contents.keys())?;
        let filled = filled.without(&packed);
        if filled.contents.is_empty() {
            return Ok(());
        }
        let (pack, bytes) = filled.compressed().map_err(|error| self.failed(error))?;
        drop(filled);
        let mut incoming = self.incoming()?;
        incoming.write_all(&bytes).map_err(|error| StoreError::from_io(incoming.path(), error))?;
        // The saved files are about to be replaced, so the pack will be the only copy.
        let damaged =
            pack.damaged(incoming.as_file()).map_err(|error| StoreError::from_io(incoming.path(), error))?;
        if let Some(hash) = damaged.first() {
            return Err(StoreError::NotSaved { hash: *hash });
        }
        let path = self.pack_path(&pack.name);
        if let Some(folder) = path.parent() {
            create_folder(folder)?;
        }
        incoming.persist(&path).map_err(|error| StoreError::from_io(&path, error.error))?;
        self.database.write(|transaction| pack.add_to(transaction))
    }

    /// Returns those of the contents that are packed, and marks their packs as used now.
    fn find_packed<'a>(&self, contents: impl Iterator<Item = &'a Hash>) -> Result<Vec<Hash>, StoreError> {
        let wanted: Vec<&Hash> = contents.collect();
        let wanted_keys = sorted(wanted.iter().copied());
        let candidates = self.database.read(|connection| {
            // The transaction ends on drop: both queries see the same packs.
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
            // A power loss may have truncated a pack.
            packed.extend(
                found.filter(|hash| pack.end_of(hash).is_some_and(|end| end <= length)).copied().copied(),
            );
        }
        packed.sort_unstable();
        packed.dedup();
        Ok(packed)
    }

    /// Marks a pack as used now, and returns its length, or 0 if it is gone.
    fn use_pack(&self, pack: &Hash) -> Result<u64, StoreError> {
        let path = self.pack_path(pack);
        let length = path.symlink_metadata().map_or(0, |found| if found.is_file() { found.len() } else { 0 });
        if length > 0 {
            touch(&path)?;
        }
        Ok(length)
    }

    /// Returns true if any content of a pack has one of these sorted keys.
    pub(crate) fn holds_any(&self, pack: &Hash, wanted: &[Key]) -> Result<bool, StoreError> {
        self.database.read(|connection| {
            let mut statement = connection.prepare_cached("SELECT keys FROM packs WHERE name = ?")?;
            let mut rows = statement.query([pack.as_bytes()])?;
            let Some(row) = rows.next()? else { return Ok(false) };
            Ok(in_both(keys(row.get_ref(0)?.as_blob()?), wanted).next().is_some())
        })
    }

    /// Deletes the row of a pack that is about to be removed.
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
pub(crate) mod tests;
