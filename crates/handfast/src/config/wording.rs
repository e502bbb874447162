//! Error messages for a configuration, with advice on what to write instead.

use serde_saphyr::Error;

use super::Settings;

/// Describes the problem, as far as the library reports it. The position is reported separately.
pub(super) fn in_plain_words(error: &Error) -> String {
    match bare(error) {
        Error::SerdeUnknownField { field, expected, .. } => unknown_key(field, expected),
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            let named = expected.join("`, `");
            match tool::nearest(variant, expected.iter().copied()) {
                Some(near) => {
                    format!("`{variant}` is unknown here; did you mean `{near}`? Known are `{named}`")
                }
                None => format!("`{variant}` is unknown here; known are `{named}`"),
            }
        }
        Error::SerdeMissingField { field, .. } => format!("the key `{field}` is missing here"),
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key `{key}` appears here for the second time; remove one of the two")
        }
        Error::DuplicateMappingKey { key: None, .. } => {
            "a key appears here for the second time; remove one of the two".to_owned()
        }
        Error::InvalidScalar { ty, .. } if is_whole_number(ty) => {
            "a whole number is expected here, such as 4".to_owned()
        }
        other => {
            let shown = other.to_string();
            let first = shown.lines().next().unwrap_or_default();
            of_syntax(without_position(first)).to_owned()
        }
    }
}

/// Returns the innermost error, without its wrappers.
fn bare(mut error: &Error) -> &Error {
    while let Error::AliasError { error: inner, .. } | Error::WithSnippet { error: inner, .. } = error {
        error = inner;
    }
    error
}

fn is_whole_number(kind: &str) -> bool {
    ["u8", "u16", "u32", "u64", "usize", "i32", "i64"].contains(&kind)
}

/// Removes the position from the end of a message, because the position is already in front, in the
/// form that editors understand.
fn without_position(message: &str) -> &str {
    match message.rsplit_once(" at line ") {
        Some((before, position)) if position.starts_with(|sign: char| sign.is_ascii_digit()) => before,
        _ => message,
    }
}

/// Translates the library's syntax terms into advice on what to write.
fn of_syntax(problem: &str) -> &str {
    let expected = [
        ("expected mapping start", "keys with values are expected here, indented; `{}` means none"),
        ("expected sequence start", "a list is expected here, each entry after a `-`; `[]` is an empty one"),
        (
            "expected string scalar",
            "a text is expected here; put it in quotes if it looks like something else",
        ),
        ("invalid boolean", "`true` or `false` is expected here"),
    ];
    expected.into_iter().find(|(theirs, _)| problem.contains(theirs)).map_or(problem, |(_, ours)| ours)
}

fn unknown_key(typed: &str, here: &[&'static str]) -> String {
    if let Some(near) = tool::nearest(typed, here.iter().copied()) {
        return format!("there is no key `{typed}` here; did you mean `{near}`?");
    }
    let elsewhere = LEVELS.into_iter().find_map(|(begin, place)| {
        let keys = keys_below(begin);
        let meant = tool::nearest(typed, keys.iter().copied())?;
        Some(format!("there is no key `{typed}` here; `{meant}` is a key {place}"))
    });
    elsewhere.unwrap_or_else(|| format!("there is no key `{typed}` here; known are `{}`", here.join("`, `")))
}

/// Levels at which keys may stand: the YAML that leads to the level, and a description of the level.
const LEVELS: [(&str, &str); 5] = [
    ("", "of the whole file, at the beginning of a line"),
    ("sandbox_config:\n  normal:\n    ", "of a profile, below `sandbox_config:` and the profile's name"),
    ("sandbox_config:\n  normal:\n    limits:\n      ", "of a profile's `limits:`"),
    ("sandbox_config:\n  normal:\n    git_push:\n      ", "of a profile's `git_push:`"),
    ("sandbox_config:\n  normal:\n    browser:\n      ", "of a profile's `browser:`"),
];

/// Returns the keys that may follow this beginning of a file.
fn keys_below(begin: &str) -> Vec<&'static str> {
    match serde_saphyr::from_str::<Settings>(&format!("{begin}\"\": 0\n")).as_ref().map_err(bare) {
        Err(Error::SerdeUnknownField { expected, .. }) => expected.clone(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        in_plain_words(&serde_saphyr::from_str::<Settings>(text).unwrap_err())
    }

    #[test]
    fn a_key_that_is_misspelt_or_stands_elsewhere_is_named_at_every_depth() {
        let limits = |key: &str| format!("sandbox_config:\n  normal:\n    limits:\n      {key}: 1\n");
        let profile = |key: &str| format!("sandbox_config:\n  normal:\n    {key}: []\n");
        for (text, expected) in [
            ("modes: smart_auto\n".to_owned(), "`modes` here; did you mean `mode`?"),
            ("Profile: x\n".to_owned(), "`Profile` here; did you mean `profile`?"),
            ("sandbox-config: {}\n".to_owned(), "did you mean `sandbox_config`?"),
            (profile("allowed-hosts"), "did you mean `allowed_hosts`?"),
            (profile("deny_exec_commands"), "did you mean `deny_exec_command`?"),
            (limits("Memory_Bytes"), "did you mean `memory_bytes`?"),
            (limits("cpu"), "did you mean `cpus`?"),
            ("linear: {endpoints: x}\n".to_owned(), "did you mean `endpoint`?"),
            ("vault: {keyfile: x}\n".to_owned(), "did you mean `key_file`?"),
            ("deny_hosts: []\n".to_owned(), "`deny_hosts` is a key of a profile, below `sandbox_config:`"),
            (profile("dialect"), "`dialect` is a key of the whole file"),
            (profile("memory_bytes"), "`memory_bytes` is a key of a profile's `limits:`"),
            (profile("allow"), "`allow` is a key of a profile's `git_push:`"),
            ("sandbox_config:\n  n:\n    git_push: {alow: [x]}\n".to_owned(), "did you mean `allow`?"),
            ("photosynthesis: 1\n".to_owned(), "known are `sandbox_config`, `profile`"),
        ] {
            let shown = problem(&text);
            assert!(shown.contains(expected), "{text}: {shown}");
        }
    }

    #[test]
    fn values_and_doubled_keys_are_told_in_our_own_words() {
        for (text, expected) in [
            ("mode: Full_Auto\n", "`Full_Auto` is unknown here; did you mean `full_auto`?"),
            ("mode: sometimes\n", "known are `full_auto`, `smart_auto`, `ask_always`"),
            ("mode: full_auto\nmode: ask_always\n", "the key `mode` appears here for the second time"),
            ("sandbox_config:\n  a: {}\n  a: {}\n", "the key `a` appears here for the second time"),
            ("sandbox_config: {n: {limits: {cpus: 1, cpus: 2}}}\n", "the key `cpus` appears here"),
            ("sandbox_config: {n: {limits: {cpus: two}}}\n", "a whole number is expected here"),
            ("sandbox_config: {n: {strict: maybe}}\n", "`true` or `false` is expected here"),
            ("linear: {}\n", "the key `endpoint` is missing here"),
            ("sandbox_config: {n: {limits: {memory_bytes: 4 gigs}}}\n", "`4 gigs` is not a valid amount"),
            (
                "sandbox_config: {n: {limits: {memory_bytes: -5}}}\n",
                "invalid value: integer `-5`, expected a number of bytes",
            ),
        ] {
            let shown = problem(text);
            assert!(shown.contains(expected) && !shown.contains(" at line "), "{text}: {shown}");
        }
    }
}
