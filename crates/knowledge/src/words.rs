//! About how many words a model reads.

/// Letters of one token, on the average, of a word that a model's vocabulary does not hold whole.
const LETTERS: usize = 6;

/// About how many tokens a text has: a word is one or a few, a sign is one. Every model counts differently; this errs on the side of more.
pub(crate) fn tokens(text: &str) -> usize {
    tokens_upto(text, usize::MAX)
}

/// The same, and no further than to `most`.
pub(crate) fn tokens_upto(text: &str, most: usize) -> usize {
    let mut count = 0;
    let mut letters = 0;
    for character in text.chars() {
        if character.is_ascii_alphanumeric() || (character.is_alphanumeric() && character < '\u{2e80}') {
            if letters % LETTERS == 0 {
                count += 1;
            }
            letters += 1;
            // A letter with a mark or of another script is often a token of its own.
            if !character.is_ascii() && letters % 2 == 0 {
                count += 1;
            }
        } else {
            letters = 0;
            if !character.is_whitespace() {
                count += 1;
            }
        }
        if count >= most {
            return most;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_and_long_words_count_for_more() {
        assert_eq!(tokens("the wing of a plane"), 5);
        assert_eq!(tokens("a.b()"), 5);
        assert_eq!(tokens("internationalisation"), 4);
        assert!(tokens("翼の形") >= 3);
        assert_eq!(tokens_upto("a b c d e", 3), 3);
    }
}
