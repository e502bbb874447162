//! Search in a snapshot: the lines that have all words, with the rows and items around them.

use crate::snapshot::line::Line;

/// Returns the indexes of the lines in which all words of a query occur, and of the lines around
/// them that give them their meaning.
///
/// A word may stand in a line around the match: the button "Delete" in the row of Alice has both
/// "delete" and "alice". At least one word stands in the line itself.
pub(crate) fn matching(lines: &[Line], query: &str) -> Vec<usize> {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let mut around: Vec<(usize, String)> = Vec::new();
    let mut found: Vec<usize> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        while around
            .last()
            .is_some_and(|(outer, _)| lines.get(*outer).is_none_or(|outer| outer.depth >= line.depth))
        {
            around.pop();
        }
        let own = line.shown().to_lowercase();
        let has_own = words.iter().any(|word| own.contains(word.as_str()));
        let has_all = words.iter().all(|word| {
            own.contains(word.as_str()) || around.iter().any(|(_, text)| text.contains(word.as_str()))
        });
        if has_own && has_all {
            for (outer, _) in &around {
                let is_context = lines
                    .get(*outer)
                    .is_some_and(|outer| ["row", "listitem", "dialog"].contains(&outer.role.as_str()));
                if is_context {
                    found.push(*outer);
                }
            }
            found.push(at);
        }
        around.push((at, own));
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elements::Reference;

    fn line(depth: usize, role: &str, name: &str, number: u32) -> Line {
        Line {
            depth,
            reference: (number > 0).then(|| Reference::in_main_frame(number)),
            role: role.into(),
            name: name.into(),
            states: String::new(),
            value: None,
        }
    }

    fn rows() -> Vec<Line> {
        vec![
            line(0, "table", "Users", 1),
            line(1, "row", "Alice | open", 0),
            line(2, "button", "Edit", 2),
            line(2, "button", "Delete", 3),
            line(1, "row", "Bob | open", 0),
            line(2, "button", "Delete", 4),
        ]
    }

    #[test]
    fn all_words_stand_in_the_line_or_around_it() {
        assert_eq!(matching(&rows(), "delete"), [1, 3, 4, 5]);
        assert_eq!(matching(&rows(), "ALICE delete"), [1, 3]);
        assert_eq!(matching(&rows(), "delete carol"), [0_usize; 0]);
    }

    #[test]
    fn a_word_of_the_surroundings_alone_is_no_match() {
        assert_eq!(matching(&rows(), "bob"), [4]);
    }
}
