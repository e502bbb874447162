//! A rule for recursion: a function that calls itself must state what bounds its depth. A stack
//! overflow ends the whole program, and the calls of every caller.

use crate::tidy::source::Source;
use crate::tidy::{Finding, Tree};

/// Beginning of the comment that names the bound, within the function or in the comment above it.
const BOUND: &str = "// BOUNDED: ";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, source) in tree.sources.iter().filter(|(path, _)| ships(path)) {
        let raw: Vec<&str> = tree.text(path).unwrap_or_default().lines().collect();
        for (first, line, in_test) in source.lines() {
            let Some(name) = function_name(line).filter(|_| !in_test) else { continue };
            let last = end(source, first);
            if calls_itself(&source.code[first..=last], name) && !states_a_bound(&raw, first, last) {
                let message = format!(
                    "`{name}` calls itself: go through what lies below with a stack of your own, or name what bounds the depth in a \
                     comment `{BOUND}...`"
                );
                found.push(Finding::line(path, first, message));
            }
        }
    }
    found
}

/// Returns true if the file is part of the shipped product. The crate that helps tests is not.
fn ships(path: &str) -> bool {
    path.starts_with("crates/") && !path.starts_with("crates/testkit/")
}

/// Returns the name of the function that begins on this line.
fn function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_declaration = before.split_whitespace().all(|word| {
        word.starts_with("pub")
            || ["const", "async", "unsafe", "extern"].contains(&word)
            || word.ends_with(')')
    });
    let name = rest.split(|character: char| !is_part_of_name(character)).next()?;
    (is_declaration && !name.is_empty()).then_some(name)
}

/// Returns the last line of the function that begins here: the first line that closes a brace at
/// the function's own indentation.
fn end(source: &Source, first: usize) -> usize {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let own = source.code.get(first).map_or(0, |line| indentation(line));
    let ends = |line: &String| {
        let text = line.trim();
        indentation(line) == own && (text.starts_with('}') || text.ends_with(';'))
    };
    let rest = source.code.iter().skip(first);
    rest.take_while(|line| !ends(line)).count().saturating_add(first).min(source.code.len() - 1)
}

/// Returns true if the lines of a function call a function of the same name: on its own type for a
/// method, in its own module otherwise.
fn calls_itself(lines: &[String], name: &str) -> bool {
    let text = lines.join("\n");
    let Some((signature, body)) = text.split_once('{') else { return false };
    let takes_self = signature.split(|character| !is_part_of_name(character)).any(|word| word == "self");
    if body.contains(&format!("let {name} = ")) {
        // The call refers to a closure of that name.
        return false;
    }
    let call = format!("{name}(");
    body.match_indices(&call).any(|(at, _)| {
        let before = &body[..at];
        if before.ends_with("Self::") && body[at + call.len()..].trim_start().starts_with("self") {
            // A trait's method delegates to the type's own method of that name.
            return false;
        }
        if before.ends_with("self.") || before.ends_with("Self::") {
            let outer = before.trim_end_matches("self.").trim_end_matches("Self::");
            return !outer.ends_with(|character| is_part_of_name(character) || character == '.');
        }
        !takes_self
            && !before
                .ends_with(|character| is_part_of_name(character) || character == '.' || character == ':')
    })
}

fn states_a_bound(raw: &[&str], first: usize, last: usize) -> bool {
    let is_comment = |line: &&&str| line.trim_start().starts_with("//");
    let above = raw[..first].iter().rev().take_while(is_comment).count();
    raw[first - above..=last.min(raw.len() - 1)].iter().any(|line| line.contains(BOUND))
}

fn is_part_of_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{places, tree};

    fn found(text: &str) -> usize {
        check(&tree(&[("crates/x/src/a.rs", text)])).len()
    }

    #[test]
    fn a_function_that_calls_itself_without_a_bound_is_refused() {
        assert_eq!(found("fn walk(at: &Path) {\n    for inner in at {\n        walk(inner);\n    }\n}\n"), 1);
        assert_eq!(found("impl A {\n    pub(crate) fn walk(&self) {\n        self.walk();\n    }\n}\n"), 1);
        assert_eq!(found("impl A {\n    fn walk(a: &A) {\n        Self::walk(a);\n    }\n}\n"), 1);
        let text = "fn a() {}\n\nfn walk(at: &Path) {\n    walk(at);\n}\n";
        assert_eq!(places(&check(&tree(&[("crates/x/src/a.rs", text)]))), ["crates/x/src/a.rs:3"]);
    }

    #[test]
    fn a_bound_a_test_and_another_function_of_that_name_are_let_be() {
        assert_eq!(found("// BOUNDED: by the parser\nfn walk(at: &Path) {\n    walk(at);\n}\n"), 0);
        assert_eq!(found("fn walk(at: &Path) {\n    // BOUNDED: once\n    walk(at);\n}\n"), 0);
        assert_eq!(
            found(
                "impl A {\n    fn read(&self) {\n        read(self.0);\n        self.0.read();\n    }\n}\n"
            ),
            0
        );
        assert_eq!(found("impl A for B {\n    fn read(&self) {\n        Self::read(self)\n    }\n}\n"), 0);
        assert_eq!(found("fn read() {\n    io::read();\n    unread();\n    // read()\n}\n"), 0);
        assert_eq!(found("#[cfg(test)]\nmod tests {\n    fn walk() {\n        walk();\n    }\n}\n"), 0);
        assert_eq!(check(&tree(&[("xtask/src/a.rs", "fn a() {\n    a();\n}\n")])), []);
    }
}
