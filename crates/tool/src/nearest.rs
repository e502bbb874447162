//! The known name that is most similar to a misspelt one.

/// Maximum edit distance between a misspelt name and the known name.
pub const MISSPELT: usize = 4;

/// Returns the known name that is most similar to `typed`, or `None` if no name is similar enough.
/// Ignores case, and treats hyphens and spaces as underscores.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace(['-', ' '], "_");
    let asked = plain(typed);
    let apart = |name: &&str| distance(&plain(name), &asked);
    let found = known.into_iter().min_by_key(apart)?;
    // A name of three letters with two wrong ones counts as a different name.
    let most = MISSPELT.min(asked.chars().count() / 2);
    (apart(&found) <= most).then_some(found)
}

/// Returns the Levenshtein distance of two texts.
pub fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, r) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(l != *r);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_the_one_with_the_fewest_edits() {
        assert_eq!(distance("file_read", "file_reed"), 1);
        assert_eq!(distance("file_read", "read_file"), 8 + 2 - 2);
        assert_eq!(distance("", "abc"), 3);
        let known = ["mode", "profile", "allowed_hosts", "cpus"];
        for (typed, expected) in [
            ("modes", Some("mode")),
            ("Mode", Some("mode")),
            ("allowed-hosts", Some("allowed_hosts")),
            ("ALLOW_HOSTS", Some("allowed_hosts")),
            ("cpu", Some("cpus")),
            ("xyz", None),
            ("", None),
            ("photosynthesis", None),
        ] {
            assert_eq!(nearest(typed, known), expected, "{typed}");
        }
    }
}
