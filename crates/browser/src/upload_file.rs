//! Files that a page is given: copies in the browser's own folder, which the browser sees.
//!
//! A page may have taken over its browser, which may then put links in the place of folders. So every
//! folder is made and opened beneath the browser's folder, without following any link.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};

/// Folder of the copies in the browser's folder.
const UPLOADS: &str = "uploads";

/// Copies a file into the browser's folder, under its own name, and returns the copy's path, the same for
/// the browser, with its size. `number` is new for each copy. At most `limit` bytes are copied, or none.
///
/// # Errors
/// Returns an error if the content is longer, if the name is no name of a file, or if the copy cannot be
/// written.
pub(crate) fn copy_for_page(
    folder: &Path,
    number: u64,
    name: &str,
    content: impl Read,
    limit: u64,
) -> io::Result<(PathBuf, u64)> {
    let is_name = !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']);
    if !is_name {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no name of a file"));
    }
    let no_link = i32::try_from((OFlags::DIRECTORY | OFlags::NOFOLLOW).bits()).map_err(io::Error::other)?;
    let own = OpenOptions::new().read(true).custom_flags(no_link).open(folder)?;
    let as_folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match mkdirat(&own, UPLOADS, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let uploads = openat(&own, UPLOADS, as_folder, Mode::empty())?;
    let number = number.to_string();
    mkdirat(&uploads, number.as_str(), Mode::RWXU)?;
    let place = openat(&uploads, number.as_str(), as_folder, Mode::empty())?;
    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut copy = File::from(openat(&place, name, new, Mode::RUSR | Mode::WUSR)?);
    let copied = io::copy(&mut content.take(limit.saturating_add(1)), &mut copy).and_then(|copied| {
        if copied > limit {
            let problem = format!("it has more than {limit} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
        }
        Ok(copied)
    });
    match copied {
        Ok(bytes) => Ok((folder.join(UPLOADS).join(number).join(name), bytes)),
        Err(error) => {
            // The first error is the one to report; the folder is removed with the browser at the latest.
            let _gone = unlinkat(&place, name, AtFlags::empty());
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_copy_has_its_name_and_no_link_leads_it_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let (own, user) = (folder.path().join("own"), folder.path().join("user"));
        std::fs::create_dir(&own).unwrap();
        std::fs::create_dir(&user).unwrap();
        let (copy, bytes) = copy_for_page(&own, 1, "a b.txt", &b"text"[..], 4).unwrap();
        assert_eq!(bytes, 4);
        assert_eq!(std::fs::read(&copy).unwrap(), b"text");
        assert!(copy.ends_with("1/a b.txt"));
        let too_long = copy_for_page(&own, 2, "a", &b"text"[..], 3).unwrap_err();
        assert_eq!(too_long.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(std::fs::read_dir(own.join("uploads/2")).unwrap().count(), 0, "nothing of it stays");
        for name in ["", ".", "..", "a/b", "a\0b"] {
            assert!(copy_for_page(&own, 3, name, &b""[..], 3).is_err(), "{name:?}");
        }
        symlink(&user, own.join("uploads/4")).unwrap();
        assert!(copy_for_page(&own, 4, "a", &b"text"[..], 9).is_err());
        std::fs::rename(own.join("uploads"), own.join("moved")).unwrap();
        symlink(&user, own.join("uploads")).unwrap();
        assert!(copy_for_page(&own, 5, "a", &b"text"[..], 9).is_err());
        assert_eq!(std::fs::read_dir(&user).unwrap().count(), 0);
    }
}
