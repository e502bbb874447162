//! The workspace of a call and the resolution of its paths.

use std::path::{Component, Path, PathBuf};

use crate::ToolError;

/// Workspace of a call, to which relative paths in its arguments refer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Path of the workspace, absolute and without symbolic links.
    pub workspace: PathBuf,
    /// Path by which the user knows the workspace, if it leads there through symbolic links;
    /// absolute and lexically normal.
    pub also_called: Option<PathBuf>,
}

/// Maximum length of a path in bytes on Linux (`PATH_MAX`, limits.h), without the final NUL.
const LONGEST_PATH: usize = 4095;

impl Place {
    /// Creates a place whose workspace has one path alone.
    pub fn at(workspace: PathBuf) -> Self {
        Self { workspace, also_called: None }
    }

    /// Resolves the path in an argument to an absolute, lexically normal path.
    ///
    /// The function does not access the file system. The component `..` is resolved by spelling, so
    /// `a/../b` is `b` whatever `a` is. The policy therefore decides on exactly the path that is
    /// opened. A path outside the workspace is not refused here: the policy decides on it. A path
    /// below the workspace's other name is a path in the workspace, whatever the symbolic links
    /// lead to now.
    ///
    /// # Errors
    /// `EVALIDATION` naming `field` if the path is empty, holds a NUL byte or is longer than Linux
    /// allows.
    pub fn resolve(&self, field: &str, path: &str) -> Result<PathBuf, ToolError> {
        if path.is_empty() {
            return Err(
                ToolError::validation(field, "the path is empty").hint("use \".\" for the workspace itself")
            );
        }
        if path.contains('\0') {
            return Err(ToolError::validation(field, "the path has a NUL byte"));
        }
        let mut resolved = PathBuf::from("/");
        for component in self.workspace.join(path).components() {
            match component {
                Component::Normal(name) => resolved.push(name),
                Component::ParentDir => {
                    resolved.pop();
                }
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        if let Some(below) = self.also_called.as_ref().and_then(|name| resolved.strip_prefix(name).ok()) {
            // The path is built from components, because joining an empty rest would leave a slash
            // at the end.
            resolved = self.workspace.iter().chain(below.iter()).collect();
        }
        if resolved.as_os_str().len() > LONGEST_PATH {
            return Err(ToolError::validation(
                field,
                format!("the path is longer than {LONGEST_PATH} bytes"),
            ));
        }
        Ok(resolved)
    }

    /// Returns a path for display: relative if it lies in the workspace, absolute otherwise.
    pub fn show(&self, path: &Path) -> String {
        match path.strip_prefix(&self.workspace) {
            Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
            Ok(relative) => relative.to_string_lossy().into_owned(),
            Err(_) => path.to_string_lossy().into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place::at("/w/project".into())
    }

    #[test]
    fn dots_are_resolved_by_spelling() {
        let resolved = |path| place().resolve("path", path).unwrap().to_str().unwrap().to_owned();
        assert_eq!(resolved("a/./b//c/"), "/w/project/a/b/c");
        assert_eq!(resolved("a/../b"), "/w/project/b");
        assert_eq!(resolved("."), "/w/project");
        assert_eq!(resolved("../../../../etc/passwd"), "/etc/passwd");
        assert_eq!(resolved("/etc/../w/project/x"), "/w/project/x");
    }

    #[test]
    fn the_name_that_the_user_knows_leads_to_the_workspace() {
        let place = Place { also_called: Some("/home/me/link".into()), ..place() };
        let resolved = |path| place.resolve("path", path).unwrap().to_str().unwrap().to_owned();
        assert_eq!(resolved("/home/me/link"), "/w/project");
        assert_eq!(resolved("/home/me/link/a/../b/"), "/w/project/b");
        assert_eq!(resolved("/home/me/link/../x"), "/home/me/x");
        assert_eq!(resolved("/home/me/linked/a"), "/home/me/linked/a");
    }

    #[test]
    fn an_impossible_path_is_refused_with_the_field_named() {
        for bad in ["", "a\0b", &"x/".repeat(4000)] {
            let error = place().resolve("source", bad).unwrap_err();
            assert_eq!(error.code, crate::Code::Validation);
            assert!(error.message.starts_with("`source`"), "{}", error.message);
        }
    }

    #[test]
    fn a_path_is_shown_relative_only_where_it_lies_in_the_workspace() {
        assert_eq!(place().show(Path::new("/w/project/src/lib.rs")), "src/lib.rs");
        assert_eq!(place().show(Path::new("/w/project")), ".");
        assert_eq!(place().show(Path::new("/w/project2/x")), "/w/project2/x");
    }
}
