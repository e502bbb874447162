//! Conversion of any text into a query for the words of an index.
//!
//! Every word is quoted, so that no part of the text is an operator. The index splits a word like
//! `checkpoint_restore` or `re-index` into parts. The query has the row of these parts, which is
//! the word itself, and each part alone, which finds other spellings.

use std::collections::HashSet;

use crate::codes::codes;
use crate::words::is_stop_word;

/// Maximum number of words of one query: more words add no information, and each costs time.
const MAX_WORDS: usize = 48;

/// Maximum number of characters of a query that are read.
const LONGEST: usize = 4_000;

/// A word, or several words in a row, that is searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Words in their order, in lower case.
    pub(crate) parts: Vec<String>,
    /// True if the term is spelled like an identifier, a number or another code.
    pub(crate) is_code: bool,
    /// True if the term is the whole question, as in the lookup of a name.
    pub(crate) is_alone: bool,
}

impl Term {
    /// Returns the words of the term in their order, separated by spaces.
    pub fn words(&self) -> String {
        self.parts.join(" ")
    }

    /// Returns the term as a query of FTS5: in quotes, so that no part of it is an operator.
    pub fn quoted(&self) -> String {
        format!("\"{}\"", self.words())
    }
}

/// Returns the words and the rows of words that are searched, each once.
pub fn terms(text: &str) -> Vec<Term> {
    let text: String = text.chars().take(LONGEST).collect();
    let codes = codes(&text);
    let term =
        |parts: Vec<String>| Term { is_code: codes.contains(&parts.join(" ")), is_alone: false, parts };
    let words = words(&text).into_iter().map(|word| term(vec![word]));
    let mut rows: Vec<Term> = Vec::new();
    for word in text.split_whitespace() {
        let parts: Vec<String> = parts_of(word).into_iter().map(str::to_lowercase).collect();
        // `don't` and `it's` are rows too, and carry no information.
        let tells = parts.iter().any(|part| part.chars().count() > 1 && !is_stop_word(part));
        if parts.len() > 1 && tells && !rows.iter().any(|row| row.parts == parts) {
            rows.push(term(parts));
        }
    }
    rows.truncate(MAX_WORDS);
    let mut terms: Vec<Term> = words.chain(rows).collect();
    if let [only] = terms.as_mut_slice() {
        only.is_alone = true;
    }
    terms
}

/// Returns the distinct words of a text in lower case, without stop words unless there are no others.
fn words(text: &str) -> Vec<String> {
    let all: Vec<String> = parts_of(text).into_iter().map(str::to_lowercase).collect();
    let telling: Vec<String> = all.iter().filter(|word| !is_stop_word(word)).cloned().collect();
    let chosen = if telling.is_empty() { all } else { telling };
    let mut seen = HashSet::new();
    chosen.into_iter().filter(|word| seen.insert(word.clone())).take(MAX_WORDS).collect()
}

/// Returns the words of a text in their original spelling.
pub(crate) fn parts_of(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Option<String> {
        let terms = terms(text);
        (!terms.is_empty()).then(|| terms.iter().map(Term::quoted).collect::<Vec<_>>().join(" OR "))
    }

    #[test]
    fn nothing_of_a_text_is_an_operator() {
        assert_eq!(
            query("NOT (wing* OR \"lift\") NEAR/2 section:x").as_deref(),
            Some(
                "\"wing\" OR \"lift\" OR \"near\" OR \"2\" OR \"section\" OR \"x\" OR \"near 2\" OR \"section x\""
            )
        );
        assert_eq!(query("  \" ' * ^ - \0 "), None);
    }

    #[test]
    fn words_that_every_text_has_are_left_out_unless_there_are_no_others() {
        assert_eq!(query("What is the lift of a wing?").as_deref(), Some("\"lift\" OR \"wing\""));
        assert_eq!(query("To be or not to be").as_deref(), Some("\"to\" OR \"be\" OR \"or\" OR \"not\""));
    }

    #[test]
    fn an_identifier_is_sought_as_it_is_and_in_its_parts() {
        assert_eq!(
            query("checkpoint_restore EACCES").as_deref(),
            Some("\"checkpoint\" OR \"restore\" OR \"eacces\" OR \"checkpoint restore\"")
        );
        assert_eq!(query("don't"), Some("\"don\" OR \"t\" OR \"don t\"".to_owned()));
    }

    #[test]
    fn a_query_of_any_length_stays_one() {
        let long: String = (0..100_000).map(|word| format!("w{word} ")).collect();
        assert_eq!(words(&long).len(), MAX_WORDS);
        assert!(query(&long).unwrap().len() < 4_000);
    }
}
