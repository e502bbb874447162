//! Case folding of names.
//!
//! Two names fold to the same text if some file system treats them as one. The folding is Unicode's
//! full case folding of the canonical decomposition (NFD), without the invisible characters
//! (`Default_Ignorable_Code_Point`). ext4 and f2fs compare in this way in folders that ignore case.
//! FAT, exFAT and NTFS fold single characters, which is at most as coarse.
//!
//! Folding is for rules that deny, which it only ever makes wider.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use caseless::Caseless;
use unicode_normalization::UnicodeNormalization;

/// Folds a name or a path. Parts that are not UTF-8 stay unchanged.
pub(crate) fn fold(name: &OsStr) -> Cow<'_, OsStr> {
    let bytes = name.as_bytes();
    if bytes.iter().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(name);
    }
    let mut folded = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        folded.extend_from_slice(fold_text(chunk.valid()).as_bytes());
        folded.extend_from_slice(chunk.invalid());
    }
    Cow::Owned(std::os::unix::ffi::OsStringExt::from_vec(folded))
}

/// Folds a whole path.
pub(crate) fn fold_path(path: &Path) -> Cow<'_, Path> {
    match fold(path.as_os_str()) {
        Cow::Borrowed(same) => Cow::Borrowed(Path::new(same)),
        Cow::Owned(folded) => Cow::Owned(folded.into()),
    }
}

/// Returns true if a path equals another one or lies below it, by their components. Most paths are
/// in normal form, so that a comparison of their bytes is enough.
pub(crate) fn is_below(path: &Path, above: &Path) -> bool {
    let (bytes, prefix) = (path.as_os_str().as_bytes(), above.as_os_str().as_bytes());
    if bytes.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest[0] == b'/') {
        return true;
    }
    !(is_normal(bytes) && is_normal(prefix)) && path.starts_with(above)
}

/// Returns true if no component of an absolute path is empty or `.`, including the last one.
fn is_normal(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').skip(1).all(|name| !matches!(name, b"" | b"."))
}

fn fold_text(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    // Folding can create characters that decompose again, as U+0390 does.
    text.nfd().default_case_fold().nfd().filter(|character| !is_ignorable(*character)).collect()
}

/// Returns true for Unicode's `Default_Ignorable_Code_Point` (DerivedCoreProperties.txt), unchanged
/// since version 5.
fn is_ignorable(character: char) -> bool {
    matches!(u32::from(character),
        0xAD | 0x34F | 0x61C | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F | 0x200B..=0x200F
        | 0x202A..=0x202E | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFF8
        | 0x1_BCA0..=0x1_BCA3 | 0x1_D173..=0x1_D17A | 0xE_0000..=0xE_0FFF)
}

/// Returns a component of a glob that matches the folded form of every name that the component
/// matches without regard to case.
pub(super) fn fold_glob(component: &str) -> String {
    let mut folded = String::with_capacity(component.len());
    let mut rest = component;
    while let Some(special) = rest.find(['\\', '[']) {
        let (plain, from) = rest.split_at(special);
        folded.push_str(&fold_text(plain));
        rest = match class(from) {
            Some((class, behind)) => {
                folded.push_str(&class.folded());
                behind
            }
            None => {
                // The text is an escaped character, or a bracket that opens no class.
                let mut characters = from.chars();
                folded.extend(characters.next());
                folded.push_str(
                    &characters
                        .next()
                        .map(|next| fold_text(next.encode_utf8(&mut [0; 4])))
                        .unwrap_or_default(),
                );
                characters.as_str()
            }
        };
    }
    folded.push_str(&fold_text(rest));
    folded
}

/// A class of characters, as `[a-z_]`.
struct Class<'a> {
    negated: bool,
    /// Text between the brackets, without the sign of negation.
    content: &'a str,
}

/// Returns the class at the beginning of a text, and the text after it.
fn class(text: &str) -> Option<(Class<'_>, &str)> {
    let content = text.strip_prefix('[')?;
    let negated = content.starts_with(['!', '^']);
    let content = if negated { content.get(1..)? } else { content };
    // A bracket in the first position is one of the characters.
    let first = content.chars().next()?.len_utf8();
    let end = first + content.get(first..)?.find(']')?;
    Some((Class { negated, content: content.get(..end)? }, content.get(end + 1..)?))
}

/// Maximum length of a range in a class. A class with a longer range is widened to match any
/// character, which folding may do.
const LONGEST_RANGE: usize = 1_000;

impl Class<'_> {
    fn folded(&self) -> String {
        let mut more = String::new();
        let mut add = |character: char| {
            let folded = fold_text(character.encode_utf8(&mut [0; 4]));
            let mut folded = folded.chars();
            // Two characters cannot be a member of a class.
            if let (Some(one), None) = (folded.next(), folded.next())
                && one != character
                && !more.contains(one)
            {
                more.push(one);
            }
        };
        let mut characters = self.content.chars().peekable();
        while let Some(first) = characters.next() {
            let mut ahead = characters.clone();
            match (ahead.next(), ahead.next()) {
                (Some('-'), Some(last)) => {
                    characters = ahead;
                    if (first..=last).nth(LONGEST_RANGE).is_some() {
                        return "?".to_owned();
                    }
                    (first..=last).for_each(&mut add);
                }
                _ => add(first),
            }
        }
        // Additions come before a final hyphen, which would otherwise begin a range.
        let (content, hyphen) = match self.content.strip_suffix('-') {
            Some(before) if !before.is_empty() => (before, "-"),
            _ => (self.content, ""),
        };
        format!("[{}{content}{more}{hyphen}]", if self.negated { "!" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(name: &str) -> String {
        fold(OsStr::new(name)).to_str().unwrap().to_owned()
    }

    #[test]
    fn names_that_some_file_system_takes_for_one_fold_to_the_same() {
        for (one, two) in [
            (".ENV", ".env"),
            ("Straße", "STRASSE"),
            ("\u{c9}t\u{e9}", "e\u{301}te\u{301}"),
            ("\u{3a3}\u{3c3}", "\u{3c3}\u{3c2}"),
            ("\u{212a}ey", "key"),
            ("\u{17f}ecret", "secret"),
            (".e\u{200c}nv", ".env"),
            ("\u{130}d", "i\u{307}d"),
        ] {
            assert_eq!(folded(one), folded(two), "{one} {two}");
        }
        assert_ne!(folded("a"), folded("b"));
        let odd = OsStr::from_bytes(b"A\xff\xc3\x89");
        assert_eq!(fold(odd).as_bytes(), b"a\xffe\xcc\x81");
        assert!(matches!(fold(OsStr::new("plain.rs")), Cow::Borrowed(_)));
    }

    #[test]
    fn a_path_lies_below_another_by_its_components() {
        for above in ["/a/b", "/a//b", "/a/./b", "/a/b/", "/"] {
            for (path, lies_below) in [
                ("/a/b", true),
                ("/a/b/c", true),
                ("/a/b/", true),
                ("/a//b/c", true),
                ("/a/./b", true),
                ("/a/b/.", true),
                ("/a/bc", above == "/"),
                ("/a", above == "/"),
                ("/b/a/b", above == "/"),
                ("a/b", false),
            ] {
                let (path, above) = (Path::new(path), Path::new(above));
                assert_eq!(is_below(path, above), lies_below, "{path:?} {above:?}");
                assert_eq!(path.starts_with(above), lies_below, "what it is held against");
            }
        }
    }

    #[test]
    fn a_glob_keeps_its_shape_when_it_is_folded() {
        for (glob, expected) in [
            ("*.PEM", "*.pem"),
            ("\\*A", "\\*a"),
            ("[AB]c", "[ABab]c"),
            ("[!A]", "[!Aa]"),
            ("[A-C-]X", "[A-Cabc-]x"),
            ("[]A]", "[]Aa]"),
            ("[*]A", "[*]a"),
            ("a[B", "a[b"),
            ("{A,\u{c9}}", "{a,e\u{301}}"),
            ("[\u{100}-\u{fff}]", "?"),
        ] {
            assert_eq!(fold_glob(glob), expected, "{glob}");
        }
    }
}
