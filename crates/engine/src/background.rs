//! What is different for a command that runs on when its call has been answered: it changes the workspace at once, and
//! nothing of it can be held back for an approval.

use std::fs;
use std::path::{Path, PathBuf};

use policy::{Entry, auto_run};
use sandbox::CellSpec;

/// Makes read-only in the cell what a later program would run, as far as it is there.
pub(crate) fn freeze_auto_run(spec: &mut CellSpec) {
    let roots: Vec<PathBuf> = std::iter::once(&spec.workspace).chain(&spec.read_write).cloned().collect();
    for root in roots {
        freeze_below(&root, &root, spec);
    }
}

/// The same below a folder of `root`: whole folders where any file in them is such a one, so that none is added either.
fn freeze_below(root: &Path, folder: &Path, spec: &mut CellSpec) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        let Ok(relative) = path.strip_prefix(root) else { continue };
        let is_run = |path: &Path| auto_run(path, Entry::File, &is_repository(root)).is_some();
        if kind.is_file() && is_run(relative) || kind.is_dir() && is_run(&relative.join("any")) {
            spec.frozen.push(path);
        } else if kind.is_dir() {
            freeze_below(root, &path, spec);
        }
    }
}

/// Whether a folder, named from `root`, holds a bare repository.
fn is_repository(root: &Path) -> impl Fn(&Path) -> bool {
    move |folder| root.join(folder).join("HEAD").is_file() && root.join(folder).join("objects").is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_later_program_would_run_is_read_only_in_the_background() {
        let root = tempfile::tempdir().unwrap();
        for file in [
            ".git/hooks/pre-commit.sample",
            ".git/config",
            ".git/HEAD",
            ".vscode/tasks.json",
            "a/.envrc",
            "a/b.rs",
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let mut spec = CellSpec { workspace: root.path().to_owned(), ..CellSpec::default() };
        freeze_auto_run(&mut spec);
        spec.frozen.sort();
        let expected =
            [".git/config", ".git/hooks", ".vscode", "a/.envrc"].map(|path| root.path().join(path));
        assert_eq!(spec.frozen, expected);
    }
}
