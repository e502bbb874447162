//! Reading of contents in packs.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use parking_lot::Mutex;
use store_api::{Hash, StoreError};
use zstd::bulk::Decompressor;

use crate::blob_writer::lock;
use crate::blobs::BlobFolder;
use crate::hash_prefixes::{Key, key, keys};
use crate::packs::Pack;

/// Maximum number of open packs: more than the threads, each of which may read another pack.
const MAX_OPEN: usize = 8;

/// An open pack, and its directory.
struct OpenedPack {
    file: File,
    number: i64,
    pack: Pack,
}

/// Maximum number of blocks in the cache, each about 64 KiB. Contents that were saved together are
/// read together, by several threads.
const MAX_BLOCKS: usize = 16;

/// A block of a pack; `None` until it is unpacked.
type UnpackedBlock = Arc<Mutex<Option<Vec<u8>>>>;

/// Reader of packed contents with a cache, so that contents of one pack need no lookup each.
#[derive(Default)]
pub(crate) struct PackReader {
    packs: Mutex<Packs>,
    idle: Mutex<Vec<Decompressor<'static>>>,
    /// Cached blocks, by the numbers of the pack and the block, in the order of their creation.
    blocks: Mutex<VecDeque<((i64, u32), UnpackedBlock)>>,
}

#[derive(Default)]
struct Packs {
    /// Keys of all packs with the pack numbers, newest first per key. The index is rebuilt when a
    /// new pack has come.
    index: Vec<(Key, Reverse<i64>)>,
    newest: Option<i64>,
    /// Open packs, in the order of opening.
    open: Vec<Arc<OpenedPack>>,
}

impl PackReader {
    /// Reads a packed content. Returns `None` if the content is not packed, or its pack is gone.
    pub(crate) fn read(&self, blobs: &BlobFolder, content: &Hash) -> Result<Option<Vec<u8>>, StoreError> {
        // A second reader of the same pack waits, so that the pack is not opened twice.
        let found = lock(&self.packs).find(blobs, content)?;
        let Some(opened) = found else { return Ok(None) };
        let Some(place) = opened.pack.contents.get(content) else { return Ok(None) };
        // A second reader of the same block waits, so that the block is not unpacked twice.
        let block = self.block((opened.number, place.block));
        let mut unpacked = lock(&block);
        let bytes = match &mut *unpacked {
            Some(bytes) => bytes,
            none => none.insert(self.unpack(&opened, place.block).map_err(|error| blobs.failed(error))?),
        };
        let content = place.of(bytes).map(|content| Some(content.to_vec()));
        content.ok_or_else(|| blobs.failed(damaged()))
    }

    fn block(&self, wanted: (i64, u32)) -> UnpackedBlock {
        let mut blocks = lock(&self.blocks);
        if let Some((_, found)) = blocks.iter().rev().find(|(place, _)| *place == wanted) {
            return found.clone();
        }
        if blocks.len() == MAX_BLOCKS {
            blocks.pop_front();
        }
        let block = UnpackedBlock::default();
        blocks.push_back((wanted, block.clone()));
        block
    }

    fn unpack(&self, opened: &OpenedPack, block: u32) -> io::Result<Vec<u8>> {
        let block = opened.pack.blocks.get(block as usize).ok_or_else(damaged)?;
        let idle = lock(&self.idle).pop();
        let mut decompressor = match idle {
            Some(decompressor) => decompressor,
            None => Decompressor::new()?,
        };
        let bytes = block.read(&opened.file, &mut decompressor);
        lock(&self.idle).push(decompressor);
        bytes
    }
}

fn damaged() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "a pack of saved files is damaged")
}

impl Packs {
    fn find(&mut self, blobs: &BlobFolder, content: &Hash) -> Result<Option<Arc<OpenedPack>>, StoreError> {
        let holds = |opened: &&Arc<OpenedPack>| opened.pack.contents.contains_key(content);
        if let Some(opened) = self.open.iter().rev().find(holds) {
            return Ok(Some(opened.clone()));
        }
        self.update_index(blobs)?;
        let key = key(content);
        let first = self.index.partition_point(|(found, _)| *found < key);
        for (_, Reverse(number)) in self.index[first..].iter().take_while(|(found, _)| *found == key) {
            if self.open.iter().any(|opened| opened.number == *number) {
                continue;
            }
            // A pack truncated by a power loss may have been written again under another name.
            let Some(opened) = open(blobs, *number, content)? else { continue };
            if self.open.len() == MAX_OPEN {
                self.open.remove(0);
            }
            let opened = Arc::new(opened);
            self.open.push(opened.clone());
            return Ok(Some(opened));
        }
        Ok(None)
    }

    fn update_index(&mut self, blobs: &BlobFolder) -> Result<(), StoreError> {
        blobs.database.read(|connection| {
            let mut statement = connection.prepare_cached("SELECT max(number) FROM packs")?;
            let newest = statement.query_row([], |row| row.get(0))?;
            if newest == self.newest {
                return Ok(());
            }
            let mut statement = connection.prepare("SELECT number, keys FROM packs")?;
            let mut rows = statement.query([])?;
            self.index.clear();
            while let Some(row) = rows.next()? {
                let number = row.get(0)?;
                self.index.extend(keys(row.get_ref(1)?.as_blob()?).iter().map(|key| (*key, Reverse(number))));
            }
            // The sort is fast, because the index consists of sorted runs.
            self.index.sort();
            self.newest = newest;
            Ok(())
        })
    }
}

/// Opens the pack with this number, if it contains the content and is intact up to the content's
/// end.
fn open(blobs: &BlobFolder, number: i64, content: &Hash) -> Result<Option<OpenedPack>, StoreError> {
    let pack = blobs.database.read(|connection| Pack::read(connection, number))?;
    let Some((pack, end)) = pack.and_then(|pack| pack.end_of(content).map(|end| (pack, end))) else {
        return Ok(None);
    };
    let path = blobs.pack_path(&pack.name);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::from_io(&path, error)),
    };
    let length = file.metadata().map_err(|error| StoreError::from_io(&path, error))?.len();
    Ok((end <= length).then_some(OpenedPack { file, number, pack }))
}
