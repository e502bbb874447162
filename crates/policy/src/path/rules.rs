use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::list::{Kind, PathList, Spot};
use crate::Rule;

/// What the lists say to one path. The order of the variants is that of strictness, loosest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathVerdict<'a> {
    /// A deny list, or a protected path, forbids it.
    Denied(&'a Rule),
    /// It is not on the profile's list for this access.
    Outside,
    /// It lies in the workspace, and the profile names no list.
    Workspace,
    /// The profile lists it by name.
    Listed(&'a Rule),
}

impl<'a> PathVerdict<'a> {
    /// The stricter of two.
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

/// A folder that file tools reach and that the cell shows, with the rights it has there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootRight {
    /// The folder or file.
    pub path: PathBuf,
    /// Whether it may be read.
    pub read: bool,
    /// Whether it may be written.
    pub write: bool,
    /// Whether the rules list all below it; where a wildcard follows, they list a part of it, and showing the whole folder in a
    /// cell would show more than was listed.
    pub whole: bool,
}

/// The rules for one kind of access.
#[derive(Debug, Clone)]
pub(crate) struct PathRules {
    /// One list per file, each judged by itself, so that no file can take back what another one denies.
    pub(crate) denied: Vec<PathList>,
    pub(crate) allowed: AllowedPaths,
    /// What has to be allowed by these too.
    pub(crate) also_allowed: Vec<AllowedPaths>,
}

/// What a profile allows: its own list and those of its parents.
#[derive(Debug, Clone, Default)]
pub(crate) struct AllowedPaths {
    /// No list was named somewhere along the parents, which stands for the workspace.
    pub(crate) workspace: bool,
    pub(crate) lists: Vec<PathList>,
}

impl AllowedPaths {
    fn verdict(&self, spot: &Spot<'_>, kind: Kind) -> PathVerdict<'_> {
        if let Some(rule) = self.lists.iter().find_map(|list| list.holds(spot, kind)) {
            return PathVerdict::Listed(rule);
        }
        if self.workspace && spot.relative.is_some() { PathVerdict::Workspace } else { PathVerdict::Outside }
    }
}

impl AllowedPaths {
    fn allows(&self, spot: &Spot<'_>, kind: Kind) -> bool {
        self.verdict(spot, kind) != PathVerdict::Outside
    }

    /// Whether something in a folder that is not allowed as a whole could be.
    fn may_allow_below(&self, folder: &Spot<'_>) -> bool {
        self.lists.iter().any(|list| list.may_hold_below(folder))
    }
}

impl PathRules {
    /// Whether the lists that allow name the path; what denies it does not count.
    pub(crate) fn lists(&self, spot: &Spot<'_>, kind: Kind) -> bool {
        self.all_allowed().all(|allowed| allowed.allows(spot, kind))
    }

    /// Whether they could name something in a folder that they do not name as a whole.
    pub(crate) fn may_list_below(&self, folder: &Spot<'_>) -> bool {
        self.all_allowed()
            .all(|allowed| allowed.allows(folder, Kind::Folder) || allowed.may_allow_below(folder))
    }

    /// Whether they name all that lies in a folder that they name.
    pub(crate) fn lists_all_below(&self) -> bool {
        !self.all_allowed().any(|allowed| allowed.lists.iter().any(PathList::is_taken_back))
    }

    fn all_allowed(&self) -> impl Iterator<Item = &AllowedPaths> {
        std::iter::once(&self.allowed).chain(&self.also_allowed)
    }

    /// What the lists say to the path.
    pub(crate) fn verdict(&self, spot: &Spot<'_>, kind: Kind) -> PathVerdict<'_> {
        if let Some(rule) = self.denied_by(spot, kind) {
            return PathVerdict::Denied(rule);
        }
        let own = self.allowed.verdict(spot, kind);
        let others = self.also_allowed.iter().map(|allowed| allowed.verdict(spot, kind));
        others.fold(own, PathVerdict::stricter)
    }

    /// What others deny is denied, and what others do not allow is not allowed.
    pub(crate) fn narrow(&mut self, other: &PathRules) {
        self.denied.extend(other.denied.iter().cloned());
        self.also_allowed.extend(std::iter::once(&other.allowed).chain(&other.also_allowed).cloned());
    }

    /// The rule that denies the path.
    pub(crate) fn denied_by(&self, spot: &Spot<'_>, kind: Kind) -> Option<&Rule> {
        self.denied.iter().find_map(|list| list.holds(spot, kind))
    }

    /// The rule that denies a path and all below it, whatever is there.
    pub(crate) fn certainly_denied(&self, path: &Path, workspace: &Path, kind: Kind) -> Option<&Rule> {
        let spot = Spot::of(path, workspace);
        let mut lists = self.denied.iter().filter(|list| !list.takes_back());
        lists.find_map(|list| list.holds(&spot, kind))
    }

    /// The rule that denies with exactly this pattern.
    pub(crate) fn denied_as_written(&self, entry: &str) -> Option<&Rule> {
        self.denied.iter().filter(|list| !list.takes_back()).find_map(|list| list.written_as(entry))
    }

    /// A rule that denies something named below the folder.
    pub(crate) fn denied_below(&self, folder: &Path) -> Option<&Rule> {
        self.denied.iter().find_map(|list| list.names_below(folder))
    }

    /// A rule that could deny something that a shell's glob stands for.
    pub(crate) fn could_deny(&self, glob: &Spot<'_>) -> Option<&Rule> {
        self.denied.iter().find_map(|list| list.could_hold(glob))
    }
}

/// Which names in one folder may be read: [`PathVerdict`] for a listing, which asks about many.
#[derive(Debug)]
pub struct Names<'a> {
    rules: &'a PathRules,
    workspace: &'a Path,
    folder: &'a Path,
    /// No name may be read, whatever the lists say.
    none: bool,
    /// Each deny list with its last entry that matches the folder or one above, where nothing else has to be looked at.
    quick: Option<Vec<(&'a PathList, Option<usize>)>>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(rules: &'a PathRules, workspace: &'a Path, folder: &'a Path, none: bool) -> Self {
        let spot = Spot::of(folder, workspace);
        let mut allowed = std::iter::once(&rules.allowed).chain(&rules.also_allowed);
        let everything_else_is_allowed = allowed.all(|allowed| allowed.workspace) && spot.relative.is_some();
        let quick = everything_else_is_allowed
            .then(|| rules.denied.iter().map(|list| (list, list.last_of_folder(&spot))).collect());
        Self { rules, workspace, folder, none, quick }
    }

    /// Whether what has this name may be read without asking.
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

    /// The same by the whole path.
    fn is_allowed_there(&self, name: &OsStr) -> bool {
        let path = self.folder.join(name);
        let verdict = self.rules.verdict(&Spot::of(&path, self.workspace), Kind::Unknown);
        !matches!(verdict, PathVerdict::Denied(_) | PathVerdict::Outside)
    }
}

/// The paths that are denied for one kind of access, for whoever masks them in a cell or skips them in a listing.
#[derive(Debug, Clone, Copy)]
pub struct Denied<'a> {
    pub(crate) rules: &'a PathRules,
    pub(crate) workspace: &'a Path,
}

impl<'a> Denied<'a> {
    /// Whether the absolute path, or a folder above it, is denied.
    pub fn is_denied(&self, path: &Path, is_folder: bool) -> bool {
        self.rule_for(path, is_folder).is_some()
    }

    /// The rule that denies it.
    pub fn rule_for(&self, path: &Path, is_folder: bool) -> Option<&'a Rule> {
        self.rule_at(&Spot::of(path, self.workspace), is_folder)
    }

    /// The same for a path that several questions are asked about.
    pub fn rule_at(&self, spot: &Spot<'_>, is_folder: bool) -> Option<&'a Rule> {
        self.rules.denied_by(spot, if is_folder { Kind::Folder } else { Kind::File })
    }

    /// Whether there is nothing to look for at all.
    pub fn is_empty(&self) -> bool {
        self.rules.denied.is_empty()
    }
}

/// The workspace and every listed path outside it, each once, with its rights joined.
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

/// The roots that are in both, each with the rights that it has in both.
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

    /// A policy of one profile, given as JSON.
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
