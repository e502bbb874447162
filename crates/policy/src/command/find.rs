//! `find`, whose words are an expression.

use shell_syntax::Word;

use super::matching::{CommandEffect, Operand, known_form};
use super::table::{Class, Kind};

/// Tests and actions without a value.
const PLAIN: [&str; 27] = [
    "-a",
    "-and",
    "-o",
    "-or",
    "!",
    "-not",
    "(",
    ")",
    ",",
    "-print",
    "-print0",
    "-prune",
    "-quit",
    "-ls",
    "-empty",
    "-readable",
    "-writable",
    "-executable",
    "-true",
    "-false",
    "-depth",
    "-d",
    "-mount",
    "-xdev",
    "-nouser",
    "-nogroup",
    "-daystart",
];

/// Tests and actions with a value that is only compared or printed.
const WITH_VALUE: [&str; 32] = [
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-regex",
    "-iregex",
    "-regextype",
    "-type",
    "-xtype",
    "-size",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-maxdepth",
    "-mindepth",
    "-perm",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-links",
    "-inum",
    "-used",
    "-newermt",
    "-lname",
    "-ilname",
    "-printf",
];

/// Tests whose value is a path that is looked at.
const WITH_PATH: [&str; 5] = ["-newer", "-anewer", "-cnewer", "-samefile", "-newermm"];

/// Accepts an expression of known tests whose only actions are printing and running programs that
/// only read.
pub(super) fn only_finds(words: &[Word], found_use: &mut CommandEffect) -> Result<(), &'static str> {
    // A file may be named `-delete`, and the shell would replace the glob with its name.
    if words.iter().any(|word| !word.is_literal() && !stands_for_no_action(word)) {
        return Err("a file name pattern could expand to any option of `find`");
    }
    let (starts, mut rest) = starts(words);
    found_use.operands.extend(starts.iter().map(|start| Operand::of(start, Kind::Names)));
    if starts.is_empty() {
        found_use.operands.push(Operand::directory(Kind::Names));
    }
    while let Some((word, behind)) = rest.split_first() {
        let text = word.text.as_str();
        rest = behind;
        if PLAIN.contains(&text) {
            continue;
        }
        if text == "-exec" {
            let end = behind.iter().position(|word| [";", "+"].contains(&word.text.as_str()));
            let (inner, behind) = behind.split_at(end.ok_or("an action of `find` is not terminated")?);
            run_on_found(inner, &found(words), found_use)?;
            rest = behind.get(1..).unwrap_or_default();
            continue;
        }
        let (value, behind) = behind.split_first().ok_or("a test of `find` has no value")?;
        rest = behind;
        if WITH_PATH.contains(&text) {
            found_use.operands.push(Operand::of(value, Kind::Names));
        } else if !WITH_VALUE.contains(&text) {
            return Err("`find` writes or runs something, or has unknown arguments");
        }
    }
    Ok(())
}

/// Returns true if a pattern of file names ends as `*.txt` does. No name that matches it is that of
/// an action, because actions have no dots.
fn stands_for_no_action(word: &Word) -> bool {
    let ending = word.text.rsplit(['*', '?', '[', ']']).next().unwrap_or_default();
    let plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    word.glob && !word.varies && ending.contains('.') && ending.chars().all(plain)
}

/// Returns the paths at which `find` starts, and its expression.
fn starts(words: &[Word]) -> (&[Word], &[Word]) {
    let is_global =
        |word: &Word| ["-H", "-L", "-P"].contains(&word.text.as_str()) || word.text.starts_with("-O");
    let begin = words.iter().position(|word| !is_global(word)).unwrap_or(words.len());
    let words = words.get(begin..).unwrap_or_default();
    let begins = |word: &Word| word.text.starts_with('-') || ["(", "!"].contains(&word.text.as_str());
    words.split_at(words.iter().position(begins).unwrap_or(words.len()))
}

/// Checks a program that is run with each path that was found, or with all of them.
///
/// A found path begins as its start does, so it is never an option, and it is one word.
fn run_on_found(inner: &[Word], paths: &[Word], found_use: &mut CommandEffect) -> Result<(), &'static str> {
    const OTHER: &str = "`find` runs a program that is not known to be read-only";
    let program = inner.first().ok_or(OTHER)?;
    if ["find", "xargs", "env", "command", "git"].contains(&program.text.as_str())
        || program.text.contains("{}")
    {
        return Err(OTHER);
    }
    let mut words = Vec::new();
    for word in inner {
        if word.text == "{}" {
            // Three copies stand for any number.
            let paths = paths.iter().map(|path| Word { splits: false, ..path.clone() });
            words.extend(paths.clone().chain(paths.clone()).chain(paths));
        } else if word.text.contains("{}") {
            return Err(OTHER);
        } else {
            words.push(word.clone());
        }
    }
    let form = known_form(&words, Class::Reads).map_err(|_| OTHER)?;
    found_use.operands.extend(form.operands);
    found_use.runs.push(program.text.clone());
    Ok(())
}

/// Returns the paths that `find` may find, as patterns of file names below its starts.
pub(super) fn found(words: &[Word]) -> Vec<Word> {
    let (starts, expression) = starts(words);
    let names = names(expression).unwrap_or_else(|| vec!["*", ".*"]);
    let here = [Word::literal(".")];
    let starts = if starts.is_empty() { here.as_slice() } else { starts };
    let mut paths = Vec::new();
    for start in starts {
        let mut add = |name: &str| {
            let text = format!("{}/{name}", start.text.trim_end_matches('/'));
            paths.push(Word { text, glob: true, splits: true, ..Word::default() });
        };
        for name in &names {
            add(name);
            if let Some(hidden) = hidden(name) {
                add(&hidden);
            }
        }
    }
    paths
}

/// Returns the additional pattern for a wildcard that also matches names with a dot, unlike the shell's.
pub(super) fn hidden(name: &str) -> Option<String> {
    match (name.strip_prefix('*'), name.strip_prefix('?')) {
        (Some(rest), _) if rest.contains('.') => Some(rest.to_owned()),
        (Some(_), _) => Some(format!(".{name}")),
        (None, Some(rest)) => Some(format!(".{rest}")),
        (None, None) => name.starts_with('[').then(|| ".*".to_owned()),
    }
}

/// Returns the patterns that the last part of each path matches, or `None` if the expression does
/// not restrict it.
fn names(expression: &[Word]) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let (mut named, mut pruned) = (false, false);
    // A pruned path is not printed if another action determines the output.
    let says = expression.iter().any(|word| ["-print", "-print0", "-exec"].contains(&word.text.as_str()));
    let mut at = 0;
    while let Some(word) = expression.get(at) {
        let is = |texts: &[&str]| texts.contains(&word.text.as_str());
        let mut length = 1;
        if is(&["-o", "-or", ","]) {
            if !(named || (pruned && says)) {
                return None;
            }
            (named, pruned) = (false, false);
        } else if is(&["-exec", "-print", "-print0"]) && !named {
            // Names after an action do not restrict it.
            return None;
        } else if is(&["-exec"]) {
            let rest = expression.get(at..).unwrap_or_default();
            length +=
                rest.iter().position(|word| [";", "+"].contains(&word.text.as_str())).unwrap_or(rest.len());
        } else if is(&["-prune"]) {
            pruned = true;
        } else if !is(&PLAIN) {
            // A test and its value.
            length = 2;
            let before = at.checked_sub(1).and_then(|at| expression.get(at));
            let negated = before.is_some_and(|before| ["!", "-not"].contains(&before.text.as_str()));
            if let Some(name) = expression.get(at + 1).filter(|_| is(&["-name"]) && !negated) {
                names.push(name.text.as_str());
                named = true;
            }
        }
        at += length;
    }
    if !(named || (pruned && says)) {
        return None;
    }
    // A negated group inverts the meaning of its names.
    let negated = |pair: &[Word]| matches!(pair, [not, open] if ["!", "-not"].contains(&not.text.as_str()) && open.text == "(");
    let groups = expression.windows(2).any(negated);
    (!groups).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(line: &str) -> String {
        let words: Vec<Word> = line.split(' ').map(Word::literal).collect();
        found(&words).into_iter().map(|word| word.text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_found_is_named_where_every_alternative_names_it() {
        for (line, expected) in [
            (". -name a.rs", "./a.rs"),
            ("-L src lib/ -type f -name a", "src/a lib/a"),
            (". -name *.rs", "./*.rs ./.rs"),
            (". -name *env", "./*env ./.*env"),
            (". -type f -name a -o -name b", "./a ./b"),
            (". -type f ( -name a -o -name b ) -print", "./a ./b"),
            (". -path ./x -prune -o -name a -print", "./a"),
            (". -name a ! -name b", "./a"),
            (". -name a -exec cat {} ;", "./a"),
        ] {
            assert_eq!(paths(line), expected, "{line}");
        }
        for line in [
            ".",
            ". -type f",
            ". -type f -o -name a",
            ". ( -type f -o -type d ) -name a",
            ". -path ./x -prune -o -name a",
            ". ! -name a",
            ". -not -name a",
            ". ! ( -name a )",
            ". -iname a",
            ". -path a",
            ". -name a -o -exec cat {} ;",
            ". -name a , -type f",
            ". -newer -name a",
            ". -print -name a",
            ". -exec cat {} ; -name a",
            ". -name a -o -print -name b",
        ] {
            assert_eq!(paths(line), "./* ./.* ./.*", "{line}");
        }
    }
}
