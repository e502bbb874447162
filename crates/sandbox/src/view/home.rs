//! The home of a cell: its initial files, and caches that may be kept.

use std::path::{Path, PathBuf};

use super::{READ_WRITE, ShownParts, View};
use crate::child::blueprint::{Kind, Place, Step, c_string};
use crate::enforcement::Home;
use crate::error::SandboxError;
use crate::home::{CACHES, KEPT, link_text};
use crate::landlock::Rights;

impl View {
    /// Adds the home in memory, with the links of its caches and their targets.
    pub(super) fn home(
        &mut self,
        path: &Path,
        files: &[(PathBuf, Vec<u8>)],
        shown: Option<ShownParts<'_>>,
    ) -> Result<(), SandboxError> {
        self.home_files(path, files)?;
        self.steps.push(Step::Folder { at: Place::new(&path.join(KEPT))?, mode: 0o700 });
        for (cache, name) in CACHES {
            let at = path.join(cache);
            // A root at this place comes instead, and a mount point cannot be a link.
            if shown.is_some_and(|shown| shown.roots.all().any(|root| root.at.starts_with(&at))) {
                continue;
            }
            let text = c_string("path", link_text(cache, name))?;
            self.steps.push(Step::Link { at: Place::new(&at)?, text });
        }
        if let Some(shown) = shown {
            self.kept(path, shown)?;
        }
        self.allow(path, Kind::Folder, Rights::Write)
    }

    /// Adds the folder to which the links of the home at `path` lead.
    pub(super) fn kept(&mut self, path: &Path, shown: ShownParts<'_>) -> Result<(), SandboxError> {
        let at = path.join(KEPT);
        // If its file system cannot map owners, the caches are in memory instead.
        if let Some(kept) = shown.kept
            && let Ok(tree) = self.tree(kept, shown.identity, READ_WRITE)
        {
            self.home = Home::CachesKept;
            return self.mount(tree.source, &at, Kind::Folder, READ_WRITE);
        }
        let names = CACHES.map(|(_, name)| c_string("path", name));
        let names = names.into_iter().collect::<Result<_, _>>()?;
        self.steps.push(Step::Folders { at: Place::new(&at)?, names });
        Ok(())
    }

    pub(super) fn home_files(
        &mut self,
        path: &Path,
        files: &[(PathBuf, Vec<u8>)],
    ) -> Result<(), SandboxError> {
        for (name, content) in files {
            if name.is_absolute() {
                return Err(SandboxError::Invalid {
                    field: "home files",
                    reason: format!("`{}` is not a relative path", name.display()),
                });
            }
            let at = Place::new(&path.join(name))?;
            self.steps.push(Step::File { at, content: content.clone(), mode: 0o600 });
        }
        Ok(())
    }
}
