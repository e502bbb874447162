//! Fast rejection of names by their ends.

use super::pattern::Pattern;

/// Literal start and end of every name that a pattern of one component matches.
///
/// Most names of a folder differ from every pattern at one of their ends, and then no glob has to
/// be tried.
///
/// INVARIANT: globs are case-sensitive, and so is this comparison. If case is ignored, both are
/// applied to folded names.
#[derive(Debug, Clone)]
pub(super) struct AffixFilter {
    first: String,
    last: String,
}

impl AffixFilter {
    /// Returns the ends of a pattern's last component.
    pub(super) fn of(pattern: &Pattern) -> Self {
        let component = pattern.components.last().map_or("", String::as_str);
        // A comma is special only between braces, but a shorter literal end is always correct.
        let special = |character: char| "*?[]{}\\,".contains(character);
        let first = component.split(special).next().unwrap_or_default();
        let last = component.rsplit(special).next().unwrap_or_default();
        Self { first: first.to_owned(), last: last.to_owned() }
    }

    /// Returns true if the pattern may match the name.
    pub(super) fn may_match(&self, name: &[u8]) -> bool {
        let (first, last) = (self.first.as_bytes(), self.last.as_bytes());
        // One byte distinguishes most names, and costs less than a call that compares many.
        (last.is_empty() || last.last() == name.last())
            && (first.is_empty() || first.first() == name.first())
            && name.ends_with(last)
            && name.starts_with(first)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use globset::GlobBuilder;

    use super::*;

    #[test]
    fn a_name_that_a_pattern_matches_has_its_ends() {
        let patterns = [
            ".env",
            ".env.*",
            "*.pem",
            "*",
            "a*b",
            "?",
            "x?",
            "[ab]c",
            "a[!b]",
            "{a,b}c",
            "c{a,b}",
            "a\\*",
            "\\*a",
            "a\\b",
            "[*]x",
            "x[,]y",
            "a,b",
            "*.{key,pem}",
            "{*.key,id_*}",
            "a**b",
            "ä*ö",
            "a]b",
            "a\\",
        ];
        let names = [
            ".env",
            ".env.local",
            "a.pem",
            "ab",
            "axb",
            "a",
            "b",
            "ac",
            "bc",
            "ca",
            "cb",
            "a*",
            "*a",
            "*x",
            "x,y",
            "a,b",
            "z.key",
            "id_rsa",
            "äxö",
            "a]b",
            "xy",
            "plain.txt",
            "",
            "c",
            "a\\",
        ];
        let mut ruled_out = 0;
        for text in patterns {
            let Ok(pattern) = Pattern::parse(text, Path::new("/w"), None) else {
                panic!("{text} is a pattern")
            };
            // A malformed glob is refused before it gets here.
            let Ok(glob) = GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build()
            else {
                continue;
            };
            let (glob, ends) = (glob.compile_matcher(), AffixFilter::of(&pattern));
            for name in names {
                let may_match = ends.may_match(name.as_bytes());
                assert!(may_match || !glob.is_match(name), "{text} matches {name:?}");
                ruled_out += u32::from(!may_match);
            }
        }
        assert!(ruled_out > 300, "only {ruled_out} are told apart by their ends");
    }
}
