//! Owner, permission bits and attributes of a written file.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use beneath::descriptor_path;
use rustix::fs::{
    Gid, Mode, Stat, Uid, XattrFlags, fchmod, fchown, fremovexattr, fsetxattr, fstat, getxattr, listxattr,
};
use rustix::io::Errno;

use crate::root::OpenEntry;
use crate::{Result, RootsError};

const ACCESS_CONTROL_LIST: &str = "system.posix_acl_access";
/// Prefix of the attributes that programs and users set.
const USER_PREFIX: &str = "user.";
/// Maximum size of a list of names and of one value, in bytes (`XATTR_LIST_MAX`, `XATTR_SIZE_MAX`,
/// limits.h).
const LARGEST: usize = 65_536;

/// Gives the new file the owner, group, mode, access control list and user attributes of the file it
/// replaces.
///
/// The set-user-ID, set-group-ID and sticky bits are dropped: nobody granted these rights to the new
/// content. Security labels and capabilities are not copied either; the kernel sets those that the
/// folder prescribes.
pub(crate) fn keep(from: &OpenEntry, new: &File, path: &Path) -> Result<()> {
    let stat = fstat(new).map_err(RootsError::while_doing("write", path))?;
    if (stat.st_uid, stat.st_gid) != (from.stat.st_uid, from.stat.st_gid) {
        change_owner(new, from.stat.st_uid, from.stat.st_gid)
            .map_err(|errno| RootsError::OwnerNotKept { path: path.to_owned(), source: errno.into() })?;
    }
    keep_extended(from, new).map_err(RootsError::while_doing("keep the attributes of", path))?;
    fchmod(new, Mode::from_raw_mode(from.stat.st_mode & 0o777))
        .map_err(RootsError::while_doing("keep the mode of", path))
}

/// Gives a file that root creates to the owner of its folder, so that a workspace stays its owner's.
pub(crate) fn belong_to_folder(new: impl AsFd, folder: &Stat) -> rustix::io::Result<()> {
    if !rustix::process::geteuid().is_root() || (folder.st_uid, folder.st_gid) == (0, 0) {
        return Ok(());
    }
    match change_owner(new, folder.st_uid, folder.st_gid) {
        // Root of a user namespace cannot give files to an owner outside of it: the files stay
        // root's own.
        Err(Errno::PERM | Errno::INVAL) => Ok(()),
        done => done,
    }
}

fn change_owner(file: impl AsFd, user: u32, group: u32) -> rustix::io::Result<()> {
    fchown(file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))
}

fn keep_extended(from: &OpenEntry, new: &File) -> rustix::io::Result<()> {
    // Attributes are read by path, because the descriptor is only an `O_PATH` one.
    let from = descriptor_path(from.descriptor.as_fd());
    let mut names = vec![0; LARGEST];
    let length = match listxattr(&from, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    let mut has_list = false;
    for name in names[..length].split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
        let text = name.to_string_lossy();
        if !(text.starts_with(USER_PREFIX) || text == ACCESS_CONTROL_LIST) {
            continue;
        }
        has_list |= text == ACCESS_CONTROL_LIST;
        let mut value = vec![0; LARGEST];
        match getxattr(&from, name, &mut value[..]) {
            Ok(length) => fsetxattr(new, name, &value[..length], XattrFlags::empty())?,
            // The attribute was removed meanwhile.
            Err(Errno::NODATA) => {}
            Err(errno) => return Err(errno),
        }
    }
    if !has_list {
        // The folder may give a default list to every new file.
        match fremovexattr(new, ACCESS_CONTROL_LIST) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
