//! The files of a commit by their paths.

use tool_support::left_out::is_hidden;

use super::error::{GitError, Result};
use super::id::{ObjectId, ObjectKind};
use super::objects::Objects;
use super::revision::header;
use crate::listing::{MOST_FILES, PACKAGES};

/// Folders that are read at most.
const MOST_FOLDERS: usize = 100_000;

/// Entries that are looked at in all: more than any folder of people has.
const MOST_ENTRIES: usize = 4_000_000;

/// Depth of folders.
const DEEPEST: usize = 100;

/// Judgement on a path.
type Judge<'a> = &'a dyn Fn(&str) -> bool;

/// A file of a commit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CommitFile {
    /// Path from the top folder, with slashes.
    pub(crate) path: String,
    /// Object with the content.
    pub(crate) id: ObjectId,
}

/// Lists the files of a commit that the graph is made of, and the number of those that the limits leave out.
/// `may_read` is asked about each folder and file, and `is_code` about each file.
pub(crate) fn files(
    objects: &mut Objects<'_>,
    commit: &ObjectId,
    (may_read, is_code): (Judge<'_>, Judge<'_>),
    is_stopped: &dyn Fn() -> bool,
) -> Result<(Vec<CommitFile>, u64)> {
    let (_, content) = objects.read(commit)?;
    let root = header(&content, "tree ").next().ok_or(GitError::Damaged("a commit names no tree"))?;
    let Some(root) = below(objects, root)? else { return Ok((Vec::new(), 0)) };
    let mut waiting = vec![(String::new(), root, 0)];
    let (mut found, mut left_out, mut folders, mut entries) = (Vec::new(), 0, 0_usize, 0_usize);
    while let Some((folder, id, depth)) = waiting.pop() {
        folders += 1;
        // An object that names itself, or the same one many times, makes a tree without end.
        if folders > MOST_FOLDERS || entries > MOST_ENTRIES || depth > DEEPEST {
            return Err(GitError::Damaged("its folders have no end"));
        }
        if is_stopped() {
            return Ok((Vec::new(), 0));
        }
        let (kind, content) = objects.read(&id)?;
        if kind != ObjectKind::Tree {
            return Err(GitError::Damaged("a folder is no tree"));
        }
        let mut rest = content.as_slice();
        while !rest.is_empty() {
            entries += 1;
            let Entry { mode, name, id, after } =
                entry(rest).ok_or(GitError::Damaged("an entry of a tree"))?;
            rest = after;
            let Ok(name) = std::str::from_utf8(name) else {
                left_out += 1;
                continue;
            };
            let is_name = !name.is_empty() && !name.contains('/');
            if !is_name || is_hidden(name.as_ref()) || name == PACKAGES {
                continue;
            }
            let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            match mode {
                b"40000" | b"040000" if may_read(&path) => waiting.push((path, id, depth + 1)),
                // Links (120000) and submodules (160000) are not followed.
                b"100644" | b"100755" | b"100664" if is_code(&path) && may_read(&path) => {
                    if found.len() < MOST_FILES {
                        found.push(CommitFile { path, id });
                    } else {
                        left_out += 1;
                    }
                }
                _ => {}
            }
        }
    }
    found.sort();
    Ok((found, left_out))
}

/// Returns the tree of the workspace's folder, or `None` if the commit does not have it.
fn below(objects: &mut Objects<'_>, root: ObjectId) -> Result<Option<ObjectId>> {
    let mut at = root;
    for part in &objects.within.clone() {
        let (kind, content) = objects.read(&at)?;
        if kind != ObjectKind::Tree {
            return Err(GitError::Damaged("a folder is no tree"));
        }
        let (mut rest, mut found) = (content.as_slice(), None);
        while !rest.is_empty() {
            let Entry { mode, name, id, after } =
                entry(rest).ok_or(GitError::Damaged("an entry of a tree"))?;
            rest = after;
            if name == part.as_encoded_bytes() && matches!(mode, b"40000" | b"040000") {
                found = Some(id);
            }
        }
        let Some(id) = found else { return Ok(None) };
        at = id;
    }
    Ok(Some(at))
}

/// The first entry of a tree.
struct Entry<'a> {
    mode: &'a [u8],
    name: &'a [u8],
    id: ObjectId,
    /// Entries that follow.
    after: &'a [u8],
}

/// Splits the first entry off.
fn entry(bytes: &[u8]) -> Option<Entry<'_>> {
    let space = bytes.iter().take(8).position(|byte| *byte == b' ')?;
    let (mode, rest) = (bytes.get(..space)?, bytes.get(space + 1..)?);
    let end = rest.iter().position(|byte| *byte == 0)?;
    let (name, rest) = (rest.get(..end)?, rest.get(end + 1..)?);
    let (id, after) = rest.split_at_checked(20)?;
    Some(Entry { mode, name, id: ObjectId(id.try_into().ok()?), after })
}
