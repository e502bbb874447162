//! Resolution of paths by their spelling, for words of commands.

use std::path::{Component, Path, PathBuf};

/// Path that a word leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedPath {
    /// Absolute, lexically normal path.
    pub(crate) path: PathBuf,
    /// True if `..` follows a name, so that a link with that name would lead elsewhere.
    pub(crate) through_a_name: bool,
}

/// Resolves a word against a directory, by its spelling alone.
pub(crate) fn resolve(directory: &Path, word: &str) -> ResolvedPath {
    let mut path = if word.starts_with('/') { PathBuf::from("/") } else { directory.to_owned() };
    let mut named = false;
    let mut through_a_name = false;
    for component in Path::new(word).components() {
        match component {
            Component::Normal(name) => {
                path.push(name);
                named = true;
            }
            Component::ParentDir => {
                path.pop();
                through_a_name |= named;
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    ResolvedPath { path, through_a_name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_behind_a_name_is_remembered() {
        let resolved = |word| resolve(Path::new("/w/p"), word);
        assert_eq!(resolved("../x"), ResolvedPath { path: "/w/x".into(), through_a_name: false });
        assert_eq!(resolved("a/../x"), ResolvedPath { path: "/w/p/x".into(), through_a_name: true });
        assert_eq!(resolved("/../etc").path, Path::new("/etc"));
    }
}
