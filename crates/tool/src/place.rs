use std::path::{Component, Path, PathBuf};

use crate::ToolError;

/// Where a call happens: what a relative path in its arguments is relative to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The workspace: absolute, without links.
    pub workspace: PathBuf,
    /// The name by which its user knows the workspace, where links lead from there to it: absolute, lexically normal.
    pub also_called: Option<PathBuf>,
}

/// The longest path that Linux takes (`PATH_MAX`, limits.h), without its final NUL.
const LONGEST_PATH: usize = 4095;

impl Place {
    /// A workspace with one name alone.
    pub fn at(workspace: PathBuf) -> Self {
        Self { workspace, also_called: None }
    }

    /// The absolute, lexically normal path that an argument names.
    ///
    /// Nothing is looked up. `..` is resolved by its spelling, so `a/../b` is `b` whatever `a` is; what is decided on is then
    /// exactly what is opened. A path that climbs out of the workspace is not refused here: the policy decides on it.
    /// A path below the other name of the workspace is one in the workspace, wherever the links lead by now.
    ///
    /// # Errors
    /// `EVALIDATION` naming `field` where the path is empty, holds a NUL byte or is longer than Linux takes.
    pub fn resolve(&self, field: &str, path: &str) -> Result<PathBuf, ToolError> {
        if path.is_empty() {
            return Err(
                ToolError::validation(field, "the path is empty").hint("use \".\" for the workspace itself")
            );
        }
        if path.contains('\0') {
            return Err(ToolError::validation(field, "the path holds a NUL byte"));
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
            // Pushed part by part: joining an empty rest would leave a slash at the end.
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

    /// How a path is shown: relative to the workspace where it lies in it, absolute otherwise.
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
