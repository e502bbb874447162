//! Which files a command would run, and which programs no lease is ever for.

use std::path::{Path, PathBuf};

use super::guarded::is_known;
use super::programs::{WRAPPERS, base_name, is_interpreter, is_scripted};
use super::reach::Reached;
use super::table::has_table;
use crate::Programs;
use crate::spell::resolve;

/// Programs that fetch and run what others have published, or keep what later programs run.
const FETCHERS: &str = "
    apk apt apt-get aptitude brew bun bundle bundler cabal cargo composer conan conda cpan cpanm deno dnf dpkg easy_install
    emerge flatpak gem go gradle guix helm hex luarocks mamba maven micromamba mix mvn nimble nix nix-env nix-shell npm npx
    nuget opam opkg pacman pdm pear pecl pip pip3 pipenv pipx pkg pkgin pnpm poetry port raco rebar3 rpm rustup rye sbt snap
    stack swift uv uvx vcpkg yarn yay yum zypper
";

/// Programs that keep versions of files, and run hooks, filters and aliases that lie among those.
const VERSION_CONTROL: &str = "bzr cvs darcs fossil gh git git-lfs glab hg hub jj lazygit p4 svn tig";

/// What the files are called that these programs run when none is named.
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

/// More directories, and more files, are not looked at.
const MOST_DIRECTORIES: usize = 8;
const MOST_FILES: usize = 128;

/// Why no beginning with this program is ever leased, as the end of a sentence.
pub(crate) fn is_never_leased(program: &str) -> Option<&'static str> {
    let in_list = |list: &str| list.split_whitespace().any(|name| name == program);
    // `python3.12` and `pip3.11` are what they are without the number.
    let bare = program.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    if is_interpreter(program) || is_scripted(program) || is_interpreter(bare) {
        Some("is an interpreter")
    } else if in_list(VERSION_CONTROL) || program.starts_with("git-") {
        Some("runs what lies in a repository")
    } else if in_list(FETCHERS) || FETCHERS.split_whitespace().any(|name| name == bare) {
        Some("is a package manager")
    } else if WRAPPERS.contains(&program) {
        Some("runs other programs")
    } else if is_known(program) && !has_table(program) {
        Some("can be made to do anything by its arguments")
    } else {
        None
    }
}

/// Adds the files that a command would run: the program of each place where a command may begin, and the words behind it
/// where it may be given a script.
pub(crate) fn files_run(reached: &Reached, directory: &Path, programs: &Programs, files: &mut Vec<PathBuf>) {
    let mut directories = vec![directory.to_owned()];
    for start in reached.starts() {
        if let [program, target, ..] = start.words
            && program == "cd"
            && directories.len() < MOST_DIRECTORIES
        {
            directories.push(resolve(directories.last().map_or(directory, PathBuf::as_path), target).path);
        }
    }
    let mut add = |path: PathBuf| {
        if files.len() < MOST_FILES && !files.contains(&path) {
            files.push(path);
        }
    };
    for start in reached.starts() {
        let Some((program, arguments)) = start.words.split_first() else { continue };
        if program.contains('/') {
            for directory in &directories {
                add(resolve(directory, program).path);
            }
        } else if let Programs::Found(find) = programs
            && let Some(found) = find(program)
        {
            add(found.path);
        }
        let name = base_name(program);
        let driven = DRIVEN_BY.iter().filter(|(driver, _)| *driver == name).flat_map(|(_, files)| *files);
        for directory in &directories {
            driven.clone().for_each(|file| add(directory.join(file)));
        }
        let takes_scripts = is_interpreter(name)
            || is_scripted(name)
            || WRAPPERS.contains(&name)
            || ["source", "."].contains(&name);
        if takes_scripts {
            let named =
                arguments.iter().map(|word| word.split_once('=').map_or(word.as_str(), |(_, value)| value));
            for word in named.filter(|word| !word.is_empty() && !word.starts_with('-') && word.len() < 4096) {
                for directory in &directories {
                    add(resolve(directory, word).path);
                }
            }
        }
    }
}
