//! Bounding of an answer's text: whole lines of its beginning and its end stay, and a reference
//! leads to the whole.

use std::fmt::Write as _;

use serde_json::Value;
use tool::{CallId, Data, FullOutput, TextCap};

/// Original of a shortened text.
pub(crate) enum Original {
    /// The text.
    Text(String),
    /// A file in which a tool stored the text because it did not fit into memory.
    Kept(FullOutput),
}

/// A text that was shortened, and its place in the data.
pub(crate) struct ShortenedText {
    /// Path in the data, such as `stdout` or `matches.0.text`.
    pub(crate) field: String,
    /// The whole text.
    pub(crate) original: Original,
}

/// Name of the tool that reads the whole text by its reference.
pub(crate) const READER: &str = "output_read";

/// Reference to the whole text, for the note in a shortened one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reference<'a> {
    /// Name under which the caller knows [`READER`]. `None` if the caller has no such tool.
    pub(crate) reader: Option<&'a str>,
    /// Id of the call that the whole text is stored under.
    pub(crate) call: &'a CallId,
}

impl Reference<'_> {
    /// Returns the reference of one text.
    pub(crate) fn of(call: &CallId, field: &str) -> String {
        format!("{call}.{field}")
    }
}

/// Bounds data of either form like [`bound`]. Data that its tool has serialized stays unchanged if
/// the arguments bound it already.
pub(crate) fn bound_data(
    data: Data,
    cap: TextCap,
    wholes: Vec<FullOutput>,
    reference: Reference<'_>,
) -> serde_json::Result<(Data, Vec<ShortenedText>)> {
    if matches!((&data, cap), (Data::Written(_), TextCap::ByArguments)) {
        return Ok((data, bound(&mut Value::Null, cap, wholes, reference)));
    }
    let mut data = data.into_value()?;
    let shortened = bound(&mut data, cap, wholes, reference);
    Ok((data.into(), shortened))
}

/// Bounds the text of an answer. Returns the shortened texts, the longest first.
pub(crate) fn bound(
    data: &mut Value,
    cap: TextCap,
    wholes: Vec<FullOutput>,
    reference: Reference<'_>,
) -> Vec<ShortenedText> {
    let mut shortened = match cap {
        TextCap::ByArguments => Vec::new(),
        TextCap::Default => shorten(data, TextCap::DEFAULT_CHARACTERS, &wholes, reference),
    };
    for whole in wholes {
        // The text in memory was only a part already: the file has the whole.
        shortened.retain(|other| other.field != whole.field);
        shortened.push(ShortenedText { field: whole.field.to_owned(), original: Original::Kept(whole) });
    }
    shortened.sort_by_key(|one| {
        std::cmp::Reverse(match &one.original {
            Original::Text(text) => text.len() as u64,
            Original::Kept(whole) => whole.bytes,
        })
    });
    shortened
}

/// Maximum number of characters of an error's message, and of its hint: two of the longest paths,
/// and words around them.
pub(crate) const LONGEST_MESSAGE: usize = 10_000;

/// Bounds a message of an error. The message may repeat an argument of any length, and the part
/// that is cut is not worth storing.
pub(crate) fn bound_message(text: &mut String) {
    let Some((end, _)) = text.char_indices().nth(LONGEST_MESSAGE) else { return };
    let missing = characters(&text[end..]);
    text.truncate(end);
    // Writing into a string cannot fail.
    let _ = write!(text, " [... {missing} characters left out]");
}

fn shorten(
    data: &mut Value,
    budget: usize,
    wholes: &[FullOutput],
    reference: Reference<'_>,
) -> Vec<ShortenedText> {
    let mut lengths = Vec::new();
    visit(data, &mut String::new(), &mut |_, text| lengths.push(characters(text)));
    let allowance =
        if lengths.iter().sum::<usize>() <= budget { usize::MAX } else { allowance(lengths, budget) };
    let mut shortened = Vec::new();
    visit(data, &mut String::new(), &mut |field, text| {
        let length = characters(text);
        if length > allowance || has_too_many_lines(text) {
            let whole = wholes.iter().find(|whole| whole.field == field);
            let note = |missing: usize, lines: usize| note(field, missing, lines, whole, reference);
            let mut allowed = allowance.min(length);
            let mut parts = first_and_last(text, length, allowed, note);
            while has_too_many_lines(&parts) {
                allowed -= allowed.div_ceil(8);
                parts = first_and_last(text, length, allowed, note);
            }
            let whole = std::mem::replace(text, parts);
            shortened.push(ShortenedText { field: field.to_owned(), original: Original::Text(whole) });
        }
    });
    shortened
}

/// Returns true if a client would cut the text because of its lines.
fn has_too_many_lines(text: &str) -> bool {
    TextCap::length_of_default_lines(text.as_bytes()).is_some()
}

/// Returns the largest number of characters that every text may keep so that all texts together
/// stay within the budget. Short texts stay whole, and the characters that they leave over go to
/// the long ones.
fn allowance(mut lengths: Vec<usize>, budget: usize) -> usize {
    lengths.sort_unstable();
    let mut left = budget;
    let count = lengths.len();
    for (index, length) in lengths.into_iter().enumerate() {
        let share = left / (count - index);
        if length > share {
            return share;
        }
        left -= length;
    }
    usize::MAX
}

/// Returns the first and the last lines of a text in at most `allowed` characters, with a line
/// between them that reports how much is missing. A line is cut, between characters, only if it is
/// longer than the part that contains it.
fn first_and_last(
    text: &str,
    length: usize,
    allowed: usize,
    note: impl Fn(usize, usize) -> String,
) -> String {
    // A note with smaller numbers is not longer. One newline precedes the note, and one follows it.
    let note_length = characters(&note(length, text.lines().count())) + 2;
    if allowed <= note_length {
        return text.chars().take(allowed).collect();
    }
    let kept = allowed - note_length;
    let (first, last) = (kept - kept / 3, kept / 3);
    let boundary = |characters: usize| text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at);
    let (end, start) = (boundary(first), boundary(length - last));
    let (end, start) = (line_at(text, end, end).0, line_at(text, start, text.len() - start).1);
    let (head, missing, tail) = (&text[..end], &text[end..start], &text[start..]);
    let before = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    format!("{head}{before}{}\n{tail}", note(characters(missing), missing.lines().count()))
}

/// Returns the begin and the end of the line that continues at `at`. Returns `at` twice if no line
/// does, or if that line is longer than `longest` bytes.
fn line_at(text: &str, at: usize, longest: usize) -> (usize, usize) {
    if at == 0 || at == text.len() || text[..at].ends_with('\n') {
        return (at, at);
    }
    let begin = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1);
    if end - begin > longest { (at, at) } else { (begin, end) }
}

/// Formats the note about the missing part of a text and the way to read it. `whole` is set if the
/// text was itself only a part.
fn note(
    field: &str,
    missing: usize,
    lines: usize,
    whole: Option<&FullOutput>,
    reference: Reference<'_>,
) -> String {
    let (missing, kept) = match whole {
        Some(FullOutput { bytes, lines, kept_bytes, .. }) => (
            format!("most of {bytes} bytes in {lines} lines"),
            Some(kept_bytes).filter(|kept| *kept < bytes).map(|kept| format!("the first {kept} bytes")),
        ),
        None if lines > 1 => (format!("{missing} characters in {lines} lines"), None),
        None => (format!("{missing} characters"), None),
    };
    let kept = kept.as_deref().unwrap_or("the whole");
    let has = |reader: &str| {
        let output = Reference::of(reference.call, field);
        format!("; {reader} {{\"output_ref\":\"{output}\"}} has {kept}")
    };
    format!("[... {missing} left out{} ...]", reference.reader.map(has).unwrap_or_default())
}

fn characters(text: &str) -> usize {
    // Bytes bound characters from above, so the count is only needed for long texts.
    text.chars().count()
}

// BOUNDED: by the depth of JSON that is read, 128.
fn visit(value: &mut Value, at: &mut String, each: &mut impl FnMut(&str, &mut String)) {
    match value {
        Value::String(text) => each(at, text),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                below(at, &index.to_string(), |at| visit(item, at, each));
            }
        }
        Value::Object(map) => {
            for (key, item) in map.iter_mut() {
                below(at, key, |at| visit(item, at, each));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn below(at: &mut String, name: &str, visit: impl FnOnce(&mut String)) {
    let length = at.len();
    if !at.is_empty() {
        at.push('.');
    }
    at.push_str(name);
    visit(at);
    at.truncate(length);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call() -> CallId {
        CallId("c1".to_owned())
    }

    fn named(call: &CallId) -> Reference<'_> {
        Reference { reader: Some(READER), call }
    }

    fn total(value: &mut Value) -> usize {
        let mut sum = 0;
        visit(value, &mut String::new(), &mut |_, text| sum += characters(text));
        sum
    }

    #[test]
    fn a_short_answer_is_left_alone() {
        let mut data = json!({"stdout": "x".repeat(24_999), "stderr": "y"});
        let before = data.clone();
        assert!(bound(&mut data, TextCap::Default, vec![], named(&call())).is_empty());
        assert_eq!(data, before);
    }

    #[test]
    fn what_was_written_is_bounded_as_its_tree_unless_its_arguments_bound_it() {
        let data = json!({"text": "x".repeat(30_000)});
        let written = || Data::Written(tool::RawJson::of(&data, 0).unwrap());
        let (kept, shortened) = bound_data(written(), TextCap::ByArguments, vec![], named(&call())).unwrap();
        assert!(matches!(&kept, Data::Written(_)) && shortened.is_empty());
        assert_eq!(kept.into_value().unwrap(), data);
        let (cut, shortened) = bound_data(written(), TextCap::Default, vec![], named(&call())).unwrap();
        assert_eq!(shortened.len(), 1);
        assert!(total(&mut cut.into_value().unwrap()) <= TextCap::DEFAULT_CHARACTERS);
    }

    #[test]
    fn long_texts_share_what_short_ones_leave_and_characters_stay_whole() {
        let mut data = json!({"a": "short", "list": [{"b": "ä".repeat(30_000)}, {"b": "€".repeat(90_000)}]});
        let shortened = bound(&mut data, TextCap::Default, vec![], named(&call()));
        assert!(total(&mut data) <= TextCap::DEFAULT_CHARACTERS);
        assert!(total(&mut data) > TextCap::DEFAULT_CHARACTERS - 10);
        assert_eq!(data["a"], "short");
        let fields: Vec<_> = shortened.iter().map(|one| one.field.as_str()).collect();
        assert_eq!(fields, ["list.1.b", "list.0.b"]);
        assert!(data["list"][1]["b"].as_str().unwrap().contains("characters left out"));
    }

    #[test]
    fn the_first_and_the_last_part_are_kept() {
        let mut data = json!({"stdout": format!("first line\n{}\nlast line", "x".repeat(100_000))});
        let shortened = bound(&mut data, TextCap::Default, vec![], named(&call()));
        let text = data["stdout"].as_str().unwrap();
        assert!(text.starts_with("first line\n") && text.ends_with("\nlast line"));
        let Original::Text(whole) = &shortened[0].original else { panic!("no text") };
        assert_eq!(whole.len(), 100_000 + 21);
    }

    #[test]
    fn a_text_has_fewer_lines_than_clients_cut() {
        for (lines, cut) in
            [(TextCap::DEFAULT_LINES, false), (TextCap::DEFAULT_LINES + 1, true), (9_000, true)]
        {
            let text = format!("first\n{}last\n", "\n".repeat(lines - 2));
            let mut data = json!({ "stdout": text });
            let shortened = bound(&mut data, TextCap::Default, vec![], named(&call()));
            let shown = data["stdout"].as_str().unwrap();
            assert_eq!(shortened.len(), usize::from(cut), "{lines} lines");
            assert!(shown.lines().count() <= TextCap::DEFAULT_LINES, "{lines} lines");
            assert!(shown.starts_with("first\n") && shown.ends_with("\nlast\n"), "{lines} lines");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_lines() {
        for ending in ["\n", "\r\n"] {
            let lines: Vec<String> =
                (0..3_000).map(|number| format!("{number} äöü€ and some more{ending}")).collect();
            let mut data = json!({"stdout": lines.concat(), "matches": [{"text": lines.concat()}]});
            bound(&mut data, TextCap::Default, vec![], named(&call()));
            assert!(total(&mut data) <= TextCap::DEFAULT_CHARACTERS);
            for text in [&data["stdout"], &data["matches"][0]["text"]] {
                let shown: Vec<&str> = text.as_str().unwrap().split_inclusive('\n').collect();
                let noted: Vec<&&str> = shown.iter().filter(|line| line.starts_with("[... ")).collect();
                let [note] = noted.as_slice() else { panic!("{} notes", noted.len()) };
                assert_eq!(shown[..5], lines[..5]);
                assert_eq!(shown[shown.len() - 5..], lines[2_995..]);
                assert!(shown.iter().all(|line| *line == **note || lines.iter().any(|whole| whole == line)));
                let left_out = 3_000 - (shown.len() - 1);
                assert!(note.contains(&format!(" characters in {left_out} lines left out; ")), "{note}");
            }
        }
    }

    #[test]
    fn a_line_longer_than_the_bound_is_cut_and_the_lines_beside_it_are_not() {
        let long = "€".repeat(60_000);
        let text = format!("first\n{long}\nlast\n");
        let mut data = json!({"stdout": text});
        bound(&mut data, TextCap::Default, vec![], named(&call()));
        let shown: Vec<&str> = data["stdout"].as_str().unwrap().lines().collect();
        assert_eq!((shown[0], shown[4]), ("first", "last"));
        assert!([shown[1], shown[3]].iter().all(|part| long.contains(part) && part.len() > 15_000));
        assert!(shown[2].starts_with("[... "), "{}", shown[2]);
        assert!(total(&mut data) > TextCap::DEFAULT_CHARACTERS - 50);
    }

    fn whole(bytes: u64, kept_bytes: u64) -> FullOutput {
        FullOutput { field: "stdout", file: tempfile::tempfile().unwrap(), bytes, lines: 7, kept_bytes }
    }

    #[test]
    fn the_note_tells_the_size_of_the_whole_and_not_of_the_part_in_memory() {
        let call = call();
        let text_for = |reader: Option<&str>, kept_bytes: u64, field: &str| {
            let mut data = json!({"stdout": "x".repeat(100_000), "stderr": "y".repeat(100_000)});
            let reference = Reference { reader, call: &call };
            bound(&mut data, TextCap::Default, vec![whole(20_000_000, kept_bytes)], reference);
            data[field].as_str().unwrap().to_owned()
        };
        let text = |kept_bytes: u64, field: &str| text_for(Some(READER), kept_bytes, field);
        let told = "\n[... most of 20000000 bytes in 7 lines left out; output_read {\"output_ref\":\"c1.stdout\"} has the whole ...]\n";
        assert!(text(20_000_000, "stdout").contains(told), "{}", text(20_000_000, "stdout"));
        let told =
            "lines left out; output_read {\"output_ref\":\"c1.stdout\"} has the first 300000 bytes ...]";
        assert!(text(300_000, "stdout").contains(told), "{}", text(300_000, "stdout"));
        assert!(
            text(0, "stderr").contains(r#" characters left out; output_read {"output_ref":"c1.stderr"}"#),
            "{}",
            text(0, "stderr")
        );
        let without = text_for(None, 20_000_000, "stdout");
        assert!(without.contains("\n[... most of 20000000 bytes in 7 lines left out ...]\n"), "{without}");
    }

    #[test]
    fn a_whole_that_was_kept_aside_replaces_the_part_in_memory() {
        let mut data = json!({"stdout": "x".repeat(30_000), "stderr": ""});
        let shortened = bound(&mut data, TextCap::Default, vec![whole(1 << 30, 1 << 30)], named(&call()));
        assert_eq!(shortened.len(), 1);
        assert!(matches!(shortened[0].original, Original::Kept(_)));
    }

    #[test]
    fn many_tiny_texts_never_overflow_the_budget() {
        let mut data = json!((0..40_000).map(|number| number.to_string()).collect::<Vec<_>>());
        bound(&mut data, TextCap::Default, vec![], named(&call()));
        assert!(total(&mut data) <= TextCap::DEFAULT_CHARACTERS);
    }
}
