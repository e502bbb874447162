//! Tests of writing, creating, moving and removing.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::fixture::{Fixture, never};
use roots::{Removal, Roots, RootsError};

fn write(roots: &Roots, path: &Path, content: &str) -> Result<roots::CommitResult, RootsError> {
    roots.stage(path, content.as_bytes())?.commit()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_write_replaces_the_content_and_keeps_the_rest() {
    let fixture = Fixture::new();
    let path = fixture.inside("script");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4750)).unwrap();
    let kept = rustix::fs::setxattr(&path, "user.origin", b"kept", rustix::fs::XattrFlags::empty());
    let before = fs::metadata(&path).unwrap();
    let roots = fixture.roots();
    assert!(!write(&roots, &path, "new").unwrap().created);
    let after = fs::metadata(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    // All bits but the one that would let new content run as the owner.
    assert_eq!(after.mode() & 0o7777, 0o750);
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    if kept.is_ok() {
        let mut value = [0; 16];
        let length = rustix::fs::getxattr(&path, "user.origin", &mut value[..]).unwrap();
        assert_eq!(&value[..length], b"kept");
    } else {
        println!("not checked: the file system of the temporary folder has no user attributes");
    }
    assert_eq!(names(&fixture.inside("")), ["script"]);
}

#[test]
fn what_root_writes_belongs_to_the_owner_of_the_folder() {
    if !rustix::process::geteuid().is_root() {
        println!("not checked: only root can give files away");
        return;
    }
    let fixture = Fixture::new();
    let roots = fixture.roots();
    std::os::unix::fs::chown(fixture.inside(""), Some(4321), Some(4322)).unwrap();
    roots.create_parents(&fixture.inside("a/b/new")).unwrap();
    write(&roots, &fixture.inside("a/b/new"), "x").unwrap();
    for path in ["a", "a/b", "a/b/new"] {
        let metadata = fs::metadata(fixture.inside(path)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (4321, 4322), "{path}");
    }
    // A replaced file keeps its own owner, regardless of the folder's owner.
    std::os::unix::fs::chown(fixture.inside("a/b/new"), Some(5), Some(6)).unwrap();
    write(&roots, &fixture.inside("a/b/new"), "y").unwrap();
    let metadata = fs::metadata(fixture.inside("a/b/new")).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (5, 6));
}

#[test]
fn a_staged_file_that_is_dropped_leaves_nothing() {
    let fixture = Fixture::new();
    let roots = fixture.roots();
    drop(roots.stage(&fixture.inside("new"), b"x").unwrap());
    assert_eq!(names(&fixture.inside("")), Vec::<String>::new());
    let created = roots.create_parents(&fixture.inside("a/b/c/file")).unwrap();
    assert_eq!(created.paths().count(), 3);
    fs::write(fixture.inside("a/mine"), "").unwrap();
    created.take_back();
    assert_eq!(names(&fixture.inside("a")), ["mine"]);
}

#[test]
fn folders_are_made_where_a_link_leads_and_never_outside() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.inside("real")).unwrap();
    symlink("real/new", fixture.inside("dangling")).unwrap();
    symlink(fixture.outside("new"), fixture.inside("out")).unwrap();
    fs::write(fixture.inside("file"), "").unwrap();
    let roots = fixture.roots();
    roots.create_parents(&fixture.inside("dangling/a/file")).unwrap();
    assert!(fixture.inside("real/new/a").is_dir());
    let out = roots.create_parents(&fixture.inside("out/a/file")).map(|_| ()).unwrap_err();
    assert!(matches!(out, RootsError::LeadsOutside { .. }), "{out}");
    assert_eq!(names(&fixture.outside("")), Vec::<String>::new());
    assert!(roots.create_parents(&fixture.inside("file/a/b")).is_err());
    assert!(roots.create_parents(&fixture.inside("x/unwritten/b")).is_err());
    // Folders created before the denial are removed again.
    assert_eq!(names(&fixture.inside("")), ["dangling", "file", "out", "real"]);
}

#[test]
fn a_name_taken_meanwhile_is_not_overwritten() {
    let fixture = Fixture::new();
    let roots = fixture.roots();
    let staged = roots.stage(&fixture.inside("new"), b"mine").unwrap();
    fs::write(fixture.inside("new"), "theirs").unwrap();
    assert!(matches!(staged.commit(), Err(RootsError::Changed { .. })));
    assert_eq!(fs::read_to_string(fixture.inside("new")).unwrap(), "theirs");
    assert_eq!(names(&fixture.inside("")), ["new"]);
}

#[test]
fn a_link_is_written_through_and_a_hard_link_is_parted() {
    let fixture = Fixture::new();
    fs::write(fixture.inside("file"), "old").unwrap();
    fs::hard_link(fixture.inside("file"), fixture.inside("other")).unwrap();
    symlink("file", fixture.inside("link")).unwrap();
    symlink("made", fixture.inside("dangling")).unwrap();
    let roots = fixture.roots();
    let written = write(&roots, &fixture.inside("link"), "new").unwrap();
    assert_eq!(written.real, fixture.inside("file"));
    assert!(fixture.inside("link").is_symlink());
    assert_eq!(fs::read_to_string(fixture.inside("file")).unwrap(), "new");
    assert_eq!(fs::read_to_string(fixture.inside("other")).unwrap(), "old");
    assert!(write(&roots, &fixture.inside("dangling"), "x").unwrap().created);
    assert_eq!(fs::read_to_string(fixture.inside("made")).unwrap(), "x");
}

#[test]
fn a_copy_keeps_holes_and_attributes() {
    let fixture = Fixture::new();
    let sparse = fs::File::create(fixture.inside("sparse")).unwrap();
    sparse.set_len(10 << 30).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"data", 5 << 30).unwrap();
    fs::set_permissions(fixture.inside("sparse"), fs::Permissions::from_mode(0o600)).unwrap();
    let roots = fixture.roots();
    roots.copy_file(&fixture.inside("sparse"), &fixture.inside("copy"), &never).unwrap();
    let copy = fs::metadata(fixture.inside("copy")).unwrap();
    assert_eq!((copy.len(), copy.mode() & 0o777), (10 << 30, 0o600));
    assert!(copy.blocks() * 512 < 1 << 20, "{} blocks", copy.blocks());
    let mut data = [0; 4];
    std::os::unix::fs::FileExt::read_exact_at(
        &fs::File::open(fixture.inside("copy")).unwrap(),
        &mut data,
        5 << 30,
    )
    .unwrap();
    assert_eq!(&data, b"data");
    let stopped = roots.copy_file(&fixture.inside("sparse"), &fixture.inside("stopped"), &|| true);
    assert!(matches!(stopped, Err(RootsError::Stopped)));
    fs::write(fixture.inside("unread"), "secret").unwrap();
    let refused = roots.copy_file(&fixture.inside("unread"), &fixture.inside("leak"), &never);
    assert!(matches!(refused, Err(RootsError::Refused { .. })));
    assert_eq!(names(&fixture.inside("")), ["copy", "sparse", "unread"]);
}

#[test]
fn removing_takes_a_link_and_not_its_target() {
    let fixture = Fixture::new();
    fs::write(fixture.outside("secret"), "kept").unwrap();
    fs::create_dir(fixture.inside("tree")).unwrap();
    symlink(fixture.outside(""), fixture.inside("tree/link")).unwrap();
    symlink(fixture.outside("secret"), fixture.inside("link")).unwrap();
    fs::write(fixture.inside("tree/.handfast-7.tmp"), "left over").unwrap();
    let roots = fixture.roots();
    roots.remove(&fixture.inside("link"), Removal::Entry, &never).unwrap();
    let kept = roots.remove(&fixture.inside("tree"), Removal::Entry, &never).unwrap_err();
    assert!(matches!(kept, RootsError::NotEmpty { .. }), "{kept}");
    assert_eq!(roots.remove(&fixture.inside("tree"), Removal::Tree, &never).unwrap().entries, 3);
    assert_eq!(names(&fixture.inside("")), Vec::<String>::new());
    assert_eq!(fs::read_to_string(fixture.outside("secret")).unwrap(), "kept");
}

#[test]
fn one_denied_file_keeps_the_whole_tree() {
    for name in ["denied", "unread", "unwritten"] {
        let fixture = Fixture::new();
        fs::create_dir_all(fixture.inside("tree/z/deep")).unwrap();
        fs::write(fixture.inside("tree/a"), "").unwrap();
        fs::write(fixture.inside(&format!("tree/z/deep/{name}")), "").unwrap();
        let roots = fixture.roots();
        let error = roots.remove(&fixture.inside("tree"), Removal::Tree, &never).unwrap_err();
        assert!(matches!(error, RootsError::Refused { .. }), "{error}");
        let error = roots.rename(&fixture.inside("tree"), &fixture.inside("moved"), &never).unwrap_err();
        assert!(matches!(error, RootsError::Refused { .. }), "{error}");
        assert_eq!(names(&fixture.inside("tree")), ["a", "z"]);
        assert_eq!(names(&fixture.inside("")), ["tree"]);
    }
}

#[test]
fn a_move_reveals_nothing_and_overwrites_nothing() {
    let fixture = Fixture::new();
    for path in ["unread", "file", "there"] {
        fs::write(fixture.inside(path), path).unwrap();
    }
    fs::create_dir(fixture.inside("folder")).unwrap();
    let roots = fixture.roots();
    let rename = |from: &str, to: &str| roots.rename(&fixture.inside(from), &fixture.inside(to), &never);
    assert!(matches!(rename("unread", "public"), Err(RootsError::Refused { .. })));
    assert!(matches!(rename("file", "unwritten"), Err(RootsError::Refused { .. })));
    assert!(matches!(rename("file", "there"), Err(RootsError::Exists { .. })));
    assert!(matches!(rename("file", "folder"), Err(RootsError::Exists { .. })));
    assert!(matches!(rename("file", "missing/x"), Err(RootsError::NoFolder { .. })));
    assert!(matches!(rename("folder", "folder/x"), Err(RootsError::IntoItself { .. })));
    assert!(matches!(rename("", "folder/x"), Err(RootsError::IsRoot { .. })));
    assert!(matches!(rename("gone", "x"), Err(RootsError::NotFound { .. })));
    assert_eq!(rename("file", "folder/moved").unwrap(), fixture.inside("folder/moved"));
    assert_eq!(rename("folder", "renamed").unwrap(), fixture.inside("renamed"));
    assert_eq!(fs::read_to_string(fixture.inside("renamed/moved")).unwrap(), "file");
    assert_eq!(fs::read_to_string(fixture.inside("there")).unwrap(), "there");
}

#[test]
fn the_root_itself_stays() {
    let fixture = Fixture::new();
    let nested = roots::Root::open(&fixture.inside(""), roots::Right::Write).unwrap();
    let around = roots::Root::open(&fixture.base(), roots::Right::Write).unwrap();
    let roots = fixture.roots_with(vec![nested, around]);
    for path in [fixture.inside(""), fixture.base()] {
        let error = roots.remove(&path, Removal::Tree, &never).unwrap_err();
        assert!(matches!(error, RootsError::IsRoot { .. }), "{error}");
    }
    assert!(fixture.inside("").is_dir());
}

#[test]
fn a_tree_deeper_than_the_limit_is_kept_whole() {
    let fixture = Fixture::new();
    let deep = fixture.inside("deep").join("d/".repeat(roots::DEEPEST + 5));
    fs::create_dir_all(&deep).unwrap();
    let roots = fixture.roots();
    let error = roots.remove(&fixture.inside("deep"), Removal::Tree, &never).unwrap_err();
    assert!(matches!(error, RootsError::TooDeep { .. }), "{error}");
    assert!(deep.is_dir());
}

#[test]
fn a_stop_before_the_first_removal_removes_nothing() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.inside("tree")).unwrap();
    fs::write(fixture.inside("tree/file"), "").unwrap();
    let error = fixture.roots().remove(&fixture.inside("tree"), Removal::Tree, &|| true).unwrap_err();
    assert!(matches!(error, RootsError::Stopped), "{error}");
    assert_eq!(names(&fixture.inside("tree")), ["file"]);
}

#[test]
fn what_something_else_removes_meanwhile_does_not_fail_a_removal() {
    // Test the removal at each entry that is judged, and then at each entry that is removed.
    for moment in 1..=4 {
        let fixture = Fixture::new();
        fs::create_dir_all(fixture.inside("tree/going")).unwrap();
        fs::write(fixture.inside("tree/z"), "").unwrap();
        let asked = std::cell::Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            if asked.get() == moment {
                // At the last moments the removal itself may have taken the folder already.
                let _ = fs::remove_dir(fixture.inside("tree/going"));
            }
            false
        };
        fixture.roots().remove(&fixture.inside("tree"), Removal::Tree, &stop).unwrap();
        assert!(asked.get() >= moment.min(3), "{moment}: asked {} times", asked.get());
        assert_eq!(names(&fixture.inside("")), [""; 0], "{moment}");
    }
}

#[test]
fn a_file_that_changed_since_it_was_opened_stays() {
    let fixture = Fixture::new();
    let (roots, path) = (fixture.roots(), fixture.inside("f"));
    fs::write(&path, "old").unwrap();
    fs::write(fixture.inside("g"), "another").unwrap();
    let changes: [(&str, &dyn Fn()); 4] = [
        ("written", &|| fs::write(&path, "theirs").unwrap()),
        ("replaced", &|| fs::rename(fixture.inside("g"), &path).unwrap()),
        ("written before it is staged", &|| {}),
        ("removed", &|| fs::remove_file(&path).unwrap()),
    ];
    for (how, change) in changes {
        let opened = roots.open_file(&path).unwrap();
        if how == "written before it is staged" {
            fs::write(&path, "early").unwrap();
        }
        let staged = roots.stage(&path, b"ours").unwrap();
        change();
        let there = fs::read(&path).ok();
        assert!(matches!(staged.commit_over(&opened), Err(RootsError::Changed { .. })), "{how}");
        assert_eq!(fs::read(&path).ok(), there, "{how}");
    }
    fs::write(&path, "old").unwrap();
    let opened = roots.open_file(&path).unwrap();
    roots.stage(&path, b"ours").unwrap().commit_over(&opened).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"ours");
    assert_eq!(names(&fixture.inside("")), ["f"], "nothing else is left");
}

#[test]
fn of_two_who_edit_one_file_none_loses_what_the_other_wrote() {
    use std::io::Read;
    const ROUNDS: usize = 100;
    let fixture = Fixture::new();
    let path = fixture.inside("f");
    fs::write(&path, "").unwrap();
    let append = |letter: u8| {
        let roots = fixture.roots();
        for _ in 0..ROUNDS {
            while let Err(error) = (|| {
                let mut opened = roots.open_file(&path)?;
                let mut content = Vec::new();
                opened.file.read_to_end(&mut content).unwrap();
                content.push(letter);
                roots.stage(&path, &content)?.commit_over(&opened).map(drop)
            })() {
                assert!(matches!(error, RootsError::Changed { .. }), "{error}");
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| append(b'a'));
        scope.spawn(|| append(b'b'));
    });
    let content = fs::read(&path).unwrap();
    let count = |letter| content.split(|byte| *byte == letter).count() - 1;
    assert_eq!((count(b'a'), count(b'b')), (ROUNDS, ROUNDS));
}
