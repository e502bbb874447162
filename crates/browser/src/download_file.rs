//! Files that a browser has downloaded.
//!
//! A page may have taken over its browser, which may then put links in the place of its files, or
//! name files elsewhere. So a name is checked, and a file is opened beneath the browser's own folder,
//! without following any link.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, openat2, unlinkat};

/// Longest name of a downloaded file. Chromium's are GUIDs of 36 characters.
const MAX_NAME: usize = 64;

/// Returns true if a browser may give this name to a file.
pub(crate) fn is_name(name: &str) -> bool {
    let is_fine = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_fine)
}

/// Opens a downloaded file for reading, below the folder of its folder.
///
/// # Errors
/// Returns an error if the file, or a folder on the way, is a link, or if it is no regular file.
pub fn open_download(path: &Path) -> io::Result<File> {
    let (above, below) = split(path)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(beneath(&above, &below, flags)?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("what the browser has downloaded is no regular file"));
    }
    Ok(file)
}

/// Removes a downloaded file, under the same conditions.
///
/// # Errors
/// Returns the same errors.
pub fn remove_download(path: &Path) -> io::Result<()> {
    let (above, below) = split(path)?;
    let (Some(folder), Some(name)) = (below.parent(), below.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = beneath(&above, folder, flags)?;
    Ok(unlinkat(&folder, name, AtFlags::empty())?)
}

/// Splits a path into the folder of its folder, and the rest.
fn split(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let above = path.parent().and_then(Path::parent);
    let above = above.ok_or(io::ErrorKind::InvalidInput)?;
    let below = path.strip_prefix(above).map_err(io::Error::other)?;
    Ok((above.to_owned(), below.to_owned()))
}

fn beneath(above: &Path, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let only_a_folder =
        i32::try_from((OFlags::DIRECTORY | OFlags::NOFOLLOW).bits()).map_err(io::Error::other)?;
    let above = OpenOptions::new().read(true).custom_flags(only_a_folder).open(above)?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(&above, below, flags, Mode::empty(), resolve)?)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_opened_and_a_link_in_its_place_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(at("own/downloads")).unwrap();
        std::fs::create_dir(at("user")).unwrap();
        for file in ["own/downloads/a", "user/a"] {
            std::fs::write(at(file), file).unwrap();
        }
        let mut text = String::new();
        open_download(&at("own/downloads/a")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "own/downloads/a");
        symlink(at("user/a"), at("own/downloads/b")).unwrap();
        assert!(open_download(&at("own/downloads/b")).is_err());
        std::fs::rename(at("own/downloads"), at("own/moved")).unwrap();
        symlink(at("user"), at("own/downloads")).unwrap();
        assert!(open_download(&at("own/downloads/a")).is_err());
        assert!(remove_download(&at("own/downloads/a")).is_err() && at("user/a").exists());
        assert!(open_download(&at("own/downloads/../../user/a")).is_err());
        remove_download(&at("own/moved/a")).unwrap();
        assert!(!at("own/moved/a").exists());
    }

    #[test]
    fn a_name_is_a_word_and_leads_nowhere() {
        assert!(is_name("0f8fad5b-d9cb-469f-a165-70867728950e"));
        for name in ["", ".", "..", "../a", "a/b", "/etc/passwd", "a\0", "a b", &"a".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
