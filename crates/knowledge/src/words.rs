//! Words: about how many a model reads, and which say nothing.

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

/// Words of English that stand in every text. A question of nothing else is asked with them.
const STOP: [&str; 96] = [
    "a", "about", "above", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "because", "been", "before", "being", "both", "but", "by", "can", "could", "did", "do", "does", "doing",
    "each", "few", "for", "from", "had", "has", "have", "he", "her", "here", "him", "his", "how", "i", "if",
    "in", "into", "is", "it", "its", "me", "more", "most", "my", "no", "nor", "not", "of", "on", "only",
    "or", "other", "our", "out", "over", "own", "same", "she", "should", "so", "some", "such", "than",
    "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "too", "us",
    "was", "we", "were", "what", "when", "where", "which", "who", "why", "will", "with", "would", "you",
];

/// Whether a word, in small letters, is in every text.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_in_order_so_that_they_are_found() {
        assert!(STOP.is_sorted());
        assert!(is_stop_word("the") && is_stop_word("you") && !is_stop_word("wing"));
    }

    #[test]
    fn signs_and_long_words_count_for_more() {
        assert_eq!(tokens("the wing of a plane"), 5);
        assert_eq!(tokens("a.b()"), 5);
        assert_eq!(tokens("internationalisation"), 4);
        assert!(tokens("翼の形") >= 3);
        assert_eq!(tokens_upto("a b c d e", 3), 3);
    }
}
