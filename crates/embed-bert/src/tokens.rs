//! Conversion of text to `WordPiece` token numbers, as in BERT's tokenizer. A text is read only as
//! far as the model takes tokens.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use unicode_categories::UnicodeCategories;
use unicode_normalization::UnicodeNormalization;

use crate::OpenError;

/// Maximum length of a token in the vocabulary, in bytes.
const LONGEST: usize = 512;

/// A vocabulary, with the steps that normalise a text before the lookup.
#[derive(Debug)]
pub(crate) struct Tokens {
    vocabulary: HashMap<Box<str>, u32>,
    /// Special tokens, which are found in the raw text regardless of their context.
    added: Vec<(Box<str>, u32)>,
    prefix: Box<str>,
    /// Maximum number of characters of a word that is split into pieces.
    longest: usize,
    first: u32,
    last: u32,
    unknown: u32,
    clean: bool,
    chinese: bool,
    strip: bool,
    lower: bool,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Vec<Added>,
    normalizer: Normalizer,
    pre_tokenizer: Typed,
    model: Model,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: Box<str>,
}

#[derive(Deserialize)]
struct Typed {
    r#type: String,
}

#[derive(Deserialize)]
struct Normalizer {
    r#type: String,
    clean_text: bool,
    handle_chinese_chars: bool,
    strip_accents: Option<bool>,
    lowercase: bool,
}

#[derive(Deserialize)]
struct Model {
    r#type: Option<String>,
    unk_token: String,
    continuing_subword_prefix: Box<str>,
    max_input_chars_per_word: usize,
    vocab: HashMap<Box<str>, u32>,
}

impl Tokens {
    /// Reads a `tokenizer.json` whose token numbers are all below `limit`.
    pub(crate) fn read(path: &Path, bytes: &[u8], limit: usize) -> Result<Self, OpenError> {
        let file: File =
            serde_json::from_slice(bytes).map_err(|error| OpenError::damaged(path, error.to_string()))?;
        let kinds = (file.normalizer.r#type.as_str(), file.pre_tokenizer.r#type.as_str());
        if kinds != ("BertNormalizer", "BertPreTokenizer")
            || file.model.r#type.is_some_and(|kind| kind != "WordPiece")
        {
            return Err(OpenError::unsupported(path, "its tokenizer is not that of BERT"));
        }
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let vocabulary = file.model.vocab;
        let highest = vocabulary.values().chain(file.added_tokens.iter().map(|added| &added.id)).max();
        if highest.is_some_and(|highest| *highest >= limit) {
            return Err(OpenError::damaged(path, format!("it has tokens beyond the {limit} of the model")));
        }
        let of = |token: &str| {
            let number = vocabulary.get(token).copied();
            number.ok_or_else(|| OpenError::damaged(path, format!("it has no token {token}")))
        };
        Ok(Self {
            first: of("[CLS]")?,
            last: of("[SEP]")?,
            unknown: of(&file.model.unk_token)?,
            added: file.added_tokens.into_iter().map(|added| (added.content, added.id)).collect(),
            prefix: file.model.continuing_subword_prefix,
            longest: file.model.max_input_chars_per_word,
            clean: file.normalizer.clean_text,
            chinese: file.normalizer.handle_chinese_chars,
            strip: file.normalizer.strip_accents.unwrap_or(file.normalizer.lowercase),
            lower: file.normalizer.lowercase,
            vocabulary,
        })
    }

    /// Returns the token numbers of a text, including the markers of its begin and end: at most `most`.
    pub(crate) fn of(&self, text: &str, most: usize) -> Vec<u32> {
        let room = most.saturating_sub(2);
        let mut found = vec![self.first];
        let mut rest = text;
        while !rest.is_empty() && found.len() <= room {
            let (words, special, after) = self.until_added(rest);
            self.words(words, room + 1, &mut found);
            found.extend(special);
            rest = after;
        }
        found.truncate(room + 1);
        found.push(self.last);
        found
    }

    /// Splits a text at the first added token: the text before it, its number, and the text after it.
    fn until_added<'text>(&self, text: &'text str) -> (&'text str, Option<u32>, &'text str) {
        // Candidates are filtered by the first byte of an added token. To compare all tokens at
        // every position would cost more than all other steps together.
        let begins = |at: &usize| {
            let here = &text[*at..];
            self.added.iter().find(|(content, _)| !content.is_empty() && here.starts_with(&**content))
        };
        let starts: Vec<u8> = self.added.iter().filter_map(|(content, _)| content.bytes().next()).collect();
        for (at, _) in text.bytes().enumerate().filter(|(_, byte)| starts.contains(byte)) {
            if text.is_char_boundary(at)
                && let Some((content, number)) = begins(&at)
            {
                return (&text[..at], Some(*number), &text[at + content.len()..]);
            }
        }
        (text, None, "")
    }

    /// Adds the token numbers of a text's words until there are at least `most`.
    fn words(&self, text: &str, most: usize, found: &mut Vec<u32>) {
        let mut word = String::new();
        let mut length = 0;
        let end = |word: &mut String, length: &mut usize, found: &mut Vec<u32>| {
            if *length > self.longest {
                found.push(self.unknown);
            } else if *length > 0 {
                self.pieces(word, found);
            }
            word.clear();
            *length = 0;
        };
        let mut each = |character: char, found: &mut Vec<u32>| {
            let alone = is_punctuation(character);
            if character.is_whitespace() || alone {
                end(&mut word, &mut length, found);
                if alone {
                    end(&mut character.to_string(), &mut 1, found);
                }
                return;
            }
            length += 1;
            // A word may be as long as the text. Characters beyond the limit are never read.
            if length <= self.longest {
                word.push(character);
            }
        };
        for character in self.normal(text) {
            if found.len() >= most {
                return;
            }
            each(character, found);
        }
        each(' ', found);
    }

    /// Returns the characters of a text, normalised for the vocabulary.
    fn normal<'text>(&'text self, text: &'text str) -> Box<dyn Iterator<Item = char> + 'text> {
        let clean = text.chars().filter_map(move |character| match character {
            _ if !self.clean => Some(character),
            '\t' | '\n' | '\r' => Some(' '),
            '\0' | '\u{fffd}' => None,
            _ if character.is_other() => None,
            _ if character.is_whitespace() => Some(' '),
            _ => Some(character),
        });
        let spaced = clean.flat_map(move |character| {
            let apart = self.chinese && is_chinese(character);
            [apart.then_some(' '), Some(character), apart.then_some(' ')].into_iter().flatten()
        });
        let stripped: Box<dyn Iterator<Item = char>> = if self.strip {
            Box::new(spaced.nfd().filter(|character| !character.is_mark_nonspacing()))
        } else {
            Box::new(spaced)
        };
        if self.lower { Box::new(stripped.flat_map(char::to_lowercase)) } else { stripped }
    }

    /// Adds the pieces of one word, each the longest prefix of the rest that is in the vocabulary.
    /// If any piece is missing, the whole word is unknown.
    fn pieces(&self, word: &str, found: &mut Vec<u32>) {
        let before = found.len();
        let mut rest = word;
        let mut piece = String::new();
        while !rest.is_empty() {
            let prefix: &str = if rest.len() == word.len() { "" } else { &self.prefix };
            piece.clear();
            piece.push_str(prefix);
            piece.push_str(rest);
            let mut taken = None;
            let ends = rest.char_indices().rev().map(|(start, character)| start + character.len_utf8());
            for end in ends.filter(|end| *end <= LONGEST) {
                if let Some(number) = self.vocabulary.get(&piece[..prefix.len() + end]) {
                    taken = Some((*number, end));
                    break;
                }
            }
            let Some((number, end)) = taken else {
                found.truncate(before);
                found.push(self.unknown);
                return;
            };
            found.push(number);
            rest = &rest[end..];
        }
    }
}

fn is_punctuation(character: char) -> bool {
    character.is_ascii_punctuation() || character.is_punctuation()
}

fn is_chinese(character: char) -> bool {
    matches!(u32::from(character),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F | 0x2B740..=0x2B81F
        | 0x2B920..=0x2CEAF | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "the peer is a program")]

    use std::io::{BufRead, BufReader, Write};
    use std::path::PathBuf;
    use std::process::{Command, Stdio};

    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    use super::*;

    fn tools() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools")
    }

    /// Returns the token numbers of each text from the tokenizer of the model's authors.
    fn peer(texts: &[String]) -> Vec<Vec<u32>> {
        let mut child = Command::new(tools().join("embedding/bin/python"))
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/test-tools/embedding_peer.py"))
            .args(["tokens".as_ref(), tools().join("model/all-MiniLM-L6-v2").as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`cargo xtask test` installs it");
        writeln!(child.stdin.take().unwrap(), "{}", serde_json::json!(texts)).unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(child.wait().unwrap().success());
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn texts_at_random_have_the_tokens_that_the_authors_give_them() {
        let path = tools().join("model/all-MiniLM-L6-v2/tokenizer.json");
        let tokens = Tokens::read(&path, &std::fs::read(&path).unwrap(), 30_522).unwrap();
        let letter = prop_oneof![
            4 => "[a-z]{1,12}",
            2 => "[A-Z][a-z]{1,9}[.,;:!?]",
            2 => Just(" ".to_owned()),
            1 => any::<char>().prop_map(String::from),
            1 => "[\\u{80}-\\u{2FF}]{1,6}",
            1 => "[\\u{300}-\\u{36F}]",
            1 => "[\\u{370}-\\u{FFF}]{1,6}",
            1 => "[\\u{2000}-\\u{206F}]",
            1 => "[\\u{3000}-\\u{FAFF}]{1,3}",
            1 => "[\\x00-\\x7F]{1,4}",
            1 => prop_oneof![Just("[MASK]"), Just("[CLS]"), Just("[mask]"), Just("[SEP"), Just("\u{fffd}")].prop_map(str::to_owned),
            1 => "[a-z]{95,105}",
        ];
        let text = prop::collection::vec(letter, 0..60).prop_map(|parts| parts.concat());
        let mut runner = TestRunner::deterministic();
        let texts: Vec<String> = (0..3_000).map(|_| text.new_tree(&mut runner).unwrap().current()).collect();
        for (text, right) in texts.iter().zip(peer(&texts)) {
            assert_eq!(tokens.of(text, 256), right, "{text:?}");
        }
    }
}
