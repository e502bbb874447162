//! Toolchains that cells show: the visible parts, and the hidden files in them.
//!
//! A part is a folder or file from which programs run. Next to the parts lie keys, other projects
//! and histories, which no cell shows. Within the parts the policy's deny lists apply as in the
//! workspace. In addition, cells hide the names under which toolchains and their users keep keys,
//! with their backups. Histories of git and the files of denied programs are hidden too.
//!
//! A toolchain to which the user's search path leads is not shown where calls can write it, a link
//! on the way to it, or something in it.

mod look;
mod names;
mod of_path;
mod rules;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use policy::Policy;
use tool::{Clock, Code, EffectState, ToolError};
use watch::WatchError;

pub use names::is_key_name;
pub use of_path::SearchFolder;

use look::WalkResult;
use of_path::CellRules;
use rules::KeyFiles;

/// Toolchain of this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Toolchain {
    /// Folder of the toolchain.
    pub folder: PathBuf,
    /// Parts from which programs run, relative to the folder; an empty path stands for the whole
    /// folder. Missing parts are left out.
    pub parts: Vec<PathBuf>,
    /// Parts that hold git repositories which the toolchain's programs read.
    pub repositories: Vec<PathBuf>,
    /// Paths in the parts that no program reads.
    pub excepted: Vec<PathBuf>,
    /// True if the environment names the folder. A named folder in a root is a part of that project
    /// and no toolchain.
    pub named: bool,
    /// Way by which the user's search path leads to the folder, if it leads there.
    pub of_path: Option<Way>,
}

/// Way by which a search path leads to a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Way {
    /// The folder without links.
    pub real: PathBuf,
    /// Places of the links that were followed.
    pub links: Vec<PathBuf>,
    /// True if the user's configuration lists the folder, so that its size does not matter.
    pub listed: bool,
}

/// Files of toolchains that a cell shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ShownToolchains {
    /// Visible parts.
    pub(crate) parts: Vec<PathBuf>,
    /// Hidden paths in the parts, or in toolchains among the system's folders.
    pub(crate) hidden: Vec<PathBuf>,
    /// Folders of the search path that are not shown, because calls can write there.
    pub(crate) left_out: Vec<PathBuf>,
}

/// Toolchains of one runtime.
pub(crate) struct Toolchains {
    given: Vec<Toolchain>,
    policy: Arc<Policy>,
    clock: Arc<dyn Clock>,
    /// File that stores the last walk for other processes.
    file: Option<PathBuf>,
    state: Mutex<State>,
    /// Parts to which the search path leads and that were counted.
    counted: Mutex<HashMap<PathBuf, bool>>,
}

#[derive(Default)]
struct State {
    /// Last full walk.
    seen: Option<WalkResult>,
    /// Judged files, with their state at that time. The flag is true if the file is harmless.
    judged: HashMap<PathBuf, (Stamp, bool)>,
}

/// Identity of a file in one state: device, inode number, size, and the seconds and nanoseconds of
/// its last change.
type Stamp = (u64, u64, u64, i64, i64);

impl Toolchains {
    pub(crate) fn new(
        given: Vec<Toolchain>,
        policy: Arc<Policy>,
        clock: Arc<dyn Clock>,
        file: Option<PathBuf>,
    ) -> Self {
        Self { given, policy, clock, file, state: Mutex::default(), counted: Mutex::default() }
    }

    /// Returns the folders that calls of this runtime, or of `policy`, can write.
    pub(crate) fn written(&self, policy: &Policy) -> Vec<PathBuf> {
        let of_call = policy.roots().iter().filter(|root| root.write).map(|root| &root.path);
        self.policy.written_folders().iter().chain(of_call).cloned().collect()
    }

    /// Returns the current view of toolchains for a cell that also shows `roots`, of which calls can
    /// write the folders in `written`. Blocks during a full walk, if one is due.
    pub(crate) fn shown(&self, roots: &[PathBuf], written: &[PathBuf]) -> Result<ShownToolchains, ToolError> {
        let (mut shown, mut looked_at, mut repositories) =
            (ShownToolchains::default(), Vec::new(), Vec::new());
        for toolchain in &self.given {
            let parts = parts(toolchain);
            if let Some(way) = &toolchain.of_path {
                let cell = CellRules { roots, written, policy: &self.policy, counted: &self.counted };
                of_path::add(toolchain, way, parts, &cell, &mut shown, &mut looked_at);
                continue;
            }
            if roots.iter().any(|root| toolchain.folder.starts_with(root)) {
                if !toolchain.named && toolchain.folder.is_dir() {
                    // A folder that a root shows anyway is protected from writes, and its keys are
                    // hidden.
                    repositories.push(toolchain.folder.clone());
                    looked_at.push(toolchain.folder.clone());
                    shown.parts.push(toolchain.folder.clone());
                }
                continue;
            }
            repositories.extend(toolchain.repositories.iter().map(|part| toolchain.folder.join(part)));
            if sandbox::is_of_system(&toolchain.folder) {
                hide_rest(&toolchain.folder, &parts, &mut shown.hidden);
            } else {
                shown.parts.extend(parts.iter().cloned());
            }
            let excepted = toolchain.excepted.iter().map(|part| toolchain.folder.join(part));
            shown.hidden.extend(excepted.filter(|path| path.exists()));
            looked_at.extend(parts.into_iter().filter(|part| part.is_dir()));
        }
        if looked_at.is_empty() {
            return Ok(shown);
        }
        let rules = KeyFiles::new(self.policy.clone(), repositories);
        let (hidden, asked) = self.keys(&rules, &looked_at).map_err(not_known)?;
        let mut state = self.state.lock();
        let judged = asked.into_iter().filter(|path| !state.is_harmless(path));
        // A root in a toolchain has its own rules.
        let in_root = |path: &PathBuf| roots.iter().any(|root| path.starts_with(root));
        let in_toolchain = |path: &PathBuf| shown.parts.iter().any(|part| path.starts_with(part));
        let keys: Vec<PathBuf> = hidden.into_iter().chain(judged).collect();
        let keys = keys.into_iter().filter(|path| !in_root(path) || in_toolchain(path)).collect::<Vec<_>>();
        shown.hidden.extend(keys);
        shown.hidden.retain(|path| !roots.iter().any(|root| root.starts_with(path)));
        Ok(shown)
    }

    /// Returns the hidden paths below the folders, and the files whose content decides.
    ///
    /// Toolchains have hundreds of thousands of files. The upper levels, where people and programs
    /// put keys, are therefore searched each time, and the result for all other levels is at most
    /// [`look::LASTING`] old.
    fn keys(
        &self,
        rules: &KeyFiles,
        folders: &[PathBuf],
    ) -> Result<(BTreeSet<PathBuf>, BTreeSet<PathBuf>), WatchError> {
        let about = format!("{folders:?}\n{}", self.policy.denials_as_text());
        let now = self.clock.now();
        let mut state = self.state.lock();
        let counts = |seen: &&WalkResult| seen.counts(&about, now);
        if !state.seen.as_ref().is_some_and(|seen| counts(&seen)) {
            let known = self.file.as_deref().and_then(WalkResult::read);
            state.seen = match known.filter(|seen| counts(&seen)) {
                Some(seen) => Some(seen),
                None => {
                    let seen = WalkResult::look(rules.clone(), folders, about.clone(), now)?;
                    if let Some(file) = &self.file {
                        // Without the file the next process does its own walk.
                        let _kept = seen.write(file);
                    }
                    Some(seen)
                }
            };
        }
        let (mut hidden, mut asked) = look::upper_levels(rules, folders);
        if let Some(seen) = &state.seen {
            hidden.extend(seen.hidden.iter().cloned());
            asked.extend(seen.asked.iter().cloned());
        }
        Ok((hidden, asked))
    }
}

impl State {
    /// Judges the content of a file once per state of the file. Returns true if the file is harmless.
    fn is_harmless(&mut self, path: &Path) -> bool {
        let Ok(found) = fs::metadata(path) else { return true };
        let stamp = (found.dev(), found.ino(), found.len(), found.ctime(), found.ctime_nsec());
        if let Some((_, harmless)) = self.judged.get(path).filter(|(known, _)| *known == stamp) {
            return *harmless;
        }
        let harmless = names::is_harmless(path);
        self.judged.insert(path.to_owned(), (stamp, harmless));
        harmless
    }
}

/// Returns the existing parts of a toolchain. A single file is left out if it may hold a key.
fn parts(toolchain: &Toolchain) -> Vec<PathBuf> {
    let there = |path: &PathBuf| match fs::metadata(path) {
        Ok(found) if found.is_file() => {
            let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            match names::judge(&name) {
                names::Verdict::Plain => true,
                names::Verdict::Key => false,
                names::Verdict::AskContent => names::is_harmless(path),
            }
        }
        Ok(found) => found.is_dir(),
        Err(_) => false,
    };
    let path = |part: &PathBuf| {
        let is_all = part.as_os_str().is_empty();
        if is_all { toolchain.folder.clone() } else { toolchain.folder.join(part) }
    };
    toolchain.parts.iter().map(path).filter(there).collect()
}

/// Hides everything in a visible folder except the parts.
fn hide_rest(folder: &Path, parts: &[PathBuf], hidden: &mut Vec<PathBuf>) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        if parts.contains(&folder) {
            continue;
        }
        // A folder that cannot be listed is hidden as a whole.
        let Ok(entries) = fs::read_dir(&folder) else {
            hidden.push(folder);
            continue;
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            if parts.iter().any(|part| part.starts_with(&path)) {
                folders.push(path);
            } else if !path.is_symlink() {
                // The target of a link is shown or hidden by its own path.
                hidden.push(path);
            }
        }
    }
}

fn not_known(error: WatchError) -> ToolError {
    let message = format!("the search for keys in toolchains failed, so nothing was run: {error}");
    ToolError::new(Code::Runtime, message).effect(EffectState::None).because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        for file in files {
            let path = real.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "retry = 3").unwrap();
        }
        (folder, real)
    }

    fn toolchains(folder: &Path, parts: &[&str]) -> Toolchains {
        let lists = serde_json::json!({"deny_read_paths": ["*.private"]});
        let policy = testkit::policy_of(Path::new("/nowhere"), None, &lists).unwrap();
        let given = Toolchain {
            folder: folder.to_owned(),
            parts: parts.iter().map(PathBuf::from).collect(),
            repositories: vec!["git".into()],
            excepted: vec!["lib/clones".into()],
            ..Toolchain::default()
        };
        let clock = Arc::new(testkit::FixedClock(jiff::Timestamp::UNIX_EPOCH));
        Toolchains::new(vec![given], Arc::new(policy), clock, None)
    }

    fn relative(real: &Path, paths: &[PathBuf]) -> Vec<String> {
        let names = paths.iter().map(|path| path.strip_prefix(real).unwrap().display().to_string());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn parts_are_shown_and_keys_in_them_are_hidden() {
        let (_folder, real) = place(&[
            "bin/tool",
            "bin/auth.py",
            "bin/x.private",
            "bin/x.private~",
            "lib/a/npmrc",
            "lib/a/b/credentials.toml.bak",
            "plugins/p/.git/config",
            "git/db/r/config",
            "git/db/r/.git/HEAD",
            "src/other/main.go",
            "lib/clones/x",
            "config.toml",
        ]);
        fs::write(real.join("git/db/r/FETCH_HEAD"), "abc branch 'main' of https://me:x@host/r").unwrap();
        fs::write(real.join("bin/auth"), "#!/bin/sh").unwrap();
        fs::set_permissions(real.join("bin/auth"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let given = ["bin", "lib", "plugins", "git", "config.toml", "absent"];
        let toolchains = toolchains(&real, &given);
        let shown = toolchains.shown(&[], &[]).unwrap();
        assert_eq!(relative(&real, &shown.parts), ["bin", "config.toml", "git", "lib", "plugins"]);
        let keys = [
            "bin/x.private",
            "bin/x.private~",
            "git/db/r/FETCH_HEAD",
            "lib/a/b/credentials.toml.bak",
            "lib/a/npmrc",
            "lib/clones",
            "plugins/p/.git",
        ];
        assert_eq!(relative(&real, &shown.hidden), keys);
    }

    #[test]
    fn a_key_that_comes_later_or_into_a_harmless_file_is_hidden_from_the_next_command() {
        let (_folder, real) = place(&["lib/config.toml", "config.toml"]);
        let toolchains = toolchains(&real, &["lib", "config.toml"]);
        assert_eq!(toolchains.shown(&[], &[]).unwrap().hidden, [] as [PathBuf; 0]);
        fs::write(real.join("lib/config.toml"), "[registry]\ntoken = 1").unwrap();
        fs::write(real.join("config.toml"), "[registry]\ntoken = 1").unwrap();
        fs::create_dir(real.join("lib/new")).unwrap();
        fs::write(real.join("lib/new/.npmrc"), "").unwrap();
        let shown = toolchains.shown(&[], &[]).unwrap();
        assert_eq!(relative(&real, &shown.hidden), ["lib/config.toml", "lib/new/.npmrc"]);
        assert_eq!(relative(&real, &shown.parts), ["lib"]);
    }

    #[test]
    fn of_a_toolchain_in_a_root_only_keys_are_hidden() {
        let (_folder, real) = place(&["home/chain/credentials", "home/chain/bin/x", "home/credentials"]);
        let toolchains = toolchains(&real.join("home/chain"), &["bin"]);
        let shown = toolchains.shown(&[real.join("home")], &[]).unwrap();
        assert_eq!(relative(&real, &shown.parts), ["home/chain"]);
        assert_eq!(relative(&real, &shown.hidden), ["home/chain/credentials"]);
        // A root in a toolchain, however, is not searched.
        let shown = toolchains.shown(&[real.join("home/chain/bin")], &[]).unwrap();
        assert_eq!(shown.hidden, [] as [PathBuf; 0]);
    }

    #[test]
    fn everything_but_the_parts_is_hidden_where_the_folder_is_shown() {
        let (_folder, real) = place(&["bin/x", "pkg/mod/a", "pkg/sum/b", "src/c", "config.toml"]);
        let mut hidden = Vec::new();
        hide_rest(&real, &[real.join("bin"), real.join("pkg/mod")], &mut hidden);
        assert_eq!(relative(&real, &hidden), ["config.toml", "pkg/sum", "src"]);
    }
}
