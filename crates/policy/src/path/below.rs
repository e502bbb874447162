use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::list::{Kind, PathList, Spot};
use super::rules::Denied;

/// What the deny lists found about a folder: for each, its last entry that matches the folder or one above it.
///
/// A walk hands it down, so that no entry is matched against the names of all the folders above it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Above(Arc<[Option<usize>]>);

impl Denied<'_> {
    /// What is known about a folder, absolute, at which a walk begins.
    pub fn above(&self, folder: &Path) -> Above {
        let spot = Spot::of(folder, self.workspace);
        let last = |list: &PathList| list.last_of_folder(&spot);
        Above(self.rules.denied.iter().map(last).collect())
    }

    /// Whether a rule could match something by its name alone. If not, it is denied exactly where its folder is.
    pub fn may_match(&self, name: &OsStr) -> bool {
        self.rules.denied.iter().any(|list| list.may_match(name.as_bytes()))
    }

    /// What is known about an entry of a folder, given what is known about the folder. The path is absolute.
    pub fn below(&self, above: &Above, path: &Path, is_folder: bool) -> Above {
        if path == self.workspace {
            // From here on patterns are asked with the path relative to the workspace.
            return self.above(path);
        }
        let spot = Spot::of(path, self.workspace);
        let kind = if is_folder { Kind::Folder } else { Kind::File };
        let lists = self.rules.denied.iter().zip(above.0.iter());
        Above(lists.map(|(list, last)| (*last).max(list.last_of_itself(&spot, kind))).collect())
    }

    /// Whether what this is known about is denied.
    pub fn is_denied_by(&self, known: &Above) -> bool {
        self.rules.denied.iter().zip(known.0.iter()).any(|(list, last)| list.denies(*last))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::{Dialect, Policy, Profiles, Setup, Source, Trust};

    use super::*;

    fn policy(patterns: &[&str]) -> Policy {
        let text = serde_json::json!({"normal": {"deny_read_paths": patterns}}).to_string();
        let profiles: Profiles = serde_json::from_str(&text).unwrap();
        let origin = crate::Origin::User(Path::new("/home/ann/config.yaml").into());
        Policy::compile(&Setup {
            sources: &[Source { origin, trust: Trust::Trusted, profiles }],
            profile: "normal",
            mode: None,
            dialect: Dialect::default(),
            workspace: Path::new("/o/w"),
            home: Some(Path::new("/home/ann")),
            protected: &[],
            programs: crate::Programs::Presumed,
        })
        .unwrap()
    }

    /// Every path of some names, four deep.
    fn paths(folder: &Path, depth: usize, visit: &mut dyn FnMut(&Path)) {
        for name in ["a", "w", "secret", "keep", "x.key", ".env", "é.key"] {
            let path = folder.join(name);
            visit(&path);
            if depth > 1 {
                paths(&path, depth - 1, visit);
            }
        }
    }

    #[test]
    fn what_is_handed_down_says_the_same_as_the_whole_path() {
        let lists: &[&[&str]] = &[
            &["secret", "!keep", "*.key"],
            &["secret/", "!secret/keep", "a/**"],
            &["./a/secret", "**/keep/*.key", "!/o/w/a/keep/x.key"],
            &[".", "!a"],
            &["/o/secret", "/o/w/a", "!*.key", "[x]*.key"],
            &["*", "!.env", "!a"],
            &["{a,w}/*.k?y", "\\.env", "**"],
        ];
        for list in lists {
            let policy = policy(list);
            let denied = policy.denied_reads();
            for root in ["/o", "/o/w", "/o/w/a", "/o/secret", "/elsewhere/secret"].map(Path::new) {
                let mut known: Vec<(PathBuf, Above)> = vec![(root.to_owned(), denied.above(root))];
                paths(root, 4, &mut |path| {
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
}
