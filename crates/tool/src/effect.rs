//! The effects that a call would have, on which the policy decides.

use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};

/// One effect that a call would have on the world.
///
/// The plan of a tool is a list of effects, and the policy decides on nothing else. Paths are
/// absolute and lexically normal (no `.`, no `..`); the engine adds the paths to which links lead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Reads a file, or a folder and everything below it.
    Read {
        /// Path that is read.
        #[serde(serialize_with = "as_text")]
        path: PathBuf,
    },
    /// Creates or changes a file or a folder.
    Write {
        /// Path that is written.
        #[serde(serialize_with = "as_text")]
        path: PathBuf,
    },
    /// Removes a file, or a folder and everything below it.
    Delete {
        /// Path that is removed.
        #[serde(serialize_with = "as_text")]
        path: PathBuf,
    },
    /// Runs a program in a cell.
    Run {
        /// Command to run.
        command: CommandLine,
        /// Working directory of the command.
        #[serde(serialize_with = "as_text")]
        directory: PathBuf,
    },
    /// Connects to another machine.
    Connect {
        /// Host name or address, without brackets.
        host: String,
        /// TCP port.
        port: u16,
        /// HTTP method, if the protocol has one.
        method: Option<String>,
        /// True if the tool only queries the host although the method does not say so, such as a
        /// query by POST. No argument of a call can set this field.
        #[serde(default, skip_serializing_if = "is_false")]
        only_asks: bool,
    },
    /// Performs one action at a host, in addition to the connection. An approval covers this action
    /// and no other action there.
    Act {
        /// Host of the action.
        host: String,
        /// Action and its target, such as `send mail to ada@example.com`.
        what: String,
    },
    /// Opens a page in a browser, or uses one.
    Browse {
        /// Origin of the page: scheme, host and port, such as `https://example.com`.
        origin: String,
        /// Host of the origin.
        host: String,
        /// Port of the origin.
        port: u16,
        /// Reach of the use.
        access: PageAccess,
        /// Action and its target, such as `submit the form Search`.
        what: String,
    },
    /// Sends a secret to a host.
    UseSecret {
        /// Name of the secret in the vault.
        name: String,
        /// Host that receives the secret.
        host: String,
    },
    /// Changes a database.
    DatabaseWrite {
        /// Kind of the statement, such as `insert`.
        statement: String,
    },
    /// Stores, changes or removes work that runs later without the caller. The work itself is decided on
    /// when it runs.
    Schedule {
        /// Name, times and action, such as `nightly, every day at 3am: cargo test`.
        what: String,
    },
    /// Calls a tool of another program, such as an MCP server, which acts in its own cell or on another machine.
    UseTool {
        /// Name of the program in the configuration.
        server: String,
        /// Name of the tool at the program.
        tool: String,
        /// Hash of the tool's definition. An approval ends with the definition that it was given for.
        definition: String,
    },
    /// Changes Handfast itself: its policy, its plugins, its source.
    ChangeHandfast {
        /// Part of Handfast that is changed.
        what: String,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference over")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Returns a path as text. Each byte that is not UTF-8 becomes `\xNN`, so that different paths stay
/// different.
///
/// A symbolic link in the workspace may lead to a path of any bytes. A plan with such a path must
/// still be recorded and compared with the plan that was approved.
pub fn path_text(path: &Path) -> String {
    let mut text = String::with_capacity(path.as_os_str().len());
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path_text(path))
}

/// Effects that the policy decided on, for a tool that checks before it acts that they are still those of
/// the page in front of it.
#[derive(Debug, Clone)]
pub struct DecidedEffects(pub Vec<Effect>);

/// Command in the form that the caller gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandLine {
    /// Command line for the shell.
    Shell(String),
    /// Program and its arguments, without a shell.
    Argv(Vec<String>),
    /// Text for a program that is already running. Its effect depends on that program, which may be
    /// a shell, and on everything that was typed before.
    Typed {
        /// Session in which the program runs.
        session: String,
        /// Text to type.
        text: String,
    },
}

/// Reach of what a browser does on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageAccess {
    /// Opens the page, types or scrolls: what a reader does.
    Use,
    /// Submits, downloads, or takes cookies: what may act for the user or leave the page with data.
    Submit,
}

impl PageAccess {
    /// Returns the word for this access in texts.
    pub fn as_str(self) -> &'static str {
        match self {
            PageAccess::Use => "use",
            PageAccess::Submit => "submit on",
        }
    }
}

/// Kind of access to a path, on which path rules decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reads the content or the listing.
    Read,
    /// Creates, changes or removes the content or the entry.
    Write,
}

impl Effect {
    /// Returns the path that this effect touches, with the kind of access, if the effect has a path.
    pub fn path(&self) -> Option<(Access, &Path)> {
        match self {
            Effect::Read { path } => Some((Access::Read, path)),
            Effect::Write { path } | Effect::Delete { path } => Some((Access::Write, path)),
            _ => None,
        }
    }

    /// Returns true if the effect leaves this machine, so that its intent must be on disk before it
    /// happens. A connection to a loopback address of the machine itself does not leave it.
    pub fn leaves_the_machine(&self) -> bool {
        match self {
            Effect::Connect { host, .. } | Effect::Browse { host, .. } => {
                host != "localhost" && !host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            Effect::Act { .. } | Effect::UseSecret { .. } => true,
            _ => false,
        }
    }

    /// Returns true if the effect only queries another machine, by its method (RFC 9110, section
    /// 9.2.1) or by the tool's own declaration.
    pub fn only_asks(&self) -> bool {
        let is_safe = |method: &str| ["GET", "HEAD"].contains(&method);
        matches!(self, Effect::Connect { method, only_asks, .. } if *only_asks || method.as_deref().is_some_and(is_safe))
    }

    /// Returns true if the effect only reads.
    pub fn only_reads(&self) -> bool {
        matches!(self, Effect::Read { .. })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn what_is_said_to_this_machine_does_not_leave_it() {
        let connect = |host: &str| Effect::Connect {
            host: host.to_owned(),
            port: 80,
            method: Some("GET".to_owned()),
            only_asks: false,
        };
        for here in ["127.0.0.1", "127.9.8.7", "::1", "localhost"] {
            assert!(!connect(here).leaves_the_machine(), "{here}");
        }
        for away in ["example.com", "a.localhost", "localhost.example", "10.0.0.1", "0.0.0.0", "fe80::1"] {
            assert!(connect(away).leaves_the_machine(), "{away}");
        }
        let (name, host) = ("KEY".to_owned(), "127.0.0.1".to_owned());
        assert!(
            Effect::UseSecret { name, host }.leaves_the_machine(),
            "a secret is worth a flush wherever it goes"
        );
    }

    #[test]
    fn a_path_of_any_bytes_can_be_written_down_and_told_from_others() {
        let written = |bytes: &[u8]| {
            let path = PathBuf::from(OsStr::from_bytes(bytes));
            serde_json::to_value(Effect::Read { path }).unwrap()["path"].clone()
        };
        assert_eq!(written("/a/größe".as_bytes()), "/a/größe");
        assert_eq!(written(b"/a/\xff\xc3x"), "/a/\\xff\\xc3x");
        assert_ne!(written(b"/a/\xff"), written(b"/a/\xfe"));
    }
}
