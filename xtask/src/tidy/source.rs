//! A scanner that separates Rust text into code, the content of literals, and test lines.
//!
//! The scanner is no parser: it knows comments, literals and braces. With these the rules can
//! distinguish a mention from a use.

/// One Rust file, line by line.
pub(super) struct Source {
    /// The code, with comments and the content of literals replaced by spaces.
    pub(super) code: Vec<String>,
    /// The content of literals, with all other text replaced by spaces.
    pub(super) literals: Vec<String>,
    /// True for each line that belongs to tests.
    pub(super) in_test: Vec<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Code,
    Comment,
    Literal,
}

impl Source {
    pub(super) fn read(path: &str, text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let parts = parts(&characters);
        let only = |wanted: Part| -> Vec<String> {
            let kept = characters
                .iter()
                .zip(&parts)
                .map(|(&character, &part)| if character == '\n' || part == wanted { character } else { ' ' });
            kept.collect::<String>().lines().map(str::to_owned).collect()
        };
        let code = only(Part::Code);
        let in_test = if is_test_file(path) { vec![true; code.len()] } else { test_lines(&code) };
        Self { literals: only(Part::Literal), in_test, code }
    }

    /// Returns the lines of code with their number and a flag for tests.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str, bool)> {
        self.code
            .iter()
            .zip(&self.in_test)
            .enumerate()
            .map(|(number, (line, test))| (number, line.as_str(), *test))
    }
}

/// Returns true for a file that does not ship: an integration test, an example, or the module that
/// `#[cfg(test)] mod tests;` names.
fn is_test_file(path: &str) -> bool {
    let folders = path.split('/').rev().skip(1);
    folders.into_iter().any(|folder| ["tests", "examples", "benches"].contains(&folder))
        || path.ends_with("/tests.rs")
}

fn parts(text: &[char]) -> Vec<Part> {
    let mut parts = Vec::with_capacity(text.len());
    while let Some(rest) = text.get(parts.len()..).filter(|rest| !rest.is_empty()) {
        let at = parts.len();
        let after_name = at > 0 && text.get(at - 1).is_some_and(|c| c.is_alphanumeric() || *c == '_');
        let (part, length) = match rest {
            ['/', '/', ..] => (Part::Comment, rest.iter().take_while(|c| **c != '\n').count()),
            ['/', '*', ..] => (Part::Comment, block_comment(rest)),
            ['"', ..] => (Part::Literal, quoted(rest)),
            ['\'', '\\', ..] => (Part::Literal, character(rest)),
            ['\'', _, '\'', ..] => (Part::Literal, 3),
            ['r', '"' | '#', ..] if !after_name => match raw_string(rest) {
                Some(length) => (Part::Literal, length),
                None => (Part::Code, 1),
            },
            // The `r` of `br"…"` follows a letter that belongs to the literal.
            ['b' | 'c', 'r', '"' | '#', ..] if !after_name => match rest.get(1..).and_then(raw_string) {
                Some(length) => (Part::Literal, length + 1),
                None => (Part::Code, 1),
            },
            _ => (Part::Code, 1),
        };
        parts.extend(std::iter::repeat_n(part, length.clamp(1, rest.len())));
    }
    parts
}

fn block_comment(text: &[char]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        match rest {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] if depth == 1 => return at + 2,
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    text.len()
}

fn quoted(text: &[char]) -> usize {
    let mut at = 1;
    while let Some(character) = text.get(at) {
        match character {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// Returns the length of an escaped character literal. The escape may be long, as in `'\u{1F600}'`.
fn character(text: &[char]) -> usize {
    text.iter().skip(3).position(|c| *c == '\'').map_or(text.len(), |end| end + 4)
}

/// Returns the length of a raw string that starts at its `r`, or `None` for a raw identifier.
fn raw_string(text: &[char]) -> Option<usize> {
    let hashes = text.iter().skip(1).take_while(|c| **c == '#').count();
    if text.get(1 + hashes) != Some(&'"') {
        return None;
    }
    let start = hashes + 2;
    let closes = |at: usize| {
        text.get(at) == Some(&'"')
            && text.iter().skip(at + 1).take(hashes).filter(|c| **c == '#').count() == hashes
    };
    let end = (start..text.len()).find(|&at| closes(at));
    Some(end.map_or(text.len(), |end| end + 1 + hashes))
}

/// Marks every item behind `#[cfg(test)]`, from the attribute to the item's closing brace or semicolon.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut marked = vec![false; code.len()];
    let mut number = 0;
    while let Some(line) = code.get(number) {
        let starts =
            ["#[cfg(test", "#[cfg(all(test"].iter().any(|attribute| line.trim_start().starts_with(attribute));
        let last = if starts { item_end(code, number) } else { number };
        if starts {
            for mark in marked.iter_mut().take(last + 1).skip(number) {
                *mark = true;
            }
        }
        number = last + 1;
    }
    marked
}

fn item_end(code: &[String], first: usize) -> usize {
    let mut depth = 0_usize;
    for (number, line) in code.iter().enumerate().skip(first) {
        for character in line.chars() {
            match character {
                '{' => depth += 1,
                '}' if depth == 1 => return number,
                '}' => depth = depth.saturating_sub(1),
                ';' if depth == 0 => return number,
                _ => {}
            }
        }
    }
    code.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(text: &str) -> String {
        Source::read("a.rs", text).code.join("\n")
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        for hidden in [
            "// X",
            "/* /* X */ X */",
            r#""a \" X""#,
            r##"r#"" X "#"##,
            r##"br#"X"#"##,
            r#"b"X""#,
            "'X'",
            r"'\''; 'X'",
            r"'\u{58}'",
        ] {
            let text = format!("before {hidden}\nafter");
            assert!(!code_of(&text).contains('X'), "{text}");
            assert!(code_of(&text).contains("before") && code_of(&text).contains("after"), "{text}");
        }
    }

    #[test]
    fn lifetimes_and_raw_names_stay_code() {
        let text = "fn f<'a>(x: &'a str, r#type: X) -> X { for_r(x) }";
        assert_eq!(code_of(text), text);
    }

    #[test]
    fn the_content_of_literals_is_kept_apart() {
        let source = Source::read("a.rs", "let x = \"/there\"; // /here");
        assert!(source.literals.concat().contains("/there"));
        assert!(!source.literals.concat().contains("/here"));
    }

    #[test]
    fn test_modules_are_told_from_what_ships() {
        let text = "fn a() {}\n#[cfg(test)]\nuse x::y;\nfn b() {}\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\nfn d() {}";
        let source = Source::read("src/a.rs", text);
        assert_eq!(source.in_test, [false, true, true, false, true, true, true, true, false]);
        assert_eq!(Source::read("tests/security/a.rs", "fn a() {}").in_test, [true]);
        assert_eq!(Source::read("crates/x/examples/a.rs", "fn a() {}").in_test, [true]);
        assert_eq!(Source::read("crates/x/src/latest.rs", "fn a() {}").in_test, [false]);
        assert_eq!(Source::read("crates/x/src/tests.rs", "fn a() {}").in_test, [true]);
    }
}
