//! Path rules of a policy, and the roots that they make.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::list::{Kind, LocatedPath, PathList};
use crate::Rule;

/// Verdict of the lists on one path. The variants are ordered by strictness, loosest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathVerdict<'a> {
    /// A deny list, or a protected path, forbids the path.
    Denied(&'a Rule),
    /// The path is not on the profile's list for this access.
    Outside,
    /// The path lies in the workspace, and the profile names no list.
    Workspace,
    /// The profile lists the path.
    Listed(&'a Rule),
}

impl<'a> PathVerdict<'a> {
    /// Returns the stricter of two verdicts.
    #[must_use]
    pub fn stricter(self, other: PathVerdict<'a>) -> PathVerdict<'a> {
        let strictness = |verdict: &PathVerdict<'_>| match verdict {
            PathVerdict::Denied(_) => 3,
            PathVerdict::Outside => 2,
            PathVerdict::Workspace => 1,
            PathVerdict::Listed(_) => 0,
        };
        if strictness(&self) >= strictness(&other) { self } else { other }
    }
}

/// A folder that file tools reach and that the cell shows, with the rights in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootRight {
    /// Path of the folder or file.
    pub path: PathBuf,
    /// True if it may be read.
    pub read: bool,
    /// True if it may be written.
    pub write: bool,
    /// True if the rules list everything below it. If a wildcard follows, they list a part, and a
    /// cell that shows the whole folder would show more than was listed.
    pub whole: bool,
}

/// Rules for one kind of access.
#[derive(Debug, Clone)]
pub(crate) struct PathRules {
    /// One list per file, each judged separately, so that no file can take back what another one denies.
    pub(crate) denied: Vec<PathList>,
    pub(crate) allowed: AllowedPaths,
    /// Further allow lists that must also allow the path.
    pub(crate) also_allowed: Vec<AllowedPaths>,
}

/// Allow lists of a profile: its own and those of its parents.
#[derive(Debug, Clone, Default)]
pub(crate) struct AllowedPaths {
    /// True if the last profile of the lineage names no list, which stands for the workspace.
    pub(crate) workspace: bool,
    pub(crate) lists: Vec<PathList>,
}

impl AllowedPaths {
    fn verdict(&self, spot: &LocatedPath<'_>, kind: Kind) -> PathVerdict<'_> {
        if let Some(rule) = self.lists.iter().find_map(|list| list.holds(spot, kind)) {
            return PathVerdict::Listed(rule);
        }
        if self.workspace && spot.relative.is_some() { PathVerdict::Workspace } else { PathVerdict::Outside }
    }
}

impl AllowedPaths {
    fn allows(&self, spot: &LocatedPath<'_>, kind: Kind) -> bool {
        self.verdict(spot, kind) != PathVerdict::Outside
    }

    /// Returns true if some path in a folder that is not allowed as a whole could be allowed.
    fn may_allow_below(&self, folder: &LocatedPath<'_>) -> bool {
        self.lists.iter().any(|list| list.may_hold_below(folder))
    }
}

impl PathRules {
    /// Returns true if the allow lists name the path. Deny lists do not count.
    pub(crate) fn lists(&self, spot: &LocatedPath<'_>, kind: Kind) -> bool {
        self.all_allowed().all(|allowed| allowed.allows(spot, kind))
    }

    /// Returns true if the allow lists name the folder, or could name a path in it.
    pub(crate) fn may_list_below(&self, folder: &LocatedPath<'_>) -> bool {
        self.all_allowed()
            .all(|allowed| allowed.allows(folder, Kind::Folder) || allowed.may_allow_below(folder))
    }

    /// Returns true if the allow lists name everything in each folder that they name.
    pub(crate) fn lists_all_below(&self) -> bool {
        !self.all_allowed().any(|allowed| allowed.lists.iter().any(PathList::is_taken_back))
    }

    fn all_allowed(&self) -> impl Iterator<Item = &AllowedPaths> {
        std::iter::once(&self.allowed).chain(&self.also_allowed)
    }

    /// Returns the verdict of the lists on the path.
    pub(crate) fn verdict(&self, spot: &LocatedPath<'_>, kind: Kind) -> PathVerdict<'_> {
        if let Some(rule) = self.denied_by(spot, kind) {
            return PathVerdict::Denied(rule);
        }
        let own = self.allowed.verdict(spot, kind);
        let others = self.also_allowed.iter().map(|allowed| allowed.verdict(spot, kind));
        others.fold(own, PathVerdict::stricter)
    }

    /// Adds the rules of another policy: its denials deny, and its allow lists must allow too.
    pub(crate) fn narrow(&mut self, other: &PathRules) {
        self.denied.extend(other.denied.iter().cloned());
        self.also_allowed.extend(std::iter::once(&other.allowed).chain(&other.also_allowed).cloned());
    }

    /// Returns the rule that denies the path.
    pub(crate) fn denied_by(&self, spot: &LocatedPath<'_>, kind: Kind) -> Option<&Rule> {
        self.denied.iter().find_map(|list| list.holds(spot, kind))
    }

    /// Returns the rule that denies a path and everything below it, whatever is there.
    pub(crate) fn certainly_denied(&self, path: &Path, workspace: &Path, kind: Kind) -> Option<&Rule> {
        let spot = LocatedPath::of(path, workspace);
        let mut lists = self.denied.iter().filter(|list| !list.takes_back());
        lists.find_map(|list| list.holds(&spot, kind))
    }

    /// Returns the rule that denies with exactly this pattern.
    pub(crate) fn denied_as_written(&self, entry: &str) -> Option<&Rule> {
        self.denied.iter().filter(|list| !list.takes_back()).find_map(|list| list.written_as(entry))
    }

    /// Returns a rule that denies a path which it names below the folder.
    pub(crate) fn denied_below(&self, folder: &Path) -> Option<&Rule> {
        self.denied.iter().find_map(|list| list.names_below(folder))
    }

    /// Returns a rule that could deny a path that a shell's glob stands for.
    pub(crate) fn could_deny(&self, glob: &LocatedPath<'_>) -> Option<&Rule> {
        self.denied.iter().find_map(|list| list.could_hold(glob))
    }
}

/// The readable names in one folder: [`PathVerdict`] for a listing, which asks about many names.
#[derive(Debug)]
pub struct Names<'a> {
    rules: &'a PathRules,
    workspace: &'a Path,
    folder: &'a Path,
    /// True if no name may be read, whatever the lists say.
    none: bool,
    /// Each deny list with its last entry that matches the folder or one above, if no other check
    /// is needed.
    quick: Option<Vec<(&'a PathList, Option<usize>)>>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(rules: &'a PathRules, workspace: &'a Path, folder: &'a Path, none: bool) -> Self {
        let spot = LocatedPath::of(folder, workspace);
        let mut allowed = std::iter::once(&rules.allowed).chain(&rules.also_allowed);
        let everything_else_is_allowed = allowed.all(|allowed| allowed.workspace) && spot.relative.is_some();
        let quick = everything_else_is_allowed
            .then(|| rules.denied.iter().map(|list| (list, list.last_of_folder(&spot))).collect());
        Self { rules, workspace, folder, none, quick }
    }

    /// Returns true if the entry with this name may be read without a question.
    pub fn is_allowed(&self, name: &OsStr) -> bool {
        if self.none {
            return false;
        }
        let Some(lists) = &self.quick else { return self.is_allowed_there(name) };
        for (list, above) in lists {
            let is_denied = if list.is_about_names() {
                list.holds_name(*above, name).is_some()
            } else if list.may_match(name) {
                return self.is_allowed_there(name);
            } else {
                list.denies(*above)
            };
            if is_denied {
                return false;
            }
        }
        true
    }

    /// Decides by the whole path.
    fn is_allowed_there(&self, name: &OsStr) -> bool {
        let path = self.folder.join(name);
        let verdict = self.rules.verdict(&LocatedPath::of(&path, self.workspace), Kind::Unknown);
        !matches!(verdict, PathVerdict::Denied(_) | PathVerdict::Outside)
    }
}

/// The paths that are denied for one kind of access, for code that masks them in a cell or skips
/// them in a listing.
#[derive(Debug, Clone, Copy)]
pub struct DeniedPaths<'a> {
    pub(crate) rules: &'a PathRules,
    pub(crate) workspace: &'a Path,
}

impl<'a> DeniedPaths<'a> {
    /// Returns true if the absolute path, or a folder above it, is denied.
    pub fn is_denied(&self, path: &Path, is_folder: bool) -> bool {
        self.rule_for(path, is_folder).is_some()
    }

    /// Returns the rule that denies the path.
    pub fn rule_for(&self, path: &Path, is_folder: bool) -> Option<&'a Rule> {
        self.rule_at(&LocatedPath::of(path, self.workspace), is_folder)
    }

    /// Returns the rule that denies a path about which several questions are asked.
    pub fn rule_at(&self, spot: &LocatedPath<'_>, is_folder: bool) -> Option<&'a Rule> {
        self.rules.denied_by(spot, if is_folder { Kind::Folder } else { Kind::File })
    }

    /// Returns true if there is no list at all.
    pub fn is_empty(&self) -> bool {
        self.rules.denied.is_empty()
    }

    /// Returns the paths outside the workspace that the lists name without a wildcard.
    pub fn literal_outside(&self) -> impl Iterator<Item = PathBuf> + 'a {
        let workspace = self.workspace;
        let lists = self.rules.denied.iter();
        let named = lists.flat_map(move |list| list.outer_folders(workspace));
        named.filter_map(|(path, is_literal)| is_literal.then_some(path))
    }
}

/// Returns the workspace and every listed path outside it, each once, with its rights joined.
pub(crate) fn roots(workspace: &Path, reads: &PathRules, writes: &PathRules) -> Vec<RootRight> {
    let mut roots = vec![RootRight { path: workspace.to_owned(), read: true, write: true, whole: true }];
    for (rules, read) in [(reads, true), (writes, false)] {
        for (path, whole) in rules.allowed.lists.iter().flat_map(|list| list.outer_folders(workspace)) {
            match roots.iter_mut().find(|root| root.path == path && root.whole == whole) {
                Some(root) if read => root.read = true,
                Some(root) => root.write = true,
                None => roots.push(RootRight { path, read, write: !read, whole }),
            }
        }
    }
    roots
}

/// Returns the roots that are in both, each with the rights that it has in both.
pub(crate) fn meet_roots(one: &[RootRight], two: &[RootRight]) -> Vec<RootRight> {
    let mut met: Vec<RootRight> = Vec::new();
    for one in one {
        for two in two {
            let inner = if one.path.starts_with(&two.path) {
                one
            } else if two.path.starts_with(&one.path) {
                two
            } else {
                continue;
            };
            let (read, write, whole) = (one.read && two.read, one.write && two.write, one.whole && two.whole);
            match met.iter_mut().find(|root| root.path == inner.path && root.whole == whole) {
                Some(root) => {
                    root.read |= read;
                    root.write |= write;
                }
                None => met.push(RootRight { path: inner.path.clone(), read, write, whole }),
            }
        }
    }
    met
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialect, Policy, Profiles, Setup, Source, Trust};

    /// Compiles a policy of one profile, given as JSON.
    fn policy(profile: &str) -> Policy {
        let profiles: Profiles = serde_json::from_str(&format!(r#"{{"normal": {profile}}}"#)).unwrap();
        let origin = crate::Origin::User(Path::new("/home/ann/config.yaml").into());
        Policy::compile(&Setup {
            sources: &[Source::new(origin, Trust::Trusted, profiles)],
            profile: "normal",
            mode: None,
            dialect: Dialect::default(),
            workspace: Path::new("/w"),
            home: Some(Path::new("/home/ann")),
            protected: &[],
            closed: &[],
            programs: crate::Programs::Presumed,
            tools: &[],
        })
        .unwrap()
    }

    #[test]
    fn names_and_paths_get_the_same_answer() {
        let profiles = [
            "{}",
            r#"{"deny_read_paths": ["secret", "!keep", "*.key"]}"#,
            r#"{"deny_read_paths": ["a/secret", "*.key"]}"#,
            r#"{"deny_read_paths": ["hidden/", "!x.key"]}"#,
            r#"{"allowed_read_paths": ["a"], "deny_read_paths": []}"#,
            r#"{"allowed_read_paths": ["a", "!a/x.key", "/other"]}"#,
        ];
        let folders = ["/w", "/w/a", "/w/secret", "/w/secret/keep", "/w/hidden/b", "/other/c", "/elsewhere"];
        let names = ["x.key", "secret", "keep", ".env", ".env.example", "plain.txt", "hidden", "a"];
        let mut quick = 0;
        for policy in profiles.map(policy) {
            for folder in folders.map(Path::new) {
                let rules = policy.readable_names(folder);
                quick += u32::from(rules.quick.is_some());
                for name in names.map(OsStr::new) {
                    let verdict = policy.path_verdict(tool::Access::Read, &folder.join(name));
                    let allowed = !matches!(verdict, PathVerdict::Denied(_) | PathVerdict::Outside);
                    assert_eq!(rules.is_allowed(name), allowed, "{policy:?} {folder:?} {name:?}");
                }
            }
        }
        assert_eq!(
            quick,
            4 * 5,
            "the quick way was taken for the folders of the workspace, where all of it is allowed"
        );
    }
}
