//! The roots of a cell: the visible folders and files of the host, with their places and rights.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::child::blueprint::Kind;
use crate::error::SandboxError;
use crate::spec::CellSpec;
use crate::system::HOME;

/// One root at one of its names.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    /// Path in the cell.
    pub(crate) at: PathBuf,
    /// Resolved path on the host.
    pub(crate) real: PathBuf,
    pub(crate) kind: Kind,
    pub(crate) writable: bool,
    /// True if a command of root has the rights of the root's owner in it, instead of those of
    /// every user.
    pub(crate) owned: bool,
}

/// All roots of a cell, one for each path, and the path of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct Roots {
    all: BTreeMap<PathBuf, Root>,
    workspace: PathBuf,
}

impl Roots {
    pub(crate) fn new(spec: &CellSpec) -> Result<Self, SandboxError> {
        let workspace = spec.workspace.components().collect();
        let mut roots = Self { all: BTreeMap::new(), workspace };
        // An overlay protects the workspace itself from writes.
        roots.add(&spec.workspace, !spec.reads_only || spec.overlay.is_some(), true)?;
        if !fs::metadata(&spec.workspace).is_ok_and(|metadata| metadata.is_dir()) {
            return Err(refused(&spec.workspace, "the workspace must be a folder"));
        }
        for path in &spec.read_write {
            roots.add(path, !spec.reads_only, true)?;
        }
        for path in &spec.read_only {
            roots.add(path, false, true)?;
        }
        for path in &spec.toolchains {
            roots.add(path, false, false)?;
        }
        roots.complete_names();
        Ok(roots)
    }

    fn add(&mut self, path: &Path, writable: bool, owned: bool) -> Result<(), SandboxError> {
        if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
            return Err(refused(path, "a root must be an absolute path without `..`"));
        }
        // Rebuild the path from its components, which drops `//`, `/./` and a final slash.
        let given: PathBuf = path.components().collect();
        let real = fs::canonicalize(&given).map_err(|error| refused(path, &error.to_string()))?;
        let kind = match fs::metadata(&real) {
            Ok(metadata) if metadata.is_dir() => Kind::Folder,
            Ok(metadata) if metadata.is_file() => Kind::File,
            Ok(_) => return Err(refused(path, "it is neither a folder nor a regular file")),
            Err(error) => return Err(refused(path, &error.to_string())),
        };
        for at in [given, real.clone()] {
            refuse_reserved(path, &at)?;
            let new = Root { at: at.clone(), real: real.clone(), kind, writable, owned };
            let root = self.all.entry(at).or_insert(new);
            root.writable &= writable;
            root.owned &= owned;
        }
        Ok(())
    }

    /// Adds the names that nested roots get from outer ones. A root inside another one is reachable
    /// under every name of the outer root, and must have the same rights there: the fewest of all
    /// its entries.
    fn complete_names(&mut self) {
        let mut found = Vec::new();
        for (outer, inner) in
            self.all.values().flat_map(|outer| self.all.values().map(move |inner| (outer, inner)))
        {
            if let Ok(below) = inner.real.strip_prefix(&outer.real) {
                let inside = !below.as_os_str().is_empty();
                let at = if inside { outer.at.join(below) } else { outer.at.clone() };
                found.push(Root { at, ..inner.clone() });
            }
        }
        for root in found {
            let Root { writable, owned, .. } = root;
            let known = self.all.entry(root.at.clone()).or_insert(root);
            known.writable &= writable;
            known.owned &= owned;
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Root> {
        self.all.values()
    }

    /// Returns the workspace at its resolved path.
    pub(crate) fn workspace(&self) -> Option<&Root> {
        self.all.get(&self.all.get(&self.workspace)?.real)
    }

    /// Returns true if the root at this path of the cell is also shown at its resolved path.
    pub(crate) fn is_alias(&self, at: &Path) -> bool {
        self.all.get(at).is_some_and(|root| root.at != root.real)
    }

    /// Maps `paths` into the cell: each path, and every other name that a root gives it, with its
    /// root. Missing paths are skipped.
    pub(crate) fn inside(&self, paths: &[PathBuf]) -> Result<BTreeMap<PathBuf, PathBuf>, SandboxError> {
        Ok(self.places(paths)?.0)
    }

    /// Maps `paths` into the cell, as [`inside`](Self::inside) does. Also returns the resolved ones
    /// that lie in no root: the cell may show them as part of a system folder.
    ///
    /// Resolves each path once, because there may be hundreds.
    pub(crate) fn places(&self, paths: &[PathBuf]) -> Result<Places, SandboxError> {
        let (mut found, mut outside) = (BTreeMap::new(), Vec::new());
        for path in paths {
            let Some(real) = resolved(path)? else { continue };
            let mut is_inside = false;
            for root in self.all() {
                if let Ok(below) = real.strip_prefix(&root.real) {
                    is_inside = true;
                    let at = if below.as_os_str().is_empty() { root.at.clone() } else { root.at.join(below) };
                    // The innermost of nested roots counts.
                    let innermost = found.entry(at).or_insert_with(|| root.at.clone());
                    if root.at.starts_with(&*innermost) {
                        innermost.clone_from(&root.at);
                    }
                }
            }
            if !is_inside {
                outside.push(real);
            }
        }
        Ok((found, outside))
    }
}

/// Paths in roots, each with its root, and resolved paths in no root.
type Places = (BTreeMap<PathBuf, PathBuf>, Vec<PathBuf>);

fn resolved(path: &Path) -> Result<Option<PathBuf>, SandboxError> {
    match fs::canonicalize(path) {
        Ok(real) => Ok(Some(real)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(refused(path, &error.to_string())),
    }
}

/// Refuses a root at a path that belongs to the cell, or above one.
fn refuse_reserved(path: &Path, at: &Path) -> Result<(), SandboxError> {
    if ["/proc", "/dev", "/sys", "/.cell"].iter().any(|own| at.starts_with(own)) {
        return Err(refused(path, "every sandbox has its own there"));
    }
    if Path::new(HOME).starts_with(at) && at != Path::new(HOME) {
        return Err(refused(path, "it contains the home folder of sandboxes; name a folder below it"));
    }
    Ok(())
}

fn refused(path: &Path, reason: &str) -> SandboxError {
    SandboxError::Root { path: path.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(workspace: &Path, read_only: &[&Path]) -> Result<Roots, SandboxError> {
        Roots::new(&CellSpec {
            workspace: workspace.to_owned(),
            read_only: read_only.iter().map(|&path| path.to_owned()).collect(),
            ..CellSpec::default()
        })
    }

    #[test]
    fn a_root_named_twice_gets_the_fewest_rights() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let writable = |roots: &Roots| roots.all().map(|root| root.writable).collect::<Vec<_>>();
        assert_eq!(writable(&roots(&real, &[]).unwrap()), [true]);
        assert_eq!(writable(&roots(&real, &[&real]).unwrap()), [false]);
    }

    #[test]
    fn a_root_below_a_linked_one_has_its_rights_under_both_names() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::create_dir_all(real.join("work/vendor")).unwrap();
        std::os::unix::fs::symlink("work", real.join("link")).unwrap();
        let roots = roots(&real.join("link"), &[&real.join("work/vendor")]).unwrap();
        let rights: Vec<_> = roots.all().map(|root| (root.at.clone(), root.writable)).collect();
        let expected = [("link", true), ("link/vendor", false), ("work", true), ("work/vendor", false)];
        assert_eq!(rights, expected.map(|(name, writable)| (real.join(name), writable)));
    }

    #[test]
    fn a_root_behind_a_link_is_shown_under_both_names_and_hidden_under_both() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::create_dir(real.join("work")).unwrap();
        fs::write(real.join("work/.env"), "x").unwrap();
        std::os::unix::fs::symlink("work", real.join("link")).unwrap();
        let roots = roots(&real.join("link"), &[]).unwrap();
        let names: Vec<_> = roots.all().map(|root| root.at.clone()).collect();
        assert_eq!(names, [real.join("link"), real.join("work")]);
        let hidden = roots.inside(&[real.join("link/.env")]).unwrap();
        assert_eq!(hidden.into_keys().collect::<Vec<_>>(), [real.join("link/.env"), real.join("work/.env")]);
    }

    #[test]
    fn a_mask_behind_a_link_hides_what_the_link_points_to() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::write(real.join("secret"), "x").unwrap();
        std::os::unix::fs::symlink("secret", real.join(".env")).unwrap();
        let hidden = roots(&real, &[]).unwrap().inside(&[real.join(".env"), real.join("absent")]).unwrap();
        assert_eq!(hidden.into_iter().collect::<Vec<_>>(), [(real.join("secret"), real)]);
    }

    #[test]
    fn roots_that_would_replace_the_cells_own_folders_are_refused() {
        for path in ["/", "/home", "/proc", "/proc/self", "/dev", "/dev/shm"] {
            let error = roots(Path::new(path), &[]).map(|_| ()).unwrap_err();
            assert!(matches!(error, SandboxError::Root { .. }), "{path}: {error:?}");
        }
    }

    #[test]
    fn a_workspace_that_is_missing_relative_or_a_file_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for path in [Path::new("/no/such/folder"), Path::new("here"), Path::new("/tmp/../tmp"), file.path()] {
            assert!(roots(path, &[]).is_err(), "{path:?}");
        }
    }
}
