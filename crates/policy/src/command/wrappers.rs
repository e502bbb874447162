//! Removal of wrappers: programs that run the program which their arguments name.

use shell_syntax::{Assignment, Word};

/// A command without its wrappers.
#[derive(Debug)]
pub(crate) struct UnwrappedCommand<'a> {
    /// Names of the wrappers, outermost first.
    pub(crate) wrappers: Vec<&'a str>,
    /// Assignments of `env`.
    pub(crate) assignments: Vec<Assignment>,
    /// The program and its arguments.
    pub(crate) words: &'a [Word],
}

/// Programs that `rtk` runs with their own arguments.
const SHORTENED: [&str; 10] =
    ["cargo", "docker", "gh", "git", "go", "kubectl", "npm", "pnpm", "pytest", "ruff"];

/// Maximum number of nested wrappers that are removed.
const MAX_WRAPPERS: usize = 6;

/// Removes the wrappers whose options are known. A wrapper with other options stays, and is not a
/// program that passes.
pub(crate) fn unwrap(words: &[Word]) -> UnwrappedCommand<'_> {
    let mut bare = UnwrappedCommand { wrappers: Vec::new(), assignments: Vec::new(), words };
    for _ in 0..MAX_WRAPPERS {
        let Some((program, arguments)) = bare.words.split_first() else { break };
        let before = bare.assignments.len();
        let Some(inner) = inside(&program.text, arguments, &mut bare.assignments) else { break };
        // The words of the wrapper itself must be certain, or another word would be the program.
        let own = arguments.len().saturating_sub(inner.len());
        if !arguments.iter().take(own).all(Word::is_literal) {
            bare.assignments.truncate(before);
            break;
        }
        bare.wrappers.push(&program.text);
        bare.words = inner;
    }
    bare
}

fn inside<'a>(program: &str, arguments: &'a [Word], assignments: &mut Vec<Assignment>) -> Option<&'a [Word]> {
    let inner = match program {
        "env" => return env(arguments, assignments),
        "nohup" | "command" => arguments,
        // The wrapper runs the program that it names, and shortens its output.
        "rtk" => {
            arguments.first().filter(|inner| SHORTENED.contains(&inner.text.as_str())).map(|_| arguments)?
        }
        "time" => skip(arguments, &["-p"], &[])?,
        "nice" => skip_numbers(skip(arguments, &[], &["-n"])?),
        "ionice" => skip(arguments, &["-t"], &["-c", "-n"])?,
        "stdbuf" => skip_attached(arguments, &["-o", "-i", "-e"])?,
        "timeout" => {
            let rest = skip(
                arguments,
                &["--foreground", "--preserve-status", "-v"],
                &["-s", "-k", "--signal", "--kill-after"],
            )?;
            let (duration, rest) = rest.split_first()?;
            let digits = duration.text.trim_end_matches(['s', 'm', 'h', 'd']);
            let plain =
                !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            plain.then_some(rest)?
        }
        _ => return None,
    };
    // A word that begins with a dash would be an option of the wrapper.
    inner
        .first()
        .filter(|word| word.is_literal() && !word.text.starts_with('-') && !word.text.contains('='))
        .map(|_| inner)
}

/// Skips flags, and options with a value as the next word or after `=`.
fn skip<'a>(mut words: &'a [Word], flags: &[&str], valued: &[&str]) -> Option<&'a [Word]> {
    while let Some((word, rest)) = words.split_first() {
        let text = word.text.as_str();
        if !word.is_literal() || !text.starts_with('-') {
            break;
        }
        if flags.contains(&text) {
            words = rest;
        } else if valued.contains(&text) {
            words = rest.get(1..)?;
        } else if text
            .split_once('=')
            .is_some_and(|(name, _)| name.starts_with("--") && valued.contains(&name))
        {
            words = rest;
        } else {
            break;
        }
    }
    Some(words)
}

/// Skips the number of `nice -5`.
fn skip_numbers(words: &[Word]) -> &[Word] {
    match words.split_first() {
        Some((word, rest))
            if word.text.len() > 1
                && word.text.starts_with('-')
                && word.text.bytes().skip(1).all(|byte| byte.is_ascii_digit()) =>
        {
            rest
        }
        _ => words,
    }
}

/// Skips the options of `stdbuf -oL` and `stdbuf -o L`.
fn skip_attached<'a>(mut words: &'a [Word], options: &[&str]) -> Option<&'a [Word]> {
    while let Some((word, rest)) = words.split_first() {
        let Some(option) = options.iter().find(|option| word.text.starts_with(*option)) else { break };
        words = if word.text.len() == option.len() { rest.get(1..)? } else { rest };
    }
    Some(words)
}

fn env<'a>(mut words: &'a [Word], assignments: &mut Vec<Assignment>) -> Option<&'a [Word]> {
    let mut set = Vec::new();
    while let Some((word, rest)) = words.split_first() {
        let text = word.text.as_str();
        if text == "-i" || text == "-" || text == "--ignore-environment" {
            words = rest;
        } else if text == "-u" {
            words = rest.get(1..)?;
        } else if let Some((name, value)) = text.split_once('=').filter(|(name, _)| !name.starts_with('-')) {
            set.push(Assignment {
                name: name.to_owned(),
                value: Word { text: value.to_owned(), ..word.clone() },
            });
            words = rest;
        } else {
            break;
        }
    }
    words.first().filter(|word| word.is_literal() && !word.text.starts_with('-'))?;
    assignments.extend(set);
    Some(words)
}

/// Returns the line that `sh -c LINE` or `bash -lc LINE` runs, if the shell has no other arguments.
pub(crate) fn shell_line(words: &[Word]) -> Option<&str> {
    let [shell, option, line] = words else { return None };
    let known =
        ["bash", "sh"].contains(&shell.text.as_str()) && ["-c", "-lc", "-ec"].contains(&option.text.as_str());
    (known && line.is_literal() && option.is_literal()).then_some(&line.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Word> {
        line.split(' ').map(Word::literal).collect()
    }

    #[test]
    fn known_wrappers_are_taken_off() {
        for (line, expected) in [
            ("timeout 5 ls -l", "ls -l"),
            ("timeout -k 1 --signal=KILL 5m nice -n 5 ls", "ls"),
            ("env -i A=1 B=2 ls", "ls"),
            ("nohup nice -5 stdbuf -oL ls", "ls"),
            ("time -p ls", "ls"),
            ("rtk git status", "git status"),
            ("ls", "ls"),
        ] {
            let words = words(line);
            let bare: Vec<&str> = unwrap(&words).words.iter().map(|word| word.text.as_str()).collect();
            assert_eq!(bare.join(" "), expected, "{line}");
        }
    }

    #[test]
    fn a_wrapper_with_other_options_stays() {
        for line in [
            "env -S ls",
            "env --split-string=ls",
            "env -C / ls",
            "timeout ls",
            "timeout -x 5 ls",
            "nice --x ls",
            "command -p ls",
            "stdbuf --output=L ls",
            "sudo ls",
            "xargs ls",
            "exec ls",
            "nohup -x",
            "time -o f ls",
            "rtk proxy ls",
            "rtk test x",
        ] {
            let words = words(line);
            assert!(unwrap(&words).wrappers.is_empty(), "{line}");
        }
    }
}
