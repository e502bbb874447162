//! Packages: folders with skills, agents, plugins, MCP servers and rules, which the user has added.
//!
//! Each package is one folder in the state, with its record and its content. It comes and goes by one rename, so a
//! process that is killed leaves the earlier state, and at most a draft that the next one removes. The content counts
//! only as long as it has the hash of the record.

#[cfg(feature = "cli")]
mod changes;
pub(crate) mod content;
#[cfg(feature = "cli")]
pub(crate) mod fetched;

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use locks::FileLock;
use plugins::{PluginFolder, PluginStore};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::report::Warn;
#[cfg(feature = "cli")]
pub(crate) use changes::{NewPackage, read};
use content::Brings;

/// Folder of the packages in the state.
const FOLDER: &str = "packages";
/// Name of the record in the folder of a package.
const RECORD: &str = "package.json";
/// Name of the content in the folder of a package.
const CONTENT: &str = "content";
/// Prefix of a folder that is being made or removed.
const DRAFT: &str = ".draft-";
/// Version of the record.
const VERSION: u32 = 1;

/// Record of a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    version: u32,
    pub(crate) name: String,
    /// Folder or address from which the package came.
    pub(crate) source: String,
    /// Commit, if it came from a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) commit: Option<String>,
    /// Hash of the content that the user has allowed.
    pub(crate) hash: String,
    pub(crate) added_at: Timestamp,
    /// Hashes of the plugins by the names of their folders.
    #[serde(default)]
    plugins: BTreeMap<String, String>,
    /// Rules that the user has allowed. They deny, so they stay in force if the content is damaged.
    #[serde(default)]
    rules: Option<Map<String, Value>>,
}

/// Package whose record cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DamagedPackage {
    pub(crate) name: String,
    pub(crate) problem: String,
}

impl DamagedPackage {
    /// Returns what to tell its user.
    pub(crate) fn message(&self) -> String {
        let name = tool::visible(&self.name);
        format!(
            "the record of the package {name} is damaged ({}), so its rules that deny are not known; `handfast remove {name}` removes it, and `handfast add` brings it back",
            self.problem
        )
    }
}

/// Package that the user has added.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    pub(crate) record: Record,
    /// Folder of the content.
    pub(crate) content: PathBuf,
}

impl Package {
    /// Reads the content as it is now.
    ///
    /// # Errors
    /// If it cannot be read, or is not what the user has allowed.
    pub(crate) fn read(&self) -> Result<PluginFolder, String> {
        let name = &self.record.name;
        let read = PluginFolder::read(&self.content);
        let read =
            read.map_err(|error| format!("the package {name} is not used: {}", content::said(&error)))?;
        if read.hash != self.record.hash {
            return Err(format!(
                "the package {name} is not used: its files have changed since you added it; `handfast remove {name}` and `handfast add` bring it back"
            ));
        }
        Ok(read)
    }

    /// Returns what the package brings, if its content is what the user has allowed.
    ///
    /// # Errors
    /// If it is not.
    pub(crate) fn brings(&self) -> Result<Brings, String> {
        let brings = Brings::of(&self.read()?);
        brings.map_err(|problem| format!("the package {} is not used: {problem}", self.record.name))
    }

    /// Returns a folder of the content, by its name.
    pub(crate) fn folder(&self, part: &str) -> PathBuf {
        self.content.join(part)
    }
}

/// Parts of all packages that a runtime uses.
#[derive(Debug, Default)]
pub(crate) struct PackageParts {
    /// Folders of skills.
    pub(crate) skills: Vec<PathBuf>,
    /// MCP servers by name.
    pub(crate) servers: Map<String, Value>,
    /// Rules, each with the name of the package.
    pub(crate) rules: Vec<(String, Map<String, Value>)>,
}

/// Folder with the packages of a user.
#[derive(Debug, Clone)]
pub(crate) struct Packages {
    folder: PathBuf,
}

impl Packages {
    /// Names the folder of the packages within a state folder.
    pub(crate) fn of(state: &Path) -> Self {
        Self { folder: state.join(FOLDER) }
    }

    /// Returns the folder of all packages, which changes when one comes or goes.
    pub(crate) fn folder_in(state: &Path) -> PathBuf {
        state.join(FOLDER)
    }

    /// Returns true if a path lies in the folder of the packages.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        path.starts_with(&self.folder)
    }

    /// Returns the folder of the package of this name, which need not exist.
    #[cfg(feature = "cli")]
    pub(crate) fn folder_of(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns all packages by name, without those whose records cannot be read.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub(crate) fn all(&self) -> Result<Vec<Package>, Failure> {
        Ok(self.each()?.into_iter().flatten().collect())
    }

    /// Returns the packages whose records cannot be read.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub(crate) fn damaged(&self) -> Result<Vec<DamagedPackage>, Failure> {
        Ok(self.each()?.into_iter().filter_map(Result::err).collect())
    }

    fn each(&self) -> Result<Vec<Result<Package, DamagedPackage>>, Failure> {
        let mut names: Vec<PathBuf> = Vec::new();
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            let entry = entry?;
            let is_package =
                entry.file_type()?.is_dir() && !entry.file_name().as_encoded_bytes().starts_with(b".");
            if is_package {
                names.push(entry.path());
            }
        }
        names.sort();
        Ok(names.into_iter().map(|folder| package(&folder)).collect())
    }

    /// Returns the parts of all packages whose content is what the user has allowed. Tells about the others, of which
    /// the rules alone count, since they deny.
    ///
    /// # Errors
    /// If the rules of a package are not known. Nothing may run without them.
    pub(crate) fn parts(&self, ignores_files: bool, warn: Warn) -> Result<PackageParts, Failure> {
        let mut parts = PackageParts::default();
        if ignores_files {
            return Ok(parts);
        }
        for package in self.each()? {
            let package = package.map_err(|damaged| Failure::from(damaged.message()))?;
            let name = &package.record.name;
            let brings = match package.brings() {
                Ok(brings) => brings,
                Err(problem) => {
                    let known = package.record.rules.clone().ok_or_else(|| problem.clone());
                    let rules = known.and_then(content::checked_rules).map_err(|error| {
                        Failure::from(format!("{problem}; its rules that deny are not known ({error})"))
                    })?;
                    let stay = if rules.is_empty() { "" } else { ". Its rules stay in force" };
                    warn(&format!("{problem}{stay}"));
                    if !rules.is_empty() {
                        parts.rules.push((name.clone(), rules));
                    }
                    continue;
                }
            };
            if !brings.skills.is_empty() {
                parts.skills.push(package.folder(content::SKILLS));
            }
            for (server_name, mut server) in brings.servers {
                if let Some(entry) = server.as_object_mut() {
                    let own = json!({"folder": package.content, "hash": package.record.hash});
                    entry.insert(tools_mcp::PACKAGE_KEY.to_owned(), own);
                }
                parts.servers.entry(server_name).or_insert(server);
            }
            if !brings.rules.is_empty() {
                parts.rules.push((name.clone(), brings.rules));
            }
        }
        Ok(parts)
    }

    /// Returns the folders of agents of the packages whose content is what the user has allowed.
    pub(crate) fn agents(&self) -> Vec<PathBuf> {
        let all = self.all().unwrap_or_default().into_iter();
        let usable = all.filter(|package| package.brings().is_ok_and(|brings| !brings.agents.is_empty()));
        usable.map(|package| package.folder(content::AGENTS)).collect()
    }

    /// Removes what a killed process has left, and makes the state of plugins agree with the packages. Does nothing
    /// while another process works on the packages.
    ///
    /// # Errors
    /// If the folder cannot be read or written.
    pub(crate) fn settle(&self, store: &PluginStore, now: Timestamp) -> Result<(), Failure> {
        if !self.folder.exists() {
            return Ok(());
        }
        let Some(_alone) = FileLock::try_alone(self.lock()?)? else { return Ok(()) };
        self.remove_drafts()?;
        self.settle_plugins(store, now)
    }

    /// Makes the plugins of all packages tools in the form that the user has allowed, and forgets those of packages
    /// that are gone. A plugin that the user has disabled stays so.
    fn settle_plugins(&self, store: &PluginStore, now: Timestamp) -> Result<(), Failure> {
        let stored = store.all()?;
        let mut wanted = BTreeMap::new();
        for package in self.all()? {
            for (name, hash) in &package.record.plugins {
                wanted.insert(package.folder(content::PLUGINS).join(name), hash.clone());
            }
        }
        let damaged = self.damaged()?;
        let is_known = |folder: &Path| {
            damaged.iter().all(|package| !folder.starts_with(self.folder.join(&package.name)))
        };
        for plugin in stored.iter().filter(|plugin| self.contains(&plugin.folder)) {
            if !wanted.contains_key(&plugin.folder) && is_known(&plugin.folder) {
                store.forget(&plugin.folder)?;
            }
        }
        for (folder, hash) in wanted {
            let known = stored.iter().find(|plugin| plugin.folder == folder);
            if known.is_some_and(|plugin| plugin.state.hash == hash || !plugin.state.is_enabled) {
                continue;
            }
            let content = PluginFolder::read(&folder).ok().filter(|content| content.hash == hash);
            if let Some((content, manifest)) = content.and_then(|content| {
                let manifest = content.manifest().ok()?;
                Some((content, manifest))
            }) {
                store.enable(&manifest.name, &content, now)?;
            }
        }
        Ok(())
    }

    fn remove_drafts(&self) -> Result<(), Failure> {
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(DRAFT.as_bytes()) {
                std::fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    fn lock(&self) -> io::Result<File> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        File::options().create(true).append(true).open(self.folder.join(".lock"))
    }
}

/// Reads the record of a package.
fn package(folder: &Path) -> Result<Package, DamagedPackage> {
    let damaged = |problem: &dyn std::fmt::Display| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        DamagedPackage { name, problem: tool::visible(&problem.to_string()) }
    };
    let text = std::fs::read(folder.join(RECORD)).map_err(|error| damaged(&error))?;
    let record: Record = serde_json::from_slice(&text).map_err(|error| damaged(&error))?;
    if record.version != VERSION {
        return Err(damaged(&format_args!("version {}", record.version)));
    }
    if Some(record.name.as_ref()) != folder.file_name() {
        return Err(damaged(&"it names another package"));
    }
    Ok(Package { record, content: folder.join(CONTENT) })
}
