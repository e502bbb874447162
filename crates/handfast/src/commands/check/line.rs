//! `handfast check -- COMMAND`: the decision on a command line, in words.

use std::process::ExitCode;

use dialects::Dialect;
use engine::PolicyCheck;
use policy::Verdict;
use serde_json::{Value, json};

use super::super::{Failure, print, print_json};
use crate::compose::Composed;

/// Exit code if the command would be denied: that of `handfast call`.
const DENIED: u8 = 3;
/// Exit code if a human would be asked: that of `handfast call` without anybody to ask.
const ASKED: u8 = 4;

pub(super) fn run(composed: &Composed, words: &[String], as_json: bool) -> Result<ExitCode, Failure> {
    let line = match words {
        // One word may be a whole line: `check -- 'npm test && npm run build'`.
        [line] => line.clone(),
        words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    };
    let (tool, arguments) = call(composed.toolset.dialect, &line)?;
    let checked = composed.engine.check_for_user(tool, arguments).map_err(Failure::usage)?;
    if as_json {
        print_json(&checked)?;
    } else {
        print(&in_words(&line, &checked))?;
    }
    Ok(ExitCode::from(match checked.decision {
        Verdict::Pass => 0,
        Verdict::Deny => DENIED,
        Verdict::Check => ASKED,
    }))
}

/// Returns the call that runs this line in the dialect.
fn call(dialect: Dialect, line: &str) -> Result<(&'static str, Value), Failure> {
    let of = |tool| Ok((tool, json!({ "command": line })));
    match dialect {
        Dialect::Handfast | Dialect::Elophanto => of("shell_execute"),
        Dialect::Sage => of("Bash"),
        Dialect::Csp1 => Ok(("exec", json!({ "COMMAND": line }))),
        Dialect::Sluagh | Dialect::Msc => Err(Failure::usage(
            "the tools of this dialect run no command line; `handfast check TOOL JSON` checks one of its calls",
        )),
    }
}

fn in_words(line: &str, checked: &PolicyCheck) -> String {
    let line = tool::visible(line);
    let verdict = match checked.decision {
        Verdict::Pass => "runs without a question",
        Verdict::Check => "asks a human first",
        Verdict::Deny => "is denied",
    };
    let mut text = format!("{line}\n  {verdict}, under profile `{}`\n", tool::visible(&checked.profile));
    let mut add = |name: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("  {name}: {}\n", tool::visible(value)));
        }
    };
    if let Some(part) = &checked.part {
        add("about", part);
    }
    add("because", &checked.reason);
    add("rule", &format!("{} (line {} of 9, see docs/POLICY.md)", checked.rule, checked.line));
    if let Some(hint) = &checked.hint {
        add("to change that", hint);
    }
    for denied in &checked.denied_commands {
        add("denied commands", denied);
    }
    text
}

/// Returns a word as a shell reads it back.
pub(in crate::commands) fn quoted(word: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "_-./:=@%+,".contains(sign);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_word_stays_one_word() {
        for (word, expected) in
            [("npm", "npm"), ("a b", "'a b'"), ("", "''"), ("it's", r"'it'\''s'"), ("$HOME", "'$HOME'")]
        {
            assert_eq!(quoted(word), expected);
        }
    }
}
