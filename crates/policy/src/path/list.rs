//! Lists of path rules.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::affix_filter::AffixFilter;
use super::fold::{fold, fold_path};
use super::group::{Groups, GroupsBuilder};
use super::overlap::{GlobPath, may_lie_below, may_overlap};
use super::pattern::{Anchor, Pattern};
use crate::{Origin, PolicyError, Rule};

/// Path rules of one list of one file, in their order. The last one that matches a path, or a
/// folder above it, decides.
#[derive(Debug, Clone)]
pub(crate) struct PathList {
    entries: Vec<Entry>,
    exact: Groups,
    /// Positive entries in folded form, matched with folded paths. Their matches count as well.
    folded: Option<Groups>,
    /// Entries that are `.`: the workspace itself.
    whole_workspace: Vec<usize>,
    /// Paths that a positive entry names without wildcards, sorted, with the entry; folded if case
    /// is ignored.
    literal: Vec<(PathBuf, usize)>,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    rule: Rule,
    ends: AffixFilter,
    pub(super) pattern: Pattern,
    /// Folded form of the entry, if case is ignored.
    folded: Option<(AffixFilter, Pattern)>,
}

/// Case sensitivity of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// Names that differ in case differ.
    Counts,
    /// Positive entries match in any case. Negated entries take back only in their own case, so a
    /// deny list only becomes wider.
    Ignored,
}

/// Known kind of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// An entry that is not a folder.
    File,
    /// Unknown: the stricter reading of a deny list counts.
    Unknown,
}

/// Reach of floating patterns: those of deny lists go beyond the workspace, those of allow lists do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatternReach {
    /// Any path, relative or absolute.
    Anywhere,
    /// The workspace only.
    Workspace,
}

impl PathList {
    /// Compiles the entries.
    ///
    /// # Errors
    /// Returns [`PolicyError::Entry`] for a pattern that cannot be read, and [`PolicyError::List`]
    /// for too many large ones.
    pub(crate) fn compile(
        rules: Vec<Rule>,
        reach: PatternReach,
        case: Case,
        workspace: &Path,
        home: Option<&Path>,
    ) -> Result<Self, PolicyError> {
        let mut exact = GroupsBuilder::default();
        let mut folded = (case == Case::Ignored).then(GroupsBuilder::default);
        let mut entries = Vec::with_capacity(rules.len());
        let mut whole_workspace = Vec::new();
        let mut literal = Vec::new();
        let named = rules.first().cloned();
        for (index, rule) in rules.into_iter().enumerate() {
            let problem = |problem: String| PolicyError::of_entry(&rule, problem);
            let pattern = Pattern::parse(&rule.entry, workspace, home).map_err(problem)?;
            let prefix = pattern.literal_prefix(workspace);
            if reach == PatternReach::Workspace
                && !pattern.is_literal()
                && prefix.as_deref() == Some(Path::new("/"))
            {
                return Err(problem(
                    "an allowed pattern outside the workspace must begin with a folder".into(),
                ));
            }
            if pattern.is_whole_workspace() {
                whole_workspace.push(index);
            } else {
                exact.add(&pattern, reach, index).map_err(problem)?;
            }
            if pattern.is_literal() && !pattern.negated {
                literal.extend(prefix.map(|path| match case {
                    Case::Counts => (path, index),
                    Case::Ignored => (fold_path(&path).into_owned(), index),
                }));
            }
            let without_case = match &mut folded {
                Some(folded) if !pattern.negated && !pattern.is_whole_workspace() => {
                    let pattern = pattern.folded();
                    folded.add(&pattern, reach, index).map_err(problem)?;
                    Some((AffixFilter::of(&pattern), pattern))
                }
                _ => None,
            };
            entries.push(Entry { rule, ends: AffixFilter::of(&pattern), pattern, folded: without_case });
        }
        literal.sort();
        let build = |groups: GroupsBuilder| {
            groups.build().map_err(|source| PolicyError::List {
                profile: named.as_ref().map(|rule| rule.profile.to_string()).unwrap_or_default(),
                key: named.as_ref().map_or("", |rule| rule.key),
                source,
            })
        };
        let (exact, folded) = (build(exact)?, folded.map(build).transpose()?);
        Ok(Self { entries, exact, folded, whole_workspace, literal })
    }

    /// Returns the rule that applies to the path, unless there is none or the last one takes it back.
    pub(crate) fn holds(&self, path: &LocatedPath<'_>, kind: Kind) -> Option<&Rule> {
        let entry = self.entries.get(self.last_match(path, kind)?)?;
        (!entry.pattern.negated).then_some(&entry.rule)
    }

    /// Returns the last entry that matches the path or a folder above it.
    fn last_match(&self, path: &LocatedPath<'_>, kind: Kind) -> Option<usize> {
        let mut last = path.relative.and_then(|_| self.whole_workspace.last().copied());
        self.each_case(path, |groups, path| groups.last_match(path, kind, &self.entries, &mut last));
        last
    }

    /// Returns the last entry that matches the folder or one above it.
    pub(super) fn last_of_folder(&self, folder: &LocatedPath<'_>) -> Option<usize> {
        self.last_match(folder, Kind::Folder)
    }

    /// Returns the last entry that matches the path itself, regardless of the folders above it.
    pub(super) fn last_of_itself(&self, path: &LocatedPath<'_>, kind: Kind) -> Option<usize> {
        let mut last = None;
        self.each_case(path, |groups, path| groups.match_one(path, kind, &self.entries, &mut last));
        last
    }

    /// Calls `ask` with the path, and if case is ignored also with the folded path.
    fn each_case(&self, path: &LocatedPath<'_>, mut ask: impl FnMut(&Groups, &LocatedPath<'_>)) {
        ask(&self.exact, path);
        if let Some(folded) = &self.folded {
            let relative = path.relative.map(fold_path);
            let absolute = fold_path(path.absolute);
            ask(folded, &LocatedPath { absolute: &absolute, relative: relative.as_deref() });
        }
    }

    /// Returns true if a path whose last matching entry is this one is denied.
    pub(super) fn denies(&self, last: Option<usize>) -> bool {
        last.and_then(|index| self.entries.get(index)).is_some_and(|entry| !entry.pattern.negated)
    }

    /// Returns true if an entry could match some path by its name alone.
    pub(super) fn may_match(&self, name: &OsStr) -> bool {
        let bytes = name.as_bytes();
        if self.entries.iter().any(|entry| entry.ends.may_match(bytes)) {
            return true;
        }
        if self.folded.is_none() {
            return false;
        }
        let folded = fold(name);
        let mut without_case = self.entries.iter().filter_map(|entry| entry.folded.as_ref());
        without_case.any(|(ends, _)| ends.may_match(folded.as_bytes()))
    }

    /// Returns true if every pattern is about names alone, at any depth, so that only the last
    /// component of a path counts.
    pub(crate) fn is_about_names(&self) -> bool {
        self.entries
            .iter()
            .all(|entry| entry.pattern.anchor == Anchor::Floating && entry.pattern.components.len() == 1)
    }

    /// Applies [`PathList::holds`] to a name in a folder, in a list that is about names.
    /// `last_above` is the last entry that matches the folder or one above it.
    pub(crate) fn holds_name(&self, last_above: Option<usize>, name: &OsStr) -> Option<&Rule> {
        let mut last = last_above;
        if self.may_match(name) {
            let name = Path::new(name);
            last = last.max(
                self.last_of_itself(&LocatedPath { absolute: name, relative: Some(name) }, Kind::Unknown),
            );
        }
        let entry = self.entries.get(last?)?;
        (!entry.pattern.negated).then_some(&entry.rule)
    }

    /// Returns the entries in their order, and whether case is ignored, as text.
    pub(crate) fn as_text(&self) -> String {
        let entries: Vec<&str> = self.entries.iter().map(|entry| &*entry.rule.entry).collect();
        format!("{entries:?} {}", self.folded.is_some())
    }

    /// Returns true if an entry of a file takes back matches of another one.
    pub(super) fn takes_back(&self) -> bool {
        let written = |entry: &&Entry| entry.rule.origin != Origin::BuiltIn;
        self.entries.iter().filter(written).any(|entry| entry.pattern.negated)
    }

    /// Returns the rule with this text.
    pub(super) fn written_as(&self, text: &str) -> Option<&Rule> {
        self.entries.iter().map(|entry| &entry.rule).find(|rule| rule.entry == text)
    }

    /// Returns a rule that names, without wildcards, a path below this folder.
    pub(crate) fn names_below(&self, folder: &Path) -> Option<&Rule> {
        let folder = &*if self.folded.is_some() { fold_path(folder) } else { Cow::Borrowed(folder) };
        let after = self.literal.partition_point(|(path, _)| path.as_path() <= folder);
        let (path, index) = self.literal.get(after)?;
        let entry = self.entries.get(*index)?;
        path.starts_with(folder).then_some(&entry.rule)
    }

    /// Returns a rule that could apply to a path that a shell's glob stands for.
    pub(crate) fn could_hold(&self, glob: &LocatedPath<'_>) -> Option<&Rule> {
        let exact = GlobPath::of(glob);
        let folded = self.folded.is_some().then(|| GlobPath::folded(glob));
        let mut positive = self.entries.iter().filter(|entry| !entry.pattern.negated);
        let overlaps = |entry: &&Entry| {
            may_overlap(&entry.pattern, &exact)
                || folded.iter().zip(&entry.folded).any(|(glob, (_, pattern))| may_overlap(pattern, glob))
        };
        positive.find(overlaps).map(|entry| &entry.rule)
    }

    /// Returns true if a rule that does not apply to the folder itself could apply to a path below it.
    pub(super) fn may_hold_below(&self, folder: &LocatedPath<'_>) -> bool {
        let folder = GlobPath::of(folder);
        let mut positive = self.entries.iter().filter(|entry| !entry.pattern.negated);
        positive.any(|entry| may_lie_below(&entry.pattern, &folder))
    }

    /// Returns true if any entry takes back matches of another one.
    pub(super) fn is_taken_back(&self) -> bool {
        self.entries.iter().any(|entry| entry.pattern.negated)
    }

    /// Returns true if the list names any path outside the workspace.
    pub(crate) fn leaves(&self, workspace: &Path) -> bool {
        self.outer_folders(workspace).next().is_some()
    }

    /// Returns the folders outside the workspace that the list names, each with true if the list
    /// names all below it.
    pub(crate) fn outer_folders<'a>(
        &'a self,
        workspace: &'a Path,
    ) -> impl Iterator<Item = (PathBuf, bool)> + 'a {
        self.entries.iter().filter(|entry| !entry.pattern.negated).filter_map(move |entry| {
            let prefix = entry.pattern.literal_prefix(workspace)?;
            (!prefix.starts_with(workspace)).then(|| (prefix, entry.pattern.is_literal()))
        })
    }
}

/// A path, relative to the workspace if possible.
#[derive(Debug, Clone, Copy)]
pub struct LocatedPath<'a> {
    /// The absolute path.
    pub(crate) absolute: &'a Path,
    /// Path relative to the workspace, if it lies there.
    pub(crate) relative: Option<&'a Path>,
}

impl<'a> LocatedPath<'a> {
    /// Creates the spot of a path.
    pub(crate) fn of(path: &'a Path, workspace: &Path) -> Self {
        Self { absolute: path, relative: path.strip_prefix(workspace).ok() }
    }
}
