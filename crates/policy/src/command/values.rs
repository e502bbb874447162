//! Values of options and operands: checks that they name nothing that could be run, loaded or
//! written. `checks.rs` names these functions, each of one word.

use std::path::Path;

use super::programs::{WRAPPERS, is_interpreter};

/// Returns true for a plain name: no path, no module, no assignment.
pub(super) fn is_name(word: &str) -> bool {
    !word.is_empty()
        && word.chars().all(|character| character.is_ascii_alphanumeric() || "-_".contains(character))
}

/// Returns true for an option with a number, as `-j8`.
pub(super) fn is_numbered(word: &str, option: &str) -> bool {
    word.strip_prefix(option).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns true for strategies that git implements itself. For another name git runs `git-merge-NAME`.
pub(super) fn is_merge_strategy(word: &str) -> bool {
    ["ort", "recursive", "resolve", "octopus", "ours", "subtree"].contains(&word)
}

/// Returns true for permission bits of a new folder without write permission for everybody and
/// without set-user-id.
pub(super) fn is_harmless_right(word: &str) -> bool {
    let digits = word.strip_prefix('0').unwrap_or(word).as_bytes();
    digits.len() == 3
        && digits.iter().all(|digit| (b'0'..=b'7').contains(digit))
        && digits.iter().skip(1).all(|digit| matches!(digit, b'0' | b'1' | b'4' | b'5'))
}

/// Returns true for arguments of `cargo clippy --` that are levels of lints and their names. Other
/// arguments go to the compiler.
pub(super) fn is_lint(word: &str) -> bool {
    let is_level = ["-D", "-W", "-A", "-F", "--deny", "--warn", "--allow", "--forbid"].contains(&word);
    let named = ["-D", "-W", "-A", "-F"].iter().find_map(|level| word.strip_prefix(level)).unwrap_or(word);
    is_level || named.split("::").all(is_name) && !named.starts_with('-')
}

/// Returns true for a package of a registry, with its version, or for a folder or file below the
/// current one. A word that names another place (an address, a repository, a folder elsewhere)
/// brings code that was not published under that name.
pub(super) fn is_package(word: &str) -> bool {
    // `x@..` and `x@~` lead to folders.
    let elsewhere = word.contains("@.") || word.contains("@~");
    if word.is_empty()
        || elsewhere
        || word.starts_with(['-', '/', '~', '#'])
        || word.contains([':', '#', '\\'])
    {
        return false;
    }
    if word == "." || word.starts_with("./") {
        return !word.split('/').any(|part| part == "..");
    }
    match word.strip_prefix('@') {
        // `@scope/name@1.2` is accepted; its version contains no path.
        Some(scoped) => scoped.matches('/').count() == 1,
        None => !word.contains('/') && !word.starts_with('.'),
    }
}

/// Returns true for a package of the workspace for `go run`, named by a path below the current
/// folder. Other packages are fetched.
pub(super) fn is_local_source(word: &str) -> bool {
    let is_source = Path::new(word).extension().is_some_and(|extension| extension == "go");
    let below = word == "." || word.starts_with("./") || is_source;
    below && !word.starts_with(['/', '-']) && !word.contains('@') && !word.split('/').any(|part| part == "..")
}

/// Returns true for a version of Python. The path of an interpreter is refused, and so is a bare
/// name, which may be one.
pub(super) fn is_python_version(word: &str) -> bool {
    let number = ["cpython@", "cpython", "python", "pypy@", "pypy", ">=", "=="]
        .iter()
        .find_map(|prefix| word.strip_prefix(prefix))
        .unwrap_or(word);
    let number = number.strip_prefix('-').unwrap_or(number);
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Returns true for the name of a script in `package.json` that is not a program. If there is no
/// script of that name, the package manager looks for a program.
pub(super) fn is_script_name(word: &str) -> bool {
    !word.starts_with('-')
        && !word.contains('/')
        && !is_interpreter(word)
        && !WRAPPERS.contains(&word)
        && !["exec", "dlx", "node"].contains(&word)
}

/// Returns true for a usual name of a script in `package.json`, for `bun run`. If there is no
/// script of that name, it looks for a program of the system.
pub(super) fn is_only_a_script(word: &str) -> bool {
    const USUAL: [&str; 22] = [
        "build",
        "bundle",
        "check",
        "ci",
        "codegen",
        "coverage",
        "dev",
        "e2e",
        "fmt",
        "format",
        "generate",
        "lint",
        "migrate",
        "prepare",
        "preview",
        "release",
        "seed",
        "serve",
        "start",
        "test",
        "type-check",
        "typecheck",
    ];
    let part = |part: &str| is_name(part);
    USUAL.contains(&word) || (word.contains(':') && word.split(':').all(part))
}

/// Returns true for flags of Go's linker about names and texts in the program. Its other options
/// name files and programs.
pub(super) fn is_linker_flag(word: &str) -> bool {
    let mut words = word.split_whitespace();
    while let Some(flag) = words.next() {
        let known = match flag.trim_start_matches('-') {
            "s" | "w" | "buildid=" => true,
            "X" => words.next().is_some_and(is_assignment),
            other => other.strip_prefix("X=").is_some_and(is_assignment),
        };
        if !known || !flag.starts_with('-') {
            return false;
        }
    }
    true
}

fn is_assignment(word: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "./_-+:=@".contains(character);
    word.contains('=') && word.chars().all(plain)
}

/// Returns true for a list of folders and archives below the current folder.
pub(super) fn is_class_path(word: &str) -> bool {
    word.split(':')
        .all(|path| !path.starts_with(['/', '~', '-']) && !path.split('/').any(|part| part == ".."))
}

/// Returns true for a usual name of a remote, or for an address that names no program. A path, or a
/// name that may be one, leads to a repository whose hooks and settings run.
pub(super) fn is_plain_remote(word: &str) -> bool {
    const USUAL: [&str; 10] = [
        "origin",
        "upstream",
        "fork",
        "mirror",
        "backup",
        "github",
        "gitlab",
        "bitbucket",
        "gitea",
        "codeberg",
    ];
    let harmless =
        is_plain_ref(word) && !word.contains("//-") && !word.contains(":-") && !word.contains("@-");
    let network = ["https://", "http://", "ssh://", "git://", "git+ssh://"]
        .iter()
        .any(|scheme| word.starts_with(scheme));
    let host = word.split_once(':').is_some_and(|(host, path)| {
        host.contains(['.', '@']) && !host.contains('/') && !path.starts_with("//")
    });
    harmless && (USUAL.contains(&word) || network || host)
}

/// Returns true for a branch or a pair of branches: a word that is not an option, and names no
/// program to run (`ext::`).
pub(super) fn is_plain_ref(word: &str) -> bool {
    !word.contains("::") && !word.starts_with('-')
}

/// Returns true for phases and goals that Maven runs without third-party plugins.
pub(super) fn is_maven_phase(word: &str) -> bool {
    [
        "clean",
        "validate",
        "compile",
        "test-compile",
        "test",
        "package",
        "verify",
        "integration-test",
        "install",
        "site",
        "process-resources",
        "dependency:tree",
        "dependency:list",
        "dependency:resolve",
        "help:effective-pom",
    ]
    .contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_a_registry_and_of_the_folder_are_told_from_those_of_other_places() {
        for word in [
            "left-pad",
            "left-pad@1.3",
            "@types/node",
            "@types/node@20",
            "requests==2.0",
            "a[b]>=1",
            ".",
            "./x",
        ] {
            assert!(is_package(word), "{word}");
        }
        for word in [
            "",
            "-g",
            "/x",
            "~/x",
            "../x",
            "./a/../../x",
            "evil/repo",
            "@a/b/c",
            "http://x/y.tgz",
            "git+ssh://x",
            "file:../x",
            "x@file:../y",
            "github:a/b",
            ".hidden/x",
            "x@..",
            "@a/b@..",
            "x@~",
        ] {
            assert!(!is_package(word), "{word}");
        }
    }

    #[test]
    fn versions_and_sources_are_told_from_programs_elsewhere() {
        for word in ["3", "3.12", "python3.12", "cpython@3.11", ">=3.9", "pypy-3.10"] {
            assert!(is_python_version(word), "{word}");
        }
        for word in ["", "x", "./python3", "python", "3.12/bin", "/usr/bin/python3"] {
            assert!(!is_python_version(word), "{word}");
        }
        for word in [".", "./cmd/x", "main.go", "cmd/x/main.go", "./..."] {
            assert!(is_local_source(word), "{word}");
        }
        for word in ["evil.com/x@latest", "evil.com/x", "/tmp/x.go", "../x.go", "./../x", "-x.go"] {
            assert!(!is_local_source(word), "{word}");
        }
    }
}
