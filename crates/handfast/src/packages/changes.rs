//! The changes of packages: adding, replacing and removing one.

use std::fs::File;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use locks::{FileLock, Kind};
use plugins::{PluginFolder, PluginStore};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::content::{self, Brings, is_part};
use super::{CONTENT, DRAFT, Package, Packages, RECORD, Record, VERSION};
use crate::failure::Failure;

/// Maximum number of packages.
const MOST: usize = 100;

/// Content that is about to be a package.
pub(crate) struct NewPackage<'a> {
    pub(crate) name: &'a str,
    pub(crate) source: &'a str,
    pub(crate) commit: Option<String>,
    pub(crate) content: &'a PluginFolder,
}

impl Packages {
    /// Returns the package of this name.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn find(&self, name: &str) -> Result<Package, Failure> {
        let all = self.all()?;
        let known: Vec<String> = all.iter().map(|package| package.record.name.clone()).collect();
        all.into_iter().find(|package| package.record.name == name).ok_or_else(|| {
            let hint = match tool::nearest(name, known.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`handfast packages` lists those that there are".to_owned(),
            };
            Failure::usage(format!("there is no package `{}`; {hint}", tool::visible(name)))
        })
    }

    /// Adds a package, or replaces the one of the same name, and makes its plugins tools.
    ///
    /// # Errors
    /// If it cannot be written. The earlier state then stays.
    pub(crate) fn put(
        &self,
        wanted: &NewPackage<'_>,
        store: &PluginStore,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let _alone = self.alone()?;
        self.remove_drafts()?;
        let target = self.folder.join(wanted.name);
        let all = self.all()?;
        if !target.exists() && all.len() >= MOST {
            return Err(Failure::usage(format!("{MOST} packages are the most; remove one")));
        }
        let brings = Brings::of(wanted.content).map_err(Failure::usage)?;
        let record = Record {
            version: VERSION,
            name: wanted.name.to_owned(),
            source: wanted.source.to_owned(),
            commit: wanted.commit.clone(),
            hash: wanted.content.hash.clone(),
            added_at: now,
            plugins: brings
                .plugins
                .iter()
                .map(|plugin| (plugin.folder.clone(), plugin.hash.clone()))
                .collect(),
            rules: Some(brings.rules.clone()),
        };
        let draft = tempfile::Builder::new().prefix(DRAFT).tempdir_in(&self.folder)?;
        std::fs::create_dir(draft.path().join(CONTENT))?;
        wanted.content.write_to(&draft.path().join(CONTENT))?;
        let mut file = File::create_new(draft.path().join(RECORD))?;
        io::Write::write_all(&mut file, &serde_json::to_vec_pretty(&record)?)?;
        file.sync_all()?;
        File::open(draft.path())?.sync_all()?;
        if target.exists() {
            // Afterwards the draft has the earlier package, and goes with this value.
            renameat_with(CWD, draft.path(), CWD, &target, RenameFlags::EXCHANGE).map_err(io::Error::from)?;
        } else {
            std::fs::rename(draft.path(), &target)?;
        }
        File::open(&self.folder)?.sync_all()?;
        drop(draft);
        self.settle_plugins(store, now)
    }

    /// Removes a package, with everything that it has brought.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(crate) fn remove(&self, name: &str, store: &PluginStore, now: Timestamp) -> Result<(), Failure> {
        let _alone = self.alone()?;
        let draft = tempfile::Builder::new().prefix(DRAFT).tempdir_in(&self.folder)?;
        std::fs::rename(self.folder.join(name), draft.path().join("removed"))?;
        File::open(&self.folder)?.sync_all()?;
        self.settle_plugins(store, now)?;
        Ok(draft.close()?)
    }

    fn alone(&self) -> Result<FileLock, Failure> {
        let alone = FileLock::wait(self.lock()?, Kind::Exclusive, &"the packages");
        Ok(alone.map_err(io::Error::from)?)
    }
}

/// Reads a folder that is to become a package. Only the parts of packages are looked at.
///
/// # Errors
/// If it is too large, or has links.
pub(crate) fn read(folder: &Path) -> Result<PluginFolder, Failure> {
    PluginFolder::read_only_of(folder, is_part).map_err(|error| {
        Failure::usage(format!("{}: {}", tool::visible(&folder.display().to_string()), content::said(&error)))
    })
}

#[cfg(test)]
mod tests;
