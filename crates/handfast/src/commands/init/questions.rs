//! The five questions of `handfast init`, and the settings that follow from the answers.

use std::io::{self, BufRead};

use policy::BUILT_IN_DENIED_READS;
use serde_json::json;

use crate::report::note;

/// Answers of the user. An empty answer leaves a setting as it is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    allowed_commands: Vec<String>,
    denied_commands: Vec<String>,
    hosts: Vec<String>,
    denied_reads: Vec<String>,
    asking: QuestionFrequency,
}

/// Answer to the question about when a human is asked.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum QuestionFrequency {
    /// The built-in value.
    #[default]
    AsBuiltIn,
    /// About every change.
    Changes,
    /// About every call.
    Everything,
}

/// Asks the five questions on standard error.
///
/// # Errors
/// If the input cannot be read.
pub(super) fn ask(input: &mut impl BufRead) -> io::Result<Answers> {
    note("Five questions; Enter leaves the built-in value. Lists are separated by commas.");
    let allowed_commands =
        list(input, "1. Which commands may always run without a question? (npm test, cargo build)")?;
    let denied_commands = list(input, "2. Which commands must never run? (git push, terraform apply)")?;
    let hosts = list(input, "3. Which hosts may be reached without a question? (docs.rs, *.example.org)")?;
    let denied_reads =
        list(input, "4. Which files must no call read, besides .env, *.pem, *.key and .netrc? (secrets/)")?;
    let asking = loop {
        let typed = line(
            input,
            "5. When should a human be asked? 1: only if something cannot be undone (built-in), \
             2: about every change, 3: about every call",
        )?;
        match typed.as_str() {
            "" | "1" => break QuestionFrequency::AsBuiltIn,
            "2" => break QuestionFrequency::Changes,
            "3" => break QuestionFrequency::Everything,
            _ => note("type 1, 2 or 3"),
        }
    };
    Ok(Answers { allowed_commands, denied_commands, hosts, denied_reads, asking })
}

fn list(input: &mut impl BufRead, question: &str) -> io::Result<Vec<String>> {
    let typed = line(input, question)?;
    Ok(typed.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect())
}

/// Returns the next line without the spaces around it. The end of the input is an empty answer.
fn line(input: &mut impl BufRead, question: &str) -> io::Result<String> {
    note(question);
    let mut typed = String::new();
    input.read_line(&mut typed)?;
    Ok(typed.trim().to_owned())
}

impl Answers {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the settings as YAML: one key for each answer, and no other key.
    pub(super) fn as_settings(&self) -> String {
        let mut denied_reads = Vec::new();
        if !self.denied_reads.is_empty() {
            // A list that a profile names replaces the built-in one.
            denied_reads.extend(BUILT_IN_DENIED_READS.map(str::to_owned));
            denied_reads.extend(self.denied_reads.clone());
        }
        let lists = [
            ("allowed_exec_command", &self.allowed_commands),
            ("deny_exec_command", &self.denied_commands),
            ("allowed_hosts", &self.hosts),
            ("deny_read_paths", &denied_reads),
        ];
        let mut profile = String::new();
        for (key, entries) in lists.into_iter().filter(|(_, entries)| !entries.is_empty()) {
            // A list in JSON is also one in YAML, with every entry quoted.
            profile.push_str(&format!("    {key}: {}\n", json!(entries)));
        }
        if self.asking == QuestionFrequency::Changes {
            profile.push_str("    undoable: table\n");
        }
        let mut text = String::new();
        if self.asking == QuestionFrequency::Everything {
            text.push_str("mode: ask_always\n");
        }
        if !profile.is_empty() {
            text.push_str(&format!("sandbox_config:\n  normal:\n{profile}"));
        }
        text
    }
}
