//! Small saved files, many in one blob: making a file for each would take longer than copying them.
//!
//! A pack is the compressed contents one behind the other, and rows say where each lies. The file is there before its rows,
//! so a process that is killed leaves at most a file that no row names, which pruning removes. A pack stays as a whole while
//! anything in it is referred to.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rusqlite::{OptionalExtension, params};
use zstd::bulk::Decompressor;

use crate::blobs::{Blobs, PACK, create_folder, touch};
use crate::error::StoreError;
use crate::hash::Hash;
use crate::saver::lock;

/// The largest content that is packed; what a larger one costs is its bytes.
pub(crate) const LARGEST_PACKED: usize = 64 * 1024;

/// From which size on a pack is written. Until then it lies in memory.
const FULL: usize = 4 * 1024 * 1024;

/// Where a content lies in its pack. All numbers are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    start: u32,
    /// As it lies there, compressed.
    length: u32,
    /// Before it was compressed.
    size: u32,
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
        self.database.write(|transaction| {
            let mut statement = transaction.prepare(
                "INSERT INTO packed (content, pack, start, length, size) VALUES (?, ?, ?, ?, ?)
                 ON CONFLICT (content) DO UPDATE SET
                     pack = excluded.pack, start = excluded.start, length = excluded.length, size = excluded.size",
            )?;
            for (content, Place { start, length, size }) in &filled.contents {
                statement.execute(params![content.as_bytes(), pack.as_bytes(), start, length, size])?;
            }
            Ok(())
        })
    }

    /// Which of these are packed. Their packs are marked as used just now.
    fn find_packed<'a>(&self, contents: impl Iterator<Item = &'a Hash>) -> Result<Vec<Hash>, StoreError> {
        let found: Vec<(Hash, Hash, u64)> = self.database.read(|connection| {
            // Ends as it is dropped. Outside one, every query would take and give back a lock of its own.
            let reading = connection.unchecked_transaction()?;
            let mut statement =
                reading.prepare("SELECT pack, start + length FROM packed WHERE content = ?")?;
            let mut found = Vec::new();
            for content in contents {
                let row = statement.query_row([content.as_bytes()], |row| {
                    Ok((Hash::from_slice(row.get_ref(0)?.as_blob()?), row.get::<_, u32>(1)?))
                });
                if let Some((Some(pack), end)) = row.optional()? {
                    found.push((*content, pack, end.into()));
                }
            }
            Ok(found)
        })?;
        let mut lengths = BTreeMap::new();
        let mut packed = Vec::new();
        for (content, pack, end) in found {
            let length = match lengths.get(&pack) {
                Some(length) => *length,
                None => *lengths.entry(pack).or_insert(self.use_pack(&pack)?),
            };
            // A power loss may have left a short one.
            if end <= length {
                packed.push(content);
            }
        }
        packed.sort_unstable();
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

    /// Whether anything in a pack is referred to.
    pub(crate) fn refers_into(&self, pack: &Hash) -> Result<bool, StoreError> {
        self.database.read(|connection| {
            connection.query_row(
                "SELECT EXISTS (
                    SELECT 1 FROM packed JOIN checkpoint_entries USING (content) WHERE packed.pack = ?
                )",
                [pack.as_bytes()],
                |row| row.get(0),
            )
        })
    }

    /// Before a pack is removed.
    pub(crate) fn forget_pack(&self, pack: &Hash) -> Result<(), StoreError> {
        self.database.write(|transaction| {
            transaction.execute("DELETE FROM packed WHERE pack = ?", [pack.as_bytes()]).map(drop)
        })
    }

    pub(crate) fn pack_path(&self, pack: &Hash) -> PathBuf {
        self.path(pack).with_extension(&PACK[1..])
    }
}

/// A pack that is open, and what lies in it.
struct Opened {
    file: File,
    places: HashMap<Hash, Place>,
}

/// How many packs are open at a time: more than there are threads, each of which may read another one.
const MOST_OPEN: usize = 8;

/// Reads packed contents; those of one pack without looking each up.
#[derive(Default)]
pub(crate) struct Unpacking {
    /// The one that was opened last comes last.
    open: Mutex<Vec<Arc<Opened>>>,
    idle: Mutex<Vec<Decompressor<'static>>>,
}

impl Unpacking {
    /// A packed content; nothing where it is not packed, or its pack is gone.
    pub(crate) fn read(&self, blobs: &Blobs, content: &Hash) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(pack) = self.pack_of(blobs, content)? else { return Ok(None) };
        let Some(place) = pack.places.get(content) else { return Ok(None) };
        let idle = lock(&self.idle).pop();
        let mut decompressor = match idle {
            Some(decompressor) => decompressor,
            None => Decompressor::new().map_err(|error| blobs.failed(error))?,
        };
        let mut compressed = vec![0; place.length as usize];
        let read = pack.file.read_exact_at(&mut compressed, place.start.into());
        let bytes = read.and_then(|()| decompressor.decompress(&compressed, place.size as usize));
        lock(&self.idle).push(decompressor);
        bytes.map(Some).map_err(|error| blobs.failed(error))
    }

    fn pack_of(&self, blobs: &Blobs, content: &Hash) -> Result<Option<Arc<Opened>>, StoreError> {
        // Whoever needs one that is being opened waits, so that it is not opened twice.
        let mut open = lock(&self.open);
        if let Some(pack) = open.iter().rev().find(|pack| pack.places.contains_key(content)) {
            return Ok(Some(pack.clone()));
        }
        let Some(pack) = open_pack_of(blobs, content)?.map(Arc::new) else { return Ok(None) };
        if open.len() == MOST_OPEN {
            open.remove(0);
        }
        open.push(pack.clone());
        Ok(Some(pack))
    }
}

fn open_pack_of(blobs: &Blobs, content: &Hash) -> Result<Option<Opened>, StoreError> {
    let found = blobs.database.read(|connection| {
        let mut statement = connection.prepare(
            "SELECT content, start, length, size, pack FROM packed
             WHERE pack = (SELECT pack FROM packed WHERE content = ?)",
        )?;
        let mut rows = statement.query([content.as_bytes()])?;
        let (mut places, mut pack) = (HashMap::new(), None);
        while let Some(row) = rows.next()? {
            let place = Place { start: row.get(1)?, length: row.get(2)?, size: row.get(3)? };
            pack = Hash::from_slice(row.get_ref(4)?.as_blob()?);
            places.extend(Hash::from_slice(row.get_ref(0)?.as_blob()?).map(|content| (content, place)));
        }
        Ok(pack.map(|pack| (pack, places)))
    })?;
    let Some((pack, places)) = found else { return Ok(None) };
    let path = blobs.pack_path(&pack);
    match File::open(&path) {
        Ok(file) => Ok(Some(Opened { file, places })),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::from_io(&path, error)),
    }
}
