//! Files of programs that the policy denies with any arguments. A cell covers them under every
//! name, so that no spelling, script, loader or copy of them runs.
//!
//! A file that is also another program is not covered, because covering it would remove that
//! program. The rule for such a file is enforced by parsing the command line only, and
//! `handfast check` reports so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use policy::Policy;
use watch::LocalPaths;

use crate::toolchains::SearchFolder;

/// The denied programs of one runtime.
pub(crate) struct DeniedPrograms {
    policy: Arc<Policy>,
    /// Folders that contain programs.
    folders: Vec<PathBuf>,
    /// Paths that may be touched.
    paths: LocalPaths,
    known: Mutex<Option<(Vec<Stamp>, Arc<FoundPrograms>)>>,
}

/// Stamp of a folder, which changes if programs are added or removed: device, inode number and time
/// of change.
type Stamp = Option<(u64, u64, i64, i64)>;

/// Result of the search for denied programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundPrograms {
    /// Files to cover, without symbolic links.
    pub(crate) files: Vec<PathBuf>,
    /// Enforcement of each rule of `deny_exec_command`, one line each.
    pub(crate) told: Vec<String>,
}

/// A file with all names that lead to it.
#[derive(Default)]
struct Program {
    names: BTreeSet<String>,
    paths: BTreeSet<PathBuf>,
}

/// Folders where systems install programs, in addition to the search path. A `*` stands for every
/// folder.
const FOLDERS: [&str; 17] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/usr/games",
    "/usr/local/games",
    "/usr/libexec",
    "/usr/lib/git-core",
    "/usr/libexec/git-core",
    "/usr/lib/*/bin",
    "/usr/local/*/bin",
    "/usr/local/lib/*/bin",
    "/opt/*/bin",
    "/opt/*/sbin",
    "/nix/store/*/bin",
];

/// Programs that contain hundreds of others, selected by the first word of their arguments.
const BOXES: [&str; 5] = ["busybox", "busybox.static", "coreutils", "toybox", "uutils"];

/// Programs that act as another program depending on the name that they are started under,
/// according to their manuals.
const SHARED: [&str; 8] = ["git", "kmod", "mise", "rustup", "rustup-init", "systemctl", "volta-shim", "xz"];

/// Programs of [`SHARED`] that only start the intended program, which has a file of its own.
const STARTERS: [&str; 4] = ["mise", "rustup", "rustup-init", "volta-shim"];

impl DeniedPrograms {
    pub(crate) fn new(policy: Arc<Policy>, search_path: &[SearchFolder], paths: LocalPaths) -> Self {
        let mut folders: Vec<PathBuf> = search_path.iter().map(|folder| folder.path.clone()).collect();
        folders.extend(FOLDERS.iter().flat_map(|pattern| expand(pattern)));
        let folders: BTreeSet<PathBuf> =
            folders.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
        Self { policy, folders: folders.into_iter().collect(), paths, known: Mutex::default() }
    }

    /// Returns the current files. If programs were added or removed, blocks while folders are
    /// searched.
    pub(crate) fn found(&self) -> Arc<FoundPrograms> {
        if self.policy.denied_commands().next().is_none() {
            return Arc::default();
        }
        let mut known = self.known.lock();
        // The targets of alternatives depend on one more folder.
        let looked_at = self.folders.iter().map(PathBuf::as_path).chain([Path::new("/etc/alternatives")]);
        let stamps: Vec<Stamp> = looked_at.map(stamp).collect();
        if let Some((_, found)) = known.as_ref().filter(|(was, _)| *was == stamps) {
            return found.clone();
        }
        let found = Arc::new(look(&self.policy, &self.folders, &self.paths));
        *known = Some((stamps, found.clone()));
        found
    }
}

fn stamp(folder: &Path) -> Stamp {
    let found = fs::metadata(folder).ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

/// Returns the folders that match a pattern.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let Some((above, below)) = pattern.split_once("/*/") else { return vec![pattern.into()] };
    let entries = fs::read_dir(above).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().join(below)).filter(|path| path.is_dir()).collect()
}

fn look(policy: &Policy, folders: &[PathBuf], paths: &LocalPaths) -> FoundPrograms {
    let mut programs: BTreeMap<(u64, u64), Program> = BTreeMap::new();
    let mut add = |path: &Path| {
        let (Some(name), Ok(resolved)) = (path.file_name(), paths.resolve(path)) else { return };
        let real = resolved.real;
        let Ok(found) = fs::metadata(&real) else { return };
        if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
            return;
        }
        let program = programs.entry((found.dev(), found.ino())).or_default();
        program.names.extend(
            [Some(name), real.file_name()]
                .into_iter()
                .flatten()
                .map(|name| name.to_string_lossy().into_owned()),
        );
        program.paths.insert(real);
    };
    for folder in folders {
        fs::read_dir(folder).into_iter().flatten().flatten().for_each(|entry| add(&entry.path()));
    }
    // A rule may name a file outside these folders.
    let whole = || policy.denied_commands().filter(|(_, is_program)| *is_program).map(|(rule, _)| rule);
    for rule in whole() {
        let named = rule.entry.split_whitespace().next().unwrap_or_default();
        if named.starts_with('/') {
            add(Path::new(named));
        }
    }
    let mut found = FoundPrograms::default();
    let mut told: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for program in programs.values() {
        let denials = program.names.iter().filter_map(|name| policy.denies_program(name));
        let rules: BTreeSet<String> = denials.map(ToString::to_string).collect();
        let how = match program.left_open(|name| policy.denies_program(name).is_some()) {
            // A box without links to it could be the denied program under its own name.
            _ if rules.is_empty() && !(program.is_a_box_alone() && whole().next().is_some()) => continue,
            Some(why) => why,
            None => {
                found.files.extend(program.paths.iter().cloned());
                format!(
                    "its file {} is blocked in the sandbox",
                    list(program.paths.iter().map(|path| path.display().to_string()))
                )
            }
        };
        for rule in rules {
            told.entry(rule).or_default().insert(how.clone());
        }
    }
    // The programs are in the order of their inodes, which differs between file systems and runs.
    found.files.sort_unstable();
    found.told = tell(policy, &told);
    found
}

/// Builds one line for each rule.
fn tell(policy: &Policy, how: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let line = |(rule, is_program): (&policy::Rule, bool)| {
        let name = rule.to_string();
        if !is_program {
            return format!(
                "{name}: only checked in the command line; a script, an alias or another program can \
                 pass the same arguments"
            );
        }
        match how.get(&name) {
            Some(how) => {
                let how = how.iter().map(String::as_str).collect::<Vec<_>>().join("; ");
                format!("{name}: {how}; another program that does the same can still run")
            }
            None => format!(
                "{name}: no file of that name is in the search path; only the command line is checked, \
                 also for shell built-ins"
            ),
        }
    };
    let lines: BTreeSet<String> = policy.denied_commands().map(line).collect();
    lines.into_iter().collect()
}

impl Program {
    /// Returns the reason why the file is not covered, if it is not: a cell could not run without
    /// it, or other programs would be lost.
    fn left_open(&self, is_denied: impl Fn(&str) -> bool) -> Option<String> {
        let paths = || list(self.paths.iter().map(|path| path.display().to_string()));
        let shell = fs::canonicalize(sandbox::shell()).ok();
        if shell.is_some_and(|shell| self.paths.contains(&shell)) {
            return Some(format!("{} runs the command lines, so only the line is checked", paths()));
        }
        if self
            .names
            .iter()
            .any(|name| name.starts_with("ld-") && name.contains(".so") || name.starts_with("ld.so"))
        {
            return Some(format!("{} starts every program, so only the line is checked", paths()));
        }
        let others: Vec<&String> = self.names.iter().filter(|name| !is_denied(name)).collect();
        let is = |names: &[&str], denied: bool| {
            self.names.iter().any(|name| names.contains(&name.as_str()) && (denied || !is_denied(name)))
        };
        let shared = is(&BOXES, false) && !self.is_a_box_alone() || is(&SHARED, false) || is(&STARTERS, true);
        (shared && !others.is_empty()).then(|| {
            let others = list(others.into_iter().take(3).cloned());
            format!("{} also serves other programs ({others}), so only the line is checked", paths())
        })
    }

    /// Returns true if the file is a box under its own name only.
    fn is_a_box_alone(&self) -> bool {
        self.names.iter().all(|name| BOXES.contains(&name.as_str()))
    }
}

fn list(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Makes a folder of programs: files, each with the links to it.
    fn programs(files: &[(&str, &[&str])]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        for (file, links) in files {
            fs::write(real.join(file), "").unwrap();
            fs::set_permissions(real.join(file), fs::Permissions::from_mode(0o755)).unwrap();
            for link in *links {
                symlink(file, real.join(link)).unwrap();
            }
        }
        (folder, real)
    }

    fn covered(denied: &[&str], real: &Path) -> (Vec<String>, Vec<String>) {
        let lists = serde_json::json!({ "deny_exec_command": denied });
        let policy = testkit::policy_of(Path::new("/nowhere"), None, &lists).unwrap();
        let found = look(&policy, &[real.to_owned()], &LocalPaths::default());
        let name = |path: &PathBuf| Some(path.strip_prefix(real).ok()?.display().to_string());
        (found.files.iter().filter_map(name).collect(), found.told)
    }

    #[test]
    fn a_denied_program_is_found_behind_links_and_under_further_names() {
        let (_folder, real) = programs(&[("vim.basic", &["vi", "vim"]), ("touch", &[]), ("other", &[])]);
        fs::hard_link(real.join("touch"), real.join("t")).unwrap();
        assert_eq!(covered(&["vi", "touch"], &real).0, ["t", "touch", "vim.basic"].map(String::from));
        assert_eq!(covered(&["t*"], &real).0, ["t", "touch"].map(String::from));
        assert_eq!(covered(&["/usr/bin/touch *"], &real).0, ["t", "touch"].map(String::from));
        assert_eq!(covered(&["touch -t"], &real).0, [] as [String; 0]);
    }

    #[test]
    fn what_other_programs_are_too_stays_and_a_box_that_none_hangs_on_goes() {
        let (_folder, real) = programs(&[
            ("busybox", &["touch", "ls"]),
            ("rustup", &["cargo", "rustc"]),
            ("git", &["git-shell"]),
        ]);
        let (files, told) = covered(&["touch", "cargo"], &real);
        assert_eq!(files, [] as [String; 0]);
        assert!(told.iter().all(|line| line.contains("also serves other programs")), "{told:?}");
        assert_eq!(covered(&["git"], &real).0, ["git"]);
        assert_eq!(covered(&["rustup"], &real).0, [] as [String; 0]);
        let (_folder, real) = programs(&[("busybox", &[]), ("touch", &[])]);
        assert_eq!(covered(&["touch"], &real).0.len(), 2);
        assert_eq!(covered(&["touch -t"], &real).0, [] as [String; 0]);
    }

    #[test]
    fn each_rule_is_told_with_how_it_holds() {
        let (_folder, real) = programs(&[("touch", &[])]);
        let (_, told) = covered(&["touch", "git push", "absent"], &real);
        assert_eq!(told.len(), 3);
        assert!(told.iter().any(|line| line.contains("is blocked in the sandbox")), "{told:?}");
        assert!(told.iter().any(|line| line.contains("only checked in the command line")), "{told:?}");
        assert!(told.iter().any(|line| line.contains("no file of that name")), "{told:?}");
    }

    #[test]
    fn a_program_that_comes_later_is_found() {
        let (_folder, real) = programs(&[("other", &[])]);
        let lists = serde_json::json!({"deny_exec_command": ["late"]});
        let policy = Arc::new(testkit::policy_of(Path::new("/nowhere"), None, &lists).unwrap());
        let denied = DeniedPrograms::new(
            policy,
            &[SearchFolder { path: real.clone(), way: None }],
            LocalPaths::default(),
        );
        let at = |found: &FoundPrograms| found.files.iter().any(|file| *file == real.join("late"));
        assert!(!at(&denied.found()));
        fs::rename(real.join("other"), real.join("late")).unwrap();
        assert!(at(&denied.found()));
    }
}
