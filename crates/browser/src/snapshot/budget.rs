//! The measure of a snapshot: tokens, by a rule that counts too many rather than too few.

/// Number of tokens that a snapshot has at most, unless the caller chooses another.
pub const TOKEN_BUDGET: usize = 8000;

/// Returns the number of tokens that a text counts as.
///
/// Three ASCII characters are a token, and two bytes of any other character: names, digits and
/// punctuation are cut into shorter tokens than prose, and Chinese into about one a character.
pub fn tokens(text: &str) -> usize {
    let other = text.bytes().filter(|byte| !byte.is_ascii()).count();
    let ascii = text.len() - other;
    (2 * ascii + 3 * other).div_ceil(6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_counts_a_third_and_other_characters_half_their_bytes() {
        assert_eq!(tokens(""), 0);
        assert_eq!(tokens("abc"), 1);
        assert_eq!(tokens("abcd"), 2);
        assert_eq!(tokens("你好"), 3);
        assert_eq!(tokens("🙂"), 2);
    }
}
