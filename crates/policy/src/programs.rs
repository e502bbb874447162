//! Lookup of the programs of a cell, as the caller provides it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Function that finds the file of a bare program name: first in the search path of the cells, then
/// in these folders.
type Find = dyn Fn(&str, &[PathBuf]) -> Option<ProgramFile> + Send + Sync;

/// Folders with a project's own programs, below any of its folders.
const OF_PROJECTS: [&str; 3] = [".venv/bin", "venv/bin", "node_modules/.bin"];

/// Maximum number of folders, from a command's upwards, that are searched.
const MAX_ABOVE: usize = 32;

/// Returns the folders in which a command that starts in `directory` finds programs of the project,
/// nearest first.
///
/// These are the folders below its own directory and below each parent, up to the workspace. They
/// come after the search path, so that no file of the workspace replaces a program of the machine.
pub fn project_folders(directory: &Path, workspace: &Path) -> Vec<PathBuf> {
    let within = directory.ancestors().take_while(|folder| folder.starts_with(workspace));
    within.take(MAX_ABOVE).flat_map(|folder| OF_PROJECTS.map(|part| folder.join(part))).collect()
}

/// Resolution of program names, so that a rule for `ls` never covers another program with that name.
///
/// The policy looks up nothing itself: the code that composes the runtime knows the search path of
/// its cells.
#[derive(Clone, Default)]
pub enum Programs {
    /// Names cannot be resolved: only the shell's own commands pass by a rule.
    #[default]
    Unknown,
    /// All bare names count as a program in a folder that no call can write, and no path counts
    /// as a program. For tests.
    Presumed,
    /// The function looks up the name.
    Found(Arc<Find>),
}

/// File that a name leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFile {
    /// Path of the file, as the search path gives it.
    pub path: PathBuf,
    /// True if a call could have put the file there: it lies in a folder that commands or file
    /// tools can write.
    pub in_writable_place: bool,
    /// True if the file is a program of the project, which lies in no folder of the search path.
    /// Calls can write it.
    pub of_project: bool,
    /// True if the file is a launcher: it starts the version of a program that a file of the
    /// current folder names.
    pub is_launcher: bool,
}

impl fmt::Debug for Programs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Programs::Unknown => "Unknown",
            Programs::Presumed => "Presumed",
            Programs::Found(_) => "Found",
        })
    }
}

/// Commands that the shell implements itself, so that no file is searched.
const BUILTINS: [&str; 19] = [
    ":", "[", "[[", "break", "cd", "command", "continue", "echo", "exit", "export", "false", "printf", "pwd",
    "read", "return", "set", "test", "true", "type",
];

impl Programs {
    /// Returns true if the bare name leads to a launcher, so that the name does not identify the
    /// program that runs.
    pub(crate) fn is_launcher(&self, base: &str) -> bool {
        match self {
            Programs::Found(find) if !BUILTINS.contains(&base) => {
                find(base, &[]).is_some_and(|file| file.is_launcher)
            }
            Programs::Unknown | Programs::Presumed | Programs::Found(_) => false,
        }
    }

    /// Returns true if the name leads to a program of the project for a command that starts in this
    /// directory.
    pub(crate) fn is_of_project(&self, named: &str, directory: &Path, workspace: &Path) -> bool {
        match self {
            Programs::Found(find) if !named.contains('/') && !BUILTINS.contains(&named) => {
                find(named, &project_folders(directory, workspace)).is_some_and(|file| file.of_project)
            }
            Programs::Unknown | Programs::Presumed | Programs::Found(_) => false,
        }
    }

    /// Returns the base name of the program, if the written name certainly leads to it.
    ///
    /// # Errors
    /// Returns the reason if it does not.
    pub(crate) fn resolve<'a>(
        &self,
        named: &'a str,
        is_writable: impl Fn(&Path) -> bool,
    ) -> Result<&'a str, &'static str> {
        let (base, with_path) = match named.rsplit_once('/') {
            Some((_, base)) => (base, true),
            None => (named, false),
        };
        if !with_path && BUILTINS.contains(&base) {
            return Ok(base);
        }
        match self {
            Programs::Unknown => Err("the location of its program is unknown"),
            Programs::Presumed if with_path => Err("its program is named by a path"),
            Programs::Presumed => Ok(base),
            Programs::Found(find) => match find(base, &[]) {
                None => Err("its program is not in the search path"),
                Some(file) if file.in_writable_place || is_writable(&file.path) => {
                    Err("a call could have written its program")
                }
                Some(file) if with_path && file.path != Path::new(named) => {
                    Err("its program is named by a path that differs from the search path")
                }
                Some(_) => Ok(base),
            },
        }
    }
}
