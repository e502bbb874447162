//! Writes that an approval covers in advance: those that the question named, provided that the
//! answer is bound to everything that would be written there.

use std::path::{Path, PathBuf};

use policy::NamedWrites;

/// Files that a command was approved to write, by their real paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ForeseenWrites {
    run_later: Vec<PathBuf>,
    unlisted: Vec<PathBuf>,
}

impl ForeseenWrites {
    /// Covers the named files. If the answer is not bound to everything that may be written, the
    /// result is empty.
    pub(super) fn of(named: &NamedWrites) -> Self {
        let is_folder = |path: &PathBuf| path.is_dir() || path.is_symlink() && !path.is_file();
        if named.unbound || named.sources.iter().any(is_folder) {
            return Self::default();
        }
        let places = |paths: &[PathBuf]| paths.iter().flat_map(|path| places(path)).collect();
        Self { run_later: places(&named.run_later), unlisted: places(&named.unlisted) }
    }

    /// Returns true if the question named this file as one that a later program runs.
    pub(crate) fn has_run_later(&self, path: &Path, is_folder: bool) -> bool {
        covers(&self.run_later, path, is_folder)
    }

    /// Returns true if the question named this path as one that is on no list.
    pub(crate) fn has_unlisted(&self, path: &Path, is_folder: bool) -> bool {
        covers(&self.unlisted, path, is_folder)
    }
}

/// Returns true if the path is a named file, or a folder above one: making that folder is part of
/// writing the file. Other entries of a named folder are not covered.
fn covers(named: &[PathBuf], path: &Path, is_folder: bool) -> bool {
    named.iter().any(|named| named == path || is_folder && named.starts_with(path))
}

/// Returns the path as spelled and the paths that it resolves to now.
fn places(path: &Path) -> Vec<PathBuf> {
    let mut places = vec![path.to_owned()];
    let above = path.parent().and_then(|parent| parent.canonicalize().ok());
    places.extend(above.zip(path.file_name()).map(|(above, name)| above.join(name)));
    places.extend(path.canonicalize().ok());
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_covered_with_the_folders_made_for_it_and_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::write(root.join("plain"), "x").unwrap();
        std::fs::create_dir(root.join("tree")).unwrap();
        let named = NamedWrites {
            run_later: vec![root.join(".git/hooks/pre-commit")],
            sources: vec![root.join("plain"), root.join("missing")],
            ..NamedWrites::default()
        };
        let foreseen = ForeseenWrites::of(&named);
        for (path, is_folder, covered) in [
            (".git/hooks/pre-commit", false, true),
            (".git/hooks", true, true),
            (".git/hooks", false, false),
            (".git/hooks/pre-push", false, false),
            (".git/hooks/pre-commit/x", false, false),
        ] {
            assert_eq!(foreseen.has_run_later(&root.join(path), is_folder), covered, "{path}");
            assert!(!foreseen.has_unlisted(&root.join(path), is_folder), "{path}");
        }
        let tree = NamedWrites { sources: vec![root.join("tree")], ..named.clone() };
        assert_eq!(
            ForeseenWrites::of(&tree),
            ForeseenWrites::default(),
            "the content of a folder is not bound"
        );
        assert_eq!(ForeseenWrites::of(&NamedWrites { unbound: true, ..named }), ForeseenWrites::default());
    }

    #[test]
    fn a_name_that_leads_elsewhere_covers_where_it_leads() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("env")).unwrap();
        std::fs::write(root.join("env/dev.sh"), "x").unwrap();
        std::os::unix::fs::symlink("env/dev.sh", root.join(".envrc")).unwrap();
        std::os::unix::fs::symlink("env", root.join("other")).unwrap();
        for named in [".envrc", "other/dev.sh"] {
            let named = NamedWrites { run_later: vec![root.join(named)], ..NamedWrites::default() };
            assert!(ForeseenWrites::of(&named).has_run_later(&root.join("env/dev.sh"), false), "{named:?}");
        }
    }
}
