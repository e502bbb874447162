//! The programs behind wrappers on the search path.
//!
//! Managers of versions (pyenv, asdf, mise) put scripts named `python3` or `node` on the search path, which look for
//! the program that is meant. That takes longer than a script of `run_code`, so it is done once.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// Maximum number of known wrappers.
const MOST: usize = 16;

/// The programs that wrappers have started.
#[derive(Debug, Default)]
pub(crate) struct RealPrograms(Mutex<HashMap<PathBuf, PathBuf>>);

impl RealPrograms {
    /// Returns the program that this wrapper has started, if it still exists.
    pub(crate) fn behind(&self, wrapper: &Path) -> Option<PathBuf> {
        let mut known = self.0.lock();
        let real = known.get(wrapper)?.clone();
        if !is_program(&real) {
            known.remove(wrapper);
            return None;
        }
        Some(real)
    }

    /// Records the program that a wrapper has started.
    pub(crate) fn note(&self, wrapper: PathBuf, real: PathBuf) {
        let mut known = self.0.lock();
        if real.is_absolute() && is_program(&real) && known.len() < MOST {
            known.insert(wrapper, real);
        }
    }
}

/// Returns the program of this name that the search path leads to, if it is a script.
pub(crate) fn wrapper(search_path: &[PathBuf], name: &str) -> Option<PathBuf> {
    let found = search_path.iter().map(|folder| folder.join(name)).find(|path| is_program(path))?;
    let mut begin = [0_u8; 2];
    File::open(&found).ok()?.read_exact(&mut begin).ok()?;
    (begin == *b"#!").then_some(found)
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(path: &Path, content: &str) {
        fs::write(path, content).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn only_a_script_is_a_wrapper_and_only_a_program_is_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        for path in [&first, &second] {
            fs::create_dir(path).unwrap();
        }
        fs::write(first.join("python3"), "#!/bin/sh\n").unwrap();
        program(&second.join("python3"), "\x7fELF");
        let path = [first.clone(), second.clone()];
        assert_eq!(wrapper(&path, "python3"), None, "the first one is no program");
        program(&first.join("python3"), "#!/bin/sh\n");
        assert_eq!(wrapper(&path, "python3"), Some(first.join("python3")));
        let programs = RealPrograms::default();
        for wrong in ["python3".into(), first.clone(), first.join("nothing")] {
            programs.note(first.join("python3"), wrong);
            assert_eq!(programs.behind(&first.join("python3")), None);
        }
        programs.note(first.join("python3"), second.join("python3"));
        assert_eq!(programs.behind(&first.join("python3")), Some(second.join("python3")));
        fs::remove_file(second.join("python3")).unwrap();
        assert_eq!(programs.behind(&first.join("python3")), None, "the version was removed");
    }
}
