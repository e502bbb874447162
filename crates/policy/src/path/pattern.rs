//! Parser for path patterns.

use std::path::{Path, PathBuf};

use super::fold::fold_glob;

/// One path pattern, parsed and anchored, not yet compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    /// True if the pattern begins with `!`: it takes back matches of an earlier entry of the same list.
    pub(super) negated: bool,
    /// True if the pattern ends in `/`: it matches only folders, and so everything below them.
    pub(super) folder_only: bool,
    /// Place that the components are relative to.
    pub(super) anchor: Anchor,
    /// Components, in the syntax of `globset`; empty for the anchor itself.
    pub(super) components: Vec<String>,
}

/// Place that a pattern is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    /// Any place: the pattern matches at any depth.
    Floating,
    /// The workspace.
    Workspace,
    /// The root of the file system.
    Root,
}

impl Pattern {
    /// Parses an entry in gitignore's style.
    ///
    /// A pattern without an inner slash, or one that begins with `**/`, floats. `/x` and `~/x` are
    /// absolute, unlike gitignore's, because profiles name folders outside the workspace too. All
    /// others (`./x`, `x/y`, `../x`) are anchored at the workspace.
    ///
    /// # Errors
    /// Returns a description of the problem if the entry is malformed.
    pub(super) fn parse(entry: &str, workspace: &Path, home: Option<&Path>) -> Result<Self, String> {
        let (negated, text) = match entry.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, entry),
        };
        if text.is_empty() {
            return Err("the pattern is empty".into());
        }
        if text.contains('\0') {
            return Err("the pattern contains a NUL byte".into());
        }
        let (start, text) = expand_home(text, home)?;
        let mut anchor = Anchor::Root;
        let mut components = Vec::new();
        match start {
            Some(home) => push_literal(&mut components, &home)?,
            None if text.starts_with('/') => {}
            None if floats(text) => anchor = Anchor::Floating,
            None => anchor = Anchor::Workspace,
        }
        for component in text.split('/') {
            match component {
                "" | "." => {}
                ".." if anchor == Anchor::Floating => {
                    return Err("`..` in a pattern that matches at any depth".into());
                }
                ".." => {
                    if anchor == Anchor::Workspace && components.is_empty() {
                        anchor = Anchor::Root;
                        push_literal(&mut components, workspace)?;
                    }
                    if components.pop().is_some_and(|parent| has_wildcard(&parent)) {
                        return Err("`..` after a wildcard".into());
                    }
                }
                component => components.push(component.to_owned()),
            }
        }
        Ok(Self { negated, folder_only: text.ends_with('/'), anchor, components })
    }

    /// Returns the longest prefix without a wildcard, as an absolute path, or `None` for a floating pattern.
    pub(super) fn literal_prefix(&self, workspace: &Path) -> Option<PathBuf> {
        let mut prefix = match self.anchor {
            Anchor::Floating => return None,
            Anchor::Workspace => workspace.to_owned(),
            Anchor::Root => PathBuf::from("/"),
        };
        prefix
            .extend(self.components.iter().take_while(|part| !has_wildcard(part)).map(|part| unescape(part)));
        Some(prefix)
    }

    /// Returns true if no component contains a wildcard and the pattern is anchored.
    pub(super) fn is_literal(&self) -> bool {
        self.anchor != Anchor::Floating && !self.components.iter().any(|part| has_wildcard(part))
    }

    /// Returns true if the pattern is `.`, the workspace itself.
    pub(super) fn is_whole_workspace(&self) -> bool {
        self.anchor == Anchor::Workspace && self.components.is_empty()
    }

    /// Returns the folded pattern, which matches the folded form of a path.
    pub(super) fn folded(&self) -> Self {
        Self { components: self.components.iter().map(|part| fold_glob(part)).collect(), ..self.clone() }
    }

    /// Returns the pattern as one glob: relative to the workspace, or with a leading slash for the root.
    pub(super) fn glob(&self) -> String {
        let joined = self.components.join("/");
        match self.anchor {
            Anchor::Floating if joined.starts_with("**") => joined,
            Anchor::Floating => format!("**/{joined}"),
            Anchor::Workspace => joined,
            Anchor::Root => format!("/{joined}"),
        }
    }
}

/// Returns the path that an entry names, or the folder below which all its matches lie. Returns
/// `None` for an entry that matches at any depth.
pub(crate) fn outermost(entry: &str, workspace: &Path, home: Option<&Path>) -> Option<PathBuf> {
    Pattern::parse(entry, workspace, home).ok()?.literal_prefix(workspace)
}

/// Applies gitignore's rule: a pattern floats if it has no slash but a final one, or a leading `**/`.
fn floats(text: &str) -> bool {
    text.starts_with("**/")
        || (!text.trim_end_matches('/').contains('/') && text != "." && text != "./" && text != "..")
}

/// Returns the home folder, if the text begins with it, and the rest.
fn expand_home<'a>(text: &'a str, home: Option<&Path>) -> Result<(Option<PathBuf>, &'a str), String> {
    for name in ["~", "$HOME", "${HOME}"] {
        if let Some(rest) = text.strip_prefix(name)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            let home = home.ok_or("the home folder is unknown")?;
            return Ok((Some(home.to_owned()), rest));
        }
    }
    if text.starts_with('~') {
        return Err("home folders of other users are not expanded; name the path".into());
    }
    if text.replace("[$]", "").contains('$') {
        return Err("only $HOME at the beginning is expanded; write [$] for a literal $".into());
    }
    Ok((None, text))
}

fn push_literal(components: &mut Vec<String>, path: &Path) -> Result<(), String> {
    let text = path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()))?;
    components.extend(text.split('/').filter(|part| !part.is_empty()).map(globset::escape));
    Ok(())
}

/// Returns true if the component can match more than one name. An escaped character, as `[*]` or
/// `\*`, is not a wildcard.
fn has_wildcard(component: &str) -> bool {
    let mut rest = component.chars();
    while let Some(character) = rest.next() {
        match character {
            '*' | '?' | '{' | '}' => return true,
            '\\' => {
                rest.next();
            }
            '[' => match (rest.next(), rest.next()) {
                (Some('!' | '^'), _) => return true,
                (Some(_), Some(']')) => {}
                _ => return true,
            },
            _ => {}
        }
    }
    false
}

/// Returns the one name that a component without wildcards matches.
fn unescape(component: &str) -> String {
    let mut name = String::with_capacity(component.len());
    let mut rest = component.chars();
    while let Some(character) = rest.next() {
        match character {
            '\\' => name.extend(rest.next()),
            '[' => {
                name.extend(rest.next());
                rest.next();
            }
            character => name.push(character),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(entry: &str) -> Result<Pattern, String> {
        Pattern::parse(entry, Path::new("/w/pro[j]"), Some(Path::new("/home/ann")))
    }

    #[track_caller]
    fn reads_as(entry: &str, anchor: Anchor, glob: &str, prefix: Option<&str>) {
        let pattern = parse(entry).unwrap();
        assert_eq!(pattern.anchor, anchor);
        assert_eq!(pattern.glob(), glob);
        assert_eq!(pattern.literal_prefix(Path::new("/w/pro[j]")).as_deref(), prefix.map(Path::new));
    }

    #[test]
    fn a_pattern_without_inner_slash_floats_and_others_are_anchored() {
        reads_as("*.pem", Anchor::Floating, "**/*.pem", None);
        reads_as("**/*.key", Anchor::Floating, "**/*.key", None);
        reads_as("build/", Anchor::Floating, "**/build", None);
        reads_as("./src", Anchor::Workspace, "src", Some("/w/pro[j]/src"));
        reads_as("src/*.rs", Anchor::Workspace, "src/*.rs", Some("/w/pro[j]/src"));
        reads_as(".", Anchor::Workspace, "", Some("/w/pro[j]"));
        reads_as("/etc/ssl", Anchor::Root, "/etc/ssl", Some("/etc/ssl"));
        reads_as("./a[$]b", Anchor::Workspace, "a[$]b", Some("/w/pro[j]/a$b"));
        reads_as("a[*]b/c", Anchor::Workspace, "a[*]b/c", Some("/w/pro[j]/a*b/c"));
    }

    #[test]
    fn home_and_the_parent_of_the_workspace_become_absolute() {
        reads_as("$HOME/.msc", Anchor::Root, "/home/ann/.msc", Some("/home/ann/.msc"));
        reads_as("~", Anchor::Root, "/home/ann", Some("/home/ann"));
        reads_as("../other", Anchor::Root, "/w/other", Some("/w/other"));
        reads_as("./a/../b", Anchor::Workspace, "b", Some("/w/pro[j]/b"));
    }

    #[test]
    fn what_cannot_be_anchored_is_refused() {
        for bad in ["", "!", "~bob/x", "$OTHER/x", "a/$HOME", "*/../x", "**/.."] {
            assert!(parse(bad).is_err(), "{bad:?} was accepted");
        }
        assert!(Pattern::parse("~/x", Path::new("/w"), None).is_err());
    }
}
