//! Names of keys, with the bytes that a terminal sends for them, and names of signals.

/// Named keys with the bytes that xterm sends for them (xterm's control sequences, "PC-Style
/// Function Keys").
const NAMED: [(&str, &str); 24] = [
    ("enter", "\r"),
    ("tab", "\t"),
    ("space", " "),
    ("escape", "\x1b"),
    ("backspace", "\x7f"),
    ("delete", "\x1b[3~"),
    ("insert", "\x1b[2~"),
    ("up", "\x1b[A"),
    ("down", "\x1b[B"),
    ("right", "\x1b[C"),
    ("left", "\x1b[D"),
    ("home", "\x1b[H"),
    ("end", "\x1b[F"),
    ("page-up", "\x1b[5~"),
    ("page-down", "\x1b[6~"),
    ("shift-tab", "\x1b[Z"),
    ("f1", "\x1bOP"),
    ("f2", "\x1bOQ"),
    ("f3", "\x1bOR"),
    ("f4", "\x1bOS"),
    ("f5", "\x1b[15~"),
    ("f6", "\x1b[17~"),
    ("f7", "\x1b[18~"),
    ("f8", "\x1b[19~"),
];

/// Named signals with their numbers, which are the same on both architectures.
const SIGNALS: [(&str, u8); 16] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("WINCH", 28),
];

/// Returns the bytes that a terminal sends for a key, or `None` for an unknown key.
///
/// A key is a named one, `ctrl-` with a letter or one of `[ \ ] ^ _ @`, or `alt-` with one
/// character.
pub(crate) fn sequence(name: &str) -> Option<String> {
    let name = name.trim();
    let lower = name.to_ascii_lowercase();
    if let Some((_, sent)) = NAMED.iter().find(|(known, _)| *known == lower) {
        return Some((*sent).to_owned());
    }
    if let Some(rest) = lower.strip_prefix("ctrl-") {
        let letter = only(rest)?.to_ascii_uppercase();
        // The code of a control character is that of its letter minus 64.
        return matches!(letter, '@'..='_').then(|| char::from((letter as u8) - 64).to_string());
    }
    // Alt preserves the case of its letter.
    let character = lower.strip_prefix("alt-").and_then(|_| only(name.get(4..)?))?;
    (!character.is_control()).then(|| format!("\x1b{character}"))
}

/// Returns the number of a signal, named with or without the prefix `SIG`.
pub(crate) fn signal(name: &str) -> Option<u8> {
    let upper = name.trim().to_ascii_uppercase();
    let short = upper.strip_prefix("SIG").unwrap_or(&upper);
    SIGNALS.iter().find(|(known, _)| *known == short).map(|(_, number)| *number)
}

fn only(text: &str) -> Option<char> {
    let mut characters = text.chars();
    characters.next().filter(|_| characters.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_send_what_xterm_sends() {
        for (name, sent) in [
            ("ctrl-c", "\x03"),
            ("Ctrl-D", "\x04"),
            ("ctrl-[", "\x1b"),
            ("ctrl-\\", "\x1c"),
            ("enter", "\r"),
            ("up", "\x1b[A"),
            ("alt-B", "\x1bB"),
            ("f8", "\x1b[19~"),
        ] {
            assert_eq!(sequence(name).as_deref(), Some(sent), "{name}");
        }
    }

    #[test]
    fn signals_are_known_with_and_without_their_prefix() {
        assert_eq!(
            [signal("TERM"), signal(" sigint"), signal("SIG"), signal("9")],
            [Some(15), Some(2), None, None]
        );
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for name in ["", "ctrl-", "ctrl-cc", "ctrl-1", "alt-", "alt-\n", "alt-ab", "return", "ctrl-é"] {
            assert_eq!(sequence(name), None, "{name:?}");
        }
    }
}
