//! Files through which a later program would run code: git hooks and configuration, folders of editors and
//! agents, shell start-up files. Every change to one is asked about, whatever the mode says.

mod git_config;
mod table;

use std::ffi::OsStr;
use std::path::Path;

use crate::path::fold;

pub use git_config::{GitSetting, git_settings};

/// Requirement for a change to a file through which a later program would run code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoRun {
    /// A separate approval, whatever the content. The text names the program that would run the file.
    Any(&'static str),
    /// A separate approval if git's use of the file requires it, for one of git's own files. The
    /// text names that use.
    Git(&'static str),
}

/// Known kind of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// A file.
    File,
    /// A link, which may lead to a folder.
    Link,
    /// A folder alone; its content is decided separately.
    Folder,
    /// Possibly a folder with everything in it.
    Tree,
}

/// Returns the requirement for a change to the entry at `path`, which is relative to a root.
///
/// Names are compared without regard to case, because some file systems do not distinguish it.
/// `is_repository` reports whether a folder contains a bare repository, whatever its name (`HEAD`
/// and `objects` are in it).
pub fn auto_run(path: &Path, entry: Entry, is_repository: &dyn Fn(&Path) -> bool) -> Option<AutoRun> {
    let names: Vec<String> =
        path.components().map(|name| fold(name.as_os_str()).to_string_lossy().into_owned()).collect();
    let last = names.len().checked_sub(1)?;
    if let Some(why) = table::find(&names, entry == Entry::Folder) {
        return Some(AutoRun::Any(why));
    }
    for (index, name) in names.iter().enumerate() {
        // A folder's own entry does not yet reveal its content.
        if name == ".git" && (index < last || entry != Entry::Folder) {
            return in_repository(&names[index + 1..], entry);
        }
    }
    if entry == Entry::Folder {
        return None;
    }
    if names.get(last)? == ".gitmodules" {
        return Some(AutoRun::Git("git runs the programs in it"));
    }
    path.ancestors()
        .skip(1)
        .zip(1..)
        // In a repository, only `hooks/NAME` and `config` matter here, so no deeper file does.
        .take(2)
        .filter(|(folder, _)| could_matter(&names[names.len().saturating_sub(2)..]) && is_repository(folder))
        .find_map(|(_, depth)| in_repository(&names[names.len() - depth..], entry))
}

/// Returns true if an entry of this name, or one in a folder of this name, could be one that
/// [`auto_run`] finds. Otherwise it is one only if the folders above make it one.
pub fn may_auto_run(name: &OsStr) -> bool {
    let folded = fold(name);
    let Some(name) = folded.to_str() else { return false };
    IN_REPOSITORIES.contains(&name) || table::may_match(name)
}

/// Names in a repository, and its own, by which [`in_repository`] decides.
const IN_REPOSITORIES: &[&str] = &[
    ".git",
    ".gitmodules",
    "hooks",
    "config",
    "config.worktree",
    "commondir",
    "modules",
    "worktrees",
    "rebase-merge",
    "git-rebase-todo",
    "strategy",
    "sequencer",
    "todo",
    "remotes",
    "branches",
];

fn could_matter(names: &[String]) -> bool {
    names.iter().any(|name| ["hooks", "config", "config.worktree", "commondir"].contains(&name.as_str()))
}

/// Decides an entry of a repository's folder, by its names below the folder. No names mean the
/// folder's own entry.
fn in_repository(names: &[String], entry: Entry) -> Option<AutoRun> {
    if entry == Entry::Folder {
        return None;
    }
    if entry == Entry::Link {
        return Some(AutoRun::Any("git follows it"));
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if entry == Entry::Tree && matches!(names.first(), None | Some(&"modules" | &"worktrees")) {
        // A folder that is moved here brings all its content.
        return Some(HOOK);
    }
    match *names.as_slice() {
        // `.git` as a file names the place of the repository.
        [] => Some(AutoRun::Git("it points git to a repository")),
        // The name of a submodule's repository may contain slashes.
        ["modules", ..] => {
            let mut inner = (1..names.len()).map(|from| &names[from..]);
            inner.find_map(part_of_repository)
        }
        ["worktrees", _, ref part @ ..] | ref part => part_of_repository(part),
    }
}

const HOOK: AutoRun = AutoRun::Any("git runs it as a hook");

/// Decides a file of a repository, by its names below the repository's folder.
fn part_of_repository(names: &[&str]) -> Option<AutoRun> {
    match *names {
        ["config" | "config.worktree"] => Some(AutoRun::Git("git runs the programs in it")),
        ["commondir"] => Some(AutoRun::Git("it points git to a repository")),
        ["rebase-merge", "git-rebase-todo" | "strategy"] | ["sequencer", "todo"] => {
            Some(AutoRun::Git("git runs the commands in it"))
        }
        ["remotes" | "branches", _] => Some(AutoRun::Any("git contacts the servers in it")),
        // Git does not run these examples.
        ["hooks", name] if name.ends_with(".sample") => None,
        ["hooks", ..] => Some(HOOK),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, entry: Entry) -> Option<AutoRun> {
        auto_run(Path::new(path), entry, &|folder| folder == Path::new("srv/bare"))
    }

    #[test]
    fn what_a_later_program_would_run_is_found_at_any_depth_and_in_any_case() {
        for path in [
            ".envrc",
            "a/b/.ENVRC",
            ".git/hooks/pre-commit",
            "x/.Git/Hooks/post-checkout",
            ".git/modules/a/b/hooks/x",
            ".vscode/tasks.json",
            "sub/.vscode/deep/er.json",
            ".mcp.json",
            ".bashrc",
            ".config/fish/config.fish",
            "p.code-workspace",
            ".claude/settings.json",
            "srv/bare/hooks/update",
            ".husky/pre-commit",
            ".ssh/rc",
            ".git/worktrees/w/hooks/pre-commit",
            "a/.Rprofile",
            ".yarn/releases/yarn-4.cjs",
            "lefthook.yml",
            ".CARGO/config.toml",
        ] {
            assert!(matches!(found(path, Entry::File), Some(AutoRun::Any(_))), "{path}");
            assert!(Path::new(path).iter().any(may_auto_run), "{path}");
        }
        for path in [
            ".git/config",
            ".git/worktrees/w/config.worktree",
            ".git/modules/m/config",
            "srv/bare/config",
            ".gitmodules",
            ".git/rebase-merge/git-rebase-todo",
            ".git/worktrees/w/sequencer/todo",
        ] {
            assert!(matches!(found(path, Entry::File), Some(AutoRun::Git(_))), "{path}");
            assert!(Path::new(path).file_name().is_some_and(may_auto_run), "{path}");
        }
        for path in
            [".git", ".git/modules", ".git/hooks", ".git/refs/heads/main", ".vscode", ".git/hooks/x.sample"]
        {
            assert!(matches!(found(path, Entry::Link), Some(AutoRun::Any(_))), "{path}");
        }
        for path in [".git", "sub/.git", ".git/commondir", ".git/worktrees/w/commondir"] {
            assert!(matches!(found(path, Entry::File), Some(AutoRun::Git(_))), "{path}");
        }
    }

    #[test]
    fn what_git_and_others_write_all_the_time_is_not() {
        for path in [
            ".git/index",
            ".git/HEAD",
            ".git/refs/heads/main",
            ".git/objects/aa/bb",
            ".git/hooks/pre-commit.sample",
            ".git/COMMIT_EDITMSG",
            ".git/logs/HEAD",
            "src/main.rs",
            "hooks/pre-commit",
            "config",
            "a/config",
            ".gitignore",
            ".gitattributes",
            ".github/workflows/ci.yml",
            "docs/.profile.md",
            ".git/modules/m/index",
            ".config/app.toml",
        ] {
            assert_eq!(found(path, Entry::File), None, "{path}");
        }
        for path in [".git", ".git/hooks", ".vscode", ".husky", ".git/modules/m", ".config/fish"] {
            assert_eq!(found(path, Entry::Folder), None, "{path}");
        }
    }

    #[test]
    fn a_tree_that_is_moved_counts_with_what_may_be_in_it() {
        for path in [".git", ".git/hooks", ".vscode", ".git/modules/m", ".config/fish", "a/.idea"] {
            assert!(found(path, Entry::Tree).is_some(), "{path}");
        }
        assert_eq!(found("src", Entry::Tree), None);
    }
}
