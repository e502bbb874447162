//! The words of a text, and the phrases that are shown when one is not understood.

use crate::error::ScheduleError;

/// Phrases that show what the grammar has. The nearest ones are named in errors.
const PHRASES: [&str; 20] = [
    "every 5 minutes",
    "every hour",
    "every 2 hours",
    "every day at 9am",
    "every morning at 9am",
    "every evening at 18:30",
    "every weekday at 8:00",
    "every weekend at noon",
    "every monday at 2pm",
    "every monday, wednesday and friday at 7:30",
    "every month on the 1st at 9am",
    "on the last day of every month at 18:00",
    "in 5 minutes",
    "in 2 days at 9am",
    "at 3pm",
    "tomorrow at 15:30",
    "next friday at 10am",
    "on december 24 at 18:00",
    "2026-12-24 at 18:00",
    "0 9 * * *",
];
/// Number of phrases that an error names.
const NAMED: usize = 3;

/// Words of a text in lower case, with the position of the next one.
pub(crate) struct Words<'a> {
    text: &'a str,
    each: Vec<String>,
    at: usize,
}

impl<'a> Words<'a> {
    /// Splits a text into words. Commas separate words and are none.
    pub(crate) fn of(text: &'a str) -> Self {
        let spaced = text.replace(',', " ").replace('@', " at ").to_lowercase();
        let each = spaced.split_whitespace().map(str::to_owned).collect();
        Self { text, each, at: 0 }
    }

    /// Returns the next word without taking it.
    pub(crate) fn peek(&self) -> Option<&str> {
        self.each.get(self.at).map(String::as_str)
    }

    /// Returns the word after the next one without taking it.
    pub(crate) fn peek_second(&self) -> Option<&str> {
        self.each.get(self.at + 1).map(String::as_str)
    }

    /// Takes the next word.
    pub(crate) fn take(&mut self) -> Option<String> {
        let word = self.each.get(self.at).cloned();
        self.at += usize::from(word.is_some());
        word
    }

    /// Takes the next word if it is one of these.
    pub(crate) fn take_any(&mut self, wanted: &[&str]) -> bool {
        let is_there = self.peek().is_some_and(|word| wanted.contains(&word));
        self.at += usize::from(is_there);
        is_there
    }

    /// Takes the next word, which must be there.
    ///
    /// # Errors
    /// [`ScheduleError::Ends`] naming what must follow.
    pub(crate) fn need(&mut self, wanted: &'static str) -> Result<String, ScheduleError> {
        self.take().ok_or_else(|| self.ends(wanted))
    }

    /// Checks that no word is left.
    ///
    /// # Errors
    /// [`ScheduleError::Word`] naming the first one that is.
    pub(crate) fn end(&self) -> Result<(), ScheduleError> {
        match self.peek() {
            None => Ok(()),
            Some(word) => Err(self.unknown(word)),
        }
    }

    /// Returns the error for a word that is not understood.
    pub(crate) fn unknown(&self, word: &str) -> ScheduleError {
        let word = word.chars().take(40).collect();
        ScheduleError::Word { word, near: nearest(self.text) }
    }

    /// Returns the error for a text that ends too early.
    pub(crate) fn ends(&self, wanted: &'static str) -> ScheduleError {
        ScheduleError::Ends { wanted, near: nearest(self.text) }
    }
}

/// Returns the phrases that are nearest to a text, the nearest first.
fn nearest(text: &str) -> Vec<&'static str> {
    let text = text.to_lowercase();
    let mut phrases: Vec<(f64, &'static str)> =
        PHRASES.iter().map(|phrase| (strsim::jaro_winkler(&text, phrase), *phrase)).collect();
    phrases.sort_by(|one, other| other.0.total_cmp(&one.0));
    phrases.into_iter().take(NAMED).map(|(_, phrase)| phrase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phrase_that_errors_name_is_understood() {
        let now = "2026-11-28T12:00:00[UTC]".parse().unwrap();
        for phrase in PHRASES {
            assert!(crate::Schedule::parse(phrase, &now).is_ok(), "{phrase}");
        }
    }
}
