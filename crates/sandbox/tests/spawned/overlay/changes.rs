//! Tests that the upper folder shows the changes, and the workspace has none.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Timespec, Timestamps, XattrFlags, getxattr, setxattr};

use super::support::{each, state};

/// Returns true if this marks a deleted name.
fn is_whiteout(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|metadata| metadata.file_type().is_char_device() && metadata.rdev() == 0)
}

#[test]
fn new_changed_and_removed_files_are_in_the_upper_folder_and_the_workspace_is_untouched() {
    each(|place| {
        place.write("kept", "kept");
        place.write("changed", "old");
        place.write("removed", "old");
        place.write("folder/deep/inner", "old");
        place.write("gone/inner", "old");
        let before = state(&place.spec.workspace);
        let ran = place.ok(
            "cat kept; echo new > changed; echo more >> folder/deep/inner; rm removed; rm -r gone; echo n > new; \
             mkdir fresh; echo f > fresh/file; cat changed folder/deep/inner; ls",
        );
        assert_eq!(ran.stdout(), "keptnew\noldmore\nchanged\nfolder\nfresh\nkept\nnew\n");
        assert_eq!(
            ran.changed(),
            [
                "changed",
                "folder",
                "folder/deep",
                "folder/deep/inner",
                "fresh",
                "fresh/file",
                "gone",
                "new",
                "removed"
            ]
        );
        assert_eq!(fs::read_to_string(ran.path("folder/deep/inner")).unwrap(), "oldmore\n");
        assert!(is_whiteout(&ran.path("removed")) && is_whiteout(&ran.path("gone")));
        assert!(!is_whiteout(&ran.path("changed")));
        assert_eq!(state(&place.spec.workspace), before);
        assert_eq!(place.read("changed") + &place.read("folder/deep/inner"), "oldold");
        let owner = |path: &Path| (fs::metadata(path).unwrap().uid(), fs::metadata(path).unwrap().gid());
        for name in ["new", "changed", "fresh/file"] {
            assert_eq!(owner(&ran.path(name)), owner(&place.spec.workspace), "{name}");
        }
        assert_eq!(fs::metadata(ran.path("new")).unwrap().permissions().mode() & 0o7777, 0o644);
    });
}

/// Returns the value of an attribute as text.
fn attribute(path: &Path, name: &str) -> Option<String> {
    let mut value = [0_u8; 100];
    let length = getxattr(path, name, &mut value[..]).ok()?;
    Some(String::from_utf8_lossy(&value[..length]).into_owned())
}

#[test]
fn a_folder_that_replaced_another_says_so() {
    each(|place| {
        place.write("folder/old", "old");
        let ran = place.ok("rm -r folder; mkdir folder; echo new > folder/new; ls folder");
        assert_eq!(ran.stdout(), "new\n");
        assert_eq!(ran.changed(), ["folder", "folder/new"]);
        assert_eq!(attribute(&ran.path("folder"), "user.overlay.opaque").as_deref(), Some("y"));
        let control = place.ok("echo new > folder/new");
        assert_eq!(attribute(&control.path("folder"), "user.overlay.opaque"), None);
    });
}

#[test]
fn modes_times_links_pipes_and_attributes_come_through() {
    each(|place| {
        place.write("script", "old");
        place.write("tagged", "old");
        setxattr(place.path("tagged"), "user.tag", b"kept", XattrFlags::empty()).unwrap();
        setxattr(place.path("."), "user.of-root", b"seen", XattrFlags::empty()).unwrap();
        let ran = place.ok(
            "chmod 751 script; touch -d @1000000000.5 script; ln -s /no/where link; mkfifo pipe; echo x > one; \
             ln one two; echo more >> tagged; mkdir -m 1770 sticky; touch -d @7 sticky; \
             python3 -c \"import os; os.setxattr('one', 'user.mine', b'v'); \
             print(os.getxattr('.', 'user.of-root'), os.getxattr('tagged', 'user.tag'))\"",
        );
        assert_eq!(ran.stdout(), "b'seen' b'kept'\n");
        let of = |name: &str| fs::symlink_metadata(ran.path(name)).unwrap();
        assert_eq!(of("script").mode() & 0o7777, 0o751);
        assert_eq!((of("script").mtime(), of("script").mtime_nsec()), (1_000_000_000, 500_000_000));
        assert_eq!(fs::read_link(ran.path("link")).unwrap(), Path::new("/no/where"));
        assert!(of("pipe").file_type().is_fifo());
        assert_eq!((of("one").ino(), of("one").nlink()), (of("two").ino(), 2));
        assert_eq!((of("sticky").mode() & 0o7777, of("sticky").mtime()), (0o1770, 7));
        assert_eq!(attribute(&ran.path("one"), "user.mine").as_deref(), Some("v"));
        assert_eq!(attribute(&ran.path("tagged"), "user.tag").as_deref(), Some("kept"));
        assert_eq!(place.read("script"), "old");
    });
}

#[test]
fn the_workspace_itself_looks_as_it_is() {
    each(|place| {
        fs::set_permissions(place.path("."), fs::Permissions::from_mode(0o750)).unwrap();
        let time = Timespec { tv_sec: 1_000_000, tv_nsec: 0 };
        let folder = fs::File::open(place.path(".")).unwrap();
        rustix::fs::futimens(&folder, &Timestamps { last_access: time, last_modification: time }).unwrap();
        assert_eq!(place.ok("stat -c '%a %Y %u' .").stdout(), "750 1000000 1000\n");
        assert_eq!(place.ok("true").changed(), Vec::<String>::new());
        let ran = place.ok("chmod 700 .");
        assert_eq!(fs::metadata(&ran.upper).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(fs::metadata(place.path(".")).unwrap().mode() & 0o7777, 0o750);
    });
}

#[test]
fn one_of_two_names_that_is_changed_leaves_the_other() {
    each(|place| {
        place.write("one", "old");
        fs::hard_link(place.path("one"), place.path("two")).unwrap();
        // An overlay of an unprivileged user cannot know that both names are one file, and a commit
        // must not either.
        let ran = place.ok("echo new > one; cat two");
        assert_eq!((ran.stdout().as_str(), ran.changed()), ("old", vec!["one".to_owned()]));
    });
}

#[test]
fn a_folder_of_the_workspace_is_moved_by_copying() {
    each(|place| {
        place.write("folder/deep/file", "x");
        fs::set_permissions(place.path("folder/deep/file"), fs::Permissions::from_mode(0o640)).unwrap();
        let ran = place.ok(
            "mv folder moved; mkdir made; mv made renamed; ls; \
             python3 -c \"import os, shutil; shutil.move('moved', 'again')\"; \
             mkdir -p old/sub; python3 -c \"import os; os.rename('old', 'new')\"; stat -c %a again/deep/file",
        );
        assert_eq!(ran.stdout(), "moved\nrenamed\n640\n");
        assert_eq!(
            ran.changed(),
            ["again", "again/deep", "again/deep/file", "folder", "new", "new/sub", "renamed"]
        );
        assert!(is_whiteout(&ran.path("folder")));
        // A program that does not fall back to copying gets the error.
        let refused = place.sh("python3 -c \"import os; os.rename('folder', 'moved')\"");
        assert!(refused.stderr().contains("Invalid cross-device link"), "{}", refused.stderr());
        assert_eq!(refused.changed(), Vec::<String>::new());
    });
}
