//! Tests that hidden and read-only files stay so on an overlay.

use std::fs;
use std::os::unix::fs::symlink;

use sandbox::Exit;

use super::support::each;

#[test]
fn masked_files_and_folders_stay_hidden_whatever_is_moved() {
    each(|place| {
        let mut place = super::support::Place::like(place);
        for name in [".env", "keys/deep/a.pem", "sub/.env"] {
            place.write(name, "secret");
        }
        symlink("sub/.env", place.path("by-link")).unwrap();
        place.write("visible", "control");
        place.spec.masked = [".env", "keys", "by-link", "absent"].map(|name| place.path(name)).to_vec();
        assert_eq!(place.ok("cat visible").stdout(), "control");
        for line in [
            "cat .env",
            "cat sub/.env",
            "cat by-link",
            "ls keys",
            "cat keys/deep/a.pem",
            "echo x > .env",
            "chmod 644 .env",
            "rm -f .env",
            "mv .env other",
            "mv keys other",
            "ln .env other",
            "cp -a . /tmp/copy && cat /tmp/copy/.env",
            "rm -rf sub; cat sub/.env",
            "mv sub moved && cat moved/.env",
            "python3 -c \"import os; os.rename('sub', 'moved'); print(open('moved/.env').read())\"",
            "mkdir other && python3 -c \"import os, ctypes; \
             print(ctypes.CDLL(None).renameat2(-100, b'sub', -100, b'other', 2)); \
             print(open('other/.env').read())\"",
        ] {
            let ran = place.sh(line);
            assert_ne!(ran.outcome.exit, Exit::Code(0), "{line}");
            assert!(!ran.stdout().contains("secret"), "{line}");
            for name in ran.changed() {
                let content = fs::read(ran.path(&name)).unwrap_or_default();
                assert!(!content.windows(6).any(|part| part == b"secret"), "{line}: {name}");
            }
        }
        assert_eq!(place.read(".env") + &place.read("sub/.env"), "secretsecret");
    });
}

#[test]
fn a_masked_file_that_the_host_replaces_meanwhile_stays_hidden() {
    each(|place| {
        let mut place = super::support::Place::like(place);
        place.write(".env", "secret");
        place.write("go", "");
        place.spec.masked = vec![place.path(".env")];
        // The command waits until the host has replaced the file, as an editor does.
        let line = "echo ready; while test ! -e /tmp/x && ! test -s go; do :; done; cat .env; ls -l .env >&2";
        let ran = place.sh_meanwhile(line, || {
            place.write("fresh", "new secret");
            fs::rename(place.path("fresh"), place.path(".env")).unwrap();
            // Written in place, so that the overlay shows the change.
            fs::write(place.path("go"), "x").unwrap();
        });
        assert_eq!(ran.outcome.exit, Exit::Code(0), "the listing is the control");
        assert!(!ran.stdout().contains("secret"), "{}", ran.stdout());
        assert!(ran.stderr().contains("Permission denied"), "{}", ran.stderr());
    });
}

#[test]
fn frozen_paths_are_read_only_and_cannot_be_moved_away() {
    each(|place| {
        let mut place = super::support::Place::like(place);
        place.write("repo/.git/hooks/pre-commit", "original");
        place.write("repo/.git/config", "original");
        place.write("repo/file", "x");
        place.spec.frozen = vec![place.path("repo/.git/hooks"), place.path("repo/.git/config")];
        let ran = place.ok("cat repo/.git/hooks/pre-commit; echo y > repo/file; touch repo/.git/index");
        assert_eq!(ran.stdout(), "original");
        assert_eq!(ran.changed(), ["repo", "repo/.git", "repo/.git/index", "repo/file"]);
        for line in [
            "echo x > repo/.git/hooks/pre-commit",
            "touch repo/.git/hooks/new",
            "rm -rf repo/.git/hooks",
            "mv repo/.git/hooks repo/.git/away",
            "mv repo/.git repo/away",
            "mv repo away",
            "echo x > repo/.git/config",
            "echo x > c && mv -f c repo/.git/config",
            "rm -f repo/.git/config",
        ] {
            assert_ne!(place.sh(line).outcome.exit, Exit::Code(0), "{line}");
        }
    });
}

#[test]
fn neither_the_workspace_itself_nor_the_folder_of_changes_is_in_reach() {
    each(|place| {
        place.write("file", "old");
        let ran = place.sh("cut -d' ' -f5 /proc/self/mountinfo | grep /.cell/overlay/; ls -la /.cell; \
             for path in /.cell/overlay/lower /.cell/overlay/layers/upper /.cell/overlay/shared; do \
             ls $path && echo reached; echo x > $path/file && echo written; cd $path && echo entered; done; \
             chmod 755 /.cell/overlay && echo opened; umount /.cell/overlay/lower && echo unmounted; \
             mount --bind /tmp /.cell/overlay && echo covered");
        let said = ran.stdout();
        assert!(said.contains("/.cell/overlay/lower"), "the control: it is mounted\n{said}");
        for word in ["reached", "written", "entered", "opened", "unmounted", "covered"] {
            assert!(!said.contains(word), "{said}{}", ran.stderr());
        }
        assert_eq!((place.read("file").as_str(), ran.changed().len()), ("old", 0));
    });
}

#[test]
fn set_user_id_bits_and_devices_give_nothing() {
    each(|place| {
        fs::copy("/usr/bin/id", place.path("id")).unwrap();
        let ran =
            place.ok("chmod 6755 id; ./id -u; ./id -g; grep ' /.cell\\| overlay ' /proc/self/mountinfo");
        assert!(ran.stdout().starts_with("1000\n1000\n"), "{}", ran.stdout());
        let overlays: Vec<_> =
            ran.stdout().lines().map(str::to_owned).filter(|line| line.contains(" - overlay ")).collect();
        assert!(
            !overlays.is_empty() && overlays.iter().all(|line| line.contains("nosuid,nodev")),
            "{overlays:?}"
        );
        assert_eq!(place.sh("mknod made c 1 3").outcome.exit, Exit::Code(1));
        // A device with these numbers would mark a deleted file.
        assert_eq!(place.sh("mknod made c 0 0").outcome.exit, Exit::Code(1));
    });
}
