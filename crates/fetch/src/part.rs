//! The beginnings of downloads that broke off, kept for a later call that goes on with them.
//!
//! Each lies in a folder of the runtime's own state, as its bytes and a note of what these are worth: which body they are the beginning
//! of, how many there are, and their hash. Bytes that no note vouches for are not used, whoever wrote them and however the program
//! ended. Whoever writes one holds a lock on it, and the others do without.
//!
//! It asks no server: whether a part still is one of what is there now is for the caller to find out.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// How long a part is kept that nobody goes on with.
pub const KEPT: Duration = Duration::from_hours(24);
/// Parts that are kept at most, and bytes of all of them. The oldest go first.
const MOST: usize = 32;
const MOST_BYTES: u64 = 64 * 1024 * 1024 * 1024;
/// Bytes between two notes: what is fetched again at most where the program was killed.
const NOTED_EVERY: u64 = 4 * 1024 * 1024;
/// Bytes that are read at once, and copied between two looks at whether to stop.
const READ: usize = 64 * 1024;
const COPIED: u64 = 16 * 1024 * 1024;

/// What was asked for, as the name of a file that says nothing about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// That of a list of texts.
    pub fn of<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for text in texts {
            let text = text.as_ref();
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text);
        }
        Self(hasher.finalize().to_hex().to_string())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Which body something is the beginning of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    /// What the server calls this state of it: a strong entity tag, or the time of its last change.
    pub validator: String,
    /// Its bytes, where that is known.
    pub total: Option<u64>,
    /// Where it came from: a validator means nothing elsewhere.
    pub place: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    body: Body,
    /// Bytes of the file that count.
    bytes: u64,
    /// Bytes of the body that these stand for. What wrote notes without it covered no secrets, so that its parts are not gone on with.
    received: u64,
    hash: String,
}

/// The folder of the parts.
#[derive(Debug)]
pub struct Parts {
    folder: PathBuf,
}

impl Parts {
    /// Those in this folder, which is made when there is one to keep.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Whether there is a part of this name.
    pub fn has(&self, name: &Name) -> bool {
        self.path(name.as_str(), BYTES).exists()
    }

    /// The part of this name, to be gone on with or begun; none where somebody else is at it. Reads all of it.
    ///
    /// # Errors
    /// Where the folder cannot be written to, or the reading is to stop.
    pub fn hold(&self, name: &Name, goes_on: &dyn Fn() -> bool) -> io::Result<Option<Part>> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let (path, note) = (self.path(name.as_str(), BYTES), self.path(name.as_str(), NOTE));
        let Some(mut file) = open_locked(&path)? else { return Ok(None) };
        // Where this is stopped, all stays as it is.
        let found = vouched_for(&mut file, &note, goes_on)?;
        let hasher = blake3::Hasher::new();
        let mut part = Part { file, path, note, body: None, hasher, written: 0, received: 0, noted: 0 };
        match found {
            Some((note, hasher)) => {
                part.file.set_len(note.bytes)?;
                part.file.seek(io::SeekFrom::Start(note.bytes))?;
                (part.body, part.hasher) = (Some(note.body), hasher);
                (part.written, part.received, part.noted) = (note.bytes, note.received, note.bytes);
            }
            None => part.clear()?,
        }
        Ok(Some(part))
    }

    /// Removes what was kept for too long, and the oldest of what is too much. What is held stays. What cannot be looked at, too.
    pub fn sweep(&self, now: SystemTime) {
        let mut kept: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(metadata) = entry.metadata() else { continue };
            let Ok(changed) = metadata.modified() else { continue };
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(BYTES) => kept.push((changed, metadata.len(), path)),
                // Its part was removed and it was not; a moment passes between the two.
                Some(NOTE | DRAFT) if is_old(changed, now) && !path.with_extension(BYTES).exists() => {
                    let _left = std::fs::remove_file(path);
                }
                _ => {}
            }
        }
        kept.sort_by_key(|(changed, ..)| std::cmp::Reverse(*changed));
        let mut bytes: u64 = 0;
        for (at, (changed, length, path)) in kept.into_iter().enumerate() {
            bytes = bytes.saturating_add(length);
            if is_old(changed, now) || at >= MOST || bytes > MOST_BYTES {
                remove_unheld(&path);
            }
        }
    }

    fn path(&self, name: &str, extension: &str) -> PathBuf {
        self.folder.join(name).with_extension(extension)
    }
}

const BYTES: &str = "part";
const NOTE: &str = "note";
const DRAFT: &str = "new";

fn is_old(changed: SystemTime, now: SystemTime) -> bool {
    now.duration_since(changed).is_ok_and(|age| age > KEPT)
}

/// The file at this path, made where there is none; none where somebody else holds it.
fn open_locked(path: &Path) -> io::Result<Option<File>> {
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
        // Whoever held it before may have removed it between the two.
        if file.metadata()?.nlink() > 0 {
            return Ok(Some(file));
        }
    }
}

fn remove_unheld(path: &Path) {
    let Ok(file) = File::open(path) else { return };
    if file.try_lock().is_ok() {
        let _left = std::fs::remove_file(path.with_extension(NOTE));
        let _left = std::fs::remove_file(path);
    }
}

/// The note, and the hash of the bytes that it vouches for; none where these are others.
fn vouched_for(
    file: &mut File,
    note: &Path,
    goes_on: &dyn Fn() -> bool,
) -> io::Result<Option<(Note, blake3::Hasher)>> {
    let note = std::fs::read(note).ok().and_then(|bytes| serde_json::from_slice::<Note>(&bytes).ok());
    let Some(note) = note.filter(|note| note.bytes > 0) else { return Ok(None) };
    if file.metadata()?.len() < note.bytes {
        return Ok(None);
    }
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; READ];
    let mut reader = file.take(note.bytes);
    loop {
        if !goes_on() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match reader.read(&mut buffer)? {
            0 => break,
            count => hasher.update(buffer.get(..count).unwrap_or_default()),
        };
    }
    Ok((hasher.finalize().to_hex().as_str() == note.hash).then_some((note, hasher)))
}

/// The beginning of a body, which nobody else writes meanwhile. Dropped, it is kept where there is anything in it.
#[derive(Debug)]
pub struct Part {
    file: File,
    path: PathBuf,
    note: PathBuf,
    /// None where it has not begun.
    body: Option<Body>,
    hasher: blake3::Hasher,
    written: u64,
    received: u64,
    noted: u64,
}

impl Part {
    /// What it is the beginning of; none where it has not begun.
    pub fn body(&self) -> Option<&Body> {
        self.body.as_ref()
    }

    /// Counts the bytes of the body that it stands for: the rest begins behind them. The part may have more bytes or fewer, where
    /// secrets in it are covered.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Begins it, whatever was there before.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn begin(&mut self, body: Body) -> io::Result<()> {
        self.clear()?;
        self.body = Some(body);
        Ok(())
    }

    /// Forgets what is there.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn clear(&mut self) -> io::Result<()> {
        // INVARIANT: no note is there that vouches for bytes which are about to be others.
        match std::fs::remove_file(&self.note) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.file.set_len(0)?;
        self.file.rewind()?;
        (self.body, self.hasher) = (None, blake3::Hasher::new());
        (self.written, self.received, self.noted) = (0, 0, 0);
        Ok(())
    }

    /// Puts this behind what is there, which stands for so many bytes of the body from then on.
    ///
    /// # Errors
    /// Where the file cannot be written, for want of space above all.
    pub fn add(&mut self, content: &[u8], received: u64) -> io::Result<()> {
        self.file.write_all(content)?;
        self.hasher.update(content);
        self.written += content.len() as u64;
        self.received = received;
        if self.written - self.noted >= NOTED_EVERY { self.take_note() } else { Ok(()) }
    }

    /// Says how long the body is, now that this is known.
    ///
    /// # Errors
    /// Where that cannot be noted.
    pub fn know(&mut self, total: u64) -> io::Result<()> {
        match &mut self.body {
            Some(body) => body.total = Some(total),
            None => return Ok(()),
        }
        self.take_note()
    }

    /// Reads all of it from its beginning, piece by piece.
    ///
    /// # Errors
    /// Where it cannot be read, or `take` fails.
    pub fn read_through(&mut self, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.file.rewind()?;
        let mut reader = Read::by_ref(&mut self.file).take(self.written);
        let mut buffer = vec![0; READ];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(()),
                count => take(buffer.get(..count).unwrap_or_default())?,
            }
        }
    }

    /// Puts all of it behind what is in another file.
    ///
    /// # Errors
    /// Where that cannot be written, or the copying is to stop.
    pub fn copy_to(&mut self, file: &mut File, goes_on: &dyn Fn() -> bool) -> io::Result<()> {
        self.file.rewind()?;
        let mut left = self.written;
        while left > 0 {
            if !goes_on() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            // Within the kernel, and without a copy where the file system can share what is the same.
            let copied = io::copy(&mut Read::by_ref(&mut self.file).take(left.min(COPIED)), file)?;
            if copied == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= copied;
        }
        Ok(())
    }

    /// Removes it: it is all there, elsewhere, or wanted no more.
    pub fn end(mut self) {
        // Dropped, it goes.
        (self.body, self.written) = (None, 0);
    }

    fn take_note(&mut self) -> io::Result<()> {
        let Some(body) = self.body.clone() else { return Ok(()) };
        let hash = self.hasher.finalize().to_hex().to_string();
        let note = Note { body, bytes: self.written, received: self.received, hash };
        let note = serde_json::to_vec(&note)?;
        let draft = self.note.with_extension(DRAFT);
        std::fs::write(&draft, note)?;
        std::fs::rename(&draft, &self.note)?;
        self.noted = self.written;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let is_kept = self.written > 0 && self.body.is_some();
        // What cannot be noted is not used, and removed with what is old.
        if is_kept && (self.noted == self.written || self.take_note().is_ok()) {
            return;
        }
        let _left = std::fs::remove_file(&self.note);
        let _left = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests;
