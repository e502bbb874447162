use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};

/// One thing that a call would do to the world.
///
/// A tool's plan is a list of these, and the policy decides on nothing else.
/// Paths are absolute and lexically normal (no `.`, no `..`); the engine adds where they really lead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Reads a file, or a folder and all below it.
    Read {
        /// What is read.
        #[serde(serialize_with = "as_text")]
        path: PathBuf,
    },
    /// Creates or changes a file or a folder.
    Write {
        /// What is written.
        #[serde(serialize_with = "as_text")]
        path: PathBuf,
    },
    /// Removes a file, or a folder and all below it.
    Delete {
        /// What is removed.
        #[serde(serialize_with = "as_text")]
        path: PathBuf,
    },
    /// Runs a program in a cell.
    Run {
        /// What is run.
        command: CommandLine,
        /// The directory it starts in.
        #[serde(serialize_with = "as_text")]
        directory: PathBuf,
    },
    /// Speaks to another machine.
    Connect {
        /// A host name or address, without brackets.
        host: String,
        /// The TCP port.
        port: u16,
        /// The HTTP method, where there is one.
        method: Option<String>,
        /// Whether the tool itself only asks for what is there, although the method does not say so: a question by POST. No argument
        /// of a call sets it.
        #[serde(default, skip_serializing_if = "is_false")]
        only_asks: bool,
    },
    /// Does one thing at a host, beside connecting to it: a yes to it is one to this and to nothing else there.
    Act {
        /// The host.
        host: String,
        /// What is done there and to whom, such as `send mail to ada@example.com`.
        what: String,
    },
    /// Hands a secret to a host.
    UseSecret {
        /// The secret's name in the vault.
        name: String,
        /// The host that receives it.
        host: String,
    },
    /// Changes a database.
    DatabaseWrite {
        /// The statement's kind, such as `insert`.
        statement: String,
    },
    /// Changes Handfast itself: its policy, its plugins, its source.
    ChangeHandfast {
        /// What is changed.
        what: String,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference over")]
fn is_false(value: &bool) -> bool {
    !value
}

/// A path as text: every byte that is not UTF-8 as `\xNN`, so that different paths stay different.
///
/// A link in the workspace may lead to a path of any bytes, and a plan that could not be written down could be neither
/// recorded nor compared with the one that was approved.
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

/// A command as the caller gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandLine {
    /// A line for the shell.
    Shell(String),
    /// A program and its arguments, without a shell.
    Argv(Vec<String>),
    /// Text for a program that runs already. What it comes to depends on that program, which may be a shell, and on all
    /// that was typed before.
    Typed {
        /// The session in which the program runs.
        session: String,
        /// What is typed.
        text: String,
    },
}

/// What is done to a path, the part of an effect that path rules look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// The content or the listing is read.
    Read,
    /// The content or the entry is created, changed or removed.
    Write,
}

impl Effect {
    /// The path this effect touches and how, for the effects that touch one.
    pub fn path(&self) -> Option<(Access, &Path)> {
        match self {
            Effect::Read { path } => Some((Access::Read, path)),
            Effect::Write { path } | Effect::Delete { path } => Some((Access::Write, path)),
            _ => None,
        }
    }

    /// Whether the effect leaves this machine, so that its intent must be on disk before it happens. A connection to an address of
    /// the machine itself does not.
    pub fn leaves_the_machine(&self) -> bool {
        match self {
            Effect::Connect { host, .. } => {
                host != "localhost" && !host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            Effect::Act { .. } | Effect::UseSecret { .. } => true,
            _ => false,
        }
    }

    /// Whether the effect only asks another machine for what it has, by its method (RFC 9110, section 9.2.1) or as the tool says.
    pub fn only_asks(&self) -> bool {
        let is_safe = |method: &str| ["GET", "HEAD"].contains(&method);
        matches!(self, Effect::Connect { method, only_asks, .. } if *only_asks || method.as_deref().is_some_and(is_safe))
    }

    /// Whether the effect only reads.
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
