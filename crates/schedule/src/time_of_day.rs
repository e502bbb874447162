//! Times of the day as people write them.

use jiff::civil::Time;

use crate::error::ScheduleError;
use crate::words::Words;

/// Takes a time: `9am`, `9:30 pm`, `15:30`, `noon`, `midnight`. A preceding `at` is taken too.
///
/// # Errors
/// [`ScheduleError::Ends`] if no word is left, [`ScheduleError::Word`] or [`ScheduleError::Number`] if the
/// next one is no time.
pub(crate) fn take(words: &mut Words<'_>) -> Result<Time, ScheduleError> {
    words.take_any(&["at"]);
    let word = words.need("a time such as 9am or 15:30")?;
    if word == "noon" {
        return Ok(Time::midnight().with().hour(12).build().unwrap_or(Time::midnight()));
    }
    if word == "midnight" {
        return Ok(Time::midnight());
    }
    let (digits, half) = match word.find(|letter: char| !letter.is_ascii_digit() && letter != ':') {
        Some(at) => word.split_at(at),
        None => (word.as_str(), ""),
    };
    let mut half = half.to_owned();
    if half.is_empty()
        && let Some(next) = words.peek().filter(|next| is_half(next))
    {
        next.clone_into(&mut half);
        words.take();
    }
    let (hour, minute) = digits.split_once(':').unwrap_or((digits, ""));
    let has_minute = digits.contains(':');
    let is_number = |text: &str, longest: usize| {
        !text.is_empty() && text.len() <= longest && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_written = is_number(hour, 2) && (!has_minute || (is_number(minute, 2) && minute.len() == 2));
    if !is_written || (!half.is_empty() && !is_half(&half)) {
        return Err(words.unknown(&word));
    }
    // `at 9` may be morning or evening.
    if half.is_empty() && !has_minute {
        let bounds = "a time: write 9am, 9pm or 9:00".to_owned();
        return Err(ScheduleError::Number { number: word, bounds });
    }
    let wrong = |bounds: &str| ScheduleError::Number { number: word.clone(), bounds: bounds.to_owned() };
    let (Ok(hour), Ok(minute)) = (hour.parse::<i8>(), if has_minute { minute.parse::<i8>() } else { Ok(0) })
    else {
        return Err(words.unknown(&word));
    };
    let hour = match half.trim_matches('.').replace('.', "").as_str() {
        "" if (0..=23).contains(&hour) => hour,
        "" => return Err(wrong("a time from 0:00 to 23:59")),
        _ if !(1..=12).contains(&hour) => return Err(wrong("a time from 1am to 12pm")),
        "am" => hour % 12,
        _ => hour % 12 + 12,
    };
    Time::new(hour, minute, 0, 0).map_err(|_| wrong("a time from 0:00 to 23:59"))
}

fn is_half(text: &str) -> bool {
    matches!(text, "am" | "pm" | "a.m." | "p.m.")
}

/// Returns a time as canonical texts have it: `09:00`.
pub(crate) fn shown(time: Time) -> String {
    format!("{:02}:{:02}", time.hour(), time.minute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them_and_doubtful_ones_are_refused() {
        for (text, read) in [
            ("9am", "09:00"),
            ("9:30 pm", "21:30"),
            ("at 15:30", "15:30"),
            ("12am", "00:00"),
            ("12pm", "12:00"),
            ("noon", "12:00"),
            ("midnight", "00:00"),
            ("7 a.m.", "07:00"),
            ("00:05", "00:05"),
        ] {
            assert_eq!(take(&mut Words::of(text)).map(shown).as_deref(), Ok(read), "{text}");
        }
        for text in ["", "at", "9", "25:00", "9:7", "13pm", "0am", "9:60", "9xm", "soon", "9:30:10", "-9am"] {
            assert!(take(&mut Words::of(text)).is_err(), "{text}");
        }
    }
}
