//! Variables that a command may be given without a question.

/// Returns true if setting the variable to this value only changes how a program looks or how
/// verbose it is.
///
/// Any other variable could make a program run or load something: `PATH`, `LD_PRELOAD`,
/// `GIT_SSH_COMMAND`, `NODE_OPTIONS`, ...
pub(crate) fn is_harmless_assignment(name: &str, value: &str) -> bool {
    let plain =
        value.chars().all(|character| character.is_ascii_alphanumeric() || "_-.,:=@% ".contains(character));
    let listed = match name {
        "PAGER" | "GIT_PAGER" | "GH_PAGER" | "MANPAGER" => value.is_empty() || value == "cat",
        "EDITOR" | "GIT_EDITOR" | "VISUAL" => value == "true" || value == ":",
        "TERM" => ["dumb", "xterm", "xterm-256color"].contains(&value),
        _ => NAMES.contains(&name) || name.starts_with("LC_"),
    };
    listed && plain
}

/// Names of variables whose value is a number, a level, a locale or a yes or no.
const NAMES: [&str; 44] = [
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "LINES",
    "DEBIAN_FRONTEND",
    "FORCE_COLOR",
    "NO_COLOR",
    "LANG",
    "LANGUAGE",
    "TZ",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "CARGO_TERM_COLOR",
    "CARGO_INCREMENTAL",
    "CARGO_NET_OFFLINE",
    "NODE_ENV",
    "NO_UPDATE_NOTIFIER",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONIOENCODING",
    "PYTHONUTF8",
    "PYTHONHASHSEED",
    "GOOS",
    "GOARCH",
    "CGO_ENABLED",
    "GO111MODULE",
    "GOMAXPROCS",
    "GIT_TERMINAL_PROMPT",
    "GIT_OPTIONAL_LOCKS",
    "GIT_PAGER_IN_USE",
    "HUSKY",
    "SKIP_INSTALL",
    "VERBOSE",
    "DEBUG",
    "LOG_LEVEL",
    "UPDATE_SNAPSHOTS",
    "INSTA_UPDATE",
    "UPDATE_EXPECT",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD",
    "OMP_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "TOKENIZERS_PARALLELISM",
    "JEST_WORKERS",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_through_which_nothing_runs_are_harmless() {
        for (name, value) in [
            ("CI", "1"),
            ("LC_ALL", "C.UTF-8"),
            ("GIT_PAGER", "cat"),
            ("RUST_LOG", "debug,x=trace"),
            ("TZ", "UTC"),
        ] {
            assert!(is_harmless_assignment(name, value), "{name}");
        }
        for (name, value) in [
            ("PATH", "."),
            ("LD_PRELOAD", "x"),
            ("GIT_SSH_COMMAND", "x"),
            ("GIT_PAGER", "sh"),
            ("BASH_ENV", "x"),
            ("IFS", "x"),
            ("PYTHONSTARTUP", "x"),
            ("NODE_OPTIONS", "--require x"),
            ("TZ", "/etc/x"),
            ("EDITOR", "vi"),
            ("x", "1"),
            ("TERM", "../x"),
        ] {
            assert!(!is_harmless_assignment(name, value), "{name}");
        }
    }
}
