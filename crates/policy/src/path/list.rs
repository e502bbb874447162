use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::ends::Ends;
use super::overlap::{GlobPath, may_overlap};
use super::pattern::{Anchor, Pattern};
use crate::{PolicyError, Rule};

/// The path rules of one list of one file, in their order: the last one that matches a path, or a folder above it, decides.
#[derive(Debug, Clone)]
pub(crate) struct PathList {
    entries: Vec<Entry>,
    /// Floating and workspace patterns, asked with the path relative to the workspace.
    inside: Group,
    /// Floating patterns, asked with the absolute path of what lies outside.
    outside: Group,
    /// Absolute patterns, asked with any absolute path.
    absolute: Group,
    /// `.`: the workspace itself.
    whole_workspace: Vec<usize>,
    /// Paths that a positive entry names without wildcards, sorted, with the entry.
    literal: Vec<(PathBuf, usize)>,
}

#[derive(Debug, Clone)]
struct Entry {
    rule: Rule,
    ends: Ends,
    pattern: Pattern,
}

/// What is known about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It is a folder.
    Folder,
    /// It is something else.
    File,
    /// Nothing is known: the stricter reading of a deny list counts.
    Unknown,
}

/// Whether floating patterns reach beyond the workspace: those that deny do, those that allow do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Any path.
    Anywhere,
    /// The workspace alone.
    Workspace,
}

impl PathList {
    /// Compiles the entries.
    ///
    /// # Errors
    /// [`PolicyError::Entry`] for a pattern that cannot be read, [`PolicyError::List`] for too many large ones.
    pub(crate) fn compile(
        rules: Vec<Rule>,
        reach: Reach,
        workspace: &Path,
        home: Option<&Path>,
    ) -> Result<Self, PolicyError> {
        let mut groups = [GroupBuilder::default(), GroupBuilder::default(), GroupBuilder::default()];
        let [inside, outside, absolute] = &mut groups;
        let mut entries = Vec::with_capacity(rules.len());
        let mut whole_workspace = Vec::new();
        let mut literal = Vec::new();
        let named = rules.first().cloned();
        for (index, rule) in rules.into_iter().enumerate() {
            let problem = |problem: String| PolicyError::Entry {
                profile: rule.profile.to_string(),
                key: rule.key,
                entry: rule.entry.clone(),
                problem,
                origin: rule.origin.to_string(),
            };
            let pattern = Pattern::parse(&rule.entry, workspace, home).map_err(problem)?;
            let prefix = pattern.literal_prefix(workspace);
            if reach == Reach::Workspace && !pattern.is_literal() && prefix.as_deref() == Some(Path::new("/"))
            {
                return Err(problem("an allowed pattern outside the workspace begins with a folder".into()));
            }
            let glob = GlobBuilder::new(&pattern.glob())
                .literal_separator(true)
                .backslash_escape(true)
                .build()
                .map_err(|error| problem(error.kind().to_string()))?;
            match pattern.anchor {
                Anchor::Workspace if pattern.components.is_empty() => whole_workspace.push(index),
                Anchor::Workspace => inside.add(glob, index),
                Anchor::Root => absolute.add(glob, index),
                Anchor::Floating => {
                    if reach == Reach::Anywhere {
                        outside.add(glob.clone(), index);
                    }
                    inside.add(glob, index);
                }
            }
            if pattern.is_literal() && !pattern.negated {
                literal.extend(prefix.map(|path| (path, index)));
            }
            entries.push(Entry { rule, ends: Ends::of(&pattern), pattern });
        }
        literal.sort();
        let build = |group: GroupBuilder| {
            group.build().map_err(|source| PolicyError::List {
                profile: named.as_ref().map(|rule| rule.profile.to_string()).unwrap_or_default(),
                key: named.as_ref().map_or("", |rule| rule.key),
                source,
            })
        };
        let [inside, outside, absolute] = groups;
        Ok(Self {
            entries,
            inside: build(inside)?,
            outside: build(outside)?,
            absolute: build(absolute)?,
            whole_workspace,
            literal,
        })
    }

    /// The rule that holds for the path, unless none does or the last one takes it back.
    pub(crate) fn holds(&self, path: &Spot<'_>, kind: Kind) -> Option<&Rule> {
        let entry = self.entries.get(self.last_match(path, kind)?)?;
        (!entry.pattern.negated).then_some(&entry.rule)
    }

    /// The last entry that matches the path or a folder above it.
    fn last_match(&self, path: &Spot<'_>, kind: Kind) -> Option<usize> {
        let mut last = None;
        match path.relative {
            Some(relative) => {
                self.inside.last_match(relative, kind, &self.entries, &mut last);
                last = last.max(self.whole_workspace.last().copied());
            }
            None => self.outside.last_match(path.absolute, kind, &self.entries, &mut last),
        }
        self.absolute.last_match(path.absolute, kind, &self.entries, &mut last);
        last
    }

    /// The last entry that matches the folder or one above it.
    pub(super) fn last_of_folder(&self, folder: &Spot<'_>) -> Option<usize> {
        self.last_match(folder, Kind::Folder)
    }

    /// The last entry that matches the path itself, whatever matches the folders above it.
    pub(super) fn last_of_itself(&self, path: &Spot<'_>, kind: Kind) -> Option<usize> {
        let mut last = None;
        let mut ask = |group: &Group, path| {
            if !group.index.is_empty() {
                group.match_one(path, kind, &self.entries, &mut Vec::new(), &mut last);
            }
        };
        match path.relative {
            Some(relative) => ask(&self.inside, relative),
            None => ask(&self.outside, path.absolute),
        }
        ask(&self.absolute, path.absolute);
        last
    }

    /// Whether a path is denied that this entry is the last one for.
    pub(super) fn denies(&self, last: Option<usize>) -> bool {
        last.and_then(|index| self.entries.get(index)).is_some_and(|entry| !entry.pattern.negated)
    }

    /// Whether an entry could match something by its name alone.
    pub(super) fn may_match(&self, name: &[u8]) -> bool {
        self.entries.iter().any(|entry| entry.ends.may_match(name))
    }

    /// Whether every pattern is about names alone, at any depth, so that a path is as good as its last component.
    pub(crate) fn is_about_names(&self) -> bool {
        self.entries
            .iter()
            .all(|entry| entry.pattern.anchor == Anchor::Floating && entry.pattern.components.len() == 1)
    }

    /// The last entry that matches a folder or one above it, for [`PathList::holds_name`].
    pub(crate) fn last_above(&self, folder: &Spot<'_>) -> Option<usize> {
        let mut last = None;
        let (group, path) = match folder.relative {
            Some(relative) => (&self.inside, relative),
            None => (&self.outside, folder.absolute),
        };
        group.last_match(path, Kind::Folder, &self.entries, &mut last);
        last
    }

    /// [`PathList::holds`] for a name in a folder, in a list that is about names.
    pub(crate) fn holds_name(&self, last_above: Option<usize>, name: &OsStr) -> Option<&Rule> {
        let mut last = last_above;
        let bytes = name.as_bytes();
        if self.entries.iter().any(|entry| entry.ends.may_match(bytes)) {
            self.inside.match_one(Path::new(name), Kind::Unknown, &self.entries, &mut Vec::new(), &mut last);
        }
        let entry = self.entries.get(last?)?;
        (!entry.pattern.negated).then_some(&entry.rule)
    }

    /// A rule that names, without wildcards, something below this folder.
    pub(crate) fn names_below(&self, folder: &Path) -> Option<&Rule> {
        let after = self.literal.partition_point(|(path, _)| path.as_path() <= folder);
        let (path, index) = self.literal.get(after)?;
        let entry = self.entries.get(*index)?;
        path.starts_with(folder).then_some(&entry.rule)
    }

    /// A rule that could hold for something that a shell's glob stands for.
    pub(crate) fn could_hold(&self, glob: &Spot<'_>) -> Option<&Rule> {
        let glob = GlobPath::of(glob);
        let mut positive = self.entries.iter().filter(|entry| !entry.pattern.negated);
        positive.find(|entry| may_overlap(&entry.pattern, &glob)).map(|entry| &entry.rule)
    }

    /// The folders outside the workspace that the list names, each with whether it names all below it.
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

/// A path seen from the workspace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot<'a> {
    /// The path itself.
    pub(crate) absolute: &'a Path,
    /// The same, relative to the workspace, where it lies in it.
    pub(crate) relative: Option<&'a Path>,
}

impl<'a> Spot<'a> {
    /// Where the path lies.
    pub(crate) fn of(path: &'a Path, workspace: &Path) -> Self {
        Self { absolute: path, relative: path.strip_prefix(workspace).ok() }
    }
}

#[derive(Default)]
struct GroupBuilder {
    globs: Vec<Glob>,
    index: Vec<usize>,
}

impl GroupBuilder {
    fn add(&mut self, glob: Glob, index: usize) {
        self.globs.push(glob);
        self.index.push(index);
    }

    fn build(self) -> Result<Group, globset::Error> {
        let mut globs = GlobSetBuilder::new();
        for glob in self.globs {
            globs.add(glob);
        }
        Ok(Group { globs: globs.build()?, index: self.index })
    }
}

/// Globs that are asked together, and which entry of the list each one is.
#[derive(Debug, Clone)]
struct Group {
    globs: GlobSet,
    index: Vec<usize>,
}

impl Group {
    /// Raises `last` to the last entry that matches the path or a folder above it.
    fn last_match(&self, path: &Path, kind: Kind, entries: &[Entry], last: &mut Option<usize>) {
        if self.index.is_empty() {
            return;
        }
        let mut matches = Vec::new();
        for (height, ancestor) in path.ancestors().enumerate() {
            if ancestor.as_os_str().is_empty() {
                continue;
            }
            let kind = if height == 0 { kind } else { Kind::Folder };
            self.match_one(ancestor, kind, entries, &mut matches, last);
        }
    }

    /// Raises `last` to the last entry that matches the path itself. `matches` is scratch space.
    fn match_one(
        &self,
        path: &Path,
        kind: Kind,
        entries: &[Entry],
        matches: &mut Vec<usize>,
        last: &mut Option<usize>,
    ) {
        self.globs.matches_candidate_into(&Candidate::new(path), matches);
        for index in matches.iter().filter_map(|position| self.index.get(*position)).copied() {
            let Some(pattern) = entries.get(index).map(|entry| &entry.pattern) else { continue };
            let applies = match kind {
                Kind::Folder => true,
                Kind::File => !pattern.folder_only,
                Kind::Unknown => !pattern.folder_only || !pattern.negated,
            };
            if applies {
                *last = (*last).max(Some(index));
            }
        }
    }
}
