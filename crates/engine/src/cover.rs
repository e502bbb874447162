//! The answer as it may be shown: text bounded, first and last parts kept, the whole by reference.

use std::fmt::Write as _;

use serde_json::Value;
use tool::{Data, TextCap, ToolError, Whole};

use crate::{Engine, Sent};

/// What a shortened text was before.
pub(crate) enum Original {
    /// The text itself.
    Text(String),
    /// A file that a tool kept aside because the text did not fit into memory.
    Kept(Whole),
}

/// One text that was shortened, and where it stood.
pub(crate) struct Shortened {
    /// The place in the data, such as `stdout` or `matches.0.text`.
    pub(crate) field: String,
    /// The whole.
    pub(crate) original: Original,
}

/// The tool that reads the whole by its reference.
pub(crate) const READER: &str = "output_read";

/// [`bound`] for data of either form. Data that its tool has written stays so where the arguments bound it already.
pub(crate) fn bound_data(
    data: Data,
    cap: TextCap,
    wholes: Vec<Whole>,
    reader: Option<&str>,
) -> serde_json::Result<(Data, Vec<Shortened>)> {
    if matches!((&data, cap), (Data::Written(_), TextCap::ByArguments)) {
        return Ok((data, bound(&mut Value::Null, cap, wholes, reader)));
    }
    let mut data = data.into_value()?;
    let shortened = bound(&mut data, cap, wholes, reader);
    Ok((data.into(), shortened))
}

/// Bounds the text of an answer and hands back what was shortened, the longest first.
///
/// `reader` is what the caller calls [`READER`], which the text names where something is missing; none where it has none.
pub(crate) fn bound(
    data: &mut Value,
    cap: TextCap,
    wholes: Vec<Whole>,
    reader: Option<&str>,
) -> Vec<Shortened> {
    let mut shortened = match cap {
        TextCap::ByArguments => Vec::new(),
        TextCap::Default => shorten(data, TextCap::DEFAULT_CHARACTERS, &wholes, reader),
    };
    for whole in wholes {
        // What stood in memory was already a part only: the file is the whole.
        shortened.retain(|other| other.field != whole.field);
        shortened.push(Shortened { field: whole.field.to_owned(), original: Original::Kept(whole) });
    }
    shortened.sort_by_key(|one| {
        std::cmp::Reverse(match &one.original {
            Original::Text(text) => text.len() as u64,
            Original::Kept(whole) => whole.bytes,
        })
    });
    shortened
}

/// Characters of an error's message, and of its hint: two of the longest paths, and words around them.
pub(crate) const LONGEST_MESSAGE: usize = 10_000;

/// Bounds what an error says. It may repeat an argument of any length, and nothing of it is worth keeping.
pub(crate) fn bound_message(text: &mut String) {
    let Some((end, _)) = text.char_indices().nth(LONGEST_MESSAGE) else { return };
    let missing = characters(&text[end..]);
    text.truncate(end);
    // Writing into a string cannot fail.
    let _ = write!(text, " [... {missing} characters left out]");
}

impl Engine {
    /// Secrets do not leave in messages either, and neither does all of a long argument.
    pub(crate) fn cover_error(&self, mut error: ToolError, sent: &Sent) -> ToolError {
        self.redactor.refresh();
        error.hint = error.hint.map(|hint| self.program().put_into(&hint).into_owned());
        if let Some(covered) = self.redactor.text_for(&error.message, sent) {
            error.message = covered;
        }
        if let Some(covered) = error.hint.as_deref().and_then(|hint| self.redactor.text_for(hint, sent)) {
            error.hint = Some(covered);
        }
        bound_message(&mut error.message);
        if let Some(hint) = &mut error.hint {
            bound_message(hint);
        }
        error
    }
}

fn shorten(data: &mut Value, budget: usize, wholes: &[Whole], reader: Option<&str>) -> Vec<Shortened> {
    let mut lengths = Vec::new();
    visit(data, &mut String::new(), &mut |_, text| lengths.push(characters(text)));
    if lengths.iter().sum::<usize>() <= budget {
        return Vec::new();
    }
    let allowance = allowance(lengths, budget);
    let mut shortened = Vec::new();
    visit(data, &mut String::new(), &mut |field, text| {
        let length = characters(text);
        if length > allowance {
            let whole = wholes.iter().find(|whole| whole.field == field);
            let parts = first_and_last(text, length, allowance, whole, reader);
            let whole = std::mem::replace(text, parts);
            shortened.push(Shortened { field: field.to_owned(), original: Original::Text(whole) });
        }
    });
    shortened
}

/// The most characters that every text may keep so that all together stay in the budget: short texts stay whole, and what
/// they leave over goes to the long ones.
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

/// The first and the last part of a text in at most `allowed` characters, with a line between them that says how much is
/// missing. Cut between characters. Where the text is itself only a part of more, `whole` is that.
fn first_and_last(
    text: &str,
    length: usize,
    allowed: usize,
    whole: Option<&Whole>,
    reader: Option<&str>,
) -> String {
    let note_for = |missing: usize| {
        let (missing, kept) = match whole {
            Some(Whole { bytes, lines, kept_bytes, .. }) => (
                format!("most of {bytes} bytes in {lines} lines"),
                Some(kept_bytes).filter(|kept| *kept < bytes).map(|kept| format!("the first {kept} bytes")),
            ),
            None => (format!("{missing} characters"), None),
        };
        let kept = kept.as_deref().unwrap_or("the whole");
        let where_to = reader.map(|reader| format!("; {reader} has {kept}")).unwrap_or_default();
        format!("\n[... {missing} left out{where_to} ...]\n")
    };
    let note_length = characters(&note_for(length));
    if allowed <= note_length {
        return text.chars().take(allowed).collect();
    }
    let kept = allowed - note_length;
    let (first, last) = (kept - kept / 3, kept / 3);
    let boundary = |characters: usize| text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at);
    format!("{}{}{}", &text[..boundary(first)], note_for(length - kept), &text[boundary(length - last)..])
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

    fn total(value: &mut Value) -> usize {
        let mut sum = 0;
        visit(value, &mut String::new(), &mut |_, text| sum += characters(text));
        sum
    }

    #[test]
    fn a_short_answer_is_left_alone() {
        let mut data = json!({"stdout": "x".repeat(24_999), "stderr": "y"});
        let before = data.clone();
        assert!(bound(&mut data, TextCap::Default, vec![], Some(READER)).is_empty());
        assert_eq!(data, before);
    }

    #[test]
    fn what_was_written_is_bounded_as_its_tree_unless_its_arguments_bound_it() {
        let data = json!({"text": "x".repeat(30_000)});
        let written = || Data::Written(tool::Written::of(&data, 0).unwrap());
        let (kept, shortened) = bound_data(written(), TextCap::ByArguments, vec![], Some(READER)).unwrap();
        assert!(matches!(&kept, Data::Written(_)) && shortened.is_empty());
        assert_eq!(kept.into_value().unwrap(), data);
        let (cut, shortened) = bound_data(written(), TextCap::Default, vec![], Some(READER)).unwrap();
        assert_eq!(shortened.len(), 1);
        assert!(total(&mut cut.into_value().unwrap()) <= TextCap::DEFAULT_CHARACTERS);
    }

    #[test]
    fn long_texts_share_what_short_ones_leave_and_characters_stay_whole() {
        let mut data = json!({"a": "short", "list": [{"b": "ä".repeat(30_000)}, {"b": "€".repeat(90_000)}]});
        let shortened = bound(&mut data, TextCap::Default, vec![], Some(READER));
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
        let shortened = bound(&mut data, TextCap::Default, vec![], Some(READER));
        let text = data["stdout"].as_str().unwrap();
        assert!(text.starts_with("first line\n") && text.ends_with("\nlast line"));
        let Original::Text(whole) = &shortened[0].original else { panic!("no text") };
        assert_eq!(whole.len(), 100_000 + 21);
    }

    fn whole(bytes: u64, kept_bytes: u64) -> Whole {
        Whole { field: "stdout", file: tempfile::tempfile().unwrap(), bytes, lines: 7, kept_bytes }
    }

    #[test]
    fn the_note_tells_the_size_of_the_whole_and_not_of_the_part_in_memory() {
        let text_for = |reader: Option<&str>, kept_bytes: u64, field: &str| {
            let mut data = json!({"stdout": "x".repeat(100_000), "stderr": "y".repeat(100_000)});
            bound(&mut data, TextCap::Default, vec![whole(20_000_000, kept_bytes)], reader);
            data[field].as_str().unwrap().to_owned()
        };
        let text = |kept_bytes: u64, field: &str| text_for(Some(READER), kept_bytes, field);
        let told = "[... most of 20000000 bytes in 7 lines left out; output_read has the whole ...]";
        assert!(text(20_000_000, "stdout").contains(told), "{}", text(20_000_000, "stdout"));
        let told = "lines left out; output_read has the first 300000 bytes ...]";
        assert!(text(300_000, "stdout").contains(told), "{}", text(300_000, "stdout"));
        assert!(text(0, "stderr").contains(" characters left out;"), "{}", text(0, "stderr"));
        let without = text_for(None, 20_000_000, "stdout");
        assert!(without.contains("\n[... most of 20000000 bytes in 7 lines left out ...]\n"), "{without}");
    }

    #[test]
    fn a_whole_that_was_kept_aside_replaces_the_part_in_memory() {
        let mut data = json!({"stdout": "x".repeat(30_000), "stderr": ""});
        let shortened = bound(&mut data, TextCap::Default, vec![whole(1 << 30, 1 << 30)], Some(READER));
        assert_eq!(shortened.len(), 1);
        assert!(matches!(shortened[0].original, Original::Kept(_)));
    }

    #[test]
    fn many_tiny_texts_never_overflow_the_budget() {
        let mut data = json!((0..40_000).map(|number| number.to_string()).collect::<Vec<_>>());
        bound(&mut data, TextCap::Default, vec![], Some(READER));
        assert!(total(&mut data) <= TextCap::DEFAULT_CHARACTERS);
    }
}
