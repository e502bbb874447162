//! Tests of walks in pages.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::fixture::Fixture;
use roots::{Entry, Folder, Result, Step, Visit, Walk, WalkSummary};

struct Collect {
    paths: Vec<PathBuf>,
    limit: usize,
}

impl Visit for Collect {
    fn wants(&mut self, entry: Entry<'_>, _relative: &Path) -> bool {
        entry.name != "unwanted"
    }

    fn visit(&mut self, _folder: &Folder, _entry: Entry<'_>, relative: &Path) -> Result<Step> {
        self.paths.push(relative.to_owned());
        Ok(if self.paths.len() >= self.limit { Step::End } else { Step::Next })
    }
}

fn walk(fixture: &Fixture, after: Option<PathBuf>, limit: usize) -> (Vec<PathBuf>, WalkSummary) {
    let folder = fixture.roots().open_folder(&fixture.inside("")).unwrap();
    let mut collect = Collect { paths: Vec::new(), limit };
    let walked = Walk { recursive: true, after }.over(&folder, &mut collect).unwrap();
    (collect.paths, walked)
}

fn tree() -> Fixture {
    let fixture = Fixture::new();
    for folder in ["a/b/c", "a-b", "unwanted/x", "denied/x", "z"] {
        fs::create_dir_all(fixture.inside(folder)).unwrap();
    }
    for file in ["a/b/1", "a/b/c/2", "a/z", "a-b/3", "z/4", ".handfast-0.tmp"] {
        fs::write(fixture.inside(file), "").unwrap();
    }
    symlink("..", fixture.inside("a/up")).unwrap();
    fixture
}

#[test]
fn a_walk_has_a_fixed_order_and_leaves_out_what_is_denied() {
    let (paths, walked) = walk(&tree(), None, usize::MAX);
    let expected = ["a", "a/b", "a/b/1", "a/b/c", "a/b/c/2", "a/up", "a/z", "a-b", "a-b/3", "z", "z/4"]
        .map(PathBuf::from);
    assert_eq!(paths, expected);
    assert!(paths.is_sorted());
    assert_eq!(walked, WalkSummary { ended: false, refused: 1, unreadable: 0, too_deep: 0 });
}

#[test]
fn pages_of_any_size_make_up_the_whole() {
    let fixture = tree();
    let (whole, _) = walk(&fixture, None, usize::MAX);
    for size in 1..=whole.len() + 1 {
        let mut pages = Vec::new();
        loop {
            let (page, walked) = walk(&fixture, pages.last().cloned(), size);
            pages.extend(page);
            if !walked.ended {
                break;
            }
        }
        assert_eq!(pages, whole, "page size {size}");
    }
    // A cursor whose entry is gone continues after its position.
    assert_eq!(walk(&fixture, Some("a/b/1x".into()), 1).0, [PathBuf::from("a/b/c")]);
}

#[test]
fn the_first_entries_are_the_smallest_names_however_many_there_are() {
    let fixture = Fixture::new();
    for number in (0..500).rev() {
        fs::write(fixture.inside(&format!("{number:03}")), "").unwrap();
    }
    let folder = fixture.roots().open_folder(&fixture.inside("")).unwrap();
    let names = |after: Option<&str>, at_most| {
        let (entries, more) = folder.first_entries(after.map(std::ffi::OsStr::new), at_most).unwrap();
        (entries.iter().map(|entry| entry.name.to_str().unwrap().to_owned()).collect::<Vec<_>>(), more)
    };
    assert_eq!(names(None, 3), (vec!["000".into(), "001".into(), "002".into()], true));
    assert_eq!(names(Some("002"), 2), (vec!["003".into(), "004".into()], true));
    assert_eq!(names(Some("497"), 2), (vec!["498".into(), "499".into()], false));
    assert_eq!(names(Some("499"), 2), (vec![], false));
}

#[test]
fn a_walk_stops_going_down_at_its_depth() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.inside("").join("d/".repeat(roots::DEEPEST + 20))).unwrap();
    let (paths, walked) = walk(&fixture, None, usize::MAX);
    assert_eq!((paths.len(), walked.too_deep), (roots::DEEPEST, 1));
}

#[test]
fn a_folder_that_goes_while_it_is_walked_into_is_no_failure() {
    struct Vanish(Collect);
    impl Visit for Vanish {
        fn enter(&mut self, folder: &Folder, _relative: &Path) -> Result<()> {
            if folder.real().ends_with("going") {
                fs::remove_dir(folder.real()).unwrap();
            }
            Ok(())
        }

        fn wants(&mut self, entry: Entry<'_>, relative: &Path) -> bool {
            self.0.wants(entry, relative)
        }

        fn visit(&mut self, folder: &Folder, entry: Entry<'_>, relative: &Path) -> Result<Step> {
            self.0.visit(folder, entry, relative)
        }
    }
    let fixture = Fixture::new();
    fs::create_dir(fixture.inside("going")).unwrap();
    fs::write(fixture.inside("z"), "").unwrap();
    let folder = fixture.roots().open_folder(&fixture.inside("")).unwrap();
    let mut collect = Vanish(Collect { paths: Vec::new(), limit: usize::MAX });
    let walked = Walk { recursive: true, after: None }.over(&folder, &mut collect).unwrap();
    assert_eq!(collect.0.paths, ["going", "z"].map(PathBuf::from));
    assert_eq!(walked, WalkSummary::default());
}
