//! The files of a plugin, read once: what is hashed is what is copied and run.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, fstat};

use crate::fields::ManifestError;
use crate::manifest::Manifest;

/// Name of the manifest in the folder of a plugin.
pub const MANIFEST_FILE: &str = "plugin.yaml";
/// Maximum number of files of a plugin.
pub const MOST_FILES: usize = 500;
/// Maximum size of all files of a plugin together, in bytes.
pub const LARGEST_FOLDER: u64 = 16 * 1024 * 1024;
/// Maximum depth of folders within a plugin.
const DEEPEST: usize = 12;
/// Maximum length of a path within a plugin, in bytes.
const LONGEST_PATH: usize = 512;
/// Context of the hash, so that no other hash of the same bytes is equal.
const CONTEXT: &str = "handfast 2026 content of a plugin, version 1";

/// Reason why a folder is no plugin.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder or a file cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// Path.
        path: String,
        /// Error of the system.
        source: io::Error,
    },
    /// An entry is neither a regular file nor a folder.
    #[error("{path} is no regular file; a plugin has no links and no special files, so put a copy there")]
    NotRegular {
        /// Path within the folder.
        path: String,
    },
    /// The folder has too many files.
    #[error("the folder has more than {MOST_FILES} files; keep only what the program needs to run")]
    TooMany,
    /// The folder is too large.
    #[error("the folder has more than {LARGEST_FOLDER} bytes; keep only what the program needs to run")]
    TooLarge,
    /// A path is too deep, too long or no text.
    #[error("{path} has a path that is too deep, too long or not UTF-8; give it a shorter one")]
    Path {
        /// Path within the folder.
        path: String,
    },
    /// The folder has no manifest.
    #[error("the folder has no {MANIFEST_FILE}; `handfast plugin new NAME` makes a folder that has one")]
    NoManifest,
    /// The manifest is wrong.
    #[error("{MANIFEST_FILE}: {0}")]
    Manifest(#[from] ManifestError),
}

/// A file of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFile {
    /// Content.
    pub content: Vec<u8>,
    /// True if the file may be executed.
    pub is_executable: bool,
}

/// The content of a plugin's folder at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFolder {
    /// Folder.
    pub path: PathBuf,
    /// Files by their paths within the folder.
    pub files: BTreeMap<String, PluginFile>,
    /// Hash of the paths and contents of all files, as hexadecimal digits.
    pub hash: String,
}

impl PluginFolder {
    /// Reads the folder.
    ///
    /// # Errors
    /// [`FolderError`]
    pub fn read(path: &Path) -> Result<Self, FolderError> {
        Self::read_only_of(path, |_| true)
    }

    /// Reads those entries of the folder that are wanted, and what is below them. Nothing else is looked at.
    ///
    /// # Errors
    /// [`FolderError`]
    pub fn read_only_of(path: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Self, FolderError> {
        let mut files = BTreeMap::new();
        let mut left = LARGEST_FOLDER;
        walk(path, is_wanted, |inside, opened, is_executable| {
            let content = content(opened, left).map_err(|source| unreadable_file(inside, source))?;
            left = left.checked_sub(content.len() as u64).ok_or(FolderError::TooLarge)?;
            files.insert(inside.to_owned(), PluginFile { content, is_executable });
            Ok(())
        })?;
        let hash = hash(&files);
        Ok(Self { path: path.to_owned(), files, hash })
    }

    /// Returns the hash that [`read`](Self::read) would give, without the content of more than a piece of a file in
    /// memory.
    ///
    /// # Errors
    /// [`FolderError`]
    pub fn hash_of(path: &Path) -> Result<String, FolderError> {
        let mut files = BTreeMap::new();
        walk(
            path,
            |_| true,
            |inside, _, is_executable| {
                files.insert(inside.to_owned(), is_executable);
                Ok(())
            },
        )?;
        let root = open_root(path)?;
        let mut hasher = ContentHasher::default();
        let (mut left, mut piece) = (LARGEST_FOLDER, vec![0_u8; PIECE]);
        for (inside, is_executable) in files {
            let failed = |source: io::Error| unreadable_file(&inside, source);
            let opened =
                beneath::open(root.as_fd(), Path::new(&inside), FILE_FLAGS, beneath::Through::Nothing);
            let mut file = File::from(opened.map_err(|errno| failed(errno.into()))?);
            let facts = file.metadata().map_err(failed)?;
            if !facts.is_file() {
                return Err(FolderError::NotRegular { path: tool::visible(&inside) });
            }
            left = left.checked_sub(facts.len()).ok_or(FolderError::TooLarge)?;
            hasher.file(&inside, is_executable, facts.len());
            let mut hashed = 0;
            loop {
                let count = file.read(&mut piece).map_err(failed)?;
                if count == 0 {
                    break;
                }
                hashed += count as u64;
                hasher.content(&piece[..count]);
            }
            if hashed != facts.len() {
                // The hash has the length before the content.
                return Err(failed(io::Error::other("it changed while it was read; try again")));
            }
        }
        Ok(hasher.finish())
    }

    /// Makes the content of a folder that does not exist yet, of texts that are no programs by themselves.
    ///
    /// # Errors
    /// [`FolderError`], as for a folder with these files.
    pub fn of_texts(path: &Path, texts: &BTreeMap<String, String>) -> Result<Self, FolderError> {
        if texts.len() > MOST_FILES {
            return Err(FolderError::TooMany);
        }
        if texts.values().map(|text| text.len() as u64).sum::<u64>() > LARGEST_FOLDER {
            return Err(FolderError::TooLarge);
        }
        let is_plain = |inside: &str| {
            let is_name = |part: &str| !part.is_empty() && part != "." && part != "..";
            inside.len() <= LONGEST_PATH
                && inside.split('/').count() <= DEEPEST
                && inside.split('/').all(is_name)
                && !inside.chars().any(char::is_control)
        };
        if let Some(inside) = texts.keys().find(|inside| !is_plain(inside)) {
            return Err(FolderError::Path { path: tool::visible(inside) });
        }
        let above = |inside: &str| texts.keys().any(|other| other.starts_with(&format!("{inside}/")));
        if let Some(inside) = texts.keys().find(|inside| above(inside)) {
            return Err(FolderError::NotRegular { path: tool::visible(inside) });
        }
        let file = |text: &String| PluginFile { content: text.clone().into_bytes(), is_executable: false };
        let files: BTreeMap<_, _> = texts.iter().map(|(path, text)| (path.clone(), file(text))).collect();
        Ok(Self::of_files(path, files))
    }

    /// Makes the content of a folder of files that were read as part of another one.
    pub fn of_files(path: &Path, files: BTreeMap<String, PluginFile>) -> Self {
        let hash = hash(&files);
        Self { path: path.to_owned(), files, hash }
    }

    /// Returns a stamp of a folder, which differs after every change of a file that leaves a trace in the file
    /// system. Reads no content. `None` if the folder cannot be listed, or has too many entries.
    pub fn stamp(path: &Path) -> Option<String> {
        Some(Self::dated_stamp(path)?.0)
    }

    /// Returns the stamp with the time of the latest change that it covers, in seconds and nanoseconds.
    pub(crate) fn dated_stamp(path: &Path) -> Option<(String, (i64, i64))> {
        let mut latest = (i64::MIN, 0);
        let mut hasher = blake3::Hasher::new();
        let mut folders = vec![path.to_owned()];
        let mut seen = 0;
        while let Some(folder) = folders.pop() {
            let mut entries: Vec<_> =
                std::fs::read_dir(&folder).ok()?.take(MOST_FILES + 1).collect::<Result<_, _>>().ok()?;
            seen += entries.len();
            if seen > MOST_FILES {
                return None;
            }
            entries.sort_by_key(std::fs::DirEntry::file_name);
            for entry in entries {
                let facts = entry.metadata().ok()?;
                hasher.update(entry.file_name().as_encoded_bytes());
                for number in [facts.ino(), facts.size(), u64::from(facts.mode())] {
                    hasher.update(&number.to_le_bytes());
                }
                for number in [facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec()] {
                    hasher.update(&number.to_le_bytes());
                }
                latest =
                    latest.max((facts.ctime(), facts.ctime_nsec())).max((facts.mtime(), facts.mtime_nsec()));
                if facts.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        Some((hasher.finalize().to_hex().to_string(), latest))
    }

    /// Reads the manifest among the files.
    ///
    /// # Errors
    /// [`FolderError::NoManifest`] or [`FolderError::Manifest`].
    pub fn manifest(&self) -> Result<Manifest, FolderError> {
        let file = self.files.get(MANIFEST_FILE).ok_or(FolderError::NoManifest)?;
        let text = std::str::from_utf8(&file.content)
            .map_err(|_| ManifestError::of(MANIFEST_FILE, "is not UTF-8; store it as UTF-8"))?;
        Ok(Manifest::parse(text, |path| self.files.contains_key(path))?)
    }

    /// Writes all files into a new folder, readable by every user of a cell.
    ///
    /// # Errors
    /// The error of the system. The folder may then have some of the files.
    pub fn write_to(&self, target: &Path) -> io::Result<()> {
        for (path, file) in &self.files {
            let to = target.join(path);
            if let Some(around) = to.parent() {
                std::fs::create_dir_all(around)?;
            }
            std::fs::write(&to, &file.content)?;
            let mode = if file.is_executable { 0o755 } else { 0o644 };
            std::fs::set_permissions(&to, std::fs::Permissions::from_mode(mode))?;
            File::open(&to)?.sync_all()?;
        }
        Ok(())
    }
}

impl Manifest {
    /// Reads the manifest in a folder whose hash is known to be that of a plugin.
    ///
    /// # Errors
    /// [`FolderError`]
    pub fn of_folder(folder: &Path) -> Result<Self, FolderError> {
        let text = match std::fs::read_to_string(folder.join(MANIFEST_FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(FolderError::NoManifest),
            Err(error) => return Err(unreadable_file(MANIFEST_FILE, error)),
        };
        Ok(Self::parse(&text, |path| folder.join(path).is_file())?)
    }
}

/// Flags with which a file of a plugin is opened: no link is followed, and nothing waits for a pipe.
const FILE_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::NOFOLLOW);

/// Flags with which a folder is opened.
const FOLDER_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// Bytes of a file that are hashed at once.
const PIECE: usize = 64 * 1024;

fn unreadable(path: &Path, errno: rustix::io::Errno) -> FolderError {
    FolderError::Unreadable { path: tool::path_text(path), source: errno.into() }
}

fn unreadable_file(inside: &str, source: io::Error) -> FolderError {
    FolderError::Unreadable { path: tool::visible(inside), source }
}

fn open_root(path: &Path) -> Result<OwnedFd, FolderError> {
    rustix::fs::open(path, FOLDER_FLAGS, Mode::empty()).map_err(|errno| match errno {
        rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR => {
            FolderError::NotRegular { path: tool::path_text(path) }
        }
        errno => unreadable(path, errno),
    })
}

/// Visits the files of those entries of a folder that are wanted, and of the folders below them, in any order. A file
/// comes with its path in the folder, its descriptor, and whether it may be executed.
fn walk(
    path: &Path,
    is_wanted: impl Fn(&str) -> bool,
    mut visit: impl FnMut(&str, OwnedFd, bool) -> Result<(), FolderError>,
) -> Result<(), FolderError> {
    let root = open_root(path)?;
    let mut count = 0;
    let mut folders = vec![(String::new(), 0_usize)];
    while let Some((folder, depth)) = folders.pop() {
        let open = |flags, inside: &str| {
            beneath::open(root.as_fd(), Path::new(inside), flags, beneath::Through::Nothing)
        };
        let listed = open(FOLDER_FLAGS, &folder).map_err(|errno| unreadable(Path::new(&folder), errno))?;
        let entries = Dir::new(listed).map_err(|errno| unreadable(Path::new(&folder), errno))?;
        for entry in entries {
            let entry = entry.map_err(|errno| unreadable(Path::new(&folder), errno))?;
            let name = entry.file_name().to_string_lossy();
            if name == "." || name == ".." {
                continue;
            }
            if folder.is_empty() && !is_wanted(&name) {
                continue;
            }
            let inside = if folder.is_empty() { name.to_string() } else { format!("{folder}/{name}") };
            if entry.file_name().to_str().is_err() || inside.len() > LONGEST_PATH || depth > DEEPEST {
                return Err(FolderError::Path { path: tool::visible(&inside) });
            }
            if count + folders.len() >= MOST_FILES {
                return Err(FolderError::TooMany);
            }
            let opened = open(FILE_FLAGS, &inside).map_err(|errno| match errno {
                rustix::io::Errno::LOOP | rustix::io::Errno::XDEV | rustix::io::Errno::NXIO => {
                    FolderError::NotRegular { path: tool::visible(&inside) }
                }
                errno => unreadable(Path::new(&inside), errno),
            })?;
            let facts = fstat(&opened).map_err(|errno| unreadable(Path::new(&inside), errno))?;
            match FileType::from_raw_mode(facts.st_mode) {
                FileType::Directory => folders.push((inside, depth + 1)),
                FileType::RegularFile => {
                    visit(&inside, opened, facts.st_mode & 0o100 != 0)?;
                    count += 1;
                }
                _ => return Err(FolderError::NotRegular { path: tool::visible(&inside) }),
            }
        }
    }
    Ok(())
}

/// Reads a file. One byte beyond the limit is enough to know that it is too large.
fn content(file: OwnedFd, most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::from(file).take(most.saturating_add(1)).read_to_end(&mut content)?;
    Ok(content)
}

/// Hash of files, in the order of their paths. Each part is preceded by its length, so that no two folders give the same
/// bytes.
struct ContentHasher(blake3::Hasher);

impl Default for ContentHasher {
    fn default() -> Self {
        Self(blake3::Hasher::new_derive_key(CONTEXT))
    }
}

impl ContentHasher {
    /// Begins a file, whose content of `length` bytes follows.
    fn file(&mut self, path: &str, is_executable: bool, length: u64) {
        for part in [path.as_bytes(), &[u8::from(is_executable)]] {
            self.0.update(&(part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
        self.0.update(&length.to_le_bytes());
    }

    fn content(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    fn finish(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}

fn hash(files: &BTreeMap<String, PluginFile>) -> String {
    let mut hasher = ContentHasher::default();
    for (path, file) in files {
        hasher.file(path, file.is_executable, file.content.len() as u64);
        hasher.content(&file.content);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "1").unwrap();
        std::fs::create_dir(folder.path().join("b")).unwrap();
        std::fs::write(folder.path().join("b/c"), "2").unwrap();
        folder
    }

    fn read(folder: &tempfile::TempDir) -> Result<PluginFolder, FolderError> {
        PluginFolder::read(folder.path())
    }

    #[test]
    fn the_hash_changes_with_every_name_content_and_mode_and_with_nothing_else() {
        let one = folder();
        let first = read(&one).unwrap();
        assert_eq!(first.files.keys().collect::<Vec<_>>(), ["a", "b/c"]);
        assert_eq!(read(&folder()).unwrap().hash, first.hash, "the place and the times do not count");
        let copy = tempfile::tempdir().unwrap();
        first.write_to(copy.path()).unwrap();
        assert_eq!(read(&copy).unwrap().hash, first.hash);
        let changes: [fn(&Path); 4] = [
            |path| std::fs::write(path.join("a"), "3").unwrap(),
            |path| std::fs::rename(path.join("a"), path.join("d")).unwrap(),
            |path| std::fs::write(path.join("b/e"), "").unwrap(),
            |path| std::fs::set_permissions(path.join("a"), std::fs::Permissions::from_mode(0o755)).unwrap(),
        ];
        for change in changes {
            let other = folder();
            change(other.path());
            assert_ne!(read(&other).unwrap().hash, first.hash);
        }
    }

    #[test]
    fn texts_give_the_hash_of_their_folder_and_paths_out_of_it_are_refused() {
        let texts = |paths: &[&str]| {
            let texts = paths.iter().map(|path| ((*path).to_owned(), "1".to_owned())).collect();
            PluginFolder::of_texts(Path::new("/p"), &texts)
        };
        let one = tempfile::tempdir().unwrap();
        std::fs::write(one.path().join("a"), "1").unwrap();
        std::fs::create_dir(one.path().join("b")).unwrap();
        std::fs::write(one.path().join("b/c"), "1").unwrap();
        assert_eq!(texts(&["a", "b/c"]).unwrap().hash, read(&one).unwrap().hash);
        let deep = "x/".repeat(DEEPEST + 1) + "y";
        for wrong in ["../a", "/a", "a//b", "", "a/./b", "a\nb", &deep] {
            assert!(matches!(texts(&[wrong]), Err(FolderError::Path { .. })), "{wrong}");
        }
        assert!(matches!(texts(&["a", "a/b"]), Err(FolderError::NotRegular { .. })));
    }

    #[test]
    fn a_stamp_changes_with_the_files_and_is_missing_without_them() {
        let one = folder();
        let before = PluginFolder::stamp(one.path()).unwrap();
        assert_eq!(PluginFolder::stamp(one.path()).unwrap(), before);
        std::fs::write(one.path().join("b/c"), "another").unwrap();
        assert_ne!(PluginFolder::stamp(one.path()).unwrap(), before);
        assert_eq!(PluginFolder::stamp(Path::new("/nowhere")), None);
    }

    #[test]
    fn it_refuses_links_and_special_files() {
        let linked = folder();
        symlink("/etc/passwd", linked.path().join("b/l")).unwrap();
        assert!(matches!(read(&linked), Err(FolderError::NotRegular { path }) if path == "b/l"));
        let fifo = folder();
        rustix::fs::mknodat(rustix::fs::CWD, fifo.path().join("f"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(matches!(read(&fifo), Err(FolderError::NotRegular { .. })), "and does not wait for it");
        let around = tempfile::tempdir().unwrap();
        symlink(folder().path(), around.path().join("plugin")).unwrap();
        let of_link = PluginFolder::read(&around.path().join("plugin"));
        assert!(matches!(of_link, Err(FolderError::NotRegular { .. })), "{of_link:?}");
    }

    #[test]
    fn it_refuses_what_is_too_large() {
        let many = folder();
        for number in 0..MOST_FILES {
            std::fs::write(many.path().join(format!("{number}")), "").unwrap();
        }
        assert!(matches!(read(&many), Err(FolderError::TooMany)));
        let large = folder();
        let file = File::create(large.path().join("large")).unwrap();
        file.set_len(LARGEST_FOLDER * 100).unwrap();
        assert!(matches!(read(&large), Err(FolderError::TooLarge)));
        let deep = folder();
        std::fs::create_dir_all(deep.path().join("x/".repeat(DEEPEST + 3))).unwrap();
        assert!(matches!(read(&deep), Err(FolderError::Path { .. })));
        assert!(matches!(read(&folder()).unwrap().manifest(), Err(FolderError::NoManifest)));
    }
}
