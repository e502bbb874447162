//! The commits in a pack (`gitformat-pack`). A pack may lie, so what this finds is only shown.

use std::collections::{HashMap, HashSet};

use flate2::{Decompress, FlushDecompress, Status};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Maximum number of bytes to which the objects of a pack may inflate.
const INFLATED: usize = 32 * 1024 * 1024;
/// Maximum size of a commit that is read, in bytes.
const LARGEST_COMMIT: usize = 256 * 1024;

/// Types of objects in a pack.
const COMMIT: u8 = 1;
const OTHERS: std::ops::RangeInclusive<u8> = 2..=4;
const DELTA_BY_OFFSET: u8 = 6;
const DELTA_BY_ID: u8 = 7;

/// The commits of a pack.
#[derive(Debug)]
pub(crate) struct Pack {
    commits: usize,
    /// Parents by commit.
    parents: HashMap<String, Vec<String>>,
}

impl Pack {
    /// Returns the number of commits.
    pub(crate) fn commits(&self) -> usize {
        self.commits
    }

    /// Returns true if the commits of the pack lead from `new` back to `old`.
    pub(crate) fn leads_to(&self, new: &str, old: &str) -> bool {
        let (new, old) = (new.to_ascii_lowercase(), old.to_ascii_lowercase());
        let mut open = vec![new.as_str()];
        let mut seen = HashSet::new();
        while let Some(id) = open.pop() {
            if id == old {
                return true;
            }
            if seen.insert(id) {
                open.extend(self.parents.get(id).into_iter().flatten().map(String::as_str));
            }
        }
        false
    }
}

/// Reads a whole pack whose ids have this many digits. Returns `None` if it is not one, or too large.
pub(crate) fn read(bytes: &[u8], digits: usize) -> Option<Pack> {
    let id_bytes = digits / 2;
    let count = u32::from_be_bytes(*bytes.get(8..)?.first_chunk()?);
    let mut at = 12;
    let mut left = INFLATED;
    // Ids of the bases of deltas. A base outside of the pack is a tree or a file: git makes no delta of
    // a commit to one that it does not send.
    let mut bases: Vec<String> = Vec::new();
    let mut kinds: HashMap<usize, u8> = HashMap::new();
    let mut pack = Pack { commits: 0, parents: HashMap::new() };
    for _ in 0..count {
        let start = at;
        let (kind, size) = header(bytes, &mut at)?;
        let kind = match kind {
            COMMIT => COMMIT,
            kind if OTHERS.contains(&kind) => kind,
            DELTA_BY_OFFSET => {
                let back = offset(bytes, &mut at)?;
                *kinds.get(&start.checked_sub(back)?)?
            }
            DELTA_BY_ID => {
                bases.push(hexadecimal(bytes.get(at..)?.get(..id_bytes)?));
                at += id_bytes;
                DELTA_BY_ID
            }
            _ => return None,
        };
        kinds.insert(start, kind);
        let is_commit = kind == COMMIT;
        let is_plain = is_commit && bytes.get(start).is_some_and(|byte| byte >> 4 & 7 == COMMIT);
        let is_read = is_plain && size <= LARGEST_COMMIT;
        let content = inflate(bytes, &mut at, size, &mut left, is_read)?;
        pack.commits += usize::from(is_commit);
        if is_read {
            let id = id_of(&content, digits);
            pack.parents.insert(id, parents(&content));
        }
    }
    pack.commits += bases.iter().filter(|base| pack.parents.contains_key(*base)).count();
    // The checksum of the pack follows.
    (bytes.len() == at + id_bytes).then_some(pack)
}

/// Reads the type of an object and its size.
fn header(bytes: &[u8], at: &mut usize) -> Option<(u8, usize)> {
    let mut byte = *bytes.get(*at)?;
    *at += 1;
    let kind = byte >> 4 & 7;
    let mut size = usize::from(byte & 15);
    let mut shift = 4_u32;
    while byte & 0x80 != 0 {
        byte = *bytes.get(*at)?;
        *at += 1;
        if shift > 40 {
            return None;
        }
        size |= usize::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
    }
    Some((kind, size))
}

/// Reads how far before a delta its base is.
fn offset(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let mut byte = *bytes.get(*at)?;
    *at += 1;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        byte = *bytes.get(*at)?;
        *at += 1;
        value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
    }
    Some(value)
}

/// Inflates an object of this size and moves `at` behind it. Returns its content, which is empty unless `keeps`.
fn inflate(bytes: &[u8], at: &mut usize, size: usize, left: &mut usize, keeps: bool) -> Option<Vec<u8>> {
    if size > *left {
        return None;
    }
    *left -= size;
    let mut inflater = Decompress::new(true);
    let mut kept = Vec::new();
    let mut buffer = vec![0; size.clamp(1, 16 * 1024)];
    loop {
        let (read, written) = (inflater.total_in(), inflater.total_out());
        let status = inflater.decompress(bytes.get(*at..)?, &mut buffer, FlushDecompress::None).ok()?;
        let used = usize::try_from(inflater.total_in() - read).ok()?;
        let made = usize::try_from(inflater.total_out() - written).ok()?;
        *at += used;
        if usize::try_from(inflater.total_out()).ok()? > size {
            return None;
        }
        if keeps {
            kept.extend_from_slice(&buffer[..made]);
        }
        match status {
            Status::StreamEnd => break,
            Status::Ok | Status::BufError if used == 0 && made == 0 => return None,
            Status::Ok | Status::BufError => {}
        }
    }
    let is_right = usize::try_from(inflater.total_out()).is_ok_and(|total| total == size);
    is_right.then_some(kept)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn id_of(content: &[u8], digits: usize) -> String {
    let head = format!("commit {}\0", content.len());
    if digits == 40 {
        hexadecimal(&Sha1::new().chain_update(head).chain_update(content).finalize())
    } else {
        hexadecimal(&Sha256::new().chain_update(head).chain_update(content).finalize())
    }
}

/// Returns the parents that a commit names.
fn parents(content: &[u8]) -> Vec<String> {
    let lines = content.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    let parents = lines.filter_map(|line| line.strip_prefix(b"parent "));
    parents.map(|id| String::from_utf8_lossy(id).to_ascii_lowercase()).collect()
}
