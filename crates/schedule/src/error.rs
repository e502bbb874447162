//! Errors of a schedule that cannot be read, each with what would be understood.

use std::fmt;

/// A reason why a text is no schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleError {
    /// The text is empty, or longer than a schedule can be.
    Length,
    /// A word that the grammar does not have at its place, with phrases that it does have.
    Word {
        /// The word.
        word: String,
        /// Phrases that are near to the text.
        near: Vec<&'static str>,
    },
    /// The text ends where something must follow.
    Ends {
        /// The word that must follow, in a description.
        wanted: &'static str,
        /// Phrases that are near to the text.
        near: Vec<&'static str>,
    },
    /// A number outside of its bounds.
    Number {
        /// The number, as it was written.
        number: String,
        /// Description of the numbers that would fit.
        bounds: String,
    },
    /// An interval that does not divide its hour or day, so its instants would not be evenly spaced.
    Uneven {
        /// The interval, as it was written.
        interval: String,
        /// Intervals beside it that divide.
        near: String,
    },
    /// A cron line that cannot be read.
    Cron {
        /// Reason.
        reason: String,
    },
    /// A cron line with a field for seconds.
    Seconds,
    /// A schedule that never comes about, such as February 30.
    Never,
    /// A single instant that is over.
    Past {
        /// The instant as it was read.
        read_as: String,
    },
    /// An instant that lies too far ahead to be told.
    TooFar,
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => write!(formatter, "a schedule has 1 to 200 characters"),
            Self::Word { word, near } => {
                write!(formatter, "`{word}` is not understood here; known are {}", listed(near))
            }
            Self::Ends { wanted, near } => {
                write!(formatter, "{wanted} must follow, as in {}", listed(near))
            }
            Self::Number { number, bounds } => write!(formatter, "{number} is not {bounds}"),
            Self::Uneven { interval, near } => write!(
                formatter,
                "{interval} do not divide their hour or day, so the times would not be even; {near} do"
            ),
            Self::Cron { reason } => write!(formatter, "the cron line cannot be read: {reason}"),
            Self::Seconds => write!(
                formatter,
                "a cron line has five fields: minute, hour, day of the month, month, day of the week; seconds \
                 are not supported"
            ),
            Self::Never => write!(formatter, "this time never comes"),
            Self::Past { read_as } => write!(formatter, "this time is over; it was read as {read_as}"),
            Self::TooFar => write!(formatter, "this time lies too far ahead"),
        }
    }
}

impl std::error::Error for ScheduleError {}

fn listed(phrases: &[&str]) -> String {
    let quoted: Vec<String> = phrases.iter().map(|phrase| format!("`{phrase}`")).collect();
    quoted.join(", ")
}
