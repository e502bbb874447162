//! Findings of compilers in the files of a workspace, in one file beside its facts.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::PARTIAL;
use crate::imported::Imported;

/// Name of the file.
const NAME: &str = "compilers.import";
/// First bytes, with the version of what is around the content, and of the content itself.
const MAGIC: [u8; 8] = *b"import\0\x01";
/// Size of a checksum.
const CHECKSUM: usize = 32;
/// Maximum size of the file. The places that an import may have take about half of it.
const MAXIMUM: u64 = 512 << 20;

/// The file of a workspace that has what compilers found. Nothing of it is kept in memory.
#[derive(Debug, Clone)]
pub struct ImportFile {
    folder: PathBuf,
}

/// The state of an [`ImportFile`] as the system tells it. It differs once another import was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportStamp {
    modified: Option<SystemTime>,
    size: u64,
}

impl ImportFile {
    /// Names the file in a folder of facts. It is created when an import is stored.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// Returns the state of the file; `None` if there is none.
    pub fn stamp(&self) -> Option<ImportStamp> {
        let metadata = fs::symlink_metadata(self.path()).ok()?;
        Some(ImportStamp { modified: metadata.modified().ok(), size: metadata.len() })
    }

    /// Reads what was stored; nothing if there is no file.
    ///
    /// # Errors
    /// Returns the error of the system if the file cannot be read, and [`io::ErrorKind::InvalidData`] if the file
    /// is damaged, too large, or of another version.
    pub fn load(&self) -> io::Result<Imported> {
        let path = self.path();
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return Err(invalid("no regular file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Imported::default()),
            Err(error) => return Err(error),
        }
        let mut bytes = Vec::new();
        File::open(&path)?.take(MAXIMUM + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAXIMUM {
            return Err(invalid("too large"));
        }
        let Some((head, content)) = bytes.split_at_checked(MAGIC.len() + CHECKSUM) else {
            return Err(invalid("damaged"));
        };
        let (magic, known) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(invalid("of another version"));
        }
        if known != blake3::hash(content).as_bytes() {
            return Err(invalid("damaged"));
        }
        postcard::from_bytes(content).map_err(|_| invalid("damaged"))
    }

    /// Stores an import in place of the one before. A process that is killed meanwhile leaves that one whole.
    ///
    /// # Errors
    /// Returns the error of the system if the file cannot be written, or is too large to be read again.
    pub fn save(&self, imported: &Imported) -> io::Result<()> {
        let content = postcard::to_allocvec(imported).map_err(io::Error::other)?;
        if (content.len() + MAGIC.len() + CHECKSUM) as u64 > MAXIMUM {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the import is too large to be stored"));
        }
        fs::create_dir_all(&self.folder)?;
        let mut partial = tempfile::Builder::new().suffix(PARTIAL).tempfile_in(&self.folder)?;
        // Held until the file has its name, so that another process does not take it for an abandoned one.
        partial.as_file().lock()?;
        partial.write_all(&MAGIC)?;
        partial.write_all(blake3::hash(&content).as_bytes())?;
        partial.write_all(&content)?;
        partial.as_file().sync_all()?;
        partial.persist(self.path())?.unlock()
    }

    /// Removes the file. Returns false if there was none.
    ///
    /// # Errors
    /// Returns the error of the system if the file cannot be removed.
    pub fn remove(&self) -> io::Result<bool> {
        match fs::remove_file(self.path()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn invalid(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem.to_owned())
}
