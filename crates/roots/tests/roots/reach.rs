//! Tests of reach: links in every position, other roots, single paths, and entries that are not
//! files.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::fixture::{DenyByName, Fixture};
use roots::{EntryKind, LastLink, Right, Root, Roots, RootsError, real_path};

fn read(roots: &Roots, path: &Path) -> Result<String, RootsError> {
    let mut text = String::new();
    roots.open_file(path)?.file.read_to_string(&mut text).unwrap();
    Ok(text)
}

#[test]
fn links_inside_are_followed_in_every_position() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.inside("a/b")).unwrap();
    fs::write(fixture.inside("a/b/file"), "content").unwrap();
    symlink("b/file", fixture.inside("a/last")).unwrap();
    symlink("a/b", fixture.inside("middle")).unwrap();
    symlink(fixture.inside("a"), fixture.inside("absolute")).unwrap();
    symlink("../../inside/a/b/file", fixture.inside("a/around")).unwrap();
    let roots = fixture.roots();
    for path in ["a/b/file", "a/last", "middle/file", "absolute/b/file", "absolute/last", "a/around"] {
        assert_eq!(read(&roots, &fixture.inside(path)).unwrap(), "content", "{path}");
    }
    assert_eq!(roots.open_file(&fixture.inside("absolute/last")).unwrap().real, fixture.inside("a/b/file"));
}

#[test]
fn links_that_lead_out_are_refused_in_every_position() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.outside("folder")).unwrap();
    fs::write(fixture.outside("folder/secret"), "secret").unwrap();
    symlink(fixture.outside("folder/secret"), fixture.inside("last")).unwrap();
    symlink(fixture.outside("folder"), fixture.inside("middle")).unwrap();
    symlink("../outside", fixture.inside("relative")).unwrap();
    symlink("relative", fixture.inside("chain")).unwrap();
    symlink("/", fixture.inside("slash")).unwrap();
    symlink("/proc/self/root", fixture.inside("magic")).unwrap();
    let roots = fixture.roots();
    let secret = fixture.outside("folder/secret");
    let through = |link: &str| fixture.inside(link).join(secret.strip_prefix("/").unwrap());
    for path in [
        fixture.inside("last"),
        fixture.inside("middle/secret"),
        fixture.inside("relative/folder/secret"),
        fixture.inside("chain/folder/secret"),
        through("slash"),
        through("magic"),
    ] {
        // The control: the system itself follows the link to the secret.
        assert_eq!(fs::read_to_string(&path).unwrap(), "secret");
        let error = roots.open_file(&path).unwrap_err();
        assert!(
            matches!(error, RootsError::LeadsOutside { .. } | RootsError::TooManyLinks { .. }),
            "{}: {error}",
            path.display()
        );
        let error = roots.stage(&path, b"overwritten").map(|_| ()).unwrap_err();
        assert!(
            matches!(error, RootsError::LeadsOutside { .. } | RootsError::TooManyLinks { .. }),
            "{}: {error}",
            path.display()
        );
    }
    let error = roots.open_file(&secret).unwrap_err();
    assert!(matches!(error, RootsError::NotInRoots { .. }), "{error}");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
}

#[test]
fn a_link_into_another_root_has_that_roots_right() {
    let fixture = Fixture::new();
    fs::write(fixture.outside("listed"), "content").unwrap();
    symlink(fixture.outside("listed"), fixture.inside("link")).unwrap();
    let readable = fixture.roots_with(vec![Root::open(&fixture.outside(""), Right::Read).unwrap()]);
    assert_eq!(read(&readable, &fixture.inside("link")).unwrap(), "content");
    let error = readable.stage(&fixture.inside("link"), b"new").map(|_| ()).unwrap_err();
    assert!(matches!(error, RootsError::ReadOnly { .. }), "{error}");
    let writable = fixture.roots_with(vec![Root::open(&fixture.outside(""), Right::Write).unwrap()]);
    writable.stage(&fixture.inside("link"), b"new").unwrap().commit().unwrap();
    assert_eq!(fs::read_to_string(fixture.outside("listed")).unwrap(), "new");
    assert!(fixture.inside("link").is_symlink());
}

#[test]
fn a_single_listed_path_gives_no_reach_to_its_neighbours() {
    let fixture = Fixture::new();
    fs::write(fixture.outside("listed"), "content").unwrap();
    fs::write(fixture.outside("neighbour"), "secret").unwrap();
    symlink("neighbour", fixture.outside("link")).unwrap();
    let single = |path: &str| Root::open(&fixture.outside(path), Right::Write).unwrap();
    let roots = fixture.roots_with(vec![single("listed"), single("new/folder/file")]);
    assert_eq!(read(&roots, &fixture.outside("listed")).unwrap(), "content");
    for path in ["neighbour", "link", "listed/x", ""] {
        assert!(roots.open_file(&fixture.outside(path)).is_err(), "{path}");
    }
    // A listed file that is swapped for a link leads no further than any other link.
    fs::remove_file(fixture.outside("listed")).unwrap();
    symlink("neighbour", fixture.outside("listed")).unwrap();
    let error = roots.open_file(&fixture.outside("listed")).unwrap_err();
    assert!(matches!(error, RootsError::LeadsOutside { .. }), "{error}");
    // A listed file that does not exist yet can be created, together with its parent folders.
    roots.create_parents(&fixture.outside("new/folder/file")).unwrap();
    roots.stage(&fixture.outside("new/folder/file"), b"made").unwrap().commit().unwrap();
    assert_eq!(fs::read_to_string(fixture.outside("new/folder/file")).unwrap(), "made");
    let error = roots.stage(&fixture.outside("new/folder/other"), b"x").map(|_| ()).unwrap_err();
    assert!(matches!(error, RootsError::NotInRoots { .. }), "{error}");
}

#[test]
fn what_is_no_file_is_named_and_not_opened() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.inside("folder")).unwrap();
    let listener = UnixListener::bind(fixture.inside("socket")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        fixture.inside("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let roots = fixture.roots();
    let kinds = [("folder", EntryKind::Folder), ("socket", EntryKind::Socket), ("fifo", EntryKind::Fifo)];
    for (path, kind) in kinds {
        // Opening the FIFO would block, because it has no writer.
        let error = roots.open_file(&fixture.inside(path)).unwrap_err();
        assert!(matches!(error, RootsError::WrongKind { found, .. } if found == kind), "{error}");
        let error = roots.stage(&fixture.inside(path), b"x").map(|_| ()).unwrap_err();
        assert!(matches!(error, RootsError::WrongKind { found, .. } if found == kind), "{error}");
    }
    let error = roots.open_folder(&fixture.inside("fifo")).map(|_| ()).unwrap_err();
    assert!(matches!(error, RootsError::WrongKind { wanted: EntryKind::Folder, .. }), "{error}");
    drop(listener);
}

#[test]
fn a_device_is_named_and_not_opened() {
    let roots = Roots::new(
        vec![Root::open(Path::new("/dev/null"), Right::Write).unwrap()],
        std::sync::Arc::new(DenyByName),
    );
    let error = roots.open_file(Path::new("/dev/null")).unwrap_err();
    assert!(matches!(error, RootsError::WrongKind { found: EntryKind::Device, .. }), "{error}");
    let error = roots.stage(Path::new("/dev/null"), b"x").map(|_| ()).unwrap_err();
    assert!(matches!(error, RootsError::WrongKind { found: EntryKind::Device, .. }), "{error}");
}

#[test]
fn the_guard_judges_the_place_that_was_really_opened() {
    let fixture = Fixture::new();
    fs::write(fixture.inside("unread.txt"), "secret").unwrap();
    symlink("unread.txt", fixture.inside("harmless")).unwrap();
    let roots = fixture.roots();
    let error = roots.open_file(&fixture.inside("harmless")).unwrap_err();
    assert!(
        matches!(&error, RootsError::Refused { path, .. } if *path == fixture.inside("unread.txt")),
        "{error}"
    );
    assert!(matches!(
        roots.metadata(&fixture.inside("harmless"), LastLink::Follow),
        Err(RootsError::Refused { .. })
    ));
    assert_eq!(roots.metadata(&fixture.inside("harmless"), LastLink::Keep).unwrap().kind, EntryKind::Link);
}

#[test]
fn endless_links_end() {
    let fixture = Fixture::new();
    symlink("two", fixture.inside("one")).unwrap();
    symlink("one", fixture.inside("two")).unwrap();
    symlink("self/x", fixture.inside("self")).unwrap();
    let roots = fixture.roots();
    for path in ["one", "self", "one/x"] {
        let error = roots.open_file(&fixture.inside(path)).unwrap_err();
        assert!(matches!(error, RootsError::TooManyLinks { .. }), "{error}");
        assert!(matches!(
            real_path(&fixture.inside(path), LastLink::Follow),
            Err(RootsError::TooManyLinks { .. })
        ));
    }
}

#[test]
fn the_real_path_is_known_before_anything_is_made() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.inside("folder")).unwrap();
    fs::write(fixture.inside("file"), "").unwrap();
    symlink(fixture.outside("new"), fixture.inside("dangling")).unwrap();
    symlink("folder", fixture.inside("link")).unwrap();
    let real = |path: &str| real_path(&fixture.inside(path), LastLink::Follow).unwrap();
    assert_eq!(real("link/a/b"), fixture.inside("folder/a/b"));
    assert_eq!(real("dangling"), fixture.outside("new"));
    assert_eq!(real("dangling/x"), fixture.outside("new/x"));
    assert_eq!(real("file/x"), fixture.inside("file/x"));
    let kept = real_path(&fixture.inside("link"), LastLink::Keep).unwrap();
    assert_eq!(kept, fixture.inside("link"));
}

#[test]
fn a_name_that_says_deleted_is_just_a_name() {
    let fixture = Fixture::new();
    fs::write(fixture.inside("x (deleted)"), "here").unwrap();
    assert_eq!(read(&fixture.roots(), &fixture.inside("x (deleted)")).unwrap(), "here");
}
