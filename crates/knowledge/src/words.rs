//! Estimates of token counts.

/// Average letters per token, in words outside a model's vocabulary.
const LETTERS: usize = 6;

/// Estimates the number of tokens of a text: one or more per word, one per punctuation character.
/// Models count differently; the estimate is on the high side.
pub(crate) fn tokens(text: &str) -> usize {
    tokens_upto(text, usize::MAX)
}

/// Estimates the number of tokens, and stops counting at `most`.
pub(crate) fn tokens_upto(text: &str, most: usize) -> usize {
    let mut count = 0;
    let mut letters = 0;
    for character in text.chars() {
        if character.is_ascii_alphanumeric() || (character.is_alphanumeric() && character < '\u{2e80}') {
            if letters % LETTERS == 0 {
                count += 1;
            }
            letters += 1;
            // A letter with a diacritic, or of another script, is often a token of its own.
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
