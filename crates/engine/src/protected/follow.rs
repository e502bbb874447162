//! Search for the files that run automatically because the user's settings lead to them, although
//! no list names them.
//!
//! The search follows symbolic links, the folders of hooks, the files that git's configuration
//! names, and the programs in its values. The search also follows the scripts that a hook or an
//! `.envrc` calls. Only plain words of a script count, so the search does not find a name that the
//! script computes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use policy::GitSetting;

use super::repository::{self, HOOKS, STRUCTURE};
use super::view::{Content, Kind, View};

/// Maximum number of files in the result, and maximum depth of scripts that call scripts. A user's
/// script calls a few.
const MOST: usize = 2_000;
const DEEPEST: usize = 4;

/// Programs that run the file named after them.
const INTERPRETERS: [&str; 22] = [
    ".",
    "source",
    "sh",
    "bash",
    "zsh",
    "dash",
    "ksh",
    "fish",
    "node",
    "deno",
    "bun",
    "tsx",
    "python",
    "python3",
    "ruby",
    "perl",
    "php",
    "Rscript",
    "lua",
    "source_env",
    "source_env_if_exists",
    "source_up",
];

/// Words after which a program may still follow.
const BEFORE_PROGRAMS: [&str; 14] = [
    "if", "then", "elif", "else", "while", "until", "do", "!", "exec", "env", "command", "time", "nice",
    "sudo",
];

/// Programs and functions that run or evaluate these files.
const RUNNERS: [(&str, &[&str]); 10] = [
    ("make", &["Makefile", "makefile", "GNUmakefile"]),
    ("just", &["justfile", "Justfile", ".justfile"]),
    ("task", &["Taskfile.yml", "Taskfile.yaml"]),
    ("rake", &["Rakefile"]),
    ("nox", &["noxfile.py"]),
    ("invoke", &["tasks.py"]),
    ("tox", &["tox.ini"]),
    // `use flake` and similar functions in an `.envrc`.
    ("flake", &["flake.nix", "flake.lock"]),
    ("nix", &["shell.nix", "default.nix"]),
    ("devenv", &["devenv.nix", "devenv.yaml"]),
];

/// Programs that run the scripts of a package, or programs that are installed in it.
const PACKAGE_RUNNERS: [&str; 7] = ["npm", "npx", "yarn", "pnpm", "pnpx", "bun", "bunx"];

/// Reason why a path counts to which settings lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FollowReason {
    /// The file runs or leads to a file that runs, whatever its content.
    Runs(String),
    /// Git reads settings from the file.
    Configuration,
    /// Some scripts of the package run: those whose names are among these words.
    Scripts(BTreeSet<String>),
}

/// Paths to which settings lead.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FollowedPaths {
    files: BTreeMap<PathBuf, FollowReason>,
    /// Folders in which every file counts, at any depth.
    folders: BTreeMap<PathBuf, String>,
    /// Folders in which the files with the names of hooks count.
    hooks: BTreeSet<PathBuf>,
}

impl FollowedPaths {
    /// Returns the reason why a path counts.
    pub(super) fn find(&self, path: &Path) -> Option<FollowReason> {
        if let Some(lead) = self.files.get(path) {
            return Some(lead.clone());
        }
        if let Some(why) = path.ancestors().find_map(|above| self.folders.get(above)) {
            return Some(FollowReason::Runs(why.clone()));
        }
        let is_hook = HOOKS.contains(&repository::last_name(path));
        (is_hook && path.parent().is_some_and(|folder| self.hooks.contains(folder))).then(|| {
            FollowReason::Runs("git runs it as a hook because a setting names its folder".to_owned())
        })
    }

    /// Returns true if a path below `path` counts, so that a link in its place would lead elsewhere.
    pub(super) fn has_below(&self, path: &Path) -> bool {
        let mut all = self.files.keys().chain(self.folders.keys()).chain(&self.hooks);
        all.any(|led| led.starts_with(path))
    }

    /// Lists every path by name, so that its creation can be watched.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        let paths = self.files.keys().chain(self.folders.keys()).chain(&self.hooks);
        paths.map(PathBuf::as_path)
    }

    /// Lists the files.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }

    /// Returns true if the settings lead to no path.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.folders.is_empty() && self.hooks.is_empty()
    }
}

/// Search that follows settings and scripts.
pub(super) struct Follower<'a> {
    view: View<'a>,
    led: FollowedPaths,
    /// Files that the search has examined. A change of any of them invalidates the result.
    seen: BTreeSet<PathBuf>,
}

impl<'a> Follower<'a> {
    pub(super) fn new(view: View<'a>) -> Self {
        Self { view, led: FollowedPaths::default(), seen: BTreeSet::new() }
    }

    pub(super) fn end(self) -> (FollowedPaths, BTreeSet<PathBuf>) {
        (self.led, self.seen)
    }

    /// Adds the files to which a script leads that runs automatically: through symbolic links, and
    /// by the names in it.
    pub(super) fn add_script(&mut self, script: &Path, why: &str) {
        let top = script.parent().unwrap_or(Path::new("")).to_owned();
        self.script(script, why, &BTreeSet::from([top]), 0);
    }

    /// Adds the files to which the settings of a repository, and those of the user, lead.
    pub(super) fn add_repository(&mut self, folder: &Path, users: &[PathBuf]) {
        let shared = repository::shared_folder(&self.view, folder);
        let tops = repository::tops(&self.view, folder);
        let both = BTreeSet::from([folder, shared.as_path()]);
        let mut hook_folders = BTreeSet::new();
        for place in &both {
            let is_far = **place != *folder && !place.starts_with(folder) && !folder.starts_with(place);
            for name in STRUCTURE {
                let part = place.join(name);
                self.seen.insert(part.clone());
                if is_far && name.starts_with("config") {
                    self.insert(&part, FollowReason::Configuration);
                }
            }
            if is_far {
                self.folder(&place.join("hooks"), "git runs it as a hook");
            }
            hook_folders.insert(place.join("hooks"));
        }
        let own = both.iter().flat_map(|place| ["config", "config.worktree"].map(|name| place.join(name)));
        let files: Vec<PathBuf> = own.chain(users.iter().cloned()).collect();
        for file in files {
            let mut read = Vec::new();
            let settings = repository::settings(&self.view, &file, &mut read);
            for included in read {
                self.configuration(&included, folder);
            }
            for setting in settings.iter().filter(|setting| !setting.runs_nothing()) {
                self.setting(setting, folder, &tops, &mut hook_folders);
            }
        }
        for hooks in hook_folders {
            self.seen.insert(hooks.clone());
            let way = self.view.follow(&hooks);
            if let Some(end) = way.end.filter(|end| *end != hooks && end.is_relative()) {
                self.links(way.links, "git runs the files in its target as hooks");
                self.led.hooks.insert(end);
            }
            for name in self.view.names(&hooks) {
                let is_sample = name.to_string_lossy().ends_with(".sample");
                let hook = hooks.join(&name);
                let counts = both.iter().any(|place| hook.starts_with(place.join("hooks")))
                    || HOOKS.iter().any(|known| name == *known);
                if !is_sample && counts && self.view.kind(&hook) != Some(Kind::Folder) {
                    self.script(&hook, "git runs it as a hook", &tops, 0);
                }
            }
        }
    }

    fn setting(
        &mut self,
        setting: &GitSetting,
        folder: &Path,
        tops: &BTreeSet<PathBuf>,
        hook_folders: &mut BTreeSet<PathBuf>,
    ) {
        let view = self.view;
        let place = |top: &PathBuf| view.named_in(top, &setting.value);
        match (setting.section.as_str(), setting.key.as_str()) {
            // An alias runs only when the user asks for it by name, and included files are followed
            // already.
            ("alias" | "include" | "includeif", _) => {}
            ("core", "hookspath") => {
                for named in tops.iter().map(place).chain([place(&folder.to_owned())]) {
                    let way = self.view.follow(&named);
                    self.links(way.links, "a setting names hooks in its target");
                    if let Some(end) = way.end.filter(|end| end.is_relative()) {
                        self.led.hooks.insert(end.clone());
                        hook_folders.insert(end);
                    }
                }
            }
            ("init", "templatedir") => {
                for named in tops.iter().map(place) {
                    if let Some(end) = self.view.follow(&named).end {
                        self.folder(&end, "git copies it into new repositories");
                    }
                }
            }
            ("core", "attributesfile") => {
                for named in tops.iter().map(place) {
                    if let Some(end) = self.view.follow(&named).end {
                        self.insert(&end, FollowReason::Runs("git reads attributes from it".to_owned()));
                    }
                }
            }
            _ => self.words(
                &setting.value,
                &format!("`{}` of git's configuration names it", setting.name()),
                tops,
                0,
            ),
        }
    }

    /// Adds a file of configuration, and the symbolic links on the way to it.
    fn configuration(&mut self, file: &Path, repository: &Path) {
        let way = self.view.follow(file);
        self.links(way.links, "its target contains git's configuration");
        self.seen.insert(file.to_owned());
        if let Some(end) = way.end {
            // The repository's own files are found by their path.
            if end.parent() != Some(repository) {
                self.insert(&end, FollowReason::Configuration);
            }
        }
    }

    fn links(&mut self, links: Vec<PathBuf>, why: &str) {
        for link in links {
            self.insert(&link, FollowReason::Runs(format!("{why}, and it is a link on the path")));
        }
    }

    fn folder(&mut self, folder: &Path, why: &str) {
        self.seen.insert(folder.to_owned());
        if folder.is_relative() && !folder.as_os_str().is_empty() {
            self.led.folders.insert(folder.to_owned(), why.to_owned());
        }
    }

    /// Adds a path, and returns true if it is new.
    fn insert(&mut self, path: &Path, lead: FollowReason) -> bool {
        self.seen.insert(path.to_owned());
        let counts = path.is_relative() && !path.as_os_str().is_empty() && self.led.files.len() < MOST;
        if !counts || self.led.files.contains_key(path) {
            return false;
        }
        self.led.files.insert(path.to_owned(), lead);
        true
    }

    /// Adds a script that runs automatically: the symbolic links on the way to it, and the files
    /// that it calls in turn.
    fn script(&mut self, script: &Path, why: &str, tops: &BTreeSet<PathBuf>, depth: usize) {
        let way = self.view.follow(script);
        self.links(way.links, why);
        let Some(end) = way.end else { return };
        self.seen.insert(script.to_owned());
        if self.view.kind(&end) == Some(Kind::Folder) {
            return self.folder(&end, why);
        }
        // A script that is reached by its own name is on the list of names already.
        if (depth > 0 || end != script) && !self.insert(&end, FollowReason::Runs(why.to_owned())) {
            return;
        }
        self.seen.insert(end.clone());
        let Content::Bytes(content) = self.view.read(&end) else { return };
        let Ok(text) = std::str::from_utf8(&content) else { return };
        if depth < DEEPEST && !text.contains('\0') {
            let mut bases = tops.clone();
            bases.extend(end.parent().map(Path::to_owned));
            bases.extend(script.parent().map(Path::to_owned));
            let why = format!("{} runs it and runs automatically", tool::path_text(script));
            self.words(text, &why, &bases, depth);
        }
    }

    /// Adds the files that are named by words of a script or of a setting.
    fn words(&mut self, text: &str, why: &str, bases: &BTreeSet<PathBuf>, depth: usize) {
        let mut all = BTreeSet::new();
        for command in text.split(['\n', ';', '|', '&']).filter(|line| !line.trim_start().starts_with('#')) {
            let is_between = |letter: char| letter.is_whitespace() || "'\"`(){}<>=,".contains(letter);
            let words: Vec<&str> = command.split(is_between).filter(|word| !word.is_empty()).collect();
            let mut is_run = true;
            // True after the beginning of `$(...)/x` or `${...}/x` in the position of a program or of
            // an interpreter's file.
            let mut is_computed = false;
            for word in words {
                all.insert(word.to_owned());
                let ends_computed = is_computed && word.starts_with('/');
                is_computed = is_computed && !ends_computed || is_run && word == "$";
                is_run |= ends_computed;
                let name = word.rsplit('/').next().unwrap_or(word);
                let files =
                    RUNNERS.iter().filter(|(runner, _)| *runner == word).flat_map(|(_, files)| *files);
                for file in files {
                    for base in bases {
                        self.named(&base.join(file), why, bases, (true, false), DEEPEST);
                    }
                }
                self.word(word, why, bases, is_run, depth);
                let leaves_it_open = word.starts_with('-') || BEFORE_PROGRAMS.contains(&word);
                is_run = INTERPRETERS.contains(&name) || is_run && leaves_it_open;
            }
        }
        if PACKAGE_RUNNERS.iter().any(|runner| all.contains(*runner)) {
            for base in bases {
                if self.view.exists(&base.join("package.json")) {
                    self.insert(&base.join("package.json"), FollowReason::Scripts(all.clone()));
                }
                for word in all.iter().filter(|word| !word.contains('/') && !word.contains('.')) {
                    let program = base.join("node_modules/.bin").join(word);
                    if self.view.exists(&program) {
                        self.script(&program, why, bases, DEEPEST);
                    }
                }
            }
        }
    }

    /// Adds the file that a word may name below one of these folders. `is_run` is true if the word
    /// is in the position of a program.
    fn word(&mut self, word: &str, why: &str, bases: &BTreeSet<PathBuf>, is_run: bool, depth: usize) {
        // `"$root"/scripts/x` and `$(dirname "$0")/x` begin with a folder that is unknown here and
        // may be any of the bases.
        let plain = match word.strip_prefix('$') {
            Some(variable) => match variable.split_once('/') {
                Some((_, rest)) => rest,
                None => return,
            },
            None => word,
        };
        let is_path = plain.contains('/') || word.contains('/');
        let plain = if is_path { plain.trim_start_matches('/') } else { plain };
        if plain.is_empty() || plain.starts_with('-') || word.contains("://") || !is_path && !is_run {
            return;
        }
        for base in bases {
            self.named(&self.view.named_in(base, plain), why, bases, (is_run, is_run && is_path), depth);
        }
    }

    /// Adds a named file that would run, because its name is in the position of a program or
    /// because the file is executable. A missing file counts too if it may be created later.
    fn named(
        &mut self,
        path: &Path,
        why: &str,
        bases: &BTreeSet<PathBuf>,
        (is_run, may_come): (bool, bool),
        depth: usize,
    ) {
        let way = self.view.follow(path);
        let Some(end) = way.end.filter(|end| end.is_relative()) else { return };
        match self.view.kind(&end) {
            Some(Kind::File) if is_run || self.view.is_executable(&end) => {
                self.script(path, why, bases, depth + 1);
            }
            None if may_come && end.parent().is_some_and(|folder| self.view.exists(folder)) => {
                self.insert(&end, FollowReason::Runs(why.to_owned()));
            }
            _ => {}
        }
    }
}
