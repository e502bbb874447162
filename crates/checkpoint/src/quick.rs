//! Where the file system makes files quickly.
//!
//! ext4 without a journal gives no inode again for a minute or more after its file went, and passes over those one by one for each
//! file that is made in the same group of blocks. Each call removes as many files as it replaced, so without care 5,000 files
//! took up to ten times as long there. The folders of calls are laid apart ([`spread`]), but the groups that were just emptied
//! have the fewest folders, for which the file system takes them next; so whoever is to make many files looks whether it comes to
//! lie well.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, IFlags, Mode, RenameFlags, ioctl_getflags, ioctl_setflags, mkdirat, renameat_with, unlinkat,
};

use crate::beneath::{LIST, open};

/// How long making an entry takes where something is in the way: three times as long as usual. The quickest of two took 32 µs at
/// most, of 400 on a disk (ext4 without a journal).
pub(crate) const SLOW: Duration = Duration::from_micros(60);

/// How many places are looked at. Where none is quick, the last one is as good as any.
const MOST_PLACES: usize = 6;

const PRIVATE: Mode = Mode::RWXU;

/// Asks the file system to lay the folders that will be made in this one apart from each other (`T` of `chattr(1)`).
///
/// It is a hint, which most file systems do not know: says whether this one does. To lay the folders within a call apart as well
/// makes everything slower by a fifth, because each group has to be read from the disk.
pub(crate) fn spread(folder: &OwnedFd) -> bool {
    let Ok(flags) = ioctl_getflags(folder) else { return false };
    flags.contains(IFlags::TOPDIR) || ioctl_setflags(folder, flags | IFlags::TOPDIR).is_ok()
}

/// Puts another empty folder in the place of the empty one of this name, one where files are made quickly.
///
/// Something that cannot be done leaves the one that is there, or a quick one, and perhaps others beside it.
pub(crate) fn find_quick_place(around: &OwnedFd, name: &str) -> rustix::io::Result<()> {
    look_for_place(around, name, SLOW)
}

fn look_for_place(around: &OwnedFd, name: &str, slow: Duration) -> rustix::io::Result<()> {
    if took(around, name)? < slow || !spread(around) {
        return Ok(());
    }
    let others: Vec<String> = (0..MOST_PLACES).map(|number| format!("{name}.{number}")).collect();
    let mut made = 0;
    for other in &others {
        mkdirat(around, other, PRIVATE)?;
        made += 1;
        if took(around, other)? < slow || made == MOST_PLACES {
            renameat_with(around, other, around, name, RenameFlags::EXCHANGE)?;
            break;
        }
    }
    // Not before now, or the next one would have come to lie there again.
    others[..made].iter().try_for_each(|other| unlinkat(around, other, AtFlags::REMOVEDIR))
}

/// How long it takes to make something in an empty folder, once something was made there.
fn took(around: &OwnedFd, name: &str) -> rustix::io::Result<Duration> {
    let folder = open(around.as_fd(), Path::new(name), LIST)?;
    let mut least = Duration::MAX;
    for part in ["first", "second"].map(OsStr::new) {
        let began = Instant::now();
        mkdirat(&folder, part, PRIVATE)?;
        least = least.min(began.elapsed());
    }
    for part in ["first", "second"] {
        unlinkat(&folder, part, AtFlags::REMOVEDIR)?;
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_folder_is_replaced_where_making_files_is_slow_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let upper = folder.path().join("upper");
        std::fs::create_dir(&upper).unwrap();
        let around = OwnedFd::from(std::fs::File::open(folder.path()).unwrap());
        let inode = || std::fs::metadata(&upper).unwrap().ino();
        let first = inode();
        look_for_place(&around, "upper", Duration::MAX).unwrap();
        assert_eq!(inode(), first, "it is quick");
        look_for_place(&around, "upper", Duration::ZERO).unwrap();
        assert_eq!(inode() != first, spread(&around), "it is slow, and the file system lays folders apart");
        let names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["upper"]);
        assert_eq!(std::fs::read_dir(&upper).unwrap().count(), 0);
    }
}
