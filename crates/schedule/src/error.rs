//! Errors of a schedule that cannot be read, each with what would be understood.

/// A reason why a text is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The text is empty, or longer than a schedule can be.
    #[error("a schedule has 1 to 200 characters")]
    Length,
    /// A word that the grammar does not have at its place, with phrases that it does have.
    #[error("`{word}` is not understood here; known are {}", listed(near))]
    Word {
        /// The word.
        word: String,
        /// Phrases that are near to the text.
        near: Vec<&'static str>,
    },
    /// The text ends where something must follow.
    #[error("{wanted} must follow, as in {}", listed(near))]
    Ends {
        /// The word that must follow, in a description.
        wanted: &'static str,
        /// Phrases that are near to the text.
        near: Vec<&'static str>,
    },
    /// A number outside of its bounds.
    #[error("{number} is not {bounds}")]
    Number {
        /// The number, as it was written.
        number: String,
        /// Description of the numbers that would fit.
        bounds: String,
    },
    /// An interval of seconds, or of days and weeks.
    #[error(
        "{interval} are no interval of minutes or hours; for longer ones name the days, as in `every monday at 9am`"
    )]
    Unit {
        /// The interval, as it was written.
        interval: String,
    },
    /// Several times of the day that no cron line has together.
    #[error("{times} differ in hour and minute, which one schedule cannot have; make one for each")]
    Times {
        /// The times.
        times: String,
    },
    /// An interval that does not divide its hour or day, so its instants would not be evenly spaced.
    #[error("{interval} do not divide their hour or day, so the times would not be even; {near} do")]
    Uneven {
        /// The interval, as it was written.
        interval: String,
        /// Intervals beside it that divide.
        near: String,
    },
    /// A cron line that cannot be read.
    #[error(
        "the cron line cannot be read: {reason}; its five fields are minute, hour, day of the month, month and day of the week, as in `0 9 * * 1-5`"
    )]
    Cron {
        /// Reason.
        reason: String,
    },
    /// A cron line with a field for seconds.
    #[error(
        "a cron line has five fields: minute, hour, day of the month, month, day of the week; seconds and years are not supported, so leave them out"
    )]
    Seconds,
    /// A schedule that never comes about, such as February 30.
    #[error("this time never comes; name a day that its month has")]
    Never,
    /// A single instant that is over.
    #[error("this time is over; it was read as {read_as}: name a later one")]
    Past {
        /// The instant as it was read.
        read_as: String,
    },
    /// A time zone that this machine does not know.
    #[error("the time zone {name} is not known on this machine")]
    Zone {
        /// Name of the zone.
        name: String,
    },
    /// An instant that lies too far ahead to be told.
    #[error("this time lies too far ahead; a single time lies within the next ten years")]
    TooFar,
}

fn listed(phrases: &[&str]) -> String {
    let quoted: Vec<String> = phrases.iter().map(|phrase| format!("`{phrase}`")).collect();
    quoted.join(", ")
}
