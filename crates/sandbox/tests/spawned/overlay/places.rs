//! Further roots, several names, other owners, and mounts below the workspace.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;

use sandbox::Exit;

use super::support::{Place, each, is_root, overlay_at, run_cell};

#[test]
fn other_roots_are_written_directly_and_named() {
    each(|place| {
        let mut place = Place::like(place);
        let (inner, other) = (place.path("inner"), place.outside("other"));
        for folder in [&inner, &other, &place.path("vendor")] {
            fs::create_dir(folder).unwrap();
        }
        place.spec.read_write = vec![inner.clone(), other.clone()];
        place.spec.read_only = vec![place.path("vendor")];
        let ran = place
            .ok(&format!("echo x > inner/a; echo x > {}/b; echo x > c; ! touch vendor/d", other.display()));
        assert!(inner.join("a").exists() && other.join("b").exists() && !place.path("c").exists());
        assert_eq!(ran.changed(), ["c"]);
        let direct = &ran.outcome.enforcement.direct;
        assert!(direct.len() == 2 && direct.contains(&other) && direct.contains(&inner), "{direct:?}");
        assert!(ran.outcome.enforcement.summary().contains(&"workspace:overlay".to_owned()));
    });
}

#[test]
fn a_workspace_of_two_names_is_one_overlay() {
    each(|place| {
        let mut place = Place::like(place);
        place.write("file", "old");
        let link = place.outside("a-link");
        symlink(&place.spec.workspace, &link).unwrap();
        let real = std::mem::replace(&mut place.spec.workspace, link.clone());
        place.spec.masked = vec![link.join("hidden")];
        fs::write(real.join("hidden"), "secret").unwrap();
        let (link, path) = (link.display().to_string(), real.display().to_string());
        let ran = place.ok(&format!(
            "echo new > {link}/file; cat {path}/file; rm {path}/file; ls {link}; ! cat {link}/hidden {path}/hidden"
        ));
        assert_eq!(ran.stdout(), "new\nhidden\n");
        assert_eq!(fs::read_to_string(real.join("file")).unwrap(), "old");
        assert_eq!(ran.changed(), ["file"]);
    });
}

#[test]
fn a_root_around_the_workspace_shows_the_overlay_in_it() {
    each(|place| {
        let mut place = Place::like(place);
        place.write("file", "old");
        let alias = place.outside("alias");
        symlink(place.outside("around"), &alias).unwrap();
        place.spec.read_write = vec![alias.clone()];
        let ran = place.sh(&format!("echo new > {}/ws/file; cat file", alias.display()));
        assert_eq!((ran.stdout().as_str(), place.read("file").as_str()), ("new\n", "old"));
    });
}

#[test]
fn files_of_other_owners_keep_their_owner_and_their_mode_decides() {
    each(|place| {
        for (name, mode) in [("open", 0o666), ("closed", 0o600), ("moved", 0o644), ("folder/inner", 0o644)] {
            place.write(name, "o");
            if is_root() {
                std::os::unix::fs::chown(place.path(name), Some(12345), Some(1000)).unwrap();
            }
            fs::set_permissions(place.path(name), Permissions::from_mode(mode)).unwrap();
        }
        let ran = place
            .ok("echo more >> open && cat open; mv moved renamed; mv folder/inner .; stat -c '%u %g' open");
        let (expected, closed) = if is_root() {
            ("omore\n12345 65533\n", Exit::Code(1))
        } else {
            ("omore\n1000 1000\n", Exit::Code(0))
        };
        assert_eq!(ran.stdout(), expected);
        if is_root() {
            for name in ["open", "renamed", "inner"] {
                let metadata = fs::metadata(ran.path(name)).unwrap();
                assert_eq!((metadata.uid(), metadata.gid()), (12345, 1000), "{name}");
            }
        }
        assert_eq!(place.sh("cat closed").outcome.exit, closed);
    });
}

#[test]
fn a_workspace_of_another_owner_gets_what_root_writes_for_it() {
    if !is_root() {
        return;
    }
    each(|place| {
        place.write("file", "old");
        for name in [".", "file"] {
            std::os::unix::fs::chown(place.path(name), Some(4321), Some(8765)).unwrap();
        }
        let ran = place.ok("echo more >> file; echo new > new; mkdir folder; stat -c '%u %g' . file new");
        assert_eq!(ran.stdout(), "1000 1000\n".repeat(3));
        for name in ["file", "new", "folder"] {
            let metadata = fs::metadata(ran.path(name)).unwrap();
            assert_eq!((metadata.uid(), metadata.gid()), (4321, 8765), "{name}");
        }
    });
}

/// Runs the example after `mounts`, shell lines in a new mount namespace.
pub(crate) fn behind(place: &Place, name: &str, mounts: &str, line: &str) -> (String, String) {
    let folder = place.outside(name);
    overlay_at(&folder);
    fs::remove_dir(folder.join("upper")).unwrap();
    fs::remove_dir(folder.join("work")).unwrap();
    let spawner = place.host.spawner.as_ref().map_or("", |_| "--spawner");
    let script = format!("{mounts}\nexec \"$RUN_CELL\" {spawner} --overlay \"$CALL\" \"$WS\" \"$LINE\"");
    let mut command = Command::new("unshare");
    command.args(if is_root() { &["--mount"][..] } else { &["--map-root-user", "--mount"] });
    let output = command
        .args(["sh", "-ec", &script])
        .env("RUN_CELL", run_cell())
        .env("CALL", &folder)
        .env("WS", &place.spec.workspace)
        .env("LINE", line)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn what_is_mounted_below_is_shown_and_written_directly_or_there_is_no_overlay() {
    each(|place| {
        place.write("sub/covered", "x");
        place.write("file", "old");
        let mounts = "mount -t tmpfs none \"$WS/sub\"; echo inner > \"$WS/sub/a\"";
        let line = "cat sub/a; echo new > sub/b; cat sub/b; echo new > file; ls sub";
        let (said, told) = behind(place, "call", mounts, line);
        let sub = place.path("sub").display().to_string();
        if is_root() {
            assert!(said.starts_with("inner\nnew\na\nb\nCode(0)"), "{said}{told}");
            assert!(told.contains("workspace:overlay") && told.contains(&format!("direct:{sub}")), "{told}");
            assert_eq!(fs::read_to_string(place.outside("call/upper/file")).unwrap(), "new\n");
            assert!(!place.outside("call/upper/sub").exists());
        } else {
            // The kernel does not allow a user namespace to uncover files below a mount.
            assert!(told.contains("something is mounted in it") && told.contains(&sub), "{said}{told}");
        }
        assert_eq!(place.read("file"), "old");
    });
}
