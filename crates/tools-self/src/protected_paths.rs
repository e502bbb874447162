//! The files of a project that no self-modification may touch. Pure: the caller has resolved the path.

/// Files and folders of every project: what runs by itself, and what decides about calls.
const OF_EVERY_PROJECT: [&str; 30] = [
    ".handfast-trial",
    ".handfast-message",
    ".git",
    ".gitattributes",
    ".gitmodules",
    ".github",
    ".gitlab",
    ".gitlab-ci.yml",
    ".circleci",
    ".buildkite",
    ".forgejo",
    ".gitea",
    ".woodpecker",
    ".woodpecker.yml",
    ".travis.yml",
    ".drone.yml",
    ".appveyor.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "Jenkinsfile",
    ".handfast",
    "handfast.yaml",
    ".mcp.json",
    ".envrc",
    ".cargo",
    ".vscode",
    ".claude",
    ".cursor",
    ".husky",
    ".pre-commit-config.yaml",
];

/// Names of folders and files that are protected at every depth.
const AT_EVERY_DEPTH: [&str; 5] = [".git", ".gitattributes", ".cargo", ".envrc", "handfast.yaml"];

/// Folders and files of Handfast's own checkout: the gate through which every call goes.
const OF_HANDFAST: [&str; 33] = [
    "crates/beneath",
    "crates/checkpoint",
    "crates/dialects",
    "crates/door-csp",
    "crates/door-http",
    "crates/door-mcp",
    "crates/egress",
    "crates/engine",
    "crates/fetch",
    "crates/handfast",
    "crates/locks",
    "crates/plugins",
    "crates/policy",
    "crates/roots",
    "crates/sandbox",
    "crates/shell-syntax",
    "crates/store-api",
    "crates/store-conformance",
    "crates/store-sqlite",
    "crates/testkit",
    "crates/tool",
    "crates/tool-support",
    "crates/tools-self",
    "crates/tools-shell",
    "crates/vault",
    "crates/watch",
    "tests",
    "xtask",
    "Cargo.toml",
    "Cargo.lock",
    "clippy.toml",
    "rustfmt.toml",
    "docs/GUARANTEES.md",
];

/// Files by which a project is recognised as Handfast's own checkout. All of them are protected.
pub(crate) const MARKS_OF_HANDFAST: [&str; 2] =
    ["crates/tools-self/src/protected_paths.rs", "crates/engine/src/life.rs"];

/// Returns the normal form of a path in a project: relative, without `.` and `..`.
///
/// # Errors
/// The problem of the path.
pub(crate) fn normal(path: &str) -> Result<String, &'static str> {
    if path.is_empty() || path.len() > 1_000 {
        return Err("must have 1 to 1000 bytes");
    }
    if path.starts_with('/') || path.starts_with('~') {
        return Err("must be relative to the project");
    }
    if path.chars().any(char::is_control) || path.contains('\\') {
        return Err("has a control character or a backslash");
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err("must not contain `..`"),
            part => parts.push(part),
        }
    }
    if parts.is_empty() || path.ends_with('/') {
        return Err("must name a file");
    }
    Ok(parts.join("/"))
}

/// Returns the entry that protects a path; `None` if the path may be modified. `own` has the entries that the
/// configuration adds.
pub(crate) fn protecting(path: &str, is_handfast: bool, own: &[String]) -> Option<String> {
    let folded = folded(path);
    let parts: Vec<&str> = folded.split('/').collect();
    let fixed = OF_EVERY_PROJECT.iter().chain(OF_HANDFAST.iter().filter(|_| is_handfast));
    let covers = |entry: &str| is_covered(&parts, &self::folded(entry));
    if let Some(entry) = fixed.into_iter().find(|entry| covers(entry)) {
        return Some((*entry).to_owned());
    }
    let deep = AT_EVERY_DEPTH.iter().find(|name| parts.iter().any(|part| *part == self::folded(name)));
    if let Some(name) = deep {
        return Some((*name).to_owned());
    }
    own.iter().find(|entry| covers(entry)).cloned()
}

/// Returns true if an entry covers a path: it names the path, or a folder above it. `*` in a part of the entry
/// stands for any characters, and a part `**` for any number of folders.
fn is_covered(path: &[&str], entry: &str) -> bool {
    let entry: Vec<&str> = entry.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    !entry.is_empty() && begins_with(path, &entry)
}

// BOUNDED: by the number of parts of a path, at most 1000 bytes long.
fn begins_with(path: &[&str], entry: &[&str]) -> bool {
    match (entry.split_first(), path.split_first()) {
        (None, _) => true,
        (Some((&"**", rest)), None) => rest.is_empty(),
        (Some((&"**", rest)), Some((_, below))) => begins_with(path, rest) || begins_with(below, entry),
        (Some(_), None) => false,
        (Some((wanted, rest)), Some((part, below))) => is_like(part, wanted) && begins_with(below, rest),
    }
}

/// Returns true if a name is like a pattern in which `*` stands for any characters.
fn is_like(name: &str, pattern: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// Folds a path for comparison: without differences of case, and without characters that cannot be seen.
fn folded(path: &str) -> String {
    let is_invisible = |c: char| matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    path.chars().filter(|c| !is_invisible(*c)).flat_map(char::to_lowercase).collect()
}

/// Returns true if a path looks like a file of tests, by the conventions of the runners.
pub(crate) fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.split('.').next().unwrap_or(name);
    let in_folder = path.split('/').any(|part| ["tests", "test", "__tests__", "spec"].contains(&part));
    in_folder
        || stem.starts_with("test_")
        || stem.ends_with("_test")
        || name.contains(".test.")
        || name.contains(".spec.")
        || name == "conftest.py"
}

/// Returns true if a path decides which tests run, and how.
pub(crate) fn decides_about_tests(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let names = [
        "conftest.py",
        "pytest.ini",
        "pyproject.toml",
        "setup.cfg",
        "tox.ini",
        "package.json",
        "Cargo.toml",
        "build.rs",
        "go.mod",
        "Makefile",
        "nextest.toml",
    ];
    names.contains(&name) || name.starts_with("jest.config") || name.starts_with("vitest.config")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_protected_file_is_refused() {
        for path in [
            ".git/hooks/pre-commit",
            ".GIT/config",
            ".g\u{200c}it/config",
            "sub/.git/config",
            ".github/workflows/ci.yml",
            "handfast.yaml",
            "Handfast.YAML",
            "deep/handfast.yaml",
            ".cargo/config.toml",
            "a/.gitattributes",
        ] {
            assert!(protecting(path, false, &[]).is_some(), "{path}");
        }
        for path in ["src/lib.rs", ".gitignore", "gitlab/x", "src/github.rs", "crates/policy/src/decide.rs"] {
            assert_eq!(protecting(path, false, &[]), None, "{path}");
        }
        for path in
            ["crates/policy/src/decide.rs", "crates/Vault/src/lib.rs", "xtask/src/main.rs", "Cargo.toml"]
        {
            assert!(protecting(path, true, &[]).is_some(), "{path}");
        }
        assert_eq!(protecting("crates/tools-web/src/lib.rs", true, &[]), None);
        for mark in MARKS_OF_HANDFAST {
            assert!(protecting(mark, true, &[]).is_some(), "{mark}");
        }
    }

    #[test]
    fn entries_of_the_configuration_cover_folders_and_patterns() {
        let own = ["src/gate".to_owned(), "**/*_policy.py".to_owned(), "a/*/z".to_owned()];
        for path in ["src/gate/x.py", "src/gate", "my_policy.py", "x/y/my_policy.py", "a/b/z/c"] {
            assert!(protecting(path, false, &own).is_some(), "{path}");
        }
        for path in ["src/gateway.py", "src", "policy.py.txt", "a/b/c/z"] {
            assert_eq!(protecting(path, false, &own), None, "{path}");
        }
    }

    #[test]
    fn a_path_out_of_the_project_is_refused() {
        for path in ["", "/etc/passwd", "../x", "a/../../x", "~/x", "a\nb", "a\\b", ".", "src/"] {
            assert!(normal(path).is_err(), "{path}");
        }
        assert_eq!(normal("./src//a.rs").unwrap(), "src/a.rs");
    }

    #[test]
    fn files_of_tests_are_recognised() {
        for path in ["tests/a.rs", "src/a_test.go", "test_a.py", "a/b.spec.ts", "conftest.py"] {
            assert!(is_test_file(path), "{path}");
        }
        assert!(!is_test_file("src/contest.rs"));
        assert!(decides_about_tests("a/package.json") && !decides_about_tests("a.json"));
    }
}
