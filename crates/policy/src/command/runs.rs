//! Programs that are never leased, or only within the limits of the cell.

use super::dangerous_programs::is_known;
use super::programs::{WRAPPERS, is_interpreter, is_scripted};
use super::table::has_table;

/// Programs that fetch and run code of other publishers, or store code that later programs run.
const FETCHERS: &str = "
    apk apt apt-get aptitude brew bun bundle bundler cabal cargo composer conan conda cpan cpanm deno dnf dpkg easy_install
    emerge flatpak gem go gradle guix helm hex luarocks mamba maven micromamba mix mvn nimble nix nix-env nix-shell npm npx
    nuget opam opkg pacman pdm pear pecl pip pip3 pipenv pipx pkg pkgin pnpm poetry port raco rebar3 rpm rustup rye sbt snap
    stack swift uv uvx vcpkg yarn yay yum zypper
";

/// Programs that run the recipes of a project.
const BUILDERS: &str = "ant bazel bazelisk cmake gmake just make meson ninja nox rake task tox";

/// Clients of forges, which act on other machines.
const FORGES: [&str; 3] = ["gh", "glab", "hub"];

/// Programs that store versions of files, and run hooks, filters and aliases among them.
const VERSION_CONTROL: &str = "bzr cvs darcs fossil gh git git-lfs glab hg hub jj lazygit p4 svn tig";

/// Returns true if the program's effects are those of the cell: what it runs and changes depends on the
/// project, and not on the name.
pub(crate) fn is_of_the_project(program: &str) -> bool {
    let bare = program.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let in_list = |list: &str| list.split_whitespace().any(|name| name == program || name == bare);
    let acts_elsewhere = is_interpreter(bare) || FORGES.contains(&program);
    !acts_elsewhere && (in_list(FETCHERS) || in_list(VERSION_CONTROL) || in_list(BUILDERS))
}

/// Returns the reason why no prefix with this program is ever leased, as the end of a sentence.
pub(crate) fn is_never_leased(program: &str) -> Option<&'static str> {
    let in_list = |list: &str| list.split_whitespace().any(|name| name == program);
    // `python3.12` and `pip3.11` are the same programs without the number.
    let bare = program.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    if is_interpreter(program) || is_scripted(program) || is_interpreter(bare) {
        Some("is an interpreter")
    } else if in_list(VERSION_CONTROL) || program.starts_with("git-") {
        Some("runs code from a repository")
    } else if in_list(FETCHERS) || FETCHERS.split_whitespace().any(|name| name == bare) {
        Some("is a package manager")
    } else if WRAPPERS.contains(&program) {
        Some("runs other programs")
    } else if is_known(program) && !has_table(program) {
        Some("can do anything, depending on its arguments")
    } else {
        None
    }
}
