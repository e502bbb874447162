//! Objects of a repository by their ids.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::ZlibDecoder;
use roots::{Roots, RootsError};

use super::error::{GitError, Result};
use super::format;
use super::id::{ObjectId, ObjectKind};
use super::pack::{Pack, StoredObject, patched};
use crate::listing::LARGEST_FILE;

/// Number of packs that are looked at.
const MOST_PACKS: usize = 1_000;

/// Number of folders of objects: that of the repository, and those that it borrows from.
const MOST_FOLDERS: usize = 16;

/// The objects of a repository, opened through the roots of a call.
pub(crate) struct Objects<'a> {
    roots: &'a Roots,
    /// Folder of this working tree in the repository.
    pub(super) own: PathBuf,
    /// Folder of the repository that working trees share.
    pub(super) common: PathBuf,
    /// Folder of the workspace in the working tree; empty if it is the top one.
    pub(super) within: PathBuf,
    /// Folders of objects: that of the repository first, then those that it borrows from.
    folders: Vec<PathBuf>,
    packs: Vec<Pack>,
}

impl<'a> Objects<'a> {
    /// Opens the repository of the workspace: that of its own folder, or of the nearest folder above whose
    /// repository the call may read.
    pub(crate) fn open(roots: &'a Roots, workspace: &Path) -> Result<Self> {
        for top in workspace.ancestors() {
            match Self::open_at(roots, top, workspace) {
                Err(GitError::NoRepository) => {}
                Err(GitError::Roots(
                    RootsError::NotInRoots { .. }
                    | RootsError::LeadsOutside { .. }
                    | RootsError::Refused { .. },
                )) if top != workspace => break,
                opened => return opened,
            }
        }
        Err(GitError::NoRepository)
    }

    fn open_at(roots: &'a Roots, top: &Path, workspace: &Path) -> Result<Self> {
        let dot_git = top.join(".git");
        let own = match small_file(roots, &dot_git) {
            Ok(Some(text)) => {
                let named = text.strip_prefix("gitdir:").ok_or(GitError::Damaged(".git names no folder"))?;
                top.join(named.trim())
            }
            Ok(None) => return Err(GitError::NoRepository),
            Err(GitError::Roots(RootsError::WrongKind { .. })) => dot_git,
            Err(error) => return Err(error),
        };
        let common = match small_file(roots, &own.join("commondir"))? {
            Some(relative) => own.join(relative.trim()),
            None => own.clone(),
        };
        let configuration = small_file(roots, &common.join("config"));
        if let Some(text) = if_readable(configuration)? {
            format::check(&text)?;
        }
        let within = workspace.strip_prefix(top).unwrap_or(Path::new("")).to_owned();
        let folders = vec![common.join("objects")];
        let mut objects = Self { roots, own, common, within, folders, packs: Vec::new() };
        objects.borrow()?;
        for folder in objects.folders.clone() {
            objects.find_packs(&folder)?;
        }
        Ok(objects)
    }

    /// Finds the folders that the repository borrows objects from. Those that the call may not read are left
    /// out, so their objects are missing.
    fn borrow(&mut self) -> Result<()> {
        let mut at = 0;
        while let Some(folder) = self.folders.get(at).cloned() {
            at += 1;
            let listed = if_readable(small_file(self.roots, &folder.join("info/alternates")))?;
            for line in listed.iter().flat_map(|text| text.lines()) {
                let other = folder.join(line.trim());
                let is_path = !line.trim().is_empty() && !line.starts_with('#');
                // Repositories may borrow from each other.
                if is_path && !self.folders.contains(&other) && self.folders.len() < MOST_FOLDERS {
                    self.folders.push(other);
                }
            }
        }
        Ok(())
    }

    /// Opens the packs. The folder may be missing.
    fn find_packs(&mut self, objects: &Path) -> Result<()> {
        let is_own = self.folders.first().is_some_and(|own| own == objects);
        let folder = match self.roots.open_folder(&objects.join("pack")) {
            Ok(folder) => folder,
            Err(RootsError::NotFound { .. } | RootsError::NoFolder { .. }) => return Ok(()),
            Err(_) if !is_own => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let (entries, _) = folder.first_entries(None, 2 * MOST_PACKS)?;
        let names = entries.iter().filter(|entry| entry.name.as_encoded_bytes().ends_with(b".idx"));
        for entry in names.take(MOST_PACKS) {
            let index = folder.open_file(entry.name)?;
            let name = Path::new(entry.name).with_extension("pack");
            let data = folder.open_file(name.as_os_str())?;
            self.packs.push(Pack::open(index.file, data.file)?);
        }
        Ok(())
    }

    /// Returns the text of a small file of the repository, or `None` if it is missing.
    pub(super) fn text(&self, path: &Path) -> Result<Option<String>> {
        small_file(self.roots, path)
    }

    /// Reads an object.
    pub(crate) fn read(&mut self, id: &ObjectId) -> Result<(ObjectKind, Vec<u8>)> {
        if let Some(found) = self.loose(id)? {
            return Ok(found);
        }
        // A delta may be against an object elsewhere.
        let mut wanted = *id;
        let mut deltas: Vec<Vec<u8>> = Vec::new();
        loop {
            let mut found = None;
            for pack in &mut self.packs {
                if let Some(offset) = pack.find(&wanted)? {
                    found = Some(pack.read(offset, &mut deltas)?);
                    break;
                }
            }
            match found {
                Some(StoredObject::Whole(kind, base)) => {
                    let whole = patched(base, &deltas)?;
                    return Ok((kind, whole));
                }
                Some(StoredObject::Against(base)) => {
                    if let Some((kind, base)) = self.loose(&base)? {
                        return Ok((kind, patched(base, &deltas)?));
                    }
                    wanted = base;
                }
                None => return Err(GitError::Missing(wanted.to_string())),
            }
        }
    }

    /// Reads an object of a file of its own.
    fn loose(&self, id: &ObjectId) -> Result<Option<(ObjectKind, Vec<u8>)>> {
        let name = id.to_string();
        let (folder, rest) = name.split_at(2);
        let mut opened = None;
        for (at, objects) in self.folders.iter().enumerate() {
            match self.roots.open_file(&objects.join(folder).join(rest)) {
                Ok(found) => {
                    opened = Some(found);
                    break;
                }
                Err(RootsError::NotFound { .. } | RootsError::NoFolder { .. }) => {}
                Err(_) if at > 0 => {}
                Err(error) => return Err(error.into()),
            }
        }
        let Some(opened) = opened else { return Ok(None) };
        let mut content = Vec::new();
        // The head is at most 32 bytes long.
        let mut inflated = ZlibDecoder::new(BufReader::new(opened.file)).take(LARGEST_FILE + 32);
        inflated.read_to_end(&mut content).map_err(|_| GitError::Damaged("a loose object"))?;
        let end = content.iter().take(32).position(|byte| *byte == 0);
        let end = end.ok_or(GitError::Damaged("a loose object without a head"))?;
        let head = String::from_utf8_lossy(content.get(..end).unwrap_or_default()).into_owned();
        let (kind, size) = head.split_once(' ').ok_or(GitError::Damaged("the head of a loose object"))?;
        let kind = match kind {
            "commit" => ObjectKind::Commit,
            "tree" => ObjectKind::Tree,
            "blob" => ObjectKind::Blob,
            "tag" => ObjectKind::Tag,
            _ => return Err(GitError::Damaged("the type of a loose object")),
        };
        let size: u64 = size.parse().map_err(|_| GitError::Damaged("the size of a loose object"))?;
        if size > LARGEST_FILE {
            return Err(GitError::TooLarge);
        }
        content.drain(..=end);
        if content.len() as u64 != size {
            return Err(GitError::Damaged("a loose object of another size"));
        }
        Ok(Some((kind, content)))
    }

    /// Returns the ids that begin with these hexadecimal digits, at most two.
    pub(super) fn with_prefix(&mut self, digits: &str) -> Result<Vec<ObjectId>> {
        let mut found = Vec::new();
        let (folder, rest) = digits.split_at(2.min(digits.len()));
        if let Ok(folder_of_loose) = self.roots.open_folder(&self.common.join("objects").join(folder)) {
            let (entries, _) = folder_of_loose.first_entries(None, 100_000)?;
            let names = entries.iter().filter_map(|entry| entry.name.to_str());
            let ids = names.filter(|name| name.starts_with(rest));
            found.extend(ids.filter_map(|name| ObjectId::parse(&format!("{folder}{name}"))).take(2));
        }
        for pack in &mut self.packs {
            found.extend(pack.with_prefix(digits)?);
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

/// Returns the text of a file of at most 16 MiB, or `None` if it is missing.
/// Returns a file, or `None` if the call may not read it.
fn if_readable(file: Result<Option<String>>) -> Result<Option<String>> {
    match file {
        Err(GitError::Roots(
            RootsError::NotInRoots { .. } | RootsError::LeadsOutside { .. } | RootsError::Refused { .. },
        )) => Ok(None),
        file => file,
    }
}

fn small_file(roots: &Roots, path: &Path) -> Result<Option<String>> {
    let opened = match roots.open_file(path) {
        Ok(opened) => opened,
        Err(RootsError::NotFound { .. } | RootsError::NoFolder { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = Vec::new();
    opened.file.take(16 << 20).read_to_end(&mut bytes)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
