//! The grammar of a request.
//!
//! ```text
//! TASK REQ:exec IN:SHELL OUT:EXEC_RESULT
//! COMMAND "npm test"
//! TIMEOUT_MS 30000
//! WORKING_DIR /path/to/project
//! ```
//!
//! In the source's short form the command stands in the first line: `TASK REQ:exec npm test
//! IN:SHELL OUT:EXEC_RESULT`. A value in double quotes is a JSON string. A value without quotes may
//! only contain the characters that [`is_plain`] accepts; one of `browser` or `cron` may contain any.

use crate::value::is_plain;

/// A request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Identifier that the answer repeats.
    pub(crate) id: Option<String>,
    /// True if the answer may come from the cache.
    pub(crate) cache: bool,
    /// Requested operation.
    pub(crate) task: Task,
}

/// A requested operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Run a command.
    Exec {
        /// Command line for the shell.
        command: String,
        /// Timeout in milliseconds.
        timeout: Option<u64>,
        /// Working directory.
        folder: Option<String>,
    },
    /// Carry out the action of an operation with several: `browser` or `cron`.
    Act {
        /// Name of the operation.
        operation: &'static str,
        /// The keys of the request, with their values.
        keys: Vec<(&'static str, String)>,
    },
    /// Call a tool of an MCP server.
    Mcp {
        /// Name of the server.
        server: String,
        /// Name of the tool at the server; empty if the request has none.
        tool: String,
        /// Arguments of the tool, as JSON, if the request has any.
        params: Option<String>,
    },
    /// Another operation of the protocol, by its name.
    Other(&'static str),
}

/// The reason why a request cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Identifier of the request, if it could be read.
    pub(crate) id: Option<String>,
    /// Line number, counted from 1.
    line: usize,
    /// Character within the line, counted from 1.
    column: usize,
    problem: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "line {}, column {}: {}", self.line, self.column, self.problem)
    }
}

/// An operation of the source: its name, the words after `IN:` and `OUT:`, and its keys.
struct Operation {
    name: &'static str,
    takes: &'static str,
    gives: &'static str,
    keys: &'static [&'static str],
}

const OPERATIONS: [Operation; 6] = [
    Operation {
        name: "exec",
        takes: "SHELL",
        gives: "EXEC_RESULT",
        keys: &["COMMAND", "TIMEOUT_MS", "WORKING_DIR"],
    },
    Operation {
        name: "browser",
        takes: "TOOL",
        gives: "BROWSER_RESULT",
        keys: &["ACTION", "TARGET_URL", "SELECTOR", "VALUE"],
    },
    Operation {
        name: "canvas",
        takes: "TOOL",
        gives: "CANVAS_RESULT",
        keys: &["ACTION", "URL", "WIDTH", "HEIGHT"],
    },
    Operation {
        name: "cron",
        takes: "TOOL",
        gives: "CRON_RESULT",
        keys: &["ACTION", "JOB_ID", "SCHEDULE", "TASK_DESCRIPTION"],
    },
    Operation { name: "node", takes: "TOOL", gives: "NODE_RESULT", keys: &["ACTION", "NODE", "PARAMS"] },
    Operation { name: "mcp", takes: "TOOL", gives: "MCP_RESULT", keys: &["SERVER", "TOOL", "PARAMS"] },
];

/// Keys that every request may have.
const EVERYWHERE: [&str; 2] = ["ID", "CACHE"];

/// Maximum number of characters in an `ID`.
const LONGEST_ID: usize = 200;

/// Parses a request from its lines.
pub(crate) fn parse(bytes: &[u8]) -> Result<Request, Fault> {
    read(bytes).map_err(|fault| Fault { id: id_of(bytes), ..fault })
}

/// Returns the `ID` of a request, even if the rest of the request cannot be read.
pub(crate) fn id_of(bytes: &[u8]) -> Option<String> {
    bytes.split(|byte| *byte == b'\n').find_map(|line| {
        let line = Line::read(0, line).ok()?;
        line.text.starts_with("ID ").then(|| line.id(3).ok()).flatten()
    })
}

fn read(bytes: &[u8]) -> Result<Request, Fault> {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let mut lines = bytes.split(|byte| *byte == b'\n').enumerate();
    let first = Line::read(1, lines.next().map_or(&[][..], |(_, line)| line))?;
    let (operation, inline) = first.task()?;
    let mut values: Vec<(&str, Line<'_>, usize)> = Vec::new();
    for (index, line) in lines {
        let line = Line::read(index + 1, line)?;
        let key = line.key()?;
        if !operation.keys.iter().chain(&EVERYWHERE).any(|known| *known == key) {
            let known = [operation.keys, &EVERYWHERE].concat().join(", ");
            return Err(line.fault(0, format!("{} has no key {key}; its keys are {known}", operation.name)));
        }
        if let Some((_, before, _)) = values.iter().find(|(other, ..)| *other == key) {
            return Err(line.fault(0, format!("{key} stands in line {} already", before.number)));
        }
        values.push((key, line, key.len() + 1));
    }
    let of = |key: &str| values.iter().find(|(other, ..)| *other == key).map(|(_, line, at)| (line, *at));
    let id = of("ID").map(|(line, at)| line.id(at)).transpose()?;
    let cache = of("CACHE").map(|(line, at)| line.switch(at)).transpose()?.unwrap_or(false);
    let task = match operation.name {
        "exec" => {
            let command = match (inline, of("COMMAND")) {
                (Some(_), Some((line, _))) => {
                    return Err(line.fault(0, "the command stands in line 1 already".to_owned()));
                }
                (Some(inline), None) => inline,
                (None, Some((line, at))) => line.value(at)?,
                (None, None) => return Err(first.fault(first.text.len(), "COMMAND is missing".to_owned())),
            };
            let timeout = of("TIMEOUT_MS").map(|(line, at)| line.milliseconds(at)).transpose()?;
            let folder = of("WORKING_DIR").map(|(line, at)| line.value(at)).transpose()?;
            Task::Exec { command, timeout, folder }
        }
        "browser" | "cron" => {
            let of_key =
                |key: &'static str| Some(of(key)?.0.loose_value(key.len() + 1).map(|value| (key, value)));
            Task::Act {
                operation: operation.name,
                keys: operation.keys.iter().copied().filter_map(of_key).collect::<Result<_, _>>()?,
            }
        }
        "mcp" => match of("SERVER") {
            Some((line, at)) => {
                let other = |key: &str| of(key).map(|(line, at)| line.loose_value(at)).transpose();
                let (tool, params) = (other("TOOL")?.unwrap_or_default(), other("PARAMS")?);
                Task::Mcp { server: line.loose_value(at)?, tool, params }
            }
            None => return Err(first.fault(first.text.len(), "SERVER is missing".to_owned())),
        },
        name => Task::Other(name),
    };
    Ok(Request { id, cache, task })
}

/// One line, without its line ending.
struct Line<'a> {
    number: usize,
    text: &'a str,
}

impl<'a> Line<'a> {
    fn read(number: usize, bytes: &'a [u8]) -> Result<Self, Fault> {
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
                return Err(Line { number, text: valid }.fault(valid.len(), "this is not UTF-8".to_owned()));
            }
        };
        let line = Self { number, text };
        match text.char_indices().find(|(_, character)| character.is_control()) {
            Some((at, character)) => {
                let name = u32::from(character);
                Err(line.fault(
                    at,
                    format!("a control character (U+{name:04X}); a JSON string has escapes for them"),
                ))
            }
            None => Ok(line),
        }
    }

    /// Creates a fault at byte `at` of this line.
    fn fault(&self, at: usize, problem: String) -> Fault {
        let before = self.text.get(..at).unwrap_or(self.text);
        Fault { id: None, line: self.number, column: before.chars().count() + 1, problem }
    }

    /// Parses the `TASK` line. Returns the operation and the inline command of the short form.
    fn task(&self) -> Result<(&'static Operation, Option<String>), Fault> {
        const BEGINNING: &str = "TASK REQ:";
        let Some(rest) = self.text.strip_prefix(BEGINNING) else {
            return Err(self.fault(0, format!("a request begins with {BEGINNING} and an operation")));
        };
        let length = rest.find(' ').unwrap_or(rest.len());
        let name = &rest[..length];
        let Some(operation) = OPERATIONS.iter().find(|operation| operation.name == name) else {
            let known = OPERATIONS.map(|operation| operation.name).join(", ");
            return Err(self.fault(BEGINNING.len(), format!("the operation is none of {known}")));
        };
        let begin = BEGINNING.len() + length;
        let ending = format!(" IN:{} OUT:{}", operation.takes, operation.gives);
        let Some(middle) = self.text[begin..].strip_suffix(&ending) else {
            let at = self.text.rfind(" IN:").map_or(self.text.len(), |at| at + 1);
            return Err(self.fault(at, format!("the line of {name} ends in{ending}")));
        };
        if middle.is_empty() {
            return Ok((operation, None));
        }
        let inline = &middle[1..];
        if operation.name != "exec" {
            return Err(self.fault(begin + 1, format!("nothing stands between REQ:{name} and{ending}")));
        }
        if inline.starts_with('"') {
            let line = Line { number: self.number, text: &self.text[..begin + middle.len()] };
            return Ok((operation, Some(line.value(begin + 1)?)));
        }
        if inline.is_empty() || inline.starts_with(' ') || inline.ends_with(' ') {
            return Err(self.fault(begin + 1, "one space stands on each side of the command".to_owned()));
        }
        Ok((operation, Some(inline.to_owned())))
    }

    fn key(&self) -> Result<&'a str, Fault> {
        let length = self.text.find(' ').unwrap_or(self.text.len());
        let key = &self.text[..length];
        let is_key = key.starts_with(|first: char| first.is_ascii_uppercase())
            && key.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        if !is_key {
            return Err(self.fault(0, "a key in capitals, a space and a value are expected here".to_owned()));
        }
        if length + 1 >= self.text.len() {
            return Err(self.fault(length, format!("{key} has no value")));
        }
        Ok(key)
    }

    /// Parses the value that begins at byte `at`.
    fn value(&self, at: usize) -> Result<String, Fault> {
        let text = &self.text[at..];
        if text.starts_with('"') {
            return self.string(at);
        }
        match text.char_indices().find(|(_, character)| !is_plain(*character)) {
            None if !text.is_empty() => Ok(text.to_owned()),
            None => Err(self.fault(at, "a value is expected here".to_owned())),
            Some((bad, character)) => {
                let problem =
                    format!("`{character}` needs the value to be in double quotes, as a JSON string");
                Err(self.fault(at + bad, problem))
            }
        }
    }

    /// Parses a value that takes its whole line: a text to type, or a value of an operation that no tool
    /// implements. Without quotes, any character is accepted.
    fn loose_value(&self, at: usize) -> Result<String, Fault> {
        if self.text[at..].starts_with('"') { self.string(at) } else { Ok(self.text[at..].to_owned()) }
    }

    fn string(&self, at: usize) -> Result<String, Fault> {
        serde_json::from_str(&self.text[at..]).map_err(|error| {
            let column = at + error.column().saturating_sub(1);
            let column = (0..=column.min(self.text.len())).rev().find(|at| self.text.is_char_boundary(*at));
            self.fault(column.unwrap_or(at), "this is no JSON string that ends with its line".to_owned())
        })
    }

    fn id(&self, at: usize) -> Result<String, Fault> {
        let id = self.value(at)?;
        if id.is_empty() || id.chars().nth(LONGEST_ID).is_some() {
            return Err(self.fault(at, format!("an ID has 1 to {LONGEST_ID} characters")));
        }
        Ok(id)
    }

    fn switch(&self, at: usize) -> Result<bool, Fault> {
        match &self.text[at..] {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.fault(at, "it is true or false".to_owned())),
        }
    }

    fn milliseconds(&self, at: usize) -> Result<u64, Fault> {
        let text = &self.text[at..];
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| digits && *number > 0);
        number.ok_or_else(|| {
            self.fault(at, "a whole number of milliseconds from 1 on is expected here".to_owned())
        })
    }
}

#[cfg(test)]
mod tests;
