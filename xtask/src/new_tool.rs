//! `cargo xtask new-tool`: a new tool that passes every check, ready to be changed.

use crate::command::{Failure, Result, run, write};
use crate::repository::Repository;

/// Source of a new tool. `TOOL` stands for its name and `Type` for its type.
const TEMPLATE: &str = include_str!("new_tool/template.rs.txt");

/// Adds a tool to a family, with its page and the snapshot of its texts.
pub(crate) fn add(repository: &Repository, family: &str, name: &str) -> Result<()> {
    check_name(name)?;
    let folder = format!("crates/tools-{family}");
    let list = format!("{folder}/src/lib.rs");
    let Ok(text) = std::fs::read_to_string(repository.root.join(&list)) else {
        let known = families(repository)?.join(", ");
        return Err(Failure::new(format!("there is no family `{family}`; the families are {known}")));
    };
    let file = format!("{folder}/src/{name}.rs");
    if repository.root.join(&file).exists() {
        return Err(Failure::new(format!("{file} already exists")));
    }
    let with_tool = listed(&text, name)
        .ok_or_else(|| Failure::new(format!("{list} has no `pub fn tools` with a `vec![...]`")))?;
    write(&repository.root.join(&file), &TEMPLATE.replace("TOOL", name).replace("Type", &type_name(name)))?;
    write(&repository.root.join(&list), &with_tool)?;
    run(&mut repository.cargo(&["fmt", "--package", &format!("tools-{family}")]))?;
    eprintln!(
        "Wrote {file} and added the tool to {list}. Next:\n\
         1. Change the file: its texts, arguments, result, plan and code, and the tests below them.\n\
         2. Write its page and the snapshot of its texts, and read both:\n\
         \u{20}  cargo xtask docs\n\
         \u{20}  INSTA_UPDATE=always cargo test --workspace --test whole tool_texts\n\
         3. Run `cargo test -p tools-{family}`, then `cargo xtask test`, and add a line to CHANGELOG.md."
    );
    Ok(())
}

/// Checks that a name consists of lower-case words with `_` between them, as the names of all tools do.
fn check_name(name: &str) -> Result<()> {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    if name.contains('_') && name.split('_').all(is_word) {
        return Ok(());
    }
    Err(Failure::new(format!("`{name}` is not a tool name; write it like `file_read`")))
}

fn families(repository: &Repository) -> Result<Vec<String>> {
    let entries =
        std::fs::read_dir(repository.root.join("crates")).map_err(|error| Failure::new(error.to_string()))?;
    let mut found: Vec<String> = entries
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_prefix("tools-")?.to_owned()))
        .collect();
    found.sort();
    Ok(found)
}

/// Converts `file_read` to `FileRead`.
fn type_name(name: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    name.split('_').map(capital).collect()
}

/// Returns the text of a family's `lib.rs` with the module and the tool, to be formatted.
fn listed(text: &str, name: &str) -> Option<String> {
    let module = text.find("\nmod ")? + 1;
    let tools = text.find("pub fn tools(")?;
    let begin = tools + text.get(tools..)?.find("vec![")? + "vec![".len();
    let mut depth = 1_usize;
    let end = text.get(begin..)?.find(|c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    let (before, after) = text.split_at_checked(begin + end)?;
    let (head, before) = before.split_at_checked(module)?;
    let before = before.trim_end().trim_end_matches(',');
    let tool = format!("ErasedTool::tool({name}::{})", type_name(name));
    Some(format!("{head}mod {name};\n{before}, {tool}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_added_to_the_modules_and_to_the_list() {
        let text = "//! A family.\n\nmod a_b;\n\npub fn tools(x: &[u8]) -> Vec<T> {\n    vec![\n        ErasedTool::tool(AB([1])),\n    ]\n}\n";
        assert_eq!(
            listed(text, "a_c").unwrap(),
            "//! A family.\n\nmod a_c;\nmod a_b;\n\npub fn tools(x: &[u8]) -> Vec<T> {\n    vec![\n        ErasedTool::tool(AB([1])), \
             ErasedTool::tool(a_c::AC)]\n}\n"
        );
        assert_eq!(listed("pub fn tools() {}", "a_c"), None);
    }

    #[test]
    fn a_name_that_no_tool_has_is_refused() {
        assert!(check_name("file_read").is_ok() && check_name("db_v2_query").is_ok());
        for bad in ["", "read", "File_read", "file-read", "_read", "file_", "a__b", "../x_y", "2_a"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
