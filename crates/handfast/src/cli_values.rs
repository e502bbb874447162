//! Parsers for times, ids and kinds of effects on the command line.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use jiff::Timestamp;
use policy::EffectKind;
use tool::Clock;

/// A moment: a timestamp, or a duration before now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    At(Timestamp),
    Ago(Duration),
}

impl Moment {
    /// Returns the moment according to this clock.
    ///
    /// # Errors
    /// If the moment is earlier than the earliest representable time.
    pub(crate) fn by(self, clock: &dyn Clock) -> Result<Timestamp, jiff::Error> {
        match self {
            Self::At(time) => Ok(time),
            Self::Ago(ago) => clock.now().checked_sub(ago),
        }
    }
}

/// Start of an undo of several calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Since {
    Time(Moment),
    Call(String),
}

/// Description of the time format, for errors.
const TIMES: &str = "a time is 2026-11-23T17:05:00Z (RFC 3339), or 30m, 8h or 7d ago";

/// Minimum number of digits in an id. The first digits of an id encode its time, so a shorter
/// prefix matches many calls.
const DIGITS_OF_TIME: usize = 12;

/// Parses a duration.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let units = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400)];
    let unit = units.into_iter().find(|(letter, _)| text.ends_with(*letter));
    let parsed = unit.and_then(|(letter, seconds)| {
        let count: u64 = text.strip_suffix(letter)?.parse().ok()?;
        count.checked_mul(seconds)
    });
    parsed
        .map(Duration::from_secs)
        .ok_or_else(|| format!("`{text}` is not a duration such as 90s, 30m, 8h or 7d"))
}

/// Default address of `up`.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7411);

/// Parses the address to listen on: `ADDR:PORT`, `PORT`, `:PORT` or `ADDR`. `localhost` is this
/// machine's loopback address.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let wrong = || {
        format!(
            "`{}` is not an address to listen on; write an address, a port or both, such as \
             127.0.0.1:7411, 7411, 0.0.0.0 or [::1]:7411",
            tool::visible(text)
        )
    };
    let ip = |host: &str| match host {
        "" | "localhost" => Some(LISTEN.ip()),
        _ => host.trim_start_matches('[').trim_end_matches(']').parse().ok(),
    };
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::new(LISTEN.ip(), port));
    }
    if let Some(ip) = ip(text).filter(|_| !text.is_empty()) {
        return Ok(SocketAddr::new(ip, LISTEN.port()));
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().map_err(|_| wrong())?;
    ip(host).map(|ip| SocketAddr::new(ip, port)).ok_or_else(wrong)
}

/// Parses a moment.
pub(crate) fn moment(text: &str) -> Result<Moment, String> {
    match (text.parse(), time(text)) {
        (Ok(at), _) => Ok(Moment::At(at)),
        (Err(_), Ok(ago)) => Ok(Moment::Ago(ago)),
        (Err(_), Err(_)) => Err(format!("`{text}` is not a time: {TIMES}")),
    }
}

/// Parses a moment or the id of a call.
pub(crate) fn since(text: &str) -> Result<Since, String> {
    let is_id = text.len() >= DIGITS_OF_TIME && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match moment(text) {
        Ok(moment) => Ok(Since::Time(moment)),
        Err(_) if is_id => Ok(Since::Call(text.to_owned())),
        Err(_) => Err(format!(
            "`{text}` is neither a time nor the id of a call: {TIMES}; an id has 22 hexadecimal \
             digits, of which at least {DIGITS_OF_TIME} are needed"
        )),
    }
}

/// Parses an id or the first part of one. An empty id is refused, because it would match everything.
pub(crate) fn id(text: &str) -> Result<String, String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !text.is_empty() && text.bytes().all(is_part) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{}` is not an id: an id consists of digits and letters, such as 019b2c3d4e5f60718293a4, \
         or is the first part of one, as `list` shows it",
        tool::visible(text)
    ))
}

/// Parses a kind of effects.
pub(crate) fn permission(text: &str) -> Result<EffectKind, String> {
    let named = EffectKind::ALL.into_iter().find(|kind| kind.as_str() == text);
    named.ok_or_else(|| {
        format!("`{text}` is not one of {}", EffectKind::ALL.map(EffectKind::as_str).join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_to_listen_at_is_an_address_a_port_or_both() {
        for (text, expected) in [
            ("127.0.0.1:9000", "127.0.0.1:9000"),
            ("7412", "127.0.0.1:7412"),
            (":7412", "127.0.0.1:7412"),
            ("0", "127.0.0.1:0"),
            ("localhost:9000", "127.0.0.1:9000"),
            ("localhost", "127.0.0.1:7411"),
            ("0.0.0.0", "0.0.0.0:7411"),
            ("[::1]:80", "[::1]:80"),
            ("::1", "[::1]:7411"),
            ("[::]", "[::]:7411"),
        ] {
            assert_eq!(listen(text).map(|address| address.to_string()).as_deref(), Ok(expected), "{text}");
        }
        for wrong in ["", "example.com:80", "localhost:", "localhost:http", "65536", "1.2.3:80", "a b", "-1"]
        {
            assert!(listen(wrong).unwrap_err().contains("such as 127.0.0.1:7411, 7411"), "{wrong}");
        }
    }

    #[test]
    fn a_time_and_an_id_are_told_from_what_is_neither() {
        assert_eq!(since("30m"), Ok(Since::Time(Moment::Ago(Duration::from_mins(30)))));
        assert!(matches!(since("2026-11-23T17:05:00Z"), Ok(Since::Time(Moment::At(_)))));
        assert_eq!(since("019b2c3d4e5f"), Ok(Since::Call("019b2c3d4e5f".to_owned())));
        for neither in ["", "yesterday", "10", "10 minutes", "0", "2026-11-23", "abc", "-1h", "1e3m", " 30m"]
        {
            let error = since(neither).unwrap_err();
            assert!(
                error.contains("30m, 8h or 7d ago") && error.contains("22 hexadecimal digits"),
                "{error}"
            );
            assert!(moment(neither).is_err(), "{neither}");
        }
        for no_id in ["", " ", "*", "a b", "../x", "a/b", "\u{202e}"] {
            assert!(id(no_id).unwrap_err().contains("is not an id"), "{no_id}");
        }
        assert_eq!(id("a019b2c3d4e5fc"), Ok("a019b2c3d4e5fc".to_owned()));
    }
}
