//! The commands of this program as users type them, in messages that name commands.

use std::borrow::Cow;
use std::path::Path;

/// Subcommands that work on the state of a runtime. Without its folder they would find another
/// state.
const OF_STATE: [&str; 24] = [
    "add",
    "agents",
    "approvals",
    "audit",
    "browser pair",
    "browser unpair",
    "call",
    "changes",
    "chat",
    "check",
    "checkpoints",
    "graph",
    "login",
    "logout",
    "packages",
    "plugin",
    "policy",
    "remove",
    "run",
    "setup embeddings",
    "trust",
    "undo",
    "update",
    "vault",
];

/// Beginning of a command that reaches the state of this runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// State folder as one word of a shell. `None` if it is the folder that is found without being
    /// named.
    state: Option<String>,
}

impl Program {
    /// Returns the program for a state folder that has to be named.
    pub fn with_state(folder: &Path) -> Self {
        Self { state: Some(word(&tool::path_text(folder))) }
    }

    /// Returns the whole command with these words.
    pub fn command(&self, words: &str) -> String {
        match &self.state {
            Some(state) => format!("handfast --state {state} {words}"),
            None => format!("handfast {words}"),
        }
    }

    /// Adds the state folder to every command of a text that stands in backquotes.
    pub fn put_into<'a>(&self, text: &'a str) -> Cow<'a, str> {
        const COMMAND: &str = "`handfast ";
        let Some(state) = &self.state else { return text.into() };
        let mut parts = text.split(COMMAND);
        let mut put = parts.next().unwrap_or_default().to_owned();
        for rest in parts {
            put.push_str(COMMAND);
            let is_named = |command: &&str| {
                rest.strip_prefix(*command).is_some_and(|after| !after.starts_with(char::is_alphanumeric))
            };
            if OF_STATE.iter().any(is_named) {
                put.push_str(&format!("--state {state} "));
            }
            put.push_str(rest);
        }
        put.into()
    }
}

/// Quotes the text as one word of a shell.
fn word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+@:,%".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_the_state_folder_where_it_is_not_the_usual_one() {
        let text = "`handfast approvals approve a1`, `handfast undo 3`; `handfast tools`, `handfast checkup` and handfast trust";
        assert_eq!(Program::default().put_into(text), text);
        let program = Program::with_state(Path::new("/s"));
        assert_eq!(
            program.put_into(text),
            "`handfast --state /s approvals approve a1`, `handfast --state /s undo 3`; `handfast tools`, \
             `handfast checkup` and handfast trust"
        );
        let quoted = Program::with_state(Path::new("/it's here"));
        assert_eq!(quoted.command("undo 3"), r"handfast --state '/it'\''s here' undo 3");
        assert_eq!(program.put_into(&program.put_into(text)), program.put_into(text), "named once");
    }
}
