//! Code that a command would run, by the words of its line: programs, scripts, modules, and the
//! folders that names lead into.
//!
//! This module looks up nothing. A name that leads to no file now is listed too, because a file may
//! appear there before the command runs.

use std::path::{Path, PathBuf};

use shell_syntax::Word;

use super::matching::{known_form, possible_paths};
use super::programs::{WRAPPERS, base_name, is_cluster, is_interpreter, is_scripted, runs_standard_input};
use super::reach::ReachedCommands;
use super::table::{Class, Kind};
use crate::programs::{Programs, project_folders};
use crate::spell::resolve;

/// Code that a command would run, as far as its line shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs {
    /// Paths of files whose content may run. More are listed than run, and some may not exist.
    pub files: Vec<PathBuf>,
    /// Folders in which the command may look for code.
    pub folders: Vec<PathBuf>,
    /// Reason why more code may run than is listed, as the middle of a sentence, or `None` if no
    /// other code runs.
    pub unnamed: Option<String>,
}

/// Files that these programs read by default, in the folder where they start.
const DRIVEN_BY: [(&str, &[&str]); 9] = [
    ("make", &["GNUmakefile", "makefile", "Makefile"]),
    ("gmake", &["GNUmakefile", "makefile", "Makefile"]),
    ("just", &["justfile", "Justfile", ".justfile"]),
    ("npm", &["package.json"]),
    ("pnpm", &["package.json"]),
    ("yarn", &["package.json"]),
    ("bun", &["package.json"]),
    ("rake", &["Rakefile", "rakefile"]),
    ("task", &["Taskfile.yml", "Taskfile.yaml"]),
];

/// Programs that start another one in a folder, with the options that name the folder.
const ENTERS_BY: [(&str, &[&str]); 8] = [
    ("bwrap", &["--chdir"]),
    ("env", &["-C", "--chdir"]),
    ("go", &["-C"]),
    ("nsenter", &["-w", "--wd"]),
    ("sudo", &["-D", "--chdir"]),
    ("systemd-run", &["--working-directory"]),
    ("unshare", &["-w", "--wd"]),
    ("uv", &["--directory", "--project"]),
];

/// Programs that make a file of another one, by their words or into a redirection.
const COPYING: [&str; 13] =
    ["cat", "cp", "dd", "head", "install", "ln", "mv", "rsync", "sed", "sort", "tail", "tee", "tr"];

/// Programs other than interpreters that run a file which an option or a word names.
const TAKE_SCRIPTS: [&str; 22] = [
    ".", "bc", "dc", "ed", "emacs", "ex", "expect", "gdb", "gnuplot", "java", "julia", "lldb", "m4", "nvim",
    "octave", "R", "sed", "source", "sqlite3", "ts-node", "vi", "vim",
];

/// Files that Node tries for a name that it is given.
const OF_NODE: [&str; 8] = [
    "package.json",
    "index.js",
    "index.cjs",
    "index.mjs",
    "index.json",
    "index.node",
    "index.ts",
    "index.tsx",
];
const ENDINGS_OF_NODE: [&str; 7] = [".js", ".cjs", ".mjs", ".json", ".node", ".ts", ".tsx"];

/// Maximum number of directories, and of files and folders, that are listed. Beyond them not
/// everything is named.
const MAX_DIRECTORIES: usize = 8;
const MAX_LISTED: usize = 2048;

/// Maximum number of words that are checked: after a wrapper each may be a program, with all later
/// words as its arguments.
const MAX_WORDS: usize = 32_768;

/// Maximum length of a path; a longer word is not one.
const LONGEST_PATH: usize = 4096;

/// Returns true if the program runs files that its words name.
pub(super) fn takes_scripts(program: &str) -> bool {
    is_interpreter(program)
        || is_scripted(program)
        || WRAPPERS.contains(&program)
        || TAKE_SCRIPTS.contains(&program)
        || program.contains('/')
}

/// Lists the code that a command would run.
pub(crate) fn runs(
    reached: ReachedCommands,
    directory: &Path,
    workspace: &Path,
    programs: &Programs,
) -> Runs {
    let mut listing = Listing {
        directories: vec![directory.to_owned()],
        current: directory.to_owned(),
        of_project: project_folders(directory, workspace),
        runs: Runs::default(),
        programs,
        words: 0,
    };
    let starts: Vec<&[String]> = reached.starts().map(|start| start.words).collect();
    for words in &starts {
        listing.enter(words);
    }
    // The words of other commands may name code that an interpreter receives from them.
    let reads_code = reached.unnamed.is_some() || starts.iter().any(|words| runs_standard_input(words));
    for words in &starts {
        listing.start(words, reads_code);
    }
    // A file that an earlier command reads may become a script that the line makes and runs, as in
    // `cp a b && sh b`.
    let makes_script =
        |words: &[String]| words.first().is_some_and(|program| COPYING.contains(&base_name(program)));
    let runs_script = starts.iter().any(|words| {
        words.len() > 1 && words.first().is_some_and(|program| takes_scripts(base_name(program)))
            || words.first().is_some_and(|program| program.contains('/'))
    });
    if runs_script && !reads_code {
        for words in &starts {
            if makes_script(words) {
                listing.copied(words);
            }
        }
    }
    let mut runs = listing.runs;
    runs.unnamed = reached.unnamed.or(runs.unnamed);
    runs
}

/// Returns the folder that is attached to one of these options, or an empty text if the folder is the
/// next word. Returns `None` if the word is none of the options. A short option may end a cluster.
fn folder_option<'w>(word: &'w str, options: &[&str]) -> Option<&'w str> {
    options.iter().find_map(|option| match option.strip_prefix("--") {
        // A long option may be abbreviated.
        Some(_) => {
            let (spelled, attached) = word.split_once('=').unwrap_or((word, ""));
            (spelled.len() > 3 && option.starts_with(spelled)).then_some(attached)
        }
        None => {
            let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
            let (_, attached) = letters.split_once(option.strip_prefix('-')?)?;
            Some(attached)
        }
    })
}

/// Returns true if these arguments of `find` start a program that takes scripts in the folder of each
/// match.
fn runs_script_where_it_finds(arguments: &[String]) -> bool {
    let mut pairs = arguments.iter().zip(arguments.iter().skip(1));
    pairs.any(|(option, program)| {
        ["-execdir", "-okdir"].contains(&option.as_str()) && takes_scripts(base_name(program))
    })
}

struct Listing<'a> {
    /// Directories in which commands of the line may start.
    directories: Vec<PathBuf>,
    /// Directory of the shell after the commands so far.
    current: PathBuf,
    /// Folders with programs of the project, which come after the search path.
    of_project: Vec<PathBuf>,
    runs: Runs,
    programs: &'a Programs,
    /// Number of words that were checked.
    words: usize,
}

impl Listing<'_> {
    /// Follows a `cd`, and an option by which a program starts another one in a folder.
    fn enter(&mut self, words: &[String]) {
        let [program, rest @ ..] = words else { return };
        if ["cd", "pushd"].contains(&program.as_str()) {
            if let Some(target) = rest.iter().find(|word| !word.starts_with('-')) {
                let from = std::mem::take(&mut self.current);
                self.current = self.enter_folder(&from, target);
            }
            return;
        }
        let name = base_name(program);
        if name == "find" && runs_script_where_it_finds(rest) {
            self.too_much("`-execdir` starts a script in each folder that it finds");
        }
        let Some((_, options)) = ENTERS_BY.iter().find(|(enters, _)| *enters == name) else { return };
        for (at, word) in rest.iter().enumerate() {
            if let Some(attached) = folder_option(word, options) {
                let next = || rest.get(at + 1).map(String::as_str);
                let Some(target) = Some(attached).filter(|text| !text.is_empty()).or_else(next) else {
                    continue;
                };
                // The program may itself start in any of the folders, and later commands do not.
                for from in self.directories.clone() {
                    self.enter_folder(&from, target);
                }
            }
        }
    }

    /// Adds a folder in which commands of the line may start, and returns it.
    fn enter_folder(&mut self, from: &Path, target: &str) -> PathBuf {
        let entered = resolve(from, target).path;
        self.folder(entered.clone());
        self.folder(from.join(target));
        if !self.directories.contains(&entered) {
            if self.directories.len() < MAX_DIRECTORIES {
                self.directories.push(entered.clone());
            } else {
                self.too_much("it enters too many folders");
            }
        }
        entered
    }

    /// Lists the code of one place where a command may begin.
    fn start(&mut self, words: &[String], reads_code: bool) {
        let Some((program, arguments)) = words.split_first() else { return };
        self.words += words.len();
        if self.words > MAX_WORDS {
            self.too_much("it has too many words that may be programs");
            return;
        }
        let name = base_name(program);
        if program.contains('/') {
            self.word(program, Self::file);
        } else if let Programs::Found(find) = self.programs {
            match find(program, &[]) {
                Some(found) => self.file(found.path),
                // A program that appears in a nearer folder replaces the one in a farther folder.
                None => {
                    for folder in self.of_project.clone() {
                        self.file(folder.join(program));
                    }
                }
            }
        }
        let literal: Vec<Word> = words.iter().map(Word::literal).collect();
        if !reads_code && known_form(&literal, Class::Reads).is_ok() {
            return;
        }
        let paths: Vec<&str> = possible_paths(&literal)
            .filter(|path| !path.starts_with('-') && path.len() < LONGEST_PATH)
            .collect();
        for path in &paths {
            self.word(path, Self::folder);
        }
        self.driven(name, &paths);
        let known = known_form(&literal, Class::Acts).ok().filter(|_| !takes_scripts(name));
        match known {
            Some(form) if !reads_code => {
                let programs = form.operands.iter().filter(|operand| operand.kind == Kind::Program);
                for operand in programs {
                    self.word(&operand.text, Self::file);
                }
            }
            _ => {
                for path in &paths {
                    self.word(path, Self::file);
                    self.package(name, path);
                }
            }
        }
        self.modules(name, arguments);
    }

    /// Lists the files that a command may copy.
    fn copied(&mut self, words: &[String]) {
        for word in words.iter().skip(1).filter(|word| word.len() < LONGEST_PATH) {
            let path = word.strip_prefix("if=").unwrap_or(word);
            if !path.starts_with('-') {
                self.word(path, Self::file);
            }
        }
    }

    /// Lists the files that configure a program, in its directory and in each folder that a word
    /// may name.
    fn driven(&mut self, name: &str, paths: &[&str]) {
        let Some((_, files)) = DRIVEN_BY.iter().find(|(driver, _)| *driver == name) else { return };
        for file in *files {
            self.word(file, Self::file);
            for path in paths {
                self.word(&format!("{path}/{file}"), Self::file);
            }
        }
    }

    /// Lists the files that an interpreter tries for a word that is a folder, or a name without its ending.
    fn package(&mut self, name: &str, path: &str) {
        if name.starts_with("py") {
            self.word(&format!("{path}/__main__.py"), Self::file);
        }
        if ["node", "bun", "deno", "tsx", "ts-node"].contains(&name) {
            for file in OF_NODE {
                self.word(&format!("{path}/{file}"), Self::file);
            }
            for ending in ENDINGS_OF_NODE {
                self.word(&format!("{path}{ending}"), Self::file);
            }
        }
        if name == "java" {
            for ending in [".class", ".java"] {
                self.word(&format!("{path}{ending}"), Self::file);
            }
        }
    }

    /// Lists the files of the modules that options name.
    fn modules(&mut self, name: &str, arguments: &[String]) {
        for (at, word) in arguments.iter().enumerate() {
            let value = |attached: &str| match attached {
                "" => arguments.get(at + 1).cloned().unwrap_or_default(),
                attached => attached.to_owned(),
            };
            if name.starts_with("py")
                && is_cluster(word)
                && let Some((_, attached)) = word.split_once('m')
            {
                self.module_of_python(&value(attached));
                return;
            }
            let named =
                ["--require", "--import", "--loader", "--experimental-loader", "-r", "-M", "-m", "-l"]
                    .iter()
                    .find_map(|option| word.strip_prefix(option));
            let Some(attached) = named.filter(|_| is_interpreter(name)) else { continue };
            let module = value(attached.trim_start_matches('='));
            let spelled = module.replace("::", "/");
            for ending in [".rb", ".pm", ".lua", ".php"] {
                self.word(&format!("{spelled}{ending}"), Self::file);
                self.word(&format!("lib/{spelled}{ending}"), Self::file);
            }
            for folder in ["", "node_modules/"] {
                self.word(&format!("{folder}{module}"), Self::file);
                self.package("node", &format!("{folder}{module}"));
            }
        }
    }

    /// Lists the files from which `python -m NAME` may load its module, and those of the packages
    /// around it.
    fn module_of_python(&mut self, module: &str) {
        let mut folder = String::new();
        for part in module.split('.').filter(|part| !part.is_empty()) {
            for file in ["/__init__.py", "/__main__.py", ".py", ".pyc", ".so", ".abi3.so"] {
                self.word(&format!("{folder}{part}{file}"), Self::file);
            }
            folder.push_str(part);
            self.word(&folder.clone(), Self::folder);
            folder.push('/');
        }
    }

    /// Lists a word as resolved from each directory. After `..` the kernel follows links, and the
    /// spelling does not.
    fn word(&mut self, word: &str, list: fn(&mut Self, PathBuf)) {
        for directory in self.directories.clone() {
            let resolved = resolve(&directory, word);
            list(self, resolved.path);
            if resolved.through_a_name {
                list(self, directory.join(word));
            }
        }
    }

    fn file(&mut self, path: PathBuf) {
        if self.has_room() && !self.runs.files.contains(&path) {
            self.runs.files.push(path);
        }
    }

    fn folder(&mut self, path: PathBuf) {
        if self.has_room() && !self.runs.folders.contains(&path) {
            self.runs.folders.push(path);
        }
    }

    fn has_room(&mut self) -> bool {
        let room = self.runs.files.len() + self.runs.folders.len() < MAX_LISTED;
        if !room {
            self.too_much("it names too many files");
        }
        room
    }

    fn too_much(&mut self, why: &str) {
        self.runs.unnamed.get_or_insert_with(|| why.to_owned());
    }
}
