//! The expected state of the workspace, as far as one worker changes it.
//!
//! Each worker has its own folder and table, so its model is exact while others call at the same time.

use std::collections::BTreeMap;
use std::path::Path;

use crate::command::{Failure, Result};

/// The files and rows of one worker.
pub(super) struct Model {
    /// Name of the worker's folder and table.
    pub(super) name: String,
    /// Content of each file in the folder, by name.
    pub(super) files: BTreeMap<String, String>,
    pub(super) rows: Vec<String>,
    /// Files of interrupted calls, outside the folder.
    broken: Vec<Broken>,
}

/// The files of one interrupted call: all in the state `before`, or all in the state `after`.
pub(super) struct Broken {
    pub(super) before: Vec<(String, Option<String>)>,
    pub(super) after: Vec<(String, Option<String>)>,
}

impl Model {
    pub(super) fn new(name: String) -> Self {
        Self { name, files: BTreeMap::new(), rows: Vec::new(), broken: Vec::new() }
    }

    /// Returns the path of a file for the tools.
    pub(super) fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.name)
    }

    pub(super) fn broke_off(&mut self, broken: Broken) {
        self.broken.push(broken);
    }

    /// Compares the workspace with the model. Every process must have ended, and one must have
    /// started since, which cleans up.
    pub(super) fn verify(&self, workspace: &Path) -> Result<()> {
        let content = |path: &str| std::fs::read_to_string(workspace.join(path)).ok();
        for (file, expected) in &self.files {
            let path = self.path(file);
            let found = content(&path);
            if found.as_ref() != Some(expected) {
                return Err(Failure(format!("LOST CHANGE: {path} is {found:?} and must be {expected:?}")));
            }
        }
        let listed = std::fs::read_dir(workspace.join(&self.name)).into_iter().flatten().flatten();
        let mut extra = listed.map(|entry| entry.file_name().to_string_lossy().into_owned());
        if let Some(name) = extra.find(|name| !self.files.contains_key(name)) {
            return Err(Failure(format!("{} is there and must not be", self.path(&name))));
        }
        let holds =
            |state: &[(String, Option<String>)]| state.iter().all(|(path, text)| content(path) == *text);
        match self.broken.iter().find(|broken| !holds(&broken.before) && !holds(&broken.after)) {
            None => Ok(()),
            Some(broken) => {
                let found: Vec<_> = broken.after.iter().map(|(path, _)| (path, content(path))).collect();
                Err(Failure(format!(
                    "HALF DONE: {found:?}, before {:?}, after {:?}",
                    broken.before, broken.after
                )))
            }
        }
    }
}

/// A generator of pseudorandom numbers, so that a seed repeats a run.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns a number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or_default() % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(model: &Model, files: &[(&str, &str)]) -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            crate::command::write(&folder.path().join(path), text).unwrap();
        }
        model.verify(folder.path())
    }

    #[test]
    fn a_lost_a_changed_and_an_unexpected_file_are_found() {
        let mut model = Model::new("w0".into());
        model.files.insert("a".into(), "1".into());
        written(&model, &[("w0/a", "1")]).unwrap();
        assert!(written(&model, &[]).unwrap_err().0.starts_with("LOST CHANGE: w0/a"));
        assert!(written(&model, &[("w0/a", "2")]).unwrap_err().0.starts_with("LOST CHANGE: w0/a"));
        let failure = written(&model, &[("w0/a", "1"), ("w0/b", "")]).unwrap_err();
        assert_eq!(failure.0, "w0/b is there and must not be");
    }

    #[test]
    fn a_call_that_was_broken_off_is_whole_or_absent() {
        let mut model = Model::new("w0".into());
        let state =
            |text: Option<&str>| ["lost/a", "lost/b"].map(|path| (path.into(), text.map(str::to_owned)));
        model.broke_off(Broken { before: state(None).into(), after: state(Some("x")).into() });
        written(&model, &[]).unwrap();
        written(&model, &[("lost/a", "x"), ("lost/b", "x")]).unwrap();
        assert!(written(&model, &[("lost/a", "x")]).unwrap_err().0.starts_with("HALF DONE"));
    }

    #[test]
    fn a_seed_repeats_its_numbers() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            (0..20).map(|_| random.below(6)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert!(numbers(7).iter().all(|number| *number < 6));
    }
}
