//! Texts that the program generates from its own command line: completions and man pages.

use std::path::Path;
use std::process::Command;

use crate::archive::Entry;
use crate::command::{Failure, Result, capture, run};
use crate::product::NAME;
use crate::program::Program;

/// The generated texts, which are equal for all targets.
pub(crate) struct Texts {
    pub(crate) bash: String,
    pub(crate) fish: String,
    pub(crate) zsh: String,
    /// The man pages, sorted by name.
    pub(crate) pages: Vec<Entry>,
}

impl Texts {
    /// Runs one of the programs, which must be of this machine's architecture.
    pub(crate) fn of_one(programs: &[Program]) -> Result<Self> {
        let program = programs.iter().find(|program| program.runs_here()).ok_or_else(|| {
            Failure::new("completions and man pages come from a program that runs on this machine; build its target too")
        })?;
        let completions = |shell| capture(Command::new(&program.path).args(["completions", shell]));
        Ok(Self {
            bash: completions("bash")?,
            fish: completions("fish")?,
            zsh: completions("zsh")?,
            pages: pages(&program.path)?,
        })
    }
}

fn pages(program: &Path) -> Result<Vec<Entry>> {
    let failed = |error: std::io::Error| Failure(format!("cannot read the man pages: {error}"));
    let folder = tempfile::tempdir().map_err(failed)?;
    run(Command::new(program).arg("man-pages").arg(folder.path()))?;
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(folder.path()).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let bytes = std::fs::read(entry.path()).map_err(failed)?;
        pages.push(Entry::file(entry.file_name().to_string_lossy(), bytes));
    }
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    if pages.iter().all(|page| page.path != format!("{NAME}.1")) {
        return Err(Failure::new("the program wrote no man page of itself"));
    }
    Ok(pages)
}
