//! Extended attributes: the overlay's own marks, and those of users and programs.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, lgetxattr, llistxattr, lremovexattr,
    lsetxattr,
};
use rustix::io::Errno;

use crate::folder::path_in;
use crate::{Error, Kind, Result};

/// Namespace of the marks of an overlay mounted with `userxattr`.
const OVERLAY: &[u8] = b"user.overlay.";
/// Mark of this crate in the overlay's namespace. Commands cannot set it: the overlay escapes these
/// names.
const DRAFTED: &[u8] = b"handfast-drafted";
/// Prefix of the placeholder marks in the overlay's namespace; a number follows.
const HIDDEN: &[u8] = b"handfast-hidden.";
/// Mark of an entry that was copied up.
const ORIGIN: &CStr = c"user.overlay.origin";
/// Mark of a folder that hides the contents of the lower one.
const OPAQUE: &CStr = c"user.overlay.opaque";
/// Attribute that gives a program privileges.
const CAPABILITY: &[u8] = b"security.capability";
/// Maximum size in bytes of a list of names and of one value (`XATTR_LIST_MAX`, `XATTR_SIZE_MAX`,
/// limits.h).
const LARGEST: usize = 65_536;

/// Marks of an overlay on an entry of its upper folder.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Marks {
    /// True if the entry was copied up from the lower folder.
    pub(crate) copied_up: bool,
    /// True for a folder that hides the contents of the lower one.
    pub(crate) opaque: bool,
    /// True for an empty file that stands for a removal.
    pub(crate) whiteout: bool,
    /// True if a [`crate::Draft`] made the entry in place of an existing one. For a folder, only its
    /// contents count.
    pub(crate) drafted: bool,
    /// Number of the hidden file whose placeholder this entry is or was.
    pub(crate) placeholder: Option<usize>,
    /// True if there is anything for [`strip`] to remove.
    pub(crate) any: bool,
    /// True if these fields list everything that [`strip`] must remove. Journals do not store this
    /// field.
    pub(crate) all_told: bool,
}

/// Names and values, sorted by name.
pub(crate) type Attributes = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns the mark of the placeholder with this number.
pub(crate) fn placeholder_mark(number: usize) -> rustix::io::Result<CString> {
    text([OVERLAY, HIDDEN, number.to_string().as_bytes()].concat())
}

/// Reads the overlay's marks. Only files and folders can carry marks.
pub(crate) fn marks(folder: BorrowedFd<'_>, name: &OsStr, kind: Kind, shown: &Path) -> Result<Marks> {
    let mut marks = Marks::default();
    if !matches!(kind, Kind::File | Kind::Folder) {
        return Ok(marks);
    }
    let path = path_in(folder, name);
    let failed = Error::while_doing("read the attributes of", shown);
    marks.all_told = true;
    for attribute in list(&path).map_err(&failed)? {
        let bytes = attribute.to_bytes();
        marks.any |= bytes.starts_with(OVERLAY) || bytes == CAPABILITY;
        match bytes.strip_prefix(OVERLAY) {
            Some(b"origin") => marks.copied_up = true,
            Some(b"opaque") => {
                marks.opaque = value(&path, &attribute).map_err(&failed)?.is_some_and(|value| value == b"y");
            }
            Some(b"whiteout") => {
                marks.whiteout = true;
                marks.all_told = false;
            }
            Some(DRAFTED) => marks.drafted = true,
            Some(b"redirect") => {
                return Err(Error::Form { path: shown.to_owned(), attribute: "redirect" });
            }
            Some(b"metacopy") => {
                return Err(Error::Form { path: shown.to_owned(), attribute: "metacopy" });
            }
            Some(other) => {
                let number = other.strip_prefix(HIDDEN).and_then(|number| std::str::from_utf8(number).ok());
                marks.placeholder = marks.placeholder.or(number.and_then(|number| number.parse().ok()));
                marks.all_told = false;
            }
            None => marks.all_told &= bytes != CAPABILITY,
        }
    }
    Ok(marks)
}

/// Reads the attributes that belong to an entry's content: those of users and programs, and access
/// control lists.
///
/// The overlay's marks are left out, and so are security labels and capabilities: the kernel gives
/// each entry its own.
pub(crate) fn kept(folder: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<Attributes> {
    let path = path_in(folder, name);
    kept_among(list(&path)?, |attribute| value(&path, attribute))
}

fn kept_among(
    named: Vec<CString>,
    value: impl Fn(&CStr) -> rustix::io::Result<Option<Vec<u8>>>,
) -> rustix::io::Result<Attributes> {
    let mut kept = Vec::new();
    for attribute in named {
        let bytes = attribute.to_bytes();
        let own = bytes.starts_with(b"user.") && !bytes.starts_with(OVERLAY);
        if (own || bytes.starts_with(b"system.posix_acl_"))
            && let Some(value) = value(&attribute)?
        {
            kept.push((bytes.to_vec(), value));
        }
    }
    kept.sort_unstable();
    Ok(kept)
}

/// Reads the attributes like [`kept`], for an open entry.
pub(crate) fn kept_of(opened: BorrowedFd<'_>) -> rustix::io::Result<Attributes> {
    let named = list_by(|buffer| flistxattr(opened, buffer))?;
    kept_among(named, |attribute| value_by(|buffer| fgetxattr(opened, attribute, buffer)))
}

/// Returns true if an open folder has a default access control list for new entries.
pub(crate) fn passes_on(folder: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    let named = list_by(|buffer| flistxattr(folder, buffer))?;
    Ok(named.iter().any(|attribute| attribute.to_bytes() == b"system.posix_acl_default"))
}

/// Sets exactly these attributes on an entry, among those that [`kept`] returns.
pub(crate) fn set(folder: BorrowedFd<'_>, name: &OsStr, wanted: &Attributes) -> rustix::io::Result<()> {
    let path = path_in(folder, name);
    for (attribute, _) in kept(folder, name)? {
        if !wanted.iter().any(|(name, _)| *name == attribute) {
            remove(&path, &text(attribute)?)?;
        }
    }
    for (attribute, value) in wanted {
        lsetxattr(&path, text(attribute.clone())?.as_c_str(), value, XattrFlags::empty())?;
    }
    Ok(())
}

/// Sets the attributes like [`set`], for an open entry.
pub(crate) fn set_of(opened: BorrowedFd<'_>, wanted: &Attributes) -> rustix::io::Result<()> {
    for (attribute, _) in kept_of(opened)? {
        if !wanted.iter().any(|(name, _)| *name == attribute) {
            match fremovexattr(opened, text(attribute)?.as_c_str()) {
                Ok(()) | Err(Errno::NODATA) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    for (attribute, value) in wanted {
        fsetxattr(opened, text(attribute.clone())?.as_c_str(), value, XattrFlags::empty())?;
    }
    Ok(())
}

/// Removes the overlay's marks and capabilities from an entry.
///
/// Attributes that a program set in the overlay's namespace are removed too (the kernel stores them
/// there under an escaped name). In a workspace they could mislead a later overlay.
pub(crate) fn strip(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    kind: Kind,
    marks: Marks,
) -> rustix::io::Result<()> {
    if !matches!(kind, Kind::File | Kind::Folder) {
        return Ok(());
    }
    let path = path_in(folder, name);
    if marks.all_told {
        let drafted = text([OVERLAY, DRAFTED].concat())?;
        let told = [(marks.copied_up, ORIGIN), (marks.opaque, OPAQUE), (marks.drafted, &*drafted)];
        return told
            .into_iter()
            .filter(|(is_there, _)| *is_there)
            .try_for_each(|(_, attribute)| remove(&path, attribute));
    }
    for attribute in list(&path)? {
        let bytes = attribute.to_bytes();
        if bytes.starts_with(OVERLAY) || bytes == CAPABILITY {
            remove(&path, &attribute)?;
        }
    }
    Ok(())
}

/// Marks that the workspace had an entry here when it was drafted.
pub(crate) fn mark_drafted(folder: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<()> {
    let attribute = text([OVERLAY, DRAFTED].concat())?;
    lsetxattr(path_in(folder, name), attribute.as_c_str(), b"", XattrFlags::empty())
}

/// Marks an open entry like [`mark_drafted`].
pub(crate) fn mark_drafted_of(opened: BorrowedFd<'_>) -> rustix::io::Result<()> {
    fsetxattr(opened, text([OVERLAY, DRAFTED].concat())?.as_c_str(), b"", XattrFlags::empty())
}

/// Restores the marks that [`strip`] removed from a folder in an upper folder.
pub(crate) fn mark_again(folder: BorrowedFd<'_>, name: &OsStr, marks: Marks) -> rustix::io::Result<()> {
    let path = path_in(folder, name);
    for (set, attribute, value) in [(marks.opaque, OPAQUE, &b"y"[..]), (marks.copied_up, ORIGIN, b"")] {
        if set {
            lsetxattr(&path, attribute, value, XattrFlags::empty())?;
        }
    }
    if marks.drafted { mark_drafted(folder, name) } else { Ok(()) }
}

fn list(path: &PathBuf) -> rustix::io::Result<Vec<CString>> {
    list_by(|buffer| llistxattr(path, buffer))
}

fn list_by(list: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<CString>> {
    // Nearly every entry has no attributes, or a few short ones.
    let mut small = [0_u8; 512];
    let mut large = Vec::new();
    let names: &[u8] = match list(&mut small[..]) {
        Ok(length) => &small[..length],
        Err(Errno::RANGE) => {
            large.resize(LARGEST, 0);
            let length = list(&mut large[..])?;
            &large[..length]
        }
        Err(Errno::OPNOTSUPP) => &[],
        Err(errno) => return Err(errno),
    };
    let names = names.split_inclusive(|byte| *byte == 0);
    Ok(names.filter_map(|name| CStr::from_bytes_with_nul(name).ok().map(CStr::to_owned)).collect())
}

/// Reads a value, or returns `None` if it was removed meanwhile.
fn value(path: &PathBuf, attribute: &CStr) -> rustix::io::Result<Option<Vec<u8>>> {
    value_by(|buffer| lgetxattr(path, attribute, buffer))
}

fn value_by(get: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; LARGEST];
    match get(&mut value[..]) {
        Ok(length) => {
            value.truncate(length);
            value.shrink_to_fit();
            Ok(Some(value))
        }
        Err(Errno::NODATA) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn remove(path: &PathBuf, attribute: &CStr) -> rustix::io::Result<()> {
    match lremovexattr(path, attribute) {
        Ok(()) | Err(Errno::NODATA) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn text(name: Vec<u8>) -> rustix::io::Result<CString> {
    CString::new(name).map_err(|_| Errno::INVAL)
}
