//! Compiled globs of a list.

use std::path::Path;

use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::list::{Entry, Kind, LocatedPath, PatternReach};
use super::pattern::{Anchor, Pattern};

/// Globs, grouped by the path that they are matched with.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    /// Floating and workspace patterns, matched with the path relative to the workspace.
    inside: Group,
    /// Floating patterns, matched with the absolute path of an entry outside.
    outside: Group,
    /// Absolute patterns, matched with any absolute path.
    absolute: Group,
}

impl Groups {
    /// Raises `last` to the last entry that matches the path or a folder above it.
    pub(super) fn last_match(
        &self,
        path: &LocatedPath<'_>,
        kind: Kind,
        entries: &[Entry],
        last: &mut Option<usize>,
    ) {
        self.each(path, |group, path| group.last_match(path, kind, entries, last));
    }

    /// Raises `last` to the last entry that matches the path itself.
    pub(super) fn match_one(
        &self,
        path: &LocatedPath<'_>,
        kind: Kind,
        entries: &[Entry],
        last: &mut Option<usize>,
    ) {
        self.each(path, |group, path| group.match_one(path, kind, entries, &mut Vec::new(), last));
    }

    fn each(&self, path: &LocatedPath<'_>, mut ask: impl FnMut(&Group, &Path)) {
        let (group, floating) = match path.relative {
            Some(relative) => (&self.inside, relative),
            None => (&self.outside, path.absolute),
        };
        for (group, path) in [(group, floating), (&self.absolute, path.absolute)] {
            if !group.index.is_empty() {
                ask(group, path);
            }
        }
    }
}

#[derive(Default)]
pub(super) struct GroupsBuilder {
    inside: GroupBuilder,
    outside: GroupBuilder,
    absolute: GroupBuilder,
}

impl GroupsBuilder {
    /// Adds a pattern with its place in the list.
    pub(super) fn add(&mut self, pattern: &Pattern, reach: PatternReach, index: usize) -> Result<(), String> {
        let glob = GlobBuilder::new(&pattern.glob())
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| error.kind().to_string())?;
        match pattern.anchor {
            Anchor::Workspace => self.inside.add(glob, index),
            Anchor::Root => self.absolute.add(glob, index),
            Anchor::Floating => {
                if reach == PatternReach::Anywhere {
                    self.outside.add(glob.clone(), index);
                }
                self.inside.add(glob, index);
            }
        }
        Ok(())
    }

    pub(super) fn build(self) -> Result<Groups, globset::Error> {
        Ok(Groups {
            inside: self.inside.build()?,
            outside: self.outside.build()?,
            absolute: self.absolute.build()?,
        })
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

/// Globs that are matched together, with the index of each one's entry in the list.
#[derive(Debug, Clone)]
struct Group {
    globs: GlobSet,
    index: Vec<usize>,
}

impl Group {
    fn last_match(&self, path: &Path, kind: Kind, entries: &[Entry], last: &mut Option<usize>) {
        let mut matches = Vec::new();
        for (height, ancestor) in path.ancestors().enumerate() {
            if ancestor.as_os_str().is_empty() {
                continue;
            }
            let kind = if height == 0 { kind } else { Kind::Folder };
            self.match_one(ancestor, kind, entries, &mut matches, last);
        }
    }

    /// Raises `last` to the last matching entry. `matches` is scratch space.
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
