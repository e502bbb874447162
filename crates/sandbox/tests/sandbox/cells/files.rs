//! Tests that a cell shows the given files and no other files of the host.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use sandbox::{Exit, SandboxError};

use super::support::{Place, is_root, stderr, stdout};

#[test]
fn a_file_of_the_host_is_absent_and_one_of_the_workspace_is_there() {
    let place = Place::new();
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    fs::write(elsewhere.path(), "secret").unwrap();
    place.write("here", "control");
    assert_eq!(place.output("cat here"), "control");
    let outcome = place.sh(&format!("cat {}", elsewhere.path().display()));
    assert!(stderr(&outcome).contains("No such file"), "{}", stderr(&outcome));
    assert_eq!(place.output("ls /root /sys /var/lib /mnt /srv 2>/dev/null | wc -l"), "0\n");
}

#[test]
fn system_folders_are_read_only_and_the_root_too() {
    let place = Place::new();
    place.output("touch control");
    for folder in ["/usr", "/etc", "/", "/dev", "/home", "/proc/sys/kernel", "/run/../usr/bin"] {
        let outcome = place.sh(&format!("touch {folder}/intruder"));
        assert_eq!(outcome.exit, Exit::Code(1), "{folder}: {}", stderr(&outcome));
    }
    assert_eq!(place.sh("cat /etc/shadow").exit, Exit::Code(1));
}

#[test]
fn further_roots_are_shown_with_their_rights_even_below_a_closed_folder() {
    let mut place = Place::new();
    let closed = tempfile::tempdir().unwrap();
    let closed_path = closed.path().canonicalize().unwrap();
    let (read, write) = (closed_path.join("read"), closed_path.join("write"));
    fs::create_dir(&read).unwrap();
    fs::create_dir(&write).unwrap();
    fs::write(read.join("file"), "r").unwrap();
    fs::write(closed_path.join("single"), "s").unwrap();
    fs::write(closed_path.join("unnamed"), "u").unwrap();
    fs::set_permissions(&closed_path, fs::Permissions::from_mode(0o700)).unwrap();
    place.spec.read_only = vec![read.clone(), closed_path.join("single")];
    place.spec.read_write = vec![write.clone()];
    let (root, read, write) = (closed_path.display(), read.display(), write.display());
    assert_eq!(place.output(&format!("cat {read}/file {root}/single; ls {root}")), "rsread\nsingle\nwrite\n");
    assert_eq!(place.output(&format!("echo w > {write}/file && cat {write}/file")), "w\n");
    assert_eq!(place.sh(&format!("echo x > {read}/file")).exit, Exit::Code(1));
    assert_eq!(place.sh(&format!("echo x > {root}/single")).exit, Exit::Code(1));
    assert_eq!(fs::read_to_string(closed_path.join("read/file")).unwrap(), "r");
}

#[test]
fn a_link_in_the_workspace_leads_to_nothing_that_is_not_shown() {
    let place = Place::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("secret"), "secret").unwrap();
    place.write("file", "control");
    symlink("file", place.path("good")).unwrap();
    symlink("/etc/shadow", place.path("shadow")).unwrap();
    symlink(elsewhere.path(), place.path("outside")).unwrap();
    symlink("/proc/1/root", place.path("init")).unwrap();
    assert_eq!(place.output("cat good"), "control");
    for name in ["shadow", "outside/secret", "init/etc/passwd"] {
        let outcome = place.sh(&format!("cat {name}"));
        assert_eq!((outcome.exit, stdout(&outcome).as_str()), (Exit::Code(1), ""), "{name}");
    }
}

#[test]
fn masked_files_and_folders_are_empty_unreadable_and_stay() {
    let mut place = Place::new();
    for name in [".env", "keys/deep/a.pem", "sub/.env"] {
        place.write(name, "secret");
    }
    symlink("sub/.env", place.path("by-link")).unwrap();
    place.write("visible", "control");
    place.spec.masked =
        vec![place.path(".env"), place.path("keys"), place.path("by-link"), place.path("absent")];
    assert_eq!(place.output("cat visible"), "control");
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
        "mv sub moved && cat moved/.env",
    ] {
        let outcome = place.sh(line);
        assert_ne!(outcome.exit, Exit::Code(0), "{line}");
        assert!(!stdout(&outcome).contains("secret"), "{line}");
    }
    assert_eq!(fs::read_to_string(place.path(".env")).unwrap(), "secret");
    assert!(!place.path("absent").exists());
}

#[test]
fn frozen_paths_are_read_only_and_cannot_be_moved_away() {
    let mut place = Place::new();
    place.write("repo/.git/hooks/pre-commit", "original");
    place.write("repo/.git/config", "original");
    place.write("repo/file", "x");
    place.spec.frozen = vec![place.path("repo/.git/hooks"), place.path("repo/.git/config")];
    assert_eq!(
        place.output("cat repo/.git/hooks/pre-commit; echo y > repo/file; touch repo/.git/index"),
        "original"
    );
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
        assert_ne!(place.sh(line).exit, Exit::Code(0), "{line}");
    }
    assert_eq!(fs::read_to_string(place.path("repo/.git/hooks/pre-commit")).unwrap(), "original");
    assert_eq!(fs::read_to_string(place.path("repo/.git/config")).unwrap(), "original");
}

#[test]
fn a_workspace_that_is_also_named_read_only_is_read_only() {
    let mut place = Place::new();
    place.output("touch control");
    place.spec.read_only = vec![place.spec.workspace.clone()];
    assert_eq!(place.sh("touch intruder").exit, Exit::Code(1));
}

#[test]
fn roots_inside_roots_keep_their_own_rights() {
    let mut place = Place::new();
    place.write("vendor/lib", "x");
    place.write("vendor/patched/lib", "x");
    place.spec.read_only = vec![place.path("vendor")];
    place.spec.read_write = vec![place.path("vendor/patched")];
    place.output("touch a vendor/patched/b");
    assert_eq!(place.sh("touch vendor/c").exit, Exit::Code(1));
}

#[test]
fn files_of_other_owners_keep_their_owner_and_their_mode_decides() {
    let place = Place::new();
    place.write("open", "o");
    place.write("closed", "c");
    for (name, mode) in [("open", 0o666), ("closed", 0o600)] {
        if is_root() {
            std::os::unix::fs::chown(place.path(name), Some(12345), Some(12345)).unwrap();
        }
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    assert_eq!(place.output("echo more >> open && cat open"), "omore\n");
    let expected = if is_root() { Exit::Code(1) } else { Exit::Code(0) };
    assert_eq!(place.sh("cat closed").exit, expected);
}

#[test]
fn a_set_user_id_program_gives_nothing() {
    let place = Place::new();
    fs::copy("/usr/bin/id", place.path("id")).unwrap();
    if is_root() {
        // A third user owns the file, because the workspace's owner is the inner user already.
        std::os::unix::fs::chown(place.path("id"), Some(12345), Some(12345)).unwrap();
    }
    fs::set_permissions(place.path("id"), fs::Permissions::from_mode(0o6755)).unwrap();
    assert_eq!(place.output("./id -u; ./id -g"), "1000\n1000\n");
    let mounts = place.output("cut -d' ' -f5,6 /proc/self/mountinfo");
    assert!(mounts.lines().count() > 10);
    assert!(mounts.lines().all(|mount| mount.contains("nosuid")), "{mounts}");
}

#[test]
fn a_device_file_in_the_workspace_is_dead() {
    let place = Place::new();
    if is_root() {
        // A second name for the null device, as harmless as the first.
        rustix::fs::mknodat(
            rustix::fs::CWD,
            place.path("null"),
            rustix::fs::FileType::CharacterDevice,
            rustix::fs::Mode::from_raw_mode(0o666),
            rustix::fs::makedev(1, 3),
        )
        .unwrap();
        fs::set_permissions(place.path("null"), fs::Permissions::from_mode(0o666)).unwrap();
        fs::read(place.path("null")).unwrap();
        assert_eq!(place.sh("cat null").exit, Exit::Code(1));
    }
    assert_eq!(place.sh("mknod made c 1 3").exit, Exit::Code(1));
    place.output("mkfifo pipe && cat /dev/null");
}

#[test]
fn a_workspace_that_is_no_folder_is_refused() {
    let mut place = Place::new();
    place.write("file", "x");
    for path in [place.path("file"), place.path("absent"), "/".into(), "/proc".into()] {
        place.spec.workspace.clone_from(&path);
        let result = place.try_run(sandbox::Program::Shell("true".to_owned()));
        assert!(matches!(result, Err(SandboxError::Root { .. })), "{path:?}: {result:?}");
    }
}
