//! Codes in a question: identifiers, numbers, versions, paths, options and names in capitals,
//! recognised by their spelling.
//!
//! A person who writes a code wants the text that contains it, and its meaning does not help. A
//! code that is frequent in the texts counts as an ordinary word, which [`crate::Weights`] decides.

use std::collections::HashSet;

use crate::query::parts_of;

/// Signs that join the parts of an identifier, and rarely those of a word.
const JOINS: &str = "_.:#@=+\\$%&~";

/// Minimum number of digits of a number that counts as a code.
const SHORTEST_NUMBER: usize = 2;

/// Minimum number of letters of a name in capitals.
const SHORTEST_CAPITALS: usize = 3;

/// Returns the codes of a text: their parts in lower case, separated by one space.
pub(crate) fn codes(text: &str) -> HashSet<String> {
    let tokens: Vec<&str> = text.split_whitespace().collect();
    let is_loud = is_loud(&tokens);
    let code = |token: &&str| {
        let parts = parts_of(token);
        let joined = parts.join(" ").to_lowercase();
        let is_code = match parts.as_slice() {
            [] => false,
            [part] => is_in_backticks(token) || is_code_word(part, is_loud),
            _ => is_joined_code(token),
        };
        is_code.then_some(joined)
    };
    tokens.iter().filter_map(code).collect()
}

/// Returns true if most words of a text are in capitals, so that capitals do not mark a code.
fn is_loud(tokens: &[&str]) -> bool {
    let worded = tokens.iter().filter(|token| token.chars().any(char::is_alphabetic));
    let (loud, all) = worded.fold((0, 0), |(loud, all), token| {
        (loud + usize::from(!token.chars().any(char::is_lowercase)), all + 1)
    });
    all > 1 && loud * 2 > all
}

fn is_in_backticks(token: &str) -> bool {
    token.matches('`').count() > 1
}

/// Returns true if a word is spelled like a code: with a digit, with a capital inside, or all in capitals.
fn is_code_word(word: &str, is_loud: bool) -> bool {
    let has_letter = word.chars().any(char::is_alphabetic);
    if word.chars().any(char::is_numeric) {
        return has_letter || word.chars().count() >= SHORTEST_NUMBER;
    }
    let is_capitals = !word.chars().any(char::is_lowercase) && word.chars().any(char::is_uppercase);
    let rises =
        word.chars().zip(word.chars().skip(1)).any(|(one, next)| one.is_lowercase() && next.is_uppercase());
    rises || is_capitals && !is_loud && word.chars().count() >= SHORTEST_CAPITALS
}

/// Returns true if parts are joined as in a code, and not as in `well-known`, `and/or` or `don't`.
fn is_joined_code(token: &str) -> bool {
    let inner = token.trim_matches(|c: char| !c.is_alphanumeric());
    let slashes = token.matches('/').count();
    inner.chars().any(|c| c.is_numeric() || JOINS.contains(c))
        || token.trim_start_matches(['`', '"', '\'', '(']).starts_with("--")
        || slashes > 1
        || is_in_backticks(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut found: Vec<String> = codes(text).into_iter().collect();
        found.sort();
        found
    }

    #[test]
    fn codes_are_known_by_how_they_are_written() {
        for (text, code) in [
            ("what does E1234 mean?", "e1234"),
            ("the invoice INV/4711 of May", "inv 4711"),
            ("see checkpoint_restore there", "checkpoint restore"),
            ("who calls std::mem::swap, please", "std mem swap"),
            ("is `traceparent` set", "traceparent"),
            ("an EACCES at open", "eacces"),
            ("the ReentrantMutex type", "reentrantmutex"),
            ("with --no-input given", "no input"),
            ("in crates/roots/src it lies", "crates roots src"),
            ("since version 2.10.3.", "2 10 3"),
            ("on port 8080, then", "8080"),
        ] {
            assert_eq!(found(text), [code], "{text}");
        }
    }

    #[test]
    fn words_are_no_codes_however_they_are_joined_or_shouted() {
        for text in [
            "a well-known and/or two-dimensional flow",
            "don't they say it's \"so\"?",
            "WHY IS THE PUMP SO LOUD",
            "At 5 o'clock, (I think) in May - or so",
            "traceparent",
            "",
            "...",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
    }
}
