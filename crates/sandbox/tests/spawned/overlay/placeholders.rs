//! A placeholder hides a file of the workspace as a mask does, and can be removed.

use std::ffi::CStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::llistxattr;
use sandbox::{Exit, Placeholder};

use super::support::{Place, each};

const MARK: &CStr = c"user.overlay.test-hidden";

/// Masks these files with placeholders that no user may read.
fn hide(place: &mut Place, names: &[&str]) {
    let closed = || Placeholder { mark: MARK.to_owned(), content: Vec::new(), mode: 0 };
    place.spec.masked = names.iter().map(|name| place.path(name)).collect();
    place.spec.placeholders = place.spec.masked.iter().map(|path| (path.clone(), closed())).collect();
}

fn is_marked(path: &Path) -> bool {
    // Listing needs no right to read the file.
    let mut names = [0_u8; 1024];
    let length = llistxattr(path, &mut names[..]).unwrap();
    names[..length].split_inclusive(|byte| *byte == 0).any(|name| name == MARK.to_bytes_with_nul())
}

/// Returns true if any file below the folder contains the text.
fn holds(folder: &Path, text: &[u8]) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| match path.symlink_metadata() {
        Ok(found) if found.is_dir() => holds(&path, text),
        _ => fs::read(&path).is_ok_and(|content| content.windows(text.len()).any(|part| part == text)),
    })
}

#[test]
fn a_file_behind_a_placeholder_is_out_of_reach_whatever_is_done_with_its_name() {
    each(|place| {
        let mut place = Place::like(place);
        let names = [".env", "keys/deep/a.pem", "sub/.env"];
        for name in names {
            place.write(name, "secret");
        }
        place.write("visible", "control");
        fs::hard_link(place.path(".env"), place.path("second-name")).unwrap();
        hide(&mut place, &[".env", "keys/deep/a.pem", "sub/.env", "second-name"]);
        assert_eq!(place.ok("cat visible").stdout(), "control");
        for line in [
            "cat .env sub/.env second-name keys/deep/a.pem",
            "chmod 644 .env second-name; cat .env second-name",
            "rm -f .env; cat .env second-name; echo new > .env; cat .env",
            "rm -rf sub keys; mkdir sub; cat sub/.env keys/deep/a.pem",
            "rm -rf sub; mv keys sub; cat sub/deep/a.pem",
            "mv .env other; cat other .env; mv other .env; cat .env",
            "mv sub moved; cat moved/.env sub/.env",
            "ln .env other; chmod 644 other; cat other",
            "cp -r . /tmp/copy; cp --reflink=auto .env r; cat /tmp/copy/.env r",
            "tar cf - . | tar xOf -",
            "ln -s .env l; cat l; cat /proc/self/cwd/.env; exec 3<.; cat /proc/self/fd/3/.env",
            "python3 - <<'END'
import ctypes, os
libc = ctypes.CDLL(None)
def show(*names):
    for name in names:
        try: print(open(name).read())
        except OSError as error: print(error)
def rename(one, other, flags):
    print(libc.renameat2(-100, one, -100, other, flags))
open('mine', 'w').write('x')
rename(b'.env', b'mine', 2); show('.env', 'mine')
rename(b'sub/.env', b'whited', 4); show('sub/.env', 'whited')
try: made = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o644); os.link(f'/proc/self/fd/{made}', 'keys/new')
except OSError as error: print(error)
os.unlink('keys/deep/a.pem')
try: os.link(f'/proc/self/fd/{made}', 'keys/deep/a.pem')
except (OSError, NameError) as error: print(error)
show('keys/deep/a.pem')
os.rename('sub', 'renamed') if not os.path.lexists('sub/.env') else None
show('renamed/.env')
END",
            "setfattr -x user.overlay.test-hidden .env; getfattr -d -m - .env; cat .env",
            "unshare -rm cat .env",
            "(sleep 0.2; cat .env) & rm -f .env; wait",
        ] {
            let ran = place.sh(line);
            let said = ran.stdout() + &ran.stderr();
            assert!(!said.contains("secret"), "{line}: {said}");
            assert!(!holds(&ran.upper, b"secret"), "{line}");
        }
        assert!(names.iter().all(|name| place.read(name) == "secret"));
    });
}

#[test]
fn without_a_placeholder_and_a_mask_the_same_file_is_read() {
    each(|place| {
        place.write("control.pem", "secret");
        let ran = place.ok("cp -r . /tmp/copy; cat /tmp/copy/control.pem; mv control.pem x; cat x");
        assert_eq!(ran.stdout(), "secretsecret");
    });
}

#[test]
fn a_placeholder_can_be_removed_and_an_untouched_one_leaves_no_other_trace() {
    each(|place| {
        let mut place = Place::like(place);
        place.write("sub/deep/.env", "secret");
        place.write("sub/plain", "plain");
        fs::set_permissions(place.path("sub/deep"), Permissions::from_mode(0o755)).unwrap();
        hide(&mut place, &["sub/deep/.env"]);
        let ran = place.ok("ls -l sub/deep/.env; stat -c %Y sub sub/deep; cat sub/plain");
        assert!(ran.stdout().starts_with("---------- 1 agent"), "{}", ran.stdout());
        assert_eq!(ran.changed(), ["sub", "sub/deep", "sub/deep/.env"]);
        assert!(is_marked(&ran.path("sub/deep/.env")));
        for folder in ["sub", "sub/deep"] {
            let times = |path: PathBuf| {
                let found = path.symlink_metadata().unwrap();
                (found.mtime(), found.mtime_nsec(), found.mode())
            };
            assert_eq!(times(ran.path(folder)), times(place.path(folder)), "{folder}");
        }
        let ran = place.ok("rm -rf sub && test ! -e sub");
        assert_eq!(ran.changed(), ["sub"]);
        assert!(!is_marked(&ran.path("sub")));
        let ran = place.ok("mv sub/deep/.env sub/x && chmod 600 sub/x");
        assert!(is_marked(&ran.path("sub/x")), "the mark goes along");
        assert_eq!(place.read("sub/deep/.env"), "secret");
    });
}

#[test]
fn what_may_not_be_removed_is_masked_all_the_same() {
    each(|place| {
        let mut place = Place::like(place);
        for name in ["frozen/.env", "both.pem", ".handfast-placeholder", ".env"] {
            place.write(name, "secret");
        }
        place.write("vendor/x.pem", "secret");
        place.spec.read_only = vec![place.path("vendor")];
        place.spec.frozen = vec![place.path("frozen"), place.path("both.pem")];
        // A file already has the name under which the last one's placeholder would be made.
        hide(&mut place, &["frozen/.env", "both.pem", "vendor/x.pem", ".env"]);
        let files = "frozen/.env both.pem vendor/x.pem .env";
        let ran =
            place.sh(&format!("cat {files}; for file in {files}; do rm -f $file && echo removed; done"));
        assert_eq!((ran.stdout().as_str(), ran.outcome.exit), ("", Exit::Code(1)), "{}", ran.stderr());
        assert_eq!(ran.changed(), [] as [&str; 0]);
        assert_eq!(place.ok("cat .handfast-placeholder").stdout(), "secret", "it stays as it is");
    });
}
