//! `xargs`, which passes words that it reads to a program: the possible words, if the step before
//! shows them.

use shell_syntax::{Joint, Node, Step, Word};

use super::find::found;
use super::matching::known_form;
use super::programs::is_cluster;
use super::table::Class;
use super::wrappers::unwrap;

/// Returns the command that the `xargs` of this step runs, if it only reads whatever the steps
/// before in the pipeline print.
pub(crate) fn fed_command(steps: &[Step], at: usize) -> Option<Vec<Word>> {
    let words = unwrapped(steps.get(at)?)?;
    let (program, arguments) = words.split_first()?;
    if program.text != "xargs" || !program.is_literal() {
        return None;
    }
    let (inner, placed) = inner(arguments)?;
    let fed = what_is_printed(steps, at).unwrap_or_else(|| vec![unknown()]);
    let words = given(inner, placed, &fed)?;
    known_form(&words, Class::Reads).ok().map(|_| words)
}

fn unwrapped(step: &Step) -> Option<&[Word]> {
    match &step.node {
        Node::Command(command) => Some(unwrap(&command.words).words),
        _ => None,
    }
}

/// Returns a word that stands for any number of any words.
fn unknown() -> Word {
    Word { text: "$()".to_owned(), varies: true, splits: true, ..Word::default() }
}

/// Returns the program with its own arguments, and the placeholder in them.
fn inner(mut arguments: &[Word]) -> Option<(&[Word], Option<&str>)> {
    const FLAGS: [&str; 6] = ["-0", "-r", "-0r", "-r0", "--null", "--no-run-if-empty"];
    const NUMBERS: [&str; 5] = ["-n", "-L", "-P", "--max-args", "--max-procs"];
    let mut placed = None;
    while let Some((option, rest)) = arguments.split_first().filter(|(word, _)| word.text.starts_with('-')) {
        let text = option.text.as_str();
        let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let attached = NUMBERS.iter().find_map(|name| text.strip_prefix(name));
        if !option.is_literal() {
            return None;
        } else if FLAGS.contains(&text) || attached.is_some_and(|value| number(value.trim_start_matches('=')))
        {
            arguments = rest;
        } else if NUMBERS.contains(&text) {
            arguments = rest.split_first().filter(|(value, _)| value.is_literal() && number(&value.text))?.1;
        } else if text == "-d" {
            arguments = rest.split_first().filter(|(value, _)| value.is_literal())?.1;
        } else if text == "-I" {
            let (name, behind) = rest.split_first().filter(|(name, _)| name.is_literal())?;
            placed = Some(name.text.as_str()).filter(|name| !name.is_empty());
            arguments = behind;
        } else if let Some(name) = text.strip_prefix("-I") {
            placed = Some(name);
            arguments = rest;
        } else {
            return None;
        }
    }
    Some((arguments, placed))
}

/// Returns the program's words with the words that it is passed.
fn given(inner: &[Word], placed: Option<&str>, fed: &[Word]) -> Option<Vec<Word>> {
    // Programs that run other programs are not judged here.
    let program = inner.first().filter(|program| program.is_literal())?;
    if ["xargs", "find", "env", "command", "git"].contains(&program.text.as_str()) {
        return None;
    }
    let Some(placed) = placed else {
        // The program may be passed any number of words.
        return Some(inner.iter().chain(fed).chain(fed).chain(fed).cloned().collect());
    };
    if program.text.contains(placed) {
        return None;
    }
    let mut words = Vec::new();
    for word in inner {
        if word.text == placed {
            words.extend(fed.iter().map(|fed| Word { splits: false, ..fed.clone() }));
        } else if word.text.contains(placed) {
            words.push(Word { varies: true, ..word.clone() });
        } else {
            words.push(word.clone());
        }
    }
    Some(words)
}

/// Returns the output of the pipeline up to this step: names that `find` found, of which lines may
/// have been dropped.
fn what_is_printed(steps: &[Step], at: usize) -> Option<Vec<Word>> {
    let mut at = at;
    loop {
        if steps.get(at)?.joint != Joint::Pipe {
            return None;
        }
        at = at.checked_sub(1)?;
        let words = unwrapped(steps.get(at)?)?;
        let (program, arguments) = words.split_first()?;
        match program.text.as_str() {
            "find" => {
                let form = known_form(words, Class::Reads).ok()?;
                let prints = |word: &Word| ["-printf", "-ls", "-exec"].contains(&word.text.as_str());
                return Some(found(arguments))
                    .filter(|_| form.runs.is_empty() && !arguments.iter().any(prints));
            }
            "sort" | "head" | "tail" | "uniq" => {}
            // Other options print something else than whole lines.
            "grep" | "egrep" | "fgrep" => {
                let selects = |word: &Word| {
                    !word.text.starts_with('-')
                        || word.text == "-e"
                        || (is_cluster(&word.text)
                            && word.text.chars().skip(1).all(|letter| "vEiFwxaP".contains(letter)))
                };
                // A file to search in would be another source.
                let operands = arguments.iter().filter(|word| !word.text.starts_with('-')).count();
                if !arguments.iter().all(selects) || operands != 1 {
                    return None;
                }
            }
            _ => return None,
        }
        known_form(words, Class::Reads).ok()?;
    }
}
