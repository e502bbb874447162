//! A program, as a cell shows it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::spec::CellSpec;
use crate::system::SEARCH_PATH;

/// State of the program that the first word of a command names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundProgram {
    /// The cell shows it.
    Shown,
    /// The cell covers it, because a rule denies it.
    Denied,
    /// No folder of the search path has it.
    Missing,
}

impl FoundProgram {
    /// Looks for the program that a command of this first word would run in a cell.
    pub fn of(word: &str, cell: &CellSpec) -> Self {
        let candidates: Vec<PathBuf> = if word.contains('/') {
            vec![PathBuf::from(word)]
        } else if cell.search_path.is_empty() {
            std::env::split_paths(SEARCH_PATH).map(|folder| folder.join(word)).collect()
        } else {
            cell.search_path.iter().map(|folder| folder.join(word)).collect()
        };
        let Some(found) = candidates.into_iter().find(|path| is_program(path)) else {
            return Self::Missing;
        };
        let real = fs::canonicalize(&found).unwrap_or_else(|_| found.clone());
        let is_covered = |path: &PathBuf| *path == found || *path == real;
        if cell.masked.iter().chain(&cell.covered).any(is_covered) { Self::Denied } else { Self::Shown }
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_shown_denied_or_missing() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("made");
        fs::write(&program, "").unwrap();
        let cell = CellSpec { search_path: vec![folder.path().to_owned()], ..CellSpec::default() };
        let absolute = program.to_str().unwrap();
        for word in ["made", "other", absolute] {
            assert_eq!(FoundProgram::of(word, &cell), FoundProgram::Missing, "{word}");
        }
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        for word in ["made", absolute] {
            assert_eq!(FoundProgram::of(word, &cell), FoundProgram::Shown, "{word}");
        }
        let covering = CellSpec { masked: vec![fs::canonicalize(&program).unwrap()], ..cell };
        assert_eq!(FoundProgram::of("made", &covering), FoundProgram::Denied);
    }
}
