//! Where the programs of a cell lie, as far as the caller says.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Finds the file that a bare name of a program leads to: in the search path of the cells, else in these folders behind it.
type Find = dyn Fn(&str, &[PathBuf]) -> Option<ProgramFile> + Send + Sync;

/// Where a project has programs of its own, below any of its folders.
const OF_PROJECTS: [&str; 2] = [".venv/bin", "node_modules/.bin"];

/// Folders above a command's are not looked at beyond this many.
const MOST_ABOVE: usize = 32;

/// The folders in which a command that starts in `directory` finds programs of the project, nearest first: those of its own
/// folder and of each one above it, up to the workspace. They stand behind the search path, so that no file of the workspace
/// takes the place of a program of the machine.
pub fn project_folders(directory: &Path, workspace: &Path) -> Vec<PathBuf> {
    let within = directory.ancestors().take_while(|folder| folder.starts_with(workspace));
    within.take(MOST_ABOVE).flat_map(|folder| OF_PROJECTS.map(|part| folder.join(part))).collect()
}

/// How a name of a program is resolved, so that a rule for `ls` never covers another program of that name.
///
/// The policy looks nothing up by itself: who composes the runtime knows the search path of its cells.
#[derive(Clone, Default)]
pub enum Programs {
    /// No name can be resolved: nothing but the shell's own commands passes by a rule.
    #[default]
    Unknown,
    /// Every bare name is taken to lie in a folder that no call can write, and no path is taken for a program. For tests.
    Presumed,
    /// The function looks the name up.
    Found(Arc<Find>),
}

/// The file that a name leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFile {
    /// The file, as the search path names it.
    pub path: PathBuf,
    /// Whether a call could have put it there: it lies in a folder that commands or file tools write.
    pub in_writable_place: bool,
    /// Whether it is a program of the project, which lies in none of the folders of the search path. Calls can write it.
    pub of_project: bool,
    /// Whether it is a launcher: it starts the version of a program that a file of the current folder names.
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

/// Commands that the shell itself has: no file is looked for.
const BUILTINS: [&str; 19] = [
    ":", "[", "[[", "break", "cd", "command", "continue", "echo", "exit", "export", "false", "printf", "pwd",
    "read", "return", "set", "test", "true", "type",
];

impl Programs {
    /// Whether the bare name leads to a launcher, so that the name says nothing about what runs.
    pub(crate) fn is_launcher(&self, base: &str) -> bool {
        match self {
            Programs::Found(find) if !BUILTINS.contains(&base) => {
                find(base, &[]).is_some_and(|file| file.is_launcher)
            }
            Programs::Unknown | Programs::Presumed | Programs::Found(_) => false,
        }
    }

    /// Whether the name leads to a program of the project for a command that starts in this directory.
    pub(crate) fn is_of_project(&self, named: &str, directory: &Path, workspace: &Path) -> bool {
        match self {
            Programs::Found(find) if !named.contains('/') && !BUILTINS.contains(&named) => {
                find(named, &project_folders(directory, workspace)).is_some_and(|file| file.of_project)
            }
            Programs::Unknown | Programs::Presumed | Programs::Found(_) => false,
        }
    }

    /// The base name of the program, where the name that is written leads to it for certain.
    ///
    /// # Errors
    /// Why it does not.
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
            Programs::Unknown => Err("it is not known where its program lies"),
            Programs::Presumed if with_path => Err("its program is named by a path"),
            Programs::Presumed => Ok(base),
            Programs::Found(find) => match find(base, &[]) {
                None => Err("its program is not in the search path"),
                Some(file) if file.in_writable_place || is_writable(&file.path) => {
                    Err("its program lies where a call could have written it")
                }
                Some(file) if with_path && file.path != Path::new(named) => {
                    Err("its program is named by a path that is not the one of the search path")
                }
                Some(_) => Ok(base),
            },
        }
    }
}
