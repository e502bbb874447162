//! Front matter: the settings between two lines of `---` at the beginning of a Markdown file.

/// Splits a file into its front matter and what follows.
///
/// # Errors
/// The fault, as the end of a sentence about the file.
pub fn split_front_matter(text: &str) -> Result<(&str, &str), &'static str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rest =
        text.strip_prefix("---").and_then(|rest| rest.trim_start_matches([' ', '\r']).strip_prefix('\n'));
    let rest = rest.ok_or("it does not begin with front matter (`---`)")?;
    let end = rest.match_indices("---").find(|(at, _)| *at == 0 || rest[..*at].ends_with('\n'));
    let (front, rest) = rest.split_at(end.ok_or("its front matter has no end (`---`)")?.0);
    Ok((front, rest.trim_start_matches('-')))
}
