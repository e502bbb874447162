//! Who a written file belongs to, and what else is known about it besides its content.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{
    Gid, Mode, Stat, Uid, XattrFlags, fchmod, fchown, fremovexattr, fsetxattr, fstat, getxattr, listxattr,
};
use rustix::io::Errno;

use crate::beneath::descriptor_path;
use crate::root::Found;
use crate::{Result, RootsError};

const ACCESS_CONTROL_LIST: &str = "system.posix_acl_access";
/// Attributes of programs and users.
const USER_PREFIX: &str = "user.";
/// Of a list of names and of one value (`XATTR_LIST_MAX`, `XATTR_SIZE_MAX`, limits.h).
const LARGEST: usize = 65_536;

/// Gives the new file the owner, group, mode, access control list and user attributes of the file it replaces.
///
/// The bits that let a program run as its owner are not kept: the new content was not what somebody gave them to.
/// Security labels and capabilities are not copied either; the kernel gives a new file those that its folder says.
pub(crate) fn keep(from: &Found, new: &File, path: &Path) -> Result<()> {
    let stat = fstat(new).map_err(RootsError::while_doing("write", path))?;
    if (stat.st_uid, stat.st_gid) != (from.stat.st_uid, from.stat.st_gid) {
        change_owner(new, from.stat.st_uid, from.stat.st_gid)
            .map_err(|errno| RootsError::OwnerNotKept { path: path.to_owned(), source: errno.into() })?;
    }
    keep_extended(from, new).map_err(RootsError::while_doing("keep the attributes of", path))?;
    fchmod(new, Mode::from_raw_mode(from.stat.st_mode & 0o777))
        .map_err(RootsError::while_doing("keep the mode of", path))
}

/// Where this process is root, what it makes belongs to the owner of the folder: a workspace stays its owner's.
pub(crate) fn belong_to_folder(new: impl AsFd, folder: &Stat) -> rustix::io::Result<()> {
    if !rustix::process::geteuid().is_root() || (folder.st_uid, folder.st_gid) == (0, 0) {
        return Ok(());
    }
    match change_owner(new, folder.st_uid, folder.st_gid) {
        // The root of a user namespace cannot give files to an owner from outside of it: they stay its own.
        Err(Errno::PERM | Errno::INVAL) => Ok(()),
        done => done,
    }
}

fn change_owner(file: impl AsFd, user: u32, group: u32) -> rustix::io::Result<()> {
    fchown(file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))
}

fn keep_extended(from: &Found, new: &File) -> rustix::io::Result<()> {
    // Attributes are read by path, because the descriptor is a mere place.
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
            // It was removed meanwhile.
            Err(Errno::NODATA) => {}
            Err(errno) => return Err(errno),
        }
    }
    if !has_list {
        // The folder may give one to every new file.
        match fremovexattr(new, ACCESS_CONTROL_LIST) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
