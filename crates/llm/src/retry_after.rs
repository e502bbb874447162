//! Time after which a server wants to be asked again.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;

/// Reads the headers `retry-after-ms` (`OpenAI`) and `retry-after`: a number of seconds, or a date. A date is
/// compared with the server's own `date`, so that no clock of this machine is needed, which may be wrong or
/// jump. What cannot be read counts as not given.
pub(crate) fn of_headers<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<Duration> {
    let milliseconds = header("retry-after-ms").and_then(|value| value.trim().parse().ok());
    if let Some(milliseconds) = milliseconds {
        return Some(Duration::from_millis(milliseconds));
    }
    let value = header("retry-after")?.trim();
    if let Some(time) = seconds(value) {
        return Some(time);
    }
    let (until, now) = (date(value)?, date(header("date")?.trim())?);
    Some(Duration::try_from(until.duration_since(now)).unwrap_or_default())
}

/// Reads a time such as `48s` or `8.94s`, as Google writes it.
pub(crate) fn of_google(text: &str) -> Option<Duration> {
    seconds(text.strip_suffix('s')?)
}

/// Reads seconds with or without a part. Anything but digits and a point is refused, and so is a number that
/// no duration can hold.
fn seconds(text: &str) -> Option<Duration> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(part) {
        return None;
    }
    let nanoseconds = format!("{:0<9}", part.get(..9).unwrap_or(part)).parse().ok()?;
    Some(Duration::new(whole.parse().ok()?, nanoseconds))
}

fn date(text: &str) -> Option<Timestamp> {
    rfc2822::parse(text).ok().map(|date| date.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&str, &'static str)]) -> Option<Duration> {
        of_headers(|name| headers.iter().find(|(own, _)| *own == name).map(|(_, value)| *value))
    }

    #[test]
    fn seconds_milliseconds_and_dates_are_read() {
        assert_eq!(read(&[("retry-after", "30")]), Some(Duration::from_secs(30)));
        assert_eq!(read(&[("retry-after", "1.5")]), Some(Duration::from_millis(1_500)));
        assert_eq!(
            read(&[("retry-after", "9"), ("retry-after-ms", "250")]),
            Some(Duration::from_millis(250))
        );
        let until = ("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT");
        assert_eq!(read(&[until, ("date", "Fri, 31 Dec 1999 23:59:29 GMT")]), Some(Duration::from_secs(30)));
        assert_eq!(read(&[until, ("date", "Sat, 01 Jan 2000 10:00:00 GMT")]), Some(Duration::ZERO));
        assert_eq!(of_google("8.941621227s"), Some(Duration::new(8, 941_621_227)));
    }

    #[test]
    fn nonsense_counts_as_not_given() {
        for value in ["", "-1", "soon", "1e9", "99999999999999999999", ".5", "NaN", "Fri, 31 Dec 1999"] {
            assert_eq!(
                read(&[("retry-after", value), ("date", "Fri, 31 Dec 1999 23:59:29 GMT")]),
                None,
                "{value}"
            );
        }
        assert_eq!(read(&[("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT")]), None);
        assert_eq!(of_google("48"), None);
    }
}
