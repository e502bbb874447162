//! What code a command would run, by the words of its line: programs, scripts, modules, and the folders that names lead into.
//!
//! It looks nothing up. A name that leads to nothing now is listed too, because a file may come there before the command runs.

use std::path::{Path, PathBuf};

use shell_syntax::Word;

use super::matching::{known_form, possible_paths};
use super::programs::{WRAPPERS, base_name, is_cluster, is_interpreter, is_scripted, runs_standard_input};
use super::reach::Reached;
use super::table::{Class, Kind};
use crate::programs::{Programs, project_folders};
use crate::spell::resolve;

/// What a command would run, as far as its line says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs {
    /// Files whose content may run, by where they would lie. More are listed than run, and some may not exist.
    pub files: Vec<PathBuf>,
    /// Folders that the command may look for code in.
    pub folders: Vec<PathBuf>,
    /// Why more may run than is listed, as the middle of a sentence; none where nothing else does.
    pub unnamed: Option<String>,
}

/// The files that these programs read when none is named, in the folder where they start.
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

/// Programs beside interpreters that run a file which an option or a word names.
const TAKE_SCRIPTS: [&str; 22] = [
    ".", "bc", "dc", "ed", "emacs", "ex", "expect", "gdb", "gnuplot", "java", "julia", "lldb", "m4", "nvim",
    "octave", "R", "sed", "source", "sqlite3", "ts-node", "vi", "vim",
];

/// How Node finds what a name that it is given stands for.
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

/// More directories, files and folders are not listed; then not all is named.
const MOST_DIRECTORIES: usize = 8;
const MOST_LISTED: usize = 2048;

/// More words are not looked at: behind a wrapper each may be a program, and all behind it its arguments.
const MOST_WORDS: usize = 32_768;

/// A longer word is no path.
const LONGEST_PATH: usize = 4096;

/// Whether the program runs files that its words name.
pub(super) fn takes_scripts(program: &str) -> bool {
    is_interpreter(program)
        || is_scripted(program)
        || WRAPPERS.contains(&program)
        || TAKE_SCRIPTS.contains(&program)
        || program.contains('/')
}

/// Lists what a command would run.
pub(crate) fn runs(reached: Reached, directory: &Path, workspace: &Path, programs: &Programs) -> Runs {
    let mut listing = Listing {
        directories: vec![directory.to_owned()],
        of_project: project_folders(directory, workspace),
        runs: Runs::default(),
        programs,
        words: 0,
    };
    let starts: Vec<&[String]> = reached.starts().map(|start| start.words).collect();
    for words in &starts {
        listing.enter(words);
    }
    // What an interpreter is given by other commands is named by the words of those.
    let reads_code = reached.unnamed.is_some() || starts.iter().any(|words| runs_standard_input(words));
    for words in &starts {
        listing.start(words, reads_code);
    }
    let mut runs = listing.runs;
    runs.unnamed = reached.unnamed.or(runs.unnamed);
    runs
}

struct Listing<'a> {
    /// Where commands of the line may start.
    directories: Vec<PathBuf>,
    /// Where programs of the project are found, behind the search path.
    of_project: Vec<PathBuf>,
    runs: Runs,
    programs: &'a Programs,
    /// How many words were looked at.
    words: usize,
}

impl Listing<'_> {
    /// Follows a `cd`.
    fn enter(&mut self, words: &[String]) {
        let [program, rest @ ..] = words else { return };
        let Some(target) = rest.iter().find(|word| !word.starts_with('-')) else { return };
        if !["cd", "pushd"].contains(&program.as_str()) {
            return;
        }
        if self.directories.len() >= MOST_DIRECTORIES {
            self.too_much("it enters too many folders");
            return;
        }
        let from = self.directories.last().cloned().unwrap_or_default();
        let entered = resolve(&from, target).path;
        self.folder(entered.clone());
        self.folder(from.join(target));
        self.directories.push(entered);
    }

    /// One place where a command may begin.
    fn start(&mut self, words: &[String], reads_code: bool) {
        let Some((program, arguments)) = words.split_first() else { return };
        self.words += words.len();
        if self.words > MOST_WORDS {
            self.too_much("it has too many words that may be programs");
            return;
        }
        let name = base_name(program);
        if program.contains('/') {
            self.word(program, Self::file);
        } else if let Programs::Found(find) = self.programs {
            match find(program, &[]) {
                Some(found) => self.file(found.path),
                // One that comes to a nearer folder takes the place of what is there.
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

    /// The files that a program is driven by, where it starts and in each folder that a word may name.
    fn driven(&mut self, name: &str, paths: &[&str]) {
        let Some((_, files)) = DRIVEN_BY.iter().find(|(driver, _)| *driver == name) else { return };
        for file in *files {
            self.word(file, Self::file);
            for path in paths {
                self.word(&format!("{path}/{file}"), Self::file);
            }
        }
    }

    /// What an interpreter makes of a word that is a folder, or a name without its ending.
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

    /// The files of the modules that options name.
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

    /// The files that `python -m NAME` may take its module from, and those of the packages around it.
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

    /// Lists a word as it would lead from each directory. Behind `..` the kernel goes by links, and names do not.
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
        let room = self.runs.files.len() + self.runs.folders.len() < MOST_LISTED;
        if !room {
            self.too_much("it names too many files");
        }
        room
    }

    fn too_much(&mut self, why: &str) {
        self.runs.unnamed.get_or_insert_with(|| why.to_owned());
    }
}
