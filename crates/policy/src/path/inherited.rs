//! Incremental decisions for walks through folders.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use super::list::{Kind, LocatedPath, PathList};
use super::rules::DeniedPaths;

/// Result of the deny lists for a folder: for each list, its last entry that matches the folder or
/// one above it.
///
/// A walk passes it down, so that no entry is matched again with the names of all the folders above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderMatches(Arc<[Option<usize>]>);

impl DeniedPaths<'_> {
    /// Returns the result for a folder, absolute, at which a walk begins.
    pub fn above(&self, folder: &Path) -> FolderMatches {
        let spot = LocatedPath::of(folder, self.workspace);
        let last = |list: &PathList| list.last_of_folder(&spot);
        FolderMatches(self.rules.denied.iter().map(last).collect())
    }

    /// Returns true if a rule could match an entry by its name alone. Otherwise the entry is denied
    /// exactly if its folder is.
    pub fn may_match(&self, name: &OsStr) -> bool {
        self.rules.denied.iter().any(|list| list.may_match(name))
    }

    /// Returns the result for an entry of a folder, given the result for the folder. The path is absolute.
    pub fn below(&self, above: &FolderMatches, path: &Path, is_folder: bool) -> FolderMatches {
        if path == self.workspace {
            // Patterns are matched with the path relative to the workspace from here on.
            return self.above(path);
        }
        let spot = LocatedPath::of(path, self.workspace);
        let kind = if is_folder { Kind::Folder } else { Kind::File };
        let lists = self.rules.denied.iter().zip(above.0.iter());
        FolderMatches(lists.map(|(list, last)| (*last).max(list.last_of_itself(&spot, kind))).collect())
    }

    /// Returns true if the path with this result is denied.
    pub fn is_denied_by(&self, known: &FolderMatches) -> bool {
        self.rules.denied.iter().zip(known.0.iter()).any(|(list, last)| list.denies(*last))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::{Dialect, Policy, Profiles, Setup, Source, Trust};

    use super::*;

    fn policy(patterns: &[&str], deny_ignore_case: bool) -> Policy {
        let profile = serde_json::json!({"deny_read_paths": patterns, "deny_ignore_case": deny_ignore_case});
        let text = serde_json::json!({ "normal": profile }).to_string();
        let profiles: Profiles = serde_json::from_str(&text).unwrap();
        let origin = crate::Origin::User(Path::new("/home/ann/config.yaml").into());
        Policy::compile(&Setup {
            sources: &[Source::new(origin, Trust::Trusted, profiles)],
            profile: "normal",
            mode: None,
            dialect: Dialect::default(),
            workspace: Path::new("/o/w"),
            home: Some(Path::new("/home/ann")),
            protected: &[],
            closed: &[],
            programs: crate::Programs::Presumed,
            tools: &[],
        })
        .unwrap()
    }

    /// Visits all paths of some names, down to this depth.
    fn paths(folder: &Path, depth: usize, visit: &mut dyn FnMut(&Path)) {
        for name in ["a", "W", "secret", "Keep", "x.KEY", ".env", "É.key"] {
            let path = folder.join(name);
            visit(&path);
            if depth > 1 {
                paths(&path, depth - 1, visit);
            }
        }
    }

    const LISTS: &[&[&str]] = &[
        &["secret", "!keep", "*.key", "é*"],
        &["secret/", "!secret/Keep", "A/**"],
        &["./a/secret", "**/keep/*.key", "!/o/w/a/Keep/x.KEY"],
        &[".", "!a"],
        &["/O/secret", "/o/w/A", "!*.key", "[x]*.key"],
        &["*", "!.env", "!a"],
        &["{a,W}/*.k?y", "\\.ENV", "**"],
        &["[!X].key", "SECRET", "!secret", "[A-K]*"],
    ];

    #[test]
    fn what_is_handed_down_says_the_same_as_the_whole_path() {
        for (list, ignore_case) in LISTS.iter().flat_map(|list| [(list, false), (list, true)]) {
            let policy = policy(list, ignore_case);
            let denied = policy.denied_reads();
            for root in ["/o", "/o/w", "/o/w/a", "/o/secret", "/o/W", "/elsewhere/Secret"].map(Path::new) {
                let mut known: Vec<(PathBuf, FolderMatches)> = vec![(root.to_owned(), denied.above(root))];
                paths(root, 3, &mut |path| {
                    while known.last().is_some_and(|(folder, _)| Some(folder.as_path()) != path.parent()) {
                        known.pop();
                    }
                    let above = &known.last().unwrap().1;
                    assert_eq!(
                        denied.is_denied_by(&denied.below(above, path, false)),
                        denied.is_denied(path, false),
                        "{list:?} {path:?} as a file"
                    );
                    let below = denied.below(above, path, true);
                    assert_eq!(
                        denied.is_denied_by(&below),
                        denied.is_denied(path, true),
                        "{list:?} {path:?} as a folder"
                    );
                    if !denied.may_match(path.file_name().unwrap()) && path != Path::new("/o/w") {
                        assert_eq!(&below, above, "{list:?} {path:?} was to match nothing");
                    }
                    known.push((path.to_owned(), below));
                });
            }
        }
    }
    #[test]
    fn ignoring_case_denies_more_and_nothing_less() {
        let (mut both, mut more) = (0, 0);
        for list in LISTS {
            let (exact, wider) = (policy(list, false), policy(list, true));
            for root in ["/o", "/elsewhere"].map(Path::new) {
                paths(root, 3, &mut |path| {
                    for is_folder in [false, true] {
                        let (before, after) = (
                            exact.denied_reads().is_denied(path, is_folder),
                            wider.denied_reads().is_denied(path, is_folder),
                        );
                        assert!(after || !before, "{list:?} lets {path:?} go");
                        both += u32::from(before);
                        more += u32::from(after && !before);
                    }
                });
            }
        }
        assert!(both > 500 && more > 500, "{both} and {more}");
    }
}
