//! Files through which a later program would run code: git hooks and configuration, editors' and agents' own folders, shell
//! start-up files. A change to one is asked about by itself, whatever the mode says.

mod git_config;

use std::ffi::OsStr;
use std::path::Path;

use crate::path::fold;

/// What it takes to change a file through which a later program would run code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoRun {
    /// An approval of its own, whatever its content. The text says who would run it.
    Any(&'static str),
    /// A git configuration file: an approval of its own where [`git_config_change`] finds a reason.
    GitConfig,
    /// A file that tells git where a repository is: an approval of its own where [`git_pointer_change`] finds a reason.
    GitPointer,
}

/// Who reads the whole of a folder of this name.
const FOLDERS: &[(&str, &str)] = &[
    (".husky", "git runs it as a hook"),
    (".githooks", "git runs it as a hook"),
    (".vscode", "an editor runs what it names"),
    (".idea", "an editor runs what it names"),
    (".fleet", "an editor runs what it names"),
    (".zed", "an editor runs what it names"),
    (".devcontainer", "an editor runs what it names"),
    (".claude", "an agent runs what it names"),
    (".cursor", "an agent runs what it names"),
    (".codex", "an agent runs what it names"),
    (".gemini", "an agent runs what it names"),
    (".windsurf", "an agent runs what it names"),
    (".continue", "an agent runs what it names"),
    (".roo", "an agent runs what it names"),
    (".kiro", "an agent runs what it names"),
    (".amazonq", "an agent runs what it names"),
    (".opencode", "an agent runs what it names"),
    (".ssh", "ssh runs what it names"),
];

/// Who reads a file of this name.
const FILES: &[(&str, &str)] = &[
    (".envrc", "direnv runs it"),
    (".mcp.json", "an agent runs what it names"),
    (".claude.json", "an agent runs what it names"),
    (".aider.conf.yml", "an agent runs what it names"),
    (".devcontainer.json", "an editor runs what it names"),
    (".gitmodules", "git runs what it names"),
    (".gitconfig", "git runs what it names"),
    (".hgrc", "Mercurial runs what it names"),
    (".bashrc", "a shell runs it"),
    (".bash_profile", "a shell runs it"),
    (".bash_login", "a shell runs it"),
    (".bash_logout", "a shell runs it"),
    (".bash_aliases", "a shell runs it"),
    (".profile", "a shell runs it"),
    (".zshrc", "a shell runs it"),
    (".zshenv", "a shell runs it"),
    (".zprofile", "a shell runs it"),
    (".zlogin", "a shell runs it"),
    (".zlogout", "a shell runs it"),
    (".kshrc", "a shell runs it"),
    (".mkshrc", "a shell runs it"),
    (".cshrc", "a shell runs it"),
    (".tcshrc", "a shell runs it"),
    (".login", "a shell runs it"),
    (".logout", "a shell runs it"),
    (".xprofile", "a desktop session runs it"),
    (".xsessionrc", "a desktop session runs it"),
    (".vimrc", "an editor runs it"),
    (".exrc", "an editor runs it"),
    (".nvimrc", "an editor runs it"),
    (".nvim.lua", "an editor runs it"),
    (".dir-locals.el", "an editor runs it"),
    (".gdbinit", "a debugger runs it"),
    (".lldbinit", "a debugger runs it"),
];

/// Files by their last two names.
const PAIRS: &[(&str, &str, &str)] = &[
    (".config", "fish", "a shell runs it"),
    (".config", "git", "git runs what it names"),
    (".config", "autostart", "a desktop session runs it"),
    (".config", "systemd", "the service manager runs it"),
    (".hg", "hgrc", "Mercurial runs what it names"),
    (".jj", "repo", "Jujutsu runs what its configuration names"),
];

/// How much of a path is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// A file.
    File,
    /// A link, which may lead to a folder.
    Link,
    /// A folder by itself; what is in it is asked about apart.
    Folder,
    /// Perhaps a folder with all that is in it.
    Tree,
}

/// What it takes to change the entry at `path`, which is relative to a root.
///
/// Names are compared without regard to case: some file systems do not tell them apart.
/// `is_repository` says whether a folder holds a bare repository, whatever it is called (`HEAD` and `objects` lie in it).
pub fn auto_run(path: &Path, entry: Entry, is_repository: &dyn Fn(&Path) -> bool) -> Option<AutoRun> {
    let names: Vec<String> =
        path.components().map(|name| fold(name.as_os_str()).to_string_lossy().into_owned()).collect();
    let last = names.len().checked_sub(1)?;
    for (index, name) in names.iter().enumerate() {
        // A folder's own entry says nothing yet about what is in it.
        let whole = index < last || entry != Entry::Folder;
        if let Some((_, why)) = FOLDERS.iter().find(|(folder, _)| folder == name).filter(|_| whole) {
            return Some(AutoRun::Any(why));
        }
        if name == ".git" && whole {
            return in_repository(&names[index + 1..], entry);
        }
        let next = names.get(index + 1);
        let pair =
            PAIRS.iter().find(|(outer, inner, _)| outer == name && Some(*inner) == next.map(String::as_str));
        if let Some((_, _, why)) = pair.filter(|_| index + 1 < last || entry != Entry::Folder) {
            return Some(AutoRun::Any(why));
        }
    }
    if entry == Entry::Folder {
        return None;
    }
    let name = names.get(last)?;
    if let Some((_, why)) = FILES.iter().find(|(file, _)| file == name) {
        return Some(AutoRun::Any(why));
    }
    if Path::new(name).extension().is_some_and(|extension| extension == "code-workspace") {
        return Some(AutoRun::Any("an editor runs what it names"));
    }
    path.ancestors()
        .skip(1)
        .zip(1..)
        // Deeper than this no file of a repository matters here: `hooks/NAME` and `config`.
        .take(2)
        .filter(|(folder, _)| could_matter(&names[names.len().saturating_sub(2)..]) && is_repository(folder))
        .find_map(|(_, depth)| in_repository(&names[names.len() - depth..], entry))
}

/// Whether an entry of this name, or one in a folder of this name, could be one that [`auto_run`] finds. If not, it is none
/// unless the folders above say so.
pub fn may_auto_run(name: &OsStr) -> bool {
    let folded = fold(name);
    let Some(name) = folded.to_str() else { return false };
    let is_known = |known: &&str| *known == name;
    IN_REPOSITORIES.iter().any(is_known)
        || FOLDERS.iter().any(|(folder, _)| is_known(folder))
        || FILES.iter().any(|(file, _)| is_known(file))
        || PAIRS.iter().any(|(_, inner, _)| is_known(inner))
        || name.ends_with(".code-workspace")
}

/// The names in a repository, and its own, by which [`in_repository`] decides.
const IN_REPOSITORIES: &[&str] =
    &[".git", "hooks", "config", "config.worktree", "commondir", "gitdir", "modules", "worktrees"];

fn could_matter(names: &[String]) -> bool {
    names.iter().any(|name| ["hooks", "config", "config.worktree", "commondir"].contains(&name.as_str()))
}

/// An entry of a repository's folder, by its names below it; none stands for the folder's own entry.
fn in_repository(names: &[String], entry: Entry) -> Option<AutoRun> {
    const HOOK: AutoRun = AutoRun::Any("git runs it as a hook");
    if entry == Entry::Folder {
        return None;
    }
    if entry == Entry::Link {
        return Some(AutoRun::Any("git follows it"));
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match *names.as_slice() {
        // `.git` as a file tells where the repository is; as a folder that is moved here it brings everything along.
        [] if entry == Entry::Tree => Some(HOOK),
        [] | ["commondir" | "gitdir"] | ["worktrees", _, "commondir"] | ["modules", .., "commondir"] => {
            Some(AutoRun::GitPointer)
        }
        ["config" | "config.worktree"]
        | ["worktrees", _, "config" | "config.worktree"]
        // A submodule's repository, whose name may itself hold slashes.
        | ["modules", .., "config" | "config.worktree"] => Some(AutoRun::GitConfig),
        // Examples that git does not run.
        ["hooks", name] | ["modules", .., "hooks", name] if name.ends_with(".sample") => None,
        ["hooks", ..] | ["modules", .., "hooks", _] => Some(HOOK),
        ["modules" | "worktrees", ..] if entry == Entry::Tree => Some(HOOK),
        _ => None,
    }
}

/// Why the change of a git configuration from `old` to `new` needs an approval of its own; nothing where it does not.
///
/// It does not where every entry that is new is one of those known to run no program and to lead git nowhere else, such
/// as `user.name` and `remote.origin.url`. An absent file is empty.
pub fn git_config_change(old: &[u8], new: &[u8]) -> Option<String> {
    git_config::change(old, new)
}

/// Why a file that tells git where a repository is needs an approval of its own; nothing where it names one whose own files
/// are looked after here: a worktree's or a submodule's.
pub fn git_pointer_change(new: &[u8]) -> Option<String> {
    let odd = || Some("it leads git to a repository elsewhere".to_owned());
    let Ok(text) = std::str::from_utf8(new) else { return odd() };
    let target = text.trim_end_matches(['\n', '\r']);
    let target = target.strip_prefix("gitdir:").unwrap_or(target).trim_start();
    if target == "../.." || target == ".." || target == "." {
        return None;
    }
    let mut names = target.split('/').skip_while(|name| *name != ".git").skip(1);
    let plain = names.next().is_some_and(|kind| kind == "worktrees" || kind == "modules")
        && names.clone().next().is_some_and(|name| !name.is_empty())
        && names.all(|name| name != ".." && name != "." && !name.contains(['\0', '\n']));
    if plain { None } else { odd() }
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
        ] {
            assert!(matches!(found(path, Entry::File), Some(AutoRun::Any(_))), "{path}");
            assert!(Path::new(path).iter().any(may_auto_run), "{path}");
        }
        for path in
            [".git/config", ".git/worktrees/w/config.worktree", ".git/modules/m/config", "srv/bare/config"]
        {
            assert_eq!(found(path, Entry::File), Some(AutoRun::GitConfig), "{path}");
            assert!(Path::new(path).file_name().is_some_and(may_auto_run), "{path}");
        }
        for path in
            [".git", ".git/modules", ".git/hooks", ".git/refs/heads/main", ".vscode", ".git/hooks/x.sample"]
        {
            assert!(matches!(found(path, Entry::Link), Some(AutoRun::Any(_))), "{path}");
        }
        for path in [".git", "sub/.git", ".git/commondir", ".git/worktrees/w/commondir"] {
            assert_eq!(found(path, Entry::File), Some(AutoRun::GitPointer), "{path}");
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

    #[test]
    fn only_a_pointer_to_a_worktree_or_a_submodule_is_plain() {
        for plain in ["gitdir: /w/.git/worktrees/x\n", "gitdir: ../.git/modules/a/b", "../..\n"] {
            assert_eq!(git_pointer_change(plain.as_bytes()), None, "{plain}");
        }
        for odd in [
            "gitdir: ../evil",
            "gitdir: /w/.git/modules/../../evil",
            "",
            "gitdir: .git",
            "gitdir: .git/modules/",
            "gitdir: .git/evil/worktrees/x",
            "\u{fffd}",
        ] {
            assert!(git_pointer_change(odd.as_bytes()).is_some(), "{odd}");
        }
        assert!(git_pointer_change(b"gitdir: .git/modules/\xff").is_some());
    }
}
