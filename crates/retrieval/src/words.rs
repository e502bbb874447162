//! Stop words, which carry no information.

/// English words that occur in every text. A question of stop words alone is searched with them.
const STOP: [&str; 96] = [
    "a", "about", "above", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "because", "been", "before", "being", "both", "but", "by", "can", "could", "did", "do", "does", "doing",
    "each", "few", "for", "from", "had", "has", "have", "he", "her", "here", "him", "his", "how", "i", "if",
    "in", "into", "is", "it", "its", "me", "more", "most", "my", "no", "nor", "not", "of", "on", "only",
    "or", "other", "our", "out", "over", "own", "same", "she", "should", "so", "some", "such", "than",
    "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "too", "us",
    "was", "we", "were", "what", "when", "where", "which", "who", "why", "will", "with", "would", "you",
];

/// Returns true if a word, in lower case, is a stop word.
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
}
