//! A folder, and rules by name. Entries called `.env` or `secret` are hidden, and those called
//! `fixed` are frozen. Entries of `hooks` are guarded unless they are called `plain`, and each
//! `sign` is noted.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use watch::{Kind, MarkedPaths, Marks, Rules, Watch, WatchMode};

pub(crate) struct ByName;

impl Rules for ByName {
    type FolderMatches = Marks;

    fn top(&self, folder: &Path) -> Marks {
        let names = folder.iter().map(|name| self.below(&Marks::default(), Path::new(name), Kind::Folder));
        names.fold(Marks::default(), |all, marks| Marks {
            hidden: all.hidden || marks.hidden,
            frozen: all.frozen || marks.frozen,
            guarded: all.guarded || marks.guarded,
            noted: false,
        })
    }

    fn may_match(&self, above: &Marks, name: &OsStr) -> bool {
        above.guarded || [".env", "secret", "fixed", "hooks", "sign"].iter().any(|other| name == *other)
    }

    fn below(&self, above: &Marks, path: &Path, kind: Kind) -> Marks {
        let name = path.file_name().unwrap_or_default();
        let guarded = name == "hooks" && kind == Kind::Folder || above.guarded && name != "plain";
        Marks {
            guarded,
            noted: guarded || name == "sign",
            hidden: above.hidden || name == ".env" || name == "secret",
            frozen: above.frozen || name == "fixed",
        }
    }

    fn marks(&self, known: &Marks) -> Marks {
        *known
    }

    fn hide_sockets(&self) -> bool {
        true
    }
}

pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new(files: &[&str]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for file in files {
            folder.write(file);
        }
        folder
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    pub(crate) fn at(&self, relative: &str) -> PathBuf {
        self.path().join(relative)
    }

    pub(crate) fn write(&self, relative: &str) {
        let path = self.at(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, relative).unwrap();
    }

    pub(crate) fn watch(&self) -> Watch<ByName> {
        Watch::new(vec![self.path()], ByName, WatchMode::Fresh)
    }

    /// Returns the marked paths that a new walk finds.
    pub(crate) fn walked(&self) -> MarkedPaths {
        Watch::new(vec![self.path()], ByName, WatchMode::Once).sync().unwrap()
    }

    /// Returns the hidden and the frozen paths, relative to the folder.
    pub(crate) fn relative(&self, marked: &MarkedPaths) -> (Vec<String>, Vec<String>) {
        let below = |paths: &[PathBuf]| {
            let path = |path: &PathBuf| path.strip_prefix(self.path()).unwrap().to_str().unwrap().to_owned();
            paths.iter().map(path).collect()
        };
        (below(&marked.hidden), below(&marked.frozen))
    }

    #[track_caller]
    pub(crate) fn expect(&self, watch: &mut Watch<ByName>, hidden: &[&str], frozen: &[&str]) {
        let marked = watch.sync().unwrap();
        let own = |paths: &[&str]| paths.iter().map(|&path| path.to_owned()).collect::<Vec<_>>();
        assert_eq!(self.relative(&marked), (own(hidden), own(frozen)));
    }
}
