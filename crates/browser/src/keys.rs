//! Keys of a keyboard, as an agent writes them: `Enter`, `Control+A`, `Shift+Tab`.

use cdp::protocol::input::{DispatchKeyEvent, KeyEventKind};

/// Bit of the alt key, as the protocol has it.
const ALT: u8 = 1;
/// Bit of the control key.
const CONTROL: u8 = 2;
/// Bit of the meta key.
const META: u8 = 4;
/// Bit of the shift key.
const SHIFT: u8 = 8;

/// Keys with names: name, code, number on Windows, text that it types.
const NAMED: [(&str, &str, u16, &str); 28] = [
    ("Enter", "Enter", 13, "\r"),
    ("Tab", "Tab", 9, ""),
    ("Escape", "Escape", 27, ""),
    ("Backspace", "Backspace", 8, ""),
    ("Delete", "Delete", 46, ""),
    ("Insert", "Insert", 45, ""),
    ("Space", "Space", 32, " "),
    ("ArrowUp", "ArrowUp", 38, ""),
    ("ArrowDown", "ArrowDown", 40, ""),
    ("ArrowLeft", "ArrowLeft", 37, ""),
    ("ArrowRight", "ArrowRight", 39, ""),
    ("Home", "Home", 36, ""),
    ("End", "End", 35, ""),
    ("PageUp", "PageUp", 33, ""),
    ("PageDown", "PageDown", 34, ""),
    ("ContextMenu", "ContextMenu", 93, ""),
    ("F1", "F1", 112, ""),
    ("F2", "F2", 113, ""),
    ("F3", "F3", 114, ""),
    ("F4", "F4", 115, ""),
    ("F5", "F5", 116, ""),
    ("F6", "F6", 117, ""),
    ("F7", "F7", 118, ""),
    ("F8", "F8", 119, ""),
    ("F9", "F9", 120, ""),
    ("F10", "F10", 121, ""),
    ("F11", "F11", 122, ""),
    ("F12", "F12", 123, ""),
];

/// Commands of an editor that go with keys. The browser runs them only if they are sent along.
const COMMANDS: [(u8, &str, &str); 6] = [
    (CONTROL, "a", "selectAll"),
    (CONTROL, "c", "copy"),
    (CONTROL, "v", "paste"),
    (CONTROL, "x", "cut"),
    (CONTROL, "z", "undo"),
    (CONTROL | SHIFT, "z", "redo"),
];

/// A key with the keys that are held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPress {
    modifiers: u8,
    key: String,
    code: String,
    number: u16,
    text: String,
}

/// Error for a text that names no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no key is called \"{name}\"; keys are single characters, Enter, Tab, Escape, Backspace, Delete, Space, \
     ArrowUp, ArrowDown, ArrowLeft, ArrowRight, Home, End, PageUp, PageDown, F1 to F12, with Control+, \
     Shift+, Alt+ or Meta+ before"
)]
pub struct UnknownKey {
    name: String,
}

impl KeyPress {
    /// Reads a key.
    ///
    /// # Errors
    /// [`UnknownKey`] names the part that is no key.
    pub fn parse(text: &str) -> Result<Self, UnknownKey> {
        let unknown =
            |name: &str| UnknownKey { name: name.chars().filter(|c| !c.is_control()).take(40).collect() };
        let mut modifiers = 0;
        let mut rest = text.trim();
        // A plus sign at the end is the key itself.
        while let Some((word, after)) =
            rest.split_once('+').filter(|(word, after)| !word.is_empty() && !after.is_empty())
        {
            modifiers |= match word.to_ascii_lowercase().as_str() {
                "control" | "ctrl" => CONTROL,
                "shift" => SHIFT,
                "alt" => ALT,
                "meta" | "command" => META,
                _ => return Err(unknown(word)),
            };
            rest = after;
        }
        if let Some((name, code, number, typed)) =
            NAMED.iter().find(|(name, ..)| name.eq_ignore_ascii_case(rest))
        {
            let key = if *name == "Space" { " " } else { name };
            return Ok(Self::new(modifiers, key, code, *number, typed));
        }
        let mut characters = rest.chars();
        match (characters.next(), characters.next()) {
            (Some(character), None) if !character.is_control() => Ok(Self::character(modifiers, character)),
            _ => Err(unknown(rest)),
        }
    }

    /// Returns the name of the key, without those that are held.
    pub fn name(&self) -> &str {
        &self.key
    }

    /// Returns true if the key is Enter, which submits the form of a field.
    pub fn is_enter(&self) -> bool {
        self.key == "Enter"
    }

    fn new(modifiers: u8, key: &str, code: &str, number: u16, typed: &str) -> Self {
        let is_typed = modifiers & !SHIFT == 0;
        let text = if is_typed { typed.to_owned() } else { String::new() };
        Self { modifiers, key: key.to_owned(), code: code.to_owned(), number, text }
    }

    fn character(modifiers: u8, character: char) -> Self {
        let shifted = if modifiers & SHIFT > 0 { character.to_ascii_uppercase() } else { character };
        let upper = character.to_ascii_uppercase();
        let (code, number) = match upper {
            'A'..='Z' => (format!("Key{upper}"), u16::try_from(u32::from(upper)).unwrap_or(0)),
            '0'..='9' => (format!("Digit{upper}"), u16::try_from(u32::from(upper)).unwrap_or(0)),
            _ => (String::new(), 0),
        };
        Self::new(modifiers, &shifted.to_string(), &code, number, &shifted.to_string())
    }

    /// Returns the events of a press and a release.
    pub(crate) fn events(&self) -> [DispatchKeyEvent; 2] {
        let command = COMMANDS
            .iter()
            .find(|(held, key, _)| *held == self.modifiers && self.key.eq_ignore_ascii_case(key));
        let down = DispatchKeyEvent {
            kind: if self.text.is_empty() { KeyEventKind::RawKeyDown } else { KeyEventKind::KeyDown },
            modifiers: self.modifiers,
            text: (!self.text.is_empty()).then(|| self.text.clone()),
            key: Some(self.key.clone()),
            code: Some(self.code.clone()),
            windows_virtual_key_code: Some(self.number),
            commands: command.map(|(.., name)| (*name).to_owned()).into_iter().collect(),
        };
        let up =
            DispatchKeyEvent { kind: KeyEventKind::KeyUp, text: None, commands: Vec::new(), ..down.clone() };
        [down, up]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_keys_and_characters_are_read() {
        let enter = KeyPress::parse("enter").unwrap();
        assert!(enter.is_enter());
        assert_eq!(enter.text, "\r");
        let a = KeyPress::parse("a").unwrap();
        assert_eq!((a.key.as_str(), a.code.as_str(), a.number, a.text.as_str()), ("a", "KeyA", 65, "a"));
        assert_eq!(KeyPress::parse("+").unwrap().text, "+");
        assert_eq!(KeyPress::parse("é").unwrap().text, "é");
    }

    #[test]
    fn held_keys_type_nothing_but_shift_does() {
        let all = KeyPress::parse("Ctrl+A").unwrap();
        assert_eq!((all.modifiers, all.text.as_str()), (CONTROL, ""));
        assert_eq!(all.events()[0].commands, ["selectAll"]);
        let upper = KeyPress::parse("Shift+a").unwrap();
        assert_eq!((upper.modifiers, upper.text.as_str()), (SHIFT, "A"));
        assert_eq!(KeyPress::parse("Control++").unwrap().key, "+");
    }

    #[test]
    fn what_is_no_key_is_named() {
        for (text, part) in [("Entr", "Entr"), ("Hyper+A", "Hyper"), ("", ""), ("Control+Nope", "Nope")] {
            assert_eq!(KeyPress::parse(text).unwrap_err().name, part);
        }
    }
}
