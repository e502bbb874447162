//! Rules against empty names and machine-specific paths.

use crate::tidy::{Finding, Tree};

/// Words that do not describe a thing.
const EMPTY_WORDS: [&str; 8] =
    ["manager", "managers", "helper", "helpers", "util", "utils", "utility", "common"];

/// Standards whose generations are distinguished by number. The number belongs to the standard.
const NUMBERED_STANDARDS: [&str; 4] = ["cgroup", "abi", "uuid", "ip"];

const DECLARES: [&str; 10] =
    ["struct", "enum", "trait", "type", "mod", "fn", "const", "static", "union", "macro_rules!"];

/// Folders in which build machines place a checkout. The full paths are assembled at run time, so
/// that this file does not break its own rule.
const BUILD_FOLDERS: [&str; 4] = ["work", "builds", "home/runner", "var/lib/jenkins"];

/// User name inside a cell. The user's home is the same on every machine.
const CELL_USER: &str = "agent";

/// Checks the names of declared items and of files.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, source) in &tree.sources {
        let stem = path.trim_end_matches(".rs");
        for part in stem.split('/') {
            found.extend(
                fault_of(&part.replace('-', "_"))
                    .map(|fault| Finding::file(path, format!("`{part}`: {fault}"))),
            );
        }
        for (number, line, _) in source.lines() {
            for name in declared(line) {
                found.extend(
                    fault_of(name).map(|fault| Finding::line(path, number, format!("`{name}`: {fault}"))),
                );
            }
        }
    }
    found
}

/// Reports absolute paths of the author's machine or home.
///
/// Build folders are refused in every file, homes only in the literals of shipped code, because
/// documents and tests have made-up users.
pub(super) fn machine_paths(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let folders = BUILD_FOLDERS.map(|folder| format!("/{folder}/"));
    for file in &tree.files {
        for (number, line) in file.text.lines().enumerate() {
            if let Some(folder) = folders.iter().find(|folder| names_path(line, folder)) {
                found.push(Finding::line(
                    &file.path,
                    number,
                    format!("names {folder}, a folder of a build machine"),
                ));
            }
        }
    }
    for (path, source) in &tree.sources {
        for (number, line) in source.literals.iter().enumerate() {
            let test = source.in_test.get(number).copied().unwrap_or_default();
            let home = ["/home/", "/Users/"].iter().any(|home| line.split(home).skip(1).any(is_of_a_person));
            if home && !test {
                found.push(Finding::line(path, number, "names a person's home folder"));
            }
        }
    }
    found
}

/// Returns true if the text after the folder of homes is a name other than that of the cell's user.
fn is_of_a_person(rest: &str) -> bool {
    let name =
        rest.split(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c))).next().unwrap_or_default();
    !name.is_empty() && name != CELL_USER
}

/// Returns true if `line` contains `path` as the start of an absolute path rather than within a
/// longer one.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        before.is_none_or(|c| !(c.is_alphanumeric() || "/._-}~".contains(c)))
    })
}

fn declared(line: &str) -> impl Iterator<Item = &str> {
    let words =
        line.split(|c: char| c.is_whitespace() || "(<:{;=,)".contains(c)).filter(|word| !word.is_empty());
    let mut after_keyword = false;
    words.filter(move |word| {
        let is_name = after_keyword && !DECLARES.contains(word) && *word != "unsafe" && *word != "mut";
        after_keyword = DECLARES.contains(word) || after_keyword && !is_name;
        is_name
    })
}

fn fault_of(name: &str) -> Option<String> {
    let words = words_of(name);
    if let Some(word) = words.iter().find(|word| EMPTY_WORDS.contains(&word.as_str())) {
        return Some(format!("`{word}` says nothing; name what it is"));
    }
    let (last, before) = words.split_last()?;
    let numbered = last.strip_prefix('v').is_some_and(|digits| digits.parse::<u32>().is_ok());
    let standard = before.last().is_some_and(|word| NUMBERED_STANDARDS.contains(&word.as_str()));
    (numbered && !before.is_empty() && !standard)
        .then(|| format!("`{last}` keeps an old generation beside a new one; replace the old one"))
}

/// Returns the words of a name, in lower case: `FileManager`, `file_manager` and `FILE_MANAGER`
/// have the same two.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_is_lower = false;
    for character in name.chars() {
        if character == '_' || character.is_uppercase() && before_is_lower {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| character != '_') {
            word.extend(character.to_lowercase());
        }
        before_is_lower = character.is_lowercase() || character.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{places, tree};

    #[test]
    fn empty_words_are_refused_in_every_spelling() {
        for bad in [
            "struct SessionManager;",
            "pub(crate) fn path_helper() {}",
            "mod util;",
            "const COMMON: u8 = 1;",
            "enum Utils {}",
            "pub const fn run_v2() {}",
            "trait StoreV2 {}",
            "type Helper<T> = T;",
        ] {
            let found = check(&tree(&[("crates/x/src/a.rs", bad)]));
            assert_eq!(places(&found), ["crates/x/src/a.rs:1"], "{bad}");
        }
    }

    #[test]
    fn files_are_named_like_items() {
        assert_eq!(places(&check(&tree(&[("tests/common/mod.rs", "")]))), ["tests/common/mod.rs"]);
        assert_eq!(places(&check(&tree(&[("crates/x/src/string_util.rs", "")]))).len(), 1);
    }

    #[test]
    fn full_words_and_numbered_standards_pass() {
        let good = "fn cgroup_v2() {}\nstruct CgroupV1;\nfn commonest() {}\nstruct Manageress;\nmod v1;\n\
                    // struct Manager;\nlet x = \"fn helper()\";\nuse other::Manager;";
        assert_eq!(check(&tree(&[("crates/x/src/a.rs", good)])), []);
    }

    #[test]
    fn build_folders_are_refused_everywhere() {
        let folder = ["", "work", "main"].join("/");
        for (path, text) in
            [("README.md", format!("see {folder}/x")), ("a.rs", format!("let x = \"{folder}/x\";"))]
        {
            assert_eq!(places(&machine_paths(&tree(&[(path, &text)]))), [format!("{path}:1")]);
        }
        let within = format!("a frame{folder}/x, {{root}}{folder}/x and ~{folder}/x");
        assert_eq!(machine_paths(&tree(&[("README.md", &within)])), []);
    }

    #[test]
    fn homes_are_refused_in_what_ships_alone() {
        let text = "// /home/ann\nlet x = \"/home/ann/y\";\nlet y = [\"/home/\", \"/home/agent/.cache\"];\n#[cfg(test)]\nmod tests {\n    \
                    const X: &str = \"/home/ann\";\n}";
        assert_eq!(places(&machine_paths(&tree(&[("crates/x/src/a.rs", text)]))), ["crates/x/src/a.rs:2"]);
    }
}
