//! The upper folder says what was changed, and the workspace is as it was.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use crate::support::{both, names};

/// Whether this marks a name as gone.
fn is_whiteout(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|metadata| metadata.file_type().is_char_device() && metadata.rdev() == 0)
}

#[test]
fn new_changed_and_removed_files_are_in_the_upper_folder_and_the_workspace_is_untouched() {
    both(|place| {
        place.write("kept", "kept");
        place.write("changed", "old");
        place.write("removed", "old");
        place.write("folder/deep/inner", "old");
        place.write("gone/inner", "old");
        let before = names(&place.spec.workspace);
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
        assert_eq!(names(&place.spec.workspace), before);
        assert_eq!(place.read("changed") + &place.read("folder/deep/inner"), "oldold");
        let owner = |path: &Path| (fs::metadata(path).unwrap().uid(), fs::metadata(path).unwrap().gid());
        for name in ["new", "changed", "fresh/file"] {
            assert_eq!(owner(&ran.path(name)), owner(&place.spec.workspace), "{name}");
        }
        assert_eq!(fs::metadata(ran.path("new")).unwrap().permissions().mode() & 0o7777, 0o644);
    });
}
