//! Checks that a kind alone cannot express: whether a small program text, or the words of a program
//! with its own rules, only reads. Each function returns false or an error if it is unsure.

use shell_syntax::{Word, is_of_the_script};

use super::environment::is_harmless_assignment;
use super::matching::{CommandEffect, Operand};
use super::table::Kind;
use super::values;

type OfWord = fn(&str) -> bool;

/// Functions of one word.
const OF_WORDS: [(&str, OfWord); 43] = [
    ("sed", super::scripts::sed_only_prints),
    ("awk", super::scripts::awk_only_prints),
    ("jq", super::scripts::jq_only_filters),
    ("yq", |word| {
        super::scripts::jq_only_filters(word)
            && !["load", "env", "eval", "import", "include", "input", "system"]
                .iter()
                .any(|name| word.contains(name))
    }),
    ("assign", is_awk_assignment),
    ("setopt", is_harmless_shell_option),
    ("plus", |word| word.starts_with('+')),
    ("gitkey", is_harmless_git_setting),
    ("gomod", |word| ["mod", "readonly", "vendor"].contains(&word)),
    ("ldflags", values::is_linker_flag),
    ("nofile", |word| !word.starts_with('@')),
    ("url", is_plain_url),
    ("get", |word| word.eq_ignore_ascii_case("get") || word.eq_ignore_ascii_case("head")),
    ("target", |word| !word.contains('=') && !word.starts_with('-')),
    ("kubeout", |word| ["json", "yaml", "wide", "name"].contains(&word) || word.starts_with("jsonpath=")),
    ("remote", values::is_plain_remote),
    ("ref", values::is_plain_ref),
    ("any", |_| true),
    ("bunscript", values::is_only_a_script),
    ("classes", values::is_class_path),
    ("noaddress", |word| !word.contains("://")),
    ("here", |word| word.starts_with("--") && !word.contains(['=', '/'])),
    ("accept", |word| word.to_ascii_lowercase().starts_with("accept")),
    ("own", is_own_variable),
    ("exported", is_harmless_export),
    ("name", values::is_name),
    ("kinds", |word| word.split(',').all(values::is_name)),
    ("report", |word| word.split(':').all(values::is_name)),
    ("gitname", |word| word.contains('.')),
    ("strategy", values::is_merge_strategy),
    // `interactive` runs an editor, and so does every prefix of it.
    ("rebased", |word| ["true", "false", "merges"].contains(&word)),
    ("rights", values::is_harmless_right),
    ("jobs", |word| word == "-k" || values::is_numbered(word, "-j")),
    ("lint", values::is_lint),
    ("package", values::is_package),
    ("local", values::is_local_source),
    ("version", values::is_python_version),
    ("script", values::is_script_name),
    ("yarn", |word| {
        ["run", "test", "build", "lint", "start", "install", "typecheck", "format"].contains(&word)
    }),
    ("phase", values::is_maven_phase),
    ("noplugin", |word| word.starts_with("no:")),
    ("shown", |word| !word.starts_with('@') && !word.contains("%output")),
    // `NAME@FILE` reads a file; after `=` the value is text.
    ("encoded", |word| word.find('@').is_none_or(|at| word.get(..at).is_some_and(|name| name.contains('=')))),
];

type OfAll = fn(&[Word], &mut CommandEffect) -> Result<(), &'static str>;

/// Functions of all the words after the program.
const OF_ALL: [(&str, OfAll); 8] = [
    ("find", super::find::only_finds),
    ("test", only_tests),
    ("extended", only_compares),
    ("over", copies_over_no_program),
    ("moved", moves_over_no_program),
    ("linked", links_over_no_program),
    ("mode", changes_a_harmless_mode),
    ("format", prints_formatted),
];

/// Returns true if a table may name this function.
pub(super) fn exists(name: &str) -> bool {
    OF_WORDS.iter().any(|(known, _)| *known == name) || looks_at_all(name)
}

/// Returns true if the function checks all words.
pub(super) fn looks_at_all(name: &str) -> bool {
    OF_ALL.iter().any(|(known, _)| *known == name)
}

/// Applies a function of one word.
pub(super) fn is_harmless(name: &str, word: &str) -> bool {
    OF_WORDS.iter().any(|(known, check)| *known == name && check(word))
}

/// Applies a function of all words, which adds the paths that they open.
pub(super) fn check_all(name: &str, words: &[Word], found: &mut CommandEffect) -> Result<(), &'static str> {
    let check = OF_ALL.iter().find(|(known, _)| *known == name).map(|(_, check)| check);
    check.map_or(Err("its words are unknown"), |check| check(words, found))
}

fn is_awk_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !["ARGV", "ARGC", "ENVIRON", "PROCINFO"].contains(&name)
            && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
    })
}

/// Returns true for a variable of the script, with a name that contains nothing to evaluate.
fn is_own_variable(word: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || character == '_';
    word.chars().all(plain) && is_of_the_script(word)
}

/// Returns true for `export NAME=VALUE` if every program may see it, and for `export NAME` of a
/// variable of the script.
fn is_harmless_export(word: &str) -> bool {
    match word.split_once('=') {
        Some((name, value)) => is_harmless_assignment(name, value),
        None => is_own_variable(word),
    }
}

fn is_harmless_shell_option(word: &str) -> bool {
    ["pipefail", "errexit", "nounset", "noglob"].contains(&word)
}

/// Returns true for settings of `git -c` that run no program.
fn is_harmless_git_setting(word: &str) -> bool {
    let Some((key, value)) = word.split_once('=') else { return false };
    let key = key.to_ascii_lowercase();
    let plain =
        value.chars().all(|character| character.is_ascii_alphanumeric() || "-_. @".contains(character));
    match key.as_str() {
        "core.quotepath"
        | "core.abbrev"
        | "diff.renames"
        | "diff.algorithm"
        | "diff.context"
        | "log.showsignature"
        | "log.date"
        | "user.name"
        | "user.email"
        | "commit.gpgsign"
        | "tag.gpgsign"
        | "core.autocrlf"
        | "core.safecrlf"
        | "diff.mnemonicprefix"
        | "diff.noprefix"
        | "advice.detachedhead"
        | "status.relativepaths"
        | "grep.linenumber"
        | "core.pager"
        | "color.ui" => plain && (key != "core.pager" || value == "cat"),
        _ => key.starts_with("color.") && plain,
    }
}

fn is_plain_url(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let rest = lower.strip_prefix("https://").or_else(|| lower.strip_prefix("http://"));
    // Without a scheme the URL has one of these two, unless it names another: `file:/etc/passwd` does.
    let authority = lower.split(['/', '?', '#']).next().unwrap_or_default();
    let names_another = authority.contains(':') && (!has_port(authority) || authority.starts_with("file:"));
    let rest = rest.unwrap_or(if names_another { "" } else { &lower });
    !rest.is_empty()
        && !rest.contains("://")
        && !rest.starts_with(['/', '.', '-', '@', '~'])
        && !rest.contains(['{', '['])
}

fn has_port(authority: &str) -> bool {
    authority.split_once(':').is_some_and(|(_, port)| port.starts_with(|first: char| first.is_ascii_digit()))
}

/// Checks `test` and `[` with files, texts and numbers.
fn only_tests(words: &[Word], found: &mut CommandEffect) -> Result<(), &'static str> {
    let unknown = words.iter().any(|word| word.varies);
    if unknown && !is_plain_test(words) {
        return Err("`test` could evaluate one of its words");
    }
    let mut before = None;
    for word in words {
        let text = word.text.as_str();
        // `-v a[$(id)]` is evaluated, and a word that is not literal could be `-v`.
        let evaluated = (word.glob && text != "*")
            || ["-v", "-R", "-o"].contains(&text)
            || text.contains(['`', '('])
            || (text.contains('[') && text != "[");
        if evaluated || (text.contains('$') && !word.varies) {
            return Err("`test` could evaluate one of its words");
        }
        if before.is_some_and(|before| OF_FILES.contains(&before)) && !word.varies {
            found.operands.push(Operand::of(word, Kind::Names));
        }
        before = Some(text);
    }
    Ok(())
}

/// Operators that look at a file.
const OF_FILES: [&str; 18] = [
    "-a", "-b", "-c", "-d", "-e", "-f", "-g", "-h", "-k", "-L", "-p", "-r", "-s", "-S", "-u", "-w", "-x",
    "-O",
];

/// Operators between two words that `test` compares literally.
const COMPARE: [&str; 13] =
    ["=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot"];

/// Returns true if the number of words determines the operators, so that an unknown word cannot be
/// one. POSIX fixes this for up to four words.
fn is_plain_test(words: &[Word]) -> bool {
    let words = match words.split_last() {
        Some((last, words)) if last.is_literal() && last.text == "]" => words,
        _ => words,
    };
    let literal = |word: &Word, known: &[&str]| word.is_literal() && known.contains(&word.text.as_str());
    let unary = |word: &Word| literal(word, &OF_FILES) || literal(word, &["-n", "-z", "-t"]);
    let plain = |words: &[Word]| match words {
        [_] => true,
        [operator, _] => unary(operator),
        [_, operator, _] => literal(operator, &COMPARE),
        _ => false,
    };
    let negated = words.split_first().filter(|(first, _)| literal(first, &["!"])).map(|(_, rest)| rest);
    words.iter().all(|word| !word.splits) && (plain(words) || negated.is_some_and(plain))
}

/// Checks `[[ ]]`. Its words are neither split nor replaced, but the operand of `-v` and numeric
/// operands are evaluated.
fn only_compares(words: &[Word], found: &mut CommandEffect) -> Result<(), &'static str> {
    const EVALUATED: &str = "`[[` could evaluate one of its words";
    let is_number = |word: Option<&Word>| {
        word.is_some_and(|word| {
            let digits = word.text.strip_prefix('-').unwrap_or(&word.text);
            let literal = word.is_literal() && digits.bytes().all(|byte| byte.is_ascii_digit());
            // An unknown number is spelled as a pattern.
            !digits.is_empty() && (literal || (word.text == "*" && !word.varies))
        })
    };
    for (at, word) in words.iter().enumerate() {
        let text = word.text.as_str();
        if ["-v", "-R"].contains(&text) {
            return Err(EVALUATED);
        }
        let before = at.checked_sub(1).and_then(|at| words.get(at));
        let numbers = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"].contains(&text);
        if numbers && !(is_number(before) && is_number(words.get(at + 1))) {
            return Err(EVALUATED);
        }
        if before.is_some_and(|before| OF_FILES.contains(&before.text.as_str())) && word.is_literal() {
            found.operands.push(Operand::of(word, Kind::Names));
        }
    }
    Ok(())
}

/// Checks `mv`, which removes the files that it moves.
fn moves_over_no_program(words: &[Word], found: &mut CommandEffect) -> Result<(), &'static str> {
    copies_over_no_program(words, found)?;
    for operand in found.operands.iter_mut().filter(|operand| operand.kind == Kind::Content) {
        operand.kind = Kind::Removed;
    }
    Ok(())
}

/// Checks `cp`: all words but the last are read, and no program's name is taken. The last may be a
/// folder, in which each file keeps its own name.
fn copies_over_no_program(words: &[Word], found: &mut CommandEffect) -> Result<(), &'static str> {
    let names: Vec<&Word> = words.iter().filter(|word| !word.text.starts_with('-')).collect();
    let Some((target, sources)) = names.split_last() else { return Err("it names no target") };
    if words.iter().any(|word| !word.is_literal()) {
        return Err("one of its words is unknown");
    }
    if names.iter().any(|word| super::dangerous_programs::is_known(super::programs::base_name(&word.text))) {
        return Err("it redefines the name of a known program");
    }
    found.operands.extend(sources.iter().map(|word| Operand::of(word, Kind::Content)));
    for source in sources {
        let name = super::programs::base_name(source.text.trim_end_matches('/'));
        let inside = format!("{}/{name}", target.text.trim_end_matches('/'));
        found.operands.push(Operand::of(&Word::literal(&inside), Kind::Changed));
    }
    found.operands.push(Operand::of(target, Kind::Changed));
    Ok(())
}

/// Checks `ln`: like `cp`, whose files stay the same. The target of a symbolic link is relative to the
/// folder of the link, which is the link itself if that is a folder. The target of a hard link, or with
/// `-r`, is relative to the directory of the command.
fn links_over_no_program(words: &[Word], found: &mut CommandEffect) -> Result<(), &'static str> {
    let names: Vec<&Word> = words.iter().filter(|word| !word.text.starts_with('-')).collect();
    let Some((link, targets)) = names.split_last().filter(|(_, targets)| !targets.is_empty()) else {
        return Err("it names no link");
    };
    copies_over_no_program(words, found)?;
    let is_flag = |short: char, long: &str| {
        words.iter().map(|word| word.text.as_str()).any(|word| {
            word == long || word.starts_with('-') && !word.starts_with("--") && word.contains(short)
        })
    };
    if !is_flag('s', "--symbolic") || is_flag('r', "--relative") {
        return Ok(());
    }
    let link = link.text.trim_end_matches('/');
    let folder = link.rsplit_once('/').map_or(".", |(folder, _)| folder);
    let is_relative = |word: &Word| !word.text.starts_with('/');
    found.operands.retain(|operand| operand.kind != Kind::Content || operand.text.starts_with('/'));
    for target in targets.iter().filter(|target| is_relative(target)) {
        for folder in [folder, link] {
            let path = Word::literal(format!("{folder}/{}", target.text));
            found.operands.push(Operand::of(&path, Kind::Content));
        }
    }
    Ok(())
}

/// Checks `chmod`: no set-user-id, and no write permission for everybody.
fn changes_a_harmless_mode(words: &[Word], found: &mut CommandEffect) -> Result<(), &'static str> {
    let mut names = words.iter().filter(|word| !word.text.starts_with('-') || word.text == "-x");
    let Some(mode) = names.next() else { return Err("it names no mode") };
    let digits = mode.text.trim_start_matches('0');
    let numeric = digits.len() == 3 && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let open = digits.bytes().skip(1).any(|byte| matches!(byte, b'2' | b'3' | b'6' | b'7'));
    let symbolic =
        ["+x", "u+x", "a+x", "-x", "u+w", "+r", "u+rw", "u+rwx", "ug+x"].contains(&mode.text.as_str());
    if !(symbolic || numeric && !open) || words.iter().any(|word| !word.is_literal()) {
        return Err("it sets an unusual mode");
    }
    found.operands.extend(names.map(|word| Operand::of(word, Kind::Changed)));
    Ok(())
}

/// Checks `printf`: `-v` would evaluate a subscript.
fn prints_formatted(words: &[Word], _: &mut CommandEffect) -> Result<(), &'static str> {
    let format = match words {
        [dashes, format, ..] if dashes.text == "--" => format,
        [format, ..] if !format.text.starts_with('-') => format,
        [] => return Ok(()),
        _ => return Err("`printf` with an option could set a variable"),
    };
    if format.is_literal() && !stores_a_count(&format.text) {
        Ok(())
    } else {
        Err("a format of `printf` could set a variable")
    }
}

/// Returns true if a format contains `%n`, with which `printf` of bash sets the variable that an
/// argument names.
fn stores_a_count(format: &str) -> bool {
    let mut rest = format;
    while let Some((_, conversion)) = rest.split_once('%') {
        let letter =
            conversion.trim_start_matches(|c: char| c.is_ascii_digit() || "-+ 0#'*.$hlLjztq".contains(c));
        if letter.starts_with('n') {
            return true;
        }
        rest = conversion.strip_prefix('%').unwrap_or(conversion);
    }
    false
}
