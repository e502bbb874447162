//! Words with which comments may not begin, and words that name no type.
//!
//! A reader finds a function by its verb and a type by its noun. A comment that begins with "What" or "Whether"
//! has neither, and a type that is called `Kept` leaves open what was kept.

use crate::repository::File;
use crate::tidy::{Finding, Tree, has_extension};

/// First words that no comment may have.
const OPENINGS: [&str; 33] = [
    "what", "whatever", "whether", "how", "why", "where", "who", "whom", "whose", "which", "that", "those",
    "they", "its", "their", "his", "as", "of", "by", "from", "under", "over", "behind", "beside", "none",
    "nothing", "nobody", "only", "such", "and", "or", "but", "also",
];

/// First words that a sentence in the code may have, and the summary of an item may not.
const OPENINGS_OF_DOCS: [&str; 17] = [
    "when", "if", "in", "on", "at", "for", "without", "with", "to", "after", "before", "because", "it",
    "this", "these", "not", "so",
];

/// Participles, adverbs and prepositions. A type with such a name says that something was done, and not to what.
const NO_NOUNS: [&str; 64] = [
    "Above",
    "Ahead",
    "Alone",
    "Answered",
    "Apart",
    "Around",
    "Asked",
    "Asking",
    "Before",
    "Begun",
    "Behind",
    "Below",
    "Beside",
    "Born",
    "Bounded",
    "Built",
    "Carried",
    "Changed",
    "Checked",
    "Coming",
    "Covered",
    "Covering",
    "Decided",
    "Done",
    "Ended",
    "Found",
    "Given",
    "Gone",
    "Handed",
    "Held",
    "Here",
    "Hiding",
    "Inside",
    "Kept",
    "Keeping",
    "Known",
    "Later",
    "Led",
    "Left",
    "Listed",
    "Looked",
    "Looking",
    "Made",
    "Meanwhile",
    "Moved",
    "Needed",
    "Noted",
    "Now",
    "Offered",
    "Once",
    "Opened",
    "Passed",
    "Planned",
    "Read",
    "Refused",
    "Said",
    "Seen",
    "Sent",
    "Shown",
    "Soon",
    "Taken",
    "Told",
    "Tried",
    "Wanted",
];

const DECLARES: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// Comments that begin with a word of the lists.
pub(super) fn openings(tree: &Tree) -> Vec<Finding> {
    let files = tree.files.iter().filter(|file| has_extension(&file.path, "rs"));
    files.flat_map(|file| blocks(file).filter_map(|block| block.fault(&file.path))).collect()
}

/// Types that are named by a participle, an adverb or a preposition.
pub(super) fn types(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, source) in &tree.sources {
        for (number, line, in_test) in source.lines() {
            if in_test {
                continue;
            }
            let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            for pair in words.windows(2) {
                if let [keyword, name] = pair
                    && DECLARES.contains(keyword)
                    && NO_NOUNS.contains(name)
                {
                    let message = format!("`{name}` is no noun; name what the type is");
                    found.push(Finding::line(path, number, message));
                }
            }
        }
    }
    found
}

/// A comment of one kind on lines that follow each other.
struct Block<'a> {
    line: usize,
    is_doc: bool,
    text: &'a str,
}

impl Block<'_> {
    fn fault(&self, path: &str) -> Option<Finding> {
        let mut words = self.text.split_whitespace();
        let first = words.next()?.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        let same = first == "the"
            && words
                .next()
                .is_some_and(|word| word.trim_end_matches(|c: char| !c.is_alphanumeric()) == "same");
        let is_bad = same
            || OPENINGS.contains(&first.as_str())
            || self.is_doc && OPENINGS_OF_DOCS.contains(&first.as_str());
        let shown = if same { "The same" } else { first.as_str() };
        let message = format!("a comment begins with \"{shown}\"; begin with a verb or a noun");
        is_bad.then(|| Finding::line(path, self.line, message))
    }
}

fn blocks(file: &File) -> impl Iterator<Item = Block<'_>> {
    let mut before = "";
    file.text.lines().enumerate().filter_map(move |(line, text)| {
        let text = text.trim_start();
        let kind = ["///", "//!", "//"].into_iter().find(|kind| text.starts_with(kind)).unwrap_or_default();
        let begins = !kind.is_empty() && kind != before;
        before = kind;
        begins.then(|| Block { line, is_doc: kind != "//", text: text.get(kind.len()..).unwrap_or_default() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{places, tree};

    #[test]
    fn a_comment_begins_with_a_verb_or_a_noun() {
        let text = "/// What it is.\n/// Whether.\nfn a() {}\n/// The same.\nfn b() {}\n/// The path.\n// If so.\nlet x;\n// Its end.\n/// If so.";
        assert_eq!(
            places(&openings(&tree(&[("crates/x/src/a.rs", text)]))),
            ["crates/x/src/a.rs:1", "crates/x/src/a.rs:4", "crates/x/src/a.rs:9", "crates/x/src/a.rs:10"]
        );
    }

    #[test]
    fn a_type_is_a_noun_and_tests_are_left_alone() {
        let text = "struct Kept;\nstruct KeptFile;\npub(crate) enum Said<'a> {}\n#[cfg(test)]\nmod tests {\n    struct Told;\n}";
        assert_eq!(
            places(&types(&tree(&[("crates/x/src/a.rs", text)]))),
            ["crates/x/src/a.rs:1", "crates/x/src/a.rs:3"]
        );
    }
}
