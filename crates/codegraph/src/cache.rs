//! Facts that outlive the process, in one folder that the caller names. Several processes may share it.
//!
//! The folder has packs: files that are written once, under another name, and then renamed. So a process that is
//! killed leaves whole packs, and loses the facts that were in none yet. Everything in a pack has a checksum, and
//! what does not agree with it is as if it were not there. A checksum finds damage; it keeps out nobody who may
//! write to the folder.

mod imports;
mod pack;
mod sets;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::facts::FileFacts;
use crate::facts_key::FactsKey;
use crate::index::FactsStore;
use pack::{Pack, Place};

pub use imports::{ImportFile, ImportStamp};

/// Size of the facts that are kept in memory at most before they are written, in bytes.
const PENDING: usize = 4 << 20;
/// Number of packs from which they are written as one.
const PACKS: usize = 16;
/// The ends of the names of packs, and of those that are being written.
const WHOLE: &str = ".facts";
const PARTIAL: &str = ".partial";

/// A store of facts in a folder.
#[derive(Debug)]
pub struct FactsFolder {
    folder: PathBuf,
    maximum: u64,
    packs: Vec<Pack>,
    /// Pack and place of each key.
    places: HashMap<FactsKey, (usize, Place)>,
    pending: BTreeMap<FactsKey, Vec<u8>>,
    pending_size: usize,
    /// Keys that were asked for or saved. They are kept when others are dropped.
    used: RefCell<BTreeSet<FactsKey>>,
    /// Keys whose facts turned out to be damaged.
    damaged: RefCell<BTreeSet<FactsKey>>,
}

/// The graphs of sets of files, in the folder of the facts. It keeps nothing in memory and locks nothing, so a graph
/// can be written while facts are read.
#[derive(Debug, Clone)]
pub struct GraphFolder {
    folder: PathBuf,
    maximum: u64,
}

impl GraphFolder {
    /// Names a folder, which is created when the first graph is written. A graph of more than `maximum` bytes is not
    /// kept.
    pub fn new(folder: &Path, maximum: u64) -> Self {
        Self { folder: folder.to_owned(), maximum }
    }

    /// Returns the bytes of a graph, if they are there and whole.
    pub(crate) fn load(&self, key: &[u8; 32]) -> Option<Vec<u8>> {
        sets::load(&sets::GRAPHS, &self.folder, key, self.maximum)
    }

    /// Writes the bytes of a graph.
    pub(crate) fn save(&self, key: &[u8; 32], bytes: &[u8]) -> io::Result<()> {
        if u64::try_from(bytes.len()).is_ok_and(|length| length < self.maximum) {
            fs::create_dir_all(&self.folder)?;
            sets::save(&sets::GRAPHS, &self.folder, key, bytes)?;
        }
        Ok(())
    }
}

impl FactsFolder {
    /// Opens a folder, and creates it if it is missing. Above about `maximum` bytes, facts that this process did
    /// not use are dropped when the next ones are written.
    ///
    /// # Errors
    /// Returns the error of the operating system if the folder cannot be created or listed. A pack that cannot be
    /// read is no error.
    pub fn open(folder: &Path, maximum: u64) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut store = Self {
            folder: folder.to_owned(),
            maximum,
            packs: Vec::new(),
            places: HashMap::new(),
            pending: BTreeMap::new(),
            pending_size: 0,
            used: RefCell::default(),
            damaged: RefCell::default(),
        };
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if name.ends_with(WHOLE) {
                paths.push(path);
            } else if name.ends_with(PARTIAL) {
                pack::remove_abandoned(&path);
            }
        }
        paths.sort();
        for path in paths {
            if let Some((pack, places)) = Pack::open(&path) {
                store.add(pack, places);
            } else {
                // A pack that nobody can use. Another process may have removed it already.
                drop(fs::remove_file(&path));
            }
        }
        Ok(store)
    }

    /// Returns the number of facts.
    pub fn entry_count(&self) -> usize {
        self.places.len() + self.pending.keys().filter(|key| !self.places.contains_key(*key)).count()
    }

    /// Writes the facts that are in memory alone.
    ///
    /// # Errors
    /// Returns the error of the operating system if they cannot be written. They stay in memory.
    pub fn flush(&mut self) -> io::Result<()> {
        let size: u64 = self.packs.iter().map(|pack| pack.size).sum();
        let is_large =
            size.saturating_add(u64::try_from(self.pending_size).unwrap_or(u64::MAX)) > self.maximum;
        if self.pending.is_empty() && !is_large {
            return Ok(());
        }
        if is_large || self.packs.len() >= PACKS {
            return self.write_as_one();
        }
        let (pack, places) = Pack::write(&self.folder, &self.pending)?;
        self.add(pack, places);
        self.forget_pending();
        Ok(())
    }

    fn forget_pending(&mut self) {
        self.pending.clear();
        self.pending_size = 0;
    }

    fn add(&mut self, pack: Pack, places: Vec<(FactsKey, Place)>) {
        let number = self.packs.len();
        self.packs.push(pack);
        self.places.extend(places.into_iter().map(|(key, place)| (key, (number, place))));
    }

    /// Writes everything as one pack, and removes those that it replaces: what was used first, then the rest, up
    /// to half of the maximum.
    fn write_as_one(&mut self) -> io::Result<()> {
        let mut left = self.maximum / 2;
        let mut kept = std::mem::take(&mut self.pending);
        let used = self.used.borrow().clone();
        let (first, rest): (Vec<_>, Vec<_>) = self.places.iter().partition(|(key, _)| used.contains(*key));
        for (is_used, entries) in [(true, first), (false, rest)] {
            for (key, (pack, place)) in entries {
                if (is_used || place.length <= left)
                    && let Some(bytes) = self.packs.get(*pack).and_then(|pack| pack.read(key, place))
                {
                    left = left.saturating_sub(place.length);
                    kept.entry(*key).or_insert(bytes);
                }
            }
        }
        let written = Pack::write(&self.folder, &kept);
        let (pack, places) = match written {
            Ok(written) => written,
            Err(error) => {
                self.pending = kept;
                return Err(error);
            }
        };
        self.forget_pending();
        let old = std::mem::take(&mut self.packs);
        self.places.clear();
        for replaced in old.iter().filter(|old| old.path != pack.path) {
            // Another process that has it open reads on; one that lists the folder now finds the new one.
            drop(fs::remove_file(&replaced.path));
        }
        self.add(pack, places);
        Ok(())
    }
}

impl FactsStore for FactsFolder {
    fn has(&self, key: &FactsKey) -> bool {
        let has = (self.pending.contains_key(key) || self.places.contains_key(key))
            && !self.damaged.borrow().contains(key);
        if has {
            self.used.borrow_mut().insert(*key);
        }
        has
    }

    fn load(&self, key: &FactsKey) -> Option<FileFacts> {
        let facts = if let Some(bytes) = self.pending.get(key) {
            FileFacts::from_bytes(bytes).ok()
        } else {
            let (pack, place) = self.places.get(key)?;
            let bytes = self.packs.get(*pack).and_then(|pack| pack.read(key, place));
            bytes.and_then(|bytes| FileFacts::from_bytes(&bytes).ok())
        };
        let keys = if facts.is_some() { &self.used } else { &self.damaged };
        keys.borrow_mut().insert(*key);
        facts
    }

    fn load_relationships(&self, key: &[u8; 32]) -> Option<Vec<u8>> {
        sets::load(&sets::RELATIONSHIPS, &self.folder, key, self.maximum)
    }

    fn save_relationships(&mut self, key: &[u8; 32], bytes: &[u8]) {
        if u64::try_from(bytes.len()).is_ok_and(|length| length < self.maximum) {
            // Without them the next index resolves them anew.
            drop(sets::save(&sets::RELATIONSHIPS, &self.folder, key, bytes));
        }
    }

    fn save(&mut self, key: &FactsKey, facts: &FileFacts) {
        let Ok(bytes) = facts.to_bytes() else { return };
        self.used.borrow_mut().insert(*key);
        self.damaged.borrow_mut().remove(key);
        self.pending_size += bytes.len();
        self.pending.insert(*key, bytes);
        if self.pending_size >= PENDING && self.flush().is_err() {
            // A full disk costs the facts, and not the memory.
            self.forget_pending();
        }
    }
}
