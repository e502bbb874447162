//! The files that describe agents: those of the workspace, and those of the user.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use agents::{AgentDefinition, is_agent_name};

use crate::failure::Failure;
use crate::packages::Packages;

/// Folder of agents in a workspace.
pub(crate) const WORKSPACE_FOLDER: &str = ".handfast/agents";
/// Name of the folder of agents within that of the user's configuration.
const USER_FOLDER: &str = "agents";
/// Maximum number of bytes of a file that are read. The parser refuses shorter ones already.
const LARGEST: u64 = 1024 * 1024;

/// The folders with agents, those of the workspace first.
#[derive(Debug, Clone)]
pub(crate) struct AgentFiles {
    folders: Vec<PathBuf>,
    /// Packages, whose folders come last.
    packages: Option<Packages>,
}

/// An agent and its file.
#[derive(Debug, Clone)]
pub(crate) struct FoundAgent {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    pub(crate) definition: Result<AgentDefinition, String>,
}

impl AgentFiles {
    /// Names the folders of a workspace and of the user's configuration.
    pub(crate) fn of(workspace: &Path, configuration: Option<&Path>) -> Self {
        let user = configuration.map(|folder| folder.join(USER_FOLDER));
        let folders = [Some(workspace.join(WORKSPACE_FOLDER)), user].into_iter().flatten().collect();
        Self { folders, packages: None }
    }

    /// Adds the folders of packages, which come last. Packages come and go while a server runs.
    pub(crate) fn and(self, packages: Option<Packages>) -> Self {
        Self { packages, ..self }
    }

    fn folders(&self) -> Vec<PathBuf> {
        let of_packages = self.packages.as_ref().map(Packages::agents).unwrap_or_default();
        self.folders.iter().cloned().chain(of_packages).collect()
    }

    /// Returns the agent of this name. One of the workspace comes before one of the user.
    ///
    /// # Errors
    /// If there is none, or its file is wrong.
    pub(crate) fn find(&self, name: &str) -> Result<FoundAgent, Failure> {
        if is_agent_name(name) {
            for folder in self.folders() {
                let file = folder.join(format!("{name}.md"));
                match read(&file) {
                    Ok(text) => {
                        let definition = AgentDefinition::parse(name, &text).map_err(|error| error.fault);
                        return Ok(FoundAgent { name: name.to_owned(), file, definition });
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => {
                        return Err(Failure::usage(format!("cannot read {}: {error}", file.display())));
                    }
                }
            }
        }
        let all = self.all();
        let names: Vec<&str> = all.iter().map(|found| found.name.as_str()).collect();
        let hint = match tool::nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.is_empty() => {
                format!("an agent is a file {WORKSPACE_FOLDER}/NAME.md: docs/AGENTS.md")
            }
            None => format!("there are {}", names.join(", ")),
        };
        Err(Failure::usage(format!("there is no agent `{name}`; {hint}")))
    }

    /// Returns all agents by name, those with wrong files too.
    pub(crate) fn all(&self) -> Vec<FoundAgent> {
        let mut found: Vec<FoundAgent> = Vec::new();
        for folder in self.folders() {
            let Ok(entries) = std::fs::read_dir(folder) else { continue };
            for entry in entries.flatten().take(1_000) {
                let file = entry.path();
                let Some(name) = file.file_stem().and_then(|stem| stem.to_str()) else { continue };
                let is_agent = file.extension().is_some_and(|extension| extension == "md")
                    && is_agent_name(name)
                    && !found.iter().any(|known| known.name == name);
                if !is_agent {
                    continue;
                }
                let definition = read(&file)
                    .map_err(|error| error.to_string())
                    .and_then(|text| AgentDefinition::parse(name, &text).map_err(|error| error.fault));
                found.push(FoundAgent { name: name.to_owned(), file: file.clone(), definition });
            }
        }
        found.sort_by(|one, two| one.name.cmp(&two.name));
        found
    }
}

/// Reads a regular file. A file that only looks like one, such as a FIFO, does not hang the program.
fn read(path: &Path) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_of_the_workspace_comes_before_one_of_the_user_and_a_wrong_one_is_named() {
        let (workspace, user) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let own = workspace.path().join(WORKSPACE_FOLDER);
        let of_user = user.path().join(USER_FOLDER);
        std::fs::create_dir_all(&own).unwrap();
        std::fs::create_dir_all(&of_user).unwrap();
        std::fs::write(own.join("reviewer.md"), "---\ndescription: ours\n---\n").unwrap();
        std::fs::write(of_user.join("reviewer.md"), "---\ndescription: mine\n---\n").unwrap();
        std::fs::write(of_user.join("broken.md"), "no front matter").unwrap();
        std::fs::write(of_user.join("notes.txt"), "").unwrap();
        std::fs::create_dir(of_user.join("folder.md")).unwrap();
        let files = AgentFiles::of(workspace.path(), Some(user.path()));
        let found = files.find("reviewer").unwrap();
        assert_eq!(found.definition.unwrap().description, "ours");
        let names: Vec<_> =
            files.all().into_iter().map(|found| (found.name, found.definition.is_ok())).collect();
        let expected = [("broken", false), ("folder", false), ("reviewer", true)];
        assert_eq!(names, expected.map(|(name, is_right)| (name.to_owned(), is_right)));
        let problem = |name: &str| files.find(name).err().unwrap().error.to_string();
        assert!(problem("reviwer").contains("did you mean `reviewer`"), "{}", problem("reviwer"));
        assert!(problem("../reviewer").contains("no agent"), "{}", problem("../reviewer"));
        assert!(files.find("broken").unwrap().definition.is_err());
        assert!(problem("folder").contains("regular"), "{}", problem("folder"));
    }
}
