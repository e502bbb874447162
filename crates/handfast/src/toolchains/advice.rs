//! Texts about the folders of programs that commands do not see: the reason, and what shows them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tool::MissingPrograms;

use super::extent::Refusal;
use super::of_path::{FoundPrograms, LeftOut};
use watch::Obstacle;

/// Knowledge of the programs that commands do not find.
pub(super) struct Advice {
    pub(super) found: Arc<FoundPrograms>,
    /// File of the user's configuration, as text.
    pub(super) configuration: String,
}

impl LeftOut {
    /// Returns true if nothing is wrong with a search path that has such a folder.
    pub(crate) fn is_ordinary(&self) -> bool {
        matches!(self, Self::Blocked(Obstacle::Missing) | Self::NoFolder | Self::NotAbsolute)
            || *self == Self::Refused(Refusal::Writable)
    }

    /// Returns the reason as the end of a sentence.
    pub(crate) fn reason(&self) -> String {
        let text = match self {
            Self::NotAbsolute => "it is relative to whatever folder is the current one",
            Self::NoFolder => "it is no folder",
            Self::TooMany => "`PATH` has more folders than commands search",
            Self::HoldsMore => "it holds your home, the workspace, keys, or files of Handfast",
            Self::Blocked(Obstacle::Missing) => "it does not exist",
            Self::Blocked(Obstacle::Remote(kind)) => {
                return format!("it lies on a file system of another machine or program ({kind})");
            }
            Self::Blocked(Obstacle::Unreadable(why)) => return format!("it cannot be read: {why}"),
            Self::Refused(Refusal::Writable) => "calls can write there",
            Self::Refused(Refusal::OpenToAll) => "every user of this machine can write there",
            Self::Refused(Refusal::Secret) => "it lies among keys",
            Self::Refused(Refusal::OfHandfast) => "it belongs to Handfast itself",
            Self::Refused(Refusal::OfKernel) => "every sandbox has its own there",
        };
        text.to_owned()
    }

    /// Returns the remedy, if there is one.
    pub(crate) fn remedy(&self, folder: &Path, configuration: &str) -> Option<String> {
        let around = installation(folder);
        let folder = folder.display();
        match self {
            Self::Blocked(Obstacle::Remote(_)) | Self::TooMany => Some(lists(around, configuration)),
            Self::Refused(Refusal::OpenToAll) => Some(format!(
                "take the right to write {folder} and the folders around it from others (`chmod o-w`), \
                 then start Handfast again"
            )),
            Self::Refused(Refusal::Writable) => Some("name its programs by their paths".to_owned()),
            Self::Refused(Refusal::Secret) | Self::HoldsMore => {
                Some("move the programs to a folder of their own".to_owned())
            }
            Self::NotAbsolute => Some("name it in `PATH` from `/` on".to_owned()),
            Self::Blocked(Obstacle::Unreadable(_)) => Some(format!("let your user read {folder}")),
            Self::NoFolder
            | Self::Blocked(Obstacle::Missing)
            | Self::Refused(Refusal::OfHandfast | Refusal::OfKernel) => None,
        }
    }
}

/// Returns the folder that shows the programs of a folder with the files around them.
pub(crate) fn installation(folder: &Path) -> &Path {
    // A folder of the upper levels holds more than an installation.
    let is_deep = |above: &&Path| above.components().count() > 2;
    folder.parent().filter(|_| folder.ends_with("bin")).filter(is_deep).unwrap_or(folder)
}

/// Returns the advice to list a folder in the configuration.
pub(crate) fn lists(folder: &Path, configuration: &str) -> String {
    let folder = folder.display();
    format!("`toolchains: [{folder}]` in {configuration} shows it when Handfast starts again")
}

impl MissingPrograms for Advice {
    fn advice(&self, name: &str) -> Option<String> {
        self.in_left_out(name).or_else(|| self.behind_link(name)).or_else(|| self.in_known(name)).or_else(
            || {
                let (folder, why) = self.remote().next()?;
                Some(format!(
                    "commands do not see {} of `PATH`, which may have `{name}`, because {}; {}",
                    folder.display(),
                    why.reason(),
                    why.remedy(folder, &self.configuration)?
                ))
            },
        )
    }
}

impl Advice {
    /// Returns the advice about a program in a folder that is left out. Folders of keys, of Handfast
    /// and of other machines are not looked into.
    fn in_left_out(&self, name: &str) -> Option<String> {
        let may_be_told = |why: &LeftOut| {
            matches!(why, LeftOut::TooMany | LeftOut::Refused(Refusal::Writable | Refusal::OpenToAll))
        };
        let mut folders = self.found.left_out.iter().filter(|(_, why)| may_be_told(why));
        let (folder, why) = folders.find(|(folder, _)| self.program(&folder.join(name)).is_some())?;
        Some(format!(
            "`{name}` is in {} of `PATH`, which commands do not search, because {}; {}",
            folder.display(),
            why.reason(),
            why.remedy(folder, &self.configuration)?
        ))
    }

    /// Returns the advice about a program in a folder that commands search, if it leads to a place
    /// that they do not see.
    fn behind_link(&self, name: &str) -> Option<String> {
        let mut named = self.found.folders.iter().map(|folder| folder.path.join(name));
        let (path, real) = named.find_map(|path| self.program(&path).map(|real| (path, real)))?;
        if self.found.shows(&real) {
            return None;
        }
        Some(format!(
            "{} leads to {}, which commands do not see; {}",
            path.display(),
            real.display(),
            lists(installation(real.parent()?), &self.configuration)
        ))
    }

    /// Returns the advice about a program of a known toolchain that `PATH` does not name.
    fn in_known(&self, name: &str) -> Option<String> {
        let folders = self.found.known.iter().flat_map(|known| {
            let of_programs =
                known.parts.iter().filter(|part| part.ends_with("bin") || part.ends_with("shims"));
            of_programs.map(|part| known.folder.join(part))
        });
        let path = folders.map(|folder| folder.join(name)).find(|path| self.program(path).is_some())?;
        Some(format!(
            "`{name}` is in no folder of the `PATH` that Handfast was started with, but {} is; name it by \
             that path, or start Handfast with a `PATH` that has its folder",
            path.display()
        ))
    }

    fn program(&self, path: &Path) -> Option<PathBuf> {
        self.found.paths.program(path)
    }

    fn remote(&self) -> impl Iterator<Item = &(PathBuf, LeftOut)> {
        let is_remote = |why: &LeftOut| matches!(why, LeftOut::Blocked(Obstacle::Remote(_)));
        self.found.left_out.iter().filter(move |(_, why)| is_remote(why))
    }
}
